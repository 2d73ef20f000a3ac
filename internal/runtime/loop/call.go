package loop

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/aside"
	"github.com/parley-server/parley/internal/prompt"
	"github.com/parley-server/parley/internal/seam"
)

// lastWords is how long a cancelled turn may take to store what was said.
const lastWords = 5 * time.Second

// call commits the start of a model call, and returns what reads its stream and then journals the reply or the
// failure. If it returns neither that nor an error, next can continue from the state.
func (f *flight) call(ctx context.Context, s *parley.Session, a *callModel) (*reading, error) {
	own, cancel := context.WithCancelCause(ctx) // of the stream
	st, err := f.beginCall(own, s, a)
	if st == nil {
		cancel(nil)
		if own, ok := errors.AsType[*ownError](err); ok {
			return nil, f.unable(s, a, own.err)
		}
		return nil, err
	}
	a.Request = seam.Request{MaxTokens: a.Request.MaxTokens} // the model has it
	var reply *seam.Reply
	var serr *parley.Error
	return &reading{
		read: func() { reply, serr = st.run(own, cancel) },
		end: func(ctx context.Context) error {
			defer cancel(nil)
			return st.end(ctx, a, reply, serr)
		},
	}, nil
}

// unable ends an agent that cannot call its model. If it is no sub-agent, that is the turn's error.
func (f *flight) unable(s *parley.Session, a *callModel, why error) error {
	ag := s.Turn.Agent(a.Agent)
	if ag == nil || !ag.IsSub() {
		return why
	}
	info := parley.Info(asError(why))
	return f.endAgent(s, endOf(s.Turn, ag, parley.OutcomeError, joinLines(info.Message, info.Hint)))
}

// ownError is why an agent cannot call its model at all. It is that agent's failure.
type ownError struct{ err error }

func (e *ownError) Error() string { return e.err.Error() }

// beginCall commits the start of a call. If it returns neither a stream nor an error, next
// must look again.
func (f *flight) beginCall(ctx context.Context, s *parley.Session, a *callModel) (*stream, error) {
	h, turn, req := f.host, s.Turn.ID, a.Request
	m, err := f.models.Model(req.Model)
	if err != nil {
		return nil, &ownError{err}
	}
	req.Call = h.NewCall()
	req.Open = h.Open
	if err := count(ctx, m, &req, &a.Reserved); err != nil {
		return nil, &ownError{err}
	}
	select {
	case f.pool <- struct{}{}:
		defer func() { <-f.pool }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if t := h.State().Turn; t != nil && t.ID == turn && !affords(t, a.Reserved) {
		return nil, nil
	}
	started := parley.NewEvent(turn, a.Agent, parley.ModelStarted{Call: req.Call, Model: req.Model, Context: digest(req), Reserved: a.Reserved, Window: windowOf(m.Info())})
	say, err := askBeside(ctx, m, &req, func() error { return h.Emit(ctx, started) })
	if err != nil {
		return nil, err
	}
	// A message from the user that was appended before model.started counts as
	// shown to the model from then on. If this request lacks one, it must not
	// leave.
	now := h.State().Turn
	if now == nil {
		return nil, parley.Errorf(parley.CodeInternal, "turn %s ended under its runtime", turn)
	}
	if ag := now.Agent(a.Agent); ag != nil && heard(ag) != a.Heard {
		return nil, h.Stage(parley.NewEvent(turn, a.Agent, parley.ModelFailed{Call: req.Call, Retry: true, Error: parley.ErrorInfo{
			Code: parley.CodeConflict, Message: "a message from the user came before the request left",
		}}))
	}
	if say == nil {
		load(ctx, h, &req)
		say = m.Stream(ctx, req)
	}
	return &stream{
		host: h, model: m, call: req.Call, name: req.Model, say: say, opt: f.opt, failures: failures(now, a.Agent),
		delta: parley.Delta{Session: s.ID, Turn: turn, Agent: a.Agent, Call: req.Call},
	}, nil
}

// askBeside has a model make its request for a call while commit stores the start of the call. The request leaves when
// what it returns is iterated over. It returns nothing if the request has files: those that a tool has just returned are
// there once that is committed.
func askBeside(ctx context.Context, m seam.Model, req *seam.Request, commit func() error) (say iter.Seq2[seam.ModelDelta, error], err error) {
	if hasArtifact(req) {
		return nil, commit()
	}
	wait := aside.Begin(func() { say = m.Stream(ctx, *req) })
	err = commit()
	wait()
	return say, err
}

func failures(t *parley.Turn, path parley.AgentPath) int {
	if a := t.Agent(path); a != nil {
		return a.Failures
	}
	return 0
}

// countWithin limits the wait for a provider that counts tokens.
const countWithin = 5 * time.Second

// count asks the provider, if possible, how many tokens a request has that is large or
// contains a document; an estimate is good enough for a small one. A request that does
// not fit is an error; if it cannot be counted, the estimate stays.
func count(ctx context.Context, m seam.Model, req *seam.Request, reserved *parley.Usage) error {
	window, counter := m.Info().ContextTokens, seam.TokenCounter(nil)
	if c, ok := m.(seam.TokenCounter); ok && window > 0 && (reserved.InputTokens > window/4*3 || hasFile(req)) {
		counter = c
	}
	if counter == nil {
		return nil
	}
	brief, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	n, err := counter.CountTokens(brief, *req)
	if err != nil || n <= 0 {
		return nil //nolint:nilerr // it was estimated before
	}
	if n+leastOutput > window {
		return parley.Errorf(parley.CodeTooLarge, "the question and what the turn has gathered do not fit %s: %d of %d tokens", req.Model, n, window).
			WithHint("%s", roomier(m.Info()))
	}
	reserved.InputTokens = n
	req.MaxTokens = min(req.MaxTokens, window-n)
	reserved.OutputTokens = req.MaxTokens
	reserved.USD = atMost(m.Info(), *reserved)
	return nil
}

// hasFile reports whether a request holds a document, whose size in tokens nobody
// knows from the outside.
func hasFile(req *seam.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m parley.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p parley.Part) bool { return p.Type == parley.PartFile })
	})
}

