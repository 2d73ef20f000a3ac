package chat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-server/parley"
)

// draw draws the question in at most h lines.
func (a *asking) draw(m *model, w, h int) (lines []string, x, y int) {
	d := m.drawing(w)
	y = -1
	title := oneLine(a.in.Title)
	if a.in.Agent.Depth() > 0 {
		title = oneLine(string(a.in.Agent)) + ": " + title
	}
	for i, line := range wrap(title, w-4) {
		if i == 0 {
			rule := strings.Repeat(d.look.signs.line, max(w-width(line)-4, 0))
			lines = append(lines, d.warn.of(d.waits)+" "+d.bold.of(line)+" "+d.bar.of(rule))
			continue
		}
		lines = append(lines, "  "+d.bold.of(line))
	}
	choose, cx, cy := a.choices(d, w-2)
	foot := a.keys(m, d)
	about := a.about(d, w-2)
	room := max(h-len(lines)-len(choose)-2, 2)
	a.over = max(len(about)-room, 0)
	a.scroll = min(a.scroll, a.over)
	if a.over > 0 {
		about = about[a.scroll:min(a.scroll+room-1, len(about))]
		about = append(about, d.faint.of(cut(fmt.Sprintf("… %d more lines: pgdown and pgup", a.over+1), w-2)))
	}
	for _, line := range about {
		lines = append(lines, "  "+line)
	}
	if len(about) > 0 && len(lines)+len(choose)+1 < h {
		lines = append(lines, "")
	}
	if cy >= 0 {
		x, y = cx+2, len(lines)+cy
	}
	for _, line := range choose {
		lines = append(lines, "  "+line)
	}
	return append(lines, d.faint.of(cut("  "+foot, w))), x, y
}

// keys says which keys there are.
func (a *asking) keys(m *model, d drawing) string {
	dot := " " + d.dot + " "
	var parts []string
	switch {
	case a.busy:
		return "sending…"
	case !a.armed && strings.HasPrefix(m.ed.text, "/"):
		return "ctrl+r goes back to this question"
	case !a.armed && !m.ed.empty():
		return "enter declines and sends your message" + dot + "ctrl+r goes back to this question"
	case !a.armed:
		return "your keys go to the message until you pause"
	case a.typing == typesSecret:
		parts = []string{"what you type is not shown", "enter sends it", "esc goes back"}
	case a.typing == typesReason:
		parts = []string{"enter denies, with or without a reason", "esc goes back"}
	case a.typing == typesInput:
		parts = []string{"enter allows it", "ctrl+j begins a line", "ctrl+g opens your editor", "esc goes back"}
	case a.typing != typesNothing:
		parts = []string{"enter answers", "esc goes back"}
	case a.many():
		parts = []string{"space chooses several", "enter answers", "esc leaves it open"}
	default:
		parts = []string{"enter or a number answers", "esc leaves it open"}
	}
	if a.more > 0 {
		parts = append(parts, count(a.more, "more waits", "more wait"))
	}
	if at := a.in.ExpiresAt; !at.IsZero() {
		parts = append(parts, "open until "+at.Local().Format("Mon 15:04"))
	}
	return strings.Join(parts, dot)
}

// choices draws what there is to choose from, or to type.
func (a *asking) choices(d drawing, w int) (lines []string, x, y int) {
	y = -1
	if a.asksQuestions() {
		q := a.in.Questions[a.question]
		head := oneLine(q.Question)
		if n := len(a.in.Questions); n > 1 {
			head = fmt.Sprintf("%d of %d: %s", a.question+1, n, head)
		}
		if head != oneLine(a.in.Title) {
			lines = append(lines, wrap(head, w)...)
		}
	}
	if a.typing != typesNothing {
		label := ""
		switch a.typing {
		case typesSecret:
			label = oneLine(a.in.Credentials[min(len(a.given), len(a.in.Credentials)-1)])
		case typesReason:
			label = "Why not, for the agent"
		case typesInput:
			label = "The input, as JSON"
		case typesOther:
			label = "Your answer"
		}
		lines = append(lines, d.faint.of(cut(label+":", w)))
		rows := a.ed.rows(w - 3)
		line, column := a.ed.cursor(rows)
		const most = 10
		from := 0
		if len(rows) > most {
			from = min(max(line-most/2, 0), len(rows)-most)
		}
		x, y = column+2, len(lines)+line-from
		for i := from; i < min(len(rows), from+most); i++ {
			lines = append(lines, d.accent.of(d.look.signs.bar)+" "+a.ed.shown(a.ed.text[rows[i].from:rows[i].to]))
		}
	} else {
		wide := 0
		for _, r := range a.rows {
			wide = max(wide, width(r.label))
		}
		wide = min(wide, w/2)
		for i, r := range a.rows {
			mark, box := "  ", ""
			if i == a.at && a.armed {
				mark = d.accent.of(d.look.signs.user) + " "
			}
			if a.many() && r.choice == parley.ChoiceAnswered {
				box = "[ ] "
				if a.chosen[i] {
					box = "[x] "
				}
			}
			number := "  "
			if i < 9 {
				number = fmt.Sprintf("%d ", i+1)
			}
			label := cut(r.label, w-8)
			if i == a.at && a.armed {
				label = d.mark.of(label)
			}
			line := mark + d.faint.of(number) + box + label
			if r.about != "" {
				left := w - width(line) - 2
				if gap := wide - width(r.label); gap > 0 && w > 60 {
					line += strings.Repeat(" ", gap)
					left -= gap
				}
				if left > 12 {
					line += "  " + d.faint.of(cut(r.about, left))
				}
			}
			lines = append(lines, line)
		}
	}
	if a.wrong != "" {
		for _, line := range wrap(a.wrong, w) {
			lines = append(lines, d.bad.of(line))
		}
	}
	return lines, x, y
}

