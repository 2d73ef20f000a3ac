package notebook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	item    = pattern.New(`^(\s*)([-*+]|\d+[.)])( \[([ xX])\])? +(.*)$`)
	head    = pattern.New(`^(#{1,6})\s+(.*?)\s*#*\s*$`)
	commas  = pattern.New(`(?i)\s*,\s*(?:and\s+)?|\s+(?:and|und|&|plus)\s+`)
	article = pattern.New(`(?i)^(?:some|the|a|an|more|another|also|two more)\s+`)
)

// entry is an item of a list.
type entry struct {
	line    int // in the file, from 0
	box     bool
	done    bool
	text    string
	section string // the heading above it
}

// entries are the items of a text.
func (t text) entries() (list []entry) {
	section := ""
	for i, l := range t.lines {
		if m := head.FindStringSubmatch(l); m != nil {
			section = m[2]
			continue
		}
		if m := item.FindStringSubmatch(l); m != nil {
			list = append(list, entry{i, m[3] != "", m[4] == "x" || m[4] == "X", strings.TrimSpace(m[5]), section})
		}
	}
	return list
}

// called finds the items that somebody means.
func called(list []entry, said string) (found []entry) {
	said = article.ReplaceAllString(strings.TrimSpace(said), "")
	words := wordsOf(said)
	for _, exact := range []bool{true, false} {
		for _, e := range list {
			own := wordsOf(e.text)
			hit := 0
			for _, w := range words {
				if has(own, w) {
					hit++
				}
			}
			if hit == len(words) && hit > 0 && (!exact || len(own) == hit) {
				found = append(found, e)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// things are those that a request lists.
func things(said string) (list []string) {
	for _, s := range commas.Split(said, -1) {
		s = strings.Trim(article.ReplaceAllString(strings.TrimSpace(s), ""), `"'.,;`)
		if s != "" {
			list = append(list, capital(s))
		}
	}
	return list
}

// isList reports whether somebody means a list, rather than any note.
var isList = pattern.New(`(?i)\blist\b`)

// theList finds the list of a request: the one that it names, or the one of the last answer, or the
// one for shopping.
func (u *turn) theList(said string) (file, section, ask string, ok bool) {
	if m := pattern.New(`(?i)^(.*?),? (?:under|in the section|into the section|section) ` + own + `(.+)$`).FindStringSubmatch(said); m != nil {
		said, section = m[1], m[2]
	}
	if said == "" || itself.MatchString(said) {
		for _, f := range u.mentioned() {
			if ends(f, ".md") {
				return f, section, "", true
			}
		}
		said = "shopping list"
	}
	// It may be a section of the list that was spoken of.
	if files, _ := changesIn(u.last()); len(files) == 1 && section == "" && !isList.MatchString(said) && said != files[0] {
		list, ok := u.read(files[0])
		if !ok {
			return "", "", "", false
		}
		if section := list[0].section(said); section != "" {
			return files[0], section, "", true
		}
	}
	file, ask, ok = u.oneNote(said, noteFile)
	return file, section, ask, ok
}

// section is the heading of a text that somebody means.
func (t text) section(said string) string {
	words := wordsOf(filler.ReplaceAllString(said, " "))
	for _, l := range t.lines {
		if m := head.FindStringSubmatch(l); m != nil && len(words) > 0 {
			if own := wordsOf(m[2]); !slices.ContainsFunc(words, func(w string) bool { return !has(own, w) && w != "section" }) {
				return m[2]
			}
		}
	}
	return ""
}

// add adds items to a list.
func (u *turn) add(m []string) (string, bool) {
	u.note = "I look at the list first."
	return u.adding(things(m[1]), m[2])
}

func (u *turn) need(m []string) (string, bool) {
	list := m[2]
	if list == "" {
		if !pattern.New(`(?i)^(?:some |more |a |an |\d)?[\w-]+(?: [\w-]+)?(?:(?:,| and) .*)?$`).MatchString(m[1]) || strings.HasPrefix(strings.ToLower(m[1]), "to ") {
			return "", true
		}
		list = "shopping list"
	}
	u.note = "I look at the list first."
	return u.adding(things(strings.TrimSuffix(m[1], ",")), list)
}

// also adds to the list of the answer before.
func (u *turn) also(m []string) (string, bool) {
	files, _ := changesIn(u.last())
	if len(files) != 1 || len(m[1]) > 60 || asking.MatchString(m[1]) || verb.MatchString(m[1]) {
		return "", true
	}
	return u.adding(things(m[1]), files[0])
}

// task adds one item, as it was written.
func (u *turn) task(m []string) (string, bool) {
	u.note = "I read the note first."
	in := m[1]
	if in == "" {
		in = "it"
		if list := u.mentioned(); len(list) == 0 {
			in = "inbox"
		}
	}
	return u.adding([]string{capital(strings.TrimSpace(m[2]))}, in)
}

func (u *turn) adding(items []string, said string) (string, bool) {
	if len(items) == 0 {
		return "", true
	}
	file, section, ask, ok := u.theList(said)
	if !ok || ask != "" {
		return ask, ok
	}
	list, ok := u.read(file)
	if !ok {
		return "", false
	}
	t := list[0]
	switch {
	case t.wrong != "":
		return fmt.Sprintf("I could not read `%s`: %s", file, t.wrong), true
	case !t.whole:
		return fmt.Sprintf("`%s` is too long for me to change safely.", file), true
	}
	if section != "" {
		if section = t.section(section); section == "" {
			return fmt.Sprintf("`%s` has no such section.", file), true
		}
	}
	var fresh, there []string
	for _, it := range items {
		found := slices.DeleteFunc(called(t.entries(), it), func(e entry) bool {
			return e.done || len(wordsOf(e.text)) != len(wordsOf(it)) && !strings.HasPrefix(strings.ToLower(e.text), strings.ToLower(it)+",")
		})
		if len(found) > 0 {
			there = append(there, found[0].text)
			continue
		}
		fresh = append(fresh, it)
	}
	already := ""
	if len(there) > 0 {
		already = fmt.Sprintf("%s %s already on `%s`.", strings.Join(there, ", "), map[bool]string{true: "is", false: "are"}[len(there) == 1], file)
	}
	if len(fresh) == 0 {
		return already, true
	}
	say, ok := u.changed(fmt.Sprintf("I added %s.", enumerated(fresh)), file, t.insert(fresh, section))
	if already != "" {
		say += "\n\n" + already
	}
	return say, ok
}

// insert is the change that adds items to a text: after the last item of a section, or of the first
// section with open tasks, or with items; else at the end.
func (t text) insert(items []string, section string) hunk {
	all := t.entries()
	within := func(may func(entry) bool) (last int, like string) {
		last = -1
		first := ""
		for _, e := range all {
			if !may(e) || last >= 0 && e.section != first {
				continue
			}
			first, last = e.section, e.line
			m := item.FindStringSubmatch(t.lines[e.line])
			like = m[1] + m[2] + " "
			if m[3] != "" {
				like = m[1] + m[2] + " [ ] "
			}
		}
		return last, like
	}
	at, like := within(func(e entry) bool { return (section == "" || e.section == section) && e.box })
	if at < 0 {
		at, like = within(func(e entry) bool { return section == "" || e.section == section })
	}
	if at < 0 {
		at, like = len(t.lines)-1, "- "
		for i, l := range t.lines {
			if m := head.FindStringSubmatch(l); section != "" && m != nil && m[2] == section {
				at = i
			}
		}
	}
	if m := pattern.New(`^(\s*)(\d+)([.)]) $`).FindStringSubmatch(like); m != nil {
		like = m[1] + "- "
	}
	var lines []string
	for at >= 0 && len(lines) == 0 && strings.TrimSpace(t.lines[at]) == "" && at > 0 {
		at--
	}
	if len(all) == 0 && at >= 0 && head.MatchString(t.lines[at]) {
		lines = append(lines, "")
	}
	for _, it := range items {
		lines = append(lines, like+it)
	}
	if at < 0 {
		return hunk{before: []string{""}, after: lines}
	}
	return hunkAt(t.lines, at, at+1, append([]string{t.lines[at]}, lines...))
}

func enumerated(list []string) string {
	switch n := len(list); n {
	case 0:
		return "nothing"
	case 1:
		return list[0]
	default:
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	}
}

func (u *turn) bought(m []string) (string, bool) { return u.ticking(m[1], "shopping list", true) }

func (u *turn) tick(m []string) (string, bool) { return u.ticking(m[1], m[2], true) }

func (u *turn) untick(m []string) (string, bool) { return u.ticking(m[1], m[2], false) }

// ticking ticks items off, or makes them open again.
func (u *turn) ticking(what, said string, done bool) (string, bool) {
	u.note = "I look at the list first."
	var file string
	if said == "" { // in the list that was spoken of, or else wherever the item is
		for _, f := range u.mentioned() {
			if !ends(f, ".md") {
				continue
			}
			list, ok := u.read(f)
			if !ok {
				return "", false
			}
			if len(called(list[0].entries(), things(what)[0])) > 0 {
				file = f
			}
			break
		}
		if file == "" {
			r, ok := u.one(Call{Tool: "Grep", Input: map[string]any{"pattern": `^\s*[-*+] \[.\] .*` + escaped(stem(wordsOf(what)[0])), "output_mode": "content", "-i": true, "glob": "*.md"}})
			if !ok {
				return "", false
			}
			var files []string
			for _, h := range hitsOf(r) {
				if m := item.FindStringSubmatch(h.text); m != nil && len(called([]entry{{text: m[5]}}, things(what)[0])) > 0 && !slices.Contains(files, h.file) {
					files = append(files, h.file)
				}
			}
			switch {
			case len(files) == 0:
				return fmt.Sprintf("I found no task or item %q in your notes.", what), true
			case len(files) > 1:
				return fmt.Sprintf("%q is in several notes. Say in which one:\n\n%s", what, bullets(ticked(files[:min(len(files), 6)]))), true
			}
			file = files[0]
		}
	} else {
		f, _, ask, ok := u.theList(said)
		if !ok || ask != "" {
			return ask, ok
		}
		file = f
	}
	list, ok := u.read(file)
	if !ok {
		return "", false
	}
	t := list[0]
	var hunks []hunk
	var changed, missing, was []string
	lines := slices.Clone(t.lines)
	for _, thing := range things(what) {
		found := called(t.entries(), thing)
		i := slices.IndexFunc(found, func(e entry) bool { return e.box && e.done != done })
		switch {
		case len(found) == 0 || !slices.ContainsFunc(found, func(e entry) bool { return e.box }):
			missing = append(missing, thing)
		case i < 0:
			was = append(was, found[0].text)
		default:
			at := found[i].line
			by := strings.Replace(lines[at], "[ ]", "[x]", 1)
			if !done {
				by = pattern.New(`\[[xX]\]`).ReplaceAllString(lines[at], "[ ]")
			}
			hunks = append(hunks, hunkAt(lines, at, at+1, []string{by}))
			lines[at] = by
			changed = append(changed, found[i].text)
		}
	}
	var say []string
	if len(missing) > 0 {
		say = append(say, fmt.Sprintf("%s is not on `%s` as something to tick off.", enumerated(missing), file))
	}
	if len(was) > 0 {
		say = append(say, fmt.Sprintf("%s was %s already.", enumerated(was), map[bool]string{true: "ticked off", false: "open"}[done]))
	}
	if len(changed) == 0 {
		return strings.Join(say, " "), true
	}
	text, ok := u.changed(fmt.Sprintf(map[bool]string{true: "I ticked off %s.", false: "I made %s open again."}[done], enumerated(changed)), file, hunks...)
	return strings.Join(append([]string{text}, say...), "\n\n"), ok
}

// remove takes items off a list.
func (u *turn) remove(m []string) (string, bool) {
	u.note = "I look at the list first."
	file, _, ask, ok := u.theList(m[2])
	if !ok || ask != "" {
		return ask, ok
	}
	list, ok := u.read(file)
	if !ok {
		return "", false
	}
	t := list[0]
	var hunks []hunk
	var gone, missing []string
	for _, thing := range things(m[1]) {
		found := called(t.entries(), thing)
		if len(found) == 0 {
			missing = append(missing, thing)
			continue
		}
		at := found[0].line
		from, keep := at, []string{}
		if at > 0 { // together with the line before, so that no empty line stays
			from, keep = at-1, t.lines[at-1:at]
		}
		hunks = append(hunks, hunkAt(t.lines, from, at+1, keep))
		t.lines = slices.Delete(slices.Clone(t.lines), at, at+1)
		gone = append(gone, found[0].text)
	}
	if len(gone) == 0 {
		return fmt.Sprintf("%s is not on `%s`.", enumerated(missing), file), true
	}
	say, ok := u.changed(fmt.Sprintf("I removed %s.", enumerated(gone)), file, hunks...)
	if len(missing) > 0 {
		say += fmt.Sprintf("\n\n%s was not on it.", enumerated(missing))
	}
	return say, ok
}
