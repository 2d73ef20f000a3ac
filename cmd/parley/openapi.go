package main

import (
	"context"
	"errors"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/tool/openapi"
)

// newOpenAPI makes tools of the operations that the app lists under tools.openapi.
func newOpenAPI(d serviceDeps) (service, error) {
	api := d.toolset.API
	o := openapi.Options{
		Name: api.File, Description: api.Description, URL: api.URL, BaseURL: api.BaseURL, Hosts: api.Hosts, Private: api.Private,
		Auth: openapi.Auth{Bearer: api.Auth.Bearer, Basic: openapi.Basic(api.Auth.Basic), Header: openapi.Pair(api.Auth.Header), Query: openapi.Pair(api.Auth.Query)},
	}
	for _, op := range api.Operations {
		o.Operations = append(o.Operations, openapi.Operation(op))
	}
	if api.File == "" && api.URL != "" {
		o.Name = "the description"
		var err error
		if o.Description, err = openapi.Fetch(context.Background(), api.URL, api.Private); err != nil {
			if !d.check && parley.CodeOf(err) == parley.CodeUnavailable {
				return service{}, &offError{says(err)} // the other apps need not wait for it
			}
			return service{}, d.mistakes(err)
		}
	}
	if o.Description == nil {
		return service{}, parley.Errorf(parley.CodeInvalid, "%w", config.Mistakes{}) // which is said already
	}
	tools, err := openapi.New(o)
	if err != nil {
		return service{}, d.mistakes(err)
	}
	return service{Toolset: tools, secrets: o.Auth.Secrets(), start: func() {}, close: tools.Close}, nil
}

// mistakes are those of a toolset's options, at the lines where the app's file has these.
func (d serviceDeps) mistakes(err error) error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // what New returns
		list = joined.Unwrap()
	}
	var wrong config.Mistakes
	for _, err := range list {
		at := d.toolset.At
		if e, ok := errors.AsType[*parley.Error](err); ok && e.Field != "" {
			at += "." + e.Field
		}
		wrong = append(wrong, d.app.Mistake(at, "%s", says(err)))
	}
	return parley.Errorf(parley.CodeInvalid, "%w", wrong)
}
