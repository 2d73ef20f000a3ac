package notebook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	wiki    = pattern.New(`\[\[([^\]|]+\|)?([^\]]+)\]\]`)
	mdLink  = pattern.New(`!?\[([^\]]*)\]\([^)]*\)`)
	marks   = pattern.New(`\*\*|__|\*([^*\s][^*]*)\*`)
	divider = pattern.New(`^\s*\|?[\s:|-]+\|[\s:|-]*$`)
)

// unmarked is a line without what Markdown marks.
func unmarked(line string) string {
	line = strings.TrimSpace(line)
	if m := item.FindStringSubmatch(line); m != nil {
		line = m[5]
		if m[4] != "" {
			line = map[bool]string{true: "☐ ", false: "☑ "}[m[4] == " "] + line
		}
	} else if m := head.FindStringSubmatch(line); m != nil {
		line = m[2]
	}
	line = strings.TrimPrefix(line, "> ")
	line = wiki.ReplaceAllString(line, "$2")
	line = mdLink.ReplaceAllString(line, "$1")
	line = marks.ReplaceAllString(line, "$1")
	if strings.HasPrefix(line, "|") {
		var cells []string
		for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
			if c = strings.TrimSpace(c); c != "" {
				cells = append(cells, c)
			}
		}
		line = strings.Join(cells, " · ")
	}
	return strings.TrimSpace(line)
}

// outline is a note in its parts.
type outline struct {
	title string
	front []string // "key: value"
	parts []part
}

type part struct {
	heading string
	lines   []string
}

// outline takes a text apart.
func (t text) outline() (o outline) {
	lines := t.lines
	if len(lines) > 0 && lines[0] == "---" {
		if end := slices.Index(lines[1:], "---"); end >= 0 {
			o.front = lines[1 : end+1]
			lines = lines[end+2:]
		}
	}
	o.parts = []part{{}}
	for _, l := range lines {
		m := head.FindStringSubmatch(l)
		switch {
		case m != nil && o.title == "" && len(o.parts) == 1 && len(o.parts[0].lines) == 0:
			o.title = m[2]
		case m != nil:
			o.parts = append(o.parts, part{heading: m[2]})
		case strings.TrimSpace(l) != "":
			p := &o.parts[len(o.parts)-1]
			p.lines = append(p.lines, l)
		}
	}
	if o.title == "" {
		o.title = base(t.file)
	}
	return o
}

var sentenceEnd = pattern.New(`[.!?](?:\s+|$)`)

// sentences are the first n sentences of a text.
func sentences(s string, n int) string {
	at := 0
	for range n {
		m := sentenceEnd.FindStringIndex(s[at:])
		if m == nil {
			return s
		}
		at += m[1]
	}
	return strings.TrimSpace(s[:at])
}

// brief is a summary of a part: what it says, how many items or rows it has.
func (p part) brief(long bool) string {
	var said, open []string
	items, done, rows := 0, 0, 0
	var table []string
	for _, l := range p.lines {
		m := item.FindStringSubmatch(l)
		switch {
		case m != nil:
			items++
			switch {
			case m[4] == " ":
				open = append(open, unmarked(m[5]))
			case m[4] != "":
				done++
			default:
				open = append(open, clipped(unmarked(m[5]), 110))
			}
		case divider.MatchString(l):
		case strings.HasPrefix(strings.TrimSpace(l), "|"):
			rows++
			if rows == 1 {
				table = strings.FieldsFunc(l, func(r rune) bool { return r == '|' })
			}
		default:
			plain := unmarked(l)
			if len(plain) > 220 && !long {
				plain = sentences(plain, 2)
			}
			said = append(said, clipped(plain, 400))
		}
	}
	if rows > 1 {
		for i := range table {
			table[i] = strings.TrimSpace(table[i])
		}
		said = append(said, fmt.Sprintf("a table of %s (%s)", counted(rows-1, "row"), strings.Join(slices.DeleteFunc(table, func(c string) bool { return c == "" }), ", ")))
	}
	switch {
	case done > 0:
		said = append(said, fmt.Sprintf("%d of %d done; open: %s", done, items, clipped(strings.Join(open, "; "), 220)))
	case items > 0:
		said = append(said, clipped(strings.Join(open, "; "), 260))
	}
	return strings.Join(said, " ")
}