// hasArtifact reports whether a request holds a picture or a document, whose bytes are read when it is made.
func hasArtifact(req *seam.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m parley.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p parley.Part) bool { return p.Artifact != "" })
	})
}

// end journals the outcome of a call.
func (st *stream) end(ctx context.Context, a *callModel, reply *seam.Reply, serr *parley.Error) error {
	h, call := st.host, st.call
	event := func(p parley.Payload) parley.Event { return parley.NewEvent(st.delta.Turn, a.Agent, p) }
	if reply != nil {
		done := replied(reply, call, st.model.Info(), h.NewCall)
		done.TTFTMS, done.TookMS = st.ttft.Milliseconds(), st.took.Milliseconds()
		if ctx.Err() != nil {
			return keep(ctx, h, event(done))
		}
		if done.StopReason == "max_tokens" && !asks(done.Parts) {
			return truncated(h, event, done, a)
		}
		if done.StopReason == "refusal" {
			return declined(h, event, done)
		}
		return h.Stage(event(done))
	}
	lost := parley.ModelFailed{Call: call, Error: parley.Info(serr), Partial: strings.ToValidUTF8(st.text.String(), "\ufffd"), Usage: a.Reserved}
	lost.Usage.Estimated = true
	if ctx.Err() != nil {
		lost.Error = cutOff(ctx)
		return keep(ctx, h, event(lost))
	}
	if refused(serr) && st.fragments == 0 {
		lost.Usage = parley.Usage{}
	}
	d, again := retryAfter(serr, st.failures+1, a.Fallback != "")
	if !again && a.Fallback != "" && mayFallBack(serr) {
		lost.Retry, lost.Fallback = true, a.Fallback
		return keep(ctx, h, event(lost))
	}
	if !again {
		return h.Stage(event(lost))
	}
	// Committed before the wait, so that whoever watches sees it, and so that
	// the text so far is safe.
	lost.Retry = true
	if err := keep(ctx, h, event(lost)); err != nil {
		return err
	}
	return wait(ctx, d)
}

// cutOff is the error of a call that ends because its turn does. A stop request or an
// exceeded time budget is not an error and has no text of its own: the turn's end says
// who stopped it.
func cutOff(ctx context.Context) parley.ErrorInfo {
	info := parley.ErrorInfo{Code: parley.CodeCancelled, Message: "the call was cut off"}
	if e, ok := errors.AsType[*parley.Error](context.Cause(ctx)); ok {
		info.Message = e.Message
	}
	return info
}

// keep commits the end of a call even when ctx is cancelled, and then returns
// the cause of that.
func keep(ctx context.Context, h seam.Host, e parley.Event) error {
	if ctx.Err() == nil {
		if err := h.Emit(ctx, e); err == nil || ctx.Err() == nil {
			return err // which has waited for the store, if need be
		}
	}
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	err := h.Emit(brief, e)
	if ctx.Err() != nil {
		// When the append failed too, recovery closes the call, with the text that
		// was kept on the way.
		return context.Cause(ctx)
	}
	return err
}

// truncated journals a reply that was cut off for length: half an answer is an error, but
// its text is kept.
func truncated(h seam.Host, event func(parley.Payload) parley.Event, done parley.ModelReplied, a *callModel) error {
	err := parley.Errorf(parley.CodeModel, "the answer was cut off at %d tokens", a.Request.MaxTokens).
		WithHint("ask for a shorter answer, or raise max_output of the agent")
	events := make([]parley.Event, 0, 2)
	if a.Bound != nil {
		err = budgetError(a.Bound)
		events = append(events, event(*a.Bound))
	}
	lost := parley.ModelFailed{
		Call: done.Call, Error: parley.Info(err), Partial: parley.PartsText(done.Parts), Usage: done.Usage,
	}
	return h.Stage(append(events, event(lost))...)
}

