package librarian

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	createAsked = pattern.New(`(?is)^(?:create|make|add|write down|write|start|take down|take|put down)\s+(?:a |an |the )?(?:new |short )?(page|note|term|glossary term|decision|decision record|doc|document|meeting|meeting note|role|project|customer|person|incident)\s+(?:called |named |titled |about |on |for |with the title )?(.+?)(?:\s*:\s*(.+)|,? (?:saying|that says|with the text)\s+(.+))?$`)
	replaceSaid = pattern.New(`(?is)^(?:change|replace)\s+"([^"]+)"\s+(?:to|with|by|into)\s+"([^"]*)"\s+(?:in|on)\s+(.+)$`)
	replaceIn   = pattern.New(`(?is)^in\s+(.+?),?\s+(?:change|replace)\s+"([^"]+)"\s+(?:to|with|by|into)\s+"([^"]*)"$`)
	replaceBare = pattern.New(`(?is)^(?:change|replace|correct)\s+(\S+)\s+(?:to|with|by|into)\s+(\S+)\s+(?:in|on)\s+(.+)$`)
	addSaid     = pattern.New(`(?is)^(?:add|append|write|put)\s+"([^"]+)"\s+(?:to|on|in|into)\s+(.+)$`)
	addTo       = pattern.New(`(?is)^(?:add|append|note|write down|write|put)\s+(?:a (?:line|note|sentence) )?(?:to|on|in|at|under)\s+(.+?)\s*:\s*(.+)$`)
	setSaid     = pattern.New(`(?is)^(?:set|change)\s+(?:the )?(status|owner|title|kind)\s+(?:of|on|for)\s+(.+?)\s+to\s+"?([^"]+?)"?$`)
	markSaid    = pattern.New(`(?is)^mark\s+(.+?)\s+as\s+"?([a-z]+)"?$`)
	linkSaid    = pattern.New(`(?is)^(?:link|add a link from|add a link in|connect)\s+(.+?)\s+(?:to|with)\s+(.+)$`)
	moveSaid    = pattern.New(`(?is)^(?:move|rename)\s+(.+?)\s+(?:to|into)\s+(\S+)$`)
	deleteSaid  = pattern.New(`(?is)^(?:delete|remove|throw away)\s+(?:the page |the note |the entity )?(.+)$`)
)

// places are the folders of new entities, by kind.
var places = map[string]struct{ kind, folder string }{
	"page": {"doc", "docs"}, "doc": {"doc", "docs"}, "document": {"doc", "docs"}, "note": {"note", "lake/research"}, "term": {"term", "lake/glossary"}, "glossary term": {"term", "lake/glossary"},
	"decision": {"decision", "lake/decisions"}, "decision record": {"decision", "lake/decisions"}, "meeting": {"meeting", "lake/meetings"}, "meeting note": {"meeting", "lake/meetings"}, "role": {"role", "roles"},
	"project": {"project", "lake/projects"}, "customer": {"customer", "lake/customers"}, "person": {"person", "lake/people"}, "incident": {"incident", "lake/incidents"},
}

// change proposes a change. The person is asked about it by the tool's approval.
func (u *turn) change(q string) (say string, mine, ok bool) {
	raw := strings.TrimSpace(polite.ReplaceAllString(strings.TrimSpace(quotes.Replace(u.Question)), "")) // a text is taken as it is
	if m := replaceIn.FindStringSubmatch(raw); m != nil {
		say, ok = u.replace(m[1], m[2], m[3])
		return say, true, ok
	}
	if m := replaceSaid.FindStringSubmatch(raw); m != nil {
		say, ok = u.replace(m[3], m[1], m[2])
		return say, true, ok
	}
	if m := replaceBare.FindStringSubmatch(raw); m != nil {
		say, ok = u.replace(m[3], m[1], m[2])
		return say, true, ok
	}
	if m := addSaid.FindStringSubmatch(raw); m != nil {
		say, ok = u.append(m[2], m[1])
		return say, true, ok
	}
	if m := addTo.FindStringSubmatch(raw); m != nil {
		say, ok = u.append(m[1], m[2])
		return say, true, ok
	}
	if m := createAsked.FindStringSubmatch(raw); m != nil {
		say, ok = u.create(strings.ToLower(m[1]), m[2], strings.TrimSpace(m[3]+m[4]))
		return say, true, ok
	}
	if m := setSaid.FindStringSubmatch(q); m != nil {
		say, ok = u.set(m[2], strings.ToLower(m[1]), m[3])
		return say, true, ok
	}
	if m := markSaid.FindStringSubmatch(q); m != nil {
		say, ok = u.set(m[1], "status", m[2])
		return say, true, ok
	}
	if m := linkSaid.FindStringSubmatch(q); m != nil {
		say, ok = u.link(m[1], m[2])
		return say, true, ok
	}
	if m := moveSaid.FindStringSubmatch(q); m != nil {
		say, ok = u.move(m[1], m[2])
		return say, true, ok
	}
	if m := deleteSaid.FindStringSubmatch(q); m != nil {
		say, ok = u.remove(m[1])
		return say, true, ok
	}
	return "", false, true
}

