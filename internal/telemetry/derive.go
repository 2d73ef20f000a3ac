package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Limits on what is kept while turns run. A turn evicted from memory is read from the log
// again when it goes on.
const (
	maxFollowed   = 4096    // sessions
	maxCatchUp    = 100_000 // events read to catch up with one turn
	maxSpanEvents = 128
)

// TraceID is the trace id of a turn, in hex. Turn ids and trace ids both have 128 bits, so
// they are the same number.
func TraceID(turn parley.TurnID) string {
	id := traceID(turn)
	return hex.EncodeToString(id[:])
}

func traceID(turn parley.TurnID) [16]byte {
	if id, err := ulid.ParseStrict(string(turn)); err == nil {
		return id
	}
	sum := sha256.Sum256([]byte("trace\x00" + turn))
	return [16]byte(sum[:16])
}

// spanID is the same whenever and wherever it is derived, so that spans from another
// process are still valid parents and targets of links.
func spanID(turn parley.TurnID, what string) []byte {
	sum := sha256.Sum256([]byte(string(turn) + "\x00" + what))
	sum[7] |= 1 // all zero is no id
	return sum[:8]
}

// observed is what one append added.
type observed struct {
	session parley.SessionID
	after   int64
	events  []parley.Event
	info    *parley.SessionInfo
	turns   []parley.TurnInfo
	size    int64
}

// deriver makes spans from events. Only one goroutine uses it.
type deriver struct {
	store   seam.Store
	content bool
	latest  bool
	send    func(*tracepb.Span)

	muted    bool // catching up on what another process has sent
	sessions map[parley.SessionID]*followed
}

// followed is a session whose open turn is in memory.
type followed struct {
	seq  int64
	info parley.SessionInfo
	turn *turn
}

// observe processes one append. It fails only when the store cannot be read.
func (d *deriver) observe(ctx context.Context, o observed) error {
	f := d.sessions[o.session]
	var err error
	switch {
	case f == nil:
		f, err = d.follow(ctx, o)
	case f.seq < o.after: // an append in between was dropped; the log has it
		err = d.read(ctx, f, o.after)
	}
	if f == nil || err != nil {
		delete(d.sessions, o.session)
		return err
	}
	if o.info != nil {
		f.info = *o.info
	}
	for _, e := range o.events {
		if e.Seq > f.seq {
			d.apply(f, e)
		}
	}
	// A turn that waits for a human may wait for weeks.
	if f.turn == nil || len(f.turn.asked) > 0 {
		delete(d.sessions, o.session)
		return nil
	}
	if len(d.sessions) >= maxFollowed && d.sessions[o.session] == nil {
		for id := range d.sessions { // any of them
			delete(d.sessions, id)
			break
		}
	}
	d.sessions[o.session] = f
	return nil
}

// follow starts to follow a session: from the start of a turn, or with the past of one
// that goes on. It returns nil when there is no turn.
func (d *deriver) follow(ctx context.Context, o observed) (*followed, error) {
	f := &followed{seq: o.after}
	open := parley.TurnID("")
	for _, e := range o.events {
		if e.Turn == "" || e.Type == (parley.TurnQueued{}).EventType() {
			continue
		}
		if e.Type != (parley.TurnStarted{}).EventType() {
			open = e.Turn
		}
		break
	}
	if o.info != nil {
		f.info = *o.info
	} else if info, err := d.store.Session(ctx, parley.System(), o.session); err != nil {
		return nil, err
	} else {
		f.info = info
	}
	if open == "" {
		return f, nil
	}
	first := int64(0)
	for _, t := range o.turns {
		if t.ID == open {
			first = t.FirstSeq
		}
	}
	if first == 0 {
		row, err := d.store.Turn(ctx, parley.System(), open)
		if err != nil {
			return nil, err
		}
		first = row.FirstSeq
	}
	if first < 1 || first > o.after {
		return f, nil
	}
	f.seq = first - 1
	d.muted = true
	defer func() { d.muted = false }()
	return f, d.read(ctx, f, o.after)
}

