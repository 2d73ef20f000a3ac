package api

import (
	"context"

	"github.com/parley-server/parley"
)

// A caller may be limited to one app (Options.Only), like the page of an app at its own origin.
// Then an operation is allowed only if its input says which app it is about, and it is this
// app. All other operations, such as lists over all apps, are refused. So a new operation is
// refused by default.

// aboutApp is an input that says which app it is about, by the app's name or the id of an
// object in it.
type aboutApp interface {
	// of returns the app, or "" if the input is about all apps, or the error for an unknown id.
	of(ctx context.Context, e Engine, p parley.Principal) (app string, err error)
}

// unknowable is an input with an id of an object. If the object belongs to another app, the
// caller gets the same error as for an unknown id.
type unknowable interface {
	aboutApp
	// unknown returns the error for an unknown id.
	unknown(ctx context.Context, e Engine) error
}

// nobody is a principal without objects, for whom every id is unknown.
var nobody parley.Principal

// within returns an error if the caller is limited to an app and in is not about it.
func (s *Server) within(ctx context.Context, p parley.Principal, in any) error {
	if s.o.Only == nil {
		return nil
	}
	only := s.o.Only(ctx)
	if only == "" {
		return nil
	}
	a, ok := in.(aboutApp)
	if !ok {
		return beyond(only)
	}
	app, err := a.of(ctx, s.o.Engine, p)
	if err != nil || app == only {
		return err
	}
	if u, ok := in.(unknowable); ok {
		return u.unknown(ctx, s.o.Engine)
	}
	return beyond(only)
}

func beyond(only string) error {
	return parley.Errorf(parley.CodeForbidden, "only sessions of the app %s can be reached from here", only).
		WithHint("this address, or this key, is for the page of that app only; request a single session, or list the app's sessions with ?app=%s", only)
}

func (in SessionParam) of(ctx context.Context, e Engine, p parley.Principal) (string, error) {
	info, err := e.Session(ctx, p, in.ID)
	return info.App, err
}

func (in SessionParam) unknown(ctx context.Context, e Engine) error {
	_, err := e.Session(ctx, nobody, in.ID)
	return err
}

func (in TurnParam) of(ctx context.Context, e Engine, p parley.Principal) (string, error) {
	t, err := e.Turn(ctx, p, in.ID)
	if err != nil {
		return "", err
	}
	return SessionParam{t.SessionID}.of(ctx, e, p)
}

func (in TurnParam) unknown(ctx context.Context, e Engine) error {
	_, err := e.Turn(ctx, nobody, in.ID)
	return err
}

func (in InteractionParam) of(ctx context.Context, e Engine, p parley.Principal) (string, error) {
	i, err := e.Interaction(ctx, p, in.ID)
	if err != nil {
		return "", err
	}
	return SessionParam{i.Session}.of(ctx, e, p)
}

func (in InteractionParam) unknown(ctx context.Context, e Engine) error {
	_, err := e.Interaction(ctx, nobody, in.ID)
	return err
}

func (in artifactInput) of(ctx context.Context, e Engine, p parley.Principal) (string, error) {
	a, _, err := e.Artifact(ctx, p, in.ID)
	if err != nil {
		return "", err
	}
	return SessionParam{a.Session}.of(ctx, e, p)
}

func (in artifactInput) unknown(ctx context.Context, e Engine) error {
	_, _, err := e.Artifact(ctx, nobody, in.ID)
	return err
}

func (in createInput) of(context.Context, Engine, parley.Principal) (string, error) {
	return in.Body.App, nil
}

func (in listInput) of(context.Context, Engine, parley.Principal) (string, error) { return in.App, nil }

func (in AppParam) of(context.Context, Engine, parley.Principal) (string, error) { return in.App, nil }
