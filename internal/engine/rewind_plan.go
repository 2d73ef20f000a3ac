package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// rewindTo finds the event to go back to.
func (e *Engine) rewindTo(ctx context.Context, p parley.Principal, st parley.Session, c parley.RewindSession) (parley.Rewind, error) {
	r := parley.Rewind{What: c.What, By: p.User, Client: c.Client}
	if c.Undo != 0 {
		at := slices.IndexFunc(st.Rewinds, func(w parley.Rewound) bool { return w.Seq == c.Undo })
		if at < 0 {
			return r, parley.Errorf(parley.CodeNotFound, "event %d is no rewind of this session", c.Undo).WithField("undo").WithHint("rewound of the session is the last one")
		}
		of := st.Rewinds[at]
		if by := st.Skipped(of.Seq); by != 0 {
			return r, takenBack("undo", "the rewind of event %d", of.Seq, by)
		}
		if r.What != "" && r.What != of.What {
			return r, parley.Errorf(parley.CodeInvalid, "the rewind of event %d took back %s, not %s", of.Seq, of.What, r.What).WithField("what").WithHint("leave it out to undo a rewind")
		}
		r.What, r.To, r.Undoes = of.What, of.Seq-1, of.Seq
		return r, e.uncondensed(ctx, p, st, r.To)
	}
	if r.What == "" {
		r.What = parley.RewindBoth
	}
	row, err := e.o.Store.Turn(ctx, p, c.Turn)
	switch {
	case isCode(err, parley.CodeNotFound):
		return r, notFound("turn", c.Turn).WithField("turn")
	case err != nil:
		return r, err
	}
	events, err := e.o.Store.Read(ctx, p, st.ID, row.FirstSeq-1, 1)
	if err != nil {
		return r, err
	}
	if len(events) == 0 || events[0].Turn != c.Turn {
		return r, notFound("turn", c.Turn).WithField("turn")
	}
	pay, err := events[0].Payload()
	if err != nil {
		return r, err
	}
	started, begun := pay.(parley.TurnStarted)
	switch {
	case !begun:
		return r, parley.Errorf(parley.CodeConflict, "turn %s has not begun", c.Turn).WithField("turn").WithHint("take it off the queue")
	case started.Origin != parley.OriginUser && started.Origin != parley.OriginSchedule:
		return r, parley.Errorf(parley.CodeInvalid, "turn %s did not begin with a message of the user", c.Turn).WithField("turn").WithHint("go back to a message before it")
	}
	if by := st.Skipped(row.FirstSeq); by != 0 {
		return r, takenBack("turn", "turn %s", c.Turn, by)
	}
	r.Turn, r.To = c.Turn, row.FirstSeq-1
	return r, e.uncondensed(ctx, p, st, r.To)
}

func takenBack(field, what string, which any, by int64) error {
	return parley.Errorf(parley.CodeConflict, what+" was taken back by the rewind of event %d", which, by).WithField(field).
		WithHint("undo that rewind first")
}

// uncondensed refuses a rewind over turns whose steps are gone: nobody could be shown what was done
// in them.
func (e *Engine) uncondensed(ctx context.Context, p parley.Principal, st parley.Session, to int64) error {
	if to >= st.Condensed {
		return nil
	}
	kept, err := e.condensed(ctx, p, st.ID, to)
	if err != nil {
		return err
	}
	says := parley.Errorf(parley.CodeCondensed, "the steps after event %d were condensed, so what was done since cannot be shown", to)
	if h, ok := kept.Around(to + 1); ok && h.Archive != "" {
		return says.WithHint("the archive has them as %s; go back to a later message, or fork the session", h.Archive)
	}
	return says.WithHint("go back to a later message, or fork the session")
}

// rewindPlan is what a rewind does.
type rewindPlan struct {
	passage
	then    parley.Session // what the session is taken back to
	files   []parley.FileRewound
	effects []parley.EffectLeft
	more    int // effects
}

func (p *rewindPlan) restores() bool {
	return slices.ContainsFunc(p.files, func(f parley.FileRewound) bool { return f.Outcome == parley.FileRestored })
}

// planRewind reads what a rewind needs. It changes nothing, and holds no lock.
func (e *Engine) planRewind(ctx context.Context, p parley.Principal, st parley.Session, r parley.Rewind, diffs bool) (plan rewindPlan, err error) {
	if plan.passage, err = e.passage(ctx, p, st, r); err != nil {
		return plan, err
	}
	if r.What.Conversation() {
		if plan.then, err = e.stateAt(ctx, p, st.ID, r.To); err != nil {
			return plan, err
		}
		if plan.then.History, err = e.mended(ctx, p, st.ID, plan.then.History); err != nil {
			return plan, err
		}
	}
	of, end, err := e.restoration(st, r, plan.changes)
	if err != nil {
		return plan, err
	}
	defer end()
	of.Diffs = diffs
	var files seam.Restored
	if e.o.Files != nil {
		files, err = e.o.Files.Plan(ctx, of)
	} else {
		files = unkept(of)
	}
	if err != nil {
		return plan, err
	}
	if !r.What.Files() {
		for i := range files.Files {
			if f := &files.Files[i]; f.Outcome == parley.FileRestored {
				f.Outcome, f.Why = parley.FileLeft, "only the conversation is taken back"
			}
		}
		sortFiles(files.Files)
	}
	return plan, e.describe(st, &plan, files)
}

