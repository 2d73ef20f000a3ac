package parley

import (
	"maps"
	"slices"
	"time"
)

// FoldVersion is the version of Session's fold. A stored state of another version is
// ignored and rebuilt from the log. Raise it with every change to Apply or to the JSON of
// Session.
const FoldVersion = 32

// MaxHistoryBytes limits what a Session keeps of earlier turns, whatever its memory
// options say. Beyond it the oldest exchanges leave the fold, but never the log. 1 MiB is
// about 250,000 tokens, more than most models take.
const MaxHistoryBytes = 1 << 20

// Session is the fold that the engine bases its decisions on. Its size is bounded:
// settings, memory, the open turn, the queue, open interactions, rules and totals. The
// zero Session is the state before event 1.
type Session struct {
	ID           SessionID         `json:"id"`
	Seq          int64             `json:"seq"` // of the last event applied
	App          string            `json:"app"`
	User         string            `json:"user"`
	Org          string            `json:"org,omitempty"`
	OutsideID    string            `json:"outside_id,omitempty"`
	Title        string            `json:"title,omitempty"`
	Preview      string            `json:"preview,omitempty"`
	Status       SessionStatus     `json:"status"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"` // time of the last event other than history.condensed
	Model        string            `json:"model,omitempty"`
	Runtime      string            `json:"runtime,omitempty"`  // carries out its turns in place of the app's; empty: the app's
	Answered     map[string]string `json:"answered,omitempty"` // by agent name: the last model that replied
	Temperature  *float64          `json:"temperature,omitempty"`
	MaxOutput    int64             `json:"max_output,omitempty"`
	Mode         PermissionMode    `json:"mode,omitempty"`
	Policy       *Policy           `json:"policy,omitempty"`
	InForce      InForce           `json:"in_force,omitzero"` // the app's settings as of the last turn
	Budgets      Budgets           `json:"budgets"`
	Memory       MemoryOptions     `json:"memory"`
	Busy         BusyMode          `json:"busy"`
	MaxOpenTurns int               `json:"max_open_turns"`
	Temporary    bool              `json:"temporary,omitempty"`
	Direct       bool              `json:"direct,omitempty"`
	Preferences  map[string]any    `json:"preferences,omitempty"`
	Parent       SessionID         `json:"parent,omitempty"`
	Workspace    Workspace         `json:"workspace,omitempty"`
	ReadOnly     bool              `json:"read_only,omitempty"` // nothing in the workspace is changed
	Attached     []EntityRef       `json:"attached_entities,omitempty"`
	MaxUSD       float64           `json:"max_budget_usd,omitempty"` // what all turns together may cost; 0: anything

	Summary      string                   `json:"summary,omitempty"` // summarizes the turns before History
	Facts        []Fact                   `json:"facts,omitempty"`
	Pins         []Pin                    `json:"pins,omitempty"`
	Opened       bool                     `json:"opened,omitempty"`  // the hooks for its start have run
	Told         []string                 `json:"told,omitempty"`    // what those hooks tell models
	History      []Exchange               `json:"history,omitempty"` // earlier turns, oldest first
	HistoryBytes int                      `json:"history_bytes,omitempty"`
	About        []string                 `json:"about,omitempty"`    // what the last turn that called a tool for something was about; at most MaxAbout ids
	Provider     map[string]ProviderState `json:"provider,omitempty"` // by agent name; a cache of the log, see ProviderState
	Kept         *RuntimeState            `json:"kept,omitempty"`     // the state that the runtime has stored; nil: none
	Rewinds      []Rewound                `json:"rewinds,omitempty"`  // all there were, at most MaxRewinds
	Taken        *TakenBack               `json:"taken,omitempty"`    // what the next turn's prompts say about rewinds
	Unasked      int                      `json:"unasked,omitempty"`  // turns that the runtime has begun on its own since the last turn that a user asked for

	Condensed   int64     `json:"condensed,omitempty"`   // steps up to this number are condensed
	CondensedAt time.Time `json:"condensed_at,omitzero"` // when that last happened; not counted as a change of the session
	StepsSince  time.Time `json:"steps_since,omitzero"`  // when the oldest turn ended whose steps are not condensed yet

	Turn         *Turn         `json:"turn,omitempty"`      // open or interrupted
	Rewinding    *Rewind       `json:"rewinding,omitempty"` // a rewind whose files are being restored
	Last         *TurnRef      `json:"last,omitempty"`      // the turn that ended last
	Queue        []QueuedTurn  `json:"queue,omitempty"`
	Held         bool          `json:"held,omitempty"` // the queue waits for the next command, because a turn was stopped or the server crashed
	Interactions []Interaction `json:"interactions,omitempty"`
	Rules        []Rule        `json:"rules,omitempty"` // granted for this session
	Totals       Totals        `json:"totals"`
}

