package parley

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Turn is the open or interrupted turn of a Session: all that the loop needs to determine
// what comes next.
type Turn struct {
	ID           TurnID             `json:"id"`
	Status       TurnStatus         `json:"status"` // running, waiting or interrupted
	Request      TurnRequest        `json:"request"`
	App          Digest             `json:"app"`
	StartedAt    time.Time          `json:"started_at"`
	Zone         *Zone              `json:"zone,omitempty"` // see TurnStarted
	FirstSeq     int64              `json:"first_seq"`
	RunningSince time.Time          `json:"running_since,omitzero"`  // zero while its clock is stopped
	Attempts     int                `json:"attempts,omitempty"`      // how often it was resumed
	AutoAttempts int                `json:"auto_attempts,omitempty"` // how often automatically since it last got any further
	Deadly       map[string]int     `json:"deadly,omitempty"`        // by tool: automatic resumptions after the server stopped during a call of it, since it last survived one
	Resumes      bool               `json:"resumes,omitempty"`       // interrupted, and goes on by itself
	Stop         *TurnStopRequested `json:"stop,omitempty"`
	Agents       []Agent            `json:"agents,omitempty"` // in start order
	Active       AgentPath          `json:"active,omitempty"` // the top-level agent in charge of the turn
	Calls        []ModelCall        `json:"calls,omitempty"`  // model calls that have not ended
	Tools        Tools              `json:"tools,omitzero"`   // every tool call of the turn
	Steers       []Message          `json:"steers,omitempty"` // for the next step of the agent in charge
	Answers      []Answered         `json:"answers,omitempty"`
	Sampled      []Sampled          `json:"sampled,omitempty"`   // what servers got of the model, in calls that have not ended
	Retrieved    bool               `json:"retrieved,omitempty"` // the lookup for this turn was done
	Attached     []AttachedEntity   `json:"attached,omitempty"`  // the session's attached entities, as that lookup found them
	Snippets     []Snippet          `json:"snippets,omitempty"`
	Waiting      []InteractionID    `json:"waiting,omitempty"`    // the interactions that its agents wait for
	Observed     int                `json:"observed,omitempty"`   // number of context.observed events so far
	Noted        int                `json:"noted,omitempty"`      // bytes of hook.*, files.* and runtime.noted events so far
	PromptDue    bool               `json:"prompt_due,omitempty"` // hooks must run before any model sees its message
	Prompt       *Hooked            `json:"prompt,omitempty"`     // what hooks decided about its message
	Told         []string           `json:"told,omitempty"`       // what hooks add to its message
	Resumed      bool               `json:"resumed,omitempty"`    // it was resumed, and no model or hook has been told yet
	Compact      *Hooked            `json:"compact,omitempty"`    // what hooks decided about compacting earlier turns; nil: they were not asked
	HookBytes    int                `json:"hook_bytes,omitempty"` // bytes of the decisions of the engine's hooks so far
	// Web says that the turn has content that strangers wrote, of a tool that is declared so
	// or of one that a model's provider ran. A model may have taken instructions from it.
	Web    bool           `json:"web,omitempty"`
	Budget *BudgetReached `json:"budget,omitempty"`
	Spent  Spent          `json:"spent"`

	// Kept is what retention left of the turn's calls. In a log whose steps were
	// condensed it is set just before the turn's end is applied.
	Kept *CondensedTurn `json:"-"`
}

// ModelCall is a model call that has not ended.
type ModelCall struct {
	Call     CallID    `json:"call"`
	Agent    AgentPath `json:"agent"`
	Model    string    `json:"model"`
	Reserved Usage     `json:"reserved"`
	At       time.Time `json:"at"`
	For      CallID    `json:"for,omitempty"` // the call of a tool whose server gets the reply, and see Sampling.Key
	Key      string    `json:"key,omitempty"`
}

// Answered is an answer to a question that a tool call of this turn asked itself.
type Answered struct {
	ID     InteractionID   `json:"id"`
	Kind   InteractionKind `json:"kind"`
	Call   CallID          `json:"call,omitempty"`
	Key    string          `json:"key"` // see Interaction.Key
	Answer Answer          `json:"answer"`
}

// AnswerTo returns the answer to what a call asked under a key.
func (t *Turn) AnswerTo(call CallID, key string) (Answer, bool) {
	for _, a := range t.Answers {
		if a.Call == call && a.Key == key {
			return a.Answer, true
		}
	}
	return Answer{}, false
}

