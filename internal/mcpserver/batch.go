package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/parley-server/parley"
)

// maxBatch is how many messages one request may have. Only the oldest version of the protocol has
// batches; hosts use them for a handful of messages.
const maxBatch = 50

// batch counts the messages of a batch in the body of r; 0: it is no batch, or cannot be read. Its
// error refuses a batch of too many. The body can be read again.
func (h *Handler) batch(r *http.Request) (n int, err error) {
	in, body := bufio.NewReader(r.Body), r.Body
	read := func(from io.Reader) {
		r.Body = struct {
			io.Reader
			io.Closer
		}{from, body}
	}
	read(in)
	if !startsWith(in, '[') {
		return 0, nil
	}
	raw, err := io.ReadAll(io.LimitReader(in, h.t.MaxBody+1))
	read(io.MultiReader(bytes.NewReader(raw), in))
	if err != nil || int64(len(raw)) > h.t.MaxBody { // who reads the body again says so
		return 0, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return 0, nil
	}
	for ; d.More(); n++ {
		if n == maxBatch {
			return 0, &refusedError{
				parley.Errorf(parley.CodeTooLarge, "the batch has more than %d messages", maxBatch).WithHint("send fewer in one request"),
				http.StatusRequestEntityTooLarge,
			}
		}
		var message json.RawMessage
		if d.Decode(&message) != nil {
			return 0, nil
		}
	}
	return n, nil
}

// startsWith reports whether the first byte behind white space, which it drops, is c.
func startsWith(in *bufio.Reader, c byte) bool {
	for {
		b, err := in.ReadByte()
		switch {
		case err != nil:
			return false
		case b == ' ', b == '\t', b == '\n', b == '\r':
			continue
		}
		return in.UnreadByte() == nil && b == c
	}
}

// openMore counts the messages of a batch after the first, which its request stands for.
func (h *Handler) openMore(r *http.Request, p parley.Principal, n int) (done func(), err error) {
	var all []func()
	done = func() {
		for _, f := range all {
			f()
		}
	}
	for range max(n-1, 0) {
		if h.t.Open == nil {
			break
		}
		f, err := h.t.Open(r.Context(), p)
		if err != nil {
			done()
			return nil, err
		}
		all = append(all, f)
	}
	return done, nil
}