// Exchange is an earlier turn as later prompts show it.
type Exchange struct {
	Turn    TurnID     `json:"turn"`
	Seq     int64      `json:"seq"` // the event that ended the turn
	User    Message    `json:"user"`
	Reply   string     `json:"reply,omitempty"`
	Status  TurnStatus `json:"status"`
	Effects []Effected `json:"effects,omitempty"` // its calls with effects
	Results []string   `json:"results,omitempty"` // one line for each of its last tool calls: the tool, its input, its result
	Taken   *TakenBack `json:"taken,omitempty"`   // what its prompts said about rewinds before it
	// Restored says that it is from an earlier conversation, which the session continues. It has
	// no turn.
	Restored bool `json:"restored,omitempty"`
}

// Effected is a call with effects and its outcome.
type Effected struct {
	Call       CallID  `json:"call"`
	Tool       string  `json:"tool"`
	Outcome    Outcome `json:"outcome"`
	Resolution string  `json:"resolution,omitempty"` // a person's decision about an unknown outcome
}

// QueuedTurn waits behind the open one.
type QueuedTurn struct {
	ID      TurnID      `json:"id"`
	Request TurnRequest `json:"request"`
	At      time.Time   `json:"at"`
	Seq     int64       `json:"seq"`
}

// ProviderState is a provider's own state to continue from. Every failure, cancellation,
// fork, rewind, compaction and change of model drops it.
type ProviderState struct {
	Model string `json:"model"`
	Seq   int64  `json:"seq"`
	State []byte `json:"state"`
}

// RuntimeState describes the state of the session that a runtime has stored in order to
// continue from it. It is a cache: if it is missing or does not match the log, the runtime
// continues from the log.
type RuntimeState struct {
	Runtime string `json:"runtime"`
	SHA256  Digest `json:"sha256"`
	Size    int64  `json:"size"`
	Entry   string `json:"entry,omitempty"`
	Turn    TurnID `json:"turn"`             // the turn that stored it
	Seq     int64  `json:"seq"`              // the number of the runtime.kept event
	From    int64  `json:"from"`             // the number of the first event of the turn that it began with
	Forked  bool   `json:"forked,omitempty"` // another session shares it
	Behind  bool   `json:"behind,omitempty"` // it lacks a later turn
}

// Holds reports whether the state contains anything from the events up to number through. A nil
// state contains nothing.
func (k *RuntimeState) Holds(through int64) bool { return k != nil && k.From <= through }

// keepState records that the runtime has stored its state.
func (s *Session) keepState(e Event, p RuntimeKept) {
	t := s.Turn
	if p.SHA256 == "" || t == nil || t.ID != e.Turn {
		s.Kept = nil
		return
	}
	k := &RuntimeState{Runtime: p.Runtime, SHA256: p.SHA256, Size: p.Size, Entry: p.Entry, Turn: t.ID, Seq: e.Seq, From: t.FirstSeq}
	if s.Kept != nil && !p.Afresh {
		k.From = s.Kept.From
	}
	s.Kept = k
}

// Apply advances the fold by one event. Events must come in order; a gap is an error.
// After an error s.Seq is unchanged and s must not be driven.
func (s *Session) Apply(e Event) error {
	if e.Seq != s.Seq+1 {
		return Errorf(CodeInternal, "session %s: event %d follows %d", e.Session, e.Seq, s.Seq)
	}
	p, err := e.Payload()
	if err != nil {
		return err
	}
	switch p := p.(type) {
	case SessionRewinding:
		err = s.checkRewind(e.Seq, p.Rewind)
	case SessionRewound:
		err = s.checkRewind(e.Seq, p.Rewind)
	}
	if err != nil {
		return err
	}
	s.apply(e, p)
	s.Seq = e.Seq
	if e.Type == (HistoryCondensed{}).EventType() {
		s.CondensedAt = e.Time // this is not a use of the session
	} else {
		s.UpdatedAt = e.Time
	}
	return nil
}

// maxOpen is how much may be queued, asked or under way at once in a log from elsewhere. The cost
// of each event grows with it. It is far more than a session of ours ever has.
const maxOpen = 256

