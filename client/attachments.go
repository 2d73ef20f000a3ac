package client

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/parley-server/parley"
)

// Attach gives a file to a session. A message has it when [parley.Send.Attachments] names its ID. The same file
// is given once, so Attach may be repeated; if the answer is lost, it repeats the request within [Options.Patience].
func (c *Client) Attach(ctx context.Context, session parley.SessionID, name string, body []byte) (parley.Attachment, error) {
	return patient(ctx, c, c.again(), func() (parley.Attachment, error) {
		a := call{method: http.MethodPost, path: p("/v1/sessions/%s/attachments", session), query: url.Values{"name": {name}}, raw: bytes.NewReader(body)}
		a.told, _ = ctx.Value(progressKey{}).(func(int64))
		return get[parley.Attachment](ctx, c, a.set("Content-Type", "application/octet-stream"))
	})
}

type progressKey struct{}

// WithProgress returns a context with which [Client.Attach] says how many bytes of the file have been sent. told is
// called from another goroutine, and begins again at a lower number when a request is repeated. After the last byte
// the server still reads the file.
func WithProgress(ctx context.Context, told func(sent int64)) context.Context {
	return context.WithValue(ctx, progressKey{}, told)
}

// counted is a body that says how much of it was read.
type counted struct {
	io.ReadCloser
	n    int64
	told func(int64)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if n > 0 {
		c.n += int64(n)
		c.told(c.n)
	}
	return n, err
}
