package parley

import (
	"cmp"
	"slices"
	"time"
)

// RewindWhat says what a rewind takes back.
type RewindWhat string

const (
	RewindBoth         RewindWhat = "both"
	RewindConversation RewindWhat = "conversation"
	RewindFiles        RewindWhat = "files"
)

// Conversation reports whether the conversation is taken back.
func (w RewindWhat) Conversation() bool { return w == RewindBoth || w == RewindConversation }

// Files reports whether files are taken back.
func (w RewindWhat) Files() bool { return w == RewindBoth || w == RewindFiles }

// MaxRewinds is how often a session can be rewound. Undoing a rewind counts, too.
const MaxRewinds = 1000

// Limits of what a rewind lists. Totals count the rest.
const (
	MaxRewoundFiles   = 500
	MaxRewoundEffects = 100
	maxTaken          = 50 // effects and files that prompts name
)

// RewindID identifies a rewind.
type RewindID string

// Rewind takes a session back to what it was at event To. The log keeps everything: folds skip
// the events after To up to the rewind. Undoing a rewind is another one, to the event before it.
type Rewind struct {
	ID     RewindID   `json:"id"`
	What   RewindWhat `json:"what"`
	To     int64      `json:"to"`
	Turn   TurnID     `json:"turn,omitempty"`   // the turn that began after To; empty when a rewind is undone
	Undoes int64      `json:"undoes,omitempty"` // the number of the session.rewound event that is undone
	By     string     `json:"by,omitempty"`
	Client string     `json:"client,omitempty"` // the door that it came through
}

// SessionRewinding says that a rewind has begun to restore files. Its session.rewound follows, after
// a crash, too. Until then no turn begins.
type SessionRewinding struct {
	Rewind
}

// SessionRewound is a rewind.
type SessionRewound struct {
	Rewind
	// Files are the files that were changed after To, first those that are not as they were then.
	Files     []FileRewound `json:"files,omitempty"`
	FilesMore int           `json:"files_more,omitempty"` // further files
	// Effects are what was done after To besides changes of files. It stays done.
	Effects     []EffectLeft `json:"effects,omitempty"`
	EffectsMore int          `json:"effects_more,omitempty"` // further effects
	// Memory is what the fold has to know again. Nil if the conversation is not taken back.
	Memory *Remembered `json:"memory,omitempty"`
}

// FileOutcome is what became of a file in a rewind.
type FileOutcome string

const (
	FileRestored FileOutcome = "restored"
	FileSame     FileOutcome = "same" // it was as it is to be
	FileLeft     FileOutcome = "left" // it was not touched
)

// FileRewound is a file in a rewind.
type FileRewound struct {
	Path    string      `json:"path"` // relative to the workspace, using slashes
	Outcome FileOutcome `json:"outcome"`
	Why     string      `json:"why,omitempty"`    // why it was left, as a sentence for people
	Before  Digest      `json:"before,omitempty"` // its content when it was rewound; empty: there was no file, or it is not known
	After   Digest      `json:"after,omitempty"`  // its content at event To; empty: there was no file, or it is not known
	// Diff is what a restoration would change, as a unified diff. It is in previews only.
	Diff    string `json:"diff,omitempty"`
	Added   int    `json:"added,omitempty"`   // lines
	Removed int    `json:"removed,omitempty"` // lines
}

// EffectLeft is a call that had an effect which a rewind does not undo, or may have had one.
type EffectLeft struct {
	Call       CallID  `json:"call"`
	Turn       TurnID  `json:"turn"`
	Tool       string  `json:"tool"`
	Text       string  `json:"text,omitempty"` // what it did, on one line
	Outcome    Outcome `json:"outcome"`        // ok or unknown
	Resolution string  `json:"resolution,omitempty"`
}

// Remembered is what a session knew at an event, as far as a later fold does not know it.
type Remembered struct {
	Summary  *string           `json:"summary,omitempty"` // nil: it is still the same
	Facts    *[]Fact           `json:"facts,omitempty"`   // nil: they are still the same
	Pins     *[]Pin            `json:"pins,omitempty"`    // nil: they are still the same
	Since    int64             `json:"since,omitempty"`   // earlier exchanges were not in prompts any more
	Without  []int64           `json:"without,omitempty"` // exchanges that a retry had replaced, by their number
	History  []Exchange        `json:"history,omitempty"` // exchanges that have left the fold since, or that an earlier rewind took out of it
	About    []string          `json:"about,omitempty"`
	Answered map[string]string `json:"answered,omitempty"`
	Preview  string            `json:"preview,omitempty"`
	Last     *TurnRef          `json:"last,omitempty"`
	Taken    *TakenBack        `json:"taken,omitempty"`
}

// TakenBack is what prompts have to say after rewinds: what was done in the part that was taken
// back, and which files are not as the conversation has them.
type TakenBack struct {
	Conversation bool         `json:"conversation,omitempty"` // not only files
	Effects      []EffectLeft `json:"effects,omitempty"`
	EffectsMore  int          `json:"effects_more,omitempty"`
	Files        []string     `json:"files,omitempty"`
	FilesMore    int          `json:"files_more,omitempty"`
}

