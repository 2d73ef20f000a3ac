// Package webhook is a toolset for an operator's own service. Each call is a signed POST to the
// service.
//
// The request's body is a message of package callout. It is signed by the Standard
// Webhooks scheme (github.com/standard-webhooks/standard-webhooks, spec): webhook-id is
// the call's id, and a library of any language checks webhook-signature with the secret.
// Idempotency-Key is the call's id too. Both are the same at every attempt of a call.
//
// In addition a service may require a token of the operator or of the user ([httpcall.Auth]).
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
// A tool with Reconcile can be asked about a call: {"type": "tool.reconcile"} with the same
// data, and with "_reconcile" appended to the call's id in webhook-id. The service answers
// {"happened": true, "output"} or {"happened": false}; after {"happened": null} or any other
// answer the outcome stays unknown. A false also promises that the call will not happen later.
// It is accepted only after the call's time is up.
package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/callout"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/seam"
)

// minSecret is the least length of a secret's key in bytes, by the specification.
const minSecret = 24

// Options say where the service is and which tools it has.
type Options struct {
	URL     string // http or https; calls are posted to it
	Secret  string // signs the calls: whsec_ and 24 bytes or more in base64
	Auth    httpcall.Auth
	Private []string // see dial.New
	Tools   []callout.Tool
	Clean   func(text string) string // removes secrets from error texts of the service; nil: there are none
	Now     func() time.Time         // nil: time.Now
}

// Toolset implements [seam.Toolset] and [seam.Reconciler]. It is safe for concurrent use.
type Toolset struct {
	o     Options
	sign  *webhooks.Webhook
	call  *httpcall.Caller
	list  []parley.ToolDecl
	tools map[string]callout.Tool
}

// New makes a toolset. An error names the option that is wrong.
func New(o Options) (*Toolset, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%q is not the address of a service", withoutUser(o.URL)).WithField("url").
			WithHint("write http:// or https:// and a host; calls are authenticated by the secret, not by a password")
	}
	guard, err := dial.New([]string{u.Hostname()}, o.Private)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithField("private")
	}
	key, ok := strings.CutPrefix(o.Secret, "whsec_")
	sign, err := webhooks.NewWebhook(key)
	if !ok || err != nil || len(strings.TrimRight(key, "="))*3/4 < minSecret {
		return nil, parley.Errorf(parley.CodeInvalid, "is not a signing secret").WithField("secret").
			WithHint(`make one with: echo "whsec_$(openssl rand -base64 32)"`)
	}
	t := &Toolset{o: o, sign: sign, call: httpcall.New(guard), tools: map[string]callout.Tool{}}
	if t.o.Now == nil {
		t.o.Now = time.Now
	}
	if err := o.Auth.Check(); err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithField("auth")
	}
	needs, err := o.Auth.Needs(u)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithField("auth")
	}
	for _, tool := range o.Tools {
		tool.Credentials = needs
		t.list = append(t.list, tool.ToolDecl)
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
func (t *Toolset) Close() { t.call.Close() }

// Tools implements [seam.Toolset].
func (t *Toolset) Tools(context.Context) ([]parley.ToolDecl, error) {
	return slices.Clone(t.list), nil
}

// post sends one message. If the error is NotSent, the service received nothing.
func (t *Toolset) post(ctx context.Context, kind, id string, r seam.Run) (*http.Response, error) {
	now := t.o.Now()
	body, err := callout.Encode(kind, r, now)
	if err != nil {
		return nil, seam.NotSent(err)
	}
	signature, err := t.sign.Sign(id, now, body)
	if err != nil {
		return nil, seam.NotSent(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, seam.NotSent(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(webhooks.HeaderWebhookID, id)
	req.Header.Set(webhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(webhooks.HeaderWebhookSignature, signature)
	if err := t.o.Auth.Apply(req, r); err != nil {
		return nil, seam.NotSent(err)
	}
	if kind == callout.Call {
		req.Header.Set("Idempotency-Key", id)
	}
	return t.call.Do(ctx, r.Effect, req)
}

// Run implements [seam.Toolset].
func (t *Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	resp, err := t.post(ctx, callout.Call, string(r.Call), r)
	if err != nil {
		return parley.ToolResult{}, err
	}
	defer resp.Body.Close()
	res, body, err := httpcall.Answer(ctx, r, resp, t.o.Clean)
	if t.tools[r.Name].OutputSchema != nil {
		res.Data = body
	}
	return res, err
}

// Reconciles implements [seam.Choosy].
func (t *Toolset) Reconciles(tool string) bool { return t.tools[tool].Reconcile }

// Reconcile implements [seam.Reconciler].
func (t *Toolset) Reconcile(ctx context.Context, r seam.Run) (res parley.ToolResult, known bool, err error) {
	if !t.tools[r.Name].Reconcile {
		return res, false, nil
	}
	resp, err := t.post(ctx, callout.Reconcile, string(r.Call)+"_reconcile", r)
	if err != nil {
		return res, false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return res, false, httpcall.Unclear(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, httpcall.MaxAnswer))
	if err != nil {
		return res, false, fmt.Errorf("the service's answer about a call: %w", err)
	}
	return t.tools[r.Name].Reconciled(r, body)
}
