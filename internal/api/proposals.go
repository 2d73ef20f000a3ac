package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tidy"
	"github.com/parley-server/parley/internal/userfiles"
)

// ProposalParam names a proposal in a lake. It is exported for the same reason as SessionParam.
type ProposalParam struct {
	LakeParam
	ID parley.ProposalID `path:"id" maxLength:"64" doc:"The proposal."`
}

type proposalsInput struct {
	LakeParam
	After parley.ProposalID `query:"after" maxLength:"64" doc:"The id of the last proposal on the page before."`
	Limit int               `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"At most so many."`
}

type decideInput struct {
	ProposalParam
	Body parley.DecideFindings
}

type proposalList struct {
	Proposals []parley.Proposal `json:"proposals" nullable:"false"`
	Next      parley.ProposalID `json:"next,omitempty" doc:"For after on the next page."`
}

func (s *Server) proposalRoutes() {
	if s.o.Files == nil {
		return
	}
	tags := []string{"proposals"}
	open := func(ctx context.Context, p parley.Principal, in LakeParam, change bool) (userfiles.Lake, error) {
		l, err := s.o.Files.Lake(ctx, userfiles.At{Principal: p, App: in.App, Workspace: in.Workspace})
		if err == nil && change {
			err = l.Changeable()
		}
		return l, err
	}
	route(s, huma.Operation{
		OperationID: "list-proposals", Method: http.MethodGet, Path: "/v1/proposals", Tags: tags, Summary: "List the proposals for a lake",
		Description: "The newest first, without their findings, with how many have each status. A proposal is a branch of the lake's repository; whoever may read the lake sees it.",
	}, func(ctx context.Context, p parley.Principal, in *proposalsInput) (*body[proposalList], error) {
		l, err := open(ctx, p, in.LakeParam, false)
		if err != nil {
			return nil, err
		}
		list, next, err := tidy.Page(ctx, l.Lake, in.After, in.Limit)
		return ok(proposalList{some(list), next}, err)
	})
	route(s, huma.Operation{
		OperationID: "get-proposal", Method: http.MethodGet, Path: "/v1/proposals/{id}", Tags: tags, Summary: "Read a proposal",
		Description: "With its report, and each finding with its difference and its status. A finding is stale when a page that it is about was changed since by others, also without a commit.",
	}, func(ctx context.Context, p parley.Principal, in *ProposalParam) (*body[parley.Proposal], error) {
		l, err := open(ctx, p, in.LakeParam, false)
		if err != nil {
			return nil, err
		}
		return ok(tidy.Read(ctx, l.Lake, in.ID))
	})
	route(s, huma.Operation{
		OperationID: "apply-proposal", Method: http.MethodPost, Path: "/v1/proposals/{id}/apply", Tags: tags, Summary: "Apply findings of a proposal",
		Description: "Each becomes one commit in your name, on top of what the lake has now. What was changed since by others is not touched: such a finding is stale, and stays so. " +
			"What has no change, was rejected or is applied already is left alone, so the request can be repeated. The answer is the proposal as it stands then.",
	}, func(ctx context.Context, p parley.Principal, in *decideInput) (*body[parley.Proposal], error) {
		l, err := open(ctx, p, in.LakeParam, true)
		if err != nil {
			return nil, err
		}
		return ok(tidy.Apply(ctx, l.Lake, in.ID, userfiles.AuthorOf(p), in.Body))
	})
	route(s, huma.Operation{
		OperationID: "reject-proposal", Method: http.MethodPost, Path: "/v1/proposals/{id}/reject", Tags: tags, Summary: "Reject findings of a proposal",
		Description: "They are not proposed again while the pages that they are about stay as they are. What is applied stays so.",
	}, func(ctx context.Context, p parley.Principal, in *decideInput) (*body[parley.Proposal], error) {
		l, err := open(ctx, p, in.LakeParam, true)
		if err != nil {
			return nil, err
		}
		return ok(tidy.Reject(ctx, l.Lake, in.ID, p.User, in.Body))
	})
}
