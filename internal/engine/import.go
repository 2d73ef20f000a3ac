package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// maxImport limits an imported log, because it is folded and appended as one batch.
const maxImport = 100_000 // events

// Imported is an exported session: its whole log, and the blobs that the log names. A
// missing blob is no error here; whatever needs it reports it.
type Imported struct {
	App string // empty: the app named in the log
	// Workspace is the new session's. Empty: that of the log, if the log is the importer's
	// own and the workspace is there, or else none. Somebody else's name for a workspace
	// means another folder here.
	Workspace parley.Workspace
	Events    []parley.Event
	Blobs     map[parley.Digest][]byte
	// Key is the idempotency key of the request, and Asked the digest of the whole request: see
	// [Engine.ImportedBy].
	Key   string
	Asked parley.Digest
}

// ImportedBy finds the session that an earlier import with the same key created. A key that was
// used for a different request is an error. It does not need the archive's content, so call it
// before unpacking.
func (e *Engine) ImportedBy(ctx context.Context, p parley.Principal, key string, asked parley.Digest) (info parley.SessionInfo, found bool, err error) {
	if utf8.RuneCountInString(key) > parley.MaxKey {
		return info, false, tooLong("Idempotency-Key", parley.MaxKey, "characters")
	}
	return e.madeBy(ctx, p, e.aliasOf(key), asked)
}

// Import creates a session from an exported log. The session, its turns, interactions and
// artifacts get new ids and belong to p. Grants, keys, the outside id and provider state are
// not imported, and an open turn is cancelled. Repeating the same key returns the session that
// was created.
func (e *Engine) Import(ctx context.Context, p parley.Principal, in Imported) (parley.SessionInfo, error) {
	none := parley.SessionInfo{}
	if info, found, err := e.ImportedBy(ctx, p, in.Key, in.Asked); err != nil || found {
		return info, err
	}
	in.Key = e.aliasOf(in.Key)
	switch {
	case len(in.Events) == 0:
		return none, parley.Errorf(parley.CodeInvalid, "the export holds no events")
	case len(in.Events) > maxImport:
		return none, tooLong("the export", maxImport, "events")
	}
	bytes := int64(0)
	for _, ev := range in.Events {
		bytes += int64(len(ev.Data))
	}
	for _, body := range in.Blobs {
		bytes += int64(len(body))
	}
	free, err := e.keep(ctx, p, 1, bytes)
	if err != nil {
		return none, err
	}
	defer free()
	s := e.blank(parley.SessionID(e.newID()))
	in.Blobs = maps.Clone(in.Blobs)
	own, space, err := e.renamed(p, s.id, in, e.cleaned(in.Blobs))
	if err != nil {
		return none, err
	}
	for _, ev := range own {
		for _, name := range []string{string(ev.Type), string(ev.Agent)} {
			if _, secret := e.o.Log.RedactText(name); secret {
				return none, parley.Errorf(parley.CodeInvalid, "event %d of the export has a name that looks like a secret", ev.Seq)
			}
		}
	}
	events := e.o.Log.Redact(own...)
	ix, err := indexAll(ctx, s.view, events.Events())
	if err != nil {
		return none, err
	}
	s.state = s.view.Clone() // closing reads the owner from it
	queue := s.state.Queue
	closing, err := s.prepare(s.view, &ix, []parley.Event{parley.NewEvent("", "", parley.SessionForked{
		Parent: in.Events[0].Session, At: int64(events.Len()), Title: s.view.Title, By: p.User,
		Workspace: space.name, ReadOnly: space.readOnly,
	})})
	if err != nil {
		return none, err
	}
	events = events.With(closing)
	app, err := e.app(s.view.App)
	if err != nil {
		return none, err
	}
	if events, err = s.offered(app, p, &ix, events); err != nil {
		return none, err
	}
	if events, err = s.cutOff(&ix, events, queue, parley.TurnCancelled{Reason: ImportedHere, By: "imported"}); err != nil {
		return none, err
	}
	named := map[parley.Digest]bool{}
	for _, d := range ix.Blobs {
		named[d] = true
	}
	for d, body := range in.Blobs {
		if !named[d] {
			continue
		}
		got, err := e.o.Store.PutBlob(ctx, p, body)
		if err != nil {
			return none, err
		}
		if got != d {
			return none, parley.Errorf(parley.CodeInvalid, "blob %s of the export does not match its digest", d).WithHint("the file is damaged")
		}
	}
	ix.Blobs = slices.DeleteFunc(ix.Blobs, func(d parley.Digest) bool { return in.Blobs[d] == nil })
	ix.Artifacts = slices.DeleteFunc(ix.Artifacts, func(a seam.Artifact) bool { return in.Blobs[a.SHA256] == nil })
	ix.Spend = nil // it was spent where the log comes from
	info := s.view.Info()
	ix.Session = &info
	if in.Key != "" {
		ix.Keys = []seam.Key{{Key: in.Key, Body: in.Asked, Made: s.id}}
	}
	if err := e.o.Log.Append(context.WithoutCancel(ctx), p, seam.Batch{
		Session: s.id, Create: true, Owner: e.o.Node, Index: ix,
	}, events); err != nil {
		return e.madeAnyway(ctx, p, s.id, in.Key, in.Asked, err)
	}
	return info, nil // not read again: the session exists, whether or not the store still answers
}

