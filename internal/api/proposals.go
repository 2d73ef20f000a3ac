package api

import (
	"context"
	"net/http"
	"time"

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

type proposalInput struct {
	ProposalParam
	Finding string `query:"finding" maxLength:"64" doc:"Only this finding, with the whole of its difference."`
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
	route(s, huma.Operation{
		OperationID: "list-proposals", Method: http.MethodGet, Path: "/v1/proposals", Tags: tags, Summary: "List the proposals for a lake",
		Description: "The newest first, without their findings, with how many have each status. A proposal is a branch of the lake's repository; whoever may read the lake sees it. " +
			"One that somebody else has changed so that it cannot be read says so in problem. Of those in which everything is decided the last 20 are kept.",
	}, func(ctx context.Context, p parley.Principal, in *proposalsInput) (*body[proposalList], error) {
		return ok(withLake(ctx, s, p, in.LakeParam, false, func(l userfiles.Lake) (proposalList, error) {
			list, next, err := tidy.Page(ctx, l.Lake, in.After, in.Limit)
			return proposalList{some(list), next}, err
		}))
	})
	route(s, huma.Operation{
		OperationID: "get-proposal", Method: http.MethodGet, Path: "/v1/proposals/{id}", Tags: tags, Summary: "Read a proposal",
		Description: "With its report, and each finding with its difference and its status. The difference is what applying the finding would change now; if it has more than 16 KB, it is cut, and says so. " +
			"A finding is stale when its change does not fit, because a page was changed since by others, also without a commit.",
	}, func(ctx context.Context, p parley.Principal, in *proposalInput) (*body[parley.Proposal], error) {
		return ok(withLake(ctx, s, p, in.LakeParam, false, func(l userfiles.Lake) (parley.Proposal, error) {
			return tidy.Read(ctx, l.Lake, in.ID, in.Finding)
		}))
	})
	route(s, huma.Operation{
		OperationID: "apply-proposal", Method: http.MethodPost, Path: "/v1/proposals/{id}/apply", Tags: tags, Summary: "Apply findings of a proposal",
		Description: "Each becomes one commit in your name, on top of what the lake has now. What was changed since by others is not touched: such a finding is stale, and stays so. " +
			"What has no change, was rejected or is applied already is left alone, so the request can be repeated. With all, findings whose difference is cut are left alone, too. " +
			"With version, nothing is done if the proposal is not the one that was read. The answer is the proposal as it stands then.",
	}, func(ctx context.Context, p parley.Principal, in *decideInput) (*body[parley.Proposal], error) {
		return ok(withLake(ctx, s, p, in.LakeParam, true, func(l userfiles.Lake) (parley.Proposal, error) {
			return tidy.Apply(ctx, l.Lake, in.ID, userfiles.AuthorOf(p), time.Now(), in.Body)
		}))
	})
	route(s, huma.Operation{
		OperationID: "reject-proposal", Method: http.MethodPost, Path: "/v1/proposals/{id}/reject", Tags: tags, Summary: "Reject findings of a proposal",
		Description: "They are not proposed again while the pages that they are about stay as they are. What is applied stays so.",
	}, func(ctx context.Context, p parley.Principal, in *decideInput) (*body[parley.Proposal], error) {
		return ok(withLake(ctx, s, p, in.LakeParam, true, func(l userfiles.Lake) (parley.Proposal, error) {
			return tidy.Reject(ctx, l.Lake, in.ID, p.User, time.Now(), in.Body)
		}))
	})
}
