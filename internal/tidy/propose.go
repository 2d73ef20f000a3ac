package tidy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/pattern"
)

// author makes the commits of a proposal's branch.
var author = lake.Author{Name: "Tachikoma", Email: "tachikoma@localhost"}

// Judged is what somebody, mostly a model, says about a candidate. A contradiction counts only if its words are those of the two statements.
type Judged struct {
	ID          string `json:"id"`
	Contradicts bool   `json:"contradicts"`
	Here        string `json:"here,omitempty"`  // the words of the first statement that the second one denies
	There       string `json:"there,omitempty"` // and those of the second
	Why         string `json:"why,omitempty"`   // in a sentence, for people
}

// Asked is a proposal to make.
type Asked struct {
	// ID names it: a second one with the same id is the first one.
	ID      parley.ProposalID
	At      time.Time
	By      string
	App     string
	Session parley.SessionID
	Turn    parley.TurnID
	Judged  []Judged // of the candidates; the others are left out
	Leave   []string // findings that are left out
}

// Proposed is what Propose did.
type Proposed struct {
	ID         parley.ProposalID
	Findings   int
	Changes    int // findings with a change
	Known      int // findings that an earlier proposal has, open or rejected
	Unreadable int // earlier proposals whose reports cannot be read; what they have may be proposed again
	Repeated   bool
	LeftOut    []string // judgements that do not count, and why
}

// Propose scans the lake and makes a proposal of what it finds, except what an earlier one
// proposes still, and what was rejected. Without any there is no proposal, and Findings is 0.
// CodeConflict: too many proposals wait for people already.
func Propose(ctx context.Context, l *lake.Lake, a Asked) (p Proposed, err error) {
	if !idForm.MatchString(string(a.ID)) {
		return p, parley.Errorf(parley.CodeInvalid, "%q is no id of a proposal", parley.Cut(string(a.ID), 80))
	}
	repo, err := l.Repo(ctx)
	if err != nil {
		return p, err
	}
	if r, err := read(ctx, repo, a.ID); err == nil {
		return proposed(r, true), nil
	} else if !errors.Is(err, parley.ErrNotFound) {
		return p, err
	}
	s, err := Scan(ctx, l, a.At)
	if err != nil {
		return p, err
	}
	if s.Head == "" {
		return p, nil // nothing is committed
	}
	before, err := review(ctx, l, a.At)
	if err != nil {
		return p, err
	}
	p.Unreadable = before.unreadable
	r := report{ID: a.ID, At: parley.Now(a.At), By: parley.Cut(a.By, 200), App: a.App, Session: a.Session, Turn: a.Turn, Base: s.Head, Pages: s.Pages}
	contradictions, leftOut := judged(ctx, l, s.Candidates, a.Judged)
	p.LeftOut = leftOut
	for _, x := range append(s.Findings, contradictions...) {
		switch {
		case slices.Contains(a.Leave, x.ID):
		case before.known[x.ID]:
			p.Known++
		default:
			r.Findings = append(r.Findings, x)
		}
	}
	if len(r.Findings) > 0 && before.open >= maxWaiting {
		return p, parley.Errorf(parley.CodeConflict, "%d proposals wait for people, which is the limit", before.open).WithHint("nothing more is proposed before some findings are applied or rejected")
	}
	var stack []gitrepo.Stacked
	bodies, size := map[string]*string{}, 0
	for i := range r.Findings {
		x := &r.Findings[i]
		edits, err := onTop(ctx, l, bodies, *x)
		if err != nil {
			return p, err
		}
		for _, e := range edits {
			size += len(e.Body)
		}
		if size > maxBodies { // the next scan finds the rest again
			r.Findings = r.Findings[:i]
			break
		}
		if edits == nil {
			x.Mends, x.Edits = "", nil
		}
		stack = append(stack, gitrepo.Stacked{Edits: edits, Message: messageOf(*x, a.ID), Author: author, When: r.At})
	}
	raw, err := r.encode()
	if err != nil || len(r.Findings) == 0 {
		return p, err
	}
	stack = slices.DeleteFunc(stack[:len(r.Findings)], func(c gitrepo.Stacked) bool { return c.Edits == nil })
	stack = append(stack, gitrepo.Stacked{Edits: []gitrepo.Edit{{Path: reportOf(a.ID), Body: raw}}, Message: r.title() + "\n\n" + r.markdown(), Author: author, When: r.At})
	if err := r.check(a.ID); err != nil {
		return p, parley.Errorf(parley.CodeInternal, "%w", err)
	}
	if _, err := repo.Stack(ctx, branches+string(a.ID), s.Head, stack); err != nil {
		return p, err
	}
	out := proposed(r, false)
	out.Known, out.Unreadable, out.LeftOut = p.Known, p.Unreadable, p.LeftOut
	return out, nil
}

