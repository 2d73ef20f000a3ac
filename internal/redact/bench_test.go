package redact_test

import (
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/redact"
)

// knowing makes a redactor with as many known values as a busy server has.
func knowing() *redact.Redactor {
	r := redact.New()
	for i := range 50 {
		r.Add(string(rune('A'+i)), strings.Repeat(string(rune('!'+i)), 3)+"-Zk7q9TnW2xRb4LpV"[i%8:])
	}
	return r
}

var prose = strings.Repeat("The engine appends an event before it acts, so a restart finds what was decided and goes on from there. ", 10)

func BenchmarkStreamToken(b *testing.B) {
	s := knowing().NewStream()
	b.ReportAllocs()
	for b.Loop() {
		s.Write(" word")
	}
}

// BenchmarkStreamProse: one operation is a token of five bytes of prose, including the text
// held back at token boundaries.
func BenchmarkStreamProse(b *testing.B) {
	s := knowing().NewStream()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s.Write(prose[i : i+5])
		if i += 5; i+5 > len(prose) {
			i = 0
		}
	}
}

func BenchmarkString(b *testing.B) {
	r := knowing()
	b.SetBytes(int64(len(prose)))
	b.ReportAllocs()
	for b.Loop() {
		r.String(prose)
	}
}

func BenchmarkJSON(b *testing.B) {
	r := knowing()
	doc := []byte(`{"type":"step.ended","seq":41,"at":"2026-11-21T08:00:00Z","data":{"role":"assistant","parts":[{"type":"text","text":"` +
		prose[:300] + `\n"},{"type":"thinking","signature":"` + strings.Repeat("EqQBCgIYAhIM", 20) + `"}],"usage":{"input":120,"output":48}}}`)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		r.JSON(doc, "data.parts.signature", "data.state")
	}
}
