package homeassistant

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/nearest"
	"github.com/parley-server/parley/internal/seam"
)

// Query says what to look for. All fields that are set must match.
type Query struct {
	Text        string   // words of names, ids, areas, devices, makers; misspelt words match too
	Domain      string   // light, sensor ...
	Area        string   // id or name, of an area or a floor
	DeviceClass string   // temperature, motion ...
	State       string   // on, unavailable ...
	Device      string   // id or name
	Integration string   // zha, mqtt ...
	IDs         []string // ids or patterns with *
	Limit       int      // 0: 20
}

// Hit is a matching entity, and how well it matches.
type Hit struct {
	Entity
	Score float64 `json:"score"`
}

// Search finds entities, the best matches first, and returns the total number of matches.
func (x *Index) Search(q Query) (hits []Hit, total int) {
	words := keyword.Of(strings.NewReplacer("_", " ", ".", " ").Replace(q.Text))
	if len(words) == 0 && strings.TrimSpace(q.Text) != "" {
		words = strings.Fields(strings.ToLower(q.Text))
	}
	for _, e := range x.Entities() {
		if !q.admits(e, x) {
			continue
		}
		score := 1.0
		if len(words) > 0 {
			score = x.score(e, words, strings.ToLower(strings.TrimSpace(q.Text)))
		}
		if score > 0 {
			hits = append(hits, Hit{e, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID))
	})
	// A reader who names a thing exactly does not want similar ones.
	if len(words) > 0 && len(hits) > 0 {
		best := hits[0].Score
		hits = slices.DeleteFunc(hits, func(h Hit) bool { return h.Score < best/3 })
	}
	return hits[:min(len(hits), or(q.Limit, 20))], len(hits)
}

func (q Query) admits(e Entity, x *Index) bool {
	like := func(want string, have ...string) bool {
		if want == "" {
			return true
		}
		for _, h := range have {
			if h != "" && plain(h) == plain(want) {
				return true
			}
		}
		return false
	}
	if q.Domain != "" && domainOf(e.ID) != strings.ToLower(q.Domain) {
		return false
	}
	if len(q.IDs) > 0 && !slices.ContainsFunc(q.IDs, func(p string) bool { ok, _ := path.Match(p, e.ID); return ok }) {
		return false
	}
	areas := []string{e.AreaID, e.Area, e.Floor}
	if q.Area != "" {
		areas = append(areas, x.aliases(e.AreaID)...)
	}
	return like(q.Area, areas...) && like(q.DeviceClass, e.DeviceClass) && like(q.State, e.State) &&
		like(q.Device, e.DeviceID, e.Device) && like(q.Integration, e.Integration)
}

func (x *Index) aliases(area string) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if a := x.areas[area]; a != nil {
		return append([]string{a.FloorID}, a.Aliases...)
	}
	return nil
}

func plain(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return strings.ContainsRune(" _-.'’", r) }), " ")
}

// score says how well an entity matches the words. Each word counts by the best field it is
// found in; a word that is not found costs much.
func (x *Index) score(e Entity, words []string, whole string) float64 {
	if e.ID == whole {
		return 100
	}
	places := []struct {
		text   string
		weight float64
	}{
		{e.Name, 3},
		{e.ID, 3},
		{e.Area, 2},
		{e.Device, 2},
		{e.DeviceClass, 2},
		{e.Floor, 1},
		{e.Integration, 1},
		{e.Manufacturer + " " + e.Model, 1},
		{strings.Join(x.aliases(e.AreaID), " "), 1.5},
	}
	var sum float64
	found := 0
	for _, w := range words {
		best := 0.0
		for _, p := range places {
			for _, t := range strings.Fields(plain(p.text)) {
				best = max(best, p.weight*likeness(w, t))
			}
		}
		if best > 0 {
			found++
		}
		sum += best
	}
	if found == 0 || found < len(words) && float64(found) < float64(len(words))*0.5 {
		return 0
	}
	sum *= float64(found) / float64(len(words))
	if plain(e.Name) == plain(whole) {
		sum *= 2
	}
	if e.Disabled || e.Hidden || e.Category != "" { // people seldom mean entities that they do not see
		sum *= 0.7
	}
	switch domainOf(e.ID) { // of two equal matches, prefer the device over automations about it
	case "automation", "script", "scene":
		sum *= 0.95
	}
	return sum
}

