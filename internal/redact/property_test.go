package redact_test

import (
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/redact/redacttest"
)

// TestSecretsOfAllKindsAreFound: no part of a secret comes out, whatever its kind and wherever
// the text is cut.
func TestSecretsOfAllKindsAreFound(t *testing.T) {
	t.Parallel()
	r := redact.New(redacttest.Known)
	if n := len(redacttest.Secrets(0)); n < 30 {
		t.Fatalf("there are %d kinds", n)
	}
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		for _, s := range redacttest.Secrets(seed) {
			one := []redacttest.Secret{s}
			text := "It is " + s.Text() + " and more."
			want, found := r.String(text)
			if leaks := redacttest.Leaks([]byte(want), one); leaks != nil || !found {
				t.Errorf("String: %v", leaks)
			}
			if s.Kind != "private key" && s.Kind != "basic auth in a URL" && !strings.HasSuffix(want, s.After+" and more.") {
				t.Errorf("String took more than %s: %q", s.Kind, want)
			}
			doc, err := json.Marshal(map[string]any{"text": text, "in": []string{text}, "nested": map[string]string{"state": text, text: "x"}})
			if err != nil {
				t.Fatal(err)
			}
			got, _ := r.JSON(doc)
			if leaks := redacttest.Leaks(got, one); leaks != nil || !json.Valid(got) {
				t.Errorf("JSON: %v in %s", leaks, got)
			}
			wrapped, err := json.Marshal(string(doc))
			if err != nil {
				t.Fatal(err)
			}
			got, _ = r.JSON(wrapped)
			if leaks := redacttest.Leaks(got, one); leaks != nil {
				t.Errorf("JSON in a string: %v", leaks)
			}
			for i := range len(text) {
				if diff := cmp.Diff(want, pass(r, text[:i], text[i:])); diff != "" {
					t.Fatalf("%s, cut at %d (-String +Stream):\n%s", s.Kind, i, diff)
				}
			}
			var pieces []string
			for rest := text; rest != ""; {
				n := min(len(rest), 1+rnd.IntN(6))
				pieces, rest = append(pieces, rest[:n]), rest[n:]
			}
			if diff := cmp.Diff(want, pass(r, pieces...)); diff != "" {
				t.Errorf("%s in %q (-String +Stream):\n%s", s.Kind, pieces, diff)
			}
		}
	}
}

// TestSecretsThatAreCutOffAreFound: if a text ends within a secret, the beginning of the secret
// is not shown.
func TestSecretsThatAreCutOffAreFound(t *testing.T) {
	t.Parallel()
	r := redact.New()
	for _, s := range redacttest.Secrets(3) {
		from := 12
		switch s.Kind {
		case "anthropic", "openai", "github", "google", "sendgrid", "pypi", "telegram":
		case "json web token", "discord":
			from = 26 // a header and a user's number are not secrets
		default:
			continue
		}
		for n := from; n < len(s.Value); n++ {
			text := s.Before + s.Value[:n] + "…"
			got, _ := r.String(text)
			if strings.Contains(got, s.Value[:8]) {
				t.Errorf("%s: got %q", s.Kind, got)
			}
			for i := range len(text) {
				if diff := cmp.Diff(got, pass(r, text[:i], text[i:])); diff != "" {
					t.Fatalf("%s, cut at %d (-String +Stream):\n%s", s.Kind, i, diff)
				}
			}
		}
	}
}

// TestOrdinaryTextComesBackAsItWas: the usual content of an agent's log is unchanged, in any
// combination.
func TestOrdinaryTextComesBackAsItWas(t *testing.T) {
	t.Parallel()
	r := redact.New(redacttest.Known)
	words := strings.Fields(`the turn ended with light.bedroom_2 on at 230.4 V because voltage dipped; token counts,
		password policy secret garden key idea basic-auth bearer-of api sk-learn SKU MTU NTFS ODT MDX eyJ AIza https://example.com:8080/a/b?c=d#e
		sensor.power_3 script.turn_on_lights {"state":"on","unit":"W"} [1,2,3] 2026-11-21T08:00:00.123Z 10.5ms -0.25 1e9 #123 @ana
		/api/states /api/webhook/doorbell user@example.com C:\\temp "it's" 東京 Grüße 100% $5 a=b key=value id:42 foo_bar-baz v1.2.3-rc.4`)
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		pick := func(set string, n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = set[rnd.IntN(len(set))]
			}
			return string(b)
		}
		var b strings.Builder
		for range 60 {
			switch rnd.IntN(8) {
			case 0:
				b.WriteString("0" + pick("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 25)) // a ULID
			case 1:
				b.WriteString(pick("0123456789abcdef", []int{7, 32, 40, 64}[rnd.IntN(4)])) // a hash
			case 2:
				b.WriteString(pick("0123456789abcdef", 8) + "-" + pick("0123456789abcdef", 4) + "-4" + pick("0123456789abcdef", 3) + "-a" + pick("0123456789abcdef", 3) + "-" + pick("0123456789abcdef", 12))
			case 3:
				b.WriteString(pick("0123456789", 1+rnd.IntN(18)))
			default:
				b.WriteString(words[rnd.IntN(len(words))])
			}
			b.WriteString([]string{" ", " ", "\n", ", ", "; ", " - "}[rnd.IntN(6)])
		}
		text := b.String()
		if got, found := r.String(text); found || got != text {
			t.Errorf("String (-want +got):\n%s", cmp.Diff(text, got))
		}
		doc, err := json.Marshal(map[string]any{"text": text, "parts": []string{text}})
		if err != nil {
			t.Fatal(err)
		}
		if got, found := r.JSON(doc); found {
			t.Errorf("JSON (-want +got):\n%s", cmp.Diff(string(doc), string(got)))
		}
		if diff := cmp.Diff(text, pass(r, text[:len(text)/3], text[len(text)/3:])); diff != "" {
			t.Errorf("Stream (-want +got):\n%s", diff)
		}
	}
}

func TestWriterRedactsRecordByRecord(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	log := slog.New(slog.NewTextHandler(redact.New(redacttest.Known).Writer(&b), nil))
	log.Info("it broke", "why", "x "+redacttest.Known+" y", "n", 1)
	log.Info("again")
	got := b.String()
	if leaks := redacttest.Leaks([]byte(got), redacttest.Secrets(0)); leaks != nil {
		t.Errorf("the log has %v", leaks)
	}
	if !strings.Contains(got, `why="x [redacted] y" n=1`) || strings.Count(got, "\n") != 2 {
		t.Errorf("the log is %q", got)
	}
}
