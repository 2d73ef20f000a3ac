package mcpserver

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/parley-server/parley"
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

// incoming is the body of a message, of which it keeps what a refusal needs: the
// beginning, and why it ended.
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

// id is the message's own, or null when it can not be told.
func (in *incoming) id() any {
	var message struct{ ID any }
	if in == nil || json.Unmarshal(in.kept, &message) != nil {
		return nil
	}
	switch message.ID.(type) {
	case string, float64:
		return message.ID
	}
	return nil
}

// rpcError is the error that JSON-RPC has for what the SDK says in plain text; 0 when
// it has none.
func rpcError(said string) (code int64, message string) {
	if said == "POST requires a non-empty body" {
		return jsonrpc.CodeParseError, "the body is not a message of JSON-RPC: it is empty"
	}
	for _, known := range []struct {
		prefix string
		code   int64
		means  string
	}{
		{"malformed payload: ", jsonrpc.CodeParseError, "the body is not a message of JSON-RPC: "},
		{"JSON RPC not handled: ", jsonrpc.CodeMethodNotFound, "there is no such method: "},
		{"invalid request: ", jsonrpc.CodeInvalidRequest, "the request is not right: "},
	} {
		if why, ok := strings.CutPrefix(said, known.prefix); ok {
			return known.code, known.means + why
		}
	}
	return 0, ""
}

// uncoded is the answer to a request whose parameters have a wrong type, which the SDK
// gives no code.
var uncoded = regexp.MustCompile(`^(?:(?:event|id): [^\n]*\n)*(?:data: )?\{"jsonrpc":"2\.0","id":(?:"[^"]*"|[0-9]+),"error":\{"code":(0),"message":"handling `)

// misfit gives such an answer the code that JSON-RPC has for it.
func misfit(b []byte) (fixed []byte, ok bool) {
	at := uncoded.FindSubmatchIndex(b)
	if at == nil {
		return nil, false
	}
	return slices.Concat(b[:at[2]], strconv.AppendInt(nil, jsonrpc.CodeInvalidParams, 10), b[at[3]:]), true
}

// refuse answers in the place of the SDK, which says what it does not take in plain
// text: a body that is no JSON-RPC with the error that JSON-RPC has for it,
// everything else in the one shape.
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
	if code, message := rpcError(said); w.post && code != 0 {
		body, _ := json.Marshal(map[string]any{ // plain data
			"jsonrpc": "2.0", "id": w.in.id(),
			"error": map[string]any{"code": code, "message": message},
		})
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.ResponseWriter.WriteHeader(status)
		_, _ = w.ResponseWriter.Write(append(body, '\n'))
		return
	}
	code, hint := parley.CodeInvalid, ""
	switch status {
	case http.StatusNotFound:
		code, hint = parley.CodeNotFound, "connect anew, with initialize"
	case http.StatusForbidden:
		code = parley.CodeForbidden
	case http.StatusRequestEntityTooLarge:
		code = parley.CodeTooLarge
	case http.StatusInternalServerError:
		code = parley.CodeInternal
	}
	e := parley.Errorf(code, "%s", said)
	if hint != "" {
		e = e.WithHint("%s", hint)
	}
	w.h.t.Fail(w.ResponseWriter, &refusedError{e, status})
}