// likeness compares a word of the query with one of the house: 1 is the same, 0 unrelated.
// Plurals, prefixes and single typing errors count as alike.
func likeness(ask, have string) float64 {
	if ask == have {
		return 1
	}
	a, h := stem(ask), stem(have)
	if a == h {
		return 0.95
	}
	if len(a) >= 3 && strings.HasPrefix(h, a) {
		return 0.8
	}
	if len(h) >= 4 && strings.HasPrefix(a, h) {
		return 0.6
	}
	if len(a) >= 4 && strings.Contains(h, a) {
		return 0.5
	}
	slips := 1
	if len(a) >= 8 {
		slips = 2
	}
	if len(a) >= 4 && abs(len(a)-len(h)) <= slips {
		if d := nearest.Within(a, h, slips); d <= slips {
			return 0.65 - 0.15*float64(d-1)
		}
	}
	return 0
}

func abs(n int) int { return max(n, -n) }

func stem(w string) string {
	for _, end := range []string{"ies", "es", "s"} {
		if s, ok := strings.CutSuffix(w, end); ok && len(s) >= 3 {
			if end == "ies" {
				return s + "y"
			}
			if end == "es" && !strings.HasSuffix(s, "ch") && !strings.HasSuffix(s, "sh") && !strings.HasSuffix(s, "x") {
				return s + "e"
			}
			return s
		}
	}
	return w
}

// nearest returns the entities that may have been meant: those whose id or name differs from the
// text by the fewest typing errors.
func (x *Index) nearest(written string) []Entity {
	const most = 4
	written = clip(written, longestName)
	want := plain(written)
	_, object, hasDomain := strings.Cut(strings.ToLower(written), ".")
	type near struct {
		e    Entity
		off  float64 // typing errors per letter
		rank int
	}
	var all []near
	for _, e := range x.Entities() {
		_, own, _ := strings.Cut(e.ID, ".")
		best := math.Inf(1)
		try := func(a, b string) {
			if n := max(len(a), len(b)); a != "" && b != "" {
				best = min(best, float64(nearest.Within(a, b, int(tooFar*float64(n))+1))/float64(n))
			}
		}
		try(want, plain(e.ID))
		try(want, plain(e.Name))
		if hasDomain { // the domain may be a wrong guess
			try(plain(object), plain(own))
			try(plain(object), plain(e.Name))
		} else {
			try(want, plain(own))
		}
		if best <= tooFar {
			all = append(all, near{e: e, off: best})
		}
	}
	// A matched word counts as much as similar letters. The domain does not: everything in it would match.
	text := written
	if hasDomain {
		text = object
	}
	hits, _ := x.Search(Query{Text: text, Limit: most})
	for i, h := range hits {
		if at := slices.IndexFunc(all, func(n near) bool { return n.e.ID == h.ID }); at < 0 {
			all = append(all, near{e: h.Entity, off: tooFar, rank: i})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.rank, b.rank), strings.Compare(a.e.ID, b.e.ID))
	})
	var out []Entity
	for _, n := range all[:min(len(all), most)] {
		out = append(out, n.e)
	}
	return out
}

// longestName is how many bytes of an unknown name are compared: the cost is its length times
// that of every name. Home Assistant's own ids end at 255 characters (MAX_LENGTH_STATE_ENTITY_ID
// in homeassistant/const.py).
const longestName = 255

// tooFar is the share of differing letters from which a name counts as a different one.
const tooFar = 0.4

func (x *Index) errUnknown(written string) *parley.Error {
	e := parley.Errorf(parley.CodeNotFound, "there is no entity %q in this Home Assistant", clip(written, 80)).WithField("entity")
	if near := x.nearest(written); len(near) > 0 {
		return e.WithHint("did you mean %s?", named(near))
	}
	return e.WithHint("%s finds entities by name, area, domain or device class", IndexSearch)
}

