package chat

import (
	"fmt"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// drawn are the lines of an item as they were last drawn.
type drawn struct {
	width, look, rev int
	open             bool
	lines            []string
}

// drawing is what items are drawn with.
type drawing struct {
	*look
	width  int
	open   bool // details are shown unless an item says otherwise
	now    time.Time
	images bool // the terminal can show pictures
}

// isOpen reports whether an item shows its details.
func (d drawing) isOpen(it *item) bool {
	switch it.fold {
	case foldOpen:
		return true
	case foldShut:
		return false
	}
	return d.open || it.kind == kindTool && len(it.files) > 0 && len(it.inner) == 0 && diffLines(it.files) <= shortDiff
}

// folds reports whether an item has details.
func (it *item) folds() bool {
	switch it.kind {
	case kindTool, kindAgent, kindThought, kindFiles:
		return true
	}
	return false
}

// moves reports whether an item looks different with every tick.
func (it *item) moves() bool {
	return (it.kind == kindTool && it.status == parley.ToolIsStarted && !it.waits) || (it.kind == kindAgent || it.kind == kindThought) && it.live || len(it.inner) > 0 && it.live
}

// lines draws an item, or returns what was drawn before.
func (d drawing) lines(it *item) []string {
	open := d.isOpen(it)
	c := &it.drawn
	if c.lines != nil && c.width == d.width && c.look == d.look.rev && c.rev == it.rev && c.open == open && !it.moves() && len(it.inner) == 0 {
		return c.lines
	}
	lines := d.item(it, open)
	if lines == nil {
		lines = []string{}
	}
	*c = drawn{d.width, d.look.rev, it.rev, open, lines}
	return lines
}

func (d drawing) item(it *item, open bool) []string {
	switch it.kind {
	case kindMessage:
		return d.message(it)
	case kindText:
		return d.text(it)
	case kindThought:
		return d.thought(it, open)
	case kindTool, kindAgent:
		return d.call(it, open)
	case kindFiles:
		return d.saved(it, open)
	case kindAnswered:
		return d.answered(it)
	case kindEnd:
		return d.end(it.turn, it)
	case kindGap:
		return []string{d.faint.of(cut("  "+it.text, d.width))}
	}
	return d.hanging(d.faint.of("  "+d.note+" "), "    ", it.text, d.faint)
}

// hanging draws a text with a sign before its first line.
func (d drawing) hanging(first, rest, text string, p paint) []string {
	lines := wrap(tidy(strings.TrimRight(text, "\n")), d.width-width(rest))
	for i, line := range lines {
		pre := rest
		if i == 0 {
			pre = first
		}
		lines[i] = pre + p.of(line)
	}
	return lines
}

func (d drawing) message(it *item) []string {
	t := it.turn
	text := it.text
	if it.label == "" {
		text = t.message
	}
	text = tidy(strings.TrimSpace(text))
	if text == "" {
		text = "(no message)"
	}
	more := 0
	if len(text) > 16<<10 {
		text, more = text[:16<<10], len(text)-16<<10
		text = strings.ToValidUTF8(text, "")
	}
	lines := wrap(text, d.width-3)
	const most = 40
	if len(lines) > most {
		hidden := len(lines) - most
		lines = append(lines[:most:most], "… "+count(hidden, "line more", "lines more"))
	} else if more > 0 {
		lines = append(lines, "… "+size(int64(more))+" more")
	}
	var extra []string
	if it.label == "" {
		for _, r := range t.resources {
			name := r.Title
			if name == "" {
				name = r.URI
			}
			extra = append(extra, "+ "+oneLine(name)+" ("+oneLine(r.Server)+")")
		}
		extra = append(extra, d.fileLines(t.files)...)
		switch t.origin {
		case parley.OriginSchedule:
			extra = append(extra, "began by a schedule")
		case parley.OriginRuntime:
			extra = append(extra, "began by the agent's background work")
		case parley.OriginCall:
			extra = append(extra, "a direct call")
		}
		if t.by != "" && t.by != parley.Local.User {
			extra = append(extra, "from "+oneLine(t.by))
		}
		if t.rewound {
			extra = append(extra, "taken back")
		}
	} else {
		extra = append(extra, d.fileLines(it.attached)...)
		extra = append(extra, it.label)
	}
	sign := d.accent
	if t.rewound {
		sign = d.faint
	}
	var out []string
	for i, line := range lines {
		pre := "  "
		if i == 0 {
			pre = d.look.signs.user + " "
		}
		out = append(out, d.look.user.of(sign.sgr+pre+"\x1b[39m"+pad(line, d.width-2)))
	}
	for _, line := range extra {
		out = append(out, d.faint.of(cut("  "+line, d.width)))
	}
	return out
}

func (d drawing) text(it *item) []string {
	if strings.TrimSpace(it.text) == "" {
		return nil
	}
	text := it.text
	if it.live {
		text, _, _ = strings.Cut(text, endNotes)
	}
	in := 2 * (it.agent.Depth() + 1)
	lines := it.blocks.lines(text, it.live, max(d.width-in, 10), d.look)
	out := make([]string, 0, len(lines)+1)
	pad := strings.Repeat(" ", in)
	first := pad[:in-2] + d.accent.of(d.look.signs.text) + " "
	if it.turn != nil && it.turn.rewound {
		first = pad[:in-2] + d.faint.of(d.look.signs.text) + " "
	}
	for i, line := range lines {
		switch {
		case i == 0:
			out = append(out, first+line)
		case line == "":
			out = append(out, "")
		default:
			out = append(out, pad+line)
		}
	}
	if it.cut {
		out = append(out, cut(pad+d.warn.of("[cut off]"), d.width))
	}
	return out
}

func (d drawing) thought(it *item, open bool) []string {
	head := "Thought"
	if it.live {
		head = "Thinking"
	}
	if it.took > 0 {
		head += " for " + took(it.took)
	}
	if strings.TrimSpace(it.text) == "" && !it.live {
		return nil
	}
	pre := strings.Repeat("  ", it.agent.Depth())
	out := []string{pre + d.faint.of(d.look.signs.thought+" "+head)}
	text := tidy(strings.TrimSpace(it.text))
	switch {
	case open:
		for _, line := range wrap(text, d.width-len(pre)-4) {
			out = append(out, pre+"  "+d.bar.of(d.look.signs.bar)+" "+d.faint.of(line))
		}
	case it.live && text != "":
		if i := strings.LastIndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
		out = append(out, pre+"  "+d.faint.of(tail(text, d.width-len(pre)-2)))
	}
	return out
}

// tail is the end of a text that fits into a width.
func tail(s string, w int) string {
	if len(s) > 4*w+64 {
		s = strings.ToValidUTF8(s[len(s)-4*w-64:], "")
	}
	if n := width(s); n > w {
		return "…" + ansiCut(s, n-w+1, n)
	}
	return s
}

func (d drawing) call(it *item, open bool) []string {
	in := strings.Repeat("  ", it.agent.Depth())
	sign, p := d.sign(it)
	name := it.name
	what := it.about()
	if it.kind == kindAgent {
		what = it.title
	}
	var facts []string
	if len(it.inner) > 0 {
		calls := 0
		for _, c := range it.inner {
			if c.kind == kindTool {
				calls++
			}
		}
		if calls > 0 {
			facts = append(facts, count(calls, "call", "calls"))
		}
	}
	if it.waits {
		facts = append(facts, "waits for you")
	}
	if r := oneLine(it.result()); r != "" {
		facts = append(facts, r)
	}
	switch {
	case it.status == parley.ToolIsStarted && !it.waits, it.kind == kindAgent && it.live:
		facts = append(facts, took(d.now.Sub(it.at)))
	case it.took >= 50*time.Millisecond:
		facts = append(facts, took(it.took))
	}
	room := d.width - len(in) - 3
	head := cut(oneLine(name), max(room*2/3, 6))
	tailText := strings.Join(facts, " "+d.dot+" ")
	what = oneLine(what)
	tailText = cut(tailText, max(room-width(head)-min(width(what), room/2)-4, 8))
	left := room - width(head) - 1
	if tailText != "" {
		left -= width(tailText) + 3
	}
	what = cut(what, max(left, 0))
	line := in + p.of(sign) + " " + d.bold.of(cut(head, room))
	if what != "" {
		line += " " + d.soft.of(what)
	}
	if tailText != "" {
		f := d.faint
		if it.outcome != "" && it.outcome != parley.OutcomeOK {
			f = p
		}
		line += d.faint.of(" "+d.dot+" ") + f.of(tailText)
	}
	out := []string{cut(line, d.width)}
	if len(it.inner) > 0 && !open && it.live {
		for i := len(it.inner) - 1; i >= 0; i-- { // what it does now
			if c := it.inner[i]; c.kind == kindTool {
				out = append(out, in+"  "+d.faint.of(cut(d.look.corners[2]+" "+oneLine(c.name)+" "+oneLine(c.about()), d.width-len(in)-2)))
				break
			}
		}
	}
	if !open {
		return append(out, d.pictures(it)...)
	}
	out = append(out, d.details(it)...)
	for _, c := range it.inner {
		out = append(out, d.lines(c)...)
	}
	return out
}

func (d drawing) sign(it *item) (string, paint) {
	switch {
	case it.waits:
		return d.look.signs.waits, d.warn
	case it.kind == kindAgent && it.live, it.kind == kindTool && it.status == parley.ToolIsStarted:
		return d.spin(), d.accent
	case it.kind == kindAgent && it.outcome == "":
		return d.agent, d.accent
	case it.kind == kindTool && it.status == parley.ToolIsRequested:
		return d.running, d.faint
	}
	switch it.outcome {
	case parley.OutcomeOK:
		return d.ok, d.good
	case parley.OutcomeDenied, parley.OutcomeCancelled:
		return d.denied, d.warn
	case parley.OutcomeUnknown:
		return d.look.signs.unknown, d.warn
	case "":
		return d.running, d.faint
	}
	return d.failed, d.bad
}

// spin is the sign of something that is under way.
func (d drawing) spin() string {
	return d.spinner[int(d.now.UnixMilli()/100)%len(d.spinner)]
}

// most lines of a call's input and of its output that are shown.
const (
	mostInput  = 30
	mostOutput = 200
)

// details are the input and the output of a call.
func (d drawing) details(it *item) []string {
	in := strings.Repeat("  ", it.agent.Depth()) + "  " + d.bar.of(d.look.signs.bar) + " "
	w := d.width - width(in)
	var out []string
	if len(it.files) == 0 || it.outcome != parley.OutcomeOK {
		for _, f := range it.fields() {
			name, value := cut(oneLine(f[0]), w-1), tidy(strings.TrimRight(f[1], "\n"))
			if !strings.Contains(value, "\n") && width(name)+2+width(value) <= w {
				out = append(out, in+d.faint.of(name+":")+" "+value)
				continue
			}
			out = append(out, in+d.faint.of(name+":"))
			out = append(out, d.some(value, in+"  ", w-2, mostInput, paint{})...)
		}
	}
	for _, f := range it.files {
		lines := d.diff(f, in, w)
		if len(it.files) == 1 && len(lines) > 1 && strings.Contains(it.about(), f.Path) {
			lines = lines[1:] // the call's own line names it
		}
		out = append(out, lines...)
	}
	if s := strings.TrimRight(it.output, "\n"); strings.TrimSpace(s) != "" && (len(it.files) == 0 || it.outcome != parley.OutcomeOK) {
		if len(out) > 0 {
			out = append(out, in+d.faint.of(strings.Repeat(d.look.signs.line, min(w, 12))))
		}
		out = append(out, d.some(tidy(s), in, w, mostOutput, d.soft)...)
	}
	if it.omitted > 0 {
		out = append(out, in+d.faint.of("… "+size(int64(it.omitted))+" more"))
	}
	if a := it.artifact; a != nil {
		out = append(out, in+d.faint.of(cut(fmt.Sprintf("the whole result is kept: %s, %s", oneLine(a.Name), size(a.Size)), w)))
	}
	return append(out, d.pictures(it)...)
}

// some draws the first lines of a text.
func (d drawing) some(text, in string, w, most int, p paint) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		for _, piece := range wrap(line, w) {
			if len(out) == most {
				return append(out, in+d.faint.of("… "+count(strings.Count(text, "\n")+1, "line", "lines")+" in all"))
			}
			out = append(out, in+p.of(piece))
		}
	}
	return out
}

