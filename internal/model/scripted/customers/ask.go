package customers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// intent is what is to be done with the records of a query.
type intent string

const (
	list      intent = "list"
	count     intent = "count"
	sum       intent = "sum"
	average   intent = "average"
	grouping  intent = "group"
	comparing intent = "compare"
	sharing   intent = "share"
)

// asked is a question about many records.
type asked struct {
	*query
	intent intent
	by     string   // the field of a grouping
	keys   []string // of a comparison
	few    bool     // the fewest first
	guess  bool     // by is only likely: the keys are names
	page   int      // from 0
	of     string   // what is to be added up; "": what the CRM adds up
	left   []string // words that were not understood
}

var (
	howMany     = pattern.New(`(?i)\b(?:how many|number of|count)\b`)
	sums        = pattern.New(`(?i)\b(?:total (?:value|worth|target|revenue|pipeline)|sum of|in total|how much|combined|add up|pipeline value|value of (?:all|the|our|my)|worth of|worth together|pipeline worth)\b`)
	averages    = pattern.New(`(?i)\b(?:average|mean|on average)\b`)
	byField     = pattern.New(`(?i)(?:\bby|\bper|\bfor each|\bgrouped by|\bfor every|\bof each|\bin each|\beach) (status|stage|source|city|country|owner|company|project|industry|size|plan|person|colleague|user)(?:es|s)?\b`)
	spread      = pattern.New(`(?i)\b(?:breakdown|distribution|overview|funnel|pipeline|split|spread|statistics|stats)\b`)
	whoMost     = pattern.New(`(?i)\b(?:who|which (?:owner|colleague|user|person)) has (?:the )?(most|fewest|least|more) `)
	mostBy      = pattern.New(`(?i)\b(?:which|what) (city|country|company|source|status|stage|project|industry|owner|plan)(?:es|s)? (?:has|have|brings?|gives?|is|do|does|did).*?\b(most|fewest|least)\b`)
	compares    = pattern.New(`(?i)\bcompare|\bvs\b|\bversus\b|\bdifference between\b|\bmore .*\bor\b|\bfewer .*\bor\b|\bmore .*\bthan\b (?:in|from|with)`)
	follows     = pattern.New(`(?i)^(?:and\b|what about|how about|only\b|just\b|but\b|or\b|now\b|those\b|these\b|sort|order|the same|of (?:those|these|them)|which of|who of|how many of|in \S+$|with \S+|without |all of them|show (?:me )?(?:them|those|these)|list (?:them|those|these)|by \w+$|show more|more$|next\b|which (?:ones?|are (?:they|those))|who are (?:they|those)|what are they)`)
	ofThose     = pattern.New(`(?i)\b(?:of (?:them|those|these)|among them|them|those|these)\b`)
	inThe       = pattern.New(`(?i)\b(?:in|of|for|from) (?:the )?(?:project|campaign) (?:called |named )?"?(\p{Lu}[^"?.!,]*)`)
	furtherOnes = pattern.New(`(?i)^(?:show (?:me )?more|more|next|(?:show (?:me )?)?the (?:next|others|rest)\b.*)`)
	addUp       = pattern.New(`(?i)\b(?:average|mean|total|sum of(?: the)?|combined) (score|value|active users|target|revenue|worth)s?\b`)
	asks        = pattern.New(`(?i)^(?:which|what|who|show|list|give|find|get|display|how|are|is|do|does|have|any|all|search|count|compare|number|the|top|our|my|average|total|sort|order|where|when|newest|latest|recent|oldest|biggest|best|most|open|won|lost|new|qualified|contacted|proposals?)\b`)
)

// understand reads a question about many records. Its earlier exchanges say what it follows.
func (u *turn) understand(text string, earlier []Exchange) (a *asked, ok bool) {
	resource := resourceIn(text)
	follow := follows.MatchString(text) && (resource == "" || ofThose.MatchString(text)) || resource == "" && ofThose.MatchString(text)
	var base *asked
	if follow {
		for i := len(earlier) - 1; i >= 0 && base == nil; i-- {
			before := tidy(earlier[i].Question)
			if kindOfRequest(before) != reading {
				continue
			}
			b, ok := u.understand(before, earlier[:i])
			if !ok {
				return nil, false
			}
			base = b
		}
	}
	if base != nil && (resource == "" || resource == base.resource || ofThose.MatchString(text)) {
		resource = base.resource
	}
	named := resource != ""
	if resource == "" {
		switch {
		case pattern.New(`(?i)\b(?:industry|plan|active users|on trial)\b`).MatchString(text):
			resource = "companies"
		default:
			resource = "leads"
		}
	}
	if !u.learned(resource) {
		return nil, false
	}
	r := u.known[resource]
	a = &asked{query: &query{resource: resource, filters: map[string]any{}, own: named}}
	if m := inThe.FindStringSubmatch(text); m != nil && resource != "projects" && r.takes(r.list(), "project_id") {
		a.project = bare(m[1])
		text = strings.ReplaceAll(text, m[0], "")
	}
	a.read(r, text, u.Now)
	a.intentOf(r, text)
	defer func() { a.left = a.unread(r, text) }()
	if base != nil {
		a.over(base.query)
		if a.intent == "" {
			a.intent, a.by, a.keys = base.intent, base.by, base.keys
		}
		if furtherOnes.MatchString(text) {
			a.intent, a.page = list, base.page+1
			if base.intent != list {
				a.page = 0
			}
		}
	}
	if a.intent == "" {
		a.intent = list
	}
	return a, true
}

