package main

import (
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/callout"
	"github.com/parley-server/parley/internal/tool/webhook"
)

// newWebhook makes the tools of a service that the app names under tools.http.
func newWebhook(d app.ToolDeps) (app.Service, error) {
	o := webhook.Options{URL: d.Toolset.HTTP.URL, Secret: d.Toolset.HTTP.Secret, Private: d.Toolset.HTTP.Private}
	for _, t := range d.Toolset.HTTP.Tools {
		o.Tools = append(o.Tools, callout.Tool(t))
	}
	tools, err := webhook.New(o)
	if err != nil {
		return app.Service{}, d.Mistakes(err)
	}
	return app.Service{Toolset: tools, Secrets: []string{o.Secret}, Close: tools.Close}, nil
}