func (d drawing) pictures(it *item) []string {
	in := strings.Repeat("  ", it.agent.Depth()) + "  "
	var out []string
	for _, a := range it.images {
		text := fmt.Sprintf("[image] %s, %s, %s", oneLine(a.Name), oneLine(a.MediaType), size(a.Size))
		if d.images {
			text += ": /image shows it"
		}
		out = append(out, in+d.faint.of(cut(text, d.width-len(in))))
	}
	return out
}

func (d drawing) answered(it *item) []string {
	text := it.label
	if it.by != "" {
		text += " (by " + oneLine(it.by) + ")"
	}
	in := strings.Repeat("  ", it.agent.Depth())
	return []string{cut(in+d.warn.of(d.look.signs.answered)+" "+d.soft.of(oneLine(it.text))+d.faint.of(" "+d.dot+" ")+oneLine(text), d.width)}
}

// end says how a turn ended, if that is not plain from the answer.
func (d drawing) end(t *turn, it *item) []string {
	var out []string
	switch t.status {
	case parley.StatusFailed:
		text := "the turn failed"
		if t.err != nil {
			text = t.err.Message
			if t.err.Hint != "" {
				text += "\n" + t.err.Hint
			}
		}
		out = d.hanging(d.bad.of(d.failed)+" ", "  ", text, d.bad)
	case parley.StatusCancelled:
		out = d.hanging(d.warn.of(d.denied)+" ", "  ", "stopped"+because(t.reason), d.faint)
	case parley.StatusExpired:
		out = d.hanging(d.warn.of(d.denied)+" ", "  ", "expired"+because(t.reason), d.faint)
	}
	if it.text != "" {
		out = append(out, d.hanging("  ", "  ", "Sources: "+it.text, d.faint)...)
	}
	var facts []string
	if !t.ended.IsZero() && !t.asked.IsZero() {
		facts = append(facts, took(t.ended.Sub(t.asked)))
	}
	if n := t.usage.InputTokens + t.usage.OutputTokens; n > 0 {
		facts = append(facts, tokens(n))
	}
	if t.usage.USD > 0 {
		facts = append(facts, dollars(t.usage.USD))
	}
	if len(t.models) > 0 {
		facts = append(facts, oneLine(strings.Join(t.models, ", ")))
	}
	if len(facts) > 0 {
		out = append(out, d.faint.of(cut("  "+strings.Join(facts, " "+d.dot+" "), d.width)))
	}
	return out
}

func tokens(n int64) string {
	switch {
	case n < 1000:
		return count(int(n), "token", "tokens")
	case n < 100_000:
		return fmt.Sprintf("%.1fk tokens", float64(n)/1000)
	case n < 1_000_000:
		return fmt.Sprintf("%.0fk tokens", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM tokens", float64(n)/1e6)
}

func dollars(usd float64) string {
	if usd < 0.01 {
		return fmt.Sprintf("$%.4f", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}
