package wire

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
)

// Text puts the text of one call together from the fragments and partials of a log, for a wire on
// which nothing can be taken back. The zero value has none.
type Text struct {
	// Sent is how many bytes of the call's text the client has. A client that resumes may have
	// some of the first call already.
	Sent int

	call parley.CallID
	seen []byte
}

// Call is the call whose text this is.
func (t *Text) Call() parley.CallID { return t.call }

// Begin switches to a call. It reports whether that is another one than before, of whose text
// nothing was sent.
func (t *Text) Begin(call parley.CallID) (another bool) {
	if t.call == call {
		return false
	}
	if t.call != "" {
		t.Sent = 0
	}
	t.call, t.seen = call, t.seen[:0]
	return true
}

// Add adds a fragment to the call's text, or with whole replaces the text. A whole text may be
// shorter than what was sent: later fragments then bring it back to that.
func (t *Text) Add(text string, whole bool) {
	if whole {
		t.seen = t.seen[:0]
	}
	t.seen = append(t.seen, text...)
}

// Seen is the text so far. It is valid until the next call of a method.
func (t *Text) Seen() []byte { return t.seen }

// Begins reports whether what was sent is the beginning of text, as far as it is known here.
func (t *Text) Begins(text string) bool {
	known := t.seen[:min(t.Sent, len(t.seen))]
	return t.Sent <= len(text) && bytes.Equal(known, []byte(text)[:len(known)])
}

// Rest is what text, which begins with what was sent, has beyond that. It counts as sent.
func (t *Text) Rest(text []byte) string {
	if len(text) <= t.Sent {
		return ""
	}
	rest := string(text[t.Sent:])
	t.Sent = len(text)
	return rest
}

// Forget goes back to the zero value.
func (t *Text) Forget() { *t = Text{} }

// Gathered joins fragments of a call's text that arrive within the given time: the first goes on at
// once, and what follows is collected. Of the progress of a tool, only the last of that time goes
// on. Everything else is passed on at once, after what was collected. follow makes the frames; its
// context ends when they are no longer wanted.
func Gathered(ctx context.Context, while time.Duration, follow func(ctx context.Context) Frames) Frames {
	type item struct {
		f   eventlog.Frame
		err error
	}
	return func(yield func(eventlog.Frame, error) bool) {
		inner, stop := context.WithCancel(ctx)
		items, ended := make(chan item), make(chan struct{})
		go func() {
			defer close(ended)
			defer close(items)
			for f, err := range follow(inner) {
				select {
				case items <- item{f, err}:
				case <-inner.Done():
					return
				}
			}
		}()
		defer func() { stop(); <-ended }()
		var (
			held  *parley.Delta // the first of what is collected
			text  strings.Builder
			n     int64 // of the last
			timer = time.NewTimer(while)
			due   = true // nothing was sent for a while: the next text goes on at once
		)
		defer timer.Stop()
		flush := func() bool {
			if held == nil {
				return true
			}
			d := *held
			d.Text, d.N = text.String(), n
			held = nil
			text.Reset()
			return yield(eventlog.Frame{Delta: &d}, nil)
		}
		for {
			select {
			case it, ok := <-items:
				if !ok {
					if flush() && ctx.Err() != nil {
						yield(eventlog.Frame{}, context.Cause(ctx))
					}
					return
				}
				d := it.f.Delta
				if it.err == nil && d != nil && !it.f.Partial && (d.Kind == parley.DeltaText || d.Kind == parley.DeltaProgress) {
					if held != nil && (held.Call != d.Call || held.Kind != d.Kind) && !flush() {
						return
					}
					if d.Kind == parley.DeltaProgress {
						text.Reset()
					}
					if held == nil {
						held = d
					}
					text.WriteString(d.Text)
					n = d.N
					if due {
						due = false
						timer.Reset(while)
						if !flush() {
							return
						}
					}
					continue
				}
				if !flush() || !yield(it.f, it.err) {
					return
				}
			case <-timer.C:
				if due = held == nil; !due {
					timer.Reset(while)
				}
				if !flush() {
					return
				}
			}
		}
	}
}