// Crowded returns an error if so much is queued, asked or under way that a log which goes on like
// that would take too long to fold.
func (s *Session) Crowded() error {
	what := ""
	switch {
	case len(s.Queue) > maxOpen:
		what = "turns are queued"
	case len(s.Interactions) > maxOpen:
		what = "interactions are open"
	case s.Turn != nil && len(s.Turn.Calls) > maxOpen:
		what = "calls of models are under way"
	case s.Turn != nil:
		open := 0
		for range s.Turn.Tools.Open() {
			if open++; open > maxOpen {
				what = "calls are open"
				break
			}
		}
	}
	if what == "" {
		return nil
	}
	return Errorf(CodeTooLarge, "more than %d %s at once", maxOpen, what)
}

// LastAt is the time of the last event.
func (s *Session) LastAt() time.Time {
	if s.CondensedAt.After(s.UpdatedAt) {
		return s.CondensedAt
	}
	return s.UpdatedAt
}

func (s *Session) apply(e Event, p Payload) {
	switch p := p.(type) {
	case SessionCreated:
		s.ID, s.CreatedAt, s.Status = e.Session, e.Time, Active
		s.App, s.User, s.Org, s.OutsideID, s.Title = p.App, p.User, p.Org, p.OutsideID, p.Title
		s.Model, s.Mode, s.Policy, s.Budgets, s.Memory = p.Model, p.Mode, p.Policy, p.Budgets, p.Memory
		s.Runtime, s.Temperature, s.MaxOutput = p.Runtime, p.Temperature, p.MaxOutput
		s.Workspace, s.ReadOnly = p.Workspace, p.ReadOnly
		s.attach(p.Attached)
		s.MaxUSD = p.MaxUSD
		if p.InForce != nil {
			s.InForce = *p.InForce
		}
		s.Busy, s.MaxOpenTurns, s.Preferences, s.Temporary, s.Direct = p.Busy, max(p.MaxOpenTurns, 1), p.Preferences, p.Temporary, p.Direct
	case HistoryRestored:
		s.restored(e, p)
	case SessionUpdated:
		s.update(p)
	case SessionEnded:
		s.Status = p.Status
		s.Queue, s.Rules, s.Provider = nil, nil, nil
	case SessionForked:
		s.Parent, s.Title, s.Status, s.Temporary, s.Direct = p.Parent, p.Title, Active, false, false
		s.Queue, s.Held, s.Rules, s.Interactions, s.Provider, s.OutsideID = nil, false, nil, nil, nil, ""
		s.Rewinding = nil
		if s.Turn != nil {
			s.Turn.Steers, s.Turn.Waiting = nil, nil
			for i := range s.Turn.Agents {
				s.Turn.Agents[i].Steers, s.Turn.Agents[i].Waiting = nil, nil
			}
		}
		if p.Workspace != "" {
			s.Workspace, s.ReadOnly = p.Workspace, p.ReadOnly
		} else {
			s.ReadOnly = s.Workspace != ""
		}
		if s.Kept != nil {
			k := *s.Kept
			k.Forked = true
			s.Kept = &k
		}
		s.ID = e.Session
	case SessionRewinding:
		s.Rewinding = &p.Rewind
	case SessionRewound:
		s.rewound(e, p)
	case ContextCompacted:
		s.forget(p.Through)
	case MemoryUpdated:
		s.applyMemory(p)
	case HistoryCondensed:
		if p.To > s.Condensed { // imported logs hold all steps, and record To as 0
			s.Condensed, s.StepsSince = p.To, p.Next
		}
		if s.Kept.Holds(p.To) {
			s.Kept = nil
		}
	case RuntimeKept:
		s.keepState(e, p)
	case TurnQueued:
		at := len(s.Queue)
		if p.Next {
			at = 0
		}
		s.Queue = slices.Insert(slices.Clip(s.Queue), at, QueuedTurn{ID: e.Turn, Request: p.TurnRequest, At: e.Time, Seq: e.Seq})
		s.Held = s.Held && (p.Late || p.Origin == OriginRuntime || p.Origin == OriginSchedule && !p.Next) // no user has asked for this turn
	case TurnStarted:
		s.startTurn(e, p)
	default:
		s.applyTurn(e, p)
	}
}

