package notebook

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// hit is a line that a Grep found.
type hit struct {
	file string
	line int
	text string
}

var hitLine = pattern.New(`^(.+?\.[A-Za-z0-9]{1,5}):(\d+):(.*)$`)

func hitsOf(r Result) (list []hit) {
	if r.Failed {
		return nil
	}
	for line := range strings.SplitSeq(r.Output, "\n") {
		if m := hitLine.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[2])
			list = append(list, hit{m[1], n, m[3]})
		}
	}
	return list
}

// grepping searches for a pattern in all notes.
func grepping(pattern string) Call {
	return Call{Tool: "Grep", Input: map[string]any{"pattern": pattern, "output_mode": "content", "-i": true, "glob": "*.{md,csv}", "head_limit": 400}}
}

// wording is a pattern for a text: its words with anything but a letter between them.
func wording(said string) string {
	var list []string
	for _, w := range word.FindAllString(said, -1) {
		list = append(list, escaped(strings.TrimSuffix(w, "'s")))
	}
	return `\b` + strings.Join(list, `[^\pL\n]+`)
}

// mention lists the notes that mention something.
func (u *turn) mention(m []string) (string, bool) {
	said := strings.TrimSuffix(strings.Trim(m[1], `"'`), " in my notes")
	if pattern.New(`(?i)^(?:do i have|there|i have|my|all|have|the|in|it)$`).MatchString(said) {
		return "", true
	}
	said = pattern.New(`(?i)^(?:(?:my|the|all) )?(?:notes?|anything|something|everything) (?:on|about|for) `).ReplaceAllString(said, "")
	said = pattern.New(`(?i)^(?:my|the|a|an) `).ReplaceAllString(said, "")
	u.note = fmt.Sprintf("I search your notes for %q.", said)
	if len(wordsOf(said)) == 0 {
		return "", true
	}
	pattern := wording(said)
	if ws := topics(said); len(ws) == 1 && len(wordsOf(said)) == 1 { // singular and plural
		pattern = `\b` + escaped(stem(ws[0]))
	}
	call := grepping(pattern)
	found, ok := u.do(call)
	if !ok {
		return "", false
	}
	list, ok := u.candidates(wordsOf(said))
	if !ok {
		return "", false
	}
	hits := hitsOf(found[0])
	if len(hits) == 0 { // all of the words, in one line or in several
		var alt []string
		for _, w := range topics(said) {
			alt = append(alt, `\b`+escaped(stem(w)))
		}
		if len(alt) > 1 {
			r, ok := u.one(grepping(strings.Join(alt, "|")))
			if !ok {
				return "", false
			}
			hits = withAll(hitsOf(r), topics(said))
		}
	}
	type note struct {
		file  string
		first string
		n     int
		named bool
	}
	var notes []note
	for _, f := range list {
		if s := fit(f, wordsOf(filler.ReplaceAllString(said, " "))); s >= 2 && ends(f, ".md") {
			notes = append(notes, note{file: f, named: true})
		}
	}
	for _, h := range hits {
		i := slices.IndexFunc(notes, func(n note) bool { return n.file == h.file })
		if i < 0 {
			notes = append(notes, note{file: h.file})
			i = len(notes) - 1
		}
		if notes[i].n++; notes[i].first == "" {
			notes[i].first = clipped(unmarked(h.text), 120)
		}
	}
	slices.SortStableFunc(notes, func(a, b note) int {
		if a.named != b.named {
			return map[bool]int{true: -1, false: 1}[a.named]
		}
		return cmp.Compare(b.n, a.n)
	})
	if len(notes) == 0 {
		return fmt.Sprintf("I found nothing about %q in your notes.", said), true
	}
	var out []string
	for _, n := range notes[:min(len(notes), 15)] {
		line := "`" + n.file + "`"
		if n.first != "" {
			line += ": " + n.first
		}
		if n.n > 1 {
			line += fmt.Sprintf(" (%d places)", n.n)
		}
		out = append(out, line)
	}
	more := ""
	if n := len(notes) - len(out); n > 0 {
		more = fmt.Sprintf("\n\nand %d more.", n)
	}
	return fmt.Sprintf("%q is in %s:\n\n%s%s", said, counted(len(notes), "note"), bullets(out), more), true
}

// withAll are the hits in files that have all words.
func withAll(hits []hit, words []string) []hit {
	of := map[string]map[string]bool{}
	for _, h := range hits {
		if of[h.file] == nil {
			of[h.file] = map[string]bool{}
		}
		for _, w := range words {
			if strings.Contains(strings.ToLower(h.text), stem(w)) {
				of[h.file][w] = true
			}
		}
	}
	return slices.DeleteFunc(hits, func(h hit) bool { return len(of[h.file]) < len(words) })
}

