package eventlog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
)

// A text with the shape of a secret, and a known secret. Signatures and tool results may contain both.
const (
	shape = "sk-" + "ant-api03-0123456789abcdefghij"
	known = "hunter2-and-more"
)

func TestRedact_leaves_what_is_signed_or_drops_it_whole(t *testing.T) {
	t.Parallel()
	sealed := json.RawMessage(`{"sig":"` + shape + `","password":"hunter22x","n":1.50e2, "é":"\u00e9"}`)
	broken := json.RawMessage(`["AA` + known + `BB"]`)
	think := func(text string, sig json.RawMessage) parley.Part {
		return parley.Part{Type: parley.PartThinking, Text: text, Signature: sig, Provider: "p"}
	}
	for name, c := range map[string]struct{ in, want parley.ModelReplied }{
		"nothing to redact": {
			parley.ModelReplied{State: sealed, Parts: []parley.Part{think("a", sealed)}},
			parley.ModelReplied{State: sealed, Parts: []parley.Part{think("a", sealed)}},
		},
		"a secret beside": {
			parley.ModelReplied{State: sealed, Parts: []parley.Part{think("a", sealed), {Type: parley.PartText, Text: shape}}},
			parley.ModelReplied{State: sealed, Parts: []parley.Part{think("a", sealed), {Type: parley.PartText, Text: "sk-ant-[redacted]"}}},
		},
		"a known value in a seal and in the state": {
			parley.ModelReplied{State: broken, Parts: []parley.Part{think("a", broken), think("b", sealed)}},
			parley.ModelReplied{Parts: []parley.Part{{Type: parley.PartThinking, Text: "a"}, think("b", sealed)}},
		},
		"a secret under a seal": {
			parley.ModelReplied{State: sealed, Parts: []parley.Part{
				think("it is "+shape, sealed),
				{Type: parley.PartProvider, Text: "it is " + shape, Signature: sealed, Provider: "p"},
				{Type: parley.PartToolCall, Call: "c", Name: "f", Input: json.RawMessage(`{"x":"` + known + `"}`), Signature: sealed, Provider: "p"},
			}},
			parley.ModelReplied{State: sealed, Parts: []parley.Part{
				{Type: parley.PartThinking, Text: "it is sk-ant-[redacted]"},
				{Type: parley.PartToolCall, Call: "c", Name: "f", Input: json.RawMessage(`{"x":"[redacted]"}`), Redacted: true},
			}},
		},
		"a tool's own state and signature": {
			parley.ModelReplied{Parts: []parley.Part{{Type: parley.PartToolCall, Name: "f", Input: json.RawMessage(`{"state":"` + shape + `","signature":["` + known + `"]}`)}}},
			parley.ModelReplied{Parts: []parley.Part{{Type: parley.PartToolCall, Name: "f", Input: json.RawMessage(`{"state":"sk-ant-[redacted]","signature":["[redacted]"]}`), Redacted: true}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, eventlog.Options{}, known)
			got := d.w.Redact(parley.NewEvent(turn, "lead", c.in)).Events()[0]
			want := parley.NewEvent(turn, "lead", c.want)
			if diff := cmp.Diff(string(want.Data), string(got.Data)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again := d.w.Redact(got).Events()[0]
			if diff := cmp.Diff(string(got.Data), string(again.Data)); diff != "" {
				t.Errorf("redacted again (-once +twice):\n%s", diff)
			}
		})
	}
}

// TestRedact_looks_at_a_key_called_state_in_all_that_is_no_reply: only a reply's state is a
// provider's. A home app's tools also use the key "state", for the state of an entity.
func TestRedact_looks_at_a_key_called_state_in_all_that_is_no_reply(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{}, known)
	for _, p := range []parley.Payload{
		parley.ToolRequested{Call: "c", Name: "f", Input: json.RawMessage(`{"state":"` + shape + `"}`)},
		parley.ToolEnded{ToolResult: parley.ToolResult{Call: "c", Data: json.RawMessage(`{"state":"` + shape + `","a":[{"signature":"` + known + `"}]}`)}},
		parley.SessionUpdated{Preferences: map[string]any{"state": shape, "signature": known}},
	} {
		got := string(d.w.Redact(parley.NewEvent("", "", p)).Events()[0].Data)
		if strings.Contains(got, shape) || strings.Contains(got, known) || strings.Contains(got, "null") {
			t.Errorf("got %s", got)
		}
	}
}

func TestRedactFile(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{}, known)
	for name, c := range map[string]struct {
		in, want string
		ok       bool
	}{
		"text":                   {"a " + known + " b\n", "a [redacted] b\n", true},
		"clean":                  {"a b\n", "a b\n", true},
		"latin-1":                {"gr\xfc\xdfe: " + shape, "gr\xfc\xdfe: sk-ant-[redacted]", true},
		"escapes in JSON":        {`{"k":"\u0073k-ant-` + shape[7:] + `","l":"a\nb"}`, `{"k":"\u0073k-ant-[redacted]","l":"a\nb"}`, true},
		"binary":                 {"PK\x00\x01" + shape + "\x00", "", false},
		"binary without secrets": {"PK\x00\x01\xff\x00", "PK\x00\x01\xff\x00", true},
		"empty":                  {"", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := d.w.RedactFile([]byte(c.in))
			if string(got) != c.want || ok != c.ok {
				t.Errorf("got %q, %v, want %q, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestClean_is_joined_without_touching_its_parts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, eventlog.Options{})
	a := d.w.Redact(steered("a"))
	b, c := a.With(d.w.Redact(steered("b"))), a.With(d.w.Redact(steered("c")))
	if a.Len() != 1 || b.Len() != 2 || string(b.Events()[1].Data) == string(c.Events()[1].Data) || (eventlog.Clean{}).Len() != 0 {
		t.Errorf("got %v, %v, %v", a.Events(), b.Events(), c.Events())
	}
	// A grown Clean has spare capacity. Only one of its successors may use that in place.
	b = b.With(d.w.Redact(steered("3"))).With(d.w.Redact(steered("4"))).With(d.w.Redact(steered("5")))
	one, two := b.With(d.w.Redact(steered("one"))), b.With(d.w.Redact(steered("two")))
	_ = append(b.Events(), steered("other"))
	if got := texts(one) + texts(two); got != "a b 3 4 5 one a b 3 4 5 two " {
		t.Errorf("got %s", got)
	}
}

func texts(c eventlog.Clean) (s string) {
	for _, e := range c.Events() {
		p, _ := e.Payload()
		s += p.(parley.TurnSteered).Message.Text() + " "
	}
	return s
}
