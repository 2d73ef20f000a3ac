package redact_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/redact"
)

// pass sends the pieces through a stream and returns the output.
func pass(r *redact.Redactor, pieces ...string) string {
	s := r.NewStream()
	var out strings.Builder
	for _, p := range pieces {
		out.WriteString(s.Write(p))
	}
	out.WriteString(s.Close())
	return out.String()
}

const told = `told "value"/x` // known to every redactor in these tests

func texts() []string {
	all := append([]string{"a " + told + ". told \"val", told + told[3:], "told \"told \"value\"/xx"}, clean...)
	for _, p := range planted {
		all = append(all, p.before+p.secret+p.after, p.secret+p.before+p.secret, p.before+p.before+p.secret+told)
	}
	return append(all, strings.Join(all, " "), strings.Join(all, ""))
}

func TestStreamEqualsStringWhereverItIsCut(t *testing.T) {
	t.Parallel()
	r := redact.New(told)
	for _, text := range texts() {
		want, _ := r.String(text)
		check := func(how string, pieces ...string) {
			if got := pass(r, pieces...); got != want {
				t.Errorf("%s:\ngot  %q\nwant %q", how, got, want)
			}
		}
		if len(text) < 1000 {
			for i := range text {
				check("in two", text[:i], text[i:])
			}
		}
		check("in bytes", strings.Split(text, "")...)
		for seed := range uint64(20) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			var pieces []string
			for rest := text; rest != ""; {
				n := min(len(rest), 1+rnd.IntN(1+int(seed)*2))
				pieces, rest = append(pieces, rest[:n]), rest[n:]
			}
			check("in pieces", pieces...)
		}
	}
}

func TestStreamNeverShowsPartOfASecret(t *testing.T) {
	t.Parallel()
	r := redact.New(told)
	for _, p := range planted {
		text := p.before + p.secret + p.after
		s := r.NewStream()
		shown := ""
		for i := range len(text) {
			shown += s.Write(text[i : i+1])
			if want := p.before + redact.Mark + p.after; !strings.HasPrefix(want, shown) {
				t.Fatalf("%s: shown %q after %q", p.name, shown, text[:i+1])
			}
		}
	}
}

func TestStreamHoldsBackOnlyWhatMayBecomeASecret(t *testing.T) {
	t.Parallel()
	r := redact.New("qqsecret")
	s := r.NewStream()
	for _, c := range []struct{ fragment, shown string }{
		{"Hello", "Hello"},
		{" password", " password"},
		{": ", ": "},
		{"hunter", ""},
		{" is", "hunter is"},
		{" https://user", " https://user"},
		{".example/", ".example/"},
		{" sk-ant-", " sk-ant-"},
		{"abc", ""},
		{" q", "abc "},
		{"q", ""},
		{"sec", ""},
		{"tor", "qqsector"},
		{" task-force", " task-force"},
		{" ghp_0123456789abcdefghijABCDEFGHIJ", " ghp_[redacted]"},
		{"0123456789", ""},
		{" y", " y"},
		{" Bearer of", " Bearer "},
	} {
		if got := s.Write(c.fragment); got != c.shown {
			t.Errorf("after %q: got %q, want %q", c.fragment, got, c.shown)
		}
	}
	if got, want := s.Close(), "of"; got != want {
		t.Errorf("at the end: got %q, want %q", got, want)
	}
	if got, want := s.Write("hunter2"), "hunter2"; got != want {
		t.Errorf("the next text: got %q, want %q", got, want)
	}
}

func TestStreamSwallowsAnEndlessKeyWithoutGrowing(t *testing.T) { // not parallel: it counts allocations
	s := redact.New().NewStream()
	got := s.Write("-----BEGIN PRIV" + "ATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0")
	line := strings.Repeat("AbCd0123", 8) + "\n"
	if n := testing.AllocsPerRun(1000, func() { got += s.Write(line) }); n > 0 {
		t.Errorf("got %v allocations a line, want 0", n)
	}
	got += s.Write("-----END PRIVATE KEY-----\nbye") + s.Close()
	if want := "-----BEGIN PRIV" + "ATE KEY-----[redacted]\nbye"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCleanTextAllocatesNothing(t *testing.T) { // not parallel: it counts allocations
	r := redact.New(told)
	s := r.NewStream()
	text := strings.Repeat("the quick brown fox, ", 10)
	doc := []byte(`{"type":"text","text":"Hello,\nworld \"x\"","n":[1,2.5,true],"signature":"abc"}`)
	for name, f := range map[string]func(){
		"stream": func() { s.Write("hello") },
		"string": func() { r.String(text) },
		"json":   func() { r.JSON(doc, "signature", "state") },
	} {
		if n := testing.AllocsPerRun(100, f); n > 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
}