// named lists entities by id, each with its name.
func named(es []Entity) string {
	var out []string
	for _, e := range es {
		out = append(out, e.ID+" ("+e.Name+")")
	}
	return strings.Join(out, ", ")
}

// nearArea returns the area whose name or alias is nearly the same, or "".
func (x *Index) nearArea(written string) string {
	written = clip(written, longestName)
	best, name := tooFar, ""
	for _, a := range x.Areas() {
		for _, n := range append([]string{a.Name, a.ID}, x.aliases(a.ID)...) {
			w, have := plain(written), plain(n)
			if off := float64(nearest.Distance(w, have)) / float64(max(len(w), len(have), 1)); off < best {
				best, name = off, a.Name
			}
		}
	}
	return name
}

// knowsArea reports whether an area or a floor has this name, id or alias.
func (x *Index) knowsArea(name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for id, a := range x.areas {
		for _, n := range append([]string{id, a.Name}, a.Aliases...) {
			if plain(n) == plain(name) {
				return true
			}
		}
	}
	for id, f := range x.floors {
		if plain(id) == plain(name) || plain(f.Name) == plain(name) {
			return true
		}
	}
	return false
}

// areaLine lists the areas with their aliases, and suggests one in place of an unknown name.
func (x *Index) areaLine(asked string) string {
	var b strings.Builder
	if asked != "" && !x.knowsArea(asked) {
		fmt.Fprintf(&b, "There is no area %q here", clip(asked, 80))
		if near := x.nearArea(asked); near != "" {
			fmt.Fprintf(&b, "; did you mean %s?", near)
		} else {
			b.WriteString(".")
		}
		b.WriteString("\n")
	}
	var names []string
	for _, a := range x.Areas() {
		n := a.Name
		x.mu.RLock()
		var also []string
		if known := x.areas[a.ID]; known != nil {
			also = known.Aliases
		}
		x.mu.RUnlock()
		if len(also) > 0 {
			n += " (also " + strings.Join(also, ", ") + ")"
		}
		names = append(names, n)
	}
	b.WriteString("areas: " + strings.Join(names, ", ") + "\n")
	on := map[string][]string{}
	for _, a := range x.Areas() {
		if a.Floor != "" {
			on[a.Floor] = append(on[a.Floor], a.Name)
		}
	}
	for _, f := range slices.Sorted(maps.Keys(on)) {
		b.WriteString("on the floor " + f + ": " + strings.Join(on[f], ", ") + "\n")
	}
	return b.String()
}

// resolve finds the one entity that an id or a name means.
func (x *Index) resolve(s string) (Entity, error) {
	s = strings.TrimSpace(s)
	if e, ok := x.Entity(strings.ToLower(s)); ok {
		return e, nil
	}
	if strings.Contains(s, ".") {
		return Entity{}, x.errUnknown(s)
	}
	var exact []Entity
	for _, e := range x.Entities() {
		if plain(e.Name) == plain(s) {
			exact = append(exact, e)
		}
	}
	if len(exact) == 1 {
		return exact[0], nil
	}
	e := x.errUnknown(s)
	if len(exact) > 1 {
		e = parley.Errorf(parley.CodeInvalid, "%d entities are called %q", len(exact), clip(s, 80)).WithField("entity").WithHint("give the id: %s", ids(exact))
	}
	return Entity{}, e
}

func ids(es []Entity) string {
	var out []string
	for _, e := range es[:min(len(es), 10)] {
		out = append(out, e.ID)
	}
	return strings.Join(out, ", ")
}

