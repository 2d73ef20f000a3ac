package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parley-server/parley"
)

// LakeAt says which lake is meant. An empty app is the only one with lakes; an empty workspace is
// that of its new sessions.
type LakeAt struct {
	App       string
	Workspace parley.Workspace
}

func (l LakeAt) query() url.Values {
	q := url.Values{}
	if l.App != "" {
		q.Set("app", l.App)
	}
	if l.Workspace != "" {
		q.Set("workspace", string(l.Workspace))
	}
	return q
}

// Proposals lists the proposals for a lake, the newest first, without their findings. next is for
// after on the next page; it is empty on the last.
func (c *Client) Proposals(ctx context.Context, l LakeAt, after parley.ProposalID) (list []parley.Proposal, next parley.ProposalID, err error) {
	q := l.query()
	if after != "" {
		q.Set("after", string(after))
	}
	page, err := get[struct {
		Proposals []parley.Proposal `json:"proposals"`
		Next      parley.ProposalID `json:"next"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/proposals", query: q})
	return page.Proposals, page.Next, err
}

// Proposal reads a proposal with its report and its findings.
func (c *Client) Proposal(ctx context.Context, l LakeAt, id parley.ProposalID) (parley.Proposal, error) {
	return get[parley.Proposal](ctx, c, call{method: http.MethodGet, path: p("/v1/proposals/%s", id), query: l.query()})
}

// ProposalFinding reads a finding of a proposal, with the whole of its difference.
func (c *Client) ProposalFinding(ctx context.Context, l LakeAt, id parley.ProposalID, finding string) (f parley.ProposalFinding, err error) {
	q := l.query()
	q.Set("finding", finding)
	got, err := get[parley.Proposal](ctx, c, call{method: http.MethodGet, path: p("/v1/proposals/%s", id), query: q})
	if err == nil && len(got.Findings) == 1 {
		f = got.Findings[0]
	}
	return f, err
}

// ApplyFindings applies findings of a proposal. It can be repeated: nothing is applied twice.
func (c *Client) ApplyFindings(ctx context.Context, l LakeAt, id parley.ProposalID, d parley.DecideFindings) (parley.Proposal, error) {
	return get[parley.Proposal](ctx, c, call{method: http.MethodPost, path: p("/v1/proposals/%s/apply", id), query: l.query(), body: d})
}

// RejectFindings rejects findings of a proposal, so that they are not proposed again.
func (c *Client) RejectFindings(ctx context.Context, l LakeAt, id parley.ProposalID, d parley.DecideFindings) (parley.Proposal, error) {
	return get[parley.Proposal](ctx, c, call{method: http.MethodPost, path: p("/v1/proposals/%s/reject", id), query: l.query(), body: d})
}
