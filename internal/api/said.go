package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/strict"
	"github.com/parley-server/parley/internal/wire"
)

// command is what a client says over a WebSocket.
type command struct {
	Do          string               `json:"do"`
	ID          string               `json:"id"`
	Key         string               `json:"key"`
	Session     parley.SessionID     `json:"session"`
	After       int64                `json:"after"`
	Turn        parley.TurnID        `json:"turn"`
	Interaction parley.InteractionID `json:"interaction"`
	Body        json.RawMessage      `json:"body"`
}

// reply answers a command.
type reply struct {
	Type   string          `json:"type"`
	ID     string          `json:"id,omitempty"`
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// maxCommandID is the most bytes of a command's id, which is sent back.
const maxCommandID = 128

// said carries out a command. Each is carried out by the operation of the same name: what holds for
// that holds here.
func (t *talk) said(ctx context.Context, message []byte) []byte {
	// The stream counts what it holds itself.
	ctx, done := wire.Carried(ctx, nil)
	defer done()
	out := recorder{head: http.Header{}}
	c, err := readCommand(message)
	if err == nil {
		var here bool
		if here, err = t.local(ctx, c); here && err == nil {
			out.WriteHeader(http.StatusNoContent)
		} else if !here {
			var r *http.Request
			if r, err = t.request(ctx, c); err == nil {
				t.s.mux.ServeHTTP(&out, r)
			}
		}
	}
	if err != nil {
		WriteError(&out, t.s.fail(ctx, huma.Operation{OperationID: "connect"}, err))
	}
	answer := reply{Type: "reply", ID: c.ID, Status: out.status}
	refused := out.status >= http.StatusBadRequest
	if refused {
		var p struct{ Error json.RawMessage }
		_ = json.Unmarshal(out.body.Bytes(), &p) // it is our own
		answer.Error = p.Error
	} else {
		answer.Body = out.body.Bytes()
	}
	raw, _ := json.Marshal(answer) // likewise
	if refused && t.s.o.Redact != nil {
		raw = t.s.o.Redact(raw)
	}
	return raw
}

func readCommand(message []byte) (c command, err error) {
	const form = `send {"do": "send", "body": {"message": "..."}}; the commands are described at /docs`
	if wrong := strict.JSON(message); wrong != nil {
		return c, wrong
	}
	if field, unknown := strict.Keys(message, "do", "id", "key", "session", "after", "turn", "interaction", "body"); unknown {
		return c, invalid(field, "the field %q is not known here", field).WithHint(form)
	}
	if err := json.Unmarshal(message, &c); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			must := "text"
			if wrong.Field == "after" {
				must = "a whole number"
			}
			return c, invalid(wrong.Field, "the field %q is a %s; it must be %s", wrong.Field, wrong.Value, must).WithHint(form)
		}
		return c, invalid("", "the message is not a JSON object: %w", err).WithHint(form)
	}
	if len(c.ID) > maxCommandID {
		c.ID = ""
		return c, invalid("id", "the id has more than %d bytes", maxCommandID)
	}
	return c, nil
}

// request is the request of the operation.
func (t *talk) request(ctx context.Context, c command) (*http.Request, error) {
	op, ok := operationOf[c.Do]
	if !ok || t.set == nil && c.Do == "create" {
		return nil, invalid("do", "there is no command %q", parley.Cut(c.Do, 40)).WithHint("commands: %s", t.commands())
	}
	if op.in == "session" && t.set == nil {
		if c.Session != "" && c.Session != t.session {
			return nil, invalid("session", "this connection is of the session %s alone", t.session).WithHint("a WebSocket at /v1/stream is for several sessions")
		}
		c.Session = t.session
	}
	path, names := op.path, []string{op.in}
	if strings.Contains(path, "{turn}") && op.in != "turn" {
		names = append(names, "turn")
	}
	for _, field := range names {
		of := map[string]string{"": "", "session": string(c.Session), "turn": string(c.Turn), "interaction": string(c.Interaction)}[field]
		if field == "" {
			continue
		}
		if of == "" || strings.ContainsAny(of, "/.") {
			return nil, invalid(field, "%q is not the id of %s", parley.Cut(of, 40), article[field]).WithHint("the frames of the log have it")
		}
		path = strings.Replace(path, "{"+field+"}", url.PathEscape(of), 1)
	}
	var body io.Reader = http.NoBody
	if len(c.Body) > 0 {
		body = bytes.NewReader(c.Body)
	}
	r, err := http.NewRequestWithContext(ctx, op.method, path, body)
	if err != nil {
		return nil, invalid(op.in, "this is not an id")
	}
	if len(c.Body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Key != "" {
		r.Header.Set(keyHeader, c.Key)
	}
	return r, nil
}

var article = map[string]string{"session": "a session", "turn": "a turn", "interaction": "an interaction"}

// operationOf are the operations of commands: in is the field that names what it is about.
var operationOf = map[string]struct{ in, method, path string }{
	"create":  {"", http.MethodPost, "/v1/sessions"},
	"send":    {"session", http.MethodPost, "/v1/sessions/{session}/turns"},
	"rewind":  {"session", http.MethodPost, "/v1/sessions/{session}/rewind"},
	"fork":    {"session", http.MethodPost, "/v1/sessions/{session}/fork"},
	"end":     {"session", http.MethodPost, "/v1/sessions/{session}/end"},
	"update":  {"session", http.MethodPatch, "/v1/sessions/{session}"},
	"unqueue": {"session", http.MethodDelete, "/v1/sessions/{session}/queue/{turn}"},
	"answer":  {"interaction", http.MethodPost, "/v1/interactions/{interaction}/answer"},
	"claim":   {"interaction", http.MethodPost, "/v1/interactions/{interaction}/claim"},
	"report":  {"interaction", http.MethodPost, "/v1/interactions/{interaction}/report"},
	"cancel":  {"turn", http.MethodPost, "/v1/turns/{turn}/cancel"},
	"resume":  {"turn", http.MethodPost, "/v1/turns/{turn}/resume"},
	"retry":   {"turn", http.MethodPost, "/v1/turns/{turn}/retry"},
}

func (t *talk) commands() string {
	names := []string{"ping"}
	if t.set != nil {
		names = append(names, "subscribe", "unsubscribe")
	}
	for name := range operationOf {
		if name != "create" || t.set != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// recorder keeps the answer of an operation.
type recorder struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.head }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}
