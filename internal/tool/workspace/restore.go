package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/seam"
)

// Restorer puts files back as they were before the tools of this package, or a rewind, changed them.
// It is safe for concurrent use.
//
// A file is touched only if each of its changes since then was made by the session, and it is now as
// the last of them left it. What a rewind changes is a change like others, so a rewind can be taken
// back.
type Restorer struct {
	checks *checkpoint.Store
	now    func() time.Time
}

var _ seam.Restorer = (*Restorer)(nil)

// NewRestorer makes a Restorer. now is nil for time.Now.
func NewRestorer(checks *checkpoint.Store, now func() time.Time) *Restorer {
	if now == nil {
		now = time.Now
	}
	return &Restorer{checks: checks, now: now}
}

// The reasons why a file is left, for people.
const (
	changedSince   = "somebody else has changed it since"
	changedBetween = "somebody else changed it in between"
	notKept        = "what it contained before is not kept here"
	tooOld         = "what it contained before is not kept any more"
)

// history is what is known of one file.
type history struct {
	path string
	// recs are its changes from the first one that is taken back, without those of the rewind itself.
	recs    []checkpoint.Record
	own     *checkpoint.Record // what the rewind did to it, before a crash
	unknown bool               // the log has a change of it that is not recorded here
	stays   string             // why that one is not taken back, if it was made by a tool that says so
}

// histories are those of all files that the changes concern, in the order of their first change.
// known are the calls whose changes are recorded.
func (r *Restorer) histories(ctx context.Context, of seam.Restoration) (list []*history, known map[parley.CallID]bool, err error) {
	recs, err := r.checks.Changes(ctx, of.Session, "")
	if err != nil {
		return nil, nil, err
	}
	known = map[parley.CallID]bool{}
	taken, recorded := map[parley.CallID]bool{}, map[[2]string]bool{}
	for _, c := range of.Changes {
		taken[c.By] = true
	}
	byPath := map[string]*history{}
	at := func(path string) *history {
		if byPath[path] == nil {
			byPath[path] = &history{path: path}
			list = append(list, byPath[path])
		}
		return byPath[path]
	}
	for _, rec := range recs {
		if taken[rec.Call] {
			known[rec.Call], recorded[[2]string{string(rec.Call), rec.Path}] = true, true
		}
		switch {
		case rec.Call == parley.CallID(of.ID) && of.ID != "":
			at(rec.Path).own = &rec
		case taken[rec.Call] || byPath[rec.Path] != nil:
			h := at(rec.Path)
			h.recs = append(h.recs, rec)
		}
	}
	for _, c := range of.Changes {
		for _, path := range c.Paths {
			if !recorded[[2]string{string(c.By), path}] {
				h := at(path)
				h.unknown, h.stays = true, cmp.Or(c.Stays, h.stays)
			}
		}
	}
	return list, known, nil
}

// state is a file as it is now, and what is to be done with it.
type state struct {
	out  parley.FileRewound
	body []byte      // its content now
	mode fs.FileMode // of the file now
	then []byte      // the content that it is to have
	made bool        // the rewind had made its change when it stopped, and did not note it
}

// decide says what is to become of a file.
func (r *Restorer) decide(ctx context.Context, of seam.Restoration, h *history) (s state, err error) {
	s.out = parley.FileRewound{Path: h.path, Outcome: parley.FileLeft}
	if of.Root == nil {
		s.out.Why = of.Why
		return s, nil
	}
	tree := files.Of(of.Root)
	s.body, err = tree.Read(h.path, files.MaxFile)
	switch {
	case err == nil:
		s.out.Before = files.VersionOf(s.body)
		if fi, err := tree.Stat(h.path); err == nil {
			s.mode = fi.Mode
		}
	case !errors.Is(err, fs.ErrNotExist):
		s.out.Why = parley.Info(err).Message
		return s, nil
	}
	now := s.out.Before
	if o := h.own; o != nil {
		s.out.Before, s.out.After = o.Before, o.After
		switch {
		case o.Done || now == o.After:
			s.out.Outcome, s.made = parley.FileRestored, !o.Done
			return s, nil
		case now != o.Before:
			s.out.Why = changedSince
			return s, nil
		}
	}
	if len(h.recs) == 0 {
		s.out.Why = cmp.Or(h.stays, notKept)
		return s, nil
	}
	first := h.recs[0]
	s.out.After = first.Before
	whole, ours := follows(h.recs, now)
	switch {
	case h.unknown:
		s.out.After, s.out.Why = "", cmp.Or(h.stays, notKept)
		return s, nil
	case now == first.Before:
		s.out.Outcome = parley.FileSame
		return s, nil
	case !ours:
		s.out.Why = changedSince
		return s, nil
	case !whole:
		s.out.Why = changedBetween
		return s, nil
	}
	if first.Before != "" {
		var kept bool
		if s.then, kept, err = r.checks.Content(ctx, of.Session, first.Before); err != nil {
			return s, err
		}
		if !kept {
			s.out.Why = tooOld
			return s, nil
		}
	}
	s.out.Outcome = parley.FileRestored
	return s, nil
}

