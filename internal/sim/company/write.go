package company

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// page is a page while its history is written.
type page struct {
	path  string
	front []pair
	raw   string // a page without front matter of ours
	body  []string
}

type pair struct{ name, value string }

func (p *page) set(name, value string) {
	for i := range p.front {
		if p.front[i].name == name {
			p.front[i].value = value
			return
		}
	}
	p.front = append(p.front, pair{name, value})
}

// edit is what somebody did to a page on a day.
type edit struct {
	day    time.Time
	who    string // the slug of a person
	reason string
	path   string
	do     func(*page) error
}

// author is a lake that is being written.
type author struct {
	*source
	edits  []edit
	pages  map[string]*page
	titles map[string]string // by slug
}

const dayForm = time.DateOnly

var dayInText = regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b`)

// shifted moves all days of a text by whole weeks.
func shifted(text string, days int) string {
	if days == 0 {
		return text
	}
	return dayInText.ReplaceAllStringFunc(text, func(d string) string {
		t, err := time.Parse(dayForm, d)
		if err != nil {
			return d
		}
		return t.AddDate(0, 0, days).Format(dayForm)
	})
}

// weeks is by how many days the source has to be moved for now.
func weeks(now time.Time) int {
	week := 7 * 24 * time.Hour
	n := now.Sub(Reference) / week
	if now.Before(Reference.Add(n * week)) {
		n--
	}
	return int(n) * 7
}

func write(now time.Time, full bool) (*Lake, error) {
	move := weeks(now)
	src, err := read(move)
	if err != nil {
		return nil, err
	}
	a := &author{source: src, pages: map[string]*page{}, titles: map[string]string{"INDEX": "Index"}}
	for _, e := range src.entries {
		a.titles[e.slug] = e.title
	}
	if full {
		src.entries = append(src.entries, stations(move)...)
	}
	l := &Lake{}
	stale := map[string]string{}
	var planted []plant
	for _, p := range src.plants {
		if !full && !p.demo {
			continue
		}
		if p.kind != "" {
			l.Faults = append(l.Faults, Fault{p.kind, p.path, p.other, p.why})
		} else {
			l.Traps = append(l.Traps, Trap{p.path, p.other, p.why})
		}
		if p.stale != "" {
			stale[p.path] = p.stale
		}
		planted = append(planted, p)
	}
	for _, e := range src.entries {
		if err := a.entry(e, stale[e.path()], move); err != nil {
			return nil, err
		}
	}
	for _, p := range planted {
		if err := a.plant(p); err != nil {
			return nil, err
		}
	}
	a.index(planted, move)
	l.Commits, err = a.commits()
	return l, err
}

// ages are the kinds of pages that are to be looked at once a year.
var ages = map[string]bool{"role": true, "doc": true, "product": true, "customer": true, "project": true, "person": true, "term": true, "page": true}

// entry adds the edits by which a page of the source came to be.
func (a *author) entry(e entry, stale string, move int) error {
	created, err := time.Parse(dayForm, e.created)
	if err != nil {
		return fmt.Errorf("%s: %w", e.slug, err)
	}
	add := func(day time.Time, who, reason string, do func(*page) error) {
		a.edits = append(a.edits, edit{day, who, reason, e.path(), func(p *page) error {
			p.set("updated", day.Format(dayForm))
			return do(p)
		}})
	}
	owner := a.names[e.owner]
	if owner == "" {
		return fmt.Errorf("%s: nobody is called %s", e.slug, e.owner)
	}
	add(created, e.owner, "Add "+e.title, func(p *page) error {
		p.front = []pair{{"title", e.title}, {"kind", e.kind}, {"owner", owner}, {"created", e.created}, {"updated", e.created}}
		if e.status != "" {
			p.set("status", e.status)
		}
		p.set("tags", "["+e.tags+"]")
		p.body = slices.Clone(e.body)
		return nil
	})
	last := created
	for _, l := range e.later {
		day, err := time.Parse(dayForm, l.day)
		if err != nil {
			return fmt.Errorf("%s: %w", e.slug, err)
		}
		add(day, l.who, l.reason, func(p *page) error {
			p.body = append(p.body, l.line)
			return nil
		})
		last = day
	}
	if stale != "" {
		if stale != e.created {
			day, err := time.Parse(dayForm, stale)
			if err != nil {
				return fmt.Errorf("%s: %w", e.slug, err)
			}
			add(day, e.owner, "Checked: still true", func(*page) error { return nil })
		}
		return nil
	}
	over := e.status == "done" || e.status == "lost" || e.status == "closed"
	if ages[e.kind] && !over && last.Before(since(move)) {
		add(checked(e.path(), move), e.owner, "Checked: still true", func(*page) error { return nil })
	}
	return nil
}

func since(move int) time.Time {
	return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, move)
}

// checked is the day on which a page was last looked at, a working day.
func checked(name string, move int) time.Time {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	day := since(move).AddDate(0, 0, int(h.Sum32()%150))
	for day.Weekday() == time.Saturday || day.Weekday() == time.Sunday {
		day = day.AddDate(0, 0, 1)
	}
	return day
}

// plant adds the edits that plant a fault or a trap.
func (a *author) plant(p plant) error {
	if p.day == "" {
		return nil // it is in the source
	}
	day, err := time.Parse(dayForm, p.day)
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	if a.names[p.who] == "" {
		return fmt.Errorf("%s: nobody is called %s", p.path, p.who)
	}
	add := func(path string, do func(*page) error) {
		a.edits = append(a.edits, edit{day, p.who, p.reason, path, do})
	}
	for path, text := range p.files {
		add(path, func(to *page) error { to.raw = text; return nil })
	}
	for path, line := range p.links {
		add(path, func(to *page) error {
			if to.front == nil {
				return fmt.Errorf("%s is not there on %s", path, p.day)
			}
			to.body = append(to.body, line)
			to.set("updated", p.day)
			return nil
		})
	}
	if p.files[p.path] != "" {
		return nil
	}
	add(p.path, func(to *page) error {
		if to.front == nil {
			return fmt.Errorf("%s is not there on %s", p.path, p.day)
		}
		to.set("updated", p.day)
		for _, op := range p.ops {
			switch op.do {
			case "drop":
				to.front = slices.DeleteFunc(to.front, func(f pair) bool { return f.name == op.text })
			case "set":
				name, value, _ := strings.Cut(op.text, ": ")
				to.set(name, value)
			case "front":
				name, value, _ := strings.Cut(op.text, ": ")
				to.front = append(to.front, pair{name, value})
			case "add":
				to.body = append(to.body, op.text)
			case "replace":
				at := slices.IndexFunc(to.body, func(l string) bool { return strings.Contains(l, op.was) })
				if at < 0 {
					return fmt.Errorf("%s has no %q", p.path, op.was)
				}
				to.body[at] = strings.Replace(to.body[at], op.was, op.text, 1)
			}
		}
		return nil
	})
	return nil
}

// index adds the page that names all others, as they were at the beginning of the year and as they are.
func (a *author) index(planted []plant, move int) {
	hidden := map[string]bool{}
	extra := map[string]string{} // titles of pages that were planted, by path
	for _, p := range planted {
		for path, text := range p.files {
			if hidden[path] = p.kind == Orphan; !hidden[path] {
				extra[path] = titleIn(path, text)
			}
		}
	}
	kinds := []struct{ kind, title string }{
		{"role", "Roles"},
		{"doc", "How we do it"},
		{"person", "People"},
		{"product", "Products"},
		{"customer", "Customers"},
		{"project", "Projects"},
		{"decision", "Decisions"},
		{"meeting", "Meetings"},
		{"incident", "Incidents"},
		{"note", "Research"},
		{"term", "Terms"},
		{"station", "Stations"},
	}
	for i, day := range []time.Time{time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)} {
		day = day.AddDate(0, 0, move)
		a.edits = append(a.edits, edit{day, "yara-osei", "Index of all pages", "INDEX.md", func(p *page) error {
			p.front = []pair{
				{"title", "Index"},
				{"kind", "page"},
				{"owner", a.names["yara-osei"]},
				{"created", time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).AddDate(0, 0, move).Format(dayForm)},
				{"updated", day.Format(dayForm)},
				{"status", "active"},
			}
			p.body = nil
			for _, k := range kinds {
				var list []string
				for _, e := range a.entries {
					if e.kind == k.kind && e.created <= day.Format(dayForm) {
						list = append(list, "- [["+e.slug+"]]")
					}
				}
				if list != nil {
					p.body = append(append(p.body, "## "+k.title), list...)
				}
			}
			if i == 1 && len(extra) > 0 {
				p.body = append(p.body, "## New")
				for _, path := range slices.Sorted(maps.Keys(extra)) {
					p.body = append(p.body, "- [["+strings.TrimSuffix(path, ".md")+"|"+extra[path]+"]]")
				}
			}
			return nil
		}})
	}
}

var titleLine = regexp.MustCompile(`(?m)^(?:title: |# )(.+)$`)

func titleIn(path, text string) string {
	if m := titleLine.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return path
}

// commits makes the edits, those of one person on one day together.
func (a *author) commits() ([]Commit, error) {
	slices.SortStableFunc(a.edits, func(x, y edit) int { return cmp.Or(x.day.Compare(y.day), cmp.Compare(x.who, y.who)) })
	var list []Commit
	for i := 0; i < len(a.edits); {
		first := a.edits[i]
		c := Commit{
			At: first.day.Add(9*time.Hour + time.Duration(len(list)%40)*7*time.Minute), Author: a.names[first.who],
			Email: strings.ReplaceAll(first.who, "-", ".") + "@tidemark.example", Reason: first.reason, Files: map[string]string{},
		}
		var reasons []string
		for ; i < len(a.edits) && a.edits[i].day.Equal(first.day) && a.edits[i].who == first.who; i++ {
			e := a.edits[i]
			p := a.pages[e.path]
			if p == nil {
				p = &page{path: e.path}
				a.pages[e.path] = p
			}
			if err := e.do(p); err != nil {
				return nil, err
			}
			c.Files[e.path] = a.text(p)
			if !slices.Contains(reasons, e.reason) {
				reasons = append(reasons, e.reason)
			}
		}
		if len(reasons) > 1 {
			c.Reason = fmt.Sprintf("%s, and %d more\n\n- %s", reasons[0], len(reasons)-1, strings.Join(reasons, "\n- "))
		}
		list = append(list, c)
	}
	return list, nil
}

var wikiLink = regexp.MustCompile(`\[\[([^\]|#]+)\]\]`)

// text is the file of a page.
func (a *author) text(p *page) string {
	if p.raw != "" {
		return p.raw
	}
	var b strings.Builder
	b.WriteString("---\n")
	title := ""
	for _, f := range p.front {
		if f.name == "title" {
			title = f.value
		}
		value := f.value
		if f.name == "title" && strings.Contains(value, ": ") {
			value = `"` + value + `"`
		}
		fmt.Fprintf(&b, "%s: %s\n", f.name, value)
	}
	b.WriteString("---\n# " + title + "\n")
	code, before := false, ""
	for _, l := range p.body {
		if !code && (!listed(l) || !listed(before)) && !strings.HasPrefix(before, "```") || !code && strings.HasPrefix(l, "```") {
			b.WriteString("\n")
		}
		if strings.HasPrefix(l, "```") {
			code = !code
		}
		if !code && !strings.HasPrefix(l, "<!--") && !strings.Contains(l, "`[[") {
			l = wikiLink.ReplaceAllStringFunc(l, func(link string) string {
				slug := link[2 : len(link)-2]
				if title := a.titles[slug]; title != "" {
					return "[[" + slug + "|" + title + "]]"
				}
				return link
			})
		}
		b.WriteString(l + "\n")
		before = l
	}
	return b.String()
}

func listed(line string) bool {
	return strings.HasPrefix(line, "- ") || len(line) > 2 && line[0] >= '0' && line[0] <= '9' && line[1] == '.'
}
