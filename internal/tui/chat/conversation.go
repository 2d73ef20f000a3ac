package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// conversation is what is shown of a session: a fold of a stretch of its log up to the end, and
// the text in flight. It need not begin at event 1, so a long session is opened at its end.
type conversation struct {
	info  parley.SessionInfo
	mode  parley.PermissionMode
	most  int     // how many turns may be open, queued ones among them
	from  int64   // events up to this one are not part of it
	seq   int64   // the last event that is
	turns []*turn // in the order in which they began
	queue []*turn // not begun yet
	open  []parley.Interaction
	older parley.TurnID // the oldest turn; empty: there are no older ones

	stale   bool                   // a turn has ended, so that what the session has used has to be read again
	taken   map[parley.TurnID]bool // turns that a rewind took back
	rewound bool                   // a rewind was seen, so that what is shown has to be read again
}

// turn is one message and everything that was done about it.
type turn struct {
	id        parley.TurnID
	status    parley.TurnStatus
	first     int64 // its first event
	seq       int64 // its last event
	from      int64 // events of it up to this one are not shown; 0: all are
	origin    parley.Origin
	message   string
	resources []parley.ResourceRef
	files     []parley.Part // attached images and files
	by        string
	asked     time.Time
	ended     time.Time
	stopping  bool
	resumes   bool
	rewound   bool // taken back by a rewind
	reason    string
	err       *parley.ErrorInfo
	usage     parley.Usage
	models    []string
	follow    []string
	entry     parley.AgentPath
	items     []*item
	calls     map[parley.CallID]*item
	texts     map[textKey]*item
	agents    map[parley.AgentPath]*item
	said      string // the last text of an agent that answers the user
	head, end *item  // the message, and how the turn ended
}

type textKey struct {
	call parley.CallID
	kind parley.DeltaKind
}

type itemKind int

const (
	kindMessage itemKind = iota // what the user asked
	kindText                    // what a model said
	kindThought                 // what it thought
	kindTool
	kindAgent // a sub-agent that no call began
	kindNote
	kindAnswered // an interaction and its answer
	kindEnd      // how a turn ended
	kindFiles
	kindGap // what is not loaded
)

// item is one thing in a turn.
type item struct {
	kind  itemKind
	turn  *turn
	seq   int64 // the event that it came with
	at    time.Time
	agent parley.AgentPath
	inner []*item // of a sub-agent

	text  string
	buf   strings.Builder // the text, while it arrives
	n     int64           // source deltas in the text
	live  bool            // more may come
	cut   bool
	label string

	call     parley.CallID
	name     string
	title    string // of a sub-agent's task
	subject  string
	input    json.RawMessage
	status   parley.ToolStatus
	waits    bool // for a human
	outcome  parley.Outcome
	output   string
	omitted  int // bytes of the output that are not kept
	progress string
	took     time.Duration
	done     time.Time
	files    []parley.FileSaved
	attached []parley.Part // of a message that was told while the turn ran
	images   []parley.ArtifactRef
	artifact *parley.ArtifactRef
	by       string

	fold   fold
	rev    int // raised by every change, so that what was drawn is drawn again
	drawn  drawn
	blocks blocks
}

// fold says whether the details of an item are shown.
type fold int

const (
	foldAuto fold = iota
	foldOpen
	foldShut
)

// maxKept is how many bytes of a call's input or output are kept in memory.
const maxKept = 64 << 10

func newConversation(info parley.SessionInfo) *conversation {
	return &conversation{info: info, mode: parley.ModeDefault, taken: map[parley.TurnID]bool{}}
}

func newTurn(id parley.TurnID) *turn {
	t := &turn{
		id: id, status: parley.StatusRunning,
		calls: map[parley.CallID]*item{}, texts: map[textKey]*item{}, agents: map[parley.AgentPath]*item{},
	}
	t.head = &item{kind: kindMessage, turn: t}
	return t
}

// seed adds a turn whose first events are not read, as the server describes it.
func (c *conversation) seed(info parley.TurnInfo) *turn {
	t := newTurn(info.ID)
	t.status, t.first, t.origin, t.message, t.asked = info.Status, info.FirstSeq, info.Origin, info.Message, info.CreatedAt
	t.stopping, t.resumes, t.reason, t.rewound, t.ended = info.Stopping, info.Resumes, info.Reason, info.Rewound != 0, info.EndedAt
	t.err, t.usage = info.Error, info.Spent.Usage
	t.head.at = t.asked
	if info.Status == parley.StatusPending {
		c.queue = append(c.queue, t)
	} else {
		c.turns = append(c.turns, t)
	}
	return t
}