// EventType implements Payload.
func (SessionRewinding) EventType() EventType { return "session.rewinding" }

// EventType implements Payload.
func (SessionRewound) EventType() EventType { return "session.rewound" }

// Rewound is a rewind in a Session.
type Rewound struct {
	Seq    int64      `json:"seq"` // of its session.rewound
	ID     RewindID   `json:"id"`
	What   RewindWhat `json:"what"`
	To     int64      `json:"to"`
	Undoes int64      `json:"undoes,omitempty"`
}

// Skip is a stretch of a log that the conversation skips.
type Skip struct {
	From int64 `json:"from"` // the first event
	To   int64 `json:"to"`   // the last event
	By   int64 `json:"by"`   // the session.rewound event after it
}

// skips returns what the conversation skips as of event at. The way back from there leads from
// each rewind to the event that it took the session back to.
func skips(list []Rewound, at int64) (out []Skip) {
	for _, r := range slices.Backward(list) {
		if r.Seq > at || !r.What.Conversation() {
			continue
		}
		if r.To+1 < r.Seq {
			out = append(out, Skip{From: r.To + 1, To: r.Seq - 1, By: r.Seq})
		}
		at = r.To
	}
	slices.Reverse(out)
	return out
}

// skipped returns the rewind that took an event back, or 0.
func skipped(list []Skip, seq int64) (by int64) {
	at, found := slices.BinarySearchFunc(list, seq, func(k Skip, seq int64) int {
		switch {
		case k.To < seq:
			return -1
		case k.From > seq:
			return 1
		}
		return 0
	})
	if !found {
		return 0
	}
	return list[at].By
}

// Skips lists what the conversation skips, in the order of the log.
func (s *Session) Skips() []Skip { return skips(s.Rewinds, s.Seq) }

// Skipped returns the number of the session.rewound event that took event seq back, or 0.
func (s *Session) Skipped(seq int64) (by int64) { return skipped(s.Skips(), seq) }

// LastRewind is the last rewind that was not taken back by another one.
func (s *Session) LastRewind() (r Rewound, ok bool) {
	gaps := s.Skips()
	for _, r := range slices.Backward(s.Rewinds) {
		if skipped(gaps, r.Seq) == 0 {
			return r, true
		}
	}
	return r, false
}

// checkRewind returns an error for a rewind that no session of ours has had.
func (s *Session) checkRewind(seq int64, r Rewind) error {
	switch {
	case r.To < 1 || r.To >= seq:
		return Errorf(CodeInvalid, "event %d rewinds to event %d", seq, r.To)
	case s.Turn != nil:
		return Errorf(CodeInvalid, "event %d rewinds while a turn is open", seq)
	case len(s.Rewinds) >= MaxRewinds:
		return Errorf(CodeTooLarge, "event %d rewinds; a session can be rewound %d times", seq, MaxRewinds)
	}
	return nil
}

func (s *Session) rewound(e Event, p SessionRewound) {
	s.Rewinding = nil
	s.Rewinds = append(slices.Clip(s.Rewinds), Rewound{Seq: e.Seq, ID: p.ID, What: p.What, To: p.To, Undoes: p.Undoes})
	if !p.What.Conversation() {
		s.Taken = s.Taken.with(p)
		return
	}
	m := p.Memory
	if m == nil {
		m = &Remembered{}
	}
	s.History = s.remaining(e.Seq, p.To, m)
	s.HistoryBytes = 0
	for _, x := range s.History {
		s.HistoryBytes += x.size()
	}
	s.trimHistory()
	s.applyMemory(MemoryUpdated{Summary: m.Summary, Facts: m.Facts, Pins: m.Pins})
	s.About, s.Answered, s.Preview, s.Last = m.About[:min(len(m.About), MaxAbout)], m.Answered, Cut(m.Preview, 80), m.Last
	s.Taken = (*TakenBack)(nil).and(m.Taken).with(p)
	s.Provider, s.Kept = nil, nil
	s.Held = len(s.Queue) > 0 // what was queued was about the part that is gone: a person decides
}

// remaining is the history after a rewind: what the fold has of the events that count, and what
// it has to know again.
func (s *Session) remaining(seq, to int64, m *Remembered) []Exchange {
	gaps, without := skips(s.Rewinds, seq), map[int64]bool{}
	for _, seq := range m.Without {
		without[seq] = true
	}
	var out []Exchange
	for _, x := range s.History {
		if x.Seq <= to && x.Seq >= m.Since && skipped(gaps, x.Seq) == 0 && !without[x.Seq] {
			out = append(out, x)
		}
	}
	if len(m.History) == 0 {
		return out
	}
	out = append(out, m.History...)
	slices.SortStableFunc(out, func(a, b Exchange) int { return cmp.Compare(a.Seq, b.Seq) })
	return slices.CompactFunc(out, func(a, b Exchange) bool { return a.Seq == b.Seq })
}