// declined reports whether a failed call was not made because somebody, or a rule, said no.
func declined(text string) bool {
	low := strings.ToLower(text)
	return strings.Contains(low, "declin") || strings.Contains(low, "denied") || strings.Contains(low, "not allow") || strings.Contains(low, "refus")
}

// made says what became of a proposed change.
func made(r Result, what string) string {
	if !r.Failed {
		return what + " " + firstLine(r.Output)
	}
	text := firstLine(r.Output)
	if strings.Contains(text, "call is not allowed") { // by a rule, or the session: nobody was asked
		return "That is not possible here, so nothing was changed. (" + text + ")"
	}
	if declined(text) {
		return "You said no, so nothing was changed. (" + text + ")"
	}
	return "Nothing was changed: " + text
}

func (u *turn) create(word, title, text string) (string, bool) {
	title = strings.Trim(strings.TrimSpace(title), `"'.`)
	place := places[word]
	if text == "" {
		return fmt.Sprintf("What shall it say? Say “create a %s called %s: …” with the text behind the colon.", word, title), true
	}
	name := slug(title)
	if name == "" {
		return "I cannot make a file's name of that title. Give it one with letters.", true
	}
	found, ok := u.one("lake_search", map[string]any{"query": title, "limit": 5})
	if !ok {
		return "", false
	}
	for _, e := range entities(found.Output) {
		if slug(e.title) == name {
			return fmt.Sprintf("There is a page of that title already: %s (`%s`). I can add to it: say “add to %s: …”.", e.title, e.path, e.title), true
		}
	}
	day := u.Now.Format(time.DateOnly)
	switch place.kind {
	case "meeting", "incident":
		name = day + "-" + name
	case "decision":
		list, ok := u.one("lake_list", map[string]any{"kind": "decision", "limit": 100})
		if !ok {
			return "", false
		}
		next := 1
		for _, e := range entities(list.Output) {
			n := 0
			if _, err := fmt.Sscanf(e.path[strings.LastIndexByte(e.path, '/')+1:], "%04d-", &n); err == nil {
				next = max(next, n+1)
			}
		}
		name, title = fmt.Sprintf("%04d-%s", next, name), fmt.Sprintf("%04d %s", next, title)
	}
	path := place.folder + "/" + name + ".md"
	content := fmt.Sprintf("---\ntitle: %s\nkind: %s\ncreated: %s\nupdated: %s\nstatus: draft\n---\n# %s\n\n%s\n", yamlText(title), place.kind, day, day, title, upper(text))
	u.note = fmt.Sprintf("I propose a new page, `%s`.", path)
	r, ok := u.one("lake_create", map[string]any{"path": path, "content": content, "reason": "Add " + title})
	if !ok {
		return "", false
	}
	return made(r, fmt.Sprintf("The page `%s` is there.", path)) + unlinked(r, path), true
}

func unlinked(r Result, path string) string {
	if r.Failed {
		return ""
	}
	return fmt.Sprintf(" Nothing links to it yet: say “link … to %s”.", path)
}