// applyTurn folds the events inside a turn. Events of other turns than the open one
// change nothing, except that they remove a queued turn from the queue.
func (s *Session) applyTurn(e Event, p Payload) {
	switch p := p.(type) {
	case TurnCompleted:
		s.endTurn(e, StatusCompleted, p.Response.Message)
		return
	case TurnFailed:
		s.endTurn(e, StatusFailed, replyOf(p.Response))
		return
	case TurnCancelled:
		s.endTurn(e, StatusCancelled, replyOf(p.Response))
		return
	case TurnExpired:
		s.endTurn(e, StatusExpired, "")
		return
	}
	t := s.Turn
	if t == nil || t.ID != e.Turn {
		return
	}
	t.getsFurther(p)
	switch p := p.(type) {
	case TurnSteered:
		t.steer(e.Agent, p.Message)
	case TurnStopRequested:
		t.Stop, s.Held = &p, true
	case TurnInterrupted:
		at := e.Time
		if !p.Last.IsZero() {
			at = p.Last
		}
		t.stopClock(at)
		t.Status, t.Resumes = StatusInterrupted, p.Resumes
		if t.Stop == nil { // the request to stop has decided about the queue
			s.Held = len(s.Queue) > 0
		}
	case TurnResumed:
		t.Attempts++
		t.cut(p.Auto)
		t.Status, t.Resumes, t.RunningSince = StatusRunning, false, e.Time
		t.afresh()
		t.Resumed = len(t.Agents) > 0
		s.Held = s.Held && t.Stop != nil
	case ContextRetrieved:
		t.retrieved(p)
	case ContextTransferred:
		if a := t.Agent(e.Agent); a != nil {
			a.Transfer = &p
		}
	case ContextObserved:
		t.Observed++
		s.heard(t, p)
	case HookRan:
		if p.From != "" {
			t.hooked(e, p)
			break
		}
		t.Noted += len(e.Data)
	case FilesAnnounced, FilesSaved, RuntimeNoted:
		t.Noted += len(e.Data)
	case AgentStarted, AgentHandoff, AgentEnded:
		t.applyAgent(e, p)
	case BudgetReached:
		t.Budget = &p
	case ModelStarted, ModelReplied, ModelFailed:
		s.applyModel(t, e, p)
	case ToolRequested, ToolStarted, ToolEnded:
		t.applyTool(e, p)
		if p, ok := p.(ToolEnded); ok {
			t.forget(p.Call)
		}
	case InteractionOpened, InteractionAnswered, InteractionExpired:
		s.applyInteraction(t, e, p)
	}
	t.rest(e.Time)
}

// getsFurther notes that p is progress of the turn, so that earlier attempts do not count any more.
// What recovery finds out about a call after a crash is not progress.
func (t *Turn) getsFurther(p Payload) {
	switch p := p.(type) {
	case ModelReplied:
		t.AutoAttempts = 0
	case ToolEnded:
		c := t.Tool(p.Call)
		if c == nil || c.Cut {
			return
		}
		t.AutoAttempts = 0
		if c.Status == ToolIsStarted {
			t.survived(c.Name)
		}
	}
}

// settles notes that somebody decided about a lost call of a tool. The turn got as far as asking,
// and what follows is wanted: it may be resumed as often as a new turn.
func (t *Turn) settles(tool string) {
	t.AutoAttempts = 0
	t.survived(tool)
}

func (t *Turn) survived(tool string) {
	if t.Deadly[tool] > 0 {
		t.Deadly = maps.Clone(t.Deadly)
		delete(t.Deadly, tool)
	}
}

// cut marks the calls that were started when the server stopped, and counts the
// resumption if it is automatic.
func (t *Turn) cut(auto bool) {
	tools := map[string]bool{}
	for _, c := range t.Tools.Open() {
		if c.Status == ToolIsStarted && !c.awaitsAgent() && c.Run != RunClient { // a client's call continues without the server
			t.edit(c.Call).Cut = true
			tools[c.Name] = true
		}
	}
	if !auto {
		return
	}
	t.AutoAttempts++
	deadly := maps.Clone(t.Deadly)
	for name := range tools {
		if deadly == nil {
			deadly = map[string]int{}
		}
		deadly[name]++
	}
	t.Deadly = deadly
}

