package librarian

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// listed lists the entities with some properties, up to five pages of a hundred.
func (u *turn) listed(filter map[string]any) (list []entity, ok bool) {
	for range 5 {
		in := map[string]any{"limit": 100}
		for k, v := range filter {
			in[k] = v
		}
		if len(list) > 0 {
			in["after"] = list[len(list)-1].path
		}
		r, ok := u.one("lake_list", in)
		if !ok {
			return nil, false
		}
		list = append(list, entities(r.Output)...)
		if !moreIn.MatchString(r.Output) {
			break
		}
	}
	return list, true
}

var moreIn = pattern.New(`(?m)^\(There are more: after=`)

// shownOf is a list of entities for people.
func shownOf(list []entity, with func(e entity) string) string {
	var out []string
	for _, e := range list[:min(len(list), 20)] {
		line := fmt.Sprintf("- %s (`%s`)", e.title, e.path)
		if more := with(e); more != "" {
			line += ", " + more
		}
		out = append(out, line)
	}
	if n := len(list) - len(out); n > 0 {
		out = append(out, fmt.Sprintf("\nThere are %d more.", n))
	}
	return strings.Join(out, "\n")
}

var (
	tagAdded   = pattern.New(`(?i)^(?:add|put|give) (?:the )?tags? "?#?([\p{L}\d][\p{L}\d-]*)"? (?:to|on) (.+)$|^tag (.+?) (?:with|as) "?#?([\p{L}\d][\p{L}\d-]*)"?$`)
	tagRemoved = pattern.New(`(?i)^(?:remove|delete|take|drop) (?:the )?tags? "?#?([\p{L}\d][\p{L}\d-]*)"? (?:from|off) (.+)$|^untag (.+?) (?:from|as) "?#?([\p{L}\d][\p{L}\d-]*)"?$`)
	tagsOf     = pattern.New(`(?i)^(?:which|what) tags (?:does|do|has|have) (.+?)(?: have| has)?$|^(?:the )?tags (?:of|on) (.+)$`)
	tagsAll    = pattern.New(`(?i)^(?:(?:which|what|list|show)(?: me)?(?: all| the| are the)* tags(?: (?:are there|do we (?:have|use)|exist|are used|in the lake))?|tags)$`)
	tagged     = pattern.New(`(?i)^(?:list|show|find|which|what)?(?: me)?(?: all| the)*\s*(?:pages?|notes?|entities|entity|documents?)?(?: are| is)? ?(?:tagged|with (?:the )?tags?|that have the tag)(?: with| as)? "?#?([\p{L}\d][\p{L}\d-]*)"?$`)
)

// tags reads and changes what tags pages have.
func (u *turn) tags(q string) (string, bool, bool) {
	if m := tagged.FindStringSubmatch(q); m != nil {
		list, ok := u.listed(map[string]any{"tag": m[1]})
		if !ok {
			return "", true, false
		}
		if len(list) == 0 {
			return "No page has the tag " + m[1] + ".", true, true
		}
		return fmt.Sprintf("%s with the tag %s:\n\n%s", count(len(list), "page"), m[1], shownOf(list, func(e entity) string { return e.status })), true, true
	}
	if tagsAll.MatchString(q) {
		list, ok := u.listed(nil)
		if !ok {
			return "", true, false
		}
		uses := map[string]int{}
		var names []string
		for _, e := range list {
			for _, t := range e.tags {
				if uses[t]++; uses[t] == 1 {
					names = append(names, t)
				}
			}
		}
		if len(names) == 0 {
			return "No page has a tag.", true, true
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(uses[b], uses[a]), cmp.Compare(a, b)) })
		for i, n := range names {
			names[i] = fmt.Sprintf("%s (%d)", n, uses[n])
		}
		return fmt.Sprintf("%s, with the number of their pages: %s.", upper(count(len(names), "tag")), strings.Join(names[:min(len(names), 60)], ", ")), true, true
	}
	phrase, tag, adds := "", "", true
	if m := tagAdded.FindStringSubmatch(q); m != nil {
		phrase, tag = m[2]+m[3], m[1]+m[4]
	} else if m := tagRemoved.FindStringSubmatch(q); m != nil {
		phrase, tag, adds = m[2]+m[3], m[1]+m[4], false
	} else if m := tagsOf.FindStringSubmatch(q); m != nil {
		phrase = m[1] + m[2]
	} else {
		return "", false, true
	}
	e, why, ok := u.which(phrase)
	if !ok || why != "" {
		return why, true, ok
	}
	has := slices.Contains(e.tags, tag)
	switch {
	case tag == "" && len(e.tags) == 0:
		return fmt.Sprintf("%s (`%s`) has no tags.", e.title, e.path), true, true
	case tag == "":
		return fmt.Sprintf("%s (`%s`) has %s: %s.", e.title, e.path, count(len(e.tags), "tag"), strings.Join(e.tags, ", ")), true, true
	case has == adds && !u.called("lake_update"):
		return fmt.Sprintf("%s (`%s`) %s the tag %s%s.", e.title, e.path, map[bool]string{true: "has", false: "does not have"}[has], tag, map[bool]string{true: " already"}[has]), true, true
	}
	now, what := []any{}, "Remove the tag "+tag
	for _, t := range e.tags {
		if t != tag {
			now = append(now, t)
		}
	}
	if adds {
		now, what = append(now, tag), "Add the tag "+tag
	}
	r, ok := u.one("lake_update", map[string]any{"path": e.path, "front": map[string]any{"tags": now, "updated": u.Now.Format(time.DateOnly)}, "reason": what})
	if !ok {
		return "", true, false
	}
	return made(r, "Done: "+e.title+" (`"+e.path+"`)."), true, true
}

