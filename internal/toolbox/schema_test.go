package toolbox

import (
	"encoding/json"
	"runtime"
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
