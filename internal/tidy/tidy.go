// Package tidy looks for what is wrong in a lake, and proposes changes that would mend it.
//
// [Scan] finds broken links, missing front matter, duplicates, orphans, stale pages, and
// statements that may contradict each other. It is code alone, and depends on nothing but the
// pages and the day. Whether a contradiction is one is for a model or a person to say: the
// scan only says which two statements to look at.
//
// A [Proposal] is a branch of the lake's repository with one commit for each finding that
// can be mended, and a report in its last commit. The branch is made at once or not at all,
// and nothing else is changed: neither the working tree nor the branch that people work on.
// What is applied is a commit of that branch for each finding, made by [lake.Lake.Apply] with
// the finding as its key, so that a repetition makes it once. What was rejected is in a ref
// beside the branch. So a proposal is in its repository alone, and outlives every crash.
//
// A finding is applied only to pages that are as the scan saw them, or as other findings of
// the same proposal have left them. If somebody else has changed one since, also without
// committing it, the finding is stale, and stays so until they undo that.
package tidy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/claim"
	"github.com/parley-server/parley/internal/lake"
)

// Kinds of findings.
const (
	BrokenLink    = "broken-link"
	FrontMatter   = "front-matter"
	Duplicate     = "duplicate"
	Orphan        = "orphan"
	Stale         = "stale"
	Contradiction = "contradiction"
)

// Kinds are all of them, in the order of reports.
var Kinds = []string{BrokenLink, FrontMatter, Duplicate, Orphan, Stale, Contradiction}

// Finding is something that is wrong, or in Scanned.Candidates may be.
type Finding struct {
	ID    string `json:"id"` // the same for the same finding in the same content
	Kind  string `json:"kind"`
	Path  string `json:"path"`
	Line  int    `json:"line,omitempty"`
	Other string `json:"other,omitempty"` // the page that Path doubles or contradicts
	Why   string `json:"why"`             // in a sentence
	Mends string `json:"mends,omitempty"` // what its change does; "": there is none, and a person has to decide
	// Says and OtherSays are the statements that may contradict each other.
	Says      string `json:"says,omitempty"`
	OtherSays string `json:"other_says,omitempty"`

	// Edits are what its change does; none: there is none.
	Edits []Edit `json:"edits,omitempty"`

	stands, otherStands claim.Statement // what Says and OtherSays stand under
}

// Under are the statements of a finding that may be a contradiction, with what they stand under.
func (x Finding) Under() (says, other claim.Statement) { return x.stands, x.otherStands }

// Scanned is what a scan found.
type Scanned struct {
	Head       string    `json:"head"` // the commit that it is about
	Name       string    `json:"name"` // of the lake: the title of its first page
	Pages      int       `json:"pages"`
	Findings   []Finding `json:"findings"`
	Candidates []Finding `json:"candidates"`        // contradictions, if somebody says so
	Editing    []string  `json:"editing,omitempty"` // pages that somebody is changing, which are left alone
	Cut        bool      `json:"cut,omitempty"`     // there is more than is listed
}

const (
	// maxFindings and maxCandidates bound a proposal: what a person looks through, and what a
	// model judges, at once. The rest is found again by the next scan.
	maxFindings   = 200
	maxCandidates = 40
)

// Scan looks at a lake as it is on a day.
func Scan(ctx context.Context, l *lake.Lake, now time.Time) (Scanned, error) {
	repo, err := l.Repo(ctx)
	if err != nil {
		return Scanned{}, err
	}
	head, tree, err := repo.Tree(ctx)
	if err != nil {
		return Scanned{}, err
	}
	l.Touch() // whoever runs it right after a change expects that to be seen
	pages, err := load(ctx, l, tree)
	if err != nil {
		return Scanned{}, err
	}
	return look(head, pages, now), nil
}

// look finds what is wrong with pages.
func look(head string, pages []*page, now time.Time) Scanned {
	s := Scanned{Head: head, Pages: len(pages), Findings: []Finding{}, Candidates: []Finding{}}
	f := newFinder(pages, now)
	s.Name = f.world.Name
	for _, list := range [][]Finding{f.links(), f.front(), f.duplicates(), f.orphans(), f.stale()} {
		s.Findings = append(s.Findings, list...)
	}
	s.Candidates = f.contradictions()
	for _, p := range pages {
		if !p.settled {
			s.Editing = append(s.Editing, p.Path)
		}
	}
	for _, list := range []*[]Finding{&s.Findings, &s.Candidates} {
		*list = slices.DeleteFunc(*list, func(x Finding) bool { return f.busy(x) })
		seen := map[string]int{}
		for i := range *list {
			x := &(*list)[i]
			x.ID = f.id(*x, 0)
			if seen[x.ID]++; seen[x.ID] > 1 { // the same on another line
				x.ID = f.id(*x, seen[x.ID])
			}
		}
	}
	if len(s.Findings) > maxFindings {
		s.Findings, s.Cut = s.Findings[:maxFindings], true
	}
	if len(s.Candidates) > maxCandidates {
		s.Candidates, s.Cut = s.Candidates[:maxCandidates], true
	}
	return s
}

