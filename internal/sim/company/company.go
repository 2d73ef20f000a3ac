// Package company writes the lake of a small company that does not exist: what Tidemark, which measures water
// levels for harbours, knows about itself. It is for the demo and for tests.
//
// The pages are written by hand, in the folder source. Days in them are shifted by whole weeks, so that
// the last week of the lake is the one before now. [Demo] has about 210 pages and a few faults; [Full] has a
// page for each station besides, 60 faults, and 20 traps, which only look wrong. What was planted is in
// [Lake.Faults] and [Lake.Traps]; what is wrong beyond that is a mistake in the source.
//
// Pages of the kinds role, doc, product, customer, project, person and term are to be looked at once a year,
// unless their status says that they are over. A decision, a meeting, an incident and a note stay as they are.
package company

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is what is wrong with a page.
type Kind string

// The kinds of faults.
const (
	BrokenLink    Kind = "broken-link"
	FrontMatter   Kind = "front-matter"
	Duplicate     Kind = "duplicate"
	Orphan        Kind = "orphan"
	Stale         Kind = "stale"
	Contradiction Kind = "contradiction"
)

// Fault is something that was planted in a lake.
type Fault struct {
	Kind  Kind
	Path  string
	Other string // the page that Path doubles or contradicts
	Why   string
}

// Trap is a page that only looks as if something were wrong.
type Trap struct {
	Path  string
	Other string
	Why   string
}

// Commit is a change of a lake.
type Commit struct {
	At     time.Time
	Author string
	Email  string
	Reason string
	Files  map[string]string // the new contents, by path
}

// Lake is a lake with its history, the oldest commit first.
type Lake struct {
	Commits []Commit
	Faults  []Fault
	Traps   []Trap
}

// Reference is the day on which the source is true. A lake that is made for it has the days of the source.
var Reference = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// Demo is the lake of the demo.
func Demo(now time.Time) (*Lake, error) { return write(now, false) }

// Full is the lake for tests.
func Full(now time.Time) (*Lake, error) { return write(now, true) }

// Files are the pages as the last commit has them.
func (l *Lake) Files() map[string]string {
	all := map[string]string{}
	for _, c := range l.Commits {
		maps.Copy(all, c.Files)
	}
	return all
}

// Stream is the history for git fast-import, as the branch main.
func (l *Lake) Stream() io.Reader {
	var b bytes.Buffer
	for _, c := range l.Commits {
		fmt.Fprintf(&b, "commit refs/heads/main\ncommitter %s <%s> %d %s\ndata %d\n%s\n", c.Author, c.Email, c.At.Unix(), c.At.Format("-0700"), len(c.Reason), c.Reason)
		for _, name := range slices.Sorted(maps.Keys(c.Files)) {
			fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", quoted(name), len(c.Files[name]), c.Files[name])
		}
	}
	return &b
}

// quoted is a path as git quotes it: bytes that are not ASCII as they are.
func quoted(name string) string {
	if !strings.ContainsAny(name, " \"\\\n") {
		return name
	}
	return strconv.Quote(name)
}
