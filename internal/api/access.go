package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
)

type signInList struct {
	SignIns []auth.OwnSignIn `json:"sign_ins" nullable:"false"`
}

type keyList struct {
	Keys []auth.OwnKey `json:"keys" nullable:"false"`
}

type signedOut struct {
	URL string `json:"url,omitempty" doc:"Where the browser has to go to sign out at the issuer, too."`
}

type signOutOutput struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      signedOut
}

func (s *Server) accessRoutes() {
	in := s.o.Access
	if in == nil {
		in = &auth.Access{}
	}
	tags := []string{"access"}
	route(s, huma.Operation{
		OperationID: "get-me", Method: http.MethodGet, Path: "/v1/me", Tags: tags, Summary: "Who you are to this server",
		Description: "The user that this request acts as, and how it was identified.",
	}, func(ctx context.Context, _ parley.Principal, _ *struct{}) (*body[auth.Me], error) {
		me, err := in.Me(ctx)
		return ok(me, err)
	})
	route(s, huma.Operation{
		OperationID: "list-sign-ins", Method: http.MethodGet, Path: "/v1/me/signins", Tags: tags, Summary: "List the browsers that are signed in as you",
		Description: "The one that asks is marked.",
	}, func(ctx context.Context, p parley.Principal, _ *struct{}) (*body[signInList], error) {
		return ok(signInList{in.OwnSignIns(ctx, p)}, nil)
	})
	route(s, huma.Operation{
		OperationID: "end-sign-in", Method: http.MethodDelete, Path: "/v1/me/signins/{id}", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "Sign a browser out", Description: "Its requests are refused from now on, and its open streams end.",
	}, func(_ context.Context, p parley.Principal, q *struct {
		ID string `path:"id" maxLength:"64" doc:"The sign-in."`
	},
	) (*struct{}, error) {
		return nil, in.EndSignIn(p, q.ID)
	})
	route(s, huma.Operation{
		OperationID: "sign-out", Method: http.MethodPost, Path: "/v1/signout", Tags: tags, Summary: "Sign this browser out",
		Description: "For a browser that signed in at GET /v1/signin/{issuer}. Its cookie is removed, and its open streams end.",
	}, func(ctx context.Context, _ parley.Principal, _ *struct{}) (*signOutOutput, error) {
		next, gone, err := in.SignOut(ctx)
		if err != nil {
			return nil, err
		}
		return &signOutOutput{gone, signedOut{next}}, nil
	})
	route(s, huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: "/v1/me/keys", Tags: tags, Summary: "List the keys that act as you",
		Description: "A key itself is never shown. The command parley keys create makes one.",
	}, func(ctx context.Context, p parley.Principal, _ *struct{}) (*body[keyList], error) {
		list, err := in.OwnKeys(ctx, p)
		return ok(keyList{some(list)}, err)
	})
	route(s, huma.Operation{
		OperationID: "revoke-key", Method: http.MethodDelete, Path: "/v1/me/keys/{name}", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "Revoke a key that acts as you", Description: "Its requests are refused from now on, and its open streams end.",
	}, func(_ context.Context, p parley.Principal, q *struct {
		Name string `path:"name" maxLength:"128" doc:"The key's name."`
	},
	) (*struct{}, error) {
		return nil, in.RevokeKey(p, q.Name)
	})
}
