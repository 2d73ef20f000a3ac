package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tui"
)

// tool applies what is said of a tool call.
func (t *turn) tool(e parley.Event, p parley.Payload) {
	switch p := p.(type) {
	case parley.ToolRequested:
		it := t.callOf(e, p.Call, p.Name)
		it.input = kept(p.Input)
	case parley.ToolStarted:
		it := t.callOf(e, p.Call, p.Name)
		if it.status != parley.ToolIsStarted {
			it.at = e.Time
		}
		it.status, it.input, it.subject = parley.ToolIsStarted, kept(p.Input), p.Subject
	case parley.ToolEnded:
		it := t.callOf(e, p.Call, p.Name)
		it.status, it.outcome, it.waits, it.progress = parley.ToolIsEnded, p.Outcome, false, ""
		it.output, it.omitted = clip(p.Output)
		if p.Error != nil && it.output == "" {
			it.output = p.Error.Message
		}
		it.artifact, it.images = p.Artifact, p.Images
		it.done = e.Time
		if it.took = time.Duration(p.TookMS) * time.Millisecond; it.took == 0 {
			it.took = e.Time.Sub(it.at)
		}
	case parley.FilesSaved:
		if it := t.calls[p.Call]; it != nil {
			it.files = append(it.files, p.Files...)
			it.rev++
			return
		}
		t.add(&item{kind: kindFiles, call: p.Call, agent: e.Agent, at: e.Time, files: p.Files})
	case parley.ArtifactStored:
		it := t.calls[p.Call]
		if it == nil || !strings.HasPrefix(p.MediaType, "image/") || slices.ContainsFunc(it.images, func(a parley.ArtifactRef) bool { return a.ID == p.ID }) {
			return
		}
		it.images = append(it.images, p.ArtifactRef)
		it.rev++
	}
}

// callOf is the item of a call.
func (t *turn) callOf(e parley.Event, call parley.CallID, name string) *item {
	it := t.calls[call]
	if it == nil {
		it = &item{kind: kindTool, call: call, name: name, agent: e.Agent.Caller(), at: e.Time, status: parley.ToolIsRequested}
		t.calls[call] = it
		t.add(it)
	}
	it.rev++
	return it
}

// kept is a call's input, unless that is too large to be kept.
func kept(raw json.RawMessage) json.RawMessage {
	if len(raw) <= maxKept {
		return raw
	}
	return tooLong(len(raw))
}

// tooLong stands for an input that is not kept.
func tooLong(n int) json.RawMessage {
	b, _ := json.Marshal(map[string]string{"input": size(int64(n)) + ", which are not shown"})
	return b
}

// clip is the part of a text that is kept, and how many bytes are not.
func clip(s string) (string, int) { return clipAt(s, maxKept) }

func clipAt(s string, most int) (string, int) {
	if len(s) <= most {
		return s, 0
	}
	at := most
	for at > most-4 && s[at]&0xc0 == 0x80 {
		at--
	}
	return strings.Clone(s[:at]), len(s) - at
}

func answeredItem(e parley.Event, in parley.Interaction, a parley.InteractionAnswered) *item {
	by := ""
	if a.By != "" && a.By != parley.Local.User {
		by = a.By
	}
	return &item{kind: kindAnswered, agent: in.Agent.Caller(), at: e.Time, text: in.Title, label: tui.Said(in, a.Answer), by: by, name: string(in.Kind)}
}

// subjects are the names of inputs that say what a call is about, the best first.
var subjects = []string{
	"file_path", "path", "notebook_path", "command", "pattern", "query", "url", "uri", "entity_id", "title", "name", "skill", "description", "prompt", "question", "message", "text", "id",
}

// about says in a few words what a call is about.
func (it *item) about() string {
	if it.title != "" {
		return it.title
	}
	var named map[string]json.RawMessage
	if json.Unmarshal(it.input, &named) != nil {
		return string(it.input)
	}
	value := func(name string) string {
		var s string
		raw, ok := named[name]
		if !ok {
			return ""
		}
		if json.Unmarshal(raw, &s) != nil {
			return string(raw)
		}
		return s
	}
	var asked []struct {
		Question string `json:"question"`
	}
	if json.Unmarshal(named["questions"], &asked) == nil && len(asked) > 0 {
		return asked[0].Question
	}
	for _, name := range subjects {
		if v := value(name); v != "" {
			return v
		}
	}
	if it.subject != "" {
		return it.subject
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		parts = append(parts, name+": "+value(name))
	}
	return strings.Join(parts, ", ")
}

// result says in a few words what came of a call.
func (it *item) result() string {
	switch {
	case len(it.files) > 0:
		added, removed := 0, 0
		for _, f := range it.files {
			added, removed = added+f.Added, removed+f.Removed
		}
		s := ""
		if added+removed > 0 {
			s = fmt.Sprintf("+%d −%d", added, removed)
		}
		if n := len(it.files); n > 1 || s == "" {
			s = strings.TrimSuffix(count(n, "file", "files")+", "+s, ", ")
		}
		return s
	case it.status != parley.ToolIsEnded:
		return it.progress
	case it.outcome != parley.OutcomeOK:
		return string(it.outcome) + because(parley.Cut(it.output, 200))
	case len(it.images) > 0 && strings.TrimSpace(it.output) == "":
		return count(len(it.images), "image", "images")
	}
	if it.name == "AskUserQuestion" { // the answer stands below
		return ""
	}
	lines := strings.Count(strings.TrimRight(it.output, "\n"), "\n") + 1
	switch {
	case strings.TrimSpace(it.output) == "":
		return ""
	case lines > 1:
		return count(lines, "line", "lines")
	}
	return parley.Cut(it.output, 200)
}

// fields are a call's input, in order, with texts as they are.
func (it *item) fields() [][2]string {
	var named map[string]json.RawMessage
	if json.Unmarshal(it.input, &named) != nil {
		if len(it.input) == 0 {
			return nil
		}
		return [][2]string{{"input", string(it.input)}}
	}
	var out [][2]string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		var s string
		if json.Unmarshal(named[name], &s) != nil {
			s = string(named[name])
		}
		out = append(out, [2]string{name, s})
	}
	return out
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%s %s", thousands(int64(n)), many)
}

// thousands is a number with commas.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return count(int(n), "byte", "bytes")
	case n < 1<<20:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// took is a duration for people.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%.1f s", max(d.Seconds(), 0))
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

func citations(list []parley.Citation) string {
	var parts []string
	for _, c := range list {
		s := c.Source
		if c.Ref != "" {
			s += " (" + c.Ref + ")"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}
