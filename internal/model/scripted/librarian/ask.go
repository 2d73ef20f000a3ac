package librarian

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// The functions here are for requests of one kind each. mine says that a request is of that kind; ok is as that of do.

var (
	wrongAsked = pattern.New(`(?i)\b(?:what(?:'s| is) (?:wrong|broken)|broken links?|validate|faults|problems? (?:in|with)|check (?:the lake|all links)|missing front matter)\b`)
	tidyAsked  = pattern.New(`(?i)^(?:(?:which|what|are there|show|list|find|any|is|are)(?: me)?(?: any| the| all)*(?: pages)?(?: are| is)? ?)?(?:orphans?|orphan pages|orphaned(?: pages)?|stale(?: pages)?|out of date|outdated(?: pages)?|duplicates?|contradictions?)$`)
	faultLine  = pattern.New(`(?m)^(\S.*\.md):(\d+) · (\S+) · (.+)$`)
	inFolder   = pattern.New(`(?i)\bin ([a-z]+(?:/[a-z-]+)*/?)$`)
)

func (u *turn) wrong(q string) (string, bool, bool) {
	if tidyAsked.MatchString(q) {
		return "Orphans, stale pages, duplicates and contradictions are looked for by Tachikoma, which proposes what to do about them: have it run, or see what it proposes, on the page of the lake.", true, true
	}
	if !wrongAsked.MatchString(q) {
		return "", false, true
	}
	in := map[string]any{"limit": 100}
	where := "the lake"
	if m := inFolder.FindStringSubmatch(q); m != nil && !strings.EqualFold(m[1], "lake") && m[1] != "the" {
		where = strings.TrimSuffix(m[1], "/")
		in["paths"] = []any{where}
	}
	r, ok := u.one("lake_validate", in)
	if !ok {
		return "", true, false
	}
	list := faultLine.FindAllStringSubmatch(r.Output, -1)
	if r.Failed || len(list) == 0 {
		if r.Failed {
			return "I could not check it: " + firstLine(r.Output), true, true
		}
		return "Nothing is wrong in " + where + ": all links lead somewhere, and all front matter can be read.", true, true
	}
	var out []string
	for _, m := range list[:min(len(list), 15)] {
		out = append(out, fmt.Sprintf("- `%s`, line %s: %s", m[1], m[2], m[4]))
	}
	more := ""
	if n := len(list) - len(out); n > 0 {
		more = fmt.Sprintf("\n\nThere are %d more.", n)
	}
	return fmt.Sprintf("I found %s in %s:\n\n%s%s", count(len(list), "fault"), where, strings.Join(out, "\n"), more), true, true
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

var (
	linksAsked = pattern.New(`(?i)^(?:what|which pages?|who|show what)\s+(?:else )?(?:links?|points?|refers?)\s+to\s+(.+)$|^(?:show |list )?(?:the )?backlinks? (?:of|to|for)\s+(.+)$|^where is (.+) (?:mentioned|linked|used)$`)
	linkLine   = pattern.New(`(?m)^(\S.*\.md):(\d+) · (.*?) · (.*)$`)
)

func (u *turn) linksTo(q string) (string, bool, bool) {
	m := linksAsked.FindStringSubmatch(q)
	if m == nil {
		return "", false, true
	}
	e, why, ok := u.which(m[1] + m[2] + m[3])
	if !ok || why != "" {
		return why, true, ok
	}
	r, ok := u.one("lake_backlinks", map[string]any{"path": e.path, "limit": 100})
	if !ok {
		return "", true, false
	}
	list := linkLine.FindAllStringSubmatch(r.Output, -1)
	if len(list) == 0 {
		return fmt.Sprintf("Nothing links to %s (`%s`).", e.title, e.path), true, true
	}
	var out []string
	for _, l := range list[:min(len(list), 20)] {
		out = append(out, fmt.Sprintf("- %s (`%s`, line %s): %s", l[3], l[1], l[2], plain(l[4])))
	}
	return fmt.Sprintf("%s link to %s (`%s`):\n\n%s", count(len(list), "line"), e.title, e.path, strings.Join(out, "\n")), true, true
}

var (
	historyAsked = pattern.New(`(?i)^(?:show |what is )?(?:the )?history (?:of|for)\s+(.+)$|^who (?:wrote|changed|edited|created|made|last changed|last edited|has changed) (.+?)(?:,? and when| last)?$|^when was (.+?) (?:last )?(?:changed|edited|updated|written|created|made)(?: last)?$|^(?:how old|how new) is (.+)$`)
	commitLine   = pattern.New(`(?m)^([0-9a-f]{40}) · (\S+ \S+) · (.*?) · (.*)$`)
)

func (u *turn) historyOf(q string) (string, bool, bool) {
	m := historyAsked.FindStringSubmatch(q)
	if m == nil {
		return "", false, true
	}
	e, why, ok := u.which(m[1] + m[2] + m[3] + m[4])
	if !ok || why != "" {
		return why, true, ok
	}
	r, ok := u.one("lake_history", map[string]any{"path": e.path, "limit": 20})
	if !ok {
		return "", true, false
	}
	list := commitLine.FindAllStringSubmatch(r.Output, -1)
	if len(list) == 0 {
		return fmt.Sprintf("`%s` was never committed.", e.path), true, true
	}
	var out []string
	for _, c := range list {
		out = append(out, fmt.Sprintf("- %s, %s: %s", c[2][:10], c[3], c[4]))
	}
	first, last := list[len(list)-1], list[0]
	return fmt.Sprintf("%s (`%s`) was written by %s on %s, and last changed by %s on %s. The whole history:\n\n%s", e.title, e.path, first[3], first[2][:10], last[3], last[2][:10], strings.Join(out, "\n")), true, true
}

var changedAsked = pattern.New(`(?i)^what (?:has |was )?(?:changed|the last change) (?:in|on|of|to) (.+?)(?: last)?$|^(?:show |what is )?(?:the )?(?:last )?(?:diff|change) (?:of|in|to) (.+)$`)

func (u *turn) changed(q string) (string, bool, bool) {
	m := changedAsked.FindStringSubmatch(q)
	if m == nil {
		return "", false, true
	}
	e, why, ok := u.which(m[1] + m[2])
	if !ok || why != "" {
		return why, true, ok
	}
	h, ok := u.one("lake_history", map[string]any{"path": e.path, "limit": 20})
	if !ok {
		return "", true, false
	}
	list := commitLine.FindAllStringSubmatch(h.Output, -1)
	if len(list) == 0 {
		return fmt.Sprintf("`%s` was never committed.", e.path), true, true
	}
	d, ok := u.one("lake_diff", map[string]any{"path": e.path, "to": list[0][1]})
	if !ok {
		return "", true, false
	}
	return fmt.Sprintf("The last change of `%s` was made by %s on %s: %s\n\n```diff\n%s\n```", e.path, list[0][3], list[0][2][:10], list[0][4], strings.TrimSpace(d.Output)), true, true
}

var (
	oncallAsked = pattern.New(`(?i)\bon[- ]call\b`)
	soon        = pattern.New(`(?i)\b(?:this|next|now|today|tonight|currently|last) ?(?:week)?\b|^who is on[- ]call\b`)
	weeksIn     = pattern.New(`(?i)Even weeks: (.+?)\. Odd weeks: (.+?)\.`)
	thirdIn     = pattern.New(`(?i)If neither[^.]*\.`)
)

// oncall computes whose week it is, by what a page says of even and odd ones.
func (u *turn) oncall(q string) (string, bool, bool) {
	more := len(u.Earlier) > 0 && len(wordsOf(q)) <= 3 && oncallAsked.MatchString(u.Earlier[len(u.Earlier)-1].Question)
	if !oncallAsked.MatchString(q) && !more || !soon.MatchString(q) {
		return "", false, true
	}
	r, ok := u.one("lake_search", map[string]any{"query": "on call even weeks odd weeks", "limit": 5})
	if !ok {
		return "", true, false
	}
	var calls []Call
	for _, e := range entities(r.Output) {
		calls = append(calls, Call{Tool: "lake_read", Input: map[string]any{"path": e.path}})
	}
	read, ok := u.do(calls...)
	if !ok {
		return "", true, false
	}
	for _, r := range read {
		e, ok := readEntity(r)
		text := strings.Join(lines(e.body), " ")
		m := weeksIn.FindStringSubmatch(text)
		if !ok || m == nil {
			continue
		}
		day, when := u.Now, "this week"
		if strings.Contains(strings.ToLower(q), "next week") {
			day, when = day.AddDate(0, 0, 7), "next week"
		}
		_, week := day.ISOWeek()
		parity := week % 2
		say := fmt.Sprintf("%s is on call %s, which is week %d (`%s`: “%s”).", m[1+parity], when, week, e.path, m[0])
		if third := thirdIn.FindString(text); third != "" {
			say += " " + third
		}
		return say, true, true
	}
	return "", false, true // a question like others
}

var (
	contractsAsked = pattern.New(`(?i)\bcontracts?\b.*\b(?:end|ends|ending|expire|expires|run out|renew|renewed|due)\b|\b(?:end|ending|expiring) contracts?\b`)
	untilIn        = pattern.New(`(?i)contract until (\d{4}-\d\d-\d\d)`)
)

// contracts lists when contracts end.
func (u *turn) contracts(q string) (string, bool, bool) {
	if !contractsAsked.MatchString(q) || strings.Contains(strings.ToLower(q), " of ") {
		return "", false, true
	}
	pages, ok := u.allOf("customer")
	if !ok {
		return "", true, false
	}
	limit, what := u.Now.AddDate(0, 6, 0), "in the next six months"
	if strings.Contains(strings.ToLower(q), "this year") {
		limit, what = time.Date(u.Now.Year(), 12, 31, 23, 0, 0, 0, time.UTC), "this year"
	}
	type end struct{ day, line string }
	var list []end
	for _, e := range pages {
		m := untilIn.FindStringSubmatch(strings.Join(lines(e.body), " "))
		if m == nil {
			continue
		}
		if at, err := time.Parse(time.DateOnly, m[1]); err == nil && at.Before(limit) && !at.Before(u.Now.AddDate(0, 0, -1)) {
			list = append(list, end{m[1], fmt.Sprintf("- %s: %s (`%s`)", m[1], e.title, e.path)})
		}
	}
	slices.SortFunc(list, func(a, b end) int { return strings.Compare(a.line, b.line) })
	if len(list) == 0 {
		return fmt.Sprintf("No contract ends %s, of the %s that I read.", what, count(len(pages), "customer")), true, true
	}
	var out []string
	for _, e := range list {
		out = append(out, e.line)
	}
	return fmt.Sprintf("%s end %s:\n\n%s", count(len(list), "contract"), what, strings.Join(out, "\n")), true, true
}

// allOf reads all entities of a kind.
func (u *turn) allOf(kind string) (pages []entity, ok bool) {
	r, ok := u.one("lake_list", map[string]any{"kind": kind, "limit": 100})
	if !ok {
		return nil, false
	}
	var calls []Call
	for _, e := range entities(r.Output) {
		calls = append(calls, Call{Tool: "lake_read", Input: map[string]any{"path": e.path}})
	}
	read, ok := u.do(calls...)
	if !ok {
		return nil, false
	}
	for _, r := range read {
		if e, ok := readEntity(r); ok {
			pages = append(pages, e)
		}
	}
	return pages, true
}

var (
	todosAsked = pattern.New(`(?i)\b(?:to-?dos?|open (?:tasks?|actions?|items?)|action items?|what (?:is|are) (?:still )?(?:open|to do)|what (?:does|must|should|has) (\w+) (?:have )?to do)\b`)
	grepLine   = pattern.New(`(?m)^(.+?\.md):(\d+):\s*- \[ \] (.+)$`)
	ofWhom     = pattern.New(`(?i)\b(?:of|for|does|must|should|has) ([A-Z]\p{L}+)\b`)
)

// todos finds open items by an exact pattern, which is a matter for the direct tools.
func (u *turn) todos(q string) (string, bool, bool) {
	if !todosAsked.MatchString(q) {
		return "", false, true
	}
	r, ok := u.one("Grep", map[string]any{"pattern": `^- \[ \] `, "glob": "*.md", "output_mode": "content", "-n": true})
	if !ok {
		return "", true, false
	}
	who := ""
	if m := ofWhom.FindStringSubmatch(q); m != nil {
		who = m[1]
	}
	var out []string
	for _, m := range grepLine.FindAllStringSubmatch(r.Output, -1) {
		if text := plain(m[3]); (who == "" || strings.Contains(folded(text), folded(who))) && !strings.HasPrefix(text, "NAME") {
			out = append(out, fmt.Sprintf("- %s (`%s`)", text, m[1]))
		}
	}
	whose := ""
	if who != "" {
		whose = " for " + who
	}
	if len(out) == 0 {
		return "I found nothing open" + whose + " in the meetings.", true, true
	}
	return fmt.Sprintf("%s%s open%s:\n\n%s", count(len(out), "item"), isAre(len(out)), whose, strings.Join(out, "\n")), true, true
}

func isAre(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}
