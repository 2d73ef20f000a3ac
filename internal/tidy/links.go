package tidy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
)

// links finds links that lead nowhere: one finding for each line, which mends all of them.
func (f *finder) links() (list []Finding) {
	for _, p := range f.pages {
		lines := strings.Split(p.Body, "\n")
		byLine := map[int][]lake.Link{}
		for _, l := range p.Links {
			if l.Broken {
				byLine[l.Line] = append(byLine[l.Line], l)
			}
		}
		for _, n := range slices.Sorted(maps.Keys(byLine)) {
			x := Finding{Kind: BrokenLink, Path: p.Path, Line: n}
			old, now := "", ""
			if n >= 1 && n <= len(lines) {
				old = strings.TrimRight(lines[n-1], "\r")
				now = old
			}
			var names, mends []string
			for _, l := range byLine[n] {
				as := l.Target
				if l.Kind == "wiki" {
					as = "[[" + l.Target + "]]"
				}
				names = append(names, first(as, 200))
				was, how := now, ""
				if to := f.meant(l.Target); to != nil {
					now, how = retarget(now, p.Path, l, to), "links to "+to.Path+", which has almost this name"
				}
				if now == was {
					now, how = unlink(now, l), "leaves the words and takes the link away"
				}
				if now != was && !slices.Contains(mends, how) {
					mends = append(mends, how)
				}
			}
			x.Why = fmt.Sprintf("the link %s leads to no file", names[0])
			if len(names) > 1 {
				x.Why = parley.Cut(fmt.Sprintf("the links %s and %s lead to no file", strings.Join(names[:len(names)-1], ", "), names[len(names)-1]), 1500)
			}
			x.mendLine(p, old, now, parley.Cut(strings.Join(mends, "; "), 900))
			list = append(list, x)
		}
	}
	return list
}

func (x *Finding) mendLine(p *page, old, now, mends string) {
	if old != now && old != "" {
		x.mend(mends, Edit{Path: p.Path, Base: p.Version, Do: DoReplace, Old: old, New: now})
	}
}

// meant is the page whose name is almost that of a link's target, if there is exactly one. Days
// and numbers in names are not mistaken for one another.
func (f *finder) meant(target string) *page {
	name := squeezedName(target)
	if len(name) < 5 {
		return nil
	}
	var best *page
	least, twice := 1+len(name)/8, false
	for _, p := range f.pages {
		other := squeezedName(p.Path)
		if digitsOf(name) != digitsOf(other) {
			continue
		}
		switch d := distance(name, other, least); {
		case d > least:
		case d < least || best == nil:
			best, least, twice = p, d, false
		default:
			twice = true
		}
	}
	if twice {
		return nil
	}
	return best
}

func squeezedName(target string) string {
	name := path.Base(strings.TrimSuffix(folded(target), ".md"))
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' {
			return -1
		}
		return r
	}, name)
}

func digitsOf(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

// distance is the number of letters by which a and b differ, or more than most.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		corner := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			d := corner
			if a[i-1] != b[j-1] {
				d++
			}
			corner = row[j]
			row[j] = min(d, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// retarget is a line with a link that leads to another page.
func retarget(line, from string, l lake.Link, to *page) string {
	at, begins := spot(line, l)
	if at < 0 {
		return line
	}
	target := relative(from, to.Path)
	if l.Kind == "wiki" {
		target = strings.TrimSuffix(path.Base(to.Path), ".md")
	}
	at += len(begins)
	return line[:at] + target + line[at+len(l.Target):]
}

// spot is where a link's target stands in a line, with what is before it. Longer targets that begin so are others, and there are no links in code.
func spot(line string, l lake.Link) (at int, begins string) {
	begins, ends := "](", ")# ?"
	if l.Kind == "wiki" {
		begins, ends = "[[", "]|#"
	}
	for from := 0; ; {
		i := strings.Index(line[from:], begins+l.Target)
		if i < 0 {
			return -1, begins
		}
		i += from
		end := i + len(begins) + len(l.Target)
		if end < len(line) && strings.IndexByte(ends, line[end]) >= 0 && strings.Count(line[:i], "`")%2 == 0 {
			return i, begins
		}
		from = i + 1
	}
}

// unlink is a line with the words of a link in its place.
func unlink(line string, l lake.Link) string {
	at, _ := spot(line, l)
	if at < 0 {
		return line
	}
	if l.Kind == "wiki" {
		n := strings.Index(line[at:], "]]")
		if n < 0 {
			return line
		}
		text := l.Text
		if text == "" {
			text = l.Target
		}
		return strings.TrimSuffix(line[:at], "!") + text + line[at+n+2:]
	}
	open := strings.LastIndexByte(line[:at], '[')
	end := strings.IndexByte(line[at:], ')')
	if open < 0 || end < 0 {
		return line
	}
	return strings.TrimSuffix(line[:open], "!") + line[open+1:at] + line[at+end+1:]
}

// relative is a path seen from the folder of another.
func relative(from, to string) string {
	dir := path.Dir(from)
	if dir == "." {
		return to
	}
	a, b := strings.Split(dir, "/"), strings.Split(to, "/")
	for len(a) > 0 && len(b) > 1 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	return strings.Repeat("../", len(a)) + strings.Join(b, "/")
}
