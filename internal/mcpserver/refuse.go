package mcpserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// refusedError is a refusal of the transport, with the status that the protocol
// gives it.
type refusedError struct {
	err    *parley.Error
	status int
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// HTTPStatus is for who answers with the error.
func (e *refusedError) HTTPStatus() int { return e.status }

// incoming is the body of a message. It keeps what a refusal needs: the beginning, and
// the error it ended with.
type incoming struct {
	io.ReadCloser
	kept   []byte
	failed error
}

// maxKeptBody is what is kept of a body, in bytes: a message that is refused for its
// method is small.
const maxKeptBody = 16 << 10

func (in *incoming) Read(p []byte) (int, error) {
	n, err := in.ReadCloser.Read(p)
	in.kept = append(in.kept, p[:min(n, maxKeptBody-len(in.kept))]...)
	if err != nil && err != io.EOF {
		in.failed = err
	}
	return n, err
}

func (in *incoming) failure() error {
	if in == nil {
		return nil
	}
	return in.failed
}

// id is the message's own, or null when it cannot be told.
func (in *incoming) id() any {
	var message struct{ ID any }
	if in == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(in.kept))
	d.UseNumber()
	if d.Decode(&message) != nil {
		return nil
	}
	switch message.ID.(type) {
	case string, json.Number:
		return message.ID
	}
	return nil
}

// unsupported is the refusal of a version in the header.
var unsupported = pattern.New(`^Bad Request: Unsupported protocol version \(supported versions: (.*)\)$`)

// ways maps what the SDK says in a plain-text refusal to a hint. The first that fits is
// taken.
var ways = []struct{ said, hint string }{
	{"Content-Type must be", "send application/json"},
	{"Accept must contain both", "send Accept: application/json, text/event-stream"},
	{"Accept must contain 'text", "send Accept: text/event-stream"},
	{"requires an Mcp-Session-Id", "send the Mcp-Session-Id that the answer to initialize had"},
	{"Last-Event-ID", "leave it out, or send the last id of a stream of this connection"},
	{"failed to replay", "connect again, with initialize"},
	{"session not found", "connect again, with initialize"},
	{"session is closing", "connect again, with initialize"},
	{"user mismatch", "connect again, with initialize"},
	{"conflicts with ongoing stream", "end the stream that is open, or go on with it"},
	{"batching is not supported", "send one message in each request"},
	{"Unsupported protocol version", "send a version of those as MCP-Protocol-Version"},
	{"not supported in stateless mode", "send the version of an older era as MCP-Protocol-Version"},
	{"failed to read body", "send the body again"},
}

// refuse rewords the SDK's plain-text refusals: an invalid JSON-RPC body gets a JSON-RPC
// error, everything else the one shape.
func (w *response) refuse(said string) {
	status := w.refused
	w.refused = 0
	w.Header().Del("Content-Type")
	w.Header().Del("X-Content-Type-Options")
	if failed := w.in.failure(); failed != nil {
		if _, ours := errors.AsType[*parley.Error](failed); ours { // the body did not come
			w.h.t.Fail(w.ResponseWriter, failed)
			return
		}
	}
	e, ok := worded(said)
	if m := unsupported.FindStringSubmatch(said); m != nil {
		e, ok = rpcError{badParams, "this version of the protocol is not spoken here", map[string]any{
			"requested": parley.Cut(w.asked.version, 40), "supported": strings.Split(m[1], ","), hint: "send one of these as MCP-Protocol-Version",
		}}, true
	}
	if w.post && ok {
		if w.in != nil && len(w.in.kept) == 0 { // it was refused by its headers
			_, _ = io.CopyN(io.Discard, w.in, maxKeptBody)
		}
		body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": w.in.id(), "error": e}) // plain data
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.ResponseWriter.WriteHeader(status)
		_, _ = w.ResponseWriter.Write(append(body, '\n'))
		return
	}
	code, todo := parley.CodeInvalid, ""
	switch status {
	case http.StatusNotFound:
		code = parley.CodeNotFound
	case http.StatusForbidden:
		code = parley.CodeForbidden
	case http.StatusRequestEntityTooLarge:
		code, todo = parley.CodeTooLarge, "send less at once"
	case http.StatusInternalServerError:
		code = parley.CodeInternal
	case http.StatusMethodNotAllowed:
		said, todo = w.asked.method+" is not possible here", "use "+w.Header().Get("Allow")
	}
	said = strings.TrimPrefix(said, "Bad Request: ")
	for _, way := range ways {
		if strings.Contains(said, way.said) {
			todo = way.hint
			break
		}
	}
	if code == parley.CodeInternal {
		said, todo = "the connection could not be served", "try again; the server's log says more"
	}
	todo = cmp.Or(todo, elsewhere)
	w.h.t.Fail(w.ResponseWriter, &refusedError{parley.Errorf(code, "%s", said).WithHint("%s", todo), status})
}
