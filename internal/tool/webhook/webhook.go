// Package webhook is a toolset over a service of the operator's own: each call is a
// signed POST to it.
//
// The request's body is JSON, {"type": "tool.call", "timestamp", "data": {"call", "tool",
// "input", "app", "session", "user", "org", "attempt"}}. It is signed by the Standard
// Webhooks scheme (github.com/standard-webhooks/standard-webhooks, spec): webhook-id is
// the call's id, and a library of any language checks webhook-signature with the secret.
// Idempotency-Key is the call's id too. Both are the same at every attempt of a call.
//
// The status of the answer says what happened:
//
//   - 2xx: it is done. The body is the result, JSON or text; a body of another type
//     becomes an artifact.
//   - 4xx, except 408: nothing was done. The body says why, as text or as
//     {"error": {"message", "hint"}}; the model reads it.
//   - anything else, or no answer: a read failed. Whether a write happened is unknown:
//     it is not repeated, and the service or a person is asked.
//
// A tool with Reconcile can be asked: {"type": "tool.reconcile"} with the same data, and
// "_reconcile" behind the call's id in webhook-id. It answers {"happened": true, "output"}
// or {"happened": false}; {"happened": null} and every other answer leave it open. A no is
// believed only when the call's time is up. It also promises that the call will not happen
// later.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/seam"
)

// maxAnswer bounds what is read of an answer, in bytes; maxRefusal what is read of one
// that refuses.
const (
	maxAnswer  = 8 << 20
	maxRefusal = 16 << 10
)

// minSecret is the least length of a secret's key in bytes, by the specification.
const minSecret = 24

// Options say where the service is and what it can do.
type Options struct {
	URL     string   // http or https; calls are posted to it
	Secret  string   // signs the calls: whsec_ and 24 bytes or more in base64
	Private []string // see dial.New
	Tools   []Tool
	Now     func() time.Time // nil: time.Now
}

// Tool is one tool of the service.
type Tool struct {
	parley.ToolDecl
	Reconcile bool // the service can be asked what became of a call
}

// Toolset implements [seam.Toolset] and [seam.Reconciler]. It is safe for concurrent use.
type Toolset struct {
	o     Options
	sign  *webhooks.Webhook
	reads *http.Client
	fresh *http.Client // for calls with effects
	tools map[string]Tool
}

// New makes a toolset. An error names the option that is wrong.
func New(o Options) (*Toolset, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%q is no address of a service", withoutUser(o.URL)).WithField("url").
			WithHint("write http:// or https:// and a host; a password goes into the secret")
	}
	guard, err := dial.New([]string{u.Hostname()}, o.Private)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithField("private")
	}
	key, ok := strings.CutPrefix(o.Secret, "whsec_")
	sign, err := webhooks.NewWebhook(key)
	if !ok || err != nil || len(key) < (minSecret*4+2)/3 {
		return nil, parley.Errorf(parley.CodeInvalid, "is no signing secret").WithField("secret").
			WithHint(`make one with: echo "whsec_$(openssl rand -base64 32)"`)
	}
	t := &Toolset{o: o, sign: sign, reads: guard.Client(false), fresh: guard.Client(true), tools: map[string]Tool{}}
	if t.o.Now == nil {
		t.o.Now = time.Now
	}
	for _, tool := range o.Tools {
		t.tools[tool.Name] = tool
	}
	return t, nil
}

func withoutUser(raw string) string {
	if i := strings.LastIndexByte(raw, '@'); i >= 0 {
		return "…" + raw[i:]
	}
	return raw
}

// Close ends idle connections.
func (t *Toolset) Close() { t.reads.CloseIdleConnections() }

// Tools implements [seam.Toolset].
func (t *Toolset) Tools(context.Context) ([]parley.ToolDecl, error) {
	list := make([]parley.ToolDecl, 0, len(t.o.Tools))
	for _, tool := range t.o.Tools {
		list = append(list, tool.ToolDecl)
	}
	return list, nil
}

// message is what is posted.
type message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      call      `json:"data"`
}

type call struct {
	Call    parley.CallID    `json:"call"`
	Tool    string           `json:"tool"`
	Input   json.RawMessage  `json:"input"`
	App     string           `json:"app"`
	Session parley.SessionID `json:"session"`
	User    string           `json:"user"`
	Org     string           `json:"org,omitempty"`
	Attempt int              `json:"attempt"`
}

// post sends one message. An error that is NotSent left nothing with the service.
func (t *Toolset) post(ctx context.Context, kind, id string, r seam.Run) (*http.Response, error) {
	now := t.o.Now().UTC()
	body, err := json.Marshal(message{kind, now.Truncate(time.Millisecond), call{
		r.Call, r.Name, r.Input, r.App, r.Session, r.Principal.User, r.Principal.Org, max(r.Attempt, 1),
	}})
	if err != nil {
		return nil, seam.NotSent(err)
	}
	signature, err := t.sign.Sign(id, now, body)
	if err != nil {
		return nil, seam.NotSent(err)
	}
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, seam.NotSent(err)
	}
	// net/http sends a request with an Idempotency-Key again by itself, if it can read
	// the body again. Whether a call is made again is the engine's decision.
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "parley")
	req.Header.Set(webhooks.HeaderWebhookID, id)
	req.Header.Set(webhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(webhooks.HeaderWebhookSignature, signature)
	client := t.reads
	if r.Effect != parley.EffectRead {
		client = t.fresh
	}
	if kind == "tool.call" {
		req.Header.Set("Idempotency-Key", id)
	}
	resp, err := client.Do(req)
	if err != nil {
		err = fmt.Errorf("the service did not answer: %w", plain(err))
		if !connected {
			err = seam.NotSent(err)
		}
	}
	return resp, err
}