// finder has the pages with what is known of all of them.
type finder struct {
	pages  []*page
	byPath map[string]*page
	now    time.Time
	world  claim.World
	back   map[string][]string // the pages that link to a page
}

func newFinder(pages []*page, now time.Time) *finder {
	f := &finder{pages: pages, byPath: map[string]*page{}, now: now, back: map[string][]string{}}
	f.world.Day = now
	for _, p := range pages {
		f.byPath[p.Path] = p
		if p.Path == "README.md" || p.Path == "INDEX.md" && f.world.Name == "" {
			f.world.Name = p.Title
		}
	}
	for _, p := range pages {
		for _, l := range p.Links {
			if l.Path != "" && l.Path != p.Path && !slices.Contains(f.back[l.Path], p.Path) {
				f.back[l.Path] = append(f.back[l.Path], p.Path)
			}
		}
	}
	return f
}

// busy reports whether somebody is changing what a finding is about.
func (f *finder) busy(x Finding) bool {
	for _, path := range []string{x.Path, x.Other} {
		if p := f.byPath[path]; p != nil && !p.settled {
			return true
		}
	}
	return slices.ContainsFunc(x.Edits, func(e Edit) bool { p := f.byPath[e.Path]; return p != nil && !p.settled })
}

// id names a finding by what it is about and the content that it was found in. again: the how manyth with the same it is; 0: the first.
func (f *finder) id(x Finding, again int) string {
	parts := []string{x.Kind, x.Path, x.Other, x.Why, x.Says, x.OtherSays}
	if again > 0 {
		parts = append(parts, strconv.Itoa(again))
	}
	for _, path := range []string{x.Path, x.Other} {
		if p := f.byPath[path]; p != nil {
			parts = append(parts, p.Version)
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// over are statuses after which nobody has to look at a page any more.
var over = []string{
	"done", "closed", "lost", "superseded", "archived", "retired", "cancelled", "canceled", "rejected", "deprecated", "obsolete", "former", "ended", "finished", "dropped",
}

func (p *page) over() bool { return slices.Contains(over, strings.ToLower(p.Status)) }

// kept are kinds of pages that say what was at a time, and stay as they are.
var kept = []string{"decision", "meeting", "incident", "note", "station", "log", "journal", "page", "retro", "minutes", "report"}

// staleAfter is how long nobody may have looked at a page.
const staleAfter = 365 * 24 * time.Hour

// stale finds pages that nobody has looked at for a year.
func (f *finder) stale() (list []Finding) {
	for _, p := range f.pages {
		if p.top() || p.over() || slices.Contains(kept, strings.ToLower(p.Kind)) {
			continue
		}
		at, err := time.Parse(time.DateOnly, first(cmp.Or(p.Updated, p.Created), 10))
		if err != nil || f.now.Sub(at) <= staleAfter || p.Front["review"] != nil {
			continue
		}
		x := Finding{Kind: Stale, Path: p.Path, Line: 1, Why: "nobody has looked at it since " + at.Format(time.DateOnly)}
		x.mend("marks it with review: due, so that its owner looks at it", Edit{Path: p.Path, Base: p.Version, Do: DoFront, New: `{"review":"due"}`})
		list = append(list, x)
	}
	return list
}

func first(s string, n int) string { return s[:min(len(s), n)] }

// orphans finds pages that no page links to.
func (f *finder) orphans() (list []Finding) {
	index := f.byPath["INDEX.md"]
	if index == nil {
		index = f.byPath["README.md"]
	}
	for _, p := range f.pages {
		if p.top() || len(f.back[p.Path]) > 0 {
			continue
		}
		x := Finding{Kind: Orphan, Path: p.Path, Line: 1, Why: "no page links to it"}
		if index != nil && index.settled {
			x.Mends = "links to it from " + index.Path
			x.Edits = []Edit{{Path: index.Path, Base: index.Version, Do: DoItem, Old: "Not linked from elsewhere", New: "- " + f.linkTo(p)}}
		}
		list = append(list, x)
	}
	return list
}

// linkTo is a link to a page: by its name, which is enough if no other page has it.
func (f *finder) linkTo(p *page) string {
	name := strings.TrimSuffix(p.Path[strings.LastIndexByte(p.Path, '/')+1:], ".md")
	for _, o := range f.pages {
		if o != p && strings.EqualFold(strings.TrimSuffix(o.Path[strings.LastIndexByte(o.Path, '/')+1:], ".md"), name) {
			name = strings.TrimSuffix(p.Path, ".md")
			break
		}
	}
	if p.Title != "" && !strings.ContainsAny(p.Title, "[]|#\n") {
		return "[[" + name + "|" + p.Title + "]]"
	}
	return "[[" + name + "]]"
}

// mend gives a finding a change.
func (x *Finding) mend(mends string, edits ...Edit) { x.Mends, x.Edits = mends, edits }
