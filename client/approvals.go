package client

import (
	"context"
	"net/http"

	"github.com/parley-server/parley"
)

// Approvals lists what files of a session's user and workspace would run, such as hooks,
// and what was decided about each.
func (c *Client) Approvals(ctx context.Context, id parley.SessionID) ([]parley.Approval, error) {
	list, err := get[struct {
		Approvals []parley.Approval `json:"approvals"`
	}](ctx, c, call{method: http.MethodGet, path: p("/v1/sessions/%s/approvals", id)})
	return list.Approvals, err
}

// Approve decides about one of them: it may run, it may not, or, with
// parley.ApprovalOpen, nothing is decided any more. CodeNotFound: there is none with that
// digest; its file may have changed.
func (c *Client) Approve(ctx context.Context, id parley.SessionID, d parley.Digest, state parley.ApprovalState) (parley.Approval, error) {
	return get[parley.Approval](ctx, c, call{
		method: http.MethodPost, path: p("/v1/sessions/%s/approvals/%s", id, d), body: map[string]parley.ApprovalState{"state": state},
	})
}
