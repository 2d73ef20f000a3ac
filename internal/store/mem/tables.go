package mem

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// tables is all that is stored. Its byte slices and events are never modified, so copies
// may share them.
type tables struct {
	sessions  map[parley.SessionID]*session
	gone      map[parley.SessionID]bool // deleted; the id is never used again
	keys      map[keyID]key
	aliases   map[aliasID]parley.SessionID
	blobs     map[parley.Digest][]byte
	spent     map[spentID]rule.Spend
	sealed    map[sealedID]seam.Sealed
	approvals map[sealedID]seam.Sealed

	rows       map[seam.RowName]seam.Row
	rowVersion int64 // of the last row that was put
}

type session struct {
	id           parley.SessionID
	user, org    string
	app          string
	status       parley.SessionStatus
	owner        string
	epoch, seq   int64
	updated      int64
	held         bool  // not at rest
	bytes        int64 // of events and artifacts
	direct       bool  // of one direct call
	steps        int64 // when the oldest turn ended that has steps; 0: none
	info         []byte
	events       []parley.Event
	state        *seam.State
	turns        map[parley.TurnID]turn
	interactions map[parley.InteractionID]interaction
	artifacts    map[parley.ArtifactID]artifact
	blobs        map[parley.Digest]int64 // the first event by which the session referred to it
	chunks       map[chunk]string
}

type (
	keyID struct {
		user, org string
		session   parley.SessionID
		key       string
	}
	key struct {
		seam.Key
		of   parley.SessionID // whose batch inserted it
		gone int64            // when that session was deleted; 0: it is there
	}
	aliasID struct{ user, org, app, outside string }
	spentID struct{ day, model, user, org string }
	turn    struct {
		status parley.TurnStatus
		last   int64 // event
		body   []byte
	}
	interaction struct {
		open    bool
		kind    parley.InteractionKind
		opened  int64
		expires int64 // 0: never
		last    int64 // event
		body    []byte
	}
	artifact struct {
		seq  int64
		body []byte
	}
	chunk struct {
		call parley.CallID
		n    int64
	}
)

func newTables() tables {
	return tables{
		sessions: map[parley.SessionID]*session{}, gone: map[parley.SessionID]bool{}, keys: map[keyID]key{},
		aliases: map[aliasID]parley.SessionID{}, blobs: map[parley.Digest][]byte{}, spent: map[spentID]rule.Spend{}, sealed: map[sealedID]seam.Sealed{}, approvals: map[sealedID]seam.Sealed{},
		rows: map[seam.RowName]seam.Row{},
	}
}

func (t *tables) clone() tables {
	c := tables{
		sessions: make(map[parley.SessionID]*session, len(t.sessions)), gone: maps.Clone(t.gone), keys: maps.Clone(t.keys),
		aliases: maps.Clone(t.aliases), blobs: maps.Clone(t.blobs), spent: maps.Clone(t.spent), sealed: maps.Clone(t.sealed), approvals: maps.Clone(t.approvals),
		rows: maps.Clone(t.rows), rowVersion: t.rowVersion,
	}
	for id, s := range t.sessions {
		n := *s
		n.events = slices.Clip(s.events)
		n.turns, n.interactions = maps.Clone(s.turns), maps.Clone(s.interactions)
		n.artifacts, n.blobs, n.chunks = maps.Clone(s.artifacts), maps.Clone(s.blobs), maps.Clone(s.chunks)
		c.sessions[id] = &n
	}
	return c
}

// rows is a batch as it is stored.
type rows struct {
	info         []byte
	turns        [][]byte
	interactions [][]byte
	artifacts    [][]byte
	events       []parley.Event
	state        *seam.State
}

func encode(b seam.Batch) (r rows, err error) {
	if b.Index.Session != nil {
		if r.info, err = rule.Encode(b.Index.Session); err != nil {
			return r, err
		}
	}
	if r.turns, err = encodeAll(b.Index.Turns); err != nil {
		return r, err
	}
	if r.interactions, err = encodeAll(b.Index.Interactions); err != nil {
		return r, err
	}
	if r.artifacts, err = encodeAll(b.Index.Artifacts); err != nil {
		return r, err
	}
	for _, e := range b.Events {
		r.events = append(r.events, stored(e))
	}
	if st := b.Index.State; st != nil {
		r.state = &seam.State{Seq: st.Seq, Version: st.Version, Body: slices.Clone(st.Body)}
	}
	return r, nil
}

