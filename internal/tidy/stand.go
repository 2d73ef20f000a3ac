package tidy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/lake"
)

const (
	// maxWaiting is how many proposals with something to decide a lake may have.
	maxWaiting = 30
	// maxSettled is how many proposals are kept in which everything is decided.
	maxSettled = 20
	// maxRejected is how many rejected findings of proposals that are not kept are remembered.
	maxRejected = 5000
	// maxDiff is the longest difference of a finding that is shown with others, in bytes.
	maxDiff = 16 << 10
	// rejectedNote has the rejected findings of proposals that are not kept.
	rejectedNote = "tachikoma-rejected"
)

// decided is what people have said about the findings of a proposal, beside applying them. When nothing is left to decide it has all, so
// that nobody has to look into the pages and the history for it.
type decided struct {
	Rejected map[string]string `json:"rejected"` // by whom, by the finding's id
	Settled  time.Time         `json:"settled,omitzero"`
	Applied  map[string]string `json:"applied,omitempty"` // by which commit; once it is settled
	Stale    map[string]string `json:"stale,omitempty"`   // why; once it is settled
}

var errNone = parley.Errorf(parley.CodeNotFound, "there is no such proposal").WithHint("GET /v1/proposals lists those of the lake")

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

// observer looks at proposals. It reads each page once.
type observer struct {
	l       *lake.Lake
	repo    *gitrepo.Repo
	tree    map[string]string
	pages   map[string]*parley.Entity // nil: there is none
	applied map[string]lake.Applied   // by key
}

func observe(ctx context.Context, l *lake.Lake) (*observer, error) {
	repo, err := l.Repo(ctx)
	if err != nil {
		return nil, err
	}
	_, tree, err := repo.Tree(ctx)
	return &observer{l: l, repo: repo, tree: tree, pages: map[string]*parley.Entity{}}, err
}

func (o *observer) page(ctx context.Context, path string) (*parley.Entity, error) {
	if e, ok := o.pages[path]; ok {
		return e, nil
	}
	e, err := o.l.Read(ctx, path)
	switch {
	case parley.CodeOf(err) == parley.CodeNotFound, err == nil && e.Path != path:
		o.pages[path] = nil
	case err != nil:
		return nil, err
	default:
		o.pages[path] = &e
	}
	return o.pages[path], nil
}

// stand is how a proposal stands. diffs: with the differences.
func (o *observer) stand(ctx context.Context, r report, d decided, diffs bool) (p parley.Proposal, err error) {
	p = parley.Proposal{
		ID: r.ID, Title: r.title(), At: r.At, By: r.By, App: r.App, Session: r.Session, Turn: r.Turn, Branch: branches + string(r.ID), Base: r.Base, Version: r.tip,
		Report: r.markdown(), Counts: map[parley.FindingStatus]int{},
	}
	if d.Settled.IsZero() && o.applied == nil {
		if o.applied, err = o.l.AppliedSince(ctx, keyOf(r.ID, ""), r.Base); err != nil {
			return p, err
		}
	}
	ours := left(o.applied, r.ID)
	var commits []string
	for _, x := range r.Findings {
		f := parley.ProposalFinding{
			ID: x.ID, Kind: x.Kind, Path: x.Path, Line: x.Line, Other: x.Other, Why: x.Why, Mends: x.Mends, Says: x.Says, OtherSays: x.OtherSays, Status: parley.FindingOpen,
		}
		by, isRejected := d.Rejected[x.ID]
		commit, why := d.Applied[x.ID], d.Stale[x.ID]
		if d.Settled.IsZero() {
			commit = o.applied[keyOf(r.ID, x.ID)].Commit
		}
		switch {
		case commit != "":
			f.Status, f.Commit = parley.FindingApplied, commit
			commits = append(commits, commit)
		case isRejected:
			f.Status, f.By = parley.FindingRejected, by
		case !d.Settled.IsZero():
			f.Status, f.Reason = parley.FindingStale, cmp.Or(why, "its change did not fit any more")
		case len(x.Edits) > 0:
			if f.Diff, why, err = o.difference(ctx, x.Edits, ours, diffs); err != nil {
				return p, err
			}
			if why != "" {
				f.Status, f.Reason = parley.FindingStale, why
			}
		}
		p.Counts[f.Status]++
		p.Findings = append(p.Findings, f)
	}
	if !diffs {
		return p, nil
	}
	done, err := o.l.DiffsOf(ctx, commits)
	if err != nil {
		return p, err
	}
	for i := range p.Findings {
		if f := &p.Findings[i]; f.Commit != "" {
			f.Diff = done[f.Commit]
		}
	}
	return p, nil
}