func (a *asked) intentOf(r *resource, text string) {
	field := func(word string) string {
		switch word = strings.ToLower(word); word {
		case "owner", "person", "colleague", "user":
			return "owner_id"
		case "company", "project":
			return word + "_id"
		case "stage":
			return "status"
		}
		return word
	}
	groups := r.requests[r.summary()]["group_by"].values
	can := func(by string) bool { return slices.Contains(groups, by) }
	few := func(word string) bool { return strings.EqualFold(word, "fewest") || strings.EqualFold(word, "least") }
	if m := addUp.FindStringSubmatch(text); m != nil && !strings.EqualFold(m[1], "revenue") && !strings.EqualFold(m[1], "worth") {
		a.of = strings.ToLower(m[1])
	}
	switch {
	case share.MatchString(text):
		a.intent = sharing
		if m := byField.FindStringSubmatch(text); m != nil && can(field(m[1])) {
			a.by = field(m[1])
		}
	case compares.MatchString(text) && a.comparison(can, text):
		a.intent = comparing
	case whoMost.MatchString(text) && can("owner_id"):
		a.intent, a.by, a.few, a.most = grouping, "owner_id", few(whoMost.FindStringSubmatch(text)[1]), 1
	case mostBy.MatchString(text) && can(field(mostBy.FindStringSubmatch(text)[1])):
		m := mostBy.FindStringSubmatch(text)
		a.intent, a.by, a.few, a.most = grouping, field(m[1]), few(m[2]), 1
	case byField.MatchString(text) && can(field(byField.FindStringSubmatch(text)[1])):
		a.intent, a.by = grouping, field(byField.FindStringSubmatch(text)[1])
		a.sort = ""
	case averages.MatchString(text):
		a.intent = average
	case sums.MatchString(text) && !howMany.MatchString(text):
		a.intent = sum
	case howMany.MatchString(text):
		a.intent = count
	case spread.MatchString(text) && can("status") && a.filters["status"] == nil:
		a.intent, a.by = grouping, "status"
	case spread.MatchString(text) && can("plan"):
		a.intent, a.by = grouping, "plan"
	case a.sort != "" && len(a.filters) == 0 && follows.MatchString(text):
		a.intent = list
	case pattern.New(`(?i)^(?:which|who|list|show|give|find|what are)\b`).MatchString(text):
		a.intent = list
	}
}

// comparison finds what is compared: two values of one field.
func (a *asked) comparison(can func(string) bool, text string) bool {
	drop := func(key string) {
		a.said = slices.DeleteFunc(a.said, func(p phrase) bool { return p.key == key })
	}
	for _, name := range []string{"status", "source", "city", "country", "plan", "industry"} {
		v, _ := a.filters[name].(string)
		if keys := strings.Split(v, ","); len(keys) > 1 && can(name) {
			delete(a.filters, name)
			drop(keyOf(name))
			a.by, a.keys = name, keys
			return true
		}
	}
	var names []string
	for _, m := range pattern.New(`\b(\p{Lu}\p{L}+)(?:'s)?\b`).FindAllStringSubmatch(text, -1) {
		if m[1] != "Compare" && !slices.Contains(names, m[1]) && !slices.Contains([]string{"Are", "Do", "Does", "Has", "Who", "Which", "Is", "What", "How", "Have"}, m[1]) {
			names = append(names, m[1])
		}
	}
	if len(names) < 2 || len(names) > 5 {
		return false
	}
	for _, name := range []string{"city", "country"} {
		if a.filters[name] != nil {
			delete(a.filters, name)
			drop("place")
			a.by, a.keys = name, names
			for i, n := range names {
				if c := countries[strings.ToLower(n)]; c != "" {
					a.by, a.keys[i] = "country", c
				}
			}
			return can(a.by)
		}
	}
	if c := countries[strings.ToLower(names[0])]; c != "" && can("country") {
		a.by = "country"
		for _, n := range names {
			a.keys = append(a.keys, countries[strings.ToLower(n)])
		}
		return true
	}
	if can("owner_id") {
		a.owner, a.company, a.by, a.keys, a.guess = "", "", "owner_id", names, true
		return true
	}
	return false
}