// called reports whether a tool was called in this turn.
func (u *turn) called(tool string) bool {
	return slices.ContainsFunc(u.Results, func(r Result) bool { return r.Tool == tool })
}

var (
	doneAsked = pattern.New(`(?i)^what (?:did you|have you|was|were)(?: just)? (?:do|done|changed?|made)(?: (?:just )?(?:now|so far|here|today|in this (?:chat|conversation|session)))?$|^(?:which|what) changes did you make$`)
	undoAsked = pattern.New(`(?i)^(?:undo|revert|take back|roll back)(?: (?:that|it|this|the last (?:change|one)))?$`)
	didSo     = pattern.New(`(?m)^.*\.md\x60? was (?:created|changed|moved|deleted).*$|^.*, in commit [0-9a-f]{12}\..*$`)
)

// did says what was changed in this conversation.
func (u *turn) did(q string) (string, bool, bool) {
	if undoAsked.MatchString(q) {
		return "I take nothing back by myself. Every change is a commit: look at the page's history and say what it should be, or rewind the conversation, which leaves the lake as it is.", true, true
	}
	if !doneAsked.MatchString(q) {
		return "", false, true
	}
	var list []string
	for _, x := range slices.Backward(u.Earlier) {
		for _, l := range didSo.FindAllString(x.Answer, -1) {
			list = append(list, "- "+strings.TrimSpace(l))
		}
	}
	if len(list) == 0 {
		return "I have changed nothing in this conversation, as far as I remember it.", true, true
	}
	return "This was changed, the newest first:\n\n" + strings.Join(list, "\n"), true, true
}

var (
	newAsked = pattern.New(`(?i)^(?:what(?:'s| is| was|  has)? ?(?:been )?(?:new|changed|updated|edited|happened)|(?:which|what) (?:pages|notes|entities) (?:are new|(?:have |were )?(?:been )?(?:changed|updated|edited))|(?:the )?(?:latest|newest|most recent|recent|last) (?:pages|changes|edits)|show (?:me )?(?:the )?(?:latest|newest|recent|last) (?:pages|changes|edits))(?: (?:in|of) the lake)?(?: (today|yesterday|this week|last week|this month|last month|this year|lately|recently))?$`)
	byPerson = pattern.New(`(?i)^(?:(?:which|what) (?:pages|notes|documents|entities)|what) (?:does|do) ([\p{L} ]+?) own$|^(?:which|what) (?:pages|notes|documents|entities) (?:are owned by|belong to) ([\p{L} ]+)$|^(?:list|show)(?: me)?(?: all| the)* pages (?:of|owned by) ([\p{L} ]+)$`)
	nobodys  = pattern.New(`(?i)^(?:(?:which|what|list|show) )?(?:me )?(?:all )?(?:pages|notes|entities|documents) (?:have|has|with|without|that have) ?(?:nobody as|no|an?)? ?owner$|^(?:which|what) (?:pages|notes) (?:are|have) (?:not owned|unowned|nobody as owner)$`)
)