// difference is what edits change in the pages as they are now. why says that they do not fit, and cannot be applied.
func (o *observer) difference(ctx context.Context, edits []Edit, ours map[string][]string, diffs bool) (diff, why string, err error) {
	now := map[string]*string{}
	var order []string
	for _, e := range edits {
		if err := lake.May(e.Path); err != nil {
			return "", err.Error(), nil
		}
		body, seen := now[e.Path]
		if !seen {
			page, err := o.page(ctx, e.Path)
			switch {
			case err != nil:
				return "", "", err
			case page == nil:
				return "", e.Path + " is not there any more", nil
			case page.Version != e.Base && !slices.Contains(ours[e.Path], page.Version):
				return "", e.Path + " was changed by somebody", nil
			case o.tree[e.Path] != page.Version:
				return "", e.Path + " has changes that are not committed", nil
			case (e.Do == DoDelete || e.Do == DoWhole) && page.Version != e.Base:
				return "", e.Path + " was changed by another finding", nil
			}
			order, body = append(order, e.Path), &page.Body
		}
		if body == nil {
			return "", e.Path + " is deleted by the same change", nil
		}
		text, gone, err := e.on(*body)
		if err != nil {
			return "", parley.Info(err).Message, nil
		}
		if now[e.Path] = &text; gone {
			now[e.Path] = nil
		}
	}
	changes := false
	var b strings.Builder
	for _, path := range order {
		was, is, text := o.pages[path].Body, now[path], ""
		if is != nil {
			text = *is
		}
		changes = changes || is == nil || was != text
		if diffs {
			b.WriteString(lake.Unified(path, was, text, is == nil))
		}
	}
	if !changes {
		return "", "the pages are as the change would make them", nil
	}
	return b.String(), "", nil
}

// left are the versions in which applied findings of a proposal have left pages.
func left(applied map[string]lake.Applied, id parley.ProposalID) map[string][]string {
	m := map[string][]string{}
	for key, a := range applied {
		if !strings.HasPrefix(key, keyOf(id, "")) {
			continue
		}
		for path, version := range a.Versions {
			if version != "" {
				m[path] = append(m[path], version)
			}
		}
	}
	return m
}

func keyOf(id parley.ProposalID, finding string) string {
	return keyPrefix + string(id) + "/" + finding
}

func decisions(ctx context.Context, repo *gitrepo.Repo, id parley.ProposalID) (d decided, version string, err error) {
	raw, version, err := repo.Note(ctx, branches+string(id))
	if err == nil && version != "" && json.Unmarshal(raw, &d) != nil {
		d = decided{} // somebody else has written it: nothing is decided
	}
	if d.Rejected == nil {
		d.Rejected = map[string]string{}
	}
	return d, version, err
}

// cut shortens the differences of a proposal.
func cut(p *parley.Proposal) {
	for i := range p.Findings {
		f := &p.Findings[i]
		if len(f.Diff) <= maxDiff {
			continue
		}
		f.Diff, f.DiffCut = f.Diff[:strings.LastIndexByte(f.Diff[:maxDiff], '\n')+1], true
	}
}

// settle notes how everything was decided, if it is. stale: what does not fit any more counts as decided.
func settle(ctx context.Context, repo *gitrepo.Repo, p parley.Proposal, at time.Time, stale bool) (settled bool, err error) {
	if p.Counts[parley.FindingOpen] > 0 || p.Counts[parley.FindingStale] > 0 && !stale {
		return false, nil
	}
	d, version, err := decisions(ctx, repo, p.ID)
	if err != nil || !d.Settled.IsZero() {
		return err == nil, err
	}
	d.Settled, d.Applied, d.Stale = parley.Now(at), map[string]string{}, map[string]string{}
	for _, f := range p.Findings {
		switch f.Status {
		case parley.FindingApplied:
			d.Applied[f.ID] = f.Commit
		case parley.FindingStale:
			d.Stale[f.ID] = parley.Cut(f.Reason, 300)
		}
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return false, err
	}
	err = repo.SetNote(ctx, branches+string(p.ID), version, raw)
	if parley.CodeOf(err) == parley.CodeConflict {
		return false, nil // somebody is deciding; the next one notes it
	}
	return err == nil, err
}

