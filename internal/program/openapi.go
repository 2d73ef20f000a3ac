package program

import (
	"context"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/tool/openapi"
)

// authOf is what lets calls in, as their toolset takes it.
func authOf(a config.ToolAuth) httpcall.Auth {
	return httpcall.Auth{
		PlainHTTP: a.PlainHTTP,
		Bearer:    httpcall.Secret(a.Bearer), Basic: httpcall.Basic{User: a.Basic.User, Password: httpcall.Secret(a.Basic.Password)},
		Header: httpcall.Pair{Name: a.Header.Name, Value: httpcall.Secret(a.Header.Value)}, Query: httpcall.Pair{Name: a.Query.Name, Value: httpcall.Secret(a.Query.Value)},
	}
}

// newOpenAPI makes tools of the operations that the app lists under tools.openapi.
func newOpenAPI(d app.ToolDeps) (app.Service, error) {
	api := d.Toolset.API
	o := openapi.Options{
		Name: api.File, Description: api.Description, URL: api.URL, BaseURL: api.BaseURL, Hosts: api.Hosts, Private: api.Private,
		Clean: d.Clean, Auth: authOf(api.Auth),
	}
	for _, op := range api.Operations {
		o.Operations = append(o.Operations, openapi.Operation(op))
	}
	if api.File == "" && api.URL != "" {
		o.Name = "the description"
		var err error
		if o.Description, err = openapi.Fetch(context.Background(), api.URL, api.Private); err != nil {
			if !d.Check && parley.CodeOf(err) == parley.CodeUnavailable {
				return app.Service{}, &app.Off{Why: app.Says(err)} // the other apps need not wait for it
			}
			return app.Service{}, d.Mistakes(err)
		}
	}
	if o.Description == nil {
		return app.Service{}, parley.Errorf(parley.CodeInvalid, "%w", config.Mistakes{}) // which is said already
	}
	tools, err := openapi.New(o)
	if err != nil {
		return app.Service{}, d.Mistakes(err)
	}
	return app.Service{Toolset: tools, Secrets: o.Auth.Secrets(), Close: tools.Close}, nil
}