func proposed(r report, repeated bool) Proposed {
	p := Proposed{ID: r.ID, Findings: len(r.Findings), Repeated: repeated}
	for _, x := range r.Findings {
		if len(x.Edits) > 0 {
			p.Changes++
		}
	}
	return p
}

// judged are the candidates that somebody says are contradictions, and the judgements that do not count: of no pair, of one that is judged in
// two ways, or with words that the statements do not have.
func judged(ctx context.Context, l *lake.Lake, candidates []Finding, by []Judged) (list []Finding, leftOut []string) {
	verdicts := map[string]bool{}
	for i, j := range by {
		drop := func(why string) { leftOut = append(leftOut, parley.Cut(plainLine(j.ID), 40)+" "+why) }
		at := slices.IndexFunc(candidates, func(c Finding) bool { return c.ID == j.ID })
		if at < 0 {
			drop("is no pair that the scan lists")
			continue
		}
		if slices.ContainsFunc(by, func(o Judged) bool { return o.ID == j.ID && o.Contradicts != j.Contradicts }) {
			if !verdicts[j.ID] {
				drop("is judged in two ways")
			}
			verdicts[j.ID] = true
			continue
		}
		if !j.Contradicts || slices.ContainsFunc(by[:i], func(o Judged) bool { return o.ID == j.ID }) {
			continue
		}
		c := candidates[at]
		if !quotes(c.Says, j.Here) || !quotes(c.OtherSays, j.There) {
			drop("does not quote the two statements in here and there")
			continue
		}
		c.Why = "it contradicts " + c.Other
		if why := plainLine(j.Why); why != "" && honest(why, c) {
			c.Why += ": " + parley.Cut(why, 300)
		}
		if lake.May(c.Path) == nil {
			e := Edit{Path: c.Path, Base: versionOf(ctx, l, c.Path), Do: DoAppend, New: note(c)}
			if e.Base != "" {
				c.mend("adds a note about it at the end of the page, so that its owner decides", e)
			}
		}
		list = append(list, c)
	}
	return list, leftOut
}

// quotes reports whether words stand in a statement, with any space and in small or large letters.
func quotes(statement, words string) bool {
	squeeze := func(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }
	words = squeeze(words)
	return words != "" && strings.Contains(squeeze(statement), words)
}

var (
	quoted   = pattern.New(`["“”]([^"“”]{3,})["“”]`)
	pageName = pattern.New(`[^\s"'()\[\]|,;]+\.md`)
)

// honest reports whether a reason names no page and quotes no words but those of the two statements.
func honest(why string, c Finding) bool {
	for _, m := range quoted.FindAllStringSubmatch(why, -1) {
		if !quotes(c.Says, m[1]) && !quotes(c.OtherSays, m[1]) && !strings.HasSuffix(m[1], ".md") {
			return false
		}
	}
	for _, name := range pageName.FindAllString(why, -1) {
		if !strings.HasSuffix(c.Path, name) && !strings.HasSuffix(c.Other, name) {
			return false
		}
	}
	return true
}

// plainLine is a text on one line, without control characters.
func plainLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !isLine(string(r), 8) {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// onTop does a finding's edits to pages as the findings before have left them, and returns the new
// contents. nil: its change does not fit, or it has none.
func onTop(ctx context.Context, l *lake.Lake, bodies map[string]*string, x Finding) (list []gitrepo.Edit, err error) {
	now := map[string]*string{}
	var order []string
	for _, e := range x.Edits {
		if lake.May(e.Path) != nil {
			return nil, nil
		}
		body, seen := now[e.Path]
		if !seen {
			order = append(order, e.Path)
			if body, seen = bodies[e.Path]; !seen {
				have, err := l.Read(ctx, e.Path)
				if parley.CodeOf(err) == parley.CodeNotFound || err == nil && have.Version != e.Base {
					return nil, nil // changed since the scan
				}
				if err != nil {
					return nil, err
				}
				body = &have.Body
				bodies[e.Path] = body
			}
		}
		if body == nil {
			return nil, nil // a finding before deletes it
		}
		text, gone, err := e.on(*body)
		if err != nil {
			return nil, nil //nolint:nilerr // it does not fit what the findings before have made of the page
		}
		if now[e.Path] = &text; gone {
			now[e.Path] = nil
		}
	}
	for _, path := range order {
		is := now[path]
		edit := gitrepo.Edit{Path: path, Gone: is == nil}
		if is != nil {
			edit.Body = []byte(*is)
		}
		list = append(list, edit)
		bodies[path] = is
	}
	return list, nil
}
