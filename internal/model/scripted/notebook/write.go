package notebook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// write makes a file, if there is none of that name.
func (u *turn) write(file, body, more string) (string, bool) {
	r, ok := u.one(Call{Tool: "Write", Input: map[string]any{"file_path": file, "content": body}})
	switch {
	case !ok:
		return "", false
	case r.Failed || failedEdit.MatchString(r.Output):
		return fmt.Sprintf("I could not write `%s`: %s", file, plain(r.Output)), true
	}
	shown := clipped(strings.TrimSpace(body), 600)
	return fmt.Sprintf("I created `%s`:\n\n%s%s", file, quote(shown), more), true
}

func quote(text string) string {
	return "> " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n> ")
}

var (
	unsafe  = pattern.New(`[\\/:*?"<>|#^\[\]\x00-\x1f]+`)
	inPlace = pattern.New(`(?is)^(.*?),? in(?:to)? (?:the |my )?(?:folder )?(.+?)(?: folder)?$`)
	content = pattern.New(`(?is)^(.*?)(?:\s*[:：]\s*|,? (?:with the (?:text|content|contents)|that says|which says|saying|containing|with)(?: the)?:? )(.+)$`)
)

// named makes the path of a new note: in a folder if the name says so, and if there is one.
func (u *turn) named(said string) (file string, ok bool) {
	n, ok := u.files()
	if !ok {
		return "", false
	}
	said = strings.Trim(strings.TrimSpace(said), "\"'`.,")
	in := ""
	if m := inPlace.FindStringSubmatch(said); m != nil {
		if there := inFolder(n.list, m[2]); len(there) > 0 {
			said, in = strings.Trim(m[1], `"' `), folder(there[0])
		}
	}
	if i := strings.LastIndexByte(said, '/'); i >= 0 {
		said, in = said[i+1:], strings.Trim(said[:i], "/")
	}
	said = strings.TrimSuffix(strings.TrimSpace(unsafe.ReplaceAllString(said, " ")), ".md")
	said = strings.Trim(strings.Join(strings.Fields(said), " "), ". ")
	if len(said) > 100 {
		said = strings.TrimSuffix(clipped(said, 100), " …")
	}
	if said == "" {
		return "", true
	}
	return strings.TrimPrefix(in+"/"+capital(said)+".md", "/"), true
}

// taken reports whether there is a file of a name.
func (u *turn) taken(file string) (is, ok bool) {
	n, ok := u.files()
	if !ok || n.all {
		return slices.ContainsFunc(n.list, func(f string) bool { return strings.EqualFold(f, file) }), ok
	}
	r, ok := u.one(glob(folded(strings.TrimSuffix(file, ".md")) + ".md"))
	if !ok {
		return false, false
	}
	return slices.ContainsFunc(listing(r).list, func(f string) bool { return strings.EqualFold(f, file) }), true
}

// create makes a note, or a list.
func (u *turn) create(m []string) (string, bool) {
	kind, said, body := strings.ToLower(m[1]), m[2], ""
	if kind == "list" || strings.HasSuffix(kind, " list") {
		kind = strings.TrimPrefix(pattern.New(`^(?:new|my|the|another) `).ReplaceAllString(kind, ""), "list")
	} else {
		kind = ""
	}
	if c := content.FindStringSubmatch(said); c != nil {
		said, body = c[1], strings.TrimSpace(c[2])
	} else if i := strings.Index(said, "\n"); i >= 0 {
		said, body = said[:i], strings.TrimSpace(said[i:])
	}
	title := strings.TrimSpace(pattern.New(`(?i)^(?:called|named|titled)\s+`).ReplaceAllString(said, ""))
	if kind != "" { // "packing list for the weekend"
		if kind = capital(kind); title != "" {
			kind += " " + title
		}
		title = kind
	}
	if title == "" && body != "" {
		title = strings.TrimSuffix(clipped(sentences(body, 1), 40), " …")
	}
	if title == "" {
		return "How shall the note be called? Say for example: create a note called Balcony: buy two tubs.", true
	}
	u.note = "I look whether there is one already."
	if inner, is := u.inner(body); is {
		say, ok := u.answer(inner)
		if !ok {
			return "", false
		}
		body = strings.TrimSpace(say)
	} else if kind != "" && body != "" && !strings.Contains(body, "\n") {
		var lines []string
		for _, t := range things(body) {
			lines = append(lines, "- [ ] "+t)
		}
		body = strings.Join(lines, "\n")
	}
	return u.newNote(title, body)
}