// recent lists pages by their last change, or by their owner.
func (u *turn) recent(q string) (string, bool, bool) {
	if m := newAsked.FindStringSubmatch(q); m != nil {
		list, ok := u.listed(nil)
		if !ok {
			return "", true, false
		}
		from, until, when := u.span(strings.ToLower(m[1]))
		list = slices.DeleteFunc(list, func(e entity) bool { return e.updated == "" || e.updated < from || e.updated > until })
		slices.SortStableFunc(list, func(a, b entity) int { return cmp.Compare(b.updated, a.updated) })
		if len(list) == 0 {
			return "No page says that it was updated " + when + ".", true, true
		}
		return fmt.Sprintf("By what they say of themselves, %s updated%s, the newest first:\n\n%s", count(len(list), "page")+map[bool]string{true: " was", false: " were"}[len(list) == 1], when, shownOf(list, func(e entity) string { return e.updated + ", " + e.owner })), true, true
	}
	if nobodys.MatchString(q) {
		list, ok := u.listed(nil)
		if !ok {
			return "", true, false
		}
		if list = slices.DeleteFunc(list, func(e entity) bool { return e.owner != "" }); len(list) == 0 {
			return "Every page has an owner.", true, true
		}
		return fmt.Sprintf("%s without an owner:\n\n%s", count(len(list), "page"), shownOf(list, func(e entity) string { return e.kind })), true, true
	}
	m := byPerson.FindStringSubmatch(q)
	if m == nil {
		return "", false, true
	}
	name := strings.TrimSpace(m[1] + m[2] + m[3])
	list, ok := u.listed(nil)
	if !ok {
		return "", true, false
	}
	list = slices.DeleteFunc(list, func(e entity) bool { return e.owner == "" || !all(wordsOf(e.owner), wordsOf(name)) })
	if len(list) == 0 {
		return "", false, true // a question like others
	}
	return fmt.Sprintf("%s owns %s:\n\n%s", list[0].owner, count(len(list), "page"), shownOf(list, func(e entity) string { return e.kind })), true, true
}

// span is a time in the past, as days.
func (u *turn) span(word string) (from, until, said string) {
	day := func(t time.Time) string { return t.Format(time.DateOnly) }
	monday := u.Now.AddDate(0, 0, -(int(u.Now.Weekday())+6)%7)
	first := u.Now.AddDate(0, 0, 1-u.Now.Day())
	until, said = day(u.Now), " "+word
	switch word {
	case "today":
		from = until
	case "yesterday":
		from = day(u.Now.AddDate(0, 0, -1))
		until = from
	case "this week":
		from = day(monday)
	case "last week":
		from, until = day(monday.AddDate(0, 0, -7)), day(monday.AddDate(0, 0, -1))
	case "this month":
		from = day(first)
	case "last month":
		from, until = day(first.AddDate(0, -1, 0)), day(first.AddDate(0, 0, -1))
	case "this year":
		from = u.Now.Format("2006") + "-01-01"
	default:
		from, said = day(u.Now.AddDate(0, 0, -14)), " in the last two weeks"
	}
	return from, until, said
}

var (
	lastOf = pattern.New(`(?i)^(?:what(?:'s| is| was)|which is|show(?: me)?|read|open|summari[sz]e)? ?(?:the |our )?(newest|latest|last|most recent|first|oldest) (decision|meeting|incident)(?: notes?| record)?(?: (?:about|on|with|of) (.+))?$`)
	during = pattern.New(`(?i)^(?:which|what|list|show)(?: me)?(?: the| all)* (decisions|meetings|incidents) (?:were |was |did we have |have there been |happened |took place |made )*(?:there )?(?:in|during) (january|february|march|april|may|june|july|august|september|october|november|december)(?: (\d{4}))?$`)
	versus = pattern.New(`(?i)^compare (.+?) (?:and|with|to) (.+)$|^(?:what is )?the difference between (.+?) and (.+)$`)
)

