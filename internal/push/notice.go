package push

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxText is the most characters that a notice has of an answer or a question.
const maxText = 2000

// notice is a message to a device before it is written for it, as it is stored.
type notice struct {
	Device      parley.DeviceID   `json:"device"`
	Type        string            `json:"type"`
	Session     parley.SessionID  `json:"session,omitempty"`
	App         string            `json:"app,omitempty"`
	Title       string            `json:"title,omitempty"` // of the session
	Key         string            `json:"key,omitempty"`   // the session's outside id, under which pages may know it
	Turn        parley.TurnID     `json:"turn,omitempty"`
	Seq         int64             `json:"seq,omitempty"`
	At          time.Time         `json:"at"`
	Status      parley.TurnStatus `json:"status,omitempty"`
	Text        string            `json:"text,omitempty"`
	RanMS       int64             `json:"ran_ms,omitempty"`
	Interaction *about            `json:"interaction,omitempty"`
	Whole       bool              `json:"whole,omitempty"` // title and text of the interaction have all of its call's input
	Cut         bool              `json:"cut,omitempty"`   // they do not have all that the page shows

	Attempts int    `json:"attempts,omitempty"`
	Error    string `json:"error,omitempty"`
}

// about is the interaction of a notice.
type about struct {
	ID      parley.InteractionID   `json:"id"`
	Kind    parley.InteractionKind `json:"kind"`
	Title   string                 `json:"title"`
	Tool    string                 `json:"tool,omitempty"`
	Choices []string               `json:"choices,omitempty"`
	Choice  string                 `json:"choice,omitempty"` // the answer
	Expires time.Time              `json:"expires_at,omitzero"`
	// Question and Options are those of a single question with one answer.
	Question string   `json:"question,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// id is what a receiver knows the message by: the same for each attempt.
func (n notice) id() string {
	if n.Session == "" {
		return "test-" + string(n.Device) + "-" + strconv.FormatInt(n.At.UnixMilli(), 10)
	}
	return string(n.Session) + "-" + strconv.FormatInt(n.Seq, 10)
}

// rowPrefix begins the ids of our rows in the outbox.
const rowPrefix = "push-"

// row is the id of the row in which a notice waits to be sent.
func (n notice) row() string {
	switch {
	case n.Session == "":
		return rowPrefix + n.id()
	case n.Type == "interaction.opened":
		return opened(n.Session, n.Interaction.ID, n.Device)
	}
	// Of what is due in the same millisecond, the earlier event comes first.
	return fmt.Sprintf("%s%s-%010d-%s", rowPrefix, n.Session, n.Seq, n.Device)
}

// opened is the id of the row of a question, which has another when it is closed.
func opened(session parley.SessionID, id parley.InteractionID, to parley.DeviceID) string {
	return rowPrefix + string(session) + "-" + string(id) + "-" + string(to)
}

// stored is a store whose appends write down what is to be sent.
type stored struct {
	seam.Store
	p *Push
}

// Store returns a store through which all appends go, so that what devices are told of them
// is in the same append. It must be the store that p uses, or stand before it.
func (p *Push) Store(s seam.Store) seam.Store { return stored{s, p} }

// Append implements [seam.Store].
func (s stored) Append(ctx context.Context, by parley.Principal, b seam.Batch) error {
	rows := s.p.rows(b)
	if len(rows) == 0 {
		return s.Store.Append(ctx, by, b)
	}
	// The batch stays its caller's, who may append it again.
	b.Index.Rows = append(b.Index.Rows[:len(b.Index.Rows):len(b.Index.Rows)], rows...)
	info := b.Index.Session
	full := &noRoom{of: parley.Principal{User: info.User, Org: info.Org}, names: map[string]bool{}}
	b.Index.Left = full.left
	err := s.Store.Append(ctx, by, b)
	if err == nil {
		s.p.full(full)
	}
	s.p.ring() // also after an error: it may have been appended
	return err
}

// rows are the rows of what a batch's owner is to be told.
func (p *Push) rows(b seam.Batch) (rows []seam.Row) {
	info := b.Index.Session
	if info == nil || b.Create { // a session that was imported has news for nobody
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	u := p.users[parley.Principal{User: info.User, Org: info.Org}]
	if u == nil || len(u.devices) == 0 {
		return nil
	}
	for _, ev := range b.Events {
		n, ok := noticeOf(b, ev)
		if !ok {
			continue
		}
		for _, d := range u.devices {
			if !d.wants(n.Type, n.App) || d.Kind.ForPerson() && !u.interested(n, b) {
				continue
			}
			n.Device = d.ID
			if body, err := json.Marshal(n); err == nil {
				rows = append(rows, seam.Row{
					RowName: seam.RowName{Kind: seam.RowOutbox, ID: n.row()}, Session: b.Session, Due: n.At, Open: true, Body: body,
				})
			}
		}
	}
	return rows
}

// noticeOf is what devices are told of an event; ok is false when that is nothing.
func noticeOf(b seam.Batch, ev parley.Event) (n notice, ok bool) {
	if !isTold(ev.Type) {
		return n, false
	}
	info := b.Index.Session
	n = notice{
		Type: string(ev.Type), Session: b.Session, App: info.App, Title: parley.Cut(cmp.Or(info.Title, info.Preview), 200), Turn: ev.Turn, Seq: ev.Seq, At: ev.Time, Key: info.OutsideID,
	}
	p, err := ev.Payload()
	if err != nil {
		return n, false
	}
	switch p := p.(type) {
	case parley.TurnInterrupted:
		if p.Resumes || info.Direct {
			return n, false
		}
		n.Text = parley.Cut(p.Reason, maxText)
	case parley.InteractionOpened:
		return withInteraction(n, b, p.Interaction.ID)
	case parley.InteractionAnswered:
		return withInteraction(n, b, p.ID)
	case parley.InteractionExpired:
		return withInteraction(n, b, p.ID)
	default:
		if info.Direct {
			return n, false // whoever made the call has its answer
		}
	}
	for _, t := range b.Index.Turns {
		if t.ID != ev.Turn {
			continue
		}
		n.Status, n.RanMS = t.Status, t.Spent.RanMS
		switch {
		case n.Text != "":
		case t.Response != nil && t.Response.Message != "":
			n.Text = beginning(t.Response.Message, maxText)
		case t.Error != nil:
			n.Text = parley.Cut(t.Error.Message, maxText)
		default:
			n.Text = parley.Cut(t.Reason, maxText)
		}
	}
	return n, true
}

// beginning is the first n characters of an answer, with its lines: parley.Cut makes one of them.
func beginning(answer string, n int) string {
	answer = strings.TrimSpace(answer)
	for i := range answer {
		if n--; n < 0 {
			return answer[:i] + "…"
		}
	}
	return answer
}

func isTold(t parley.EventType) bool {
	if !strings.HasPrefix(string(t), "turn.") && !strings.HasPrefix(string(t), "interaction.") {
		return false
	}
	for _, one := range told {
		if one == string(t) {
			return true
		}
	}
	return false
}

func withInteraction(n notice, b seam.Batch, id parley.InteractionID) (notice, bool) {
	for _, in := range b.Index.Interactions {
		if in.ID != id {
			continue
		}
		n.Interaction = &about{ID: id, Kind: in.Kind, Title: parley.Cut(in.Title, 500), Tool: in.Tool, Choices: in.Choices, Expires: in.ExpiresAt}
		n.Text = parley.Cut(in.Text, maxText)
		n.Cut = utf8.RuneCountInString(in.Title) > 500 || utf8.RuneCountInString(in.Text) > maxText || len(in.Reaches) > 3 ||
			strings.Contains(in.Title+in.Text, "…") // which stands for what was left out
		n.Whole = covers(n.Interaction.Title+"\n"+n.Text, in.Input)
		if q := in.Questions; len(q) == 1 && !q[0].MultiSelect && len(q[0].Question) <= 500 {
			n.Interaction.Question = q[0].Question
			for _, o := range q[0].Options {
				n.Interaction.Options = append(n.Interaction.Options, parley.Cut(o.Label, 200))
			}
		}
		if in.Answer != nil {
			n.Interaction.Choice = in.Answer.Choice
		}
		return n, true
	}
	return n, false
}

// covers reports whether words have every value of a call's input. Of what is no text or number, words
// show nothing.
func covers(words string, input json.RawMessage) bool {
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	var v any
	return d.Decode(&v) == nil && shows(words, v)
}

func shows(words string, v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(words, v)
	case json.Number:
		return strings.Contains(words, v.String())
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !shows(words, e) })
	case map[string]any:
		for _, e := range v {
			if !shows(words, e) {
				return false
			}
		}
		return true
	}
	return false
}

// interested reports whether a person wants to be told. p.mu is held.
func (u *user) interested(n notice, b seam.Batch) bool {
	switch n.Type {
	case "interaction.opened":
		for _, in := range b.Index.Interactions {
			if in.ID == n.Interaction.ID && !in.Open {
				return false // it is answered in the same append
			}
		}
		return u.notify.Waits && n.Interaction.Kind != parley.KindClient
	case "interaction.answered", "interaction.expired":
		return u.notify.Waits && n.Interaction.Kind != parley.KindClient
	case "turn.cancelled":
		return false // somebody has just done it
	case "turn.interrupted":
		return u.notify.Waits
	}
	return u.notify.Ends && (n.Type != "turn.completed" || n.RanMS >= int64(u.notify.After)*1000)
}