func (c *conversation) turn(id parley.TurnID) *turn {
	for _, t := range slices.Backward(c.turns) {
		if t.id == id {
			return t
		}
	}
	return nil
}

// running is the turn that holds the session, or nil.
func (c *conversation) running() *turn {
	for _, t := range slices.Backward(c.turns) {
		if t.status.Open() || t.status == parley.StatusInterrupted && t.resumes {
			return t
		}
	}
	return nil
}

// queues reports whether the session takes another message behind its turn.
func (c *conversation) queues() bool {
	n := len(c.queue)
	if c.running() != nil {
		n++
	}
	return n < c.most
}

// last is the newest turn that was not taken back, or nil.
func (c *conversation) last() *turn {
	for _, t := range slices.Backward(c.turns) {
		if !t.rewound {
			return t
		}
	}
	return nil
}

// take advances the conversation by what a follower received.
func (c *conversation) take(f client.Frame) {
	switch {
	case f.Delta != nil:
		c.delta(*f.Delta, f.Partial)
	case f.Event != nil:
		c.apply(*f.Event)
	}
}

func (c *conversation) delta(d parley.Delta, whole bool) {
	t := c.turn(d.Turn)
	if t == nil || d.Agent.OfMemory() || d.Agent.OfSampling() {
		return
	}
	if d.Kind == parley.DeltaProgress {
		if it := t.calls[d.Call]; it != nil {
			it.progress = d.Text
			it.rev++
		}
		return
	}
	it := t.textOf(d.Call, d.Kind, d.Agent, time.Now())
	switch {
	case !it.live, d.N <= it.n && !whole:
		return // the reply is there, or this text is
	case whole:
		it.buf.Reset()
	}
	it.buf.WriteString(d.Text)
	it.text = it.buf.String()
	it.n = d.N
	it.rev++
	if t.status == parley.StatusRunning && d.Agent.Depth() == 0 && d.Kind == parley.DeltaText {
		t.status = parley.StatusStreaming
	}
}

// textOf is the item for what a model call says or thinks.
func (t *turn) textOf(call parley.CallID, kind parley.DeltaKind, agent parley.AgentPath, at time.Time) *item {
	key := textKey{call, kind}
	if it := t.texts[key]; it != nil {
		return it
	}
	it := &item{kind: kindText, turn: t, call: call, agent: agent, at: at, live: true}
	if kind == parley.DeltaThinking {
		it.kind = kindThought
	}
	t.texts[key] = it
	t.add(it)
	return it
}

// add puts an item at the end of what its agent did.
func (t *turn) add(it *item) {
	it.turn, it.seq = t, t.seq
	if it.agent.Depth() > 0 {
		if of := t.agents[it.agent]; of != nil {
			of.inner = append(of.inner, it)
			of.rev++
			return
		}
	}
	t.items = append(t.items, it)
}

func (t *turn) note(e parley.Event, text string) {
	if text != "" {
		t.add(&item{kind: kindNote, agent: e.Agent.Caller(), at: e.Time, text: text})
	}
}

// apply advances the conversation by one event. One that it has is ignored.
func (c *conversation) apply(e parley.Event) {
	if e.Seq <= c.seq {
		return
	}
	c.seq = e.Seq
	p, err := e.Payload()
	if err != nil {
		return // newer than this program, or condensed
	}
	switch p := p.(type) {
	case parley.SessionCreated, parley.SessionUpdated, parley.SessionEnded, parley.SessionForked:
		c.session(p)
	case parley.SessionRewinding:
		c.info.Rewinding = true
	case parley.SessionRewound:
		c.info.Rewinding = false
		c.rewound = c.rewound || e.Seq > c.info.Version // what was before is read as it is now
	case parley.TurnQueued:
		t := newTurn(e.Turn)
		t.ask(e, p.TurnRequest, parley.StatusPending)
		if p.Next {
			c.queue = slices.Insert(c.queue, 0, t)
		} else {
			c.queue = append(c.queue, t)
		}
	case parley.TurnStarted:
		t := c.dequeue(e.Turn)
		if t == nil {
			t = newTurn(e.Turn)
		}
		t.ask(e, p.TurnRequest, parley.StatusRunning)
		t.rewound = c.taken[e.Turn]
		c.turns = append(c.turns, t)
		c.info.Held = false
	case parley.InteractionOpened:
		c.opened(e, p.Interaction)
	case parley.InteractionAnswered:
		c.closed(e, p.ID, &p)
	case parley.InteractionExpired:
		c.closed(e, p.ID, nil)
	default:
		if t := c.turn(e.Turn); t != nil {
			t.seq = e.Seq
			t.apply(e, p)
		} else if ends(p) {
			c.dequeue(e.Turn)
		}
	}
	if ends(p) {
		c.stale = c.stale || e.Seq > c.info.Version
		c.info.Held = c.info.Held || len(c.queue) > 0 && heldBy(p)
		c.open = slices.DeleteFunc(c.open, func(in parley.Interaction) bool { return in.Turn == e.Turn })
	}
}

