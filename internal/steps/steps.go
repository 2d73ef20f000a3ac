// Package steps says which events of a turn are its steps, under the names of a known
// predecessor, and what each step shows. The live wire and the files of a session both use
// it, so that they name the same steps.
package steps

import (
	"strings"

	"github.com/parley-server/parley"
)

// The types of a step.
const (
	Plan       = "plan"           // what a model said before it called tools or handed over
	ToolCall   = "tool_call"      // a call that began
	ToolResult = "tool_result"    // its outcome
	Retrieval  = "retrieval"      // what was looked up for the turn
	Observed   = "observed_event" // something that happened outside, to what the turn is about
	Summary    = "summary"        // memory, compaction, a change of models
	Error      = "error"          // a call or the turn failed
)

// Step is one step of a turn.
type Step struct {
	Type   string
	Detail map[string]any
}

// Log makes the steps of a session's events. It must get them in order, from the beginning
// of a turn on. The zero Log is ready to use. Its JSON is its state.
type Log struct {
	Said map[parley.TurnID]Said `json:"said,omitempty"`
}

// Said is a reply without calls, which is the answer unless the turn goes on.
type Said struct {
	Call parley.CallID `json:"call"`
	Text string        `json:"text"`
}

// Of returns the step for an event, if it is one.
func (l *Log) Of(e parley.Event, p parley.Payload) (Step, bool) {
	if e.Agent.OfMemory() {
		switch p.(type) {
		case parley.MemoryUpdated, parley.ContextCompacted:
		default:
			return Step{}, false
		}
	}
	kind, detail := l.of(e, p)
	if kind == "" {
		return Step{}, false
	}
	if e.Agent != "" {
		detail["agent"] = e.Agent.Caller()
	}
	return Step{kind, detail}, true
}

type fields = map[string]any

// shown says which entities a turn's prompts show, and which version of them.
func shown(list []parley.AttachedEntity) (out []fields) {
	for _, e := range list {
		f := fields{"path": e.Path, "version": e.Version}
		if e.Title != "" {
			f["title"] = e.Title
		}
		if e.Why != "" {
			f["why"] = e.Why
		}
		out = append(out, f)
	}
	return out
}

func (l *Log) of(e parley.Event, p parley.Payload) (kind string, d fields) {
	switch p := p.(type) {
	case parley.ModelStarted:
		if p.For != nil {
			return Observed, fields{"source": parley.SamplingAgent, "entity": p.For.Server, "text": p.For.Note(p.Model), "at": e.Time.UnixMilli()}
		}
		if s, ok := l.Said[e.Turn]; ok && Speaks(e.Agent) {
			delete(l.Said, e.Turn)
			return Plan, fields{"callId": s.Call, "text": s.Text}
		}
	case parley.ModelReplied:
		return l.replied(e, p)
	case parley.ModelFailed:
		if p.Error.Code == parley.CodeCancelled {
			return "", nil // the turn's end cut it off, and says why
		}
		d = fields{"callId": p.Call, "code": p.Error.Code, "message": p.Error.Message, "retry": p.Retry}
		if p.Fallback != "" {
			d["fallback"] = p.Fallback
		}
		return Error, d
	case parley.ToolStarted:
		return ToolCall, fields{"callId": p.Call, "tool": p.Name, "input": p.Input, "effect": p.Effect, "attempt": p.Attempt}
	case parley.ToolEnded:
		return ToolResult, ended(p)
	case parley.ContextRetrieved:
		d = fields{}
		if len(p.Snippets) > 0 {
			d["snippets"] = p.Snippets
		}
		if len(p.Entities) > 0 {
			d["entities"] = shown(p.Entities)
		}
		if len(d) > 0 {
			return Retrieval, d
		}
	case parley.ContextObserved:
		return Observed, fields{"source": p.Source, "entity": p.Ref, "text": p.Text, "at": p.At.UnixMilli()}
	case parley.HookRan, parley.FilesSaved, parley.RuntimeNoted:
		if text := parley.NoteOf(p); text != "" {
			source, _, _ := strings.Cut(string(e.Type), ".")
			return Observed, fields{"source": source, "entity": entity(p), "text": text, "at": e.Time.UnixMilli()}
		}
	case parley.ContextTransferred:
		return Summary, fields{"from": p.From, "to": p.To, "text": p.Text}
	case parley.ContextCompacted:
		return Summary, fields{"through": p.Through, "tokensBefore": p.TokensBefore, "tokensAfter": p.TokensAfter}
	case parley.MemoryUpdated:
		if p.Told != nil {
			return "", nil // the hooks say it themselves
		}
		d = fields{"through": p.Through, "dropped": p.Dropped}
		if p.Summary != nil {
			d["summary"] = *p.Summary
		}
		if p.Facts != nil {
			d["facts"] = len(*p.Facts)
		}
		return Summary, d
	case parley.TurnCompleted:
		delete(l.Said, e.Turn)
	default:
		if code, message := Why(p); code != "" {
			delete(l.Said, e.Turn)
			return Error, fields{"code": code, "message": message}
		}
	}
	return "", nil
}

