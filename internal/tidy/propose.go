package tidy

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/lake"
)

const (
	branches  = "tachikoma/"
	keyPrefix = "tachikoma/"
	// maxDiff is the longest diff of a finding that a report has.
	maxDiff = 16 << 10
	// maxReport is the most bytes of a report.
	maxReport = 8 << 20
)

// author makes the commits of a proposal's branch.
var author = lake.Author{Name: "Tachikoma", Email: "tachikoma@localhost"}

// report is what the last commit of a proposal's branch says.
type report struct {
	ID       parley.ProposalID `json:"id"`
	Title    string            `json:"title"`
	At       time.Time         `json:"at"`
	By       string            `json:"by,omitempty"`
	App      string            `json:"app,omitempty"`
	Session  parley.SessionID  `json:"session,omitempty"`
	Turn     parley.TurnID     `json:"turn,omitempty"`
	Base     string            `json:"base"`
	Pages    int               `json:"pages"`
	Findings []reported        `json:"findings"`
}

type reported struct {
	Finding
	Diff string `json:"diff,omitempty"`
}

// reportOf is the path of a report in its branch. It is hidden, so it is no page.
func reportOf(id parley.ProposalID) string { return ".tachikoma/" + string(id) + ".json" }

var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// Judged is what somebody says about a candidate.
type Judged struct {
	ID          string `json:"id"`
	Contradicts bool   `json:"contradicts"`
	Why         string `json:"why,omitempty"` // in a sentence, for people
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
	ID       parley.ProposalID
	Findings int
	Changes  int // findings with a change
	Known    int // findings that an earlier proposal has, open or rejected
	Repeated bool
}

