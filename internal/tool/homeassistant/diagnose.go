package homeassistant

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/seam"
)

// The tool diagnose_entity.

type diagnoseInput struct {
	Entity string `json:"entity"`
	span
}

type diagnosis struct {
	Index        Age                 `json:"index"`
	From         string              `json:"from"`
	To           string              `json:"to"`
	Entity       foundItem           `json:"entity"`
	Findings     []string            `json:"findings"`
	Availability availability        `json:"availability"`
	History      historyItem         `json:"history"`
	Episodes     []episode           `json:"episodes"`
	Together     []together          `json:"changed_together"`
	Looked       int                 `json:"episodes_compared"`   // against other events at the same time
	Causes       map[string]int      `json:"caused_by,omitempty"` // changes (of a group: its members' too), by the cause that Home Assistant names
	Siblings     []foundItem         `json:"device_siblings"`
	Members      []member            `json:"members,omitempty"` // of a group
	Related      map[string][]string `json:"related"`
	Logbook      []logbookRow        `json:"logbook"`
	Errors       []errorGroup        `json:"errors"`
	Missing      []string            `json:"missing,omitempty"` // what could not be read, and why
}

type availability struct {
	Share       float64 `json:"available_share"`
	Outages     int     `json:"outages"`
	Seconds     float64 `json:"unavailable_s"`
	LongestSecs float64 `json:"longest_s"`
	Now         bool    `json:"available_now"`
}

// episode is a moment at which the entity misbehaved: it was lost, it flipped back at once, or
// its value was far from the others.
type episode struct {
	At   string `json:"at"`
	What string `json:"what"`
	at   time.Time
}

// member is a member of a group. The group's own history shows little, because the group is on
// while any member is.
type member struct {
	ID       string         `json:"entity_id"`
	Name     string         `json:"name"`
	State    string         `json:"state"`
	Episodes int            `json:"unusual_moments"`
	Changes  int            `json:"changes"`
	Causes   map[string]int `json:"caused_by,omitempty"` // its own changes
}

// membersOf returns the ids of a group's members. A scene has none: it only sets what it lists.
func membersOf(e Entity) []string {
	var of struct {
		IDs []string `json:"entity_id"`
	}
	if json.Unmarshal(e.Attributes, &of) != nil || domainOf(e.ID) == "scene" {
		return nil
	}
	return slices.DeleteFunc(of.IDs, func(id string) bool { return id == e.ID })
}

// members adds the episodes of a group's members to the group's own.
func (t *Toolset) members(ctx context.Context, e Entity, from, to time.Time, d *diagnosis) error {
	of := membersOf(e)
	var es []Entity
	for _, id := range of[:min(len(of), maxMembers)] {
		if m, ok := t.index.Entity(id); ok {
			es = append(es, m)
		}
	}
	if len(es) == 0 {
		return nil
	}
	past, err := t.past(ctx, es, from, to)
	if err != nil {
		return err
	}
	for _, s := range past {
		own := s.episodes()
		d.Members = append(d.Members, member{ID: s.e.ID, Name: s.e.Name, State: s.e.State, Episodes: len(own), Changes: s.changes()})
		for _, ep := range own {
			ep.What = s.e.Name + " " + ep.What
			d.Episodes = append(d.Episodes, ep)
		}
	}
	slices.SortStableFunc(d.Episodes, func(a, b episode) int { return a.at.Compare(b.at) })
	merged := d.Episodes[:0]
	for _, ep := range d.Episodes {
		if n := len(merged); n > 0 && ep.at.Sub(merged[n-1].at) < oneMoment {
			merged[n-1].What += ", " + ep.What
			continue
		}
		merged = append(merged, ep)
	}
	d.Episodes = merged[:min(len(merged), maxEpisodes)]
	return nil
}

// together is something that happened near the episodes.
type together struct {
	ID        string   `json:"entity_id"`
	Name      string   `json:"name"`
	What      string   `json:"what"`
	Episodes  int      `json:"episodes"`             // at how many of them
	InAll     int      `json:"in_all"`               // how often it happened in the whole span
	Without   int      `json:"without"`              // how often of these at no episode
	WithoutAt []string `json:"without_at,omitempty"` // the first of these times
	Lead      float64  `json:"seconds_before"`
	Example   string   `json:"example"`
}

// often says at how many of so many episodes it happened, and when it did at none.
func (w together) often(of int) string {
	s := fmt.Sprintf("%s at %d of the %d moments, %d times in all", w.What, w.Episodes, of, w.InAll)
	if w.Without > 0 {
		s += fmt.Sprintf(", %d of them at no such moment (%s", w.Without, strings.Join(w.WithoutAt, "; "))
		if w.Without > len(w.WithoutAt) {
			s += "; …"
		}
		s += ")"
	}
	return s
}