var innerRead = pattern.New(`(?i)^(?:a |the )?(?:summary of|list of|overview of|my open tasks|all (?:my )?open tasks|open tasks)\b`)

// inner is a request whose answer is to be the text of a note.
func (u *turn) inner(body string) (request, bool) {
	if !innerRead.MatchString(body) {
		return request{}, false
	}
	return trimmed(body), true
}

func (u *turn) newNote(title, body string) (string, bool) {
	file, ok := u.named(title)
	if !ok {
		return "", false
	}
	if file == "" {
		return "That cannot be the name of a note.", true
	}
	is, ok := u.taken(file)
	switch {
	case !ok:
		return "", false
	case is:
		return fmt.Sprintf("There is a note `%s` already, so I wrote nothing. I can add to it: say add … to %s.", file, base(file)), true
	}
	whole := "# " + base(file) + "\n"
	if body != "" {
		whole += "\n" + body + "\n"
	}
	return u.write(file, whole, "")
}

// saveNew writes what was answered into a new note.
func (u *turn) saveNew(m []string) (string, bool) {
	about := m[1] + m[2]
	body := u.last()
	if about != "" { // a summary of something
		say, ok := u.answer(trimmed("summarise " + about))
		if !ok {
			return "", false
		}
		body = say
	}
	body = keepable(body)
	if body == "" {
		return "There is nothing to write down yet.", true
	}
	title := m[3]
	if title == "" {
		title = "Notes of " + u.Now.Format("2 January 2006")
		if n := len(u.Earlier); n > 0 {
			if t := topics(u.Earlier[n-1].Question); len(t) > 0 {
				title = capital(strings.Join(t[:min(len(t), 4)], " "))
			}
		}
	}
	u.note = "I write it down."
	return u.newNote(title, body)
}

// saveTo writes what was answered at the end of a note.
func (u *turn) saveTo(m []string) (string, bool) {
	body := keepable(u.last())
	if body == "" {
		return "There is nothing to write down yet.", true
	}
	if aJournal.MatchString(m[1]) {
		return u.journal([]string{"", body})
	}
	u.note = "I read the note first."
	file, ask, ok := u.oneNote(m[1], noteFile)
	if !ok {
		return "", false
	}
	if ask != "" {
		if strings.HasPrefix(ask, "Which") {
			return ask, true
		}
		return u.newNote(m[1], body)
	}
	list, ok := u.read(file)
	if !ok {
		return "", false
	}
	return u.append(list[0], []string{body}, fmt.Sprintf("I wrote it at the end of `%s`.", file))
}

var (
	fence    = pattern.New("(?s)```.*?```")
	warnings = pattern.New(`(?m)^\*\*Note\*\*: .*$`)
)

// keepable is an answer as it may stand in a note.
func keepable(answer string) string {
	if diffs.MatchString(answer) || createdIn.MatchString(answer) {
		return ""
	}
	answer = warnings.ReplaceAllString(fence.ReplaceAllString(answer, ""), "")
	return strings.TrimSpace(pattern.New(`\n{3,}`).ReplaceAllString(answer, "\n\n"))
}

// inbox writes a line into the inbox.
func (u *turn) inbox(m []string) (string, bool) { return u.toInbox(m[1], "") }

func (u *turn) remind(m []string) (string, bool) {
	return u.toInbox(m[1], "\n\nI cannot remind you at a time; it stands in your inbox.")
}

func (u *turn) toInbox(said, more string) (string, bool) {
	said = strings.TrimRight(capital(strings.TrimSpace(said)), ".")
	if said == "" || len(strings.Fields(said)) < 2 {
		return "", true
	}
	u.note = "I look at your inbox."
	files, ok := u.find("inbox", noteFile)
	if !ok {
		return "", false
	}
	if len(files) == 0 {
		return u.write("Inbox.md", "# Inbox\n\n- "+said+"\n", more)
	}
	list, ok := u.read(files[0])
	if !ok {
		return "", false
	}
	say, ok := u.changed("I noted it in your inbox.", files[0], list[0].insert([]string{said}, ""))
	return say + more, ok
}