// declined journals a reply that the model, or a filter of its provider, refused to give
// or to finish. It is not repeated, since the result would be the same. What was said is
// kept but is not an answer; its calls are not made.
func declined(h seam.Host, event func(parley.Payload) parley.Event, done parley.ModelReplied) error {
	err := parley.Errorf(parley.CodeModel, "%s refused to answer, or a filter of its provider stopped the answer", done.Model).
		WithHint("ask in other words, or choose another model")
	return h.Stage(event(parley.ModelFailed{
		Call: done.Call, Error: parley.Info(err), Partial: parley.PartsText(done.Parts), Usage: done.Usage,
	}))
}

// refused reports whether the provider rejected the call, so that it cost nothing.
func refused(err *parley.Error) bool {
	switch err.Code {
	case parley.CodeRateLimited, parley.CodeInvalid, parley.CodeUnauthenticated, parley.CodeForbidden, parley.CodeNotFound, parley.CodeTooLarge:
		return true
	}
	return false
}

func asks(parts []parley.Part) bool {
	_, hands := handoffPart(parts)
	return hands || calledTools(parts)
}

// A stream takes one reply from a model and shows it as it comes.
type stream struct {
	host      seam.Host
	model     seam.Model
	call      parley.CallID
	name      string // of the model, as it was asked for
	say       iter.Seq2[seam.ModelDelta, error]
	delta     parley.Delta
	opt       Options
	failures  int             // of the agent before this call
	text      strings.Builder // what was said of the answer
	notes     prompt.Visible
	fragments int
	ttft      time.Duration
	took      time.Duration
}

// maxStream limits the text of one reply, in bytes: no model says more, and a broken one
// must not fill the memory.
const maxStream = 8 << 20

// run returns the reply, or why there is none. It cancels ctx if the model says nothing for too long.
func (st *stream) run(ctx context.Context, cancel context.CancelCauseFunc) (*seam.Reply, *parley.Error) {
	first := st.opt.FirstToken
	if own := st.model.Info().FirstTokenMS; own > 0 {
		first = time.Duration(own) * time.Millisecond
	}
	patience := time.AfterFunc(first, func() {
		cancel(parley.Errorf(parley.CodeUnavailable, "%s said nothing for too long", st.name).
			WithHint("try again, or choose another model"))
	})
	defer patience.Stop()
	began, size := time.Now(), 0
	var reply *seam.Reply
	var failure error
	for d, err := range st.say {
		if err != nil {
			failure = err
			break
		}
		patience.Reset(st.opt.Silence)
		if st.ttft == 0 {
			st.ttft = max(time.Since(began), time.Nanosecond)
		}
		if size += len(d.Text) + len(d.Thinking); size > maxStream {
			failure = parley.Errorf(parley.CodeTooLarge, "the reply of %s is longer than %d bytes", st.name, maxStream)
			break
		}
		st.show(parley.DeltaThinking, d.Thinking)
		st.show(parley.DeltaText, d.Text)
		if st.fragments == 1 {
			runtime.Gosched() // whoever waits for the first word gets it before the next ones are read
		}
		if d.Reply != nil {
			reply = d.Reply
			break
		}
	}
	st.took = time.Since(began)
	st.publish(parley.DeltaText, st.notes.Rest())
	if reply != nil {
		return reply, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		failure = cause
	}
	if failure == nil {
		failure = parley.Errorf(parley.CodeUnavailable, "the stream of %s ended in the middle of a reply", st.name).
			WithHint("try again")
	}
	return nil, asError(failure)
}

func (st *stream) show(kind parley.DeltaKind, text string) {
	if text == "" {
		return
	}
	st.fragments++
	if kind == parley.DeltaText {
		st.text.WriteString(text)
		text = st.notes.Next(text)
	}
	st.publish(kind, text)
}

func (st *stream) publish(kind parley.DeltaKind, text string) {
	if text == "" {
		return
	}
	d := st.delta
	d.Kind, d.Text = kind, text
	st.host.Publish(d)
}

// asError is err as an Error. An error that the model's adapter did not explain stays out
// of the log: it may contain a URL with a key.
func asError(err error) *parley.Error {
	if in := parley.Info(err); in.Code != parley.CodeInternal {
		e := errorOf(in)
		e.Err = err
		return e
	}
	e := parley.Errorf(parley.CodeModel, "the model call failed").WithHint("try again, or choose another model")
	e.Err = err
	return e
}
