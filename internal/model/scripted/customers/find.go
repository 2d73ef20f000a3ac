package customers

import (
	"maps"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	anID     = pattern.New(`^(lead|company|project|note)-\d+$`)
	inID     = pattern.New(`\b(?:lead|company|project|note)-\d+\b`)
	shownID  = pattern.New("`((?:lead|company|project|note)-\\d+)`")
	pronoun  = pattern.New(`(?i)^(?:it|him|her|them|this|that|they|he|she|(?:this|that|the) (?:lead|company|project|note|one|person|account|contact)|the same)$`)
	ordinal  = pattern.New(`(?i)^(?:the )?(?:(first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last)(?: (?:one|lead|company|project|note|of them|of these|of those|in the list))?|(?:number|no\.?|#) ?(\d+)|(\d+)(?:st|nd|rd|th)(?: one)?)$`)
	withNoun = pattern.New(`(?i)^(?:the |our |a )?(lead|company|project|account|contact|campaign)\s+(?:called |named |of )?(.+)$`)
	atEnd    = pattern.New(`(?i)^(?:the )?(.+?)(?:'s)? (lead|company|project|account|campaign)$`)
	ordinals = []string{"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"}
)

var (
	newest   = pattern.New(`(?i)^(?:the |my |our )?(?:last|latest|newest|most recent) (lead|company|project|note)$`)
	someNoun = pattern.New(`(?i)\b(lead|company|project|note)$`)
)

// newest is the record that was made last.
func (u *turn) newest(resource string) (f found, ok bool) {
	if !u.learned(resource) {
		return f, false
	}
	answers, ok := u.fetch(get("/api/"+resource, map[string]any{"sort": "-created_at", "page_size": 1, "fields": "id"}))
	if !ok {
		return f, false
	}
	items := answers[0].items()
	if len(items) == 0 {
		u.failed = "There are no " + noun(resource, 2) + "."
		return f, false
	}
	return u.byID(items[0].text("id"))
}

var theMost = pattern.New(`^(?:the |our |my )?(?:most|least|biggest|largest|richest|best|strongest|hottest|warmest|highest|smallest|cheapest|worst|weakest|coldest|lowest|oldest|earliest|one (?:that|who) (?:has|was))\b`)

// first is the record that comes first in the order that a text asks for: "the cheapest lead".
func (u *turn) first(text string) (f found, ok bool) {
	a, ok := u.understand(text, u.Earlier)
	if !ok || !u.named(a.query) {
		return f, false
	}
	r := u.known[a.resource]
	if len(a.left) > 0 || a.sort == "" {
		u.failed = "I do not know which one you mean: name it, please."
		return f, false
	}
	in := maps.Clone(a.filters)
	in["sort"], in["page_size"], in["fields"] = a.sort, 1, "id"
	answers, ok := u.fetch(get(r.path(), in))
	if !ok {
		return f, false
	}
	items := answers[0].items()
	if len(items) == 0 {
		u.failed = "There are no " + a.noun(2) + "."
		return f, false
	}
	return u.byID(items[0].text("id"))
}

// plural is the resource of a noun or of the first part of an id.
func plural(one string) string {
	switch strings.ToLower(one) {
	case "company", "account":
		return "companies"
	case "project", "campaign":
		return "projects"
	case "note":
		return "notes"
	}
	return "leads"
}

// found is a record that a request is about.
type found struct {
	resource string
	record
}

func (f found) id() string { return f.text("id") }

func (f found) name() string {
	if n := f.text("name"); n != "" {
		return n
	}
	return "the note"
}

// mentioned are the records that the last answer with any names.
func (u *turn) mentioned() (ids []string) {
	for _, x := range slices.Backward(u.Earlier) {
		for _, m := range shownID.FindAllStringSubmatch(x.Answer, -1) {
			if !slices.Contains(ids, m[1]) {
				ids = append(ids, m[1])
			}
		}
		if len(ids) > 0 {
			return ids
		}
	}
	return nil
}

// byID reads a record.
func (u *turn) byID(id string) (f found, ok bool) {
	if !anID.MatchString(id) {
		u.failed = "The CRM did not answer as it should: it has a record without an id."
		return f, false
	}
	f.resource = plural(id[:strings.Index(id, "-")])
	if !u.learned(f.resource) {
		return f, false
	}
	results, ok := u.do(get("/api/"+f.resource+"/"+id, nil))
	if !ok {
		return f, false
	}
	if results[0].Failed {
		if strings.Contains(results[0].Output, "404") || strings.Contains(results[0].Output, "no such") {
			u.failed = "There is no " + noun(f.resource, 1) + " `" + id + "` any more."
			return f, false
		}
	}
	answers, ok := u.fetch(get("/api/"+f.resource+"/"+id, nil))
	if !ok {
		return f, false
	}
	if f.record = answers[0]; f.id() != id {
		u.failed = "The CRM did not answer as it should: it has something else for `" + id + "`."
		return f, false
	}
	return f, true
}