// follows reports whether each change was based on what the one before it left, and whether now is
// what the last one left. A change that is not known to have been made may have been made or not.
func follows(recs []checkpoint.Record, now files.Version) (whole, ours bool) {
	whole = true
	may := []files.Version{recs[0].Before}
	for _, rec := range recs {
		whole = whole && slices.Contains(may, rec.Before)
		if may = []files.Version{rec.After}; !rec.Done {
			may = append(may, rec.Before)
		}
	}
	return whole, slices.Contains(may, now)
}

// Plan implements seam.Restorer.
func (r *Restorer) Plan(ctx context.Context, of seam.Restoration) (out seam.Restored, err error) {
	list, known, err := r.histories(ctx, of)
	if err != nil {
		return out, err
	}
	out.Known = known
	for _, h := range list {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		s, err := r.decide(ctx, of, h)
		if err != nil {
			return out, err
		}
		if of.Diffs && s.out.Outcome == parley.FileRestored {
			d := saved(edit{path: h.path, was: s.out.Before, old: s.body, body: s.then}, s.out.After)
			s.out.Diff, s.out.Added, s.out.Removed = d.Diff, d.Added, d.Removed
		}
		out.Files = append(out.Files, s.out)
	}
	sortRewound(out.Files)
	return out, nil
}

// Restore implements seam.Restorer.
func (r *Restorer) Restore(ctx context.Context, of seam.Restoration) (out seam.Restored, err error) {
	list, known, err := r.histories(ctx, of)
	if err != nil {
		return out, err
	}
	out.Known = known
	var dirs []string // that were made for files which are gone now
	for _, h := range list {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		s, err := r.decide(ctx, of, h)
		if err != nil {
			return out, err
		}
		if s.out.Outcome == parley.FileRestored {
			if err := r.put(ctx, of, h, &s); err != nil {
				return out, err
			}
		}
		if s.out.Outcome == parley.FileRestored && s.out.After == "" {
			for _, rec := range h.recs {
				dirs = append(dirs, rec.Dirs...)
			}
		}
		out.Files = append(out.Files, s.out)
	}
	if of.Root != nil && len(dirs) > 0 {
		slices.SortFunc(dirs, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
		files.Of(of.Root).RemoveEmpty(dirs...)
	}
	sortRewound(out.Files)
	return out, nil
}

// put makes the change of one file, unless it was made before. If it is not possible, s says why.
func (r *Restorer) put(ctx context.Context, of seam.Restoration, h *history, s *state) error {
	switch {
	case h.own != nil && h.own.Done:
		return nil
	case s.made:
		return r.checks.Rewound(ctx, of.Session, *h.own)
	}
	tree := files.Of(of.Root)
	rec := checkpoint.Record{
		Call: parley.CallID(of.ID), Path: h.path, Before: s.out.Before, After: s.out.After, At: r.now(),
	}
	tree.Tidy(h.path, string(of.ID))
	if rec.After == "" {
		rec.Mode = s.mode
	}
	left := func(err error) error {
		s.out.Outcome, s.out.Why = parley.FileLeft, parley.Info(err).Message
		if files.IsChanged(err) {
			s.out.Why = changedSince
		}
		return nil
	}
	if h.own == nil {
		if err := r.checks.BeginRewind(ctx, of.Session, rec, s.body); err != nil {
			if parley.CodeOf(err) == parley.CodeTooLarge {
				return left(err)
			}
			return err
		}
	}
	// From here on the change is made, or found to be impossible, whatever becomes of ctx.
	ctx = context.WithoutCancel(ctx)
	var err error
	rec.Dirs, err = tree.Apply(files.Change{
		Path: h.path, Body: s.then, Gone: rec.After == "", Was: rec.Before, Tag: string(of.ID), Mode: deletedWith(h.recs, rec.After),
	})
	if err != nil {
		tree.RemoveEmpty(rec.Dirs...)
		if err := r.checks.NotRewound(ctx, of.Session, rec); err != nil {
			return err
		}
		return left(err)
	}
	return r.checks.Rewound(ctx, of.Session, rec)
}

// deletedWith is the mode that a file had when a rewind deleted it, if that is what is taken back.
func deletedWith(recs []checkpoint.Record, after files.Version) fs.FileMode {
	if after != "" && recs[0].After == "" {
		return recs[0].Mode
	}
	return 0
}

// sortRewound puts first what a person has to know.
func sortRewound(list []parley.FileRewound) {
	order := []parley.FileOutcome{parley.FileLeft, parley.FileRestored, parley.FileSame}
	slices.SortStableFunc(list, func(a, b parley.FileRewound) int {
		return slices.Index(order, a.Outcome) - slices.Index(order, b.Outcome)
	})
}

// Unsee implements seam.Restorer.
func (r *Restorer) Unsee(ctx context.Context, id parley.SessionID) error {
	return r.checks.Unsee(ctx, id)
}

// Begin implements seam.Restorer.
func (r *Restorer) Begin(ctx context.Context, id parley.SessionID) error {
	return r.checks.StartRewind(ctx, id)
}

// Done implements seam.Restorer.
func (r *Restorer) Done(ctx context.Context, id parley.SessionID) error {
	return r.checks.EndRewind(ctx, id)
}

// Unfinished implements seam.Restorer.
func (r *Restorer) Unfinished(ctx context.Context) ([]parley.SessionID, error) {
	return r.checks.Rewinding(ctx)
}
