package tidy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/lake"
)

// decided is what people have said about the findings of a proposal, beside applying them.
type decided struct {
	Rejected map[string]string `json:"rejected"` // by whom, by the finding's id
}

var errNone = parley.Errorf(parley.CodeNotFound, "there is no such proposal").WithHint("GET /v1/proposals lists those of the lake")

// List lists all proposals of a lake, the newest first, without their findings.
func List(ctx context.Context, l *lake.Lake) (all []parley.Proposal, err error) {
	for after := parley.ProposalID(""); ; {
		list, next, err := Page(ctx, l, after, 100)
		if err != nil {
			return nil, err
		}
		if all = append(all, list...); next == "" {
			return all, nil
		}
		after = next
	}
}

// Read reads a proposal, with what became of each finding.
func Read(ctx context.Context, l *lake.Lake, id parley.ProposalID) (parley.Proposal, error) {
	r, ok, err := read(ctx, l, id)
	if err != nil || !ok {
		return parley.Proposal{}, orNone(err)
	}
	repo, err := l.Repo(ctx)
	if err != nil {
		return parley.Proposal{}, err
	}
	return stand(ctx, l, repo, r)
}

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

// stand is how a proposal stands.
func stand(ctx context.Context, l *lake.Lake, repo *gitrepo.Repo, r report) (p parley.Proposal, err error) {
	p = parley.Proposal{
		ID: r.ID, Title: r.Title, At: r.At, By: r.By, App: r.App, Session: r.Session, Turn: r.Turn, Branch: branches + string(r.ID), Base: r.Base,
		Report: r.markdown(), Counts: map[parley.FindingStatus]int{},
	}
	d, _, err := decisions(ctx, repo, r.ID)
	if err != nil {
		return p, err
	}
	applied, err := l.AppliedSince(ctx, keyOf(r.ID, ""), r.Base)
	if err != nil {
		return p, err
	}
	_, tree, err := repo.Tree(ctx)
	if err != nil {
		return p, err
	}
	ours := left(applied)
	for _, x := range r.Findings {
		f := parley.ProposalFinding{
			ID: x.ID, Kind: x.Kind, Path: x.Path, Line: x.Line, Other: x.Other, Why: x.Why, Mends: x.Mends, Says: x.Says, OtherSays: x.OtherSays, Diff: x.Diff, Status: parley.FindingOpen,
		}
		a, isApplied := applied[keyOf(r.ID, x.ID)]
		by, isRejected := d.Rejected[x.ID]
		switch {
		case isApplied:
			f.Status, f.Commit = parley.FindingApplied, a.Commit
		case isRejected:
			f.Status, f.By = parley.FindingRejected, by
		default:
			for _, e := range x.Edits {
				now, err := workingVersion(ctx, l, e.Path)
				if err != nil {
					return p, err
				}
				why := ""
				switch {
				case now == "":
					why = "is not there any more"
				case now != e.Base && !slices.Contains(ours[e.Path], now):
					why = "was changed by somebody"
				case tree[e.Path] != now:
					why = "has changes that are not committed"
				case (e.Do == DoDelete || e.Do == DoWhole) && now != e.Base:
					why = "was changed by another finding"
				}
				if why != "" {
					f.Status, f.Reason = parley.FindingStale, e.Path+" "+why
					break
				}
			}
		}
		p.Counts[f.Status]++
		p.Findings = append(p.Findings, f)
	}
	return p, nil
}

func workingVersion(ctx context.Context, l *lake.Lake, path string) (string, error) {
	e, err := l.Read(ctx, path)
	if parley.CodeOf(err) == parley.CodeNotFound {
		return "", nil
	}
	return e.Version, err
}