// noun is what the records of a query are called, with its filters.
func (q *query) noun(n int) string {
	var before, behind []string
	for _, p := range q.said {
		if p.before {
			before = append(before, p.text)
		} else {
			behind = append(behind, p.text)
		}
	}
	return strings.Join(append(append(before, noun(q.resource, n)), behind...), " ")
}

// report answers a question about many records.
func (u *turn) report(a *asked) (string, bool) {
	if a.resource == "users" {
		return u.members()
	}
	if !u.named(a.query) {
		return "", false
	}
	r := u.known[a.resource]
	with := func(more ...any) map[string]any {
		q := map[string]any{}
		for k, v := range a.filters {
			q[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			q[more[i].(string)] = more[i+1]
		}
		return q
	}
	switch a.intent {
	case count:
		answers, ok := u.fetch(get(r.path(), with("page_size", 1, "fields", "id")))
		if !ok {
			return "", false
		}
		n := answers[0].number("total")
		if n == 0 && a.filters["city"] != nil && a.resource == "leads" {
			if done, say, ok := u.inProject(a); done || !ok {
				return say, ok
			}
		}
		if n == 1 {
			return "There is **1** " + a.noun(1) + ".", true
		}
		return fmt.Sprintf("There are **%s** %s.", grouped(n), a.noun(n)), true
	case sum, average, grouping, comparing:
		if !r.can(r.summary()) {
			return "I can list and count " + noun(a.resource, 2) + ", but the CRM has no figures to add up for them.", true
		}
		by := a.by
		if by == "" {
			by = r.requests[r.summary()]["group_by"].values[0]
		}
		answers, ok := u.fetch(get(r.path()+"/summary", with("group_by", by)))
		if !ok {
			return "", false
		}
		for _, other := range []string{"city", "company_id", "project_id"} {
			if !a.guess || a.compares(answers[0]) {
				break
			}
			if !slices.Contains(r.requests[r.summary()]["group_by"].values, other) {
				continue
			}
			a.by = other
			if answers, ok = u.fetch(get(r.path()+"/summary", with("group_by", other))); !ok {
				return "", false
			}
		}
		return a.figures(answers[0]), true
	}
	most := a.most
	if most < 1 || most > shown {
		most = shown
	}
	in := with("page_size", most, "fields", r.fieldsOf(append(a.columns, "id", "name", "title", "company", "status", "value", "score", "owner", "city", "industry", "plan", "active_users", "region", "due_on", "target", "text", "lead", "project", "author", "created_at", "last_contact_on")...))
	if a.sort != "" {
		in["sort"] = a.sort
	}
	if a.page > 0 {
		in["page"] = a.page + 1
	}
	answers, ok := u.fetch(get(r.path(), in))
	if !ok {
		return "", false
	}
	items, total := answers[0].items(), answers[0].number("total")
	sorted := ""
	if a.sorted != "" {
		sorted = ", " + a.sorted
	}
	if total == 0 && a.filters["city"] != nil && a.project == "" && r.takes(r.list(), "project_id") && a.resource == "leads" {
		if done, say, ok := u.inProject(a); done || !ok {
			return say, ok
		}
	}
	switch {
	case a.page > 0 && len(items) == 0 && total > 0:
		return "There are no more of the " + grouped(total) + " " + a.noun(total) + ".", true
	case a.page > 0 && total > 0:
		first := a.page*most + 1
		return fmt.Sprintf("%d to %d of the %s %s%s:\n\n%s", first, first+len(items)-1, grouped(total), a.noun(total), sorted, lines(a.resource, items, a.columns...)), true
	case total == 0:
		return "There are no " + a.noun(2) + ".", true
	case a.most == 1 || total == 1:
		head := "This is the only one of the " + a.noun(2) + "."
		if total == 1 {
			head = "There is 1 " + a.noun(1) + ":"
		} else if a.sorted != "" {
			head = fmt.Sprintf("Of the %s %s, the first one%s:", grouped(total), a.noun(total), sorted)
		}
		return head + "\n\n" + lines(a.resource, items, a.columns...), true
	case total > len(items):
		return fmt.Sprintf("There are **%s** %s. The first %d%s:\n\n%s", grouped(total), a.noun(total), len(items), sorted, lines(a.resource, items, a.columns...)), true
	}
	return fmt.Sprintf("There are **%s** %s%s:\n\n%s", grouped(total), a.noun(total), sorted, lines(a.resource, items, a.columns...)), true
}

// inProject answers a question about a place that may be a project, of whose name more may follow.
// done is false if it is none.
func (u *turn) inProject(a *asked, more ...string) (done bool, say string, ok bool) {
	name, _ := a.filters["city"].(string)
	name = strings.Join(append([]string{name}, more...), " ")
	if !u.learned("projects") {
		return false, "", false
	}
	answers, ok := u.fetch(get("/api/projects", map[string]any{"q": name, "page_size": 2, "fields": "id,name"}))
	if !ok {
		return false, "", false
	}
	items := answers[0].items()
	if len(items) != 1 {
		return false, "", true
	}
	delete(a.filters, "city")
	a.said = slices.DeleteFunc(a.said, func(p phrase) bool { return p.key == "place" })
	a.set("project_id", items[0].text("id"), "in the project "+items[0].text("name"))
	say, ok = u.report(a)
	return true, say, ok
}

func (u *turn) members() (string, bool) {
	if !u.learned("users") {
		return "", false
	}
	answers, ok := u.fetch(get("/api/users", nil))
	if !ok {
		return "", false
	}
	var b strings.Builder
	items := answers[0].items()
	fmt.Fprintf(&b, "Your organisation has %d members:\n\n", len(items))
	for _, i := range items {
		you := ""
		if me, _ := i["you"].(bool); me {
			you = " (you)"
		}
		fmt.Fprintf(&b, "- **%s**%s: %s, %s\n", i.text("name"), you, i.text("email"), i.text("role"))
	}
	return strings.TrimSpace(b.String()), true
}

// is reports whether a line of a summary is about a key.
func (a *asked) is(i record, key string) bool {
	return strings.EqualFold(i.text("key"), key) || strings.EqualFold(i.text("name"), key) || strings.HasSuffix(a.by, "_id") && holds(strings.ToLower(i.text("name")), key)
}

// compares reports whether a summary has all that is compared.
func (a *asked) compares(s record) bool {
	for _, key := range a.keys {
		if !slices.ContainsFunc(s.items(), func(i record) bool { return a.is(i, key) }) {
			return false
		}
	}
	return true
}

// figures says what a summary has.
func (a *asked) figures(s record) string {
	of := strings.ReplaceAll(s.text("sum_of"), "_", " ")
	money := func(n int) string {
		if of == "value" {
			return "€" + grouped(n)
		}
		return grouped(n)
	}
	items, total, all := s.items(), s.number("total"), 0
	if a.of != "" && a.of != of && (a.intent == sum || a.intent == average) {
		return fmt.Sprintf("The CRM adds up the %s of %s, and not the %s.", of, noun(a.resource, 2), a.of)
	}
	for _, i := range items {
		all += i.number("sum")
	}
	name := func(i record) string {
		if n := i.text("name"); n != "" {
			return n
		}
		return "none"
	}
	switch a.intent {
	case sum:
		if total == 0 {
			return "There are no " + a.noun(2) + "."
		}
		return fmt.Sprintf("The %s %s have a total %s of **%s**.", grouped(total), a.noun(total), of, money(all))
	case average:
		if total == 0 {
			return "There are no " + a.noun(2) + "."
		}
		return fmt.Sprintf("The %s %s have an average %s of **%s** (total %s).", grouped(total), a.noun(total), of, money((all+total/2)/total), money(all))
	case comparing:
		var best, text string
		top, tie := -1, false
		for _, key := range a.keys {
			n, worth := 0, 0
			label := upper(key)
			for _, i := range items {
				if a.is(i, key) {
					n, worth, label = n+i.number("count"), worth+i.number("sum"), upper(name(i))
				}
			}
			text += fmt.Sprintf("- **%s**: %s %s, %s %s\n", label, grouped(n), noun(a.resource, n), of, money(worth))
			switch {
			case n > top:
				top, best, tie = n, label, false
			case n == top:
				tie = true
			}
		}
		if tie {
			return text + "\nNone of them has more than the others."
		}
		return text + "\n" + best + " has the most."
	}
	label := strings.TrimSuffix(a.by, "_id")
	if a.few {
		slices.Reverse(items)
	}
	if a.most == 1 && len(items) > 0 {
		i := items[0]
		if i.text("name") == "" && len(items) > 1 {
			i = items[1]
		}
		word := "most"
		if a.few {
			word = "fewest"
		}
		return fmt.Sprintf("**%s** has the %s %s: %s of %s, with a total %s of %s.", name(i), word, a.noun(2), grouped(i.number("count")), grouped(total), of, money(i.number("sum")))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s by %s:\n\n| %s | %s | %s |\n|---|---:|---:|\n", grouped(total), a.noun(total), label, upper(label), upper(noun(a.resource, 2)), upper(of))
	for _, i := range items[:min(len(items), 20)] {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(name(i)), grouped(i.number("count")), money(i.number("sum")))
	}
	if more := len(items) - 20; more > 0 {
		fmt.Fprintf(&b, "\nand %d more.", more)
	}
	return strings.TrimSpace(b.String())
}

func cell(s string) string { return strings.ReplaceAll(oneLine(s), "|", `\|`) }