func ends(p parley.Payload) bool {
	switch p.(type) {
	case parley.TurnCompleted, parley.TurnFailed, parley.TurnCancelled, parley.TurnExpired:
		return true
	}
	return false
}

// heldBy reports whether the queue waits for a command after a turn that ended so.
func heldBy(p parley.Payload) bool {
	switch p.(type) {
	case parley.TurnCancelled, parley.TurnExpired:
		return true
	}
	return false
}

// session applies what changes a session as a whole.
func (c *conversation) session(p parley.Payload) {
	switch p := p.(type) {
	case parley.SessionCreated:
		c.info.App, c.info.Title, c.info.Workspace, c.info.Busy = p.App, p.Title, p.Workspace, p.Busy
		c.most = p.MaxOpenTurns
		if p.Mode != "" {
			c.mode = p.Mode
		}
		if p.Model != "" {
			c.info.Model = p.Model
		}
		c.info.Runtime = p.Runtime
	case parley.SessionUpdated:
		if p.Title != nil {
			c.info.Title = *p.Title
		}
		if p.Mode != nil {
			c.mode = *p.Mode
			if c.mode == "" {
				c.mode = parley.ModeDefault
			}
		}
		if p.Model != nil {
			c.info.Model = *p.Model
		}
		if p.Runtime != nil {
			c.info.Runtime = *p.Runtime
		}
		if p.Busy != nil {
			c.info.Busy = *p.Busy
		}
	case parley.SessionEnded:
		c.info.Status = p.Status
	case parley.SessionForked:
		c.info.Title, c.info.Workspace, c.info.ReadOnly, c.info.Status = p.Title, p.Workspace, p.ReadOnly, parley.Active
	}
}

// dequeue takes a turn off the queue.
func (c *conversation) dequeue(id parley.TurnID) *turn {
	for i, t := range c.queue {
		if t.id == id {
			c.queue = slices.Delete(c.queue, i, i+1)
			return t
		}
	}
	return nil
}

func (t *turn) ask(e parley.Event, r parley.TurnRequest, status parley.TurnStatus) {
	t.status, t.origin, t.message, t.resources, t.by, t.asked = status, r.Origin, r.Message.Text(), r.Message.Resources(), r.By, e.Time
	t.files = filesOf(r.Message)
	if status != parley.StatusPending {
		t.first = e.Seq
	}
	t.head.at = e.Time
	t.head.rev++
	if r.Call != nil && t.message == "" {
		t.message = "call " + r.Call.Name
	}
}

// filesOf are the files that a message has, without those of MCP servers.
func filesOf(m parley.Message) (files []parley.Part) {
	for _, p := range m.Parts {
		if (p.Type == parley.PartImage || p.Type == parley.PartFile || p.Type == parley.PartAttachment) && p.Server == "" {
			if !p.IsError {
				p.Text = "" // it is the file's, and may be long
			}
			files = append(files, p)
		}
	}
	return files
}

func (c *conversation) opened(e parley.Event, in parley.Interaction) {
	if slices.ContainsFunc(c.open, func(o parley.Interaction) bool { return o.ID == in.ID }) {
		return
	}
	c.open = append(c.open, in)
	if t := c.turn(e.Turn); t != nil {
		t.status = parley.StatusWaiting
		if it := t.calls[in.Call]; it != nil {
			it.waits = true
			it.rev++
		}
	}
}

// closed removes an interaction, and says how it was answered; answer is nil when it expired.
func (c *conversation) closed(e parley.Event, id parley.InteractionID, answer *parley.InteractionAnswered) {
	i := slices.IndexFunc(c.open, func(in parley.Interaction) bool { return in.ID == id })
	t := c.turn(e.Turn)
	if i < 0 {
		return
	}
	in := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	if t == nil {
		return
	}
	if it := t.calls[in.Call]; it != nil {
		it.waits = false
		it.rev++
	}
	if !slices.ContainsFunc(c.open, func(o parley.Interaction) bool { return o.Turn == e.Turn }) && t.status == parley.StatusWaiting {
		t.status = parley.StatusRunning
	}
	if answer != nil {
		t.add(answeredItem(e, in, *answer))
	} else if in.Kind != parley.KindClient {
		t.note(e, "nobody answered in time: "+in.Title)
	}
}
