package homeassistant

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/seam"
)

// The tool analyze_errors.

type errorsInput struct {
	Query  string `json:"query"`
	Entity string `json:"entity"`
	Level  string `json:"level"`
	Since  string `json:"since"`
	Limit  int    `json:"limit"`
}

type errorGroup struct {
	Integration string   `json:"integration"`
	Level       string   `json:"level"`
	Message     string   `json:"message"` // without the details that differ between occurrences
	Count       int      `json:"count"`
	First       string   `json:"first"`
	Last        string   `json:"last"`
	Logger      string   `json:"logger"`
	Source      string   `json:"source,omitempty"`
	Entities    []string `json:"likely_entities,omitempty"`
	About       string   `json:"about,omitempty"`             // name of the entity, device or group
	Broad       bool     `json:"about_integration,omitempty"` // no message names an entity; Entities lists those of the integration
	Examples    []string `json:"examples"`
	Exception   string   `json:"exception,omitempty"` // its last line
	first       time.Time
	last        time.Time
}

type errorsAnswer struct {
	Source        string         `json:"read_from"` // system_log, or error_log
	Total         int            `json:"total"`     // occurrences
	ByLevel       map[string]int `json:"by_level"`
	ByThing       map[string]int `json:"by_thing"` // by the entity, device or group they are about
	ByIntegration map[string]int `json:"by_integration"`
	Groups        []errorGroup   `json:"groups"`
}

// logs reads the error log: by WebSocket, or from the log file if there is one and the user may
// not use the WebSocket command.
func (t *Toolset) logs(ctx context.Context) (entries []wireLog, source string, err error) {
	err = t.client.ask(ctx, "system_log/list", nil, &entries)
	if err == nil || !is(err, parley.CodeForbidden) && !isUnknownCommand(err) {
		return entries, "system_log", err
	}
	var file string
	if again := t.client.get(ctx, "error_log", nil, &file); again != nil {
		return nil, "", err // the error of the first way is more useful
	}
	return fromFile(file), "error_log", nil
}

func isUnknownCommand(err error) bool {
	return isRefused(err) && strings.Contains(err.Error(), "(unknown_command)")
}

