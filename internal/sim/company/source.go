package company

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

//go:embed source
var sources embed.FS

// source is what the folder source has, with its days moved.
type source struct {
	entries []entry
	plants  []plant
	names   map[string]string // of people, by slug
}

// entry is a page of the source:
//
//	@ slug | title | owner | created | status | tags
//	its lines
//	+ day who | reason | a line that came later
type entry struct {
	kind, folder                              string
	slug, title, owner, created, status, tags string
	body                                      []string
	later                                     []later
}

type later struct{ day, who, reason, line string }

func (e entry) path() string { return path.Join(e.folder, e.slug+".md") }

// plant is a fault, or a trap, whose kind is empty:
//
//	!fault kind [demo] path [other page]
//	? why
//	@ day who | reason
//	~ the day on which it was last looked at
//	- text of the page      and then + what stands in its place
//	+ a line more
//	drop: name, set: name: value, front: name: value      of its front matter
//	= a line of a new page, at the path, or at that of file:
//	link: path | a line for another page
type plant struct {
	kind             Kind
	demo             bool
	path, other, why string
	day, who, reason string
	stale            string
	ops              []op
	files            map[string]string
	links            map[string]string
}

type op struct{ do, was, text string }

func read(move int) (*source, error) {
	s := &source{names: map[string]string{}}
	list, err := fs.Glob(sources, "source/*.txt")
	if err != nil {
		return nil, err
	}
	for _, name := range list {
		raw, err := fs.ReadFile(sources, name)
		if err != nil {
			return nil, err
		}
		lines := strings.Split(shifted(string(raw), move), "\n")
		if path.Base(name) == "faults.txt" {
			err = s.readPlants(lines)
		} else {
			err = s.readEntries(lines)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return s, nil
}

func (s *source) readEntries(lines []string) error {
	kind, folder := "", ""
	before := map[string]string{} // the last meeting of each series
	for n, l := range lines {
		var e *entry
		if len(s.entries) > 0 {
			e = &s.entries[len(s.entries)-1]
		}
		switch {
		case strings.HasPrefix(l, "kind: "):
			kind = l[len("kind: "):]
		case strings.HasPrefix(l, "folder: "):
			folder = l[len("folder: "):]
		case l == "" && e != nil && strings.HasPrefix(strings.Join(lines[n:min(n+2, len(lines))], ""), "- "):
			// a list that belongs to the page
		case l == "":
		case strings.HasPrefix(l, "@ "):
			f := strings.Split(l[2:], "|")
			if len(f) != 6 {
				return fmt.Errorf("line %d has %d fields", n+1, len(f))
			}
			for i := range f {
				f[i] = strings.TrimSpace(f[i])
			}
			next := entry{kind: kind, folder: folder, slug: f[0], title: f[1], owner: f[2], created: f[3], status: f[4], tags: f[5]}
			if kind == "person" {
				s.names[next.slug] = next.title
			}
			if series, ok := seriesOf(next); ok {
				if was := before[series]; was != "" {
					next.body = append(next.body, "Before it: [["+was+"]].")
				}
				before[series] = next.slug
			}
			s.entries = append(s.entries, next)
		case e == nil:
			return fmt.Errorf("line %d belongs to no page", n+1)
		case strings.HasPrefix(l, "+ "):
			f := strings.SplitN(l[2:], " | ", 3)
			if len(f) != 3 {
				return fmt.Errorf("line %d has %d fields", n+1, len(f))
			}
			day, who, _ := strings.Cut(f[0], " ")
			e.later = append(e.later, later{day, who, f[1], f[2]})
		default:
			e.body = append(e.body, l)
		}
	}
	return nil
}

// seriesOf is the series that a meeting belongs to, such as management-round.
func seriesOf(e entry) (string, bool) {
	if e.kind != "meeting" || len(e.slug) < len(dayForm)+1 {
		return "", false
	}
	return e.slug[len(dayForm)+1:], true
}

func (s *source) readPlants(lines []string) error {
	file := ""
	for n, l := range lines {
		var p *plant
		if len(s.plants) > 0 {
			p = &s.plants[len(s.plants)-1]
		}
		mark, text, _ := strings.Cut(l, " ")
		switch {
		case strings.HasPrefix(l, "!"):
			f := strings.Fields(text)
			next := plant{files: map[string]string{}, links: map[string]string{}}
			if mark == "!fault" {
				next.kind, f = Kind(f[0]), f[1:]
			}
			if f[0] == "demo" {
				next.demo, f = true, f[1:]
			}
			if next.path, f = f[0], f[1:]; len(f) > 0 {
				next.other = f[0]
			}
			file = next.path
			s.plants = append(s.plants, next)
		case l == "" || p == nil:
		case mark == "?":
			p.why = text
		case mark == "@":
			who, reason, _ := strings.Cut(text, " | ")
			p.day, p.who, _ = strings.Cut(who, " ")
			p.reason = reason
		case mark == "~":
			p.stale = text
		case mark == "=":
			p.files[file] += text + "\n"
		case mark == "file:":
			file = text
		case mark == "link:":
			to, line, _ := strings.Cut(text, " | ")
			p.links[to] = line
		case mark == "-":
			p.ops = append(p.ops, op{do: "replace", was: text})
		case mark == "+":
			if k := len(p.ops) - 1; k >= 0 && p.ops[k].do == "replace" && p.ops[k].text == "" {
				p.ops[k].text = text
				break
			}
			p.ops = append(p.ops, op{do: "add", text: text})
		case mark == "drop:" || mark == "set:" || mark == "front:":
			p.ops = append(p.ops, op{do: strings.TrimSuffix(mark, ":"), text: text})
		default:
			return fmt.Errorf("line %d is not understood", n+1)
		}
	}
	return nil
}

// stations are the pages of the gauges that the customers have.
func stations(move int) (list []entry) {
	places := []string{"at the quay", "at the ferry ramp", "below the bridge", "at the fuel pier", "at the lock", "behind the mole", "at the old crane", "at the weir", "at the slipway"}
	for _, c := range []struct {
		code, customer, since string
		n                     int
	}{
		{"NKOG", "norderkoog", "2025-03-10", 9},
		{"PELL", "port-ellery", "2025-04-22", 6},
		{"SAND", "sandhaven", "2025-05-27", 4},
		{"LYNG", "lyngvik", "2025-06-17", 3},
		{"BREK", "brekke", "2025-07-15", 5},
		{"TAMS", "river-tamsel-board", "2025-09-22", 14},
		{"KEST", "kestrel-marina", "2025-10-13", 2},
		{"EELW", "eelwick", "2025-11-03", 3},
		{"HOLM", "holmsund-ferries", "2025-12-01", 7},
		{"GRAY", "graythorpe-council", "2026-02-09", 4},
		{"ALDE", "alder-fish-farm", "2026-03-16", 2},
		{"WEST", "westmole", "2026-05-04", 1},
		{"MARS", "marsh-end", "2026-06-15", 2},
	} {
		first, err := time.Parse(dayForm, c.since)
		if err != nil {
			continue // a mistake here, which the count of pages shows
		}
		first = first.AddDate(0, 0, move)
		for i := range c.n {
			day := first.AddDate(0, 0, 2*i)
			for day.Weekday() == time.Saturday || day.Weekday() == time.Sunday {
				day = day.AddDate(0, 0, 1)
			}
			serial := 1000 + 37*len(list)
			list = append(list, entry{
				kind: "station", folder: "lake/stations", slug: fmt.Sprintf("%s-%d", strings.ToLower(c.code), i+1), title: fmt.Sprintf("%s %d", c.code, i+1),
				owner: []string{"marek-dvorak", "felix-weber"}[i%2], created: day.Format(dayForm), status: "active", tags: "station, " + c.customer,
				body: []string{
					fmt.Sprintf("[[gauge-t2]] number %d of [[%s]], %s. Installed on %s.", serial, c.customer, places[(len(list)+i)%len(places)], day.Format(dayForm)),
					fmt.Sprintf("Mast: %d.%d m. Zero of the plate: %d.%02d m above the sill.", 3+i%3, (serial/10)%10, 2+i%4, serial%100),
				},
			})
		}
	}
	return list
}