// entity is what a note is about.
func entity(p parley.Payload) string {
	switch p := p.(type) {
	case parley.HookRan:
		return p.Name
	case parley.FilesSaved:
		return p.Files[0].Path
	case parley.RuntimeNoted:
		return p.Kind
	}
	return ""
}

// replied: text before a call or a handoff is a plan. Text without one is held until the
// turn's end or the next call shows whether it was the answer.
func (l *Log) replied(e parley.Event, p parley.ModelReplied) (string, fields) {
	text := strings.TrimSpace(parley.PartsText(p.Parts))
	if Acts(p.Parts) {
		delete(l.Said, e.Turn)
		if text == "" {
			return "", nil
		}
		return Plan, fields{"callId": p.Call, "model": p.Model, "text": text}
	}
	text, _, _ = strings.Cut(text, endNotes)
	if text = strings.TrimSpace(text); text != "" && Speaks(e.Agent) {
		if l.Said == nil {
			l.Said = map[parley.TurnID]Said{}
		}
		l.Said[e.Turn] = Said{p.Call, text}
	}
	return "", nil
}

// endNotes opens the notes that a model may put after its answer. They are not part of it;
// the runtime removes them.
const endNotes = "```parley"

// Acts reports whether a reply calls tools or hands over.
func Acts(parts []parley.Part) bool {
	for _, p := range parts {
		if p.Type == parley.PartToolCall || p.Type == parley.PartHandoff {
			return true
		}
	}
	return false
}

// Speaks reports whether an agent's text may become the answer: it has the turn, and
// is neither a sub-agent nor the one that keeps the memory.
func Speaks(agent parley.AgentPath) bool {
	return agent != "" && agent != parley.MemoryAgent && !strings.Contains(string(agent), "/")
}

func ended(p parley.ToolEnded) fields {
	d := fields{"callId": p.Call, "tool": p.Name, "outcome": p.Outcome, "result": p.Output}
	if p.Data != nil {
		d["data"] = p.Data
	}
	if p.Artifact != nil {
		d["artifactId"] = p.Artifact.ID
	}
	if p.Error != nil {
		d["error"] = fields{"code": p.Error.Code, "message": p.Error.Message}
	}
	return d
}

// Why returns the error of an event that ends or interrupts a turn without an answer; for
// any other event the code is empty.
func Why(p parley.Payload) (code, message string) {
	switch p := p.(type) {
	case parley.TurnFailed:
		return string(p.Error.Code), p.Error.Message
	case parley.TurnCancelled:
		return "cancelled", because("the turn was cancelled", p.Reason)
	case parley.TurnExpired:
		return "expired", because("the turn expired", p.Reason)
	case parley.TurnInterrupted:
		return "interrupted", because("the turn was interrupted", p.Reason)
	}
	return "", ""
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
