package strict_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/strict"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ doc, field, says string }{
		{`{"app":"a","app":"b"}`, "app", "twice"},
		{`{"app":"a","\u0061pp":"b"}`, "app", "twice"},
		{`{"a":{"b":[{"c":1},{"c":1,"d":[],"c":2}]}}`, "a.b.c", "twice"},
		{`{"a":{},"b":[],"a":{}}`, "a", "twice"},
		{`[{"a":1},{"a":1}]`, "", ""},
		{`{"a":{"a":{"a":1}},"b":{"a":1}}`, "", ""},
		{"{\"message\":\"a\xffb\"}", "message", "UTF-8"},
		{"{\"m\":[\"a\",\"\xc3\"]}", "m", "UTF-8"},
		{"{\"m\xff\":1}", "m\uFFFD", "UTF-8"},
		{"\"\xff\"", "", "the body is not"},
		{`{"m":"\ud83d"}`, "m", "half"},
		{`{"m":"x\ud83dA"}`, "m", "half"},
		{`{"m":"\ude00\ud83d"}`, "m", "half"},
		{`{"\ud83d":1}`, "\uFFFD", "half"},
		{`{"m":"\ud83d\ude00 \uD83D\uDE00 \\ud83d \u0000 é 😀"}`, "", ""},
		{`{"a":1,"a"`, "a", "twice"},
		{`{"a":`, "", ""},
		{``, "", ""},
		{strings.Repeat(`[`, 1<<20), "", ""},
	} {
		e := strict.JSON([]byte(c.doc))
		switch {
		case e == nil && c.says == "":
		case e == nil || c.says == "" || e.Field != c.field || !strings.Contains(e.Message, c.says) || e.Hint == "":
			t.Errorf("%.80q: got %+v, want one of %q that says %q", c.doc, e, c.field, c.says)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{`{"a":1,"b":2}`: "", `{"A":1}`: "A", `{"a":1,"c":2}`: "c", `[]`: "", `null`: ""} {
		if got, found := strict.Keys([]byte(doc), "a", "b"); got != want || found != (want != "") {
			t.Errorf("%s: got %q", doc, got)
		}
	}
}

// TestDeepDocuments: what is judged costs as much as it is long, however deep. Both are timed until
// their fastest runs agree, since a busy machine may interrupt any of them.
func TestDeepDocuments(t *testing.T) {
	const deep = 9000
	cost := func(depth, strs int) time.Duration {
		doc := []byte(strings.Repeat(`{"a":`, depth) + "[" + strings.Repeat(`"a",`, strs) + `"a"]` + strings.Repeat("}", depth))
		begun := time.Now()
		if e := strict.JSON(doc); e != nil {
			t.Fatal(e)
		}
		return time.Since(begun)
	}
	flat, below := cost(1, deep), cost(deep, deep)
	for range 50 {
		if below <= 40*flat {
			return
		}
		flat, below = min(flat, cost(1, deep)), min(below, cost(deep, deep))
	}
	t.Errorf("%d strings take %s, and %s at a depth of %d", deep, flat, below, deep)
}