// left are the versions in which applied findings have left pages.
func left(applied map[string]lake.Applied) map[string][]string {
	m := map[string][]string{}
	for _, a := range applied {
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
	if err == nil && version != "" {
		err = json.Unmarshal(raw, &d)
	}
	if d.Rejected == nil {
		d.Rejected = map[string]string{}
	}
	return d, version, err
}

// chosen are the findings that somebody means.
func chosen(r report, c parley.DecideFindings) ([]reported, error) {
	if c.All == (len(c.Findings) > 0) {
		return nil, parley.Errorf(parley.CodeInvalid, "say which findings are meant").WithField("findings").WithHint(`a list of ids, or "all": true`)
	}
	if c.All {
		return r.Findings, nil
	}
	var list []reported
	for _, x := range r.Findings { // in the order of the report
		if slices.Contains(c.Findings, x.ID) {
			list = append(list, x)
		}
	}
	for _, id := range c.Findings {
		if !slices.ContainsFunc(list, func(x reported) bool { return x.ID == id }) {
			return nil, parley.Errorf(parley.CodeNotFound, "the proposal has no finding %q", parley.Cut(id, 60)).WithField("findings")
		}
	}
	return list, nil
}

// Apply applies findings of a proposal, one commit for each, in the name of who says so. What is
// applied already stays so; what others have changed since, what was rejected, and what has no change are
// left alone. A repetition applies nothing twice.
func Apply(ctx context.Context, l *lake.Lake, id parley.ProposalID, who lake.Author, c parley.DecideFindings) (parley.Proposal, error) {
	r, ok, err := read(ctx, l, id)
	if err != nil || !ok {
		return parley.Proposal{}, orNone(err)
	}
	list, err := chosen(r, c)
	if err != nil {
		return parley.Proposal{}, err
	}
	repo, err := l.Repo(ctx)
	if err != nil {
		return parley.Proposal{}, err
	}
	d, _, err := decisions(ctx, repo, id)
	if err != nil {
		return parley.Proposal{}, err
	}
	applied, err := l.AppliedSince(ctx, keyOf(id, ""), r.Base)
	if err != nil {
		return parley.Proposal{}, err
	}
	ours := left(applied)
	for _, x := range list {
		_, done := applied[keyOf(id, x.ID)]
		_, rejected := d.Rejected[x.ID]
		if done || rejected || len(x.Edits) == 0 {
			continue
		}
		p := lake.Patch{Author: who, Reason: messageOf(x.Finding, id), Key: keyOf(id, x.ID)}
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
	return stand(ctx, l, repo, r)
}

// Reject rejects findings of a proposal: they are not proposed again while the pages stay as they
// are. What is applied stays so.
func Reject(ctx context.Context, l *lake.Lake, id parley.ProposalID, who string, c parley.DecideFindings) (parley.Proposal, error) {
	r, ok, err := read(ctx, l, id)
	if err != nil || !ok {
		return parley.Proposal{}, orNone(err)
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
		now, err := stand(ctx, l, repo, r)
		if err != nil {
			return now, err
		}
		d, version, err := decisions(ctx, repo, id)
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
		if err = repo.SetNote(ctx, branches+string(id), version, raw); err == nil {
			return stand(ctx, l, repo, r)
		}
		if parley.CodeOf(err) != parley.CodeConflict {
			return now, err
		}
	}
	return parley.Proposal{}, parley.Errorf(parley.CodeConflict, "others are deciding about the proposal at the same time")
}

// Page is a page of List, behind a proposal; "": the first. next is empty on the last.
func Page(ctx context.Context, l *lake.Lake, after parley.ProposalID, limit int) (list []parley.Proposal, next parley.ProposalID, err error) {
	repo, err := l.Repo(ctx)
	if err != nil {
		return nil, "", err
	}
	tips, err := repo.Stacks(ctx, branches)
	if err != nil {
		return nil, "", err
	}
	all := make([]parley.ProposalID, 0, len(tips))
	for name := range tips {
		all = append(all, parley.ProposalID(strings.TrimPrefix(name, branches)))
	}
	// The ids of calls are in the order of time, and so are the pages.
	slices.SortFunc(all, func(a, b parley.ProposalID) int { return cmp.Compare(b, a) })
	list = []parley.Proposal{}
	for _, id := range all {
		if after != "" && id >= after {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].ID, nil
		}
		r, ok, err := readAt(ctx, repo, tips[branches+string(id)], id)
		if err != nil {
			return nil, "", err
		}
		if !ok {
			continue
		}
		p, err := stand(ctx, l, repo, r)
		if err != nil {
			return nil, "", err
		}
		p.Findings, p.Report = nil, ""
		list = append(list, p)
	}
	return list, "", nil
}
