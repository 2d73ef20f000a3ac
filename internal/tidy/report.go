package tidy

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/pattern"
)

const (
	branches  = "tachikoma/"
	keyPrefix = "tachikoma/"
	// maxReport is the most bytes of a report.
	maxReport = 8 << 20
	// maxBodies is the most bytes of the pages that a proposal's branch changes.
	maxBodies = 32 << 20
)

// report is what the last commit of a proposal's branch says. The branch belongs to the repository, so others may have written it: what a
// person sees of a change is made of the edits that would be applied, and not taken from the report.
type report struct {
	ID       parley.ProposalID `json:"id"`
	At       time.Time         `json:"at"`
	By       string            `json:"by,omitempty"`
	App      string            `json:"app,omitempty"`
	Session  parley.SessionID  `json:"session,omitempty"`
	Turn     parley.TurnID     `json:"turn,omitempty"`
	Base     string            `json:"base"`
	Pages    int               `json:"pages"`
	Findings []Finding         `json:"findings"`

	tip string // the commit that has it
}

// reportOf is the path of a report in its branch. It is hidden, so it is no page.
func reportOf(id parley.ProposalID) string { return ".tachikoma/" + string(id) + ".json" }

var (
	idForm      = pattern.New(`^[a-z0-9][a-z0-9-]{0,63}$`)
	findingForm = pattern.New(`^[0-9a-f]{12}$`)
	commitForm  = pattern.New(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
)

// check refuses a report that this package does not write.
func (r report) check(id parley.ProposalID) error {
	bad := func(format string, args ...any) error {
		return parley.Errorf(parley.CodeInvalid, "the report of proposal %s is not one that Parley has written: %s", id, fmt.Sprintf(format, args...)).
			WithHint("somebody has changed the branch %s%s; delete it with git branch -D", branches, id)
	}
	switch {
	case r.ID != id:
		return bad("it is of another proposal")
	case !commitForm.MatchString(r.Base):
		return bad("it names no commit that it is based on")
	case len(r.Findings) == 0 || len(r.Findings) > maxFindings+maxCandidates:
		return bad("it has %d findings", len(r.Findings))
	}
	for _, text := range []string{r.By, r.App, string(r.Session), string(r.Turn)} {
		if !isLine(text, 200) {
			return bad("it does not say in a line who made it")
		}
	}
	seen := map[string]bool{}
	for i, x := range r.Findings {
		if !findingForm.MatchString(x.ID) || seen[x.ID] || !slices.Contains(Kinds, x.Kind) || x.Why == "" || !isLine(x.Why, 2000) || !isLine(x.Mends, 1000) || !isLine(x.Says, 10_000) || !isLine(x.OtherSays, 10_000) {
			return bad("finding %d is none", i+1)
		}
		seen[x.ID] = true
		for _, p := range []string{x.Path, x.Other} {
			if (p != "" || x.Path == "") && !isPath(p) {
				return bad("finding %d is about no page", i+1)
			}
		}
		for _, e := range x.Edits {
			if !isPath(e.Path) || !commitForm.MatchString(e.Base) {
				return bad("finding %d edits no page", i+1)
			}
		}
	}
	return nil
}

func isPath(text string) bool { return fs.ValidPath(text) && isLine(text, 1024) }

// isLine reports whether a text is one line of a few bytes.
func isLine(text string, most int) bool {
	return len(text) <= most && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' })
}

// encode writes a report. Findings for which there is no room are left out: the next scan finds them again.
func (r *report) encode() ([]byte, error) {
	for {
		raw, err := json.MarshalIndent(r, "", " ")
		if err != nil || len(raw) < maxReport || len(r.Findings) == 0 {
			return append(raw, '\n'), err
		}
		r.Findings = r.Findings[:len(r.Findings)*3/4]
	}
}

// read reads the report of a proposal. errNone: there is no such proposal.
func read(ctx context.Context, repo *gitrepo.Repo, id parley.ProposalID) (report, error) {
	if !idForm.MatchString(string(id)) {
		return report{}, errNone
	}
	tips, err := repo.Stacks(ctx, branches+string(id))
	if err != nil {
		return report{}, err
	}
	return readAt(ctx, repo, tips[branches+string(id)].Commit, id)
}

// readAt reads a report at a commit. errNone: it has none, so it is a branch of somebody else's.
func readAt(ctx context.Context, repo *gitrepo.Repo, tip string, id parley.ProposalID) (r report, err error) {
	if tip == "" {
		return r, errNone
	}
	raw, ok, err := repo.FileOf(ctx, tip, reportOf(id), maxReport)
	if err != nil || !ok {
		return r, orNone(err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return report{}, parley.Errorf(parley.CodeInvalid, "the report of proposal %s cannot be read", id).WithHint("somebody has changed the branch %s%s; delete it with git branch -D", branches, id)
	}
	r.tip = tip
	return r, r.check(id)
}

// isProblem reports whether an error is of one report, and not of the repository.
func isProblem(err error) bool {
	code := parley.CodeOf(err)
	return code == parley.CodeInvalid || code == parley.CodeTooLarge
}

func (r report) title() string {
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

// messageOf is the message of a finding's commit, in the branch and where it is applied.
func messageOf(x Finding, id parley.ProposalID) string {
	text := strings.ToUpper(x.Kind[:1]) + strings.ReplaceAll(x.Kind[1:], "-", " ") + " in " + x.Path
	return text + "\n\n" + parley.Cut(strings.ToUpper(x.Why[:1])+x.Why[1:], 500) + ". The change " + x.Mends + ".\n\nTachikoma-Finding: " + string(id) + "/" + x.ID
}

// toSettle begins a note.
const toSettle = "> To settle: here "

// note is what is added to a page that contradicts another one.
func note(x Finding) string {
	return fmt.Sprintf(toSettle+"%q, and in [[%s]] %q.", parley.Cut(x.Says, 200), strings.TrimSuffix(x.Other[strings.LastIndexByte(x.Other, '/')+1:], ".md"), parley.Cut(x.OtherSays, 200))
}

func versionOf(ctx context.Context, l *lake.Lake, path string) string {
	e, err := l.Read(ctx, path)
	if err != nil {
		return ""
	}
	return e.Version
}
