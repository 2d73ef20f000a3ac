package tidy

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
)

// Page lists proposals behind one, "" the first, without their findings, the newest first. next is empty on the last page. One whose
// report cannot be read is listed with its Problem.
func Page(ctx context.Context, l *lake.Lake, after parley.ProposalID, limit int) (list []parley.Proposal, next parley.ProposalID, err error) {
	o, err := observe(ctx, l)
	if err != nil {
		return nil, "", err
	}
	branches, err := all(ctx, o.repo)
	if err != nil {
		return nil, "", err
	}
	list = []parley.Proposal{}
	for _, b := range branches {
		if after != "" && b.id >= after {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].ID, nil
		}
		p, _, err := o.one(ctx, b)
		switch {
		case errors.Is(err, parley.ErrNotFound):
			continue
		case isProblem(err):
			p = unreadable(b, err)
		case err != nil:
			return nil, "", err
		}
		p.Findings, p.Report = nil, ""
		list = append(list, p)
	}
	return list, "", nil
}

func unreadable(b listed, err error) parley.Proposal {
	return parley.Proposal{
		ID: b.id, Title: "A proposal that cannot be read", At: b.tip.At, Branch: branches + string(b.id), Version: b.tip.Commit, Problem: parley.Info(err).Message,
		Counts: map[parley.FindingStatus]int{},
	}
}

// view is how a proposal stands now, with its differences.
func view(ctx context.Context, l *lake.Lake, r report, d decided) (*observer, parley.Proposal, error) {
	o, err := observe(ctx, l)
	if err != nil {
		return nil, parley.Proposal{}, err
	}
	p, err := o.stand(ctx, r, d, true)
	return o, p, err
}

// open reads a proposal and what was decided about it. version is that which somebody has seen; "": any.
func open(ctx context.Context, l *lake.Lake, id parley.ProposalID, version string) (r report, d decided, err error) {
	repo, err := l.Repo(ctx)
	if err != nil {
		return r, d, err
	}
	if r, err = read(ctx, repo, id); err != nil {
		return r, d, err
	}
	if version != "" && version != r.tip {
		e := parley.Errorf(parley.CodeConflict, "the proposal is not the one that was read: its branch was changed").WithField("version").WithHint("read it again, and decide then")
		e.Current = parley.Digest(r.tip)
		return r, d, e
	}
	d, _, err = decisions(ctx, repo, id)
	return r, d, err
}

// Read reads a proposal, with what became of each finding. Long differences are cut, unless only one finding is asked for.
func Read(ctx context.Context, l *lake.Lake, id parley.ProposalID, finding string) (parley.Proposal, error) {
	r, d, err := open(ctx, l, id, "")
	if err != nil {
		return parley.Proposal{}, err
	}
	_, p, err := view(ctx, l, r, d)
	if err != nil || finding == "" {
		cut(&p)
		return p, err
	}
	p.Findings = slices.DeleteFunc(p.Findings, func(f parley.ProposalFinding) bool { return f.ID != finding })
	if p.Report = ""; len(p.Findings) == 0 {
		return p, parley.Errorf(parley.CodeNotFound, "the proposal has no finding %q", parley.Cut(finding, 60)).WithField("finding")
	}
	return p, nil
}

// chosen are the findings that somebody means.
func chosen(r report, c parley.DecideFindings) ([]Finding, error) {
	if c.All == (len(c.Findings) > 0) {
		return nil, parley.Errorf(parley.CodeInvalid, "say which findings are meant").WithField("findings").WithHint(`a list of ids, or "all": true`)
	}
	if c.All {
		return r.Findings, nil
	}
	var list []Finding
	for _, x := range r.Findings { // in the order of the report
		if slices.Contains(c.Findings, x.ID) {
			list = append(list, x)
		}
	}
	for _, id := range c.Findings {
		if !slices.ContainsFunc(list, func(x Finding) bool { return x.ID == id }) {
			return nil, parley.Errorf(parley.CodeNotFound, "the proposal has no finding %q", parley.Cut(id, 60)).WithField("findings")
		}
	}
	return list, nil
}

