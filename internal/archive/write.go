package archive

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Write writes the session as a zip file to w. If it fails, the output is not a valid zip
// file.
func Write(ctx context.Context, w io.Writer, s Source) error {
	z := &writer{Writer: zip.NewWriter(w), at: s.Info.UpdatedAt}
	kept, err := z.log(s)
	if err != nil {
		return err
	}
	f, err := z.files(s, kept)
	if err != nil {
		return err
	}
	for _, a := range f.artifacts {
		body, err := s.Artifact(ctx, a.ID)
		if c := parley.CodeOf(err); c == parley.CodeNotFound || c == parley.CodeCondensed {
			continue // deleted with the steps of its turn
		}
		if err != nil {
			return parley.Errorf(parley.CodeOf(err), "artifact %s: %w", a.ID, err)
		}
		if err := z.bytes(ArtifactsFolder+"/"+string(a.ID), body); err != nil {
			return err
		}
	}
	blobs := f.apps
	if k := f.fold.Kept; k != nil {
		blobs = append(slices.Clip(blobs), k.SHA256)
	}
	for _, d := range blobs {
		if s.Blob == nil {
			break
		}
		body, err := s.Blob(ctx, d)
		if parley.CodeOf(err) == parley.CodeNotFound {
			continue // the log can be read without
		}
		if err != nil {
			return parley.Errorf(parley.CodeOf(err), "blob %s: %w", d, err)
		}
		if err := z.bytes("blobs/"+string(d), body); err != nil {
			return err
		}
	}
	return z.Close()
}

type writer struct {
	*zip.Writer
	at time.Time // the files' time: the session's, so that repeated exports are equal
}

func (z *writer) create(name string) (io.Writer, error) {
	return z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: z.at.UTC()})
}

