package parley

import (
	"encoding/json"
	"iter"
	"slices"
	"time"
)

// ToolStatus is the stage of a tool call.
type ToolStatus string

const (
	ToolIsRequested ToolStatus = "requested"
	ToolIsStarted   ToolStatus = "started"
	ToolIsEnded     ToolStatus = "ended"
)

// Tool is one tool call of the turn.
type Tool struct {
	Call       CallID          `json:"call"`
	Agent      AgentPath       `json:"agent,omitempty"`
	Name       string          `json:"name"`
	Input      json.RawMessage `json:"input"`              // as requested; after tool.started: as used
	Redacted   bool            `json:"redacted,omitempty"` // the secrets of Input were taken out
	Seq        int64           `json:"seq"`
	Status     ToolStatus      `json:"status"`
	Effect     Effect          `json:"effect,omitempty"` // known once started
	Run        RunBy           `json:"run,omitempty"`    // known once started
	Attempt    int             `json:"attempt,omitempty"`
	Claim      *Claim          `json:"claim,omitempty"`     // the client that runs it; nil again when the call is offered again
	Report     Digest          `json:"report,omitempty"`    // identifies that client's report, see ToolEnded
	Late       string          `json:"late,omitempty"`      // what that client reported after the deadline, as a sentence
	StartedAt  time.Time       `json:"started_at,omitzero"` // first start
	Deadline   time.Time       `json:"deadline,omitzero"`
	Web        bool            `json:"web,omitempty"`      // its result holds what strangers wrote; known once started
	Cut        bool            `json:"cut,omitempty"`      // the server stopped since it was last started
	Asked      InteractionID   `json:"asked,omitempty"`    // the permission requested for it
	Answer     *Answer         `json:"answer,omitempty"`   // the answer to that
	EditCut    bool            `json:"edit_cut,omitempty"` // the secrets of the answer's Input were taken out
	Granted    bool            `json:"granted,omitempty"`
	Consumed   bool            `json:"consumed,omitempty"` // the grant was used
	Outcome    Outcome         `json:"outcome,omitempty"`
	Output     string          `json:"output,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Error      *ErrorInfo      `json:"error,omitempty"`
	Artifact   *ArtifactRef    `json:"artifact,omitempty"`
	Images     []ArtifactRef   `json:"images,omitempty"`
	About      []string        `json:"about,omitempty"`
	AskedWhat  InteractionID   `json:"asked_what,omitempty"` // the question about its unknown outcome
	Resolution string          `json:"resolution,omitempty"` // the answer to that
	Redo       CallID          `json:"redo,omitempty"`       // this call repeats that one
	RedoneBy   CallID          `json:"redone_by,omitempty"`
	Hook       *Hooked         `json:"hook,omitempty"`       // what hooks decided before the call; nil: no hook was asked about this input
	HookAsked  *Hooked         `json:"hook_asked,omitempty"` // what hooks decided in place of a human
	HookDue    bool            `json:"hook_due,omitempty"`   // hooks must still run for its end
	HookSays   []string        `json:"hook_says,omitempty"`  // what hooks tell the model about the call
}

// Tools are the tool calls of a turn, in the order in which they were requested. It is an
// immutable value: adding or changing a call makes another Tools, which shares the rest.
// So copying and advancing a turn costs about the same however many calls it has made.
// Its JSON is an array. The zero value is empty.
type Tools struct {
	chunks []*[toolsInChunk]*Tool // never modified once stored; all full except the last
	n      int
	open   []int // positions, ascending, of all calls that are open, and perhaps of one more
}

// toolsInChunk: each change copies 32 pointers, a quarter of the size of a Tool, and one
// pointer per chunk.
const toolsInChunk = 32

// Len is the number of calls.
func (ts Tools) Len() int { return ts.n }

// All yields the calls with their positions from 0. They must not be modified.
func (ts Tools) All() iter.Seq2[int, *Tool] {
	return func(yield func(int, *Tool) bool) {
		for i := range ts.n {
			if !yield(i, ts.at(i)) {
				return
			}
		}
	}
}

// Open yields the calls about which something is still to be done, with their positions:
// they have no outcome, or an unknown one that nobody has decided about. It costs nothing
// that grows with the other calls of the turn. The calls must not be modified.
func (ts Tools) Open() iter.Seq2[int, *Tool] {
	return func(yield func(int, *Tool) bool) {
		for _, i := range ts.open {
			if c := ts.at(i); c.isOpen() && !yield(i, c) {
				return
			}
		}
	}
}

func (c *Tool) isOpen() bool {
	return c.Status != ToolIsEnded || c.HookDue || c.Outcome == OutcomeUnknown && c.Resolution == "" && c.RedoneBy == ""
}

// awaitsAgent reports whether the call only waits for a sub-agent.
func (c *Tool) awaitsAgent() bool { return c.Run == RunRuntime && c.Effect == EffectRead }

// Claimed reports whether a client has claimed the call and may still report its outcome.
func (c *Tool) Claimed() bool { return c.Claim != nil && c.Status == ToolIsStarted }

func (ts Tools) at(i int) *Tool { return ts.chunks[i/toolsInChunk][i%toolsInChunk] }

// find returns the position of a call, or -1. It searches from the newest, which is what
// a turn usually deals with.
func (ts Tools) find(call CallID) int {
	if call == "" {
		return -1
	}
	for i := ts.n - 1; i >= 0; i-- {
		if ts.at(i).Call == call {
			return i
		}
	}
	return -1
}

// with returns ts with c at position i, which is at most ts.Len().
func (ts Tools) with(i int, c *Tool) Tools {
	var chunk [toolsInChunk]*Tool
	at := i / toolsInChunk
	if at < len(ts.chunks) {
		chunk = *ts.chunks[at]
		ts.chunks = slices.Clone(ts.chunks)
	} else {
		ts.chunks = append(slices.Clip(ts.chunks), nil)
	}
	chunk[i%toolsInChunk] = c
	ts.chunks[at] = &chunk
	ts.n = max(ts.n, i+1)
	// c may change after this, see edit, so it is checked when it is read.
	open := make([]int, 0, len(ts.open)+1)
	for _, j := range ts.open {
		if j != i && ts.at(j).isOpen() {
			open = append(open, j)
		}
	}
	at, _ = slices.BinarySearch(open, i)
	ts.open = slices.Insert(open, at, i)
	return ts
}

// MarshalJSON implements [json.Marshaler].
func (ts Tools) MarshalJSON() ([]byte, error) {
	list := make([]*Tool, 0, ts.n)
	for _, c := range ts.All() {
		list = append(list, c)
	}
	return json.Marshal(list)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (ts *Tools) UnmarshalJSON(raw []byte) error {
	var list []Tool
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	*ts = Tools{n: len(list)}
	for i := range list {
		if i%toolsInChunk == 0 {
			ts.chunks = append(ts.chunks, new([toolsInChunk]*Tool))
		}
		ts.chunks[i/toolsInChunk][i%toolsInChunk] = &list[i]
		if list[i].isOpen() {
			ts.open = append(ts.open, i)
		}
	}
	return nil
}

// Tool returns the call, which must not be modified, or nil.
func (t *Turn) Tool(call CallID) *Tool {
	if i := t.Tools.find(call); i >= 0 {
		return t.Tools.at(i)
	}
	return nil
}

// edit returns a copy of the call that the turn may change, or nil.
func (t *Turn) edit(call CallID) *Tool {
	i := t.Tools.find(call)
	if i < 0 {
		return nil
	}
	c := *t.Tools.at(i)
	t.Tools = t.Tools.with(i, &c)
	return &c
}

func (t *Turn) addTool(c Tool) { t.Tools = t.Tools.with(t.Tools.Len(), &c) }

func (t *Turn) applyTool(e Event, p Payload) {
	switch p := p.(type) {
	case ToolRequested:
		t.addTool(Tool{
			Call: p.Call, Agent: e.Agent, Name: p.Name, Input: p.Input, Redacted: p.Redacted, Seq: e.Seq, Status: ToolIsRequested, Redo: p.Redo,
			Granted: p.Redo != "", // a human has just asked for exactly this call
		})
		if old := t.edit(p.Redo); old != nil {
			old.RedoneBy = p.Call
		}
		t.Spent.ToolCalls++
	case ToolStarted:
		if c := t.edit(p.Call); c != nil {
			c.Status, c.Input, c.Redacted, c.Cut = ToolIsStarted, p.Input, p.Redacted, false
			c.Effect, c.Run, c.Deadline, c.Attempt = p.Effect, p.Run, p.Deadline, p.Attempt
			c.Claim, c.Web = p.Claim, p.Web
			c.Consumed = c.Consumed || p.Grant != ""
			if c.StartedAt.IsZero() {
				c.StartedAt = e.Time
			}
		}
	case ToolEnded:
		if c := t.edit(p.Call); c != nil {
			c.Status, c.Outcome, c.Output, c.Data, c.Error, c.Artifact = ToolIsEnded, p.Outcome, p.Output, p.Data, p.Error, p.Artifact
			c.Images = p.Images[:min(len(p.Images), MaxResultImages)]
			c.About, c.Report = p.About[:min(len(p.About), MaxAbout)], p.Report
			c.HookDue = p.HookDue
			t.Web = t.Web || c.Web && (p.Outcome == OutcomeOK || p.Outcome == OutcomeError || p.Outcome == OutcomeUnknown)
			if c.Effect == "" {
				c.Effect = p.Effect
			}
			if a := t.Sub(p.Call); a != nil && a.Ended && !a.Background {
				a.Result = "" // the call has it
			}
		}
	}
}