// entity finds the record that a text names. ok is false while it is looked for, or if there is none
// or there are several, which is said then.
func (u *turn) entity(text string, only ...string) (f found, ok bool) {
	text = strings.Trim(bare(text), `"'`+"`")
	ids := u.mentioned()
	if m := newest.FindStringSubmatch(text); m != nil {
		return u.newest(plural(m[1]))
	}
	if m := ordinal.FindStringSubmatch(text); m != nil {
		if w := someNoun.FindStringSubmatch(text); w != nil { // "the second note" is none of the leads
			ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return plural(id[:strings.Index(id, "-")]) != plural(w[1]) })
		}
		n := numberOf(m[2] + m[3])
		switch word := strings.ToLower(m[1]); {
		case word == "last":
			n = len(ids)
		case word != "":
			n = slices.Index(ordinals, word) + 1
		}
		if n < 1 || n > len(ids) {
			u.failed = "I do not know which one you mean: name it, please."
			return f, false
		}
		return u.byID(ids[n-1])
	}
	if of := someNoun.FindStringSubmatch(text); of != nil && pronoun.MatchString(text) { // "that note" is none of the leads
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return plural(id[:strings.Index(id, "-")]) != plural(of[1]) })
		ids = ids[:min(len(ids), 1)]
	}
	switch {
	case inID.MatchString(text):
		return u.byID(inID.FindString(text))
	case theMost.MatchString(text) && (resourceIn(text) != "" || ofThose.MatchString(text)):
		return u.first(text)
	case text == "" || pronoun.MatchString(text):
		switch {
		case u.page != nil && (len(ids) != 1 || strings.HasPrefix(strings.ToLower(text), "this")):
			return u.byID(u.page.text("id"))
		case len(ids) >= 1 && (len(ids) == 1 || u.detailed()):
			return u.byID(ids[0])
		case len(ids) > 1:
			u.failed = "Which one do you mean? Say the name, or for example “the second one”."
		default:
			u.failed = "I do not know which one you mean: name it, please."
		}
		return f, false
	}
	resources := []string{"leads", "companies", "projects"}
	if m := withNoun.FindStringSubmatch(text); m != nil {
		resources, text = []string{plural(m[1])}, m[2]
	} else if m := atEnd.FindStringSubmatch(text); m != nil {
		resources, text = []string{plural(m[2])}, m[1]
	}
	if len(only) > 0 {
		resources = only
	}
	text = strings.TrimPrefix(strings.TrimPrefix(text, "the "), "The ")
	for _, name := range resources {
		if !u.learned(name) {
			return f, false
		}
		r := u.known[name]
		answers, ok := u.fetch(get(r.path(), map[string]any{"q": text, "page_size": 20, "fields": r.fieldsOf("id", "name", "title", "company", "city")}))
		if !ok {
			return f, false
		}
		items := answers[0].items()
		var exact, within []record
		for _, i := range items {
			switch own := strings.ToLower(i.text("name")); {
			case own == strings.ToLower(text):
				exact = append(exact, i)
			case holds(own, text):
				within = append(within, i)
			}
		}
		if len(exact) == 1 {
			items = exact
		} else if len(within) > 0 {
			items = within
		} else if name == "leads" && len(resources) > 1 {
			continue // they work at a company that has the name
		}
		switch {
		case len(items) == 1:
			return u.byID(items[0].text("id"))
		case len(items) > 1:
			u.failed = "There are several. Which one do you mean?\n\n" + lines(name, items[:min(len(items), shown)])
			return f, false
		}
	}
	what := "nothing"
	if len(resources) == 1 {
		what = "no " + noun(resources[0], 1)
	}
	u.failed = "I found " + what + " called “" + oneLine(text) + "”."
	return f, false
}

// holds reports whether a name has all words of a text.
func holds(name, text string) bool {
	words := strings.Fields(strings.ToLower(text))
	for _, w := range words {
		if !strings.Contains(name, w) {
			return false
		}
	}
	return len(words) > 0
}

// detailed reports whether the last answer was about one record.
func (u *turn) detailed() bool {
	n := len(u.Earlier)
	return n > 0 && !strings.Contains(u.Earlier[n-1].Answer, "\n2. ")
}

// user finds a member of the organisation. "me" is who asks. No name: there is none.
func (u *turn) user(name string) (id, full string, ok bool) {
	if !u.learned("users") {
		return "", "", false
	}
	answers, ok := u.fetch(get("/api/users", nil))
	if !ok {
		return "", "", false
	}
	for _, i := range answers[0].items() {
		you, _ := i["you"].(bool)
		if name == "me" && you || name != "me" && holds(strings.ToLower(i.text("name")), name) {
			return i.text("id"), i.text("name"), true
		}
	}
	return "", "", true
}

// named replaces the names of a query by ids.
func (u *turn) named(q *query) bool {
	takes := func(name string) bool { return u.known[q.resource].takes(u.known[q.resource].list(), name) }
	if q.owner != "" {
		id, full, ok := u.user(q.owner)
		field, words := "owner_id", "looked after by "
		if !takes(field) {
			field, words = "author_id", "by "
		}
		switch {
		case !ok:
			return false
		case id != "":
			if q.owner == "me" {
				full = "you"
			}
			q.set(field, id, words+full)
		case q.company == "" && takes("company_id"):
			q.company = q.owner
		default:
			u.failed = "Nobody here is called “" + q.owner + "”."
			return false
		}
		q.owner = ""
	}
	for _, part := range []struct {
		name     *string
		resource string
	}{{&q.company, "companies"}, {&q.project, "projects"}} {
		if *part.name == "" {
			continue
		}
		resources := []string{part.resource}
		if q.resource == "notes" {
			resources = nil
		}
		f, ok := u.entity(*part.name, resources...)
		if !ok {
			return false
		}
		words := map[string]string{"companies": "at ", "projects": "in the project ", "leads": "about "}[f.resource]
		if q.resource == "notes" {
			words = "about "
		}
		one := map[string]string{"companies": "company_id", "projects": "project_id", "leads": "lead_id"}[f.resource]
		if !takes(one) {
			u.failed = "I cannot filter " + noun(q.resource, 2) + " by that."
			return false
		}
		q.set(one, f.id(), words+f.name())
		*part.name = ""
	}
	return true
}
