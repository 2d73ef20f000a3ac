package customers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// nouns name resources, the first is the one that an answer has.
var nouns = []struct {
	resource, one, many string
	form                *pattern.Regexp
}{
	{"notes", "note", "notes", re(`notes?|remarks?|comments?`)},
	{"projects", "project", "projects", re(`projects?|campaigns?`)},
	{"companies", "company", "companies", re(`compan(?:y|ies)|accounts?|firms?|organisations?|organizations?|customers?|clients?`)},
	{"leads", "lead", "leads", re(`leads?|prospects?|contacts?|people|deals?|opportunities`)},
	{"users", "member of the organisation", "members of the organisation", re(`users?|colleagues?|members|team(?: members| mates|mates)?`)},
}

func re(words string) *pattern.Regexp { return pattern.New(`(?i)\b(?:` + words + `)\b`) }

func noun(resource string, n int) string {
	for _, w := range nouns {
		if w.resource == resource && n == 1 {
			return w.one
		} else if w.resource == resource {
			return w.many
		}
	}
	return resource
}

// query is what a question asks for.
type query struct {
	resource string
	filters  map[string]any // parameters
	said     []phrase
	sort     string
	sorted   string // in words
	most     int    // how many; 0: as many as are shown
	owner    string // a name that has to be looked up, or "me"
	company  string // the same
	project  string
	own      bool     // the question names the resource
	columns  []string // fields that are shown beside those that a list always has
}

// phrase says a filter in words.
type phrase struct {
	key, text string
	before    bool // the noun
}

// keyOf is the same for filters of which a new one replaces the old.
func keyOf(name string) string {
	switch name {
	case "city", "country", "region":
		return "place"
	case "owner_id", "author_id":
		return "owner"
	case "lead_id", "company_id", "project_id":
		return "about"
	}
	for _, end := range []string{"_from", "_until"} {
		name = strings.TrimSuffix(name, end)
	}
	return strings.TrimPrefix(strings.TrimPrefix(name, "min_"), "max_")
}

func (q *query) set(name string, v any, said string) {
	q.filters[name] = v
	q.say(name, said)
}

func (q *query) say(name, said string) { q.said = append(q.said, phrase{keyOf(name), said, false}) }
func (q *query) sayBefore(name, said string) {
	q.said = append(q.said, phrase{keyOf(name), said, true})
}

// over lays a query over the one that it follows.
func (q *query) over(base *query) {
	replaced := map[string]bool{}
	for name := range q.filters {
		replaced[keyOf(name)] = true
	}
	if q.owner != "" {
		replaced["owner"] = true
	}
	if q.company != "" || q.project != "" {
		replaced["about"] = true
	}
	for name, v := range base.filters {
		if !replaced[keyOf(name)] {
			q.filters[name] = v
		}
	}
	var kept []phrase
	for _, p := range base.said {
		if !replaced[p.key] {
			kept = append(kept, p)
		}
	}
	q.said = append(kept, q.said...)
	if !replaced["owner"] {
		q.owner = base.owner
	}
	if !replaced["about"] {
		q.company, q.project = base.company, base.project
	}
	if q.sort == "" {
		q.sort, q.sorted = base.sort, base.sorted
	}
	if q.most == 0 {
		q.most = base.most
	}
	if len(q.columns) == 0 {
		q.columns = base.columns
	}
}

