package claudecli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/prompt"
	"github.com/parley-server/parley/internal/seam"
)

// asked is what the gateway reads of a request for a model call.
type asked struct {
	MaxTokens int64 `json:"max_tokens"`
	Stream    bool  `json:"stream"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

// lastWords is how long a cancelled call may take to store what was said.
const lastWords = 5 * time.Second

// model makes a model call for the CLI. It commits the start with what the call may cost, passes
// the request on and the answer back, and journals the reply before the CLI has its end.
func (t *turn) model(w http.ResponseWriter, r *http.Request, body []byte) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	var ask asked
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &ask) != nil || json.Unmarshal(body, &top) != nil {
		refuse(w, http.StatusBadRequest, "invalid_request_error", "The request body is not valid JSON")
		return
	}
	t.flush(ctx)
	path := t.path(ctx, r.Header.Get("X-Claude-Code-Agent-Id"))
	// What the tools returned is in the request, possibly before the CLI has told us.
	for i := len(ask.Messages) - 1; i >= 0 && ask.Messages[i].Role != "assistant"; i-- {
		for _, b := range blocks(ask.Messages[i].Content) {
			if b.Type == "tool_result" {
				t.result(b)
			}
		}
	}
	compacts := summarizes(ask)
	if compacts {
		path = t.memoryOf(path)
	} else if it, ok := t.remembered(path); ok {
		t.write(w, it, ask.Stream)
		return
	}
	c, err := t.beginCall(ctx, path, top, ask, r.Header.Values("Anthropic-Beta"))
	if err != nil {
		status, kind := http.StatusForbidden, "permission_error" // which the CLI does not try again
		if ctx.Err() != nil {
			status, kind = http.StatusServiceUnavailable, "api_error"
		}
		refuse(w, status, kind, parley.Info(err).Message)
		return
	}
	var notes prompt.Visible
	show := func(kind parley.DeltaKind, text string) {
		if text != "" {
			t.publish(parley.Delta{Agent: path, Call: c.call, Kind: kind, Text: text})
		}
	}
	c.reply.show = func(kind parley.DeltaKind, text string) {
		if kind == parley.DeltaText {
			text = notes.Next(text)
		}
		show(kind, text)
	}
	if compacts {
		defer func() { t.note(path, parley.AgentEnded{Outcome: parley.OutcomeOK, Told: true}) }()
	}
	c.pass(ctx, w, func() { show(parley.DeltaText, notes.Rest()) })
}

// summarizes reports whether the CLI asks for a summary of its conversation, which will take its place.
func summarizes(ask asked) bool {
	if len(ask.Messages) == 0 {
		return false
	}
	list := blocks(ask.Messages[len(ask.Messages)-1].Content)
	if len(list) == 0 {
		return false
	}
	text := list[len(list)-1].Text
	return strings.HasPrefix(text, "CRITICAL: Respond with TEXT ONLY") && strings.Contains(text, "create a detailed summary of the conversation")
}

// memoryOf begins an agent that summarizes the conversation of another. Its reply is none of the
// conversation's, so an interrupted turn goes on without it.
func (t *turn) memoryOf(of parley.AgentPath) parley.AgentPath {
	path := of + "/" + parley.MemoryAgent
	if now := t.h.State().Turn; now != nil {
		for n := 2; now.Agent(path) != nil; n++ {
			path = of + "/" + parley.AgentPath(fmt.Sprintf("%s#%d", parley.MemoryAgent, n))
		}
	}
	t.note(path, parley.AgentStarted{Name: parley.MemoryAgent, Parent: of})
	return path
}

// modelCall is a model call under way.
type modelCall struct {
	t        *turn
	path     parley.AgentPath
	call     parley.CallID
	model    seam.Model
	fallback string
	failures int
	stream   bool
	body     []byte
	beta     []string
	reserved parley.Usage
	reply    reply
}

// beginCall checks the turn's budgets and commits the start of a call.
func (t *turn) beginCall(ctx context.Context, path parley.AgentPath, top map[string]json.RawMessage, ask asked, beta []string) (*modelCall, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s := t.h.State()
	if s.Turn == nil {
		return nil, errGone
	}
	agent := s.Turn.Agent(path)
	if agent == nil {
		agent = &parley.Agent{Path: path, Name: t.app.Entry}
	}
	name, fallback := t.rt.modelsOf(t.app, s, agent)
	m, err := t.rt.models.Model(name)
	if err != nil {
		t.fail(err)
		return nil, err
	}
	output := ask.MaxTokens
	if most := t.app.Agents[agent.Name].MaxOutput; most > 0 {
		output = min(output, most)
	} else {
		output = min(output, defaultOutput)
	}
	if s.MaxOutput > 0 {
		output = min(output, s.MaxOutput)
	}
	info := m.Info()
	if info.MaxOutputTokens > 0 {
		output = min(output, info.MaxOutputTokens)
	}
	size := 0
	for _, v := range top {
		size += len(v)
	}
	t.reserving <- struct{}{} // one after another, so that together they stay within the budgets
	defer func() { <-t.reserving }()
	s = t.h.State()
	if s.Turn == nil {
		return nil, errGone
	}
	reserved, bound := reserve(s.Turn, info, size, output)
	if bound != nil {
		err := budgetError(bound)
		t.exceeded(bound, err)
		return nil, err
	}
	top["max_tokens"] = json.RawMessage(strconv.FormatInt(reserved.OutputTokens, 10))
	body, err := json.Marshal(top)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	c := &modelCall{
		t: t, path: path, call: t.h.NewCall(), model: m, fallback: fallback, failures: agent.Failures, stream: ask.Stream, body: body, beta: beta,
		reserved: reserved, reply: reply{began: time.Now()},
	}
	return c, t.h.Emit(ctx, t.event(path, parley.ModelStarted{
		Call: c.call, Model: name, Context: parley.Digest(hex.EncodeToString(sum[:])), Reserved: reserved, Window: info.ContextTokens,
	}))
}

// pass sends the request and passes the answer back. shown is called when all of it was shown.
func (c *modelCall) pass(ctx context.Context, w http.ResponseWriter, shown func()) {
	resp, err := c.t.rt.send(ctx, c)
	if err != nil {
		c.lost(ctx, err, false)
		status := http.StatusBadGateway
		refuse(w, status, "api_error", parley.Info(err).Message)
		return
	}
	defer resp.Body.Close()
	for _, name := range []string{"Content-Type", "Retry-After", "Retry-After-Ms", "Request-Id", "Cache-Control"} {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	if resp.StatusCode/100 != 2 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		c.lost(ctx, refusal(resp.StatusCode, body), true)
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(body) // the CLI may be gone
		return
	}
	if !c.stream {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
		if err == nil && len(body) > maxReply {
			err = errTooLong
		}
		if err == nil {
			err = c.reply.read(body)
		}
		if err != nil {
			c.lost(ctx, err, false)
			refuse(w, http.StatusBadGateway, "api_error", "the model's answer broke off")
			return
		}
		shown()
		c.replied(ctx)
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(body) // the CLI may be gone
		return
	}
	w.WriteHeader(resp.StatusCode)
	err = c.reply.relay(w, resp.Body, func() {
		shown()
		c.replied(ctx)
	})
	if c.reply.failed != nil {
		err = c.reply.failed
	}
	if !c.reply.whole {
		c.lost(ctx, err, false)
		panic(http.ErrAbortHandler) // a stream that breaks off must not look complete
	}
}

// refusal is the error of an answer that is none.
func refusal(status int, body []byte) *parley.Error {
	var e struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &e) // a proxy may have answered
	text := e.Error.Message
	if text == "" {
		text = "status " + strconv.Itoa(status)
	}
	return parley.Errorf(codeOf(e.Error.Type, status), "the model's provider refused: %s", parley.Cut(strings.ToValidUTF8(text, "\ufffd"), 500)).
		WithHint("try again later, or choose another model")
}

// replied journals the reply. It is committed together with what follows from it.
func (c *modelCall) replied(ctx context.Context) {
	t, info := c.t, c.model.Info()
	u := c.reply.usage.tokens()
	u.USD = price(info, u)
	model := c.reply.model
	if info.Provider != provider || model == "" {
		model = info.Name
	}
	done := parley.ModelReplied{
		Call: c.call, Model: model, Parts: c.reply.said(logged, t.newUse), Usage: u, StopReason: c.reply.stop,
		TTFTMS: c.reply.ttft.Milliseconds(), TookMS: time.Since(c.reply.began).Milliseconds(),
	}
	t.completePlan(done.Parts)
	if err := t.h.Stage(t.event(c.path, done)); err != nil {
		t.fail(err)
		return
	}
	t.calls.known(done.Parts, c.path)
}

// lost journals a call that got no reply. refused says that the provider did nothing for it.
func (c *modelCall) lost(ctx context.Context, err error, refused bool) {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok {
		e = parley.Errorf(parley.CodeUnavailable, "the model's answer broke off").WithHint("try again")
	}
	p := parley.ModelFailed{Call: c.call, Error: parley.Info(e), Partial: c.reply.text(), Usage: c.reserved, Retry: true} // the CLI calls again
	p.Usage.Estimated = true
	switch {
	case ctx.Err() != nil:
		p.Retry = false
		p.Error = parley.ErrorInfo{Code: parley.CodeCancelled, Message: "the call was cut off"}
		if e, ok := errors.AsType[*parley.Error](context.Cause(ctx)); ok {
			p.Error.Message = e.Message
		}
	case refused:
		p.Usage = parley.Usage{}
	}
	if c.fallback != "" && ctx.Err() == nil && (e.Code == parley.CodeNotFound || c.failures > 0 && (e.Code == parley.CodeUnavailable || e.Code == parley.CodeRateLimited)) {
		p.Fallback = c.fallback
	}
	c.t.failed(e)
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	_ = c.t.h.Emit(brief, c.t.event(c.path, p)) // if it fails, recovery closes the call
}

// send sends the request to the model's provider in the form in which the CLI wrote it, or to
// whatever translates it.
func (rt *Runtime) send(ctx context.Context, c *modelCall) (*http.Response, error) {
	if m, ok := c.model.(seam.Passer); ok {
		return m.Pass(ctx, c.body, c.beta)
	}
	if rt.opt.Translate == nil {
		return nil, parley.Errorf(parley.CodeInvalid, "the Claude CLI cannot use the model %s", c.model.Info().Name).WithHint("choose a model of the provider anthropic")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model/v1/messages", bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {"local"}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": c.beta}
	agent := c.t.app.Entry
	if a := c.t.h.State().Turn.Agent(c.path); a != nil {
		agent = a.Name
	}
	return local(ctx, rt.opt.Translate(c.model, agent), req)
}