// summary is a summary of a note.
func (t text) summary() string {
	o := t.outline()
	var out []string
	if facts := o.facts(); facts != "" {
		out = append(out, facts)
	}
	for _, p := range o.parts {
		b := p.brief(false)
		switch {
		case b == "":
		case p.heading == "":
			out = append(out, b)
		default:
			out = append(out, "**"+p.heading+"**: "+b)
		}
	}
	if len(out) == 0 {
		return "it is empty"
	}
	return bullets(out)
}

// facts are what stands before a note, without its tags.
func (o outline) facts() string {
	var list []string
	for _, f := range o.front {
		if key, value, ok := strings.Cut(f, ":"); ok && key != "tags" && strings.TrimSpace(value) != "" {
			list = append(list, key+": "+strings.Trim(strings.TrimSpace(value), "[]"))
		}
	}
	return strings.Join(list, " · ")
}

// line is a note in one line.
func (t text) line(n int) string {
	for _, p := range t.outline().parts {
		if b := p.brief(false); b != "" {
			return clipped(b, n)
		}
	}
	return "(empty)"
}

// summarise summarises a note, or those about something.
func (u *turn) summarise(m []string) (string, bool) {
	said := m[1]
	if from, to, name, is := u.span(said); is || u.isJournal(said) {
		if !is {
			return u.days([]string{"", said, "", "", ""})
		}
		return u.journalOf(from, to, name)
	}
	if url := address(u.last()); url != "" && itself.MatchString(said) && len(u.mentioned()) == 0 {
		return u.pageAt(url, "")
	}
	files, ok := u.find(said, readable)
	if !ok {
		return "", false
	}
	n, _ := u.files()
	group := inFolder(n.list, said)
	group = slices.DeleteFunc(group, func(f string) bool { return !noteFile(f) })
	several := pattern.New(`(?i)\b(?:notes|recipes|meetings|all|every|everything|folder)\b`).MatchString(said) || len(files) == 0
	u.note = "I read " + map[bool]string{true: "them.", false: "it."}[several]
	switch {
	case several && len(group) > 1, len(files) > 1 && len(group) > 1:
		return u.summaries(group, "your notes in "+folder(group[0]))
	case len(files) == 0 || several:
		about := pattern.New(`(?i)^(?:all )?(?:of )?(?:my |the )?(?:notes?|everything|what i (?:have|wrote)) (?:about|on) (?:the )?`).ReplaceAllString(said, "")
		return u.summariesAbout(about)
	case len(files) > 1:
		return fmt.Sprintf("Which one do you mean?\n\n%s", bullets(ticked(files[:min(len(files), 6)]))), true
	}
	list, ok := u.read(files[0])
	if !ok {
		return "", false
	}
	t := list[0]
	if t.wrong != "" {
		return fmt.Sprintf("I could not read `%s`: %s", t.file, t.wrong), true
	}
	return fmt.Sprintf("**%s** (`%s`)\n\n%s", t.outline().title, t.file, t.summary()), true
}

func readable(file string) bool { return ends(file, ".md", ".txt", ".csv", ".ipynb", ".pdf") }

// summariesAbout summarises the notes that mention something.
func (u *turn) summariesAbout(about string) (string, bool) {
	words := topics(about)
	if len(words) == 0 {
		words = wordsOf(about)
	}
	if len(words) == 0 {
		return "Say what I should summarise: a note, a folder, or a topic.", true
	}
	var alt []string
	for _, w := range words {
		alt = append(alt, `\b`+escaped(stem(w)))
	}
	r, ok := u.one(grepping(strings.Join(alt, "|")))
	if !ok {
		return "", false
	}
	all, ok := u.candidates(words)
	if !ok {
		return "", false
	}
	var files []string
	for _, f := range all {
		if fit(f, words) > 0 && ends(f, ".md") {
			files = append(files, f)
		}
	}
	for _, h := range withAll(hitsOf(r), words) {
		if !slices.Contains(files, h.file) && ends(h.file, ".md") {
			files = append(files, h.file)
		}
	}
	if len(files) == 0 {
		return fmt.Sprintf("I found nothing about %q in your notes.", about), true
	}
	return u.summaries(files, fmt.Sprintf("what your notes have about %q", about))
}