// dated finds meetings, decisions and incidents by their time, which their names have.
func (u *turn) dated(q string) (string, bool, bool) {
	if m := during.FindStringSubmatch(q); m != nil {
		list, ok := u.listed(map[string]any{"kind": strings.TrimSuffix(strings.ToLower(m[1]), "s")})
		if !ok {
			return "", true, false
		}
		month, _ := time.Parse("January", upper(strings.ToLower(m[2])))
		year := m[3]
		if year == "" {
			if year = u.Now.Format("2006"); month.Month() > u.Now.Month() {
				year = u.Now.AddDate(-1, 0, 0).Format("2006")
			}
		}
		in := year + month.Format("-01")
		list = slices.DeleteFunc(list, func(e entity) bool { return !strings.Contains(e.path, in) && !strings.HasPrefix(e.updated, in) })
		if len(list) == 0 {
			return fmt.Sprintf("The lake has no %s in %s.", strings.ToLower(m[1]), month.Format("January ")+year), true, true
		}
		return fmt.Sprintf("%s in %s:\n\n%s", count(len(list), strings.TrimSuffix(strings.ToLower(m[1]), "s")), month.Format("January ")+year, shownOf(list, func(e entity) string { return e.status })), true, true
	}
	m := lastOf.FindStringSubmatch(q)
	if m == nil {
		return "", false, true
	}
	list, ok := u.listed(map[string]any{"kind": strings.ToLower(m[2])})
	if !ok {
		return "", true, false
	}
	list = slices.DeleteFunc(list, func(e entity) bool { return m[3] != "" && !all(wordsOf(e.title+" "+e.path), wordsOf(m[3])) })
	if len(list) == 0 {
		return "", false, true
	}
	at := len(list) - 1 // the names of meetings and incidents begin with a day
	if word := strings.ToLower(m[1]); word == "first" || word == "oldest" {
		at = 0
	}
	slices.SortFunc(list, func(a, b entity) int {
		if a.kind == "decision" {
			return cmp.Or(cmp.Compare(a.updated, b.updated), cmp.Compare(a.path, b.path))
		}
		return cmp.Compare(a.path, b.path)
	})
	e, why, ok := u.readPath(list[at].path)
	if !ok || why != "" {
		return why, true, ok
	}
	return page(e, 40), true, true
}

var whoIs = pattern.New(`(?i)^who(?:'s| is) (\p{L}+(?: \p{L}+){0,2})$`)

// person shows the page of a person.
func (u *turn) person(q string) (string, bool, bool) {
	m := whoIs.FindStringSubmatch(q)
	if m == nil || pronoun.MatchString(m[1]) {
		return "", false, true
	}
	list, ok := u.listed(map[string]any{"kind": "person"})
	if !ok {
		return "", true, false
	}
	list = slices.DeleteFunc(list, func(e entity) bool { return !all(wordsOf(e.title), wordsOf(m[1])) })
	if len(list) != 1 {
		return "", false, true
	}
	e, why, ok := u.readPath(list[0].path)
	if !ok || why != "" {
		return why, true, ok
	}
	return page(e, 4), true, true
}

// compared shows the beginnings of two pages.
func (u *turn) compared(q string) (string, bool, bool) {
	m := versus.FindStringSubmatch(q)
	if m == nil {
		return "", false, true
	}
	a, why, ok := u.which(m[1] + m[3])
	if !ok || why != "" {
		return why, true, ok
	}
	b, why, ok := u.which(m[2] + m[4])
	if !ok || why != "" {
		return why, true, ok
	}
	return "I compare nothing by myself, but here are both:\n\n" + page(a, 4) + "\n\n" + page(b, 4), true, true
}

// page is the beginning of an entity.
func page(e entity, most int) string {
	head := fmt.Sprintf("**%s** (`%s`", e.title, e.path)
	for _, f := range [][2]string{{", ", e.kind}, {", ", e.status}, {", owner ", e.owner}, {", updated ", e.updated}} {
		if f[1] != "" {
			head += f[0] + f[1]
		}
	}
	text := lines(e.body)
	return head + ")\n\n> " + strings.Join(text[:min(len(text), most)], "\n>\n> ")
}
