package notebook

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// hunk is a change of some lines of a file. before and after have the lines around it that make it
// the only place that it can be about.
type hunk struct {
	before, after []string
	all           bool // it is about every place with these lines
}

// hunkAt changes the lines from to end of a text.
func hunkAt(lines []string, from, end int, by []string) hunk {
	body := strings.Join(lines, "\n")
	first, last := from, end
	for {
		old := strings.Join(lines[first:last], "\n")
		if old != "" && strings.Count(body, old) == 1 || first == 0 && last == len(lines) {
			break
		}
		if first > 0 {
			first--
		} else {
			last++
		}
	}
	after := slices.Concat(lines[first:from], by, lines[end:last])
	return hunk{before: slices.Clone(lines[first:last]), after: after}
}

func (h hunk) call(file string) Call {
	in := map[string]any{"file_path": file, "old_string": strings.Join(h.before, "\n"), "new_string": strings.Join(h.after, "\n")}
	if h.all {
		in["replace_all"] = true
	}
	return Call{Tool: "Edit", Input: in}
}

// undone is the hunk that takes h back.
func (h hunk) undone() hunk { return hunk{h.after, h.before, h.all} }

// diff shows the changes of a file. An answer has it so that people see what has changed, and a
// later request can take it back.
func diff(file string, hunks []hunk) string {
	var b strings.Builder
	b.WriteString("`" + file + "`\n```diff\n")
	for i, h := range hunks {
		if i > 0 {
			b.WriteString("@@\n")
		}
		start, n := 0, min(len(h.before), len(h.after))
		for start < n && h.before[start] == h.after[start] {
			start++
		}
		end := 0
		for end < n-start && h.before[len(h.before)-1-end] == h.after[len(h.after)-1-end] {
			end++
		}
		write := func(mark string, lines []string) {
			for _, l := range lines {
				b.WriteString(mark + l + "\n")
			}
		}
		write(" ", h.before[:start])
		write("-", h.before[start:len(h.before)-end])
		write("+", h.after[start:len(h.after)-end])
		write(" ", h.before[len(h.before)-end:])
	}
	b.WriteString("```")
	return b.String()
}

var diffs = pattern.New("(?s)`([^`\n]+)`\n```diff\n(.*?)```")

// changesIn are the changes that an answer shows, by file.
func changesIn(answer string) (files []string, of map[string][]hunk) {
	of = map[string][]hunk{}
	for _, m := range diffs.FindAllStringSubmatch(answer, -1) {
		files = append(files, m[1])
		for part := range strings.SplitSeq(strings.TrimSuffix(m[2], "\n"), "\n@@\n") {
			var h hunk
			for line := range strings.SplitSeq(part, "\n") {
				mark, text := " ", ""
				if line != "" {
					mark, text = line[:1], line[1:]
				}
				if mark != "+" {
					h.before = append(h.before, text)
				}
				if mark != "-" {
					h.after = append(h.after, text)
				}
			}
			of[m[1]] = append(of[m[1]], h)
		}
	}
	return files, of
}

// apply makes changes of a file that was read, one after the other, and says what became of them.
func (u *turn) apply(file string, hunks []hunk) (wrong string, ok bool) {
	for _, h := range hunks {
		r, ok := u.one(h.call(file))
		if !ok {
			return "", false
		}
		if r.Failed || failedEdit.MatchString(r.Output) {
			return plain(r.Output), true
		}
	}
	return "", true
}

// failedEdit matches results of Edit and Write that changed nothing, where a result does not say
// that it is an error.
var failedEdit = pattern.New(`^(?:old_string |\S.* has not been read yet|\S.* has changed since)`)

// changed changes a file and says so. what is what was done, for people.
func (u *turn) changed(what, file string, hunks ...hunk) (say string, ok bool) {
	wrong, ok := u.apply(file, hunks)
	switch {
	case !ok:
		return "", false
	case wrong != "":
		return fmt.Sprintf("I could not change `%s`: %s", file, wrong), true
	}
	return what + "\n\n" + diff(file, hunks), true
}

