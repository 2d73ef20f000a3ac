//go:build unix

package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/toolbox"
)

// TestTooLargeAnswer: an answer of a program that is too large is an error of its own call. The
// program is not ended, and the calls of others go on.
func TestTooLargeAnswer(t *testing.T) {
	t.Parallel()
	r := program(t)
	began := r.call("whoami", in{})
	r.want(began, parley.OutcomeOK, "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hangs, ended := make(chan struct{}, 1), make(chan toolbox.Result, 1)
	go func() {
		ended <- r.callBy(ctx, "hang", in{}, time.Now().Add(within), func(run *seam.Run) {
			run.Progress = func(string) { hangs <- struct{}{} }
		})
	}()
	<-hangs
	r.want(r.call("big", in{}), parley.OutcomeUnknown, "more than 8388608 bytes")
	if _, err := r.reads(t.Context(), "test://large"); parley.CodeOf(err) != parley.CodeTooLarge {
		t.Errorf("a resource: %v", err)
	}
	if now := r.call("whoami", in{}); now.Output != began.Output {
		t.Errorf("it was %s, and is %s", began.Output, now.Output)
	}
	cancel()
	r.want(<-ended, parley.OutcomeCancelled, "")
}

// TestOutline: the id of an answer is found, wherever it stands. What is not an answer is not taken
// for one.
func TestOutline(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{}}`:                                                 "7",
		` {"result": {"id": 8, "a": [{"id": 9}]}, "id" : "a\"b}" , "jsonrpc":"2.0"} ` + "\r\n": `"a\"b}"`,
		`{"id":7,"error":{"message":"\\"}}`:                                                    "7",
		`{"id":7,"result":"` + long + `"}`:                                                     "7",
		`{"result":"{\"id\":1}","id":2}`:                                                       "2",
		`{"id":7,"method":"sampling/createMessage","params":{}}`:                               "",
		`{"method":"notifications/progress","params":{}}`:                                      "",
		`{"result":{}}`:                    "",
		`{"id":,"result":{}}`:              "",
		`{"id":"` + long + `","result":1}`: "",
		`{"id":7,"result":{}`:              "",
		`{"id":7,"result":{}} more`:        "",
		`[{"id":7,"result":{}}]`:           "",
		long:                               "",
		"":                                 "",
	} {
		for at := range len(text) + 1 {
			id, answer := mcp.Outline([]byte(text[:at]), []byte(text[at:]))
			if want != "" && (id != want || !answer) || want == "" && answer {
				t.Fatalf("%s, cut at %d: got %s, %v", text, at, id, answer)
			}
		}
	}
}

// FuzzOutline: of every message that is JSON, the outline finds what a JSON decoder finds.
func FuzzOutline(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"result":{"a":["}",{"id":1}]}}`), 20)
	f.Add([]byte(`{"result":"\\\"","id":"x"}`), 3)
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		at = min(max(at, 0), len(text))
		id, answer := mcp.Outline(text[:at], text[at:])
		var m map[string]json.RawMessage
		d := json.NewDecoder(bytes.NewReader(text))
		if d.Decode(&m) != nil || d.More() || len(m["id"]) == 0 || len(m["id"]) >= 256 || bytes.HasPrefix(m["id"], []byte("{")) || bytes.HasPrefix(m["id"], []byte("[")) {
			return
		}
		if answer && bytes.Count(text, []byte(`"id"`)) == 1 && id != string(m["id"]) {
			t.Errorf("%q: got %s, want %s", text, id, m["id"])
		}
	})
}