// expand finds the entities that ids, patterns with * and names mean.
func (x *Index) expand(in []string, limit int) ([]Entity, error) {
	var out []Entity
	add := func(e Entity) {
		if !slices.ContainsFunc(out, func(o Entity) bool { return o.ID == e.ID }) {
			out = append(out, e)
		}
	}
	for _, s := range in {
		if !strings.ContainsAny(s, "*?[") {
			e, err := x.resolve(s)
			if err != nil {
				return nil, err
			}
			add(e)
			continue
		}
		before := len(out)
		for _, e := range x.Entities() {
			if ok, _ := path.Match(s, e.ID); ok && e.State != "" {
				add(e)
			}
		}
		if len(out) == before {
			return nil, parley.Errorf(parley.CodeNotFound, "no entity matches %q", clip(s, 80)).WithField("entities").WithHint("%s finds entities", IndexSearch)
		}
	}
	if len(out) > limit {
		return nil, parley.Errorf(parley.CodeTooLarge, "these names match %d entities; at most %d are allowed at once", len(out), limit).WithField("entities").WithHint("name fewer")
	}
	return out, nil
}

// The tool index_search.

type searchInput struct {
	Query       string `json:"query"`
	Domain      string `json:"domain"`
	Area        string `json:"area"`
	DeviceClass string `json:"device_class"`
	State       string `json:"state"`
	Device      string `json:"device"`
	Integration string `json:"integration"`
	Limit       int    `json:"limit"`
}

func (in searchInput) query(limit int) Query {
	return Query{Text: in.Query, Domain: in.Domain, Area: in.Area, DeviceClass: in.DeviceClass, State: in.State, Device: in.Device, Integration: in.Integration, Limit: or(in.Limit, limit)}
}

type found struct {
	Index    Age         `json:"index"`
	Total    int         `json:"total"`
	Entities []foundItem `json:"entities"`
	Areas    []string    `json:"areas,omitempty"`
}

type foundItem struct {
	ID          string  `json:"entity_id"`
	Name        string  `json:"name"`
	State       string  `json:"state"`
	Unit        string  `json:"unit,omitempty"`
	Area        string  `json:"area,omitempty"`
	Device      string  `json:"device,omitempty"`
	DeviceClass string  `json:"device_class,omitempty"`
	Integration string  `json:"integration,omitempty"`
	Changed     string  `json:"last_changed,omitempty"`
	Score       float64 `json:"score,omitempty"`
	Attributes  any     `json:"attributes,omitempty"`
}

func (x *Index) item(e Entity) foundItem {
	it := foundItem{ID: e.ID, Name: e.Name, State: e.State, Unit: e.Unit, Area: e.Area, Device: e.Device, DeviceClass: e.DeviceClass, Integration: e.Integration}
	if !e.Changed.IsZero() {
		it.Changed = x.local(e.Changed)
	}
	return it
}

func (it foundItem) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s = %s", it.ID, or(it.State, "(no state)"))
	if it.Unit != "" {
		b.WriteString(" " + it.Unit)
	}
	fmt.Fprintf(&b, " · %s", it.Name)
	for _, p := range []string{it.Area, it.DeviceClass, it.Integration} {
		if p != "" {
			b.WriteString(" · " + p)
		}
	}
	if it.Changed != "" {
		b.WriteString(" · since " + it.Changed)
	}
	return b.String()
}

func (t *Toolset) search(ctx context.Context, _ seam.Run, in searchInput) (answer, error) {
	if err := t.index.ready(ctx); err != nil {
		return answer{}, err
	}
	q := in.query(20)
	hits, total := t.index.Search(q)
	out := found{Index: t.index.Age(), Total: total, Entities: []foundItem{}}
	var b strings.Builder
	if total == 0 {
		b.WriteString("No entity matches.\n")
		for _, a := range t.index.Areas() {
			out.Areas = append(out.Areas, a.Name)
		}
	} else if total == 1 {
		b.WriteString("1 entity matches:\n")
	} else {
		fmt.Fprintf(&b, "%d of %d entities match, the best first:\n", len(hits), total)
	}
	for _, h := range hits {
		it := t.index.item(h.Entity)
		it.Score = float64(int(h.Score*100)) / 100
		out.Entities = append(out.Entities, it)
		b.WriteString("- " + it.line() + "\n")
	}
	b.WriteString(t.index.areaLine(in.Area))
	b.WriteString(out.Index.String())
	return answer{b.String(), out, few(hits, func(h Hit) string { return h.ID })}, nil
}
