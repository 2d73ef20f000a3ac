package main

import (
	"github.com/parley-server/parley/internal/callout"
	"github.com/parley-server/parley/internal/tool/webhook"
)

// newWebhook makes the tools of a service that the app names under tools.http.
func newWebhook(d serviceDeps) (service, error) {
	o := webhook.Options{URL: d.toolset.HTTP.URL, Secret: d.toolset.HTTP.Secret, Private: d.toolset.HTTP.Private}
	for _, t := range d.toolset.HTTP.Tools {
		o.Tools = append(o.Tools, callout.Tool(t))
	}
	tools, err := webhook.New(o)
	if err != nil {
		return service{}, d.mistakes(err)
	}
	return service{Toolset: tools, secrets: []string{o.Secret}, start: func() {}, close: tools.Close}, nil
}