// InVain is how often in a row the turn was resumed automatically without progress: the server
// stopped again before it got further, or during another call of the same tool, which is then
// named. A model that is told that the outcome of a call is unknown may make the
// call again, with others that work in between.
func (t *Turn) InVain() (times int, tool string) {
	for name, n := range t.Deadly {
		if n > times || n == times && name < tool {
			times, tool = n, name
		}
	}
	if t.AutoAttempts >= times {
		return t.AutoAttempts, ""
	}
	return times, tool
}

func replyOf(r *Response) string {
	if r == nil {
		return ""
	}
	return r.Message
}

func (s *Session) applyModel(t *Turn, e Event, p Payload) {
	if e.Agent.OfSampling() {
		t.applySampling(e, p)
		return
	}
	a := t.Agent(e.Agent)
	switch p := p.(type) {
	case ModelStarted:
		t.Resumed = false
		t.Calls = append(t.Calls, ModelCall{Call: p.Call, Agent: e.Agent, Model: p.Model, Reserved: p.Reserved, At: e.Time})
		if a == nil || a.Name != MemoryAgent {
			t.Spent.Steps++
		}
		if a != nil {
			t.deliver(a, e.Seq)
		}
	case ModelReplied:
		asked := p.Model // the requested name: the provider's answer may have another
		for _, c := range t.Calls {
			if c.Call == p.Call {
				asked = c.Model
			}
		}
		t.closeCall(p.Call)
		t.Spent.Usage = t.Spent.Usage.Add(p.Usage)
		t.Web = t.Web || len(p.Citations) > 0 || slices.ContainsFunc(p.Parts, func(x Part) bool { return x.Type == PartProvider })
		if a == nil || a.Ended {
			return
		}
		a.Failures, a.Failed = 0, nil
		a.add(Item{Seq: e.Seq, Kind: ItemReply, Call: p.Call, Parts: p.Parts, Citations: p.Citations})
		if a.Parent != "" && a.Name != MemoryAgent {
			return // what it says belongs to this turn alone
		}
		if a.Name != MemoryAgent && s.Answered[a.Name] != asked { // it hardly ever changes, so clones share it
			answered := maps.Clone(s.Answered)
			if answered == nil {
				answered = map[string]string{}
			}
			answered[a.Name] = asked
			s.Answered = answered
		}
		delete(s.Provider, a.Name)
		if p.State != nil {
			if s.Provider == nil {
				s.Provider = map[string]ProviderState{}
			}
			s.Provider[a.Name] = ProviderState{Model: asked, Seq: e.Seq, State: p.State}
		}
	case ModelFailed:
		asked := ""
		for _, c := range t.Calls {
			if c.Call == p.Call {
				asked = c.Model
			}
		}
		t.closeCall(p.Call)
		t.Spent.Usage = t.Spent.Usage.Add(p.Usage)
		if a == nil || a.Ended {
			return
		}
		a.failed(asked, p)
		if a.Parent == "" || a.Name == MemoryAgent {
			delete(s.Provider, a.Name)
		}
		if a.Name != MemoryAgent {
			// A provider's state may span several agents. If one of them failed, nobody
			// knows which part of its call the provider kept.
			maps.DeleteFunc(s.Provider, func(_ string, ps ProviderState) bool { return ps.Model == asked })
		}
		if p.Partial != "" {
			a.add(Item{Seq: e.Seq, Kind: ItemCut, Call: p.Call, Text: p.Partial, Repeated: p.Retry})
		}
	}
}

func (s *Session) applyInteraction(t *Turn, e Event, p Payload) {
	switch p := p.(type) {
	case InteractionOpened:
		s.Interactions = append(s.Interactions, p.Interaction)
		t.Waiting = append(t.Waiting, p.ID)
		if a := t.asker(p.Interaction); a != nil {
			a.Waiting = append(slices.Clip(a.Waiting), p.ID)
		}
		if c := t.edit(p.Call); c != nil {
			switch p.Kind {
			case KindPermission, KindConfirmation:
				if p.Key == "" {
					c.Asked = p.ID
				}
			case KindUnknown:
				c.AskedWhat = p.ID
			case KindClient:
				c.Claim = nil // its claimer has not reported in time
			}
		}
	case InteractionAnswered:
		for _, in := range s.Interactions {
			if in.ID != p.ID {
				continue
			}
			if in.Kind == KindUnknown {
				t.settles(in.Tool)
			}
			if c := t.edit(in.Call); c != nil {
				c.EditCut = p.Redacted
				if len(p.Answer.Input) > 0 {
					c.Hook = nil // no hook has seen this input
				}
			}
		}
		s.closeInteraction(t, e, p.ID, &p.Answer)
	case InteractionExpired:
		s.closeInteraction(t, e, p.ID, nil)
	}
}