var fileLine = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d+))? (ERROR|WARNING|CRITICAL|FATAL) \([^)]*\) \[([^\]]+)\] (.*)$`)

// fromFile parses a log file of Home Assistant. Lines of a traceback belong to the entry before
// them.
func fromFile(text string) []wireLog {
	var out []wireLog
	for line := range strings.SplitSeq(text, "\n") {
		m := fileLine.FindStringSubmatch(strings.TrimRight(line, "\r"))
		if m == nil {
			if n := len(out); n > 0 && strings.TrimSpace(line) != "" {
				out[n-1].Exception = clip(out[n-1].Exception+"\n"+line, 2000)
			}
			continue
		}
		at, _ := time.Parse("2006-01-02 15:04:05", m[1])
		msg := fmt.Sprintf("[%q]", m[5])
		out = append(out, wireLog{Name: m[4], Level: m[3], Messages: []byte(msg), At: float64(at.Unix()), First: float64(at.Unix()), Count: 1})
		if len(out) > 5000 {
			out = out[1000:]
		}
	}
	return out
}

var (
	entityID = regexp.MustCompile(`\b[a-z][a-z_]*\.[a-z0-9][a-z0-9_]*\b`)
	varying  = regexp.MustCompile(`0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?`)
)

// integrationOf returns the component in a logger's name.
func integrationOf(logger string) string {
	parts := strings.Split(logger, ".")
	for i, p := range parts {
		if (p == "components" || p == "custom_components") && i+1 < len(parts) {
			return parts[i+1]
		}
	}
	switch parts[0] {
	case "zigpy", "zhaquirks", "bellows", "zha":
		return "zha"
	case "homeassistant":
		return "core"
	}
	return parts[0]
}

// mentioned finds the entities that a message is about: by id, otherwise by the names of
// entities and devices.
func (n names) mentioned(text string) []string {
	var out []string
	add := func(id string) {
		if !slices.Contains(out, id) && len(out) < 8 {
			out = append(out, id)
		}
	}
	for _, id := range entityID.FindAllString(text, -1) {
		if n.known[id] {
			add(id)
		}
	}
	if len(out) > 0 {
		return out
	}
	low := " " + plain(text) + " "
	for _, of := range n.list {
		if strings.Contains(low, of.name) {
			add(of.id)
		}
	}
	return out
}

// names indexes the words by which messages may refer to entities. It is made once for all
// messages.
type names struct {
	known map[string]bool
	list  []struct{ name, id string }
}

func (x *Index) names() names {
	n := names{known: map[string]bool{}}
	for _, e := range x.Entities() {
		n.known[e.ID] = true
		for _, name := range []string{e.Name, e.Device} {
			// Short names occur in every message, and a device's name does not mean its
			// settings.
			if p := plain(name); len(p) >= 6 && (name != e.Device || e.Category == "") {
				n.list = append(n.list, struct{ name, id string }{" " + p, e.ID})
			}
		}
	}
	return n
}

func (t *Toolset) group(entries []wireLog) []errorGroup {
	all := t.index.names()
	groups := map[string]*errorGroup{}
	var order []string
	for _, l := range entries {
		msgs := l.messages()
		if len(msgs) == 0 {
			msgs = []string{""}
		}
		// Entries from the same place in the code are grouped, although their messages differ in
		// details.
		key := l.Name + "|" + l.Level + "|" + clip(varying.ReplaceAllString(entityID.ReplaceAllString(msgs[0], "<entity>"), "<n>"), 160)
		g := groups[key]
		if g == nil {
			g = &errorGroup{Integration: integrationOf(l.Name), Level: l.Level, Message: clip(varying.ReplaceAllString(msgs[0], "…"), 300), Logger: l.Name, first: fromEpoch(l.First), last: fromEpoch(l.At)}
			if len(l.Source) == 2 {
				g.Source = clip(fmt.Sprintf("%v:%v", l.Source[0], l.Source[1]), 120)
			}
			groups[key] = g
			order = append(order, key)
		}
		g.Count += max(1, l.Count)
		if f := fromEpoch(l.First); f.Before(g.first) {
			g.first = f
		}
		if a := fromEpoch(l.At); a.After(g.last) {
			g.last = a
		}
		for _, m := range msgs {
			if m = clip(m, 300); m != "" && len(g.Examples) < 5 && !slices.Contains(g.Examples, m) {
				g.Examples = append(g.Examples, m)
			}
			for _, id := range all.mentioned(m) {
				if !slices.Contains(g.Entities, id) && len(g.Entities) < 8 {
					g.Entities = append(g.Entities, id)
				}
			}
		}
		if lines := strings.Split(strings.TrimSpace(l.Exception), "\n"); l.Exception != "" {
			g.Exception = clip(lines[len(lines)-1], 300)
		}
	}
	out := make([]errorGroup, 0, len(order))
	for _, k := range order {
		g := groups[k]
		if g.Examples == nil {
			g.Examples = []string{}
		}
		g.First, g.Last = t.index.local(g.first), t.index.local(g.last)
		t.index.name(g)
		out = append(out, *g)
	}
	slices.SortStableFunc(out, func(a, b errorGroup) int { return cmp.Or(cmp.Compare(b.Count, a.Count), b.last.Compare(a.last)) })
	return out
}

func (g errorGroup) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s about %s ×%d, %s to %s\n", g.Level, or(g.About, "no thing of the house"), g.Count, g.First, g.Last)
	for _, e := range g.Examples {
		b.WriteString("  " + e + "\n")
	}
	if g.Exception != "" {
		b.WriteString("  exception: " + g.Exception + "\n")
	}
	if len(g.Entities) > 0 {
		b.WriteString("  likely about " + strings.Join(g.Entities, ", ") + "\n")
	}
	fmt.Fprintf(&b, "  logged by %s (%s)", g.Integration, g.Logger)
	if g.Source != "" {
		b.WriteString(" at " + g.Source)
	}
	b.WriteString("\n")
	return b.String()
}

// broadly is the most things an integration may have for an error that names none to be
// attributed to them all.
const broadly = 5

// name sets what an error is about: a group if it is about several of its members, otherwise
// devices, or entities without a device. An error that names nothing is attributed to the things
// of its integration.
func (x *Index) name(g *errorGroup) {
	var about []Entity
	for _, id := range g.Entities {
		if e, ok := x.Entity(id); ok {
			about = append(about, e)
		}
	}
	if len(about) == 0 {
		var of []Entity
		for _, e := range x.Entities() {
			if e.Integration == g.Integration && e.State != "" {
				of = append(of, e)
			}
		}
		if names := things(of); len(names) <= broadly {
			about, g.Broad = of, len(of) > 0
		}
	}
	names := things(about)
	g.About = strings.Join(names, ", ")
	if group := x.groupOf(about); group != "" && len(names) > 1 {
		g.About = group + " (" + g.About + ")"
	}
}

// things returns the devices of entities, each once. An entity without a device appears by its
// name and kind, such as Home (weather).
func things(es []Entity) []string {
	var out []string
	for _, e := range es {
		if n := or(e.Device, e.Name+" ("+domainOf(e.ID)+")"); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// groupOf returns the name of the smallest group that has all of the entities, or "".
func (x *Index) groupOf(es []Entity) string {
	name, size := "", 0
	for _, g := range x.Entities() {
		members := membersOf(g)
		all := len(es) > 0 && !slices.ContainsFunc(es, func(e Entity) bool { return !slices.Contains(members, e.ID) })
		if all && (name == "" || len(members) < size) {
			name, size = g.Name, len(members)
		}
	}
	return name
}

func (t *Toolset) analyzeErrors(ctx context.Context, _ seam.Run, in errorsInput) (answer, error) {
	if err := t.index.ready(ctx); err != nil {
		return answer{}, err
	}
	entries, source, err := t.logs(ctx)
	if err != nil {
		return answer{}, err
	}
	groups := t.group(entries)
	var about *Entity
	var named []string
	if in.Entity != "" {
		e, err := t.index.resolve(in.Entity)
		if err != nil {
			return answer{}, err
		}
		about, named = &e, []string{e.ID}
	}
	var after time.Time
	if in.Since != "" {
		if after, err = t.index.when(in.Since, t.o.Now()); err != nil {
			return answer{}, err
		}
	}
	words := keyword.Of(in.Query)
	groups = slices.DeleteFunc(groups, func(g errorGroup) bool {
		switch {
		case in.Level != "" && !strings.EqualFold(g.Level, in.Level), g.last.Before(after):
			return true
		case about != nil && !g.about(*about):
			return true
		}
		return len(words) > 0 && !keyword.In(words, g.Integration, g.Logger, strings.Join(g.Examples, " "), strings.Join(g.Entities, " "))
	})
	out := errorsAnswer{Source: source, ByLevel: map[string]int{}, ByThing: map[string]int{}, ByIntegration: map[string]int{}, Groups: []errorGroup{}}
	for _, g := range groups {
		out.Total += g.Count
		out.ByLevel[g.Level] += g.Count
		out.ByThing[or(g.About, "no thing of the house")] += g.Count
		out.ByIntegration[g.Integration] += g.Count
	}
	limit := min(or(in.Limit, 20), 50)
	out.Groups = append(out.Groups, groups[:min(len(groups), limit)]...)
	var b strings.Builder
	if len(groups) == 0 {
		b.WriteString("The log of Home Assistant has no matching warning or error. It starts empty at each restart.")
		return answer{b.String(), out, named}, nil
	}
	fmt.Fprintf(&b, "%d entries in %d groups (%s); by thing: %s.\n\n", out.Total, len(groups), counts(out.ByLevel), strings.Join(counted(out.ByThing), "; "))
	for _, g := range out.Groups {
		b.WriteString(g.text())
	}
	if rest := len(groups) - len(out.Groups); rest > 0 {
		fmt.Fprintf(&b, "… and %d more groups.\n", rest)
	}
	return answer{b.String(), out, named}, nil
}

// about reports whether a group concerns an entity: it names the entity or its device.
func (g errorGroup) about(e Entity) bool {
	if slices.Contains(g.Entities, e.ID) {
		return true
	}
	text := " " + plain(strings.Join(g.Examples, " ")) + " "
	for _, n := range []string{e.Name, e.Device} {
		if n = plain(n); len(n) >= 6 && strings.Contains(text, " "+n+" ") {
			return true
		}
	}
	return false
}