// listed is a proposal's branch.
type listed struct {
	id  parley.ProposalID
	tip gitrepo.StackTip
}

// all are the branches of proposals, the newest first. Some may be of somebody else.
func all(ctx context.Context, repo *gitrepo.Repo) (list []listed, err error) {
	tips, err := repo.Stacks(ctx, branches)
	for name, tip := range tips {
		if id := strings.TrimPrefix(name, branches); idForm.MatchString(id) {
			list = append(list, listed{parley.ProposalID(id), tip})
		}
	}
	// The ids of calls are in the order of time, and so are the pages.
	slices.SortFunc(list, func(a, b listed) int { return cmp.Compare(b.id, a.id) })
	return list, err
}

// earlier is what is known of the proposals that a lake has.
type earlier struct {
	known      map[string]bool // findings that are open or rejected
	open       int             // proposals with something to decide
	unreadable int
}

// review looks at all proposals before another one is made. It settles those in which nothing can be decided any more, and removes the
// oldest of these; their rejected findings stay known.
func review(ctx context.Context, l *lake.Lake, at time.Time) (e earlier, err error) {
	e.known = map[string]bool{}
	o, err := observe(ctx, l)
	if err != nil {
		return e, err
	}
	list, err := all(ctx, o.repo)
	if err != nil {
		return e, err
	}
	gone, err := rejectedOnce(ctx, o.repo)
	if err != nil {
		return e, err
	}
	for id := range gone.Findings {
		e.known[id] = true
	}
	kept := 0
	for _, b := range list {
		p, d, err := o.one(ctx, b)
		switch {
		case errors.Is(err, parley.ErrNotFound):
			continue
		case isProblem(err):
			e.unreadable++
			continue
		case err != nil:
			return e, err
		}
		for _, f := range p.Findings {
			if f.Status == parley.FindingOpen || f.Status == parley.FindingRejected {
				e.known[f.ID] = true
			}
		}
		settled := !d.Settled.IsZero()
		if !settled {
			if settled, err = settle(ctx, o.repo, p, at, true); err != nil {
				return e, err
			}
		}
		switch {
		case !settled:
			e.open++
		case kept < maxSettled:
			kept++
		default:
			if err := remove(ctx, o.repo, b, d); err != nil {
				return e, err
			}
		}
	}
	return e, nil
}

// one is how a proposal stands, without differences.
func (o *observer) one(ctx context.Context, b listed) (p parley.Proposal, d decided, err error) {
	r, err := readAt(ctx, o.repo, b.tip.Commit, b.id)
	if err != nil {
		return p, d, err
	}
	if d, _, err = decisions(ctx, o.repo, b.id); err != nil {
		return p, d, err
	}
	if d.Settled.IsZero() {
		if o.applied, err = o.l.AppliedSince(ctx, keyOf(r.ID, ""), r.Base); err != nil {
			return p, d, err
		}
	}
	p, err = o.stand(ctx, r, d, false)
	return p, d, err
}

// once is what was rejected in proposals that are gone, and when they were removed.
type once struct {
	Findings map[string]int64 `json:"findings"` // in seconds since 1970

	version string
}

func rejectedOnce(ctx context.Context, repo *gitrepo.Repo) (o once, err error) {
	raw, version, err := repo.Note(ctx, rejectedNote)
	if err == nil && version != "" && json.Unmarshal(raw, &o) != nil {
		o = once{}
	}
	if o.version = version; o.Findings == nil {
		o.Findings = map[string]int64{}
	}
	return o, err
}

// remove removes a proposal in which everything is decided. What was rejected is noted first.
func remove(ctx context.Context, repo *gitrepo.Repo, b listed, d decided) error {
	if len(d.Rejected) > 0 {
		o, err := rejectedOnce(ctx, repo)
		if err != nil {
			return err
		}
		for id := range d.Rejected {
			o.Findings[id] = d.Settled.Unix()
		}
		for len(o.Findings) > maxRejected {
			oldest := ""
			for id, at := range o.Findings {
				if oldest == "" || at < o.Findings[oldest] || at == o.Findings[oldest] && id < oldest {
					oldest = id
				}
			}
			delete(o.Findings, oldest)
		}
		raw, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if err := repo.SetNote(ctx, rejectedNote, o.version, raw); err != nil {
			return err
		}
	}
	if err := repo.DropStack(ctx, branches+string(b.id), b.tip.Commit); err != nil {
		return err
	}
	return repo.DropNote(ctx, branches+string(b.id))
}