// yamlText is a value of front matter.
func yamlText(s string) string {
	if strings.ContainsAny(s, ":#[]{}\"'&*!|>%@`") || s != strings.TrimSpace(s) {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	return s
}

func upper(s string) string {
	for i, r := range s {
		return string(unicode.ToUpper(r)) + s[i+len(string(r)):]
	}
	return s
}

// slug is a title as the name of a file.
func slug(title string) string {
	var b strings.Builder
	for _, r := range folded(title) {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-")
}

func (u *turn) replace(phrase, old, now string) (string, bool) {
	e, why, ok := u.which(phrase)
	if !ok || why != "" {
		return why, ok
	}
	u.note = fmt.Sprintf("I propose a change of `%s`.", e.path)
	r, ok := u.one("lake_update", map[string]any{"path": e.path, "old_string": old, "new_string": now, "reason": fmt.Sprintf("Change %q to %q", short(old), short(now))})
	if !ok {
		return "", false
	}
	return made(r, "Done."), true
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return s
}

func (u *turn) append(phrase, text string) (string, bool) {
	e, why, ok := u.which(phrase)
	if !ok || why != "" {
		return why, ok
	}
	if strings.Contains(e.body, "\n(Lines ") || e.version == "" {
		return fmt.Sprintf("`%s` is too long for me to change as a whole.", e.path), true
	}
	content := strings.TrimRight(e.body, "\n") + "\n\n" + upper(strings.TrimSpace(text)) + "\n"
	r, ok := u.one("lake_update", map[string]any{"path": e.path, "content": content, "version": e.version, "reason": "Add: " + short(text)})
	if !ok {
		return "", false
	}
	return made(r, "Done."), true
}

func (u *turn) set(phrase, field, value string) (string, bool) {
	e, why, ok := u.which(phrase)
	if !ok || why != "" {
		return why, ok
	}
	r, ok := u.one("lake_update", map[string]any{"path": e.path, "front": map[string]any{field: value, "updated": u.Now.Format(time.DateOnly)}, "reason": fmt.Sprintf("The %s of %s is %s", field, e.title, value)})
	if !ok {
		return "", false
	}
	return made(r, fmt.Sprintf("The %s of %s (`%s`) is %s.", field, e.title, e.path, value)), true
}

func (u *turn) link(from, to string) (string, bool) {
	a, why, ok := u.which(from)
	if !ok || why != "" {
		return why, ok
	}
	b, why, ok := u.which(to)
	if !ok || why != "" {
		return why, ok
	}
	r, ok := u.one("lake_link", map[string]any{"path": a.path, "to": b.path, "reason": fmt.Sprintf("Link %s to %s", a.title, b.title)})
	if !ok {
		return "", false
	}
	return made(r, "Done."), true
}

func (u *turn) move(phrase, to string) (string, bool) {
	e, why, ok := u.which(phrase)
	if !ok || why != "" {
		return why, ok
	}
	to = strings.Trim(to, "`\"'")
	base := e.path[strings.LastIndexByte(e.path, '/')+1:]
	switch {
	case strings.HasSuffix(to, "/"):
		to += base
	case !strings.HasSuffix(to, ".md") && strings.Contains(to, "/"):
		to += "/" + base
	case !strings.HasSuffix(to, ".md"):
		to = strings.TrimSuffix(e.path, base) + slug(to) + ".md"
	}
	r, ok := u.one("lake_move", map[string]any{"path": e.path, "to": to, "reason": fmt.Sprintf("Move %s to %s", e.title, to)})
	if !ok {
		return "", false
	}
	return made(r, "Done."), true
}

func (u *turn) remove(phrase string) (string, bool) {
	e, why, ok := u.which(phrase)
	if !ok || why != "" {
		return why, ok
	}
	back, ok := u.one("lake_backlinks", map[string]any{"path": e.path, "limit": 100})
	if !ok {
		return "", false
	}
	n := len(linkLine.FindAllStringSubmatch(back.Output, -1))
	r, ok := u.one("lake_delete", map[string]any{"path": e.path, "reason": "Delete " + e.title})
	if !ok {
		return "", false
	}
	say := made(r, "Done.")
	if !r.Failed && n > 0 {
		say += fmt.Sprintf(" %s led to it and lead nowhere now.", count(n, "link"))
	}
	return say, true
}
