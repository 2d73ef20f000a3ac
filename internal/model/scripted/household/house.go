package household

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// entity is one line of a tool's list.
type entity struct {
	id, name, state, unit, area, class, since string
	attrs                                     map[string]any
	tags                                      []string // what else its line has, such as its integration
}

func (e entity) domain() string { d, _, _ := strings.Cut(e.id, "."); return d }

func (e entity) value() (float64, bool) {
	f, err := strconv.ParseFloat(e.state, 64)
	return f, err == nil
}

func (e entity) number(attr string) (float64, bool) {
	f, ok := e.attrs[attr].(float64)
	return f, ok
}

func (e entity) lost() bool { return e.state == "unavailable" }

// house is what the searches have found out.
type house struct {
	areas   []string
	aliases map[string]string   // other names of areas, each with the area's own
	floors  map[string][]string // the areas of each floor
	hits    []entity
	seen    []entity        // all entities read
	words   map[string]bool // the words of what was found
	asked   []string        // the words searched for
	now     time.Time
}

var (
	entityLine = pattern.New(`^- (\S+\.\S+) = (.*)$`)
	areasLine  = pattern.New(`(?m)^areas: (.*)$`)
	areaName   = pattern.New(`([^,(]+?)(?: \(also ([^)]*)\))?(?:, |$)`)
	floorLine  = pattern.New(`(?m)^on the floor (.*?): (.*)$`)
	nowLine    = pattern.New(`(?m)^now: \w+ (\d{4}-\d\d-\d\d \d\d:\d\d\S*) \(([^)]*)\)$`)
	sinceField = pattern.New(`^since (\d{4}-.*)$`)
)

func readHouse(found []Result) house {
	h := house{aliases: map[string]string{}, words: map[string]bool{}, floors: map[string][]string{}}
	for _, r := range found {
		if m := areasLine.FindStringSubmatch(r.Output); m != nil && h.areas == nil {
			for _, a := range areaName.FindAllStringSubmatch(m[1], -1) {
				name := strings.TrimSpace(a[1])
				h.areas = append(h.areas, name)
				h.aliases[strings.ToLower(name)] = name
				for also := range strings.SplitSeq(a[2], ", ") {
					if also != "" {
						h.aliases[strings.ToLower(also)] = name
					}
				}
			}
		}
		for _, m := range floorLine.FindAllStringSubmatch(r.Output, -1) {
			h.floors[strings.ToLower(m[1])] = strings.Split(m[2], ", ")
		}
		for _, e := range entities(r.Output, h.areas) {
			if !slices.ContainsFunc(h.hits, func(o entity) bool { return o.id == e.id }) {
				h.hits = append(h.hits, e)
			}
		}
		h.now = nowIn(r.Output, h.now)
		h.asked = append(h.asked, clean(textOf(r.Input["query"]))...)
	}
	for _, e := range h.hits {
		for _, w := range clean(strings.ReplaceAll(e.name+" "+strings.ReplaceAll(e.id, ".", " "), "_", " ")) {
			h.words[w], h.words[stem(w)] = true, true
		}
	}
	for a := range h.aliases {
		for _, w := range clean(a) {
			h.words[w] = true
		}
	}
	return h
}

// began reports whether the records of the house begin at this moment. Things that never
// changed all have that time; nothing happened then.
func (h house) began(t time.Time) bool {
	at := map[string]string{}
	first := ""
	for _, e := range h.seen {
		if e.unit == "" && e.since != "" {
			at[e.id] = e.since
			if first == "" || e.since < first {
				first = e.since
			}
		}
	}
	n := 0
	for _, since := range at {
		if since == first {
			n++
		}
	}
	return n >= 2 && t.Equal(moment(first))
}

func textOf(v any) string { s, _ := v.(string); return s }

// nowIn returns the present time as a result states it, in the zone of the house.
func nowIn(text string, otherwise time.Time) time.Time {
	m := nowLine.FindStringSubmatch(text)
	if m == nil {
		return otherwise
	}
	t, err := time.Parse("2006-01-02 15:04Z07:00", m[1])
	if err != nil {
		return otherwise
	}
	return t
}

// entities reads the lines of a list, with the attributes below them.
func entities(text string, areas []string) []entity {
	var out []entity
	for line := range strings.SplitSeq(text, "\n") {
		if n := len(out); n > 0 && strings.HasPrefix(line, "  {") {
			_ = json.Unmarshal([]byte(strings.TrimSpace(line)), &out[n-1].attrs) // truncated attributes are dropped
			continue
		}
		m := entityLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		parts := strings.Split(m[2], " · ")
		e := entity{id: m[1], state: parts[0]}
		if v, unit, ok := strings.Cut(parts[0], " "); ok {
			if _, err := strconv.ParseFloat(v, 64); err == nil {
				e.state, e.unit = v, unit
			}
		}
		if len(parts) > 1 {
			e.name = parts[1]
		}
		for i, p := range parts {
			switch s := sinceField.FindStringSubmatch(p); {
			case i < 2:
			case s != nil:
				e.since = s[1]
			case e.area == "" && slices.Contains(areas, p):
				e.area = p
			default:
				e.tags = append(e.tags, strings.ToLower(p))
				if e.class == "" {
					e.class = p
				}
			}
		}
		out = append(out, e)
	}
	return out
}