// id26 is the form of a ULID, which all our ids have.
var id26 = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// cleaned redacts blobs. It returns the new digests of those that contained secrets; a
// blob that redaction would break is left out.
func (e *Engine) cleaned(blobs map[parley.Digest][]byte) map[parley.Digest]parley.Digest {
	became := map[parley.Digest]parley.Digest{}
	for d, body := range maps.Clone(blobs) {
		clean, ok := e.o.Log.RedactFile(body)
		if ok && bytes.Equal(clean, body) {
			continue
		}
		delete(blobs, d)
		if ok {
			sum := sha256.Sum256(clean)
			became[d] = parley.Digest(hex.EncodeToString(sum[:]))
			blobs[became[d]] = clean
		}
	}
	return became
}

// renamed returns the log's events with new ids and with the new digests of redacted
// blobs, and the workspace of the new session.
func (e *Engine) renamed(p parley.Principal, id parley.SessionID, in Imported, became map[parley.Digest]parley.Digest) (events []parley.Event, space chosen, err error) {
	ids := map[string]string{string(in.Events[0].Session): string(id)}
	for d, now := range became {
		ids[string(d)] = string(now)
	}
	rename := func(old string) {
		if old != "" && ids[old] == "" && id26.MatchString(old) {
			ids[old] = e.newID()
		}
	}
	for i, ev := range in.Events {
		if ev.Seq != int64(i)+1 {
			says := parley.Errorf(parley.CodeInvalid, "where event %d of the export is to be, one has number %d", i+1, ev.Seq)
			if ev.Seq == 0 {
				says = parley.Errorf(parley.CodeInvalid, "event %d of the export has no number (seq)", i+1)
			}
			return nil, space, says.WithHint("the log must be whole, from 1 without gaps")
		}
		if ev.Session != in.Events[0].Session {
			return nil, space, parley.Errorf(parley.CodeInvalid, "event %d of the export is of another session", ev.Seq)
		}
		rename(string(ev.Turn))
		pay, err := ev.Payload()
		if err != nil {
			return nil, space, err
		}
		switch pay := pay.(type) {
		case parley.SessionCreated:
			space.take(pay.Workspace, pay.ReadOnly)
			if i != 0 {
				return nil, space, parley.Errorf(parley.CodeInvalid, "event %d of the export creates the session again", ev.Seq)
			}
		case parley.SessionForked:
			space.take(pay.Workspace, pay.ReadOnly)
		case parley.InteractionOpened:
			rename(string(pay.ID))
		case parley.ArtifactStored:
			rename(string(pay.ID))
		}
		if i == 0 && ev.Type != "session.created" {
			return nil, space, parley.Errorf(parley.CodeInvalid, "the export does not begin with session.created")
		}
	}
	var pairs []string
	for old, now := range ids {
		pairs = append(pairs, old, now)
	}
	replace := strings.NewReplacer(pairs...)
	events = make([]parley.Event, 0, len(in.Events))
	for _, ev := range in.Events {
		out := ev.WithData(json.RawMessage(replace.Replace(string(ev.Data))))
		out.Session = id
		if now := e.now(); out.Time.After(now) {
			out.Time = now // no time may lie in the future, or later events would come before it
		}
		if ev.Turn != "" {
			out.Turn = parley.TurnID(replace.Replace(string(ev.Turn)))
		}
		pay, err := out.Payload()
		if err != nil {
			return nil, space, err
		}
		switch pay := pay.(type) {
		case parley.SessionCreated:
			if in.App != "" {
				pay.App = in.App
			}
			app, err := e.app(pay.App)
			if err != nil {
				return nil, space, err
			}
			if narrowed, err := app.App().Budgets.Narrow(pay.Budgets); err == nil {
				pay.Budgets = narrowed
			} else {
				pay.Budgets = app.App().Budgets // an export must not raise this server's limits
			}
			if narrower(app.App().Policy, pay.Policy) != nil {
				pay.Policy = nil
			}
			if space, err = space.of(p, app, in.Workspace, p.Owns(pay.User, pay.Org)); err != nil {
				return nil, space, err
			}
			pay.Workspace, pay.ReadOnly = space.name, space.readOnly
			pay.User, pay.Org, pay.OutsideID = p.User, p.Org, ""
			out = sameBut(out, pay)
		case parley.SessionForked:
			if pay.Workspace != "" {
				pay.Workspace, pay.ReadOnly = "", false
				out = sameBut(out, pay)
			}
		case parley.ArtifactStored:
			if body, ok := in.Blobs[pay.SHA256]; ok && pay.Size != int64(len(body)) {
				pay.Size = int64(len(body))
				out = sameBut(out, pay)
			}
		case parley.ToolEnded:
			if ref := pay.Artifact; ref != nil && in.Blobs[ref.SHA256] != nil && ref.Size != int64(len(in.Blobs[ref.SHA256])) {
				whole := *ref
				whole.Size = int64(len(in.Blobs[ref.SHA256]))
				pay.Artifact = &whole
				out = sameBut(out, pay)
			}
			for i, ref := range pay.Images {
				if body, ok := in.Blobs[ref.SHA256]; ok && ref.Size != int64(len(body)) {
					pay.Images[i].Size = int64(len(body))
					out = sameBut(out, pay)
				}
			}
		case parley.ModelReplied:
			if pay.State != nil {
				pay.State = nil
				out = sameBut(out, pay)
			}
		case parley.RuntimeKept: // a state of unknown origin must not be used
			pay.SHA256, pay.Size, pay.Entry = "", 0, ""
			out = sameBut(out, pay)
		}
		events = append(events, out)
	}
	return events, space, nil
}

// chosen is the workspace that a session has.
type chosen struct {
	name     parley.Workspace
	readOnly bool
}

// take is what an event of the log says about it, as [parley.Session] folds it.
func (c *chosen) take(name parley.Workspace, readOnly bool) {
	if name == "" {
		c.readOnly = c.name != ""
		return
	}
	*c = chosen{name, readOnly}
}

// of is the workspace of a session that p imports: the one asked for, or else the log's
// own, if the log was p's and the workspace is there.
func (c chosen) of(p parley.Principal, a *scope.Resolved, asked parley.Workspace, own bool) (is chosen, err error) {
	if asked == "" && (!own || c.name == "") {
		return is, nil
	}
	is.name, is.readOnly, err = workspaceOf(p, a, cmp.Or(asked, c.name))
	switch {
	case asked != "":
		return is, err
	case err != nil:
		return chosen{}, nil //nolint:nilerr // it is not here
	}
	is.readOnly = is.readOnly || c.readOnly
	return is, nil
}

func sameBut(ev parley.Event, p parley.Payload) parley.Event {
	out := parley.NewEvent(ev.Turn, ev.Agent, p)
	out.Session, out.Seq, out.Time = ev.Session, ev.Seq, ev.Time
	return out
}