// plain is an error of the client without the method and the address, which the
// operator knows and a model need not.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Run implements [seam.Toolset].
func (t *Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	resp, err := t.post(ctx, "tool.call", string(r.Call), r)
	if err != nil {
		return parley.ToolResult{}, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode/100 == 2:
		return t.result(r, resp)
	case resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusRequestTimeout:
		return refusal(r, resp)
	}
	return parley.ToolResult{}, fmt.Errorf("the service answered %s", status(resp))
}

func status(resp *http.Response) string {
	if text := http.StatusText(resp.StatusCode); text != "" {
		return strconv.Itoa(resp.StatusCode) + " " + text
	}
	return strconv.Itoa(resp.StatusCode)
}

// result is what a service has done. That it is done is known even if the answer can
// not be read.
func (t *Toolset) result(r seam.Run, resp *http.Response) (parley.ToolResult, error) {
	done := parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		if r.Effect == parley.EffectRead {
			return done, fmt.Errorf("the answer of the service: %w", err)
		}
		done.Output = "It is done. The answer of the service broke off."
		return done, nil
	}
	if len(body) > maxAnswer {
		done.Output = fmt.Sprintf("It is done. The answer of the service has more than %d bytes and was not read.", maxAnswer)
		return done, nil
	}
	kind, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		kind = http.DetectContentType(body)
	}
	switch {
	case len(body) == 0:
		done.Output = "Done."
	case isJSON(kind) && json.Valid(body):
		var buf bytes.Buffer
		_ = json.Compact(&buf, body)
		done.Output = buf.String()
		if t.tools[r.Name].OutputSchema != nil {
			done.Data = buf.Bytes()
		}
	case utf8.Valid(body) && (isJSON(kind) || strings.HasPrefix(kind, "text/")):
		done.Output = string(body)
	default:
		f := seam.File{Name: fileName(resp, r.Name), MediaType: mime.FormatMediaType(kind, params), Body: body}
		if err := r.Keep(f); err != nil {
			done.Output = "It is done. The file that came was not kept: " + err.Error()
			return done, nil
		}
		done.Output = fmt.Sprintf("%s, %d bytes of %s, was kept as an artifact.", f.Name, len(body), kind)
	}
	return done, nil
}

func isJSON(kind string) bool { return kind == "application/json" || strings.HasSuffix(kind, "+json") }

// fileName is the name that a service gives to what it sends.
func fileName(resp *http.Response, otherwise string) string {
	_, params, _ := mime.ParseMediaType(resp.Header.Get("Content-Disposition"))
	name := path.Base(strings.ReplaceAll(params["filename"], `\`, "/"))
	if name == "." || name == "/" || name == ".." || !utf8.ValidString(name) {
		return otherwise
	}
	return parley.Cut(name, 100)
}

// refusal is what a service has not done, and why.
func refusal(r seam.Run, resp *http.Response) (parley.ToolResult, error) {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	var said struct {
		Error struct{ Message, Hint string }
	}
	e := parley.ErrorInfo{Code: parley.CodeTool}
	if json.Unmarshal(body, &said) == nil && said.Error.Message != "" {
		e.Message, e.Hint = said.Error.Message, said.Error.Hint
	} else if utf8.Valid(body) {
		e.Message = strings.TrimSpace(string(body))
	}
	e.Message = parley.Cut(cmp.Or(e.Message, "the service answered "+status(resp)), 2000)
	e.Hint = parley.Cut(e.Hint, 2000)
	out := e.Message
	if e.Hint != "" {
		out += "\n" + e.Hint
	}
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeError, Output: out, Error: &e}, nil
}

// Reconcile implements [seam.Reconciler].
func (t *Toolset) Reconcile(ctx context.Context, r seam.Run) (res parley.ToolResult, known bool, err error) {
	if !t.tools[r.Name].Reconcile {
		return res, false, nil
	}
	resp, err := t.post(ctx, "tool.reconcile", string(r.Call)+"_reconcile", r)
	if err != nil {
		return res, false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return res, false, fmt.Errorf("the service answered %s", status(resp))
	}
	var said struct {
		Happened *bool           `json:"happened"`
		Output   json.RawMessage `json:"output"`
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(body, &said)
	}
	switch {
	case err != nil:
		return res, false, fmt.Errorf("what the service says of a call: %w", err)
	case said.Happened == nil:
		return res, false, nil
	case *said.Happened:
		res = parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK, Output: "Done."}
		var text string
		switch {
		case len(said.Output) == 0 || string(said.Output) == "null":
		case json.Unmarshal(said.Output, &text) == nil:
			res.Output = text
		default:
			res.Output = string(said.Output)
		}
		if t.tools[r.Name].OutputSchema != nil {
			res.Data = said.Output
		}
		return res, true, nil
	}
	e := parley.ErrorInfo{Code: parley.CodeTool, Message: "the service says that it did not happen", Hint: "it can be called again"}
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeError, Output: e.Message + "\n" + e.Hint, Error: &e}, true, nil
}
