package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/strict"
	"github.com/parley-server/parley/internal/wire"
)

// socketDoc says what goes over the WebSocket, which OpenAPI has no words for.
const socketDoc = "As " + linesPath + ", over a WebSocket: each text message is one such object. The client may say, in a text message each, " +
	"{\"do\": \"send\", \"id\", \"key\", \"body\"}, {\"do\": \"answer\", \"claim\" or \"report\", \"id\", \"interaction\", \"body\"}, {\"do\": \"cancel\" or \"resume\", \"id\", \"turn\"}, {\"do\": \"retry\", \"id\", \"turn\", \"key\"} and {\"do\": \"rewind\", \"id\", \"key\", \"body\"}. " +
	"id is the client's own, body that of the operation of this name, and key its Idempotency-Key. Each is answered with {\"type\": \"reply\", \"id\", \"status\", \"body\" or \"error\"}. " +
	"The order of replies and frames of the log means nothing.  " +
	"The connection is closed with 1000 when it is over, 1001 when it is worth connecting again with the cursor, and 1003, 1007, 1008 or 1009 when what the client said was not text, not UTF-8, too much or too large."

func (s *Server) socketRoute(tags []string) {
	route(s, huma.Operation{
		OperationID: "connect", Method: http.MethodGet, Path: socketPath, Tags: tags, Summary: "Follow a session's log over a WebSocket, and send commands",
		Description: socketDoc,
		Responses: map[string]*huma.Response{
			"101": {Description: "The connection is a WebSocket now."},
			"426": {Ref: "#/components/responses/" + refusals[http.StatusUpgradeRequired].name},
		},
	}, func(ctx context.Context, p parley.Principal, in *followInput) (*struct{}, error) { // HEAD
		if err := s.o.Reader.Check(ctx, p, in.ID, 0); err != nil {
			return nil, err
		}
		return nil, &refusedAs{parley.Errorf(parley.CodeInvalid, "this path is for WebSockets").
			WithHint("connect with a WebSocket client, to ws:// or wss://"), http.StatusUpgradeRequired}
	})
}

// socket serves a session's log over a WebSocket, which takes commands.
func (s *Server) socket(id parley.SessionID) func(http.ResponseWriter, *http.Request, *stream) error {
	return func(w http.ResponseWriter, r *http.Request, st *stream) error {
		return wire.ServeSocket(w, r, st.frames, wire.Native(), wire.Socket{
			MaxInput: s.o.MaxBody,
			Input:    func(ctx context.Context, message []byte) []byte { return s.said(ctx, id, message) },
		}, st.o)
	}
}

// command is what a client says over a WebSocket.
type command struct {
	Do          string               `json:"do"`
	ID          string               `json:"id"`
	Key         string               `json:"key"`
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

// said carries out a command by the operation of the same name: what holds for that holds here.
func (s *Server) said(ctx context.Context, id parley.SessionID, message []byte) []byte {
	// The stream counts what it holds itself.
	ctx, done := wire.Carried(ctx, nil)
	defer done()
	out := recorder{head: http.Header{}}
	c, err := readCommand(message)
	if err == nil {
		var r *http.Request
		if r, err = c.request(ctx, id); err == nil {
			s.mux.ServeHTTP(&out, r)
		}
	}
	if err != nil {
		WriteError(&out, err)
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
	if refused && s.o.Redact != nil {
		raw = s.o.Redact(raw)
	}
	return raw
}

func readCommand(message []byte) (c command, err error) {
	const form = `send {"do": "send", "body": {"message": "..."}}; the commands are described at /docs`
	if wrong := strict.JSON(message); wrong != nil {
		return c, wrong
	}
	if field, unknown := strict.Keys(message, "do", "id", "key", "turn", "interaction", "body"); unknown {
		return c, invalid(field, "the field %q is not known here", field).WithHint(form)
	}
	if err := json.Unmarshal(message, &c); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return c, invalid(wrong.Field, "the field %q is a %s; it must be text", wrong.Field, wrong.Value).WithHint(form)
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
func (c command) request(ctx context.Context, id parley.SessionID) (*http.Request, error) {
	session := "/v1/sessions/" + url.PathEscape(string(id))
	path := session + "/turns"
	field, of, what := "", "", ""
	switch c.Do {
	case "send":
	case "rewind":
		path = session + "/rewind"
	case "answer", "claim", "report":
		field, of, what = "interaction", string(c.Interaction), "an interaction"
		path = "/v1/interactions/" + url.PathEscape(of) + "/" + c.Do
	case "cancel", "resume", "retry":
		field, of, what = "turn", string(c.Turn), "a turn"
		path = "/v1/turns/" + url.PathEscape(of) + "/" + c.Do
	default:
		return nil, invalid("do", "there is no command %q", parley.Cut(c.Do, 40)).WithHint("commands: send, answer, claim, report, cancel, resume, retry, rewind")
	}
	if field != "" && (of == "" || strings.ContainsAny(of, "/.")) {
		return nil, invalid(field, "%q is not the id of %s", parley.Cut(of, 40), what).WithHint("the frames of the log have it")
	}
	var body io.Reader = http.NoBody
	if len(c.Body) > 0 {
		body = bytes.NewReader(c.Body)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, invalid(field, "%q is not an id", parley.Cut(of, 40))
	}
	if len(c.Body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Key != "" {
		r.Header.Set(keyHeader, c.Key)
	}
	return r, nil
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
