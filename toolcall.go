package parley

import (
	"encoding/json"
	"iter"
	"slices"
	"time"
)

// ToolStatus is where a tool call is.
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
	Input      json.RawMessage `json:"input"`              // as asked; after tool.started: what runs
	Redacted   bool            `json:"redacted,omitempty"` // Input is without the secrets that it came with
	Seq        int64           `json:"seq"`
	Status     ToolStatus      `json:"status"`
	Effect     Effect          `json:"effect,omitempty"` // known once started
	Attempt    int             `json:"attempt,omitempty"`
	StartedAt  time.Time       `json:"started_at,omitzero"` // first start
	Deadline   time.Time       `json:"deadline,omitzero"`
	Asked      InteractionID   `json:"asked,omitempty"`    // the permission that was asked for
	Answer     *Answer         `json:"answer,omitempty"`   // to it
	EditCut    bool            `json:"edit_cut,omitempty"` // the answer's Input is without the secrets that it came with
	Granted    bool            `json:"granted,omitempty"`
	Consumed   bool            `json:"consumed,omitempty"` // the grant was used
	Outcome    Outcome         `json:"outcome,omitempty"`
	Output     string          `json:"output,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Error      *ErrorInfo      `json:"error,omitempty"`
	Artifact   *ArtifactRef    `json:"artifact,omitempty"`
	About      []string        `json:"about,omitempty"`
	AskedWhat  InteractionID   `json:"asked_what,omitempty"` // the question what became of an unknown outcome
	Resolution string          `json:"resolution,omitempty"` // its answer
	Redo       CallID          `json:"redo,omitempty"`       // this call does that one again
	RedoneBy   CallID          `json:"redone_by,omitempty"`
}

// Tools are the tool calls of a turn, in the order in which they were asked for. It is a
// value: what adds or changes a call makes another Tools, which shares the rest with the
// one before. So a turn is copied and advanced at about the same cost however many calls
// it has made. Its JSON is an array. The zero value has none.
type Tools struct {
	chunks []*[toolsInChunk]*Tool // never changed once they are here; all full but the last
	n      int
}

// toolsInChunk: 32 pointers, a quarter of what a Tool takes, are copied for a change,
// beside one for each chunk.
const toolsInChunk = 32

// Len is how many they are.
func (ts Tools) Len() int { return ts.n }

// All are the calls, which are to be read only, with their positions from 0.
func (ts Tools) All() iter.Seq2[int, *Tool] {
	return func(yield func(int, *Tool) bool) {
		for i := range ts.n {
			if !yield(i, ts.at(i)) {
				return
			}
		}
	}
}

func (ts Tools) at(i int) *Tool { return ts.chunks[i/toolsInChunk][i%toolsInChunk] }

// find returns the position of a call, or -1. It looks at the newest first: they are
// what a turn deals with.
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

// with is ts with c at position i, which is at most its length.
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
	}
	return nil
}

// Tool returns the call, which is to be read only, or nil.
func (t *Turn) Tool(call CallID) *Tool {
	if i := t.Tools.find(call); i >= 0 {
		return t.Tools.at(i)
	}
	return nil
}

// edit returns the call in a copy that is the turn's own, or nil.
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
			Granted: p.Redo != "", // a human has just asked for exactly this
		})
		if old := t.edit(p.Redo); old != nil {
			old.RedoneBy = p.Call
		}
		t.Spent.ToolCalls++
	case ToolStarted:
		if c := t.edit(p.Call); c != nil {
			c.Status, c.Input, c.Redacted = ToolIsStarted, p.Input, p.Redacted
			c.Effect, c.Deadline, c.Attempt = p.Effect, p.Deadline, p.Attempt
			c.Consumed = c.Consumed || p.Grant != ""
			if c.StartedAt.IsZero() {
				c.StartedAt = e.Time
			}
		}
	case ToolEnded:
		if c := t.edit(p.Call); c != nil {
			c.Status, c.Outcome, c.Output, c.Data, c.Error, c.Artifact = ToolIsEnded, p.Outcome, p.Output, p.Data, p.Error, p.Artifact
			c.About = p.About[:min(len(p.About), MaxAbout)]
			if c.Effect == "" {
				c.Effect = p.Effect
			}
		}
	}
}