func encodeAll[T any](all []T) (out [][]byte, err error) {
	for _, v := range all {
		raw, err := rule.Encode(v)
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

// stored is an event as a database would return it: without its decoded payload, and with
// a time in whole milliseconds.
func stored(e parley.Event) parley.Event {
	e.Time = parley.Now(e.Time)
	if len(e.Data) == 0 {
		return e.WithData(nil)
	}
	return e.WithData(slices.Clone(e.Data))
}

func (t *tables) session(p parley.Principal, id parley.SessionID) (*session, error) {
	s := t.sessions[id]
	if s == nil || !p.Owns(s.user, s.org) {
		return nil, rule.NotFound("session", id)
	}
	return s, nil
}

func (t *tables) append(p parley.Principal, b seam.Batch, r rows) error {
	s, err := t.session(p, b.Session)
	switch {
	case err != nil:
		return err
	case s.epoch != b.Epoch:
		return rule.Fenced(b.Session, s.epoch, b.Epoch)
	case s.seq != b.After:
		return rule.Conflict(b.Session, s.seq, b.After)
	}
	if err := rule.SameOwner(b.Index.Session, s.user, s.org); err != nil {
		return err
	}
	if err := t.taken(s, b); err != nil {
		return err
	}
	t.put(s, b, r)
	return nil
}

// create makes the session of b, beginning with parent's log up to b.After.
func (t *tables) create(p parley.Principal, b seam.Batch, r rows, parent *session) error {
	in := b.Index.Session
	if t.gone[b.Session] {
		return rule.NotFound("session", b.Session)
	}
	if s := t.sessions[b.Session]; s != nil {
		if !p.Owns(s.user, s.org) {
			return rule.NotFound("session", b.Session)
		}
		return rule.Exists(b.Session)
	}
	s := &session{
		id: b.Session, user: in.User, org: in.Org, app: in.App, owner: b.Owner, epoch: 1,
		turns: map[parley.TurnID]turn{}, interactions: map[parley.InteractionID]interaction{},
		artifacts: map[parley.ArtifactID]artifact{}, blobs: map[parley.Digest]int64{}, chunks: map[chunk]string{},
	}
	alias := aliasID{in.User, in.Org, in.App, in.OutsideID}
	if _, ok := t.aliases[alias]; ok && in.OutsideID != "" {
		return rule.AliasTaken(in.OutsideID)
	}
	if err := t.taken(s, b); err != nil {
		return err
	}
	if in.OutsideID != "" {
		t.aliases[alias] = s.id
	}
	if parent != nil {
		s.inherit(parent, b.After)
		s.bytes = parent.bytes
	}
	t.sessions[s.id] = s
	t.put(s, b, r)
	return nil
}

// inherit copies the events of parent, the blobs and artifacts they refer to, and the
// rows of the turns and interactions that had ended by then. The data is shared, since bytes are never
// modified; the reader sets a row's session.
func (s *session) inherit(parent *session, at int64) {
	for _, e := range parent.events[:at] {
		e.Session = s.id
		s.events = append(s.events, e)
	}
	for d, seq := range parent.blobs {
		if seq <= at {
			s.blobs[d] = seq
		}
	}
	for id, a := range parent.artifacts {
		if a.seq <= at {
			s.artifacts[id] = a
		}
	}
	for id, r := range parent.turns {
		if r.status.Ended() && r.last <= at {
			s.turns[id] = r
		}
	}
	for id, r := range parent.interactions {
		if !r.open && r.last <= at {
			s.interactions[id] = r
		}
	}
}

// taken reports the first key that is taken, or the first blob that is missing.
func (t *tables) taken(s *session, b seam.Batch) error {
	seen := map[keyID]bool{}
	for _, k := range b.Index.Keys {
		id := keyID{s.user, s.org, k.Session, k.Key}
		if _, ok := t.keys[id]; ok || seen[id] {
			return rule.KeyTaken(k.Key)
		}
		seen[id] = true
	}
	for _, d := range b.Index.Blobs {
		if _, ok := t.blobs[d]; !ok {
			return rule.NoBlob(d)
		}
	}
	return nil
}

func (t *tables) put(s *session, b seam.Batch, r rows) {
	ix := b.Index
	if b.Condense > 0 {
		s.events = slices.Clone(s.events) // a clone of the store shares them
	}
	for i := range s.events {
		if e := &s.events[i]; e.Seq <= b.Condense && parley.IsStep(e.Type) {
			e.Data = nil
		}
	}
	s.events = append(s.events, r.events...)
	s.seq = b.After + int64(len(r.events))
	s.bytes += rule.Bytes(b)
	if ix.Session != nil {
		s.info, s.status, s.app, s.updated = r.info, ix.Session.Status, ix.Session.App, rule.Millis(ix.Session.UpdatedAt)
		s.held, s.steps, s.direct = rule.Held(ix.Session), rule.MillisOrNone(ix.Session.StepsSince), ix.Session.Direct
	}
	if r.state != nil {
		s.state = r.state
	}
	for i, row := range ix.Turns {
		s.turns[row.ID] = turn{status: row.Status, last: row.LastSeq, body: r.turns[i]}
	}
	for i, row := range ix.Interactions {
		s.interactions[row.ID] = interaction{
			open: row.Open, kind: row.Kind, opened: rule.Millis(row.OpenedAt), expires: rule.MillisOrNone(row.ExpiresAt), last: row.LastSeq, body: r.interactions[i],
		}
	}
	for _, id := range ix.DropArtifacts {
		delete(s.artifacts, id)
	}
	for _, d := range ix.Release {
		delete(s.blobs, d)
	}
	refers := rule.RefersOf(b)
	for i, row := range ix.Artifacts {
		s.artifacts[row.ID] = artifact{seq: refers.Artifact(row.ID), body: r.artifacts[i]}
	}
	for _, sp := range ix.Spend {
		at := spentID{sp.Day, sp.Model, s.user, s.org}
		t.spent[at] = t.spent[at].Add(rule.SpendOf(sp))
	}
	for _, k := range ix.Keys {
		t.keys[keyID{s.user, s.org, k.Session, k.Key}] = key{Key: k, of: s.id}
	}
	for _, d := range ix.Blobs {
		if _, ok := s.blobs[d]; !ok {
			s.blobs[d] = refers.Blob(d)
		}
	}
	t.putRows(ix, s.user, s.org)
	for _, call := range ix.DropChunks {
		maps.DeleteFunc(s.chunks, func(c chunk, _ string) bool { return c.call == call })
	}
}

func (t *tables) delete(p parley.Principal, id parley.SessionID) error {
	s, err := t.session(p, id)
	if err != nil {
		return err
	}
	delete(t.sessions, id)
	t.gone[id] = true
	maps.DeleteFunc(t.rows, func(_ seam.RowName, r seam.Row) bool { return r.Session == id })
	t.retire(s, time.Now())
	maps.DeleteFunc(t.aliases, func(_ aliasID, s parley.SessionID) bool { return s == id })
	return nil
}

// retire keeps the user's keys that made a deleted session, and removes those that have
// been kept for long enough or are too many.
func (t *tables) retire(s *session, now time.Time) {
	var gone []keyID // of the user
	for id, k := range t.keys {
		switch {
		case k.of == s.id && id.session != "", k.gone > 0 && k.gone < rule.Millis(now.Add(-rule.KeyKept)):
			delete(t.keys, id)
			continue
		case k.of == s.id:
			k.gone = rule.Millis(now)
			t.keys[id] = k
		}
		if k.gone > 0 && id.user == s.user && id.org == s.org {
			gone = append(gone, id)
		}
	}
	slices.SortFunc(gone, func(a, b keyID) int {
		return cmp.Or(cmp.Compare(t.keys[b].gone, t.keys[a].gone), cmp.Compare(b.key, a.key))
	})
	for _, id := range gone[min(len(gone), rule.KeysKept):] {
		delete(t.keys, id)
	}
}