// about draws what is asked about: the text, and of a call its input.
func (a *asking) about(d drawing, w int) []string {
	var out []string
	if s := oneLine(a.in.Detail); s != "" {
		out = append(out, wrapped(d.faint, s, w)...)
	}
	text, diff := a.in.Text, ""
	if a.in.Tool != "" {
		text, diff = cutDiff(a.in.Text)
	}
	if s := strings.TrimSpace(text); s != "" {
		var b blocks
		out = append(out, b.lines(s, false, w, d.look)...)
	}
	if diff != "" {
		out = append(out, "")
		for line := range strings.SplitSeq(diff, "\n") {
			p := d.soft
			switch {
			case strings.HasPrefix(line, "+"):
				p = d.added
			case strings.HasPrefix(line, "-"):
				p = d.removed
			}
			for _, piece := range wrap(tidy(line), w) {
				out = append(out, p.of(piece))
			}
		}
	}
	if a.in.Kind != parley.KindQuestion && a.in.Tool != "" && len(a.in.Input) > 0 && diff == "" {
		out = append(out, d.faint.of("tool:")+" "+oneLine(a.in.Tool))
		if change := d.change(a.in.Input, w); change != nil {
			out = append(out, change...)
		} else {
			it := &item{kind: kindTool, input: kept(a.in.Input)}
			for _, f := range it.fields() {
				name, value := cut(oneLine(f[0]), w-1), tidy(strings.TrimRight(f[1], "\n"))
				if !strings.Contains(value, "\n") && width(name)+2+width(value) <= w {
					out = append(out, d.faint.of(name+":")+" "+value)
					continue
				}
				out = append(out, d.faint.of(name+":"))
				out = append(out, d.some(value, "  ", w-2, mostOutput, paint{})...)
			}
		}
	}
	if len(a.in.Reaches) > 0 {
		if list := oneLine(strings.Join(a.in.Reaches, ", ")); !strings.Contains(a.in.Title+a.in.Text+a.in.Detail, list) {
			out = append(out, wrapped(d.faint, "acts on: "+list, w)...)
		}
	}
	if a.in.URL != "" && !strings.Contains(a.in.Text, a.in.URL) {
		out = append(out, wrapped(d.accent, tidy(a.in.URL), w)...)
	}
	return out
}

func wrapped(p paint, s string, w int) []string {
	lines := wrap(s, w)
	for i := range lines {
		lines[i] = p.of(lines[i])
	}
	return lines
}

// change draws the input of a call that replaces text in a file; nil: it is not such a call.
func (d drawing) change(input json.RawMessage, w int) []string {
	var in struct {
		FilePath string `json:"file_path"`
		Path     string `json:"path"`
		Old      string `json:"old_string"`
		New      string `json:"new_string"`
		Edits    []struct {
			Old string `json:"old_string"`
			New string `json:"new_string"`
		} `json:"edits"`
		Content *string `json:"content"`
	}
	if json.Unmarshal(input, &in) != nil || in.FilePath+in.Path == "" {
		return nil
	}
	out := []string{d.faint.of("file:") + " " + oneLine(in.FilePath+in.Path)}
	piece := func(old, text string) {
		if old != "" {
			out = append(out, d.some(tidy(old), d.removed.of("- "), w-2, mostInput, d.removed)...)
		}
		if text != "" {
			out = append(out, d.some(tidy(text), d.added.of("+ "), w-2, mostOutput, d.added)...)
		}
	}
	switch {
	case in.Old != "" || in.New != "":
		piece(in.Old, in.New)
	case len(in.Edits) > 0:
		for i, e := range in.Edits {
			if i > 0 {
				out = append(out, d.faint.of("…"))
			}
			piece(e.Old, e.New)
		}
	case in.Content != nil:
		piece("", *in.Content)
	default:
		return nil
	}
	return out
}
