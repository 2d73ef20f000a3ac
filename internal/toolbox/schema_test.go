package toolbox

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestSchemasAreShared: a schema that is in use is not compiled again, and a schema that nobody
// uses is not kept.
func TestSchemasAreShared(t *testing.T) {
	raw := json.RawMessage(`{"type":"object","properties":{"only in this test":{"type":"string"}}}`)
	first, err := compile(raw)
	if err != nil {
		t.Fatal(err)
	}
	again, err := compile(json.RawMessage(string(raw)))
	if err != nil || again != first {
		t.Errorf("the same text was compiled twice, %v", err)
	}
	if other, err := compile(json.RawMessage(`{"type":"object"}`)); err != nil || other == first {
		t.Errorf("another schema is %p, %v", other, err)
	}
	kept := func() (n int) {
		compiled.Range(func(any, any) bool { n++; return true })
		return n
	}
	if kept() == 0 {
		t.Error("nothing is kept of what is in use")
	}
	runtime.KeepAlive(first)
	first, again = nil, nil
	for until := time.Now().Add(30 * time.Second); kept() > 0; runtime.Gosched() {
		if runtime.GC(); time.Now().After(until) {
			t.Fatalf("%d schemas are kept that nobody uses", kept())
		}
	}
}

// TestSchemaBomb: a small schema whose references double at each step is not followed to its end,
// whatever keyword doubles them, and whatever draft it names. Ordinary ones are.
func TestSchemaBomb(t *testing.T) {
	t.Parallel()
	doubling := func(draft, defs, keyword string, leaf string) string {
		var b strings.Builder
		fmt.Fprintf(&b, `{"$schema":%q,"type":"object",%q:{`, draft, defs)
		for i := range 40 {
			ref := fmt.Sprintf(`{"$ref":"#/%s/d%d"}`, defs, i+1)
			fmt.Fprintf(&b, `"d%d":{%q:[%s,%s]},`, i, keyword, ref, ref)
		}
		fmt.Fprintf(&b, `"d40":%s},"allOf":[{"$ref":"#/%s/d0"}]}`, leaf, defs)
		return b.String()
	}
	for draft, defs := range map[string]string{
		"https://json-schema.org/draft/2020-12/schema": "$defs", "https://json-schema.org/draft/2019-09/schema": "$defs",
		"http://json-schema.org/draft-07/schema#": "definitions", "http://json-schema.org/draft-04/schema#": "definitions",
	} {
		for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
			for _, leaf := range []string{`{"type":"object","required":["zz"]}`, `{"type":"object"}`, `{"type":"string"}`} {
				if keyword == "anyOf" && leaf == `{"type":"object"}` {
					continue // the first one fits
				}
				s, err := compile(json.RawMessage(doubling(draft, defs, keyword, leaf)))
				if err != nil {
					t.Fatal(err)
				}
				if ws := s.check([]byte(`{"a":1}`)); len(ws) != 1 || ws[0].what != errSteps.Error() {
					t.Errorf("%s, %s, %s: %+v", draft, keyword, leaf, ws)
				}
				if ws := s.check([]byte(`7`)); len(ws) == 0 {
					t.Errorf("%s, %s, %s: nothing is wrong with a number", draft, keyword, leaf)
				}
			}
		}
	}
	s, err := compile(json.RawMessage(`{"type":"array","items":{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"required":["a"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if ws := s.check([]byte("[" + strings.Repeat(`{"a":1},`, 100_000) + `{"a":"x"}]`)); len(ws) != 0 {
		t.Errorf("a large value: %+v", ws)
	}
}