// describe adds to a plan what became of files, or is to become of them, and what stays done.
func (e *Engine) describe(st parley.Session, plan *rewindPlan, files seam.Restored) error {
	app, err := e.appOf(st.App)
	if err != nil {
		return err
	}
	plan.files = files.Files
	plan.effects, plan.more = plan.left(app, files.Known)
	return nil
}

// unkept is what becomes of files where nothing keeps their contents.
func unkept(r seam.Restoration) (out seam.Restored) {
	for _, c := range r.Changes {
		for _, path := range c.Paths {
			if !slices.ContainsFunc(out.Files, func(f parley.FileRewound) bool { return f.Path == path }) {
				out.Files = append(out.Files, parley.FileRewound{Path: path, Outcome: parley.FileLeft, Why: cmp.Or(c.Stays, "what it contained before is not kept here")})
			}
		}
	}
	return out
}

// sortFiles puts first what a person has to know.
func sortFiles(list []parley.FileRewound) {
	order := []parley.FileOutcome{parley.FileLeft, parley.FileRestored, parley.FileSame}
	slices.SortStableFunc(list, func(a, b parley.FileRewound) int {
		return slices.Index(order, a.Outcome) - slices.Index(order, b.Outcome)
	})
}

// restoration opens the workspace of a session. The caller ends it.
func (e *Engine) restoration(st parley.Session, r parley.Rewind, changes []seam.FileChange) (of seam.Restoration, end func(), err error) {
	of, end = seam.Restoration{Session: st.ID, ID: r.ID, Changes: changes}, func() {}
	app, err := e.appOf(st.App)
	if err != nil {
		return of, end, err
	}
	for i, c := range of.Changes {
		of.Changes[i].Stays = app.Tools().Stays(c.Tool)
	}
	switch {
	case len(changes) == 0:
		return of, end, nil
	case st.Workspace == "":
		of.Why = "the session has no workspace"
		return of, end, nil
	}
	root, err := app.Folders().Open(st.Principal(), st.Workspace)
	switch {
	case err != nil:
		of.Why = parley.Info(err).Message
		return of, end, nil
	case st.ReadOnly || app.Folders().ReadOnly(st.Workspace):
		_ = root.Close()
		of.Why = "the workspace is read-only"
		return of, end, nil
	}
	of.Root = root
	return of, func() { _ = root.Close() }, nil
}

// mended replaces in exchanges that come back to prompts what retention has removed for good.
func (e *Engine) mended(ctx context.Context, p parley.Principal, id parley.SessionID, list []parley.Exchange) ([]parley.Exchange, error) {
	list = slices.Clone(list)
	for i, x := range list {
		for j, part := range x.User.Parts {
			if part.Artifact == "" {
				continue
			}
			a, err := e.artifactOf(ctx, p, id, part.Artifact)
			if err == nil {
				_, err = e.bytesOf(ctx, p, a)
			}
			switch parley.CodeOf(err) {
			case "":
			case parley.CodeNotFound, parley.CodeCondensed:
				parts := slices.Clone(list[i].User.Parts)
				parts[j] = parley.Part{Type: parley.PartText, Text: "[attached: " + part.Name + ", which is not kept any more]"}
				list[i].User.Parts = parts
			default:
				return nil, err
			}
		}
	}
	return list, nil
}

// event is the session.rewound of a plan; st is the session right before it.
func (p *rewindPlan) event(st parley.Session, r parley.Rewind) parley.Event {
	out := parley.SessionRewound{Rewind: r, Effects: p.effects, EffectsMore: p.more}
	out.Files, out.FilesMore = listed(p.files)
	if r.What.Conversation() {
		out.Memory = st.Remember(st.Seq+1, r, p.then)
	}
	return parley.NewEvent("", "", out)
}

// maxFileBytes limits the list of files in an event and in an answer.
const maxFileBytes = 256 << 10

// listed cuts a list of files.
func listed(files []parley.FileRewound) (list []parley.FileRewound, more int) {
	size := 0
	for i, f := range files {
		if size += len(f.Path) + len(f.Why) + len(f.Diff) + 250; i == parley.MaxRewoundFiles || size > maxFileBytes && f.Diff == "" {
			return files[:i], len(files) - i
		}
		if size > maxFileBytes {
			size -= len(f.Diff)
			files[i].Diff = "" // its numbers of lines say how much
		}
	}
	return files, 0
}

// result is what a rewind with this plan did or would do.
func (p *rewindPlan) result(id parley.SessionID, r parley.Rewind, version int64) parley.RewindResult {
	out := parley.RewindResult{
		Rewind: r, Session: id, Version: version, Message: p.message,
		Turns: append([]parley.RewoundTurn{}, p.turns.list...), TurnsMore: p.turns.more, Back: p.back.list, BackMore: p.back.more,
		Effects: append([]parley.EffectLeft{}, p.effects...), EffectsMore: p.more,
	}
	out.Files, out.FilesMore = listed(p.files)
	out.Files = append([]parley.FileRewound{}, out.Files...)
	return out
}
