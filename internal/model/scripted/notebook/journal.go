package notebook

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	aJournal = pattern.New(`(?i)\b(?:journal|diary)\b`)
	dayFile  = pattern.New(`^\d{4}-\d\d-\d\d$`)
)

// isJournal reports whether somebody means entries of the journal.
func (u *turn) isJournal(said string) bool { return aJournal.MatchString(said) }

// entriesOf are the files of the journal: those whose names are days, the latest first.
func (u *turn) journalFiles() (list []string, ok bool) {
	n, ok := u.files()
	if !ok {
		return nil, false
	}
	all := n.list
	if !n.all { // those of this year and the last
		found, ok := u.do(glob("**/"+u.Now.Format("2006")+"-??-??.md"), glob("**/"+u.Now.AddDate(-1, 0, 0).Format("2006")+"-??-??.md"))
		if !ok {
			return nil, false
		}
		all = slices.Concat(listing(found[0]).list, listing(found[1]).list)
	}
	for _, f := range all {
		if dayFile.MatchString(base(f)) && ends(f, ".md") {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(base(b), base(a)) })
	return list, true
}

// days shows the journal of a day, or sums up some days.
func (u *turn) days(m []string) (string, bool) {
	said := strings.TrimSpace(strings.Join(m[1:], " "))
	u.note = "I read your journal."
	if from, to, name, is := u.span(said); is {
		return u.journalOf(from, to, name)
	}
	files, ok := u.journalFiles()
	if !ok {
		return "", false
	}
	day, is := u.day(said)
	if !is {
		if !u.isJournal(said) && !pattern.New(`(?i)^(?:last|latest|newest|most recent|last entry|my last)`).MatchString(said) {
			return "", true // it is about something else than days
		}
		if len(files) == 0 {
			return "I found no journal: no note whose name is a day.", true
		}
		day = base(files[0])
	}
	for _, f := range files {
		if base(f) != day {
			continue
		}
		list, ok := u.read(f)
		if !ok {
			return "", false
		}
		return fmt.Sprintf("`%s`\n\n%s", f, list[0].shown()), true
	}
	say := "There is no entry for " + day + " in your journal."
	if len(files) > 0 {
		say += fmt.Sprintf(" The latest one is `%s`.", files[0])
	}
	return say, true
}

// journalOf sums up the journal of some days.
func (u *turn) journalOf(from, to, name string) (string, bool) {
	u.note = "I read your journal."
	files, ok := u.journalFiles()
	if !ok {
		return "", false
	}
	files = slices.DeleteFunc(files, func(f string) bool { return base(f) < from || base(f) > to })
	if len(files) == 0 {
		return "There is nothing of " + name + " in your journal.", true
	}
	list, ok := u.read(files[:min(len(files), 31)]...)
	if !ok {
		return "", false
	}
	var out []string
	for _, t := range list {
		o := t.outline()
		var said []string
		for _, p := range o.parts {
			for _, l := range p.lines {
				said = append(said, clipped(sentences(unmarked(l), 3), 260))
			}
		}
		out = append(out, fmt.Sprintf("**%s** (`%s`): %s", o.title, t.file, clipped(strings.Join(said, " "), 420)))
	}
	return fmt.Sprintf("Your journal of %s:\n\n%s", name, bullets(out)), true
}

// styles are how the headings of days may be written.
var styles = []string{
	"Monday 2 January 2006", "Monday, 2 January 2006", "Monday, January 2, 2006", "2 January 2006", "January 2, 2006", time.DateOnly, "Monday, 2006-01-02", "Mon 2 Jan 2006", "Monday 2 January", "02.01.2006", "2.1.2006",
}

// journal writes into the journal of today.
func (u *turn) journal(m []string) (string, bool) {
	said := capital(strings.TrimSpace(strings.Trim(m[1], `"`)))
	if said == "" {
		return "", true
	}
	u.note = "I look at your journal."
	files, ok := u.journalFiles()
	if !ok {
		return "", false
	}
	today := u.Now.Format(time.DateOnly)
	in, style := "Journal", "Monday 2 January 2006"
	if len(files) > 0 {
		in = folder(files[0])
		list, ok := u.read(files[0])
		if !ok {
			return "", false
		}
		t := list[0]
		if base(files[0]) == today {
			return u.append(t, []string{said}, "I wrote it into your journal of today.")
		}
		for _, s := range styles {
			if _, err := time.Parse(s, t.outline().title); err == nil {
				style = s
				break
			}
		}
	}
	file := strings.TrimPrefix(in+"/"+today+".md", "/")
	return u.write(file, "# "+u.Now.Format(style)+"\n\n"+said+"\n", "")
}

// append adds paragraphs at the end of a text.
func (u *turn) append(t text, paragraphs []string, what string) (string, bool) {
	switch {
	case t.wrong != "":
		return fmt.Sprintf("I could not read `%s`: %s", t.file, t.wrong), true
	case !t.whole:
		return fmt.Sprintf("`%s` is too long for me to change safely.", t.file), true
	}
	end := len(t.lines)
	for end > 0 && strings.TrimSpace(t.lines[end-1]) == "" {
		end--
	}
	var lines []string
	for _, p := range paragraphs {
		lines = append(lines, "")
		lines = append(lines, strings.Split(p, "\n")...)
	}
	if end == 0 {
		return u.changed(what, t.file, hunk{before: t.lines, after: lines[1:]})
	}
	return u.changed(what, t.file, hunkAt(t.lines, end-1, end, append([]string{t.lines[end-1]}, lines...)))
}