// summaries is a line for each note.
func (u *turn) summaries(files []string, what string) (string, bool) {
	shown := files[:min(len(files), 10)]
	list, ok := u.read(shown...)
	if !ok {
		return "", false
	}
	var out []string
	for _, t := range list {
		out = append(out, fmt.Sprintf("`%s`: %s", t.file, t.line(180)))
	}
	say := fmt.Sprintf("This is %s:\n\n%s", what, bullets(out))
	if n := len(files) - len(shown); n > 0 {
		say += fmt.Sprintf("\n\nand %d more.", n)
	}
	return say, true
}

// show shows a note, a list, or a file that is not text.
func (u *turn) show(m []string) (string, bool) {
	said := m[1]
	if u.isJournal(said) {
		return u.days([]string{"", said, "", "", ""})
	}
	n, ok := u.files()
	if !ok {
		return "", false
	}
	u.note = "I open it."
	picture := pattern.New(`(?i)\b(?:drawing|picture|photo|image|sketch|plan of|map|route)\b`).MatchString(said)
	if picture {
		words := topics(pattern.New(`(?i)\b(?:drawing|picture|photo|image|sketch)\b`).ReplaceAllString(said, ""))
		for _, f := range n.list {
			if ends(f, ".png", ".jpg", ".jpeg", ".gif", ".webp") && fit(f, words) > 0 {
				return u.image(f)
			}
		}
	}
	if in := inFolder(n.list, said); len(in) > 1 && pattern.New(`(?i)\b(?:folder|notes|recipes|meetings)\b`).MatchString(said) {
		return u.folder([]string{"", said, ""})
	}
	files, ok := u.find(said, anyFile)
	if !ok {
		return "", false
	}
	switch {
	case len(files) == 0:
		return "", true // perhaps it is a question
	case len(files) > 1:
		return fmt.Sprintf("Which one do you mean?\n\n%s", bullets(ticked(files[:min(len(files), 6)]))), true
	}
	file := files[0]
	if ends(file, ".png", ".jpg", ".jpeg", ".gif", ".webp") {
		return u.image(file)
	}
	list, ok := u.read(file)
	if !ok {
		return "", false
	}
	t := list[0]
	if t.wrong != "" {
		return fmt.Sprintf("I could not read `%s`: %s", file, t.wrong), true
	}
	return fmt.Sprintf("`%s`\n\n%s", file, t.shown()), true
}

// howTo shows the note whose name is what somebody wants to make; "": there is none.
func (u *turn) howTo(m []string) (string, bool) {
	said := m[1] + m[2]
	n, ok := u.files()
	if !ok {
		return "", false
	}
	words := topics(said)
	for _, f := range n.list {
		own := wordsOf(base(f))
		if noteFile(f) && len(words) > 0 && len(own) == len(words) && !slices.ContainsFunc(words, func(w string) bool { return !has(own, w) }) {
			return u.show([]string{"", f})
		}
	}
	return "", true
}

// image shows an image to the user.
func (u *turn) image(file string) (string, bool) {
	r, ok := u.one(reading(file))
	if !ok {
		return "", false
	}
	if r.Failed {
		return fmt.Sprintf("I could not read `%s`: %s", file, plain(r.Output)), true
	}
	return fmt.Sprintf("Here is `%s`. It is a picture, so I do not see what is on it.", file), true
}

// shown is a text for people: open items first, done ones after them.
func (t text) shown() string {
	const most = 80
	lines := t.lines
	if len(lines) > 0 && lines[0] == "---" {
		if end := slices.Index(lines[1:], "---"); end >= 0 {
			lines = lines[end+2:]
		}
	}
	if ends(t.file, ".csv", ".ipynb") {
		return "```\n" + strings.Join(lines[:min(len(lines), most)], "\n") + "\n```"
	}
	var out []string
	for _, l := range lines[:min(len(lines), most)] {
		if m := head.FindStringSubmatch(l); m != nil { // a heading of an answer is a smaller one
			l = "**" + m[2] + "**"
		}
		out = append(out, wiki.ReplaceAllString(l, "*$2*"))
	}
	if n := len(lines) - most; n > 0 {
		out = append(out, "", fmt.Sprintf("(%d more lines)", n))
	}
	return strings.Join(out, "\n")
}