// read applies the events of the log up to and including number to.
func (d *deriver) read(ctx context.Context, f *followed, to int64) error {
	for left := maxCatchUp; f.seq < to && left > 0; {
		events, err := d.store.Read(ctx, parley.System(), f.info.ID, f.seq, int(min(to-f.seq, 1000)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		left -= len(events)
		for _, e := range events {
			d.apply(f, e)
		}
	}
	if f.seq < to {
		return parley.Errorf(parley.CodeTooLarge, "the turn is too long to catch up on")
	}
	return nil
}

func (d *deriver) apply(f *followed, e parley.Event) {
	f.seq = e.Seq
	if e.Turn == "" {
		return
	}
	p, err := e.Payload()
	if err != nil {
		return // newer than this program, or condensed
	}
	if start, ok := p.(parley.TurnStarted); ok {
		f.turn = d.begin(f, e, start)
		return
	}
	t := f.turn
	if t == nil || t.id != e.Turn {
		return // of a queued turn
	}
	if e.Time.After(t.last) {
		t.before, t.last = t.last, e.Time
	}
	if t.step(e, p) {
		f.turn = nil
	}
}

// span is an open span.
type span struct {
	*tracepb.Span
}

// turn is an open turn with its open spans.
type turn struct {
	d     *deriver
	id    parley.TurnID
	trace [16]byte
	base  []*commonpb.KeyValue // on every span: filters of trace viewers look at one span at a time

	last, before time.Time // times of the last events: of the last instant, and of the one before

	name    string // of the root
	entry   parley.AgentPath
	root    *span    // nil while the turn is interrupted
	roots   [][]byte // the roots so far; more than one after crashes
	names   map[parley.AgentPath]string
	agents  map[parley.AgentPath]*span // those but the root
	models  map[parley.CallID]*span
	tools   map[parley.CallID]*tool
	asked   map[parley.InteractionID]*span
	message string // content of the question

	question message
	inputs   map[parley.AgentPath]*input // of the next call of each agent that runs; empty without content
}

// tool is a tool call without an outcome.
type tool struct {
	parley.ToolRequested
	agent parley.AgentPath
	span  *span  // nil until it is started
	cut   []byte // the span of an attempt that a crash ended
}

func (d *deriver) begin(f *followed, e parley.Event, p parley.TurnStarted) *turn {
	t := &turn{
		d: d, id: e.Turn, trace: traceID(e.Turn), last: e.Time, before: e.Time, name: opAgent,
		names: map[parley.AgentPath]string{}, agents: map[parley.AgentPath]*span{}, models: map[parley.CallID]*span{},
		tools: map[parley.CallID]*tool{}, inputs: map[parley.AgentPath]*input{}, asked: map[parley.InteractionID]*span{},
	}
	t.base = []*commonpb.KeyValue{
		text(keyConversation, string(e.Session)), text(keySession, string(e.Session)), text(keyUser, f.info.User),
		text("parley.app", f.info.App), text("parley.turn.id", string(e.Turn)),
	}
	if f.info.Org != "" {
		t.base = append(t.base, text("parley.org", f.info.Org))
	}
	if d.content {
		t.question = said(p.Message.Role, p.Message.Parts, "")
		t.message = encode([]message{t.question})
	}
	if p.Call != nil {
		t.name = "call " + p.Call.Name
	}
	t.openRoot(e.Time, text("parley.turn.origin", string(p.Origin)))
	if p.Client != "" {
		t.root.Attributes = append(t.root.Attributes, text("parley.client", p.Client))
	}
	if p.RetryOf != "" {
		of := traceID(p.RetryOf)
		t.root.Links = append(t.root.Links, link(of, spanID(p.RetryOf, "turn"), "retry"))
	}
	return t
}

// openRoot opens the turn's span. After a crash it opens another one, a child of the
// first, because a trace has one root, and linked to the last.
func (t *turn) openRoot(at time.Time, attrs ...*commonpb.KeyValue) {
	what := "turn"
	if len(t.roots) > 0 {
		what = fmt.Sprint("turn ", len(t.roots))
	}
	t.root = t.open(what, t.name, nil, tracepb.Span_SPAN_KIND_INTERNAL, at, attrs...)
	if n := len(t.roots); n > 0 {
		t.root.ParentSpanId = t.roots[0]
		t.root.Links = append(t.root.Links, link(t.trace, t.roots[n-1], "resume"))
		t.root.Attributes = append(t.root.Attributes, num("parley.turn.attempt", int64(n)))
	}
	if name := t.names[t.entry]; name != "" {
		t.root.Attributes = append(t.root.Attributes, text(keyOperation, opAgent), text(keyAgent, name))
	}
	t.roots = append(t.roots, t.root.SpanId)
}

func (t *turn) open(what, name string, parent *span, kind tracepb.Span_SpanKind, at time.Time, attrs ...*commonpb.KeyValue) *span {
	s := &span{&tracepb.Span{
		TraceId: t.trace[:], SpanId: spanID(t.id, what), Name: name, Kind: kind, StartTimeUnixNano: nanos(at),
		Attributes: append(attrs, t.base...), Flags: 1,
	}}
	if parent != nil {
		s.ParentSpanId = parent.SpanId
	}
	return s
}

// end sends the span. An empty code means no error.
func (t *turn) end(s *span, at time.Time, code, message string) {
	s.EndTimeUnixNano = max(nanos(at), s.StartTimeUnixNano)
	if code != "" {
		s.Attributes = append(s.Attributes, text(typeError, code))
		s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: code}
		if t.d.content && message != "" { // it may quote what was asked
			s.Status.Message = code + ": " + clip(message)
		}
	}
	if !t.d.muted {
		t.d.send(s.Span)
	}
}

func (s *span) set(attrs ...*commonpb.KeyValue) { s.Attributes = append(s.Attributes, attrs...) }

func (s *span) note(at time.Time, name string, attrs ...*commonpb.KeyValue) {
	if s == nil {
		return
	}
	if len(s.Events) == maxSpanEvents {
		s.DroppedEventsCount++
		return
	}
	s.Events = append(s.Events, &tracepb.Span_Event{TimeUnixNano: nanos(at), Name: name, Attributes: attrs})
}

func link(trace [16]byte, to []byte, why string) *tracepb.Span_Link {
	return &tracepb.Span_Link{TraceId: trace[:], SpanId: to, Attributes: []*commonpb.KeyValue{text("parley.link", why)}}
}

func nanos(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) } //nolint:gosec // not negative