// heard adds an observation about a call to the question, open or still to come, about that call's outcome.
func (s *Session) heard(t *Turn, p ContextObserved) {
	if p.Source != string(KindClient) {
		return
	}
	if c := t.edit(CallID(p.Ref)); c != nil {
		c.Late = p.Text
	}
	s.Interactions = hearing(s.Interactions, p)
}

// closeInteraction closes an open interaction. A nil answer means that nobody answered in
// time, which counts as no.
func (s *Session) closeInteraction(t *Turn, e Event, id InteractionID, answer *Answer) {
	at := slices.IndexFunc(s.Interactions, func(i Interaction) bool { return i.ID == id })
	if at < 0 {
		return
	}
	in := s.Interactions[at]
	s.Interactions = slices.Delete(slices.Clone(s.Interactions), at, at+1)
	is := func(w InteractionID) bool { return w == id }
	t.Waiting = slices.DeleteFunc(slices.Clone(t.Waiting), is)
	for i := range t.Agents {
		a := &t.Agents[i]
		a.Waiting = slices.DeleteFunc(slices.Clone(a.Waiting), is)
	}
	c := t.edit(in.Call)
	if c != nil && in.Key != "" && in.Kind != KindClient && c.Status == ToolIsStarted && c.Effect != EffectRead {
		// The call waited for the answer, and that time does not count against its deadline.
		c.Deadline = c.Deadline.Add(max(0, e.Time.Sub(in.OpenedAt)))
	}
	switch {
	case c != nil && in.Key == "" && (in.Kind == KindPermission || in.Kind == KindConfirmation):
		if answer == nil {
			answer = &Answer{Choice: ChoiceDeny, Text: "nobody answered in time"}
		}
		c.Answer = answer
		c.Granted = answer.Choice == ChoiceAllow || answer.Choice == ChoiceAllowSession
	case c != nil && in.Kind == KindUnknown:
		c.Resolution = ChoiceLeave
		if answer != nil {
			c.Resolution = answer.Choice
		}
	default:
		if answer == nil {
			answer = &Answer{Choice: ChoiceDeny, Text: "nobody answered in time"}
		}
		t.Answers = append(t.Answers, Answered{ID: id, Kind: in.Kind, Call: in.Call, Key: in.AskedAs(), Answer: *answer})
	}
}

// Answered is what the turn has told the user so far: the last words of its entry agent.
// What agents tell one another is not an answer.
func (t *Turn) Answered() string {
	if len(t.Agents) == 0 {
		return ""
	}
	items := t.Agents[0].Items
	for i := len(items) - 1; i >= 0; i-- {
		text := items[i].Text
		switch items[i].Kind {
		case ItemReply:
			text = PartsText(items[i].Parts)
		case ItemCut:
		default:
			continue
		}
		if strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}

// Reserved is what the open model calls may still cost.
func (t *Turn) Reserved() Usage {
	var u Usage
	for _, c := range t.Calls {
		u = u.Add(c.Reserved)
	}
	return u
}

// Ran is how long the turn has run so far. Time spent queued, waiting or interrupted does
// not count.
func (t *Turn) Ran(now time.Time) time.Duration {
	d := time.Duration(t.Spent.RanMS) * time.Millisecond
	if !t.RunningSince.IsZero() {
		d += max(0, now.Sub(t.RunningSince))
	}
	return d
}

func (t *Turn) stopClock(at time.Time) {
	t.Spent.RanMS = t.Ran(at).Milliseconds()
	t.RunningSince = time.Time{}
}

func (t *Turn) closeCall(call CallID) {
	t.Calls = slices.DeleteFunc(slices.Clone(t.Calls), func(c ModelCall) bool { return c.Call == call })
}

func (t *Turn) clone() *Turn {
	if t == nil {
		return nil
	}
	c := new(Turn)
	*c = *t
	c.Agents = slices.Clone(t.Agents)
	c.Calls = slices.Clip(t.Calls)
	c.Steers = slices.Clip(t.Steers)
	c.Answers = slices.Clip(t.Answers)
	c.Sampled = slices.Clip(t.Sampled)
	c.Waiting = slices.Clip(t.Waiting)
	return c
}
