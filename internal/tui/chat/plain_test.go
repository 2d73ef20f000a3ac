package chat_test

import (
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/tui/chat"
)

// heard is what a plain chat says.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	h.text.Write(b)
	h.mu.Unlock()
	select {
	case h.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

// until waits until a text was said, and returns all of it.
func (h *heard) until(t *testing.T, text string) string {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		h.mu.Lock()
		all := h.text.String()
		h.mu.Unlock()
		if strings.Contains(all, text) {
			return all
		}
		select {
		case <-h.more:
		case <-late:
			t.Fatalf("%q was never said:\n%s", text, all)
		}
	}
}

// A plain chat asks in words, says each thing once, and no secret.
func TestPlain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in, hand := io.Pipe()
	h := &heard{more: make(chan struct{}, 1)}
	o := d.options()
	o.Plain, o.App, o.In, o.Out, o.Err = true, "desk", in, h, h
	type result struct {
		left chat.Left
		err  error
	}
	done := make(chan result, 1)
	go func() {
		left, err := chat.Run(t.Context(), o)
		done <- result{left, err}
	}()
	write := func(line string) {
		t.Helper()
		if _, err := io.WriteString(hand, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	write("pay")
	h.until(t, "4. Allow once, with another input")
	write("perhaps")
	h.until(t, "is not one of the choices")
	write("1")
	h.until(t, "1. Type it; it is not shown")
	write("1")
	write("123456")
	all := h.until(t, "Done: Paid 7 euros.")
	if strings.Contains(all, "123456") {
		t.Errorf("the secret was said:\n%s", all)
	}
	write("ask")
	h.until(t, "Question 1 of 2: Which colours?")
	write("2,1")
	h.until(t, "Question 2 of 2: Where?")
	write("elsewhere")
	h.until(t, "Thank you.")
	write("look")
	all = h.until(t, "func main()")
	for text, times := range map[string]int{"Called look notes/a.md": 1, "Done: Paid 7 euros.": 1, "Thank you.": 1, "What I saw": 1} {
		if n := strings.Count(all, text); n != times {
			t.Errorf("%q was said %d times:\n%s", text, n, all)
		}
	}
	if strings.ContainsAny(all, "\x1b\x07\b\x00\u202e") {
		t.Errorf("there is something that a terminal obeys: %q", all)
	}
	_ = hand.Close()
	select {
	case r := <-done:
		if r.err != nil || r.left.Session == "" {
			t.Errorf("it ends with %+v, %v", r.left, r.err)
		}
		info, err := d.Client.Session(t.Context(), r.left.Session)
		if err != nil || info.Totals.Turns != 3 || info.Status != parley.Active {
			t.Errorf("the session is %+v, %v", info, err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
}

// A plain chat attaches files, and says what is attached to each message.
func TestPlain_attach(t *testing.T) {
	t.Parallel()
	d, dir := newDesk(t), desktop(t)
	h := &heard{more: make(chan struct{}, 1)}
	o := d.options()
	o.Plain, o.App, o.Out, o.Err = true, "desk", h, h
	o.In = strings.NewReader(strings.Join([]string{
		"/attach " + dir + "/none.txt", "/attach '" + dir + "/with a space.md'", "/attach " + dir + "/x.bin", "/attach", "/detach", "/attach " + dir + "/price.txt", "first", "second",
	}, "\n"))
	left, err := chat.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	all := h.until(t, "You said second.")
	for text, times := range map[string]int{
		"Error: there is no file": 1, "Attached: with a space.md (8 bytes). It goes with your next message.": 1, "Taken off: x.bin": 1,
		"Attached: with a space.md (8 bytes)\n": 1, "Attached: price.txt (16 bytes)\n": 1, "You said first.": 1,
	} {
		if n := strings.Count(all, text); n != times {
			t.Errorf("%q was said %d times:\n%s", text, n, all)
		}
	}
	page, err := d.Client.Events(t.Context(), left.Session, 0, client.EventFilter{Types: []string{"turn.started"}})
	if err != nil || len(page.Events) != 2 || !strings.Contains(string(page.Events[0].Data), "The price is 42.") || strings.Contains(string(page.Events[1].Data), "attachment") {
		t.Errorf("the turns are %+v, %v", page.Events, err)
	}
}
