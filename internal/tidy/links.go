package tidy

import (
	"fmt"
	"path"
	"strings"

	"github.com/parley-server/parley/internal/lake"
)

// links finds links that lead nowhere.
func (f *finder) links() (list []Finding) {
	for _, p := range f.pages {
		for _, l := range p.Links {
			if !l.Broken {
				continue
			}
			as := l.Target
			if l.Kind == "wiki" {
				as = "[[" + l.Target + "]]"
			}
			x := Finding{Kind: BrokenLink, Path: p.Path, Line: l.Line, Why: fmt.Sprintf("the link %s leads to no file", first(as, 200))}
			lines := strings.Split(p.Body, "\n")
			if l.Line >= 1 && l.Line <= len(lines) {
				old := strings.TrimRight(lines[l.Line-1], "\r")
				if to := f.meant(l.Target); to != nil {
					x.mendLine(p, old, retarget(old, p.Path, l, to), "links to "+to.Path+", which has almost this name")
				}
				if x.Edits == nil {
					x.mendLine(p, old, unlink(old, l), "leaves the words and takes the link away")
				}
			}
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
	if l.Kind == "wiki" {
		name := strings.TrimSuffix(path.Base(to.Path), ".md")
		return strings.Replace(line, "[["+l.Target, "[["+name, 1)
	}
	return strings.Replace(line, "("+l.Target, "("+relative(from, to.Path), 1)
}

// unlink is a line with the words of a link in its place.
func unlink(line string, l lake.Link) string {
	if l.Kind == "wiki" {
		i := strings.Index(line, "[["+l.Target)
		if i < 0 {
			return line
		}
		n := strings.Index(line[i:], "]]")
		if n < 0 {
			return line
		}
		text := l.Text
		if text == "" {
			text = l.Target
		}
		return strings.TrimSuffix(line[:i], "!") + text + line[i+n+2:]
	}
	at := strings.Index(line, "]("+l.Target)
	if at < 0 {
		return line
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
