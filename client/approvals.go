package client

import (
	"context"
	"net/http"

	"github.com/parley-server/parley"
)

// Approvals lists what the files of a session's user and workspace would run, such as hooks,
// and the decision about each.
func (c *Client) Approvals(ctx context.Context, id parley.SessionID) ([]parley.Approval, error) {
	list, err := get[struct {
		Approvals []parley.Approval `json:"approvals"`
	}](ctx, c, call{method: http.MethodGet, path: p("/v1/sessions/%s/approvals", id)})
	return list.Approvals, err
}

// Approve decides about one of them: allowed, denied, or, with parley.ApprovalOpen, undecided
// again. It returns CodeNotFound if none has that digest; its file may have changed.
func (c *Client) Approve(ctx context.Context, id parley.SessionID, d parley.Digest, state parley.ApprovalState) (parley.Approval, error) {
	return get[parley.Approval](ctx, c, call{
		method: http.MethodPost, path: p("/v1/sessions/%s/approvals/%s", id, d), body: map[string]parley.ApprovalState{"state": state},
	})
}