// undo takes back what the last answer that changed something has done.
func (u *turn) undo([]string) (string, bool) {
	made := ""
	for i := range min(len(u.Earlier), 4) {
		answer := u.Earlier[len(u.Earlier)-1-i].Answer
		if diffs.MatchString(answer) || createdIn.MatchString(answer) || madeOutside.MatchString(answer) {
			made = answer
			break
		}
	}
	switch {
	case made == "":
		return "There is nothing of this conversation that I could undo.", true
	case madeOutside.MatchString(made) && !diffs.MatchString(made):
		return "That is published, and I have no tool that takes it back. It can be deleted at LinkedIn.", true
	case !diffs.MatchString(made):
		m := createdIn.FindStringSubmatch(made)
		return fmt.Sprintf("I cannot delete a file, so `%s` stays: no tool of mine does that. You can delete it yourself, or go back to the message before on the page.", m[1]), true
	}
	files, of := changesIn(made)
	texts, ok := u.read(files...)
	if !ok {
		return "", false
	}
	var done, left []string
	for _, t := range texts {
		hunks, fits := t.undoing(of[t.file])
		if !fits {
			left = append(left, fmt.Sprintf("`%s` has changed since, so I left it as it is.", t.file))
			continue
		}
		wrong, ok := u.apply(t.file, hunks)
		switch {
		case !ok:
			return "", false
		case wrong != "":
			left = append(left, fmt.Sprintf("`%s` stays as it is: %s", t.file, wrong))
		default:
			done = append(done, diff(t.file, hunks))
		}
	}
	if len(done) == 0 {
		return strings.Join(left, "\n"), true
	}
	return strings.Join(append(append([]string{"I took it back."}, done...), left...), "\n\n"), true
}

// undoing are the hunks that take changes back, if the text still has what they made.
func (t text) undoing(made []hunk) (hunks []hunk, fits bool) {
	if t.wrong != "" {
		return nil, false
	}
	body := strings.Join(t.lines, "\n")
	for i, h := range slices.Backward(made) {
		h = h.undone()
		old, by := strings.Join(h.before, "\n"), strings.Join(h.after, "\n")
		alike := func(o hunk) bool { return slices.Equal(o.after, h.before) && slices.Equal(o.before, h.after) }
		if slices.ContainsFunc(made[i+1:], alike) {
			continue // taken back together with a later one
		}
		same := 0
		for _, o := range made {
			if alike(o) {
				same++
			}
		}
		if n := strings.Count(body, old); old == "" || n != same {
			return nil, false
		}
		h.all = same > 1
		body = strings.ReplaceAll(body, old, by)
		hunks = append(hunks, h)
	}
	return hunks, true
}

var (
	createdIn   = pattern.New("(?i)created `([^`\n]+)`")
	madeOutside = pattern.New(`Posted to LinkedIn: urn|Comment posted: urn|Reply posted: urn`)
)