// Remember returns what a rewind must say so that s, at its event seq, knows again what the session
// knew then.
func (s Session) Remember(seq int64, r Rewind, then Session) *Remembered {
	m := &Remembered{About: then.About, Answered: then.Answered, Preview: then.Preview, Last: then.Last, Taken: then.Taken}
	if then.Summary != s.Summary {
		m.Summary = &then.Summary
	}
	if !slices.Equal(then.Facts, s.Facts) {
		facts := append([]Fact{}, then.Facts...)
		m.Facts = &facts
	}
	if !slices.Equal(then.Pins, s.Pins) {
		pins := append([]Pin{}, then.Pins...)
		m.Pins = &pins
	}
	if m.Since = r.To + 1; len(then.History) > 0 {
		m.Since = then.History[0].Seq
	}
	s.Rewinds = append(slices.Clip(s.Rewinds), Rewound{Seq: seq, What: r.What, To: r.To})
	have := s.remaining(seq, r.To, m)
	had, has := numbers(then.History), numbers(have)
	for _, x := range have {
		if !had[x.Seq] {
			m.Without = append(m.Without, x.Seq)
		}
	}
	for _, x := range then.History {
		if !has[x.Seq] {
			m.History = append(m.History, x)
		}
	}
	return m
}

func numbers(list []Exchange) map[int64]bool {
	out := map[int64]bool{}
	for _, x := range list {
		out[x.Seq] = true
	}
	return out
}

// with adds what a rewind left.
func (t *TakenBack) with(p SessionRewound) *TakenBack {
	var out TakenBack
	if t != nil {
		out = *t
	}
	out.Conversation = out.Conversation || p.What.Conversation()
	out.Effects, out.Files = slices.Clip(out.Effects), slices.Clip(out.Files)
	out.EffectsMore += p.EffectsMore
	for _, f := range p.Effects {
		switch {
		case slices.ContainsFunc(out.Effects, func(o EffectLeft) bool { return o.Call == f.Call }):
		case len(out.Effects) < maxTaken:
			f.Tool, f.Text = clip(f.Tool, 128), clip(f.Text, maxResultLine)
			out.Effects = append(out.Effects, f)
		default:
			out.EffectsMore++
		}
	}
	if n := len(p.Files); n > 0 && p.Files[n-1].Outcome == differs(p.What) { // the others are like the last
		out.FilesMore += p.FilesMore
	}
	for _, f := range p.Files {
		switch {
		case f.Outcome != differs(p.What) || slices.Contains(out.Files, f.Path):
		case len(out.Files) < maxTaken:
			out.Files = append(out.Files, clip(f.Path, 1024))
		default:
			out.FilesMore++
		}
	}
	if len(out.Effects) == 0 && len(out.Files) == 0 && out.EffectsMore == 0 && out.FilesMore == 0 {
		return nil
	}
	return &out
}

// differs is what became of the files that are not as the conversation has them. When it is taken
// back, it has all files as they were.
func differs(what RewindWhat) FileOutcome {
	if what == RewindFiles {
		return FileRestored
	}
	return FileLeft
}

// and is t followed by what another says.
func (t *TakenBack) and(u *TakenBack) *TakenBack {
	if u == nil {
		return t
	}
	what := RewindFiles
	if u.Conversation {
		what = RewindBoth
	}
	p := SessionRewound{Rewind: Rewind{What: what}, Effects: u.Effects, EffectsMore: u.EffectsMore, FilesMore: u.FilesMore}
	for _, f := range u.Files {
		p.Files = append(p.Files, FileRewound{Path: f, Outcome: differs(what)})
	}
	return t.with(p)
}

func (t *TakenBack) size() (n int) {
	if t == nil {
		return 0
	}
	for _, e := range t.Effects {
		n += len(e.Call) + len(e.Turn) + len(e.Tool) + len(e.Text) + 32
	}
	for _, f := range t.Files {
		n += len(f) + 4
	}
	return n
}

// RewindView is a rewind as people see it.
type RewindView struct {
	Rewind
	Seq         int64         `json:"seq"`
	At          time.Time     `json:"at"`
	Files       []FileRewound `json:"files,omitempty"`
	FilesMore   int           `json:"files_more,omitempty"`
	Effects     []EffectLeft  `json:"effects,omitempty"`
	EffectsMore int           `json:"effects_more,omitempty"`
	Rewound     int64         `json:"rewound,omitempty"` // the number of the rewind that took this one back
}

// rewound marks what a rewind takes back, and what it brings back.
func (v *Transcript) rewound(e Event, p SessionRewound) {
	v.Rewinding = false
	v.Rewinds = append(v.Rewinds, RewindView{
		Rewind: p.Rewind, Seq: e.Seq, At: e.Time, Files: p.Files, FilesMore: p.FilesMore, Effects: p.Effects, EffectsMore: p.EffectsMore,
	})
	var list []Rewound
	for _, r := range v.Rewinds {
		list = append(list, Rewound{Seq: r.Seq, What: r.What, To: r.To})
	}
	gaps := skips(list, e.Seq)
	for i := range v.Rewinds {
		v.Rewinds[i].Rewound = skipped(gaps, v.Rewinds[i].Seq)
	}
	for i := range v.Turns {
		if t := &v.Turns[i]; t.Status != StatusPending {
			t.Rewound = skipped(gaps, t.Seq)
		}
	}
}