// backlinks lists the notes with links to one.
func (u *turn) backlinks(m []string) (string, bool) {
	u.note = "I look for links."
	said := m[1]
	if said == "" {
		said = m[2]
	}
	file, ask, ok := u.oneNote(said, noteFile)
	if !ok || ask != "" {
		return ask, ok
	}
	r, ok := u.one(grepping(`\[\[([^\]|#]*/)?` + escaped(base(file)) + `([|#\]])|\]\([^)]*` + escaped(strings.ReplaceAll(base(file), " ", "%20")) + `\.md`))
	if !ok {
		return "", false
	}
	var list []string
	for _, h := range hitsOf(r) {
		if line := "`" + h.file + "`"; h.file != file && !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	if len(list) == 0 {
		return fmt.Sprintf("No note links to `%s`.", file), true
	}
	return fmt.Sprintf("%s to `%s`:\n\n%s", map[bool]string{true: "One note links", false: fmt.Sprintf("%d notes link", len(list))}[len(list) == 1], file, bullets(list)), true
}

// howMany counts notes.
func (u *turn) howMany(m []string) (string, bool) {
	n, ok := u.files()
	if !ok {
		return "", false
	}
	if m[1] != "" && !pattern.New(`(?i)^(?:vault|all|total)$`).MatchString(m[1]) {
		in := inFolder(n.list, m[1])
		if len(in) == 0 {
			return u.mention([]string{"", m[1]})
		}
		return fmt.Sprintf("%s in the folder %s.", capital(counted(len(in), "file")), folder(in[0])), true
	}
	notes := 0
	for _, f := range n.list {
		if ends(f, ".md") {
			notes++
		}
	}
	if !n.all {
		return fmt.Sprintf("You have about %d files; I can list the newest hundred of them.", len(n.list)+n.more), true
	}
	say := fmt.Sprintf("You have %d notes", notes)
	if other := len(n.list) - notes; other > 0 {
		say += fmt.Sprintf(", and %d other files", other)
	}
	var parts []string
	for _, f := range folders(n.list) {
		parts = append(parts, fmt.Sprintf("%s: %d", f, len(inFolder(n.list, f))))
	}
	return say + ".\n\n" + bullets(parts), true
}

// folders are the top folders of files, in order.
func folders(files []string) (list []string) {
	for _, f := range files {
		if top, _, in := strings.Cut(f, "/"); in && !slices.Contains(list, top) {
			list = append(list, top)
		}
	}
	slices.Sort(list)
	return list
}

// inFolder are the files in folders with a name.
func inFolder(files []string, name string) (list []string) {
	words := wordsOf(filler.ReplaceAllString(name, " "))
	if len(words) == 0 {
		return nil
	}
	for _, f := range files {
		parts := wordsOf(folder(f))
		if !slices.ContainsFunc(words, func(w string) bool { return !has(parts, w) }) {
			list = append(list, f)
		}
	}
	slices.Sort(list)
	return list
}

func (u *turn) list([]string) (string, bool) {
	n, ok := u.files()
	if !ok {
		return "", false
	}
	var out []string
	top := 0
	for _, f := range folders(n.list) {
		in := inFolder(n.list, f)
		var some []string
		for _, g := range in[:min(len(in), 6)] {
			some = append(some, base(g))
		}
		line := fmt.Sprintf("**%s** (%d): %s", f, len(in), strings.Join(some, ", "))
		if len(in) > len(some) {
			line += ", …"
		}
		out = append(out, line)
	}
	for _, f := range n.list {
		if folder(f) == "" {
			out = append(out, "`"+f+"`")
			top++
		}
	}
	say := fmt.Sprintf("You have %s", counted(len(n.list)+n.more, "file"))
	if !n.all {
		say += "; these are among the newest"
	}
	return say + ":\n\n" + bullets(out), true
}

func (u *turn) recent([]string) (string, bool) {
	n, ok := u.files()
	if !ok {
		return "", false
	}
	return "These files changed last:\n\n" + bullets(ticked(n.list[:min(len(n.list), 8)])), true
}

// kind lists what is in the folder of a kind of notes, such as recipes.
func (u *turn) kind(m []string) (string, bool) { return u.folder([]string{"", m[1], ""}) }

func (u *turn) folder(m []string) (string, bool) {
	said := m[1]
	if said == "" {
		said = m[2]
	}
	n, ok := u.files()
	if !ok {
		return "", false
	}
	in := inFolder(n.list, said)
	if len(in) == 0 {
		if m[2] == "" && len(m[0]) == 0 {
			return "", true
		}
		return fmt.Sprintf("There is no folder %q. There are: %s.", said, strings.Join(folders(n.list), ", ")), true
	}
	return fmt.Sprintf("There are %d in %s:\n\n%s", len(in), folder(in[0]), bullets(ticked(in[:min(len(in), 40)]))), true
}

// ofKind lists the notes of a kind that have something: which recipes are vegan?
func (u *turn) ofKind(m []string) (string, bool) {
	n, ok := u.files()
	if !ok {
		return "", false
	}
	in := inFolder(n.list, m[1])
	words := topics(m[2])
	if len(in) == 0 || len(words) == 0 {
		return "", true
	}
	u.note = "I look through them."
	var alt []string
	for _, w := range words {
		alt = append(alt, `\b`+escaped(stem(w)))
	}
	c := grepping(strings.Join(alt, "|"))
	c.Input["path"] = folder(in[0])
	r, ok := u.one(c)
	if !ok {
		return "", false
	}
	var list []string
	for _, h := range withAll(hitsOf(r), words) {
		line := fmt.Sprintf("`%s`: %s", h.file, clipped(unmarked(h.text), 100))
		if !slices.ContainsFunc(list, func(o string) bool { return strings.HasPrefix(o, "`"+h.file+"`") }) {
			list = append(list, line)
		}
	}
	if len(list) == 0 {
		return fmt.Sprintf("None of the %d in %s has %q.", len(in), folder(in[0]), strings.Join(words, " ")), true
	}
	return bullets(list), true
}