// replace puts a text in the place of another, in a note or in all of them.
func (u *turn) replace(m []string) (string, bool) {
	from, to, in := m[1], m[2], m[4]
	if from == "" || from == to {
		return "", true
	}
	u.note = fmt.Sprintf("I look where %q is.", from)
	search := Call{Tool: "Grep", Input: map[string]any{"pattern": escaped(from), "output_mode": "content", "glob": "*.md", "head_limit": 2000}}
	where := "your notes"
	if in != "" && !everywhere.MatchString(in) {
		file, ask, ok := u.oneNote(in, noteFile)
		if !ok || ask != "" {
			return ask, ok
		}
		search.Input["path"], where = file, "`"+file+"`"
		delete(search.Input, "glob")
	} else if m[3] == "" && in == "" {
		if list := u.mentioned(); len(list) > 0 && ends(list[0], ".md") {
			search.Input["path"], where = list[0], "`"+list[0]+"`"
			delete(search.Input, "glob")
		}
	}
	r, ok := u.one(search)
	if !ok {
		return "", false
	}
	found := hitsOf(r)
	if len(found) == 0 {
		return fmt.Sprintf("%q is not in %s, so nothing was changed. I look for it letter by letter.", from, where), true
	}
	var files []string
	of := map[string][]hunk{}
	places := 0
	for _, h := range found {
		if !slices.Contains(files, h.file) {
			files = append(files, h.file)
		}
		places += strings.Count(h.text, from)
		of[h.file] = append(of[h.file], hunk{before: []string{h.text}, after: []string{strings.ReplaceAll(h.text, from, to)}})
	}
	left := files[min(len(files), maxTouched):]
	files = files[:min(len(files), maxTouched)]
	var reads []Call
	for _, f := range files {
		reads = append(reads, Call{Tool: "Read", Input: map[string]any{"file_path": f, "limit": 1}})
	}
	if _, ok := u.do(reads...); !ok {
		return "", false
	}
	var edits []Call
	for _, f := range files {
		edits = append(edits, Call{Tool: "Edit", Input: map[string]any{"file_path": f, "old_string": from, "new_string": to, "replace_all": true}})
	}
	made, ok := u.do(edits...)
	if !ok {
		return "", false
	}
	var done, failed []string
	for i, r := range made {
		if r.Failed || failedEdit.MatchString(r.Output) {
			failed = append(failed, fmt.Sprintf("`%s` was not changed: %s", files[i], plain(r.Output)))
			continue
		}
		done = append(done, diff(files[i], of[files[i]]))
	}
	say := fmt.Sprintf("I replaced %q by %q in %s.", from, to, counted(len(done), "note"))
	if len(left) > 0 {
		say += fmt.Sprintf(" It is in %s more; say it again for those.", counted(len(left), "note"))
	}
	return strings.Join(append(append([]string{say}, done...), failed...), "\n\n"), true
}

var everywhere = pattern.New(`(?i)^(?:all|every|each|my notes|all my notes|all of my notes|the vault|all notes|every note|the whole vault|everything)(?: (?:my |the )?(?:notes|files|note|file))?$`)

// heading gives a heading another text, also where links name it.
func (u *turn) heading(m []string) (string, bool) {
	from, to, in := m[1], m[2], m[3]
	u.note = "I look for the heading."
	search := Call{Tool: "Grep", Input: map[string]any{"pattern": `^#{1,6}\s+` + escaped(from) + `\s*#*\s*$`, "output_mode": "content", "-i": true, "glob": "*.md"}}
	if in != "" {
		file, ask, ok := u.oneNote(in, noteFile)
		if !ok || ask != "" {
			return ask, ok
		}
		search.Input["path"] = file
		delete(search.Input, "glob")
	}
	r, ok := u.one(search)
	if !ok {
		return "", false
	}
	found := hitsOf(r)
	switch {
	case len(found) == 0 && in != "":
		return fmt.Sprintf("`%s` has no heading %q.", search.Input["path"], from), true
	case len(found) == 0:
		return fmt.Sprintf("None of your notes has a heading %q.", from), true
	case len(found) > 1:
		var list []string
		for _, h := range found {
			list = append(list, h.file)
		}
		return fmt.Sprintf("Several notes have a heading %q. Say which one:\n\n%s", from, bullets(ticked(list[:min(len(list), 8)]))), true
	}
	h := found[0]
	marks, _, _ := strings.Cut(h.text, " ")
	by := marks + " " + to
	if _, ok := u.read(h.file); !ok {
		return "", false
	}
	return u.changed(fmt.Sprintf("I renamed the heading %q to %q.", strings.TrimSpace(strings.TrimLeft(h.text, "#")), to), h.file, hunk{before: []string{h.text}, after: []string{by}})
}

// escaped is a text as a regular expression that ripgrep reads, too.
func escaped(s string) string { return regexp.QuoteMeta(s) }

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
