package lake

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/parley-server/parley"
)

// Lines is a range of lines, from 1, with both ends.
type Lines struct {
	From int `json:"from"`
	To   int `json:"to"`
}

func (l Lines) String() string {
	if l.From == l.To {
		return fmt.Sprintf("line %d", l.From)
	}
	return fmt.Sprintf("lines %d-%d", l.From, l.To)
}

// merge has two changes of a text in one. conflicts are the lines of theirs that both change; then there is no merged text.
func merge(base, ours, theirs string) (merged string, conflicts []Lines) {
	if ours == theirs || base == theirs {
		return ours, nil
	}
	if base == ours {
		return theirs, nil
	}
	a, b := hunks(base, ours), hunks(base, theirs)
	var out strings.Builder
	at := 0   // of base
	line := 1 // of theirs, at at
	i, j := 0, 0
	keep := func(to int) {
		line += strings.Count(base[at:to], "\n")
		out.WriteString(base[at:to])
		at = to
	}
	for i < len(a) || j < len(b) {
		switch {
		case j == len(b) || i < len(a) && apart(a[i], b[j]):
			keep(a[i].Start)
			out.WriteString(a[i].New)
			line += strings.Count(base[at:a[i].End], "\n")
			at = a[i].End
			i++
		case i == len(a) || apart(b[j], a[i]):
			keep(b[j].Start)
			out.WriteString(b[j].New)
			line += strings.Count(b[j].New, "\n")
			at = b[j].End
			j++
		case a[i] == b[j]: // both changed it alike
			keep(b[j].Start)
			out.WriteString(b[j].New)
			line += strings.Count(b[j].New, "\n")
			at = b[j].End
			i, j = i+1, j+1
		default:
			// All that touches is one conflict.
			start := min(a[i].Start, b[j].Start)
			end := max(a[i].End, b[j].End)
			keep(start)
			var text strings.Builder // as theirs has it
			pos := start
			take := func(e udiff.Edit) {
				text.WriteString(base[pos:e.Start])
				text.WriteString(e.New)
				pos = e.End
			}
			take(b[j])
			i, j = i+1, j+1
			for more := true; more; {
				more = false
				for i < len(a) && a[i].Start <= end {
					end = max(end, a[i].End)
					i, more = i+1, true
				}
				for j < len(b) && b[j].Start <= end {
					end = max(end, b[j].End)
					take(b[j])
					j, more = j+1, true
				}
			}
			text.WriteString(base[pos:end])
			n := strings.Count(text.String(), "\n")
			conflicts = append(conflicts, Lines{line, line + max(n-1, 0)})
			line += n
			at = end
		}
	}
	if conflicts != nil {
		return "", conflicts
	}
	out.WriteString(base[at:])
	return out.String(), nil
}

// apart reports whether x is before y and does not touch it.
func apart(x, y udiff.Edit) bool { return x.End < y.Start }

// hunks are the changes from a text to another, by whole lines; those that touch are one.
func hunks(from, to string) []udiff.Edit {
	var list []udiff.Edit
	for _, e := range udiff.Lines(from, to) {
		if n := len(list); n > 0 && list[n-1].End == e.Start {
			list[n-1].End = e.End
			list[n-1].New += e.New
			continue
		}
		list = append(list, e)
	}
	return list
}

// Conflict is the cause of an error with CodeConflict: a change and what others have made of the entity meanwhile do not fit together.
type Conflict struct {
	Path    string
	Version string  // that the entity has now; "": it is not there any more
	Lines   []Lines // of what it has now, that both changed
}

func (c *Conflict) Error() string {
	if len(c.Lines) == 0 {
		return fmt.Sprintf("%s has changed since it was read", c.Path)
	}
	return fmt.Sprintf("%s has changed since it was read: the change does not fit %s", c.Path, linesText(c.Lines))
}

func linesText(list []Lines) string {
	const most = 10
	var b strings.Builder
	for i, l := range list {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(list)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(l.String())
	}
	return b.String()
}

// conflict is the error with a Conflict.
func conflict(name, version string, lines []Lines) error {
	e := parley.Errorf(parley.CodeConflict, "%w", &Conflict{name, version, lines}).WithField("version").
		WithHint("read it again, and base the change on what it has now")
	e.Current = parley.Digest(version)
	return e
}