const (
	maxEpisodes = 40
	maxMembers  = 20
	maxTogether = 12
	maxAlone    = 8 // times at which a coinciding event happened at no episode
	maxSuspects = 4 // coinciding entities that the next question is assumed to be about, too
	maxSensors  = 60
	oneMoment   = 20 * time.Second // events closer than this are one episode
	flip        = 15 * time.Second // a state that lasts less was not intended
	before      = 10 * time.Second // how long before an episode its cause may lie
	after       = 3 * time.Second
	nearby      = 45 * time.Second // how far from an episode a sensor's unusual value may lie: sensors report late
)

// episodes finds the episodes in a series. Moments close to each other are one episode.
func (s series) episodes() []episode {
	var out []episode
	add := func(at time.Time, what string) {
		if n := len(out); n > 0 && at.Sub(out[n-1].at) < oneMoment {
			if !strings.Contains(out[n-1].What, what) {
				out[n-1].What += ", " + what
			}
			return
		}
		if len(out) < maxEpisodes {
			out = append(out, episode{at: at, What: what})
		}
	}
	if f, ok := s.figures(); ok && s.numeric {
		odd := f.unusual
		for _, p := range s.points {
			switch {
			case unknown(p.state):
				add(p.at, p.state)
			case slices.Contains(odd, p):
				add(p.at, p.state+" "+s.e.Unit+" is unusual")
			}
		}
		return out
	}
	momentary := slices.Contains([]string{"button", "event", "scene", "script", "sensor", "person", "device_tracker"}, domainOf(s.e.ID))
	for i, p := range s.points {
		if i == 0 && !unknown(p.state) {
			continue
		}
		stood := s.until(i).Sub(p.at)
		switch {
		case unknown(p.state):
			add(p.at, fmt.Sprintf("%s for %s", or(p.state, "no state"), since(stood.Round(100*time.Millisecond))))
		case i+1 < len(s.points) && stood < flip && !momentary && !unknown(s.points[i-1].state):
			add(p.at, fmt.Sprintf("%s for only %s", clip(p.state, 40), stood.Round(100*time.Millisecond)))
		}
	}
	// Each state lasted long enough, but there were too many changes.
	if len(out) == 0 && len(s.points) > 8 && !momentary {
		for i := 1; i+3 < len(s.points); i++ {
			if s.points[i+3].at.Sub(s.points[i].at) < 5*time.Minute {
				add(s.points[i].at, "toggled to "+clip(s.points[i].state, 40))
			}
		}
	}
	return out
}

func (t *Toolset) diagnose(ctx context.Context, r seam.Run, in diagnoseInput) (answer, error) {
	if err := t.index.ready(ctx); err != nil {
		return answer{}, err
	}
	e, err := t.index.resolve(in.Entity)
	if err != nil {
		return answer{}, err
	}
	from, to, err := in.of(t.index, t.o.Now(), 24)
	if err != nil {
		return answer{}, err
	}
	d := diagnosis{From: t.index.local(from), To: t.index.local(to), Findings: []string{}, Episodes: []episode{}, Together: []together{}, Siblings: []foundItem{}, Related: map[string][]string{}, Logbook: []logbookRow{}, Errors: []errorGroup{}}
	miss := func(what string, err error) { d.Missing = append(d.Missing, what+": "+clip(err.Error(), 200)) }

	r.Progress("Reading the history of " + e.ID)
	past, err := t.past(ctx, []Entity{e}, from, to)
	if err != nil {
		return answer{}, err
	}
	s := past[0]
	if live, why, err := t.live(ctx, []Entity{e}); err != nil {
		miss("state", err)
	} else if why != nil {
		miss("state", why)
	} else if len(live) == 1 {
		e = live[0]
	}
	d.Entity = t.index.item(e)
	d.Entity.Attributes = attributes(e.Attributes)
	d.History = t.describe(s)
	d.Availability = s.availability(e)
	d.Episodes = append(d.Episodes, s.episodes()...)
	if err := t.members(ctx, e, from, to, &d); err != nil {
		miss("members of the group", err)
	}
	for i := range d.Episodes {
		d.Episodes[i].At = t.index.local(d.Episodes[i].at)
	}

	for _, o := range t.index.Entities() {
		if o.DeviceID == e.DeviceID && e.DeviceID != "" && o.ID != e.ID && len(d.Siblings) < 20 {
			d.Siblings = append(d.Siblings, t.index.item(o))
		}
	}
	t.related(ctx, e, &d, miss)
	t.own(ctx, e, from, to, &d, miss)

	r.Progress("Looking for what happened at the same moments")
	if len(d.Episodes) > 0 {
		if err := t.coincide(ctx, e, from, to, &d); err != nil {
			miss("what happened at the same moments", err)
		}
	}
	r.Progress("Reading the log of errors")
	if entries, _, err := t.logs(ctx); err != nil {
		miss("errors", err)
	} else {
		d.Errors = append(d.Errors, t.errorsOf(entries, e, d.members(), d.Together, from, to)...)
	}
	d.conclude(e)
	d.Index = t.index.Age()
	about := []string{e.ID}
	for _, with := range d.Together[:min(len(d.Together), maxSuspects)] {
		about = append(about, with.ID)
	}
	return answer{d.text(), d, append(about, few(d.Members, func(m member) string { return m.ID })...)}, nil
}

