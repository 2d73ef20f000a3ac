package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/redact"
)

// FuzzStream: cutting a text makes no difference, no known value gets through, and redacting
// again changes nothing that was found by value.
func FuzzStream(f *testing.F) {
	for i, text := range texts() {
		if len(text) < 2000 {
			f.Add(text, uint8(i), uint8(3*i+1))
		}
	}
	r := redact.New(told)
	f.Fuzz(func(t *testing.T, text string, a, b uint8) {
		want, found := r.String(text)
		if !found && want != text {
			t.Errorf("got %q for the clean %q", want, text)
		}
		if strings.Contains(want, told) {
			t.Errorf("the known value is in %q", want)
		}
		i := min(int(a), len(text))
		j := min(i+int(b), len(text))
		if diff := cmp.Diff(want, pass(r, text[:i], text[i:j], text[j:])); diff != "" {
			t.Errorf("cut at %d and %d (-String +Stream):\n%s", i, j, diff)
		}
		var each []string
		for i := range len(text) {
			each = append(each, text[i:i+1])
		}
		if diff := cmp.Diff(want, pass(r, each...)); diff != "" {
			t.Errorf("in bytes (-String +Stream):\n%s", diff)
		}
	})
}

// FuzzJSON: a valid document stays valid and keeps its shape, no string in it has the known
// value, and a clean document is unchanged.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.50,-3e7,true,false,null,"\u00e9\n\ud83d\ude00"],"state":{"x":"told \"value\"\/x"}}`,
		`{"password":"hunter2","state":"told \u0022value\"/x","b":["told \"value\"/x"]}`,
		` "told \"value\"/x" `, `{"state":}`, `"\ud83d"`, `[`, `{"a`, `{"state":1"`, `nul`, `"\u12`,
	} {
		f.Add([]byte(s))
	}
	for _, p := range planted {
		doc, err := json.Marshal(map[string]string{p.before: p.secret, "x": p.before + p.secret + p.after})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc)
	}
	r := redact.New(told)
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := string(raw)
		got, found := r.JSON(raw, "state", "signature")
		if string(raw) != before {
			t.Fatalf("the input %q became %q", before, raw)
		}
		if !found && string(got) != before {
			t.Errorf("got %q for the clean %q", got, before)
		}
		if !json.Valid(raw) {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q became the invalid %q", raw, got)
		}
		var v any
		if err := json.Unmarshal(got, &v); err != nil {
			t.Skip(err) // numbers are out of range
		}
		eachString(v, func(s string) {
			if strings.Contains(s, told) {
				t.Errorf("the known value is in %q of %q", s, got)
			}
		})
	})
}

func eachString(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, e := range v {
			eachString(e, f)
		}
	case map[string]any:
		for k, e := range v {
			f(k)
			eachString(e, f)
		}
	}
}