// pick returns the words of a text that name something, for a search.
func pick(text string, most int) []string {
	var out []string
	ws := clean(text)
	for i, w := range ws {
		w = strings.TrimSuffix(w, "'s")
		if other, ok := also[w]; ok {
			w = other
		}
		beside := i+1 < len(ws) && thing[ws[i+1]] && idle[w] && len(w) > 3 && adjective[w] // "the left lamp"
		if (!idle[w] || beside) && !pronouns[w] && number.FindString(w) != w && !slices.Contains(out, w) && w != "%" && w != "°" && len(out) < most {
			out = append(out, w)
		}
	}
	return out
}

// searches returns the searches for what the question names. If the question leans on
// earlier ones, they include what those and their answers named.
func (u *turn) searches() []Call {
	own := pick(u.Question, 12)
	flat := strings.ToLower(u.Question)
	queries := []string{strings.Join(own, " ")}
	leans := len(own) <= 2 || leaningStart.MatchString(flat) || slices.ContainsFunc(clean(flat), func(w string) bool { return pronouns[w] })
	for _, x := range slices.Backward(u.Earlier) {
		if !leans {
			break
		}
		before := pick(x.Question, 6)
		queries = append(queries, strings.Join(before, " "), strings.Join(pick(firstLine(x.Answer), 6), " "))
		leans = len(before) == 0
	}
	if len(own) == 0 { // what was changed before may be meant
		names := 0
		for _, x := range slices.Backward(u.Earlier) {
			for _, m := range doneLine.FindAllStringSubmatch(x.Answer, 3) {
				if names++; names <= 3 {
					queries = append(queries, strings.Join(pick(m[1], 6), " "))
				}
			}
		}
	}
	var calls []Call
	const most = 6
	for i, q := range queries {
		if (q != "" || i == len(queries)-1 && calls == nil) && !slices.Contains(queries[:i], q) && len(calls) < most {
			calls = append(calls, Call{Tool: search, Input: map[string]any{"query": q, "limit": 40}})
		}
	}
	if calls == nil { // the question names nothing
		calls = append(calls, Call{Tool: search, Input: map[string]any{"query": "", "limit": 40}})
	}
	return calls
}

// thing has the words for kinds of things that people qualify by one more word.
var (
	thing     = words("light lights lamp lamps bulb door window blind plug sensor radiator fan speaker tv machine room")
	adjective = words("left right night front back middle side")
)

// areasIn finds the rooms that the words name. lost is a common room that this house
// does not have.
func (u *turn) areasIn(ws []string) (areas []string, lost string) {
	add := func(name string) {
		if !slices.Contains(areas, name) {
			areas = append(areas, name)
		}
	}
	for alias, name := range u.know.aliases {
		if has(ws, alias) || has(ws, strings.ReplaceAll(alias, "'s", "s")) {
			add(name)
		}
	}
	if floor := u.floorIn(ws); floor != "" {
		for _, a := range u.know.floors[floor] {
			add(a)
		}
		slices.Sort(areas)
		return areas, ""
	}
	slices.Sort(areas)
	if len(areas) > 1 { // the longest name wins: the "room" of "kids room" is not another room
		areas = slices.DeleteFunc(areas, func(a string) bool {
			return slices.ContainsFunc(areas, func(o string) bool { return o != a && strings.Contains(strings.ToLower(o), strings.ToLower(a)) })
		})
	}
	for _, names := range rooms {
		found := at(ws, strings.Join(names, "|"))
		if found == nil {
			continue
		}
		known := ""
		for _, n := range names {
			if a, ok := u.know.aliases[n]; ok {
				known = a
			}
		}
		switch {
		case known != "" && (len(areas) == 0 || !soft[strings.Join(found, " ")]):
			add(known)
		case known == "" && !slices.ContainsFunc(u.know.hits, func(e entity) bool { return strings.Contains(strings.ToLower(e.name), strings.Join(found, " ")) }):
			lost = strings.Join(found, " ")
		}
	}
	if len(areas) == 0 && lost == "" {
		for _, w := range ws {
			for alias, name := range u.know.aliases {
				if len(w) >= 5 && !idle[w] && !strings.Contains(alias, " ") && alike(w, alias) {
					add(name)
				}
			}
		}
	}
	if len(areas) > 0 {
		lost = ""
	}
	return areas, lost
}

// soft has words for rooms that also mean other things.
var soft = words("bed bath shower study den entry landing outside outdoor kids")