func (s series) availability(e Entity) availability {
	a := availability{Share: 1, Now: !unknown(e.State)}
	for _, g := range s.gaps() {
		a.Outages++
		a.Seconds += g.to.Sub(g.from).Seconds()
		a.LongestSecs = max(a.LongestSecs, g.to.Sub(g.from).Seconds())
	}
	a.Share = round(1 - a.Seconds/s.to.Sub(s.from).Seconds())
	a.Seconds, a.LongestSecs = round(a.Seconds), round(a.LongestSecs)
	return a
}

// routines are the domains of what uses other entities.
var routines = []string{"automation", "script", "scene"}

// related finds what uses the entity or, for a group, one of its members. Of an automation, a script
// or a scene it finds the entities that it uses.
func (t *Toolset) related(ctx context.Context, e Entity, d *diagnosis, miss func(string, error)) {
	for _, id := range append([]string{e.ID}, d.members()...) {
		var of map[string][]string
		kind := "entity"
		if domain, _, _ := strings.Cut(id, "."); slices.Contains(routines, domain) {
			kind = domain
		}
		if err := t.client.ask(ctx, "search/related", map[string]any{"item_type": kind, "item_id": id}, &of); err != nil {
			miss("related automations", err)
			return
		}
		for kind, ids := range of {
			for _, one := range ids {
				if kind != "config_entry" && one != e.ID && !slices.Contains(d.Related[kind], one) {
					d.Related[kind] = append(d.Related[kind], one)
				}
			}
		}
	}
}

func (d *diagnosis) members() []string {
	var out []string
	for _, m := range d.Members {
		out = append(out, m.ID)
	}
	return out
}

// own reads the logbook entries of the entity itself and, for a group, of its members, and
// counts causes.
func (t *Toolset) own(ctx context.Context, e Entity, from, to time.Time, d *diagnosis, miss func(string, error)) {
	rows, err := t.book(ctx, append([]string{e.ID}, d.members()...), from, to)
	if err != nil {
		miss("logbook", err)
		return
	}
	d.Causes = map[string]int{}
	for _, r := range rows {
		cause := or(r.person, "a person")
		switch {
		case r.ByEntity != "" && r.ByName != "":
			cause = r.ByEntity + " (" + clip(r.ByName, 80) + ")"
		case r.ByEntity != "":
			cause = r.ByEntity
		case r.User == "":
			continue
		}
		d.Causes[cause]++
		for i := range d.Members {
			if m := &d.Members[i]; m.ID == r.EntityID {
				if m.Causes == nil {
					m.Causes = map[string]int{}
				}
				m.Causes[cause]++
			}
		}
	}
	for _, r := range rows[max(0, len(rows)-15):] {
		d.Logbook = append(d.Logbook, t.index.row(r))
	}
}

// errorsOf selects the log messages, within the span, about the entity, the members of a group,
// and entities that changed together with it. Messages of its integration that name no entity
// are included, because they may be about it.
func (t *Toolset) errorsOf(entries []wireLog, e Entity, members []string, with []together, from, to time.Time) []errorGroup {
	var out []errorGroup
	near := slices.Clone(members)
	for _, w := range with {
		near = append(near, w.ID)
	}
	of := e.Integration
	for _, id := range members {
		if m, ok := t.index.Entity(id); ok {
			of = m.Integration
		}
	}
	for _, g := range t.group(entries) {
		if g.last.Before(from.Add(-time.Minute)) || g.first.After(to.Add(time.Minute)) {
			continue
		}
		fits := g.about(e) || len(g.Entities) == 0 && g.Integration == of
		for _, id := range near {
			if other, ok := t.index.Entity(id); ok && g.about(other) {
				fits = true
			}
		}
		if fits && len(out) < 10 {
			out = append(out, g)
		}
	}
	return out
}