var (
	countries = map[string]string{
		"germany": "Germany", "german": "Germany", "austria": "Austria", "austrian": "Austria", "switzerland": "Switzerland", "swiss": "Switzerland", "norway": "Norway", "norwegian": "Norway",
		"denmark": "Denmark", "danish": "Denmark", "sweden": "Sweden", "swedish": "Sweden", "finland": "Finland", "finnish": "Finland", "united kingdom": "United Kingdom", "uk": "United Kingdom",
		"the uk": "United Kingdom", "the united kingdom": "United Kingdom", "great britain": "United Kingdom", "britain": "United Kingdom", "british": "United Kingdom", "england": "United Kingdom",
		"ireland": "Ireland", "irish": "Ireland", "france": "France", "french": "France", "poland": "Poland", "polish": "Poland", "italy": "Italy", "italian": "Italy", "spain": "Spain", "spanish": "Spain",
		"portugal": "Portugal", "portuguese": "Portugal", "netherlands": "Netherlands", "the netherlands": "Netherlands", "holland": "Netherlands", "dutch": "Netherlands", "belgium": "Belgium", "belgian": "Belgium",
	}
	nationality = pattern.New(`(?i)\b(german|austrian|swiss|norwegian|danish|swedish|finnish|british|irish|french|polish|italian|spanish|portuguese|dutch|belgian)\b`)
	// places are names behind a preposition. A name begins with a capital letter.
	places   = pattern.New(`\b(?i:in|from|around|near|out of|based in)\s+((?i:the\s+)?\p{Lu}[\p{L}.'-]*(?:\s+\p{Lu}[\p{L}.'-]*)*(?:\s*(?:,|,? and|,? or)\s+\p{Lu}[\p{L}.'-]*(?:\s+\p{Lu}[\p{L}.'-]*)*)*)`)
	betweens = pattern.New(`(?i)\b(score|value|active users|target)s? (?:of |is )?between €?([\d.,]+)\s*(k)? and €?([\d.,]+)\s*(k)?`)
	does     = pattern.New(`\b(?i:did|does|has|have) (\p{Lu}\p{L}+(?:\s+\p{Lu}\p{L}+)*)`)
	lacking  = pattern.New(`(?i)\b(?:without|with no|have no|has no|lacking|not in) (?:an? |any )?(project|company|source)\b`)
	lowPlace = pattern.New(`(?i)\b(?:in|from)\s+([\p{L}-]+)\s*$`)
	atFirm   = pattern.New(`\b(?i:at|with|of|for|about|from) (?i:the company )?(\p{Lu}[\p{L}.'-]*(?:\s+(?:de\s+|van\s+)?\p{Lu}[\p{L}.'-]*)*)`)
	owned    = pattern.New(`\b(?i:owned by|assigned to|belong to|belongs to|belonging to|looked after by|of|by|does|for) (?i:the owner )?(\p{Lu}\p{L}+(?:\s+(?:de\s+)?\p{Lu}\p{L}+)*)`)
	whose    = pattern.New(`\b(\p{Lu}\p{L}+(?:\s+\p{Lu}\p{L}+)*)'s? (?i:\w+ )?(?i:leads|projects|deals|prospects|notes)\b`)
	mine     = pattern.New(`(?i)\b(?:my|mine|i own|assigned to me|of mine|i look after)\b`)
	unowned  = pattern.New(`(?i)\b(?:without|no|has no|have no|lack an?|missing an?)(?: an?)? owners?\b|\bunassigned\b|\bnobody (?:owns|looks after)\b|\bowned by nobody\b|\bnot assigned\b`)
	noCall   = pattern.New(`(?i)\b(?:never|not(?: yet)?(?: been)?) (?:been )?contacted(?: yet)?\b|\bwithout (?:a )?contact\b`)
	longAgo  = pattern.New(`(?i)(?:not|nobody|no one|n't)\b.*\b(?:contacted|spoken|talked|heard|touched|called)\b.*?(?:for|in|since)(?: the last| the past| more than| over)? (\d+|two|three|four|six|a) (day|week|month)s?`)
	compare  = pattern.New(`(?i)\b(score|value|worth|revenue|active users?|users|target)s?\b(?: is| are| of)?\s*(?:(above|over|more than|greater than|higher than|bigger than|at least|from|>=?|below|under|less than|lower than|at most|up to|<=?))\s*(?:€|eur )?\s*([\d.,]+)\s*(k|m|thousand|million)?`)
	counted  = pattern.New(`(?i)\b(above|over|more than|at least|below|under|less than|fewer than|at most)\s+(\d[\d.,]*)\s*(k|m|thousand|million)?\s*(€|euros?|eur|active users|users)`)
	top      = pattern.New(`(?i)\b(?:top|best|first|biggest|largest|smallest|cheapest|worst|lowest|most valuable|highest|newest|latest|last|oldest|most recent|strongest|hottest|most promising) (\d+|two|three|four|five|six|seven|eight|nine|ten)\b|\b(\d+|two|three|four|five|six|seven|eight|nine|ten) (?:\w+ )?(?:best|biggest|largest|smallest|cheapest|worst|weakest|lowest|most|highest|newest|latest|oldest|strongest|hottest|top)\b|\b(\d+|two|three|four|five|six|seven|eight|nine|ten) (?:\w+ )?(?:leads|deals|companies|projects|notes) (?:with|that have) (?:the )?(?:highest|lowest|most|best|largest|smallest)\b`)
	orders   = pattern.New(`(?i)\b(?:sort(?:ed)?|order(?:ed)?|rank(?:ed)?|by)(?: (?:them|it|these))?(?: by| after)? (score|value|name|city|country|status|last contact|due date|created|creation|active users|target|date)\b(?: (?:first|descending|ascending))?`)
	quoted   = pattern.New(`"([^"]+)"`)
	mention  = pattern.New(`(?i)\b(?:mention(?:ing|s)?|contain(?:ing|s)?|saying|that say|with the words?|matching|talk(?:ing)? about|called|named)\s+(.+)$`)
	openOnes = pattern.New(`(?i)\b(?:open|active|running|in the pipeline|in progress|pipeline (?:value|worth)|our pipeline)\b`)
	numbers  = map[string]int{"a": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
)

func numberOf(word string) int {
	if n, ok := numbers[strings.ToLower(word)]; ok {
		return n
	}
	n, _ := strconv.Atoi(word)
	return n
}

func amount(digits, unit string) int {
	digits = strings.TrimRight(digits, ".,")
	if i := strings.LastIndexAny(digits, ".,"); i >= 0 && len(digits)-i-1 == 3 || unit == "" {
		digits = strings.NewReplacer(".", "", ",", "").Replace(digits)
	}
	f, _ := strconv.ParseFloat(strings.ReplaceAll(digits, ",", "."), 64)
	switch strings.ToLower(unit) {
	case "k", "thousand":
		f *= 1000
	case "m", "million":
		f *= 1_000_000
	}
	return int(f)
}

// resourceIn is the resource that a question names.
func resourceIn(text string) string {
	best, at := "", -1
	for _, n := range nouns {
		if m := n.form.FindStringIndex(text); m != nil && (at < 0 || m[0] < at) {
			best, at = n.resource, m[0]
		}
	}
	return best
}

// read adds to q what a question asks for, by what the skill of the resource says.
func (q *query) read(r *resource, text string, now time.Time) {
	takes := func(name string) bool { return r.takes(r.list(), name) }
	lower := strings.ToLower(text)
	rest := text
	if m := quoted.FindStringSubmatch(text); m != nil && takes("q") {
		q.set("q", m[1], "with “"+m[1]+"”")
		rest = strings.ReplaceAll(rest, m[0], "")
	} else if m := mention.FindStringSubmatch(text); m != nil && takes("q") {
		q.set("q", bare(m[1]), "with “"+bare(m[1])+"”")
		rest = strings.ReplaceAll(rest, m[0], "")
	}
	q.enums(r, lower)
	switch {
	case unowned.MatchString(rest) && takes("owner_id"):
		q.set("owner_id", "none", "without an owner")
	case whose.MatchString(rest) && (takes("owner_id") || takes("author_id")):
		q.owner = whose.FindStringSubmatch(rest)[1]
	case mine.MatchString(rest) && (takes("owner_id") || takes("author_id")):
		q.owner = "me"
	}
	if m := lacking.FindStringSubmatch(rest); m != nil {
		name := strings.ToLower(m[1])
		if name != "source" {
			name += "_id"
		}
		if takes(name) {
			q.set(name, "none", "without a "+strings.ToLower(m[1]))
			rest = strings.ReplaceAll(rest, m[0], "")
		}
	}
	for _, m := range places.FindAllStringSubmatch(rest, -1) {
		for _, name := range pattern.New(`\s*(?:,|,? \band\b|,? \bor\b)\s+`).Split(m[1], -1) {
			q.place(takes, name)
		}
	}
	if m := lowPlace.FindStringSubmatch(bare(rest)); m != nil && q.filters["city"] == nil && q.filters["country"] == nil && !aTime.MatchString(m[1]) && q.filters["source"] == nil && !r.hasValue(strings.ToLower(m[1])) {
		q.place(takes, m[1])
	}
	if m := nationality.FindStringSubmatch(rest); m != nil && takes("country") && q.filters["country"] == nil {
		q.set("country", countries[strings.ToLower(m[1])], "in "+countryOf(m[1]))
	}
	if q.owner == "" && q.filters["owner_id"] == nil {
		if m := does.FindStringSubmatch(rest); m != nil && (takes("owner_id") || takes("author_id")) {
			q.owner = m[1]
		} else if m := owned.FindStringSubmatch(rest); m != nil && (takes("owner_id") || takes("author_id")) && !aMonth.MatchString(m[1]) {
			q.owner = m[1]
		}
	}
	if m := atFirm.FindStringSubmatch(rest); m != nil && takes("company_id") && (strings.HasPrefix(strings.ToLower(m[0]), "at ") || strings.HasPrefix(strings.ToLower(m[0]), "with ") || q.resource == "notes") {
		q.company = m[1]
		if q.owner == m[1] {
			q.owner = ""
		}
	}
	if m := betweens.FindStringSubmatch(rest); m != nil {
		name := strings.ReplaceAll(strings.ToLower(m[1]), " ", "_")
		low, high := amount(m[2], m[3]+map[bool]string{true: m[5]}[m[3] == ""]), amount(m[4], m[5])
		if takes("min_" + name) {
			q.filters["min_"+name], q.filters["max_"+name] = low, high
			q.say(name, fmt.Sprintf("with a %s from %s to %s", strings.ToLower(m[1]), grouped(low), grouped(high)))
		}
		rest = strings.ReplaceAll(rest, m[0], "")
	}
	for _, m := range compare.FindAllStringSubmatch(rest, -1) {
		name := map[string]string{"worth": "value", "revenue": "value", "users": "active_users", "active user": "active_users", "active users": "active_users", "user": "active_users"}[strings.ToLower(m[1])]
		if name == "" {
			name = strings.ToLower(m[1])
		}
		q.bound(takes, name, m[2], amount(m[3], m[4]))
	}
	for _, m := range counted.FindAllStringSubmatch(rest, -1) {
		name := "value"
		if strings.HasSuffix(strings.ToLower(m[4]), "users") {
			name = "active_users"
		}
		q.bound(takes, name, m[1], amount(m[2], m[3]))
	}
	q.when(takes, rest, now)
	if noMail.MatchString(rest) && takes("unsubscribed") {
		q.set("unsubscribed", true, "that get no mails")
	}
	if late.MatchString(rest) && takes("due_until") {
		q.set("due_until", now.AddDate(0, 0, -1).Format("2006-01-02"), "past their due date")
		if q.filters["status"] == nil {
			q.filters["status"] = "planned,active,paused"
		}
	}
	q.order(r, lower)
	for _, m := range columns.FindAllStringSubmatch(text, -1) {
		if name := fieldName(m[1]); r.fieldsOf(name) != "" {
			q.columns = append(q.columns, name)
		}
	}
	if name := strings.TrimPrefix(q.sort, "-"); name == "last_contact_on" || name == "created_at" && q.resource == "leads" || name == "target" {
		q.columns = append(q.columns, name)
	}
}

func countryOf(word string) string {
	c := countries[strings.ToLower(word)]
	if c == "United Kingdom" || c == "Netherlands" {
		return "the " + c
	}
	return c
}

func (q *query) place(takes func(string) bool, name string) {
	name = strings.TrimSpace(name)
	if len(name) > 4 && strings.EqualFold(name[:4], "the ") && countries[strings.ToLower(name)] == "" {
		name = name[4:]
	}
	key := strings.ToLower(name)
	switch {
	case aMonth.MatchString(name) || aTime.MatchString(name):
	case countries[key] != "" && takes("country"):
		q.set("country", countries[key], "in "+countryOf(name))
	case takes("city") && !strings.HasPrefix(key, "the "):
		if had, ok := q.filters["city"].(string); ok {
			q.filters["city"] = had + "," + name
			q.said[len(q.said)-1].text += " or " + name
			return
		}
		q.set("city", upper(name), "in "+upper(name))
	case takes("region"):
		q.set("region", upper(name), "in "+upper(name))
	}
}

func upper(s string) string {
	for i, r := range s {
		return strings.ToUpper(string(r)) + s[i+len(string(r)):]
	}
	return s
}

// enums finds the values that filters may have.
func (q *query) enums(r *resource, lower string) {
	words := strings.FieldsFunc(lower, func(c rune) bool { return c == ' ' || c == ',' || c == '.' || c == '?' || c == '!' })
	negated := pattern.New(`\b(?:not|never|n't|except|other than)\b`).MatchString(lower)
	for _, name := range []string{"status", "source", "plan", "industry"} {
		p, ok := r.requests[r.list()][name]
		if !ok {
			continue
		}
		var found []string
		for _, v := range p.values {
			if v == "none" || name == "status" && v == "contacted" && (noCall.MatchString(lower) || longAgo.MatchString(lower)) {
				continue
			}
			if slices.Contains(words, v) || slices.Contains(words, v+"s") || v == "outbound" && slices.Contains(words, "outreach") || v == "won" && (slices.Contains(words, "win") || slices.Contains(words, "wins")) || v == "lost" && slices.Contains(words, "lose") {
				found = append(found, v)
			}
		}
		if name == "status" && len(found) == 0 && openOnes.MatchString(lower) && slices.Contains(p.values, "qualified") {
			found = []string{"new", "contacted", "qualified", "proposal"}
			q.filters["status"] = strings.Join(found, ",")
			q.sayBefore("status", "open")
			continue
		}
		if len(found) == 0 {
			continue
		}
		if negated && name == "status" && len(found) < len(p.values)/2 {
			var others []string
			for _, v := range p.values {
				if !slices.Contains(found, v) {
					others = append(others, v)
				}
			}
			q.set(name, strings.Join(others, ","), "that are not "+strings.Join(found, " or "))
			continue
		}
		q.filters[name] = strings.Join(found, ",")
		switch word := strings.Join(found, " or "); {
		case name == "source":
			q.say(name, "from "+word)
		case name == "plan":
			q.say(name, "on the plan "+word)
		case word == "proposal":
			q.say(name, "with a proposal")
		default:
			q.sayBefore(name, word)
		}
	}
}

func (q *query) bound(takes func(string) bool, name, word string, n int) {
	low, high := "min_"+name, "max_"+name
	if !takes(low) {
		return
	}
	label := strings.ReplaceAll(name, "_", " ")
	shown := grouped(n)
	switch name {
	case "value":
		shown, label = "€"+shown, "a value"
	case "active_users":
	default:
		label = "a " + label
	}
	switch word = strings.ToLower(word); word {
	case "at least", "from", ">=":
		q.set(low, n, fmt.Sprintf("with %s of at least %s", label, shown))
	case "at most", "up to", "<=":
		q.set(high, n, fmt.Sprintf("with %s of at most %s", label, shown))
	case "below", "under", "less than", "lower than", "fewer than", "<":
		q.set(high, n-1, fmt.Sprintf("with %s below %s", label, shown))
	default:
		q.set(low, n+1, fmt.Sprintf("with %s above %s", label, shown))
	}
}

// superlatives are the orders that words ask for; the first sort that the resource has is taken.
var superlatives = []struct {
	form  *pattern.Regexp
	sorts [][2]string
}{
	{re(`most valuable|worth (?:the )?most|biggest|largest|highest value|most money|richest|most expensive`), [][2]string{{"-value", "by value"}, {"-active_users", "by active users"}, {"-target", "by target"}}},
	{re(`best|strongest|hottest|most promising|highest score|warmest|top|highest`), [][2]string{{"-score", "by score"}, {"-active_users", "by active users"}, {"-target", "by target"}}},
	{re(`smallest|least valuable|worth (?:the )?least|cheapest|lowest value`), [][2]string{{"value", "the smallest first"}, {"active_users", "the fewest users first"}, {"target", "the smallest target first"}}},
	{re(`worst|weakest|coldest|lowest score|lowest|least promising`), [][2]string{{"score", "the lowest score first"}, {"active_users", "the fewest users first"}}},
	{re(`most active|most (?:active )?users`), [][2]string{{"-active_users", "by active users"}}},
	{longest, [][2]string{{"last_contact_on", "the longest without contact first"}}},
	{re(`(?:most recently|last) (?:contacted|called|spoken to)`), [][2]string{{"-last_contact_on", "the last contacted first"}}},
	{re(`newest|latest|most recent|recent|recently|just came in|last (?:\d+|few)`), [][2]string{{"-created_at", "the newest first"}}},
	{re(`oldest|earliest`), [][2]string{{"created_at", "the oldest first"}}},
	{re(`due (?:first|next|soonest)|next deadline|soonest`), [][2]string{{"due_on", "by due date"}}},
}

var (
	superlative = re(`most valuable|worth (?:the )?(?:most|least)|most money|most expensive|(?:most|least) promising|most active(?: users)?|most users|most recent(?:ly)?|recently|just came in|(?:highest|lowest) (?:score|value)|least valuable|biggest|largest|richest|best|strongest|hottest|warmest|highest|smallest|cheapest|worst|weakest|coldest|lowest|newest|latest|oldest|earliest|soonest|due (?:first|next|soonest)|next deadline|last (?:\d+|few)`)
	longest     = pattern.New(`(?i)(?:(?:\bnot|n't|\bnobody|\bno one)\b.*\b(?:contacted|spoken|talked|heard|touched|called)\b.*\blongest(?: time)?|\blongest (?:ago|without (?:a )?(?:contact|call|word))|\b(?:contacted|spoken to|called|talked to) (?:the )?longest ago|\bwaiting (?:the )?longest|\bleast recently (?:contacted|called))\b`)
	noMail      = re(`unsubscribed|(?:get|want|receive)s? no (?:mails?|e-?mails?|newsletters?)|opted out`)
	updated     = pattern.New(`(?i)\b(?:changed|updated|modified|edited)\b`)
	late        = pattern.New(`(?i)\b(?:overdue|(?:running|run|are|is) (?:late|behind)|late|behind schedule|past (?:their|its|the) (?:due date|deadline)|missed (?:their|its|the) deadline)\b`)
	columns     = pattern.New(`(?i)\b(?:the )?(e-?mail|phone number|phone|telephone|source|job title|domain|website|description|last contact)(?: address(?:es)?|s)? (?:and|of|for)\b`)
)

func (q *query) order(r *resource, lower string) {
	sorts := r.requests[r.list()]["sort"].values
	by := func(name, said string) {
		if slices.Contains(sorts, name) && q.sort == "" {
			q.sort, q.sorted = name, said
		}
	}
	if m := orders.FindStringSubmatch(lower); m != nil {
		name := map[string]string{"last contact": "last_contact_on", "due date": "due_on", "created": "created_at", "creation": "created_at", "date": "created_at", "active users": "active_users"}[m[1]]
		if name == "" {
			name = m[1]
		}
		switch name {
		case "score", "value", "active_users", "target", "created_at", "last_contact_on":
			by("-"+name, "by "+m[1])
		default:
			by(name, "by "+m[1])
		}
	}
	for _, o := range superlatives {
		if o.form.MatchString(lower) {
			for _, s := range o.sorts {
				by(s[0], s[1])
			}
			break
		}
	}
	if m := top.FindStringSubmatch(lower); m != nil {
		q.most = numberOf(m[1] + m[2] + m[3])
	} else if pattern.New(`\b(?:which|what|who)\b.*\b(?:lead|deal|company|project|note)\b.*\b(?:most|best|biggest|largest|highest|newest|oldest|latest|first|worst|lowest)\b`).MatchString(lower) || pattern.New(`\bthe (?:best|biggest|largest|newest|oldest|latest|cheapest|smallest|worst|lowest|highest|strongest|hottest|most \w+) (?:\w+ )?(?:lead|deal|company|project|note)\b`).MatchString(lower) {
		q.most = 1
	}
}

func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