func (z *writer) bytes(name string, body []byte) error {
	w, err := z.create(name)
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// log writes events.ndjson, and returns what retention left of the steps that it removed.
func (z *writer) log(s Source) (kept parley.Condensed, err error) {
	raw, err := z.create(eventsFile)
	if err != nil {
		return kept, err
	}
	out := bufio.NewWriterSize(raw, 64<<10)
	var line []byte
	kept, err = Kept(func(yield func(parley.Event, error) bool) {
		for e, err := range s.Events() {
			if err == nil {
				line = append(e.AppendJSON(line[:0]), '\n')
				_, err = out.Write(line)
			}
			if !yield(e, err) {
				return
			}
		}
	})
	if err != nil {
		return kept, err
	}
	return kept, out.Flush()
}

// files writes session.json, turns/*.json and logs/*.log. A turn is written when
// it ends, so that only the open ones are in memory.
func (z *writer) files(s Source, kept parley.Condensed) (*Files, error) {
	f := NewFiles(kept)
	for e, err := range s.Events() {
		if err != nil {
			return nil, err
		}
		t, err := f.Apply(e)
		if err != nil {
			return nil, err
		}
		if t == nil || !t.Ended() {
			continue
		}
		if err := z.turn(t); err != nil {
			return nil, err
		}
	}
	for _, t := range f.open {
		if err := z.turn(t); err != nil {
			return nil, err
		}
	}
	body, err := f.Session()
	if err != nil {
		return nil, err
	}
	return f, z.bytes(SessionFile, body)
}

func (z *writer) turn(t *Turn) error {
	body, err := t.Record()
	if err != nil {
		return err
	}
	if err := z.bytes(TurnFile(t.ID()), body); err != nil {
		return err
	}
	if body, err = t.Log(0); err != nil {
		return err
	}
	return z.bytes(LogFile(t.ID()), body)
}

func meta(role parley.Role, e parley.Event, text string) message {
	return message{messageMeta{Role: string(role), ContinuationID: string(e.Turn), TS: millis(e.Time), Length: len([]rune(text))}, e.Seq}
}

// counting returns the messages that count, and the turns that were taken back.
func (f *Files) counting() (list []messageMeta, rewound []string) {
	list = []messageMeta{}
	gaps := f.fold.Skips()
	for _, m := range f.messages {
		switch gone := slices.ContainsFunc(gaps, func(k parley.Skip) bool { return k.From <= m.Seq && m.Seq <= k.To }); {
		case !gone:
			list = append(list, m.messageMeta)
		case m.Role == string(parley.RoleUser):
			rewound = append(rewound, m.ContinuationID)
		}
	}
	return list, rewound
}

// lastMessages and their length limit session.json, which must not hold large content.
const (
	lastMessages   = 6
	lastMessageLen = 4000
)

func (f *Files) session() agentSession {
	v := &f.fold
	force := v.InForce.Of(*v)
	s := agentSession{
		ID: string(v.ID), CreatedAt: millis(v.CreatedAt), UpdatedAt: millis(v.UpdatedAt), Status: string(v.Status),
		Model: modelOf(v, force.Model), Budgets: budgetsOf(v.Budgets),
		Memory:      f.memory(),
		Preferences: v.Preferences, OpenContinuations: []string{},
		Ctx:   sessionContext{App: v.App, AppModel: v.Model == "" && force.Model != "", User: v.User, Org: v.Org, OutsideID: v.OutsideID, Title: v.Title, Parent: string(v.Parent)},
		Stats: sessionStats{Turns: v.Totals.Turns, Steps: v.Totals.Steps, ToolCalls: v.Totals.ToolCalls, Tokens: v.Totals.Usage.Tokens(), CostUSD: v.Totals.Usage.USD},

		Version: v.Seq,
	}
	s.Messages, s.Rewound = f.counting()
	p := force.Policy
	s.Policy = sessionPolicy{
		AllowActuation:      p.AllowActuation != nil && *p.AllowActuation,
		AllowlistedServices: append([]string{}, p.AllowlistedServices...),
		EnforceFixedModel:   p.FixedModel, Mode: string(v.Mode), Unattended: p.Unattended,
	}
	if v.Turn != nil {
		s.OpenContinuations = append(s.OpenContinuations, string(v.Turn.ID))
	}
	for _, q := range v.Queue {
		s.OpenContinuations = append(s.OpenContinuations, string(q.ID))
	}
	s.QueueHeld = v.QueueHeld()
	return s
}

func (f *Files) memory() sessionMemory {
	v := &f.fold
	m := sessionMemory{RollingSummary: v.Summary, Facts: []keyFact{}, Pins: []pinnedContext{}, LastK: []turnMessage{}}
	for _, x := range v.Facts {
		m.Facts = append(m.Facts, keyFact{Text: x.Text, Source: x.Source, TS: millis(x.Time)})
	}
	for _, x := range v.Pins {
		m.Pins = append(m.Pins, pinnedContext(x))
	}
	said := func(role parley.Role, turn parley.TurnID, text string) {
		t := turnMessage{Role: string(role), Content: short(text), ContinuationID: string(turn)}
		for _, meta := range slices.Backward(f.messages) { // what a failed turn said has no time of its own
			if meta.ContinuationID == t.ContinuationID {
				t.TS = meta.TS
				if meta.Role == t.Role {
					break
				}
			}
		}
		m.LastK = append(m.LastK, t)
	}
	for _, x := range v.History[max(0, len(v.History)-lastMessages):] {
		said(parley.RoleUser, x.Turn, x.User.Text())
		if x.Reply != "" {
			said(parley.RoleAssistant, x.Turn, x.Reply)
		}
	}
	m.LastK = m.LastK[max(0, len(m.LastK)-lastMessages):]
	return m
}

func short(text string) string {
	if r := []rune(text); len(r) > lastMessageLen {
		return string(r[:lastMessageLen-1]) + "…"
	}
	return text
}

func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b.Bytes(), err
}

func detail(v any) json.RawMessage {
	b, err := encode(v, "")
	if err != nil {
		return json.RawMessage(`{}`) // raw JSON of the log, which was checked when it was appended
	}
	return json.RawMessage(strings.TrimSuffix(string(b), "\n"))
}