// conclude writes the findings as sentences. It states only what was counted.
func (d *diagnosis) conclude(e Entity) {
	say := func(format string, args ...any) { d.Findings = append(d.Findings, fmt.Sprintf(format, args...)) }
	if !d.Availability.Now {
		say("%s (%s) is %s now, since %s.", e.ID, e.Name, or(e.State, "without a state"), d.Entity.Changed)
	}
	if d.History.Samples == 0 {
		say("Nothing was recorded for it in this time.")
		return
	}
	for _, m := range d.Members {
		if m.Episodes > 0 {
			say("Its member %s (%s) had %d unusual moments; they count here.", m.ID, m.Name, m.Episodes)
		}
	}
	if a := d.Availability; a.Outages > 0 {
		say("It was unavailable %d times, %s in all, the longest for %s.", a.Outages, since(time.Duration(a.Seconds*1e9)), since(time.Duration(a.LongestSecs*1e9)))
	} else {
		say("It was available all the time.")
	}
	if n := len(d.Episodes); n > 0 {
		var at []string
		for _, ep := range d.Episodes[:min(n, 8)] {
			at = append(at, fmt.Sprintf("%s (%s)", ep.At, ep.What))
		}
		say("%d unusual moments: %s.", n, strings.Join(at, "; "))
	} else {
		say("Nothing unusual is recorded: no outage, no state that lasted only for moments, no value far from the others.")
	}
	most := func(whose string, causes map[string]int, changes int) {
		for _, cause := range slices.Sorted(maps.Keys(causes)) {
			if n := causes[cause]; n*2 >= changes && n > 2 {
				say("%d of %s %d changes were caused by %s.", n, whose, changes, cause)
			}
		}
	}
	if len(d.Members) == 0 {
		most("its", d.Causes, d.History.Changes)
	}
	for _, m := range d.Members {
		most(m.Name+"'s", m.Causes, m.Changes)
	}
	for _, w := range d.Together[:min(len(d.Together), 5)] {
		say("%s (%s): %s. Example: %s.", w.ID, w.Name, w.often(d.Looked), w.Example)
	}
	for _, g := range d.Errors[:min(len(d.Errors), 5)] {
		example := g.Message
		if len(g.Examples) > 0 {
			example = g.Examples[0]
		}
		say("%s about %s, %d times from %s to %s: %s", g.Level, or(g.About, g.Integration), g.Count, g.First, g.Last, example)
	}
}

func (d *diagnosis) text() string {
	var b strings.Builder
	b.WriteString(d.Entity.line() + "\n")
	if raw, err := json.Marshal(d.Entity.Attributes); err == nil && len(raw) > 2 {
		b.WriteString("Attributes: " + clip(string(raw), 600) + "\n")
	}
	fmt.Fprintf(&b, "Looked at from %s to %s.\n\nFindings:\n", d.From, d.To)
	for _, f := range d.Findings {
		b.WriteString("- " + f + "\n")
	}
	b.WriteString("\nHistory:" + d.History.text())
	if len(d.Together) > 5 {
		b.WriteString("\nAlso at the same moments:\n")
		for _, w := range d.Together[5:] {
			fmt.Fprintf(&b, "- %s: %s\n", w.ID, w.often(d.Looked))
		}
	}
	if len(d.Members) > 0 {
		b.WriteString("\nMembers of the group:\n")
		for _, m := range d.Members {
			fmt.Fprintf(&b, "- %s = %s · %s · %d unusual moments\n", m.ID, or(m.State, "(no state)"), m.Name, m.Episodes)
		}
	}
	if len(d.Siblings) > 0 {
		b.WriteString("\nOf the same device:\n")
		for _, s := range d.Siblings {
			b.WriteString("- " + s.line() + "\n")
		}
	}
	for _, kind := range []string{"automation", "script", "scene", "group"} {
		if len(d.Related[kind]) > 0 {
			fmt.Fprintf(&b, "\nUsed by %s: %s\n", kind, strings.Join(d.Related[kind], ", "))
		}
	}
	if domain, _, _ := strings.Cut(d.Entity.ID, "."); slices.Contains(routines, domain) && len(d.Related["entity"]) > 0 {
		fmt.Fprintf(&b, "\nUses: %s\n", strings.Join(d.Related["entity"], ", "))
	}
	if len(d.Logbook) > 0 {
		b.WriteString("\nLatest logbook entries:\n")
		for _, r := range d.Logbook {
			if len(d.Members) > 0 {
				fmt.Fprintf(&b, "- %s %s (%s) %s\n", r.At, r.ID, r.Name, r.Text)
				continue
			}
			fmt.Fprintf(&b, "- %s %s\n", r.At, r.Text)
		}
	}
	if len(d.Errors) > 0 {
		b.WriteString("\nErrors that may be related:\n")
		for _, g := range d.Errors {
			b.WriteString(g.text())
		}
	}
	for _, m := range d.Missing {
		b.WriteString("\nCould not be read: " + m + "\n")
	}
	b.WriteString("\n" + d.Index.String())
	return b.String()
}