// Apply applies findings of a proposal, one commit for each, in the name of who says so. What is
// applied already stays so; what others have changed since, what was rejected, and what has no change are
// left alone. A repetition applies nothing twice.
func Apply(ctx context.Context, l *lake.Lake, id parley.ProposalID, who lake.Author, at time.Time, c parley.DecideFindings) (parley.Proposal, error) {
	r, d, err := open(ctx, l, id, c.Version)
	if err != nil {
		return parley.Proposal{}, err
	}
	list, err := chosen(r, c)
	if err != nil {
		return parley.Proposal{}, err
	}
	o, now, err := view(ctx, l, r, d)
	if err != nil {
		return parley.Proposal{}, err
	}
	ours := left(o.applied, id)
	for _, x := range list {
		f := now.Findings[slices.IndexFunc(now.Findings, func(f parley.ProposalFinding) bool { return f.ID == x.ID })]
		if f.Status != parley.FindingOpen || len(x.Edits) == 0 || c.All && len(f.Diff) > maxDiff {
			continue
		}
		p := lake.Patch{Author: who, Reason: messageOf(x, id), Key: keyOf(id, x.ID)}
		for _, e := range x.Edits {
			p.Edits = append(p.Edits, lake.PatchEdit{Path: e.Path, Versions: append([]string{e.Base}, ours[e.Path]...), On: e.on})
		}
		a, err := l.Apply(ctx, p)
		if parley.CodeOf(err) == parley.CodeConflict || errors.Is(err, parley.ErrNotFound) {
			continue // it is stale; stand says why
		}
		if err != nil {
			return parley.Proposal{}, err
		}
		for path, version := range a.Versions {
			if version != "" {
				ours[path] = append(ours[path], version)
			}
		}
	}
	return result(ctx, l, r, at)
}

// Reject rejects findings of a proposal: they are not proposed again while the pages stay as they
// are. What is applied stays so.
func Reject(ctx context.Context, l *lake.Lake, id parley.ProposalID, who string, at time.Time, c parley.DecideFindings) (parley.Proposal, error) {
	r, _, err := open(ctx, l, id, c.Version)
	if err != nil {
		return parley.Proposal{}, err
	}
	list, err := chosen(r, c)
	if err != nil {
		return parley.Proposal{}, err
	}
	repo, err := l.Repo(ctx)
	if err != nil {
		return parley.Proposal{}, err
	}
	for range 10 {
		d, version, err := decisions(ctx, repo, id)
		if err != nil {
			return parley.Proposal{}, err
		}
		if !d.Settled.IsZero() {
			break
		}
		_, now, err := view(ctx, l, r, d)
		if err != nil {
			return now, err
		}
		for _, x := range list {
			i := slices.IndexFunc(now.Findings, func(f parley.ProposalFinding) bool { return f.ID == x.ID })
			if s := now.Findings[i].Status; s == parley.FindingOpen || s == parley.FindingStale {
				d.Rejected[x.ID] = who
			}
		}
		raw, err := json.Marshal(d)
		if err != nil {
			return now, err
		}
		err = repo.SetNote(ctx, branches+string(id), version, raw)
		if err == nil {
			return result(ctx, l, r, at)
		}
		if parley.CodeOf(err) != parley.CodeConflict {
			return now, err
		}
	}
	p, err := Read(ctx, l, id, "")
	if err == nil && p.Counts[parley.FindingOpen] > 0 {
		err = parley.Errorf(parley.CodeConflict, "others are deciding about the proposal at the same time")
	}
	return p, err
}

// result is how a proposal stands after somebody has decided. If nothing is left to decide, that is noted.
func result(ctx context.Context, l *lake.Lake, r report, at time.Time) (parley.Proposal, error) {
	repo, err := l.Repo(ctx)
	if err != nil {
		return parley.Proposal{}, err
	}
	d, _, err := decisions(ctx, repo, r.ID)
	if err != nil {
		return parley.Proposal{}, err
	}
	_, p, err := view(ctx, l, r, d)
	if err != nil {
		return p, err
	}
	if _, err := settle(ctx, repo, p, at, false); err != nil {
		return p, err
	}
	cut(&p)
	return p, nil
}
