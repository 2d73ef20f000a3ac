package main

import (
	"errors"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/tool/webhook"
)

// newWebhook makes the tools of a service that the app names under tools.http.
func newWebhook(d serviceDeps) (service, error) {
	o := webhook.Options{URL: d.toolset.HTTP.URL, Secret: d.toolset.HTTP.Secret, Private: d.toolset.HTTP.Private}
	for _, t := range d.toolset.HTTP.Tools {
		o.Tools = append(o.Tools, webhook.Tool(t))
	}
	tools, err := webhook.New(o)
	if err != nil {
		at := d.toolset.At
		if e, ok := errors.AsType[*parley.Error](err); ok && e.Field != "" {
			at += "." + e.Field
		}
		return service{}, parley.Errorf(parley.CodeInvalid, "%w", config.Mistakes{d.app.Mistake(at, "%s", says(err))})
	}
	return service{Toolset: tools, secrets: []string{o.Secret}, start: func() {}, close: tools.Close}, nil
}
