package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/seam"
)

type loginInput struct {
	ID string `path:"id" maxLength:"64" doc:"The login."`
}

type finishInput struct {
	Body parley.LoginAnswer
}

type loginList struct {
	Logins []parley.Login `json:"logins" nullable:"false"`
}

type loginForgotten struct {
	Revoked bool `json:"revoked" doc:"Whether the authorization server says that it has revoked the tokens."`
}

func (s *Server) loginRoutes() {
	in := s.o.Logins
	if in == nil {
		in = login.New(login.Options{})
	}
	tags := []string{"logins"}
	route(s, huma.Operation{
		OperationID: "list-logins", Method: http.MethodGet, Path: "/v1/logins", Tags: tags,
		Summary: "List your logins at other services", Description: "Such as MCP servers, whose tools act for you. Tokens are never shown.",
	}, func(ctx context.Context, p parley.Principal, _ *struct{}) (*body[loginList], error) {
		list, err := in.List(ctx, p)
		return ok(loginList{some(list)}, err)
	})
	route(s, huma.Operation{
		OperationID: "finish-login", Method: http.MethodPost, Path: "/v1/logins", Tags: tags,
		Summary: "Finish a login with the answer of the authorization server",
		Description: "The page login.html does this. An answer is accepted once, for the user who began the login, and only from the authorization server where the login began. " +
			"Calls that wait for the login continue.",
	}, func(ctx context.Context, p parley.Principal, q *finishInput) (*body[parley.LoginFinished], error) {
		done, err := in.Finish(ctx, p, q.Body)
		if done.Link == "" {
			return nil, err
		}
		waited, aerr := s.answerLogin(ctx, p, done)
		if err == nil { // after a failure, the question shows another link
			err = aerr
		}
		done.Continues = waited
		return ok(done.LoginFinished, err)
	})
	route(s, huma.Operation{
		OperationID: "forget-login", Method: http.MethodDelete, Path: "/v1/logins/{id}", Tags: tags,
		Summary: "Forget a login", Description: "Its tokens are removed here, and revoked at the authorization server if it supports that. A call that needs the login asks you to log in again.",
	}, func(ctx context.Context, p parley.Principal, q *loginInput) (*body[loginForgotten], error) {
		revoked, err := in.Forget(ctx, p, q.ID)
		return ok(loginForgotten{revoked}, err)
	})
	route(s, huma.Operation{
		OperationID: "forget-logins", Method: http.MethodDelete, Path: "/v1/logins", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "Forget all your logins", Description: "Also removes everything else that is stored encrypted for you.",
	}, func(ctx context.Context, p parley.Principal, _ *struct{}) (*struct{}, error) {
		return nil, in.ForgetAll(ctx, p)
	})
}

// answerLogin answers all questions that wait for a login; waited reports whether there were any. It
// does no harm if a client answers one first, because the call checks itself whether its user is
// logged in.
func (s *Server) answerLogin(ctx context.Context, p parley.Principal, done login.Finished) (waited bool, err error) {
	var from seam.InteractionMark
	for {
		list, next, err := s.o.Engine.Inbox(ctx, p, from, 100)
		if err != nil {
			return waited, err
		}
		for _, in := range list {
			if in.URL != done.Link || in.Kind != parley.KindQuestion || !in.Open {
				continue
			}
			waited = true
			a := parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{}}, Client: clientName}
			for _, q := range in.Questions {
				if len(q.Options) > 0 {
					a.Answers[q.Question] = q.Options[0].Label
				}
			}
			if done.Denied {
				a.Answer = parley.Answer{Choice: parley.ChoiceDeny, Text: "the login was refused"}
			}
			if _, err := s.o.Engine.Answer(ctx, p, in.ID, a); err != nil && parley.CodeOf(err) != parley.CodeConflict && parley.CodeOf(err) != parley.CodeNotFound {
				return waited, err
			}
		}
		if next == (seam.InteractionMark{}) {
			return waited, nil
		}
		from = next
	}
}
