package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/seam"
)

// Divergence is the first difference between two runs.
type Divergence struct {
	Seq   int64  `json:"seq,omitempty"` // of the recording's event; 0: it had none there
	Turn  int    `json:"turn"`          // from 1
	What  string `json:"what"`
	Lines []Line `json:"diff"`
}

// Line is a line of a diff: as recorded ("-"), as run again ("+"), or both (" ").
type Line struct {
	Mark string `json:"mark"`
	Text string `json:"text"`
}

// String describes the divergence for people.
func (d *Divergence) String() string {
	var b strings.Builder
	b.WriteString(d.What)
	for _, l := range d.Lines {
		b.WriteString("\n  " + l.Mark + " " + clip(l.Text))
	}
	return b.String()
}

func clip(s string) string {
	if len(s) <= maxLine {
		return s
	}
	return strings.ToValidUTF8(s[:maxLine], "") + "…"
}

// entry is an event without what chance and time determine.
type entry struct {
	seq  int64
	turn int
	kind string
	text string
	of   parley.AgentPath // the sub-agent whose it is; empty: the turn's own
	ev   parley.Event
}

var ulid = regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`)

// namer gives ids names by the order in which they appear.
type namer map[string]string

func (n namer) rename(text []byte) []byte {
	return ulid.ReplaceAllFunc(text, func(id []byte) []byte {
		name, ok := n[string(id)]
		if !ok {
			name = fmt.Sprintf("#%d", len(n)+1)
			n[string(id)] = name
		}
		return []byte(name)
	})
}

// left are events left out of the comparison: chance or another process caused them, or
// they belong to no turn.
var left = []parley.EventType{
	"session.forked", "session.updated", "session.rewinding", "history.condensed", "turn.queued", "turn.interrupted", "turn.resumed", "turn.stop_requested",
	"artifact.stored", "context.observed", "budget.reached", "hook.ran", "files.announced", "files.saved", "runtime.noted", "runtime.kept",
}

// volatile are fields that differ from run to run, or repeat others.
var volatile = map[string][]string{
	"session.created":      {"outside_id", "mode", "max_open_turns", "in_force", "workspace", "read_only"},
	"session.rewound":      {"to", "undoes", "by", "client", "memory"},
	"turn.started":         {"in_force", "app", "key", "client", "by", "retry_of", "budgets", "hook_due"},
	"turn.completed":       {"usage"},
	"turn.failed":          {"usage"},
	"turn.cancelled":       {"usage", "by"},
	"turn.expired":         {"usage"},
	"turn.steered":         {"key", "by"},
	"model.started":        {"context", "reserved", "window"},
	"model.replied":        {"ttft_ms", "took_ms", "state"},
	"model.failed":         {"usage"},
	"tool.started":         {"deadline", "attempt", "claim", "grant"}, // an import takes no grants over; what was asked and answered is compared
	"tool.ended":           {"took_ms", "artifact", "images", "report"},
	"interaction.opened":   {"opened_at", "expires_at", "session"}, // that of a copy's parent, in a copy
	"interaction.answered": {"by", "client"},
	"memory.updated":       {"by", "through", "facts"},
	"context.compacted":    {"through"},
}

// ofModel are fields that differ from model to model: its names and costs.
var ofModel = map[string][]string{
	"session.created": {"model"},
	"turn.started":    {"model"},
	"model.started":   {"model"},
	"model.replied":   {"model", "usage", "stop_reason"},
}

// ofProvider are fields of a part that its provider alone understands.
var ofProvider = []string{"signature", "provider", "provider_id"}

// plain removes from a log the events that may differ between runs; with other, also those that
// differ between models.
func plain(events []parley.Event, other bool) []entry {
	cut := map[parley.CallID]bool{} // calls that were made again
	for _, ev := range events {
		p, err := ev.Payload()
		if err != nil {
			continue
		}
		if p, ok := p.(parley.ModelFailed); ok && (p.Error.Code == "interrupted" || other && p.Retry) {
			cut[p.Call] = true
		}
	}
	turns := map[parley.TurnID]int{}
	asker := map[parley.InteractionID]parley.AgentPath{}
	began := map[parley.CallID]bool{}
	var out []entry
	for _, ev := range events {
		if slices.Contains(left, ev.Type) || other && ev.Type == "context.transferred" {
			continue
		}
		p, err := ev.Payload()
		if err != nil {
			continue
		}
		of := ev.Agent
		switch p := p.(type) {
		case parley.InteractionOpened:
			asker[p.ID] = ev.Agent
		case parley.InteractionAnswered:
			of = asker[p.ID]
		case parley.TurnStarted:
			turns[ev.Turn] = len(turns) + 1
		case parley.ModelStarted:
			if cut[p.Call] {
				continue
			}
		case parley.ModelFailed:
			if cut[p.Call] {
				continue
			}
		case parley.InteractionExpired:
			of = asker[p.ID]
		case parley.ToolStarted:
			if began[p.Call] {
				continue // a read, which was made again
			}
			began[p.Call] = true
		}
		if ev.Turn != "" && turns[ev.Turn] == 0 {
			continue // of a turn that never ran
		}
		if of.Depth() == 0 {
			of = ""
		}
		out = append(out, entry{seq: ev.Seq, turn: turns[ev.Turn], kind: string(ev.Type), of: of, ev: ev})
	}
	byAgent(out)
	return out
}

// written sets the texts of entries. Ids are named by the order in which they appear, so the entries
// are in their order then, and no others are among them.
func written(all []entry, other bool) []entry {
	ids := namer{}
	for i := range all {
		all[i].text = text(all[i].ev, ids, other)
	}
	return inOrder(all)
}

// byAgent puts entries in the order in which they are compared. Agents work at once, so what each
// sub-agent did in a turn follows what the turn's own agents did, with the events in their order.
func byAgent(all []entry) {
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j].turn == all[i].turn {
			j++
		}
		slices.SortStableFunc(all[i:j], func(a, b entry) int { return cmp.Compare(a.of, b.of) })
		i = j
	}
}

func text(ev parley.Event, ids namer, other bool) string {
	var fields map[string]any
	if json.Unmarshal(ev.Data, &fields) != nil {
		return string(ids.rename(ev.Data))
	}
	for _, f := range volatile[string(ev.Type)] {
		delete(fields, f)
	}
	if answer, ok := fields["response"].(map[string]any); ok {
		delete(answer, "scripted") // in a replay a recording stands in for each model, and older logs lack the field
	}
	if other {
		for _, f := range ofModel[string(ev.Type)] {
			delete(fields, f)
		}
		said(fields)
	}
	if message, ok := fields["message"].(map[string]any); ok && (ev.Type == "turn.started" || ev.Type == "turn.steered") {
		// Attachments are artifacts, which the run does not have.
		if parts, ok := message["parts"].([]any); ok {
			message["parts"] = slices.DeleteFunc(parts, func(p any) bool {
				part, ok := p.(map[string]any)
				return ok && part["artifact"] != nil
			})
		}
	}
	if ev.Type == "tool.ended" && fields["outcome"] != "ok" && fields["outcome"] != "error" {
		for _, f := range []string{"output", "error"} { // our own words about how it was lost
			delete(fields, f)
		}
	}
	if ev.Type == "interaction.opened" && fields["kind"] == string(parley.KindUnknown) {
		delete(fields, "text") // as above; also a client's late report
	}
	if ev.Type == "turn.cancelled" && fields["reason"] == engine.ImportedHere {
		fields["reason"] = engine.ForkedHere // what was imported is forked in the run
	}
	if ev.Agent != "" {
		fields["(agent)"] = ev.Agent
	}
	raw, err := json.MarshalIndent(fields, "", " ")
	if err != nil {
		return string(ev.Data)
	}
	// A text of many lines is compared by line.
	return strings.ReplaceAll(string(ids.rename(raw)), `\n`, "\n    ")
}

// said keeps, of a reply's parts, its words and calls.
func said(fields map[string]any) {
	parts, ok := fields["parts"].([]any)
	if !ok {
		return
	}
	fields["parts"] = slices.DeleteFunc(parts, func(p any) bool {
		part, ok := p.(map[string]any)
		for _, f := range ofProvider {
			delete(part, f)
		}
		return ok && (part["type"] == string(parley.PartThinking) || part["type"] == string(parley.PartProvider))
	})
}

// maxLine limits a line of a diff.
const maxLine = 400

// inOrder sorts what tools did in parallel, whose order is random.
func inOrder(all []entry) []entry {
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && (all[j].kind == "tool.started" || all[j].kind == "tool.ended") {
			j++
		}
		slices.SortStableFunc(all[i:j], func(a, b entry) int { return strings.Compare(a.kind+callOf(a.text), b.kind+callOf(b.text)) })
		i = max(j, i+1)
	}
	return all
}

var callField = regexp.MustCompile(`"call": "#(\d+)"`)

func callOf(text string) string {
	if m := callField.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%6s", m[1])
	}
	return ""
}

// Compare returns the first difference of the log again to the recorded one, or nil. A
// recording that ends in a running turn is compared up to its end.
func Compare(recorded, again []parley.Event) *Divergence { return compare(recorded, again, false) }

// CompareModels is Compare for a run with other models. It ignores their names, costs,
// thinking and retries; what they said and called must be equal.
func CompareModels(recorded, again []parley.Event) *Divergence {
	return compare(recorded, again, true)
}

func compare(recorded, again []parley.Event, other bool) *Divergence {
	a, b := plain(recorded, other), plain(again, other)
	if running(recorded) {
		a, b = upTo(a, b)
	}
	a, b = written(a, other), written(b, other)
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return &Divergence{Turn: b[i].turn, What: fmt.Sprintf("turn %d goes on with %s where the recording has ended", b[i].turn, b[i].kind), Lines: diff("", b[i].text)}
		case i >= len(b):
			return &Divergence{Seq: a[i].seq, Turn: a[i].turn, What: fmt.Sprintf("the run ends where the recording has event %d, %s of turn %d", a[i].seq, a[i].kind, a[i].turn), Lines: diff(a[i].text, "")}
		case a[i].kind != b[i].kind:
			return &Divergence{
				Seq: a[i].seq, Turn: a[i].turn, What: fmt.Sprintf("event %d of the recording, in turn %d: it has %s, the run has %s", a[i].seq, a[i].turn, a[i].kind, b[i].kind),
				Lines: diff(a[i].text, b[i].text),
			}
		case a[i].text != b[i].text:
			return &Divergence{Seq: a[i].seq, Turn: a[i].turn, What: fmt.Sprintf("event %d of the recording, %s in turn %d, differs", a[i].seq, a[i].kind, a[i].turn), Lines: diff(a[i].text, b[i].text)}
		}
	}
	return nil
}

// upTo leaves what a recording that ends in a running turn has, and of the run as much of each
// agent. Events at the end of the recording may have been in progress, in any order.
func upTo(a, b []entry) (recorded, again []entry) {
	last := 0
	for _, e := range a {
		last = max(last, e.turn)
	}
	for i := 0; i < len(a); {
		j := i + 1
		for j < len(a) && a[j].turn == a[i].turn && a[j].of == a[i].of {
			j++
		}
		end := j
		for a[i].turn == last && end > i && (a[end-1].kind == "tool.started" || a[end-1].kind == "tool.ended") {
			end--
		}
		recorded = append(recorded, a[i:end]...)
		i = j
	}
	left := map[parley.AgentPath]int{}
	for _, e := range recorded {
		if e.turn == last {
			left[e.of]++
		}
	}
	for _, e := range b {
		if e.turn > last {
			continue
		}
		if e.turn == last {
			if left[e.of] == 0 {
				continue
			}
			left[e.of]--
		}
		again = append(again, e)
	}
	return recorded, again
}

// running reports whether a log ends in a turn that has not ended.
func running(events []parley.Event) bool {
	var last parley.TurnID
	for _, ev := range events {
		switch ev.Type {
		case "turn.started":
			last = ev.Turn
		case "turn.completed", "turn.failed", "turn.cancelled", "turn.expired":
			if ev.Turn == last {
				last = ""
			}
		}
	}
	return last != ""
}

// Prompts returns the first model request that differs between two runs of one recording,
// or nil.
func Prompts(recorded, again []seam.Request) *Divergence {
	a, b := namer{}, namer{}
	for i := range min(len(recorded), len(again)) {
		one, two := prompt(recorded[i], a), prompt(again[i], b)
		if one != two {
			return &Divergence{What: fmt.Sprintf("model call %d, of agent %s, has a different prompt", i+1, recorded[i].Agent), Lines: diff(one, two)}
		}
	}
	if len(recorded) != len(again) {
		return &Divergence{What: fmt.Sprintf("models are asked %d times in the recording, and %d times in the run", len(recorded), len(again))}
	}
	return nil
}

// prompt is a request as lines that people can compare.
func prompt(r seam.Request, ids namer) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "model: %s\n", r.Model)
	for line := range strings.SplitSeq(r.System, "\n") {
		b.WriteString("system: " + line + "\n")
	}
	for _, t := range r.Tools {
		b.WriteString("tool: " + t.Name + "\n")
	}
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			body := p.Text
			if len(p.Input) > 0 {
				body += " " + compact(p.Input)
			}
			fmt.Fprintf(&b, "%s: %s %s\n", m.Role, p.Type, strings.TrimSpace(p.Name+" "+body))
		}
	}
	return string(ids.rename(b.Bytes()))
}

// maxDiff bounds the lines of a diff, and what is compared for it.
const maxDiff = 400

// diff returns the lines of two texts, by their longest common subsequence, without lines
// far from any difference.
func diff(a, b string) []Line {
	x, y := lines(a), lines(b)
	n := make([][]int, len(x)+1)
	for i := range n {
		n[i] = make([]int, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				n[i][j] = n[i+1][j+1] + 1
			} else {
				n[i][j] = max(n[i+1][j], n[i][j+1])
			}
		}
	}
	var all []Line
	for i, j := 0, 0; i < len(x) || j < len(y); {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			all = append(all, Line{" ", x[i]})
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && n[i+1][j] >= n[i][j+1]:
			all = append(all, Line{"-", x[i]})
			i++
		default:
			all = append(all, Line{"+", y[j]})
			j++
		}
	}
	return near(all)
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	all := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	if len(all) > maxDiff {
		all = append(all[:maxDiff:maxDiff], fmt.Sprintf("… %d more lines", len(all)-maxDiff))
	}
	return all
}

// near keeps the lines that differ, with two around them.
func near(all []Line) []Line {
	const around = 2
	keep := make([]bool, len(all))
	for i, l := range all {
		if l.Mark == " " {
			continue
		}
		for j := max(0, i-around); j <= min(len(all)-1, i+around); j++ {
			keep[j] = true
		}
	}
	var out []Line
	for i, l := range all {
		if keep[i] {
			out = append(out, l)
		}
	}
	return out
}