// namesIn finds the words that name a thing, besides its kind and its room. Words that
// nothing in the house has are unknown. After the thing they are no part of its name;
// the ask then keeps them as unsaid.
func (u *turn) namesIn(q *ask) (names, unknown []string) {
	used := map[string]bool{}
	mark := func(ws []string) {
		for _, w := range ws {
			used[w] = true
		}
	}
	if q.kind != nil {
		mark(at(q.ws, q.kind.words))
		mark(at(q.ws, strings.Trim(q.kind.low+"|"+q.kind.high, "|")))
	}
	for _, alias := range areaWords(u.know.aliases, q.areas) {
		mark(at(q.ws, alias))
	}
	if q.lost != "" {
		mark(strings.Fields(q.lost))
	}
	last := -1 // index of the last word for something in the house
	for i, w := range q.ws {
		if w = strings.TrimSuffix(w, "'s"); used[w] || also[w] != "" || !idle[w] && !pronouns[w] && u.inHouse(w) {
			last = i
		}
	}
	for i, w := range q.ws {
		w = strings.TrimSuffix(w, "'s")
		if other, ok := also[w]; ok && !used[w] {
			w = other
		}
		if number.FindString(w) == w || used[w] || pronouns[w] {
			continue
		}
		known := u.inHouse(w)
		if idle[w] {
			known = known && u.beside(q, i, w)
		}
		lacking := adjective[w] && !known && i+1 < len(q.ws) && thing[q.ws[i+1]] // "the back door"
		switch {
		case lacking:
			names, unknown = append(names, w), append(unknown, w)
		case idle[w] && !known:
		case known:
			names = append(names, strings.Fields(w)...)
		case last >= 0 && i > last && !placing.MatchString(strings.Join(q.ws[max(0, i-3):i], " ")): // this is what is asked about it
			q.unsaid = append(q.unsaid, w)
		case i > 0 && (determiner[q.ws[i-1]] || i > 1 && determiner[q.ws[i-2]] && !idle[q.ws[i-1]]):
			names, unknown = append(names, w), append(unknown, w)
		case q.kind != nil && q.kind.measure && i+1 < len(q.ws) && used[q.ws[i+1]]: // solar power is not any power
			names, unknown = append(names, w), append(unknown, w)
		case q.kind == nil && len(q.areas) == 0:
			names, unknown = append(names, w), append(unknown, w)
		}
	}
	return names, unknown
}

// placing matches what comes before a name that follows a thing: "the light in the
// cellar".
var placing = pattern.New(`\b(?:in|of|from|called|named|by|for|and|or)(?: (?:the|my|our|your|a|an|old|new|other))*$`)

var determiner = words("the my our your a an this that his her any about")

// beside reports whether a word that usually names nothing is part of a name here. It is
// next to another word of that name, as in "bedside left", or before the word for its
// kind, as in "the left lamp".
func (u *turn) beside(q *ask, i int, w string) bool {
	if adjective[w] && i+1 < len(q.ws) && (q.ws[i+1] == "one" || q.ws[i+1] == "ones") {
		return true // "the left one"
	}
	for _, j := range []int{i - 1, i + 1} {
		if j < 0 || j >= len(q.ws) {
			continue
		}
		other := q.ws[j]
		kindly := j > i && q.kind != nil && has([]string{other}, q.kind.words) && adjective[w]
		if slices.ContainsFunc(u.know.hits, func(e entity) bool {
			return len(w) > 3 && !strings.Contains("automation script scene", e.domain()) && u.named(e, w) && (!idle[other] && u.named(e, other) || kindly && q.kind.fits(e))
		}) {
			return true
		}
	}
	return false
}

func areaWords(aliases map[string]string, areas []string) []string {
	var out []string
	for alias, name := range aliases {
		if slices.Contains(areas, name) {
			out = append(out, alias)
		}
	}
	for _, names := range rooms {
		if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(areas, aliases[n]) }) {
			out = append(out, names...)
		}
	}
	return out
}

// inHouse reports whether anything found has the word in its name.
func (u *turn) inHouse(w string) bool {
	return slices.ContainsFunc(u.know.hits, func(e entity) bool { return u.named(e, w) })
}

func (u *turn) named(e entity, w string) bool {
	for part := range strings.FieldsSeq(w) {
		if !slices.ContainsFunc(clean(e.name+" "+strings.NewReplacer("_", " ", ".", " ").Replace(e.id)), func(have string) bool { return alike(part, strings.TrimSuffix(have, "'s")) }) {
			return false
		}
	}
	return true
}

// things returns the entities that a question names: those found that have all its
// words. It returns none if the question has no names.
func (u *turn) things(q *ask) []entity {
	var words []string
	for _, n := range q.names {
		if !slices.Contains(q.unknown, n) {
			words = append(words, n)
		}
	}
	if len(words) == 0 {
		return nil
	}
	var out []entity
	most := 0
	for _, e := range u.know.hits {
		n := 0
		for _, w := range words {
			if u.named(e, w) {
				n++
			}
		}
		if len(q.areas) > 0 && !slices.Contains(q.areas, e.area) {
			continue
		}
		switch {
		case n < most || n == 0:
		case n > most:
			most, out = n, []entity{e}
		default:
			out = append(out, e)
		}
	}
	return out
}

// fits reports whether an entity is of this kind.
func (k *kind) fits(e entity) bool {
	return (k.domain == "" || e.domain() == k.domain) && (k.class == "" || e.class == k.class || k.class == "shutter" && e.domain() == "cover" && e.class != "garage")
}
