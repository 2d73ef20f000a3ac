package client

import (
	"bytes"
	"context"
	"net/http"
	"net/url"

	"github.com/parley-server/parley"
)

// Attach gives a file to a session. A message has it when [parley.Send.Attachments] names its ID. The same file
// is given once, so Attach may be repeated; if the answer is lost, it repeats the request within [Options.Patience].
func (c *Client) Attach(ctx context.Context, session parley.SessionID, name string, body []byte) (parley.Attachment, error) {
	return patient(ctx, c, c.again(), func() (parley.Attachment, error) {
		a := call{method: http.MethodPost, path: p("/v1/sessions/%s/attachments", session), query: url.Values{"name": {name}}, raw: bytes.NewReader(body)}
		return get[parley.Attachment](ctx, c, a.set("Content-Type", "application/octet-stream"))
	})
}