func (s *Session) update(p SessionUpdated) {
	if p.Title != nil {
		s.Title = *p.Title
	}
	if p.Model != nil && *p.Model != s.Model {
		s.Model, s.Provider = *p.Model, nil
	}
	if p.Runtime != nil {
		s.Runtime = *p.Runtime
	}
	if p.Temperature != nil {
		s.Temperature = p.Temperature
	}
	if p.MaxOutput != nil {
		s.MaxOutput = *p.MaxOutput
	}
	if p.Mode != nil {
		s.Mode = *p.Mode
	}
	if p.Busy != nil {
		s.Busy = *p.Busy
	}
	if p.Preferences != nil {
		s.Preferences = p.Preferences
	}
	if p.Rules != nil {
		s.Rules = *p.Rules
	}
	if p.Attached != nil {
		s.attach(*p.Attached)
	}
}

func (s *Session) startTurn(e Event, p TurnStarted) {
	s.dequeue(e.Turn)
	s.Held = false
	if p.InForce != nil {
		s.InForce = *p.InForce
	}
	if n := len(s.History); p.RetryOf != "" && n > 0 && s.History[n-1].Turn == p.RetryOf {
		// A retry replaces the exchange it repeats, but the effects of that exchange must
		// stay known.
		if old := s.History[n-1]; len(old.Effects) == 0 {
			s.HistoryBytes -= old.size()
			s.Taken = old.Taken.and(s.Taken)
			s.History = slices.Clip(s.History[:n-1])
		}
	}
	s.Turn = &Turn{
		ID: e.Turn, Status: StatusRunning, Request: p.TurnRequest, App: p.App,
		PromptDue: p.HookDue, StartedAt: e.Time, Zone: p.Zone, FirstSeq: e.Seq, RunningSince: e.Time,
	}
	s.Turn.Request.Budgets.MaxUSD = s.mayCost(p.Budgets.MaxUSD)
	s.Totals.Turns++
	if s.Unasked++; p.Origin != OriginRuntime {
		s.Unasked = 0
	}
	if s.Preview == "" {
		s.Preview = Cut(p.Message.Text(), 80)
	}
}

// leastUSD is less than any model call costs. No budget at all would be 0.
const leastUSD = 1e-9

// mayCost is what a turn may cost: its own limit, and what is left of the session's.
func (s *Session) mayCost(turn float64) float64 {
	if s.MaxUSD <= 0 {
		return turn
	}
	left := max(s.MaxUSD-s.Totals.Usage.USD, leastUSD)
	if turn > 0 {
		left = min(turn, left)
	}
	return left
}

func (s *Session) dequeue(id TurnID) {
	s.Queue = slices.DeleteFunc(slices.Clone(s.Queue), func(q QueuedTurn) bool { return q.ID == id })
	if len(s.Queue) == 0 {
		s.Queue, s.Held = nil, false
	}
}

// endTurn closes the open turn, or removes a queued one from the queue.
func (s *Session) endTurn(e Event, status TurnStatus, reply string) {
	t := s.Turn
	if t == nil || t.ID != e.Turn {
		s.dequeue(e.Turn)
		return
	}
	t.stopClock(e.Time)
	if s.StepsSince.IsZero() {
		s.StepsSince = e.Time
	}
	k := t.kept()
	x := Exchange{Turn: t.ID, Seq: e.Seq, User: t.Request.Message.Said(), Reply: reply, Status: status, Effects: k.Effects, Results: k.Results}
	if t.Request.Origin != OriginCall && !k.Unread {
		x.Taken, s.Taken = s.Taken, nil
		s.History = append(s.History, x)
		s.HistoryBytes += x.size()
		if k.About != nil {
			s.About = k.About
		}
	}
	if k := s.Kept; k != nil && k.Turn != t.ID && t.Request.Origin != OriginCall {
		behind := *k
		behind.Behind = true
		s.Kept = &behind
	}
	s.trimHistory()
	s.Totals.Steps += t.Spent.Steps
	s.Totals.ToolCalls += t.Spent.ToolCalls
	s.Totals.Usage = s.Totals.Usage.Add(t.Spent.Usage)
	s.Last = &TurnRef{ID: t.ID, Status: status}
	s.Turn = nil
	s.Interactions = nil
	switch status {
	case StatusCancelled, StatusExpired:
		s.Provider = nil
		// A command that came after the stop request has released the queue.
		s.Held = len(s.Queue) > 0 && (s.Held || t.Stop == nil)
	case StatusFailed:
		s.Provider, s.Held = nil, false
	default:
		s.Held = false
	}
}