// Propose scans the lake and makes a proposal of what it finds, except what an earlier one
// proposes still, and what was rejected. Without any there is no proposal, and Findings is 0.
func Propose(ctx context.Context, l *lake.Lake, a Asked) (p Proposed, err error) {
	if !idForm.MatchString(string(a.ID)) {
		return p, parley.Errorf(parley.CodeInvalid, "%q is no id of a proposal", parley.Cut(string(a.ID), 80))
	}
	if r, ok, err := read(ctx, l, a.ID); err != nil || ok {
		return proposed(r, true), err
	}
	s, err := Scan(ctx, l, a.At)
	if err != nil {
		return p, err
	}
	if s.Head == "" {
		return p, nil // nothing is committed
	}
	known, err := earlier(ctx, l)
	if err != nil {
		return p, err
	}
	list := s.Findings
	for _, j := range a.Judged {
		i := slices.IndexFunc(s.Candidates, func(c Finding) bool { return c.ID == j.ID })
		if i < 0 || !j.Contradicts {
			continue
		}
		c := s.Candidates[i]
		c.Why = "it contradicts " + c.Other
		if why := strings.Join(strings.Fields(j.Why), " "); why != "" {
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
	r := report{ID: a.ID, At: parley.Now(a.At), By: a.By, App: a.App, Session: a.Session, Turn: a.Turn, Base: s.Head, Pages: s.Pages}
	bodies := map[string]*string{}
	var stack []gitrepo.Stacked
	for _, x := range list {
		if slices.Contains(a.Leave, x.ID) {
			continue
		}
		if known[x.ID] {
			p.Known++
			continue
		}
		one := reported{Finding: x}
		edits, diff, err := onTop(ctx, l, bodies, x)
		if err != nil {
			return p, err
		}
		if one.Diff = diff; edits == nil {
			one.Mends, one.Edits = "", nil
		} else {
			stack = append(stack, gitrepo.Stacked{Edits: edits, Message: messageOf(x, a.ID), Author: author, When: r.At})
		}
		r.Findings = append(r.Findings, one)
	}
	if len(r.Findings) == 0 {
		return p, nil
	}
	r.Title = titleText(r)
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return p, err
	}
	stack = append(stack, gitrepo.Stacked{Edits: []gitrepo.Edit{{Path: reportOf(a.ID), Body: append(raw, '\n')}}, Message: r.Title + "\n\n" + r.markdown(), Author: author, When: r.At})
	repo, err := l.Repo(ctx)
	if err != nil {
		return p, err
	}
	if _, err := repo.Stack(ctx, branches+string(a.ID), s.Head, stack); err != nil {
		return p, err
	}
	out := proposed(r, false)
	out.Known = p.Known
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

func versionOf(ctx context.Context, l *lake.Lake, path string) string {
	e, err := l.Read(ctx, path)
	if err != nil {
		return ""
	}
	return e.Version
}

// note is what is added to a page that contradicts another one.
func note(x Finding) string {
	return fmt.Sprintf("> To settle: here %q, and in [[%s]] %q.", parley.Cut(x.Says, 200), strings.TrimSuffix(x.Other[strings.LastIndexByte(x.Other, '/')+1:], ".md"), parley.Cut(x.OtherSays, 200))
}

// onTop does a finding's edits to pages as the findings before have left them, and returns the new
// contents and the difference. nil: its change does not fit, or it has none.
func onTop(ctx context.Context, l *lake.Lake, bodies map[string]*string, x Finding) (list []gitrepo.Edit, diff string, err error) {
	now := map[string]*string{}
	var order []string
	for _, e := range x.Edits {
		if lake.May(e.Path) != nil {
			return nil, "", nil
		}
		body, seen := now[e.Path]
		if !seen {
			order = append(order, e.Path)
			if body, seen = bodies[e.Path]; !seen {
				have, err := l.Read(ctx, e.Path)
				if parley.CodeOf(err) == parley.CodeNotFound || err == nil && have.Version != e.Base {
					return nil, "", nil // changed since the scan
				}
				if err != nil {
					return nil, "", err
				}
				body = &have.Body
				bodies[e.Path] = body
			}
		}
		if body == nil {
			return nil, "", nil // a finding before deletes it
		}
		text, gone, err := e.on(*body)
		if err != nil {
			return nil, "", nil //nolint:nilerr // it does not fit what the findings before have made of the page
		}
		if now[e.Path] = &text; gone {
			now[e.Path] = nil
		}
	}
	var b strings.Builder
	for _, path := range order {
		was, is := bodies[path], now[path]
		edit, text := gitrepo.Edit{Path: path, Gone: is == nil}, ""
		if is != nil {
			edit.Body, text = []byte(*is), *is
		}
		to := "b/" + path
		if is == nil {
			to = "/dev/null"
		}
		b.WriteString(udiff.Unified("a/"+path, to, *was, text))
		list = append(list, edit)
		bodies[path] = is
	}
	if len(list) == 0 {
		return nil, "", nil
	}
	diff = b.String()
	if len(diff) > maxDiff {
		diff = parley.Cut(diff, maxDiff) + "\n"
	}
	return list, diff, nil
}

// messageOf is the message of a finding's commit, in the branch and where it is applied.
func messageOf(x Finding, id parley.ProposalID) string {
	text := strings.ToUpper(x.Kind[:1]) + strings.ReplaceAll(x.Kind[1:], "-", " ") + " in " + x.Path
	return text + "\n\n" + parley.Cut(strings.ToUpper(x.Why[:1])+x.Why[1:], 500) + ". The change " + x.Mends + ".\n\nTachikoma-Finding: " + string(id) + "/" + x.ID
}

func titleText(r report) string {
	if len(r.Findings) == 1 {
		return "1 thing to tidy up"
	}
	return fmt.Sprintf("%d things to tidy up", len(r.Findings))
}

// markdown is the report for people.
func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pages were looked at on %s, as commit %s has them.\n", r.Pages, r.At.Format(time.DateOnly), first(r.Base, 10))
	for _, kind := range Kinds {
		n := 0
		for _, x := range r.Findings {
			if x.Kind != kind {
				continue
			}
			if n++; n == 1 {
				fmt.Fprintf(&b, "\n## %s\n\n", strings.ToUpper(kind[:1])+strings.ReplaceAll(kind[1:], "-", " "))
			}
			fmt.Fprintf(&b, "- %s:%d: %s", x.Path, max(x.Line, 1), x.Why)
			if x.Mends != "" {
				fmt.Fprintf(&b, "; the change %s", x.Mends)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// read reads the report of a proposal.
func read(ctx context.Context, l *lake.Lake, id parley.ProposalID) (r report, ok bool, err error) {
	if !idForm.MatchString(string(id)) {
		return r, false, nil
	}
	repo, err := l.Repo(ctx)
	if err != nil {
		return r, false, err
	}
	tips, err := repo.Stacks(ctx, branches+string(id))
	if err != nil {
		return r, false, err
	}
	return readAt(ctx, repo, tips[branches+string(id)], id)
}

func readAt(ctx context.Context, repo *gitrepo.Repo, tip string, id parley.ProposalID) (r report, ok bool, err error) {
	if tip == "" {
		return r, false, nil
	}
	raw, ok, err := repo.FileOf(ctx, tip, reportOf(id), maxReport)
	if err != nil || !ok {
		return r, false, err // a branch of somebody else's
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.ID != id {
		return r, false, nil //nolint:nilerr // the same
	}
	return r, true, nil
}

// earlier are the findings that need no other proposal: those that are open or rejected in one.
func earlier(ctx context.Context, l *lake.Lake) (map[string]bool, error) {
	known := map[string]bool{}
	list, err := List(ctx, l)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		whole, err := Read(ctx, l, p.ID)
		if err != nil {
			return nil, err
		}
		for _, x := range whole.Findings {
			if x.Status == parley.FindingOpen || x.Status == parley.FindingRejected {
				known[x.ID] = true
			}
		}
	}
	return known, nil
}
