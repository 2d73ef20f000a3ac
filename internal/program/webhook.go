package program

import (
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/callout"
	"github.com/parley-server/parley/internal/tool/webhook"
)

// newWebhook makes the tools of a service that the app names under tools.http.
func newWebhook(d app.ToolDeps) (app.Service, error) {
	h := d.Toolset.HTTP
	o := webhook.Options{URL: h.URL, Secret: h.Secret, Auth: authOf(h.Auth), Private: h.Private, Clean: d.Clean}
	for _, t := range d.Toolset.HTTP.Tools {
		o.Tools = append(o.Tools, callout.Tool(t))
	}
	tools, err := webhook.New(o)
	if err != nil {
		return app.Service{}, d.Mistakes(err)
	}
	return app.Service{Toolset: tools, Secrets: append(o.Auth.Secrets(), o.Secret), Close: tools.Close}, nil
}