func (s *Session) trimHistory() {
	n := 0
	if k := s.Memory.LastK; k > 0 && s.Memory.SummaryTokens == 0 {
		// If there is a summary, exchanges stay until it covers them. The loop takes as
		// many as its model has room for.
		n = max(0, len(s.History)-(k*MaxGrowth+1)/2)
	}
	bytes := s.HistoryBytes
	for _, x := range s.History[:n] {
		bytes -= x.size()
	}
	for bytes > MaxHistoryBytes && n < len(s.History)-1 {
		bytes -= s.History[n].size()
		n++
	}
	s.dropHistory(n)
}

func (s *Session) dropHistory(n int) {
	for _, x := range s.History[:n] {
		s.HistoryBytes -= x.size()
	}
	if s.History = s.History[n:]; len(s.History) == 0 {
		s.History = nil
	}
}

func (x Exchange) size() int {
	n := len(x.Reply) + 64 + x.Taken.size()
	for _, p := range x.User.Parts {
		n += len(p.Text) + len(p.Input) + len(p.URI) + len(p.Title) + 32
	}
	for _, e := range x.Effects {
		n += len(e.Call) + len(e.Tool) + 32
	}
	for _, line := range x.Results {
		n += len(line) + 4
	}
	return n
}

// Clone returns a copy; advancing either one does not change the other. Data that a fold
// never changes in place is shared.
func (s *Session) Clone() *Session {
	c := new(Session) // not a copy on the stack, which every turn would grow for
	*c = *s
	c.History = slices.Clip(s.History)
	c.Queue = slices.Clone(s.Queue)
	c.Interactions = slices.Clone(s.Interactions)
	c.Turn = s.Turn.clone()
	c.Provider = maps.Clone(s.Provider)
	return c
}

// Principal is who the session belongs to.
func (s Session) Principal() Principal { return Principal{User: s.User, Org: s.Org} }

// OpenTurns counts the running or waiting turn and the queued turns.
func (s Session) OpenTurns() int {
	n := len(s.Queue)
	if s.Turn != nil && s.Turn.Status.Open() {
		n++
	}
	return n
}

// QueueHeld reports whether turns are queued and none of them runs before the next
// command.
func (s Session) QueueHeld() bool {
	return s.Held && len(s.Queue) > 0 && (s.Turn == nil || s.Turn.Status == StatusInterrupted && !s.Turn.Resumes)
}

// Info returns the session as lists show it.
func (s Session) Info() SessionInfo {
	force := s.InForce.Of(s)
	in := SessionInfo{
		Policy: &force.Policy,
		ID:     s.ID, App: s.App, User: s.User, Org: s.Org, OutsideID: s.OutsideID, Title: s.Title, Preview: s.Preview,
		Status: s.Status, Model: force.Model, Runtime: s.Runtime, Busy: s.Busy, Parent: s.Parent, Direct: s.Direct, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
		Workspace: s.Workspace, ReadOnly: s.ReadOnly, Attached: s.Attached, MaxUSD: s.MaxUSD, MaxSteps: s.Budgets.MaxSteps,
		Rewinding:  s.Rewinding != nil,
		StepsSince: s.StepsSince, Version: s.Seq, Waiting: len(s.Interactions), Offered: s.Offered(), Held: s.QueueHeld(), Totals: s.Totals,
	}
	if s.Turn != nil {
		in.Turn = &TurnRef{ID: s.Turn.ID, Status: s.Turn.Status}
	}
	if s.Last != nil {
		last := *s.Last
		in.Last = &last
	}
	if r, ok := s.LastRewind(); ok {
		in.Rewound = &r
	}
	for _, q := range s.Queue {
		in.Queue = append(in.Queue, q.ID)
	}
	return in
}

// Offered counts the open interactions that offer a call to clients.
func (s *Session) Offered() int {
	n := 0
	for _, in := range s.Interactions {
		if in.Kind == KindClient {
			n++
		}
	}
	return n
}

// Cut returns text as one line of at most n characters, with an ellipsis if it was
// shortened.
func Cut(text string, n int) string {
	runes := make([]rune, 0, n)
	space := true // drop leading space
	for _, r := range text {
		if r == '\n' || r == '\r' || r == '\t' || r == ' ' {
			if space {
				continue
			}
			r, space = ' ', true
		} else {
			space = false
		}
		if len(runes) == n {
			runes[n-1] = '…'
			break
		}
		runes = append(runes, r)
	}
	if m := len(runes); m > 0 && runes[m-1] == ' ' {
		runes = runes[:m-1]
	}
	return string(runes)
}
