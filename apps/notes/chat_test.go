package notes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/notes"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestStream_example: the example of the specification, line by line.
func TestStream_example(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testExample)
}

func testExample(t *testing.T) {
	g := newRig(t, follows)
	defer g.Close()
	a := g.stream("sebastian", "", `[{"say":["Let me ","read that file."],"call":[{"tool":"Read","input":{"file_path":"notes.md"}}]},{"say":["The file contains..."]}]`)
	const want = `{"type": "text", "delta": "Let me "}
{"type": "text", "delta": "read that file."}
{"type": "status", "message": "Running tool: Read"}
{"type": "tool", "name": "Read", "input": {"file_path": "notes.md"}}
{"type": "status", "message": "Tool finished: Read"}
{"type": "text", "delta": "The file contains..."}
{"type": "done", "session_id": "abc-123"}`
	got := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`).ReplaceAllString(strings.TrimSuffix(a.body, "\n"), "abc-123")
	if diff := cmp.Diff(objects(t, want), objects(t, got)); diff != "" || a.status != 200 || a.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%d %s -want +got:\n%s", a.status, a.header.Get("Content-Type"), diff)
	}
	if a.header.Get("Parley-Session") == "" || a.header.Get("Parley-Turn") == "" {
		t.Errorf("the headers %v do not name session and turn", a.header)
	}
}

// objects are the objects of lines of JSON.
func objects(t *testing.T, lines string) (list []map[string]any) {
	t.Helper()
	for line := range strings.SplitSeq(lines, "\n") {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, o)
	}
	return list
}

// TestChat: a conversation over several messages, with the history that each answer has.
func TestChat(t *testing.T) {
	t.Parallel()
	g := newRig(t, follows)
	defer g.Close()
	first := g.chat("sebastian", "", "hello")
	if first.status != 200 || !first.fields.Success || first.fields.Response != "you said: hello" || first.said() != "user: hello | assistant: you said: hello" {
		t.Fatalf("%d %s", first.status, first.body)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(first.body), &keys); err != nil || len(keys) != 4 {
		t.Errorf("the answer has other fields than the four: %s", first.body)
	}
	id := first.fields.Session
	second := g.ask(context.Background(), "sebastian", "POST", notes.ChatPath, "application/x-www-form-urlencoded", "message=and+again&session_id="+id)
	if want := "user: hello | assistant: you said: hello | user: and again | assistant: you said: and again"; second.fields.Session != id || second.said() != want {
		t.Errorf("%d %s", second.status, second.body)
	}
	body := "--x\r\nContent-Disposition: form-data; name=\"message\"\r\n\r\nin parts\r\n--x\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\n" + id + "\r\n--x--\r\n"
	third := g.ask(context.Background(), "sebastian", "POST", notes.ChatPath, "multipart/form-data; boundary=x", body)
	if third.fields.Session != id || third.fields.Response != "you said: in parts" {
		t.Errorf("%d %s", third.status, third.body)
	}
	if h := g.history("sebastian", id); h.status != 200 || !h.fields.Success || len(h.fields.History) != 6 {
		t.Errorf("history: %s", h.body)
	}
	if a := g.chat("sebastian", "no-such-session", "hi"); a.fields.Session == "no-such-session" || a.fields.Session == id || a.said() != "user: hi | assistant: you said: hi" {
		t.Errorf("an unknown id: %s", a.body)
	}
	info, err := g.Engine.Session(t.Context(), enginetest.User, parley.SessionID(first.header.Get("Parley-Session")))
	if err != nil || info.OutsideID != id || info.Workspace != "shared/sebastian" {
		t.Errorf("the session is %+v, %v", info, err)
	}
}

// TestPersons: the id of a session names it only in requests about the same person, by the same
// caller. Everybody else gets what an unknown id gets.
func TestPersons(t *testing.T) {
	t.Parallel()
	g := newRig(t, follows)
	defer g.Close()
	as := func(p parley.Principal) context.Context { return context.WithValue(context.Background(), userKey{}, p) }
	secret := g.chat("petra", "", "the secret of petra")
	id := secret.fields.Session
	for name, c := range map[string]struct {
		who    parley.Principal
		person string
	}{
		"another person of the same caller":            {enginetest.User, "sebastian"},
		"the same person of another caller":            {bob, "petra"},
		"the same person of the loopback user":         {parley.Local, "petra"},
		"a person that only the loopback user may use": {parley.Local, "max"},
	} {
		h := g.ask(as(c.who), c.person, "GET", notes.HistoryPath+"?session_id="+id, "", "")
		if h.status != 200 || h.body != `{"success":false,"history":[]}`+"\n" {
			t.Errorf("%s: history %d %s", name, h.status, h.body)
		}
		if a := g.ask(as(c.who), c.person, "POST", notes.ClearPath, isJSON, of("session_id", id)); a.status != 200 || a.body != `{"success":false,"message":"Session not found"}`+"\n" {
			t.Errorf("%s: clear %d %s", name, a.status, a.body)
		}
		a := g.ask(as(c.who), c.person, "POST", notes.ChatPath, isJSON, of("session_id", id, "message", "what is the secret?"))
		if a.status != 200 || a.fields.Session == id || strings.Contains(a.body, "the secret of petra") {
			t.Errorf("%s: chat %d %s", name, a.status, a.body)
		}
	}
	for _, c := range []struct {
		who    parley.Principal
		person string
	}{
		{enginetest.User, ""},
		{enginetest.User, "max"},
		{enginetest.User, "nobody"},
		{enginetest.User, "Petra"},
		{enginetest.User, "petra "},
		{enginetest.User, "claude"},
		{enginetest.User, ".."},
		{enginetest.User, "petra/../sebastian"},
		{bob, "sebastian"},
		{parley.Local, "claude"},
		{parley.Local, ".git"},
		{parley.Principal{User: "eve"}, "petra"},
	} {
		for _, r := range []struct{ method, path, body string }{
			{"POST", notes.ChatPath, of("message", "hi", "session_id", id)},
			{"POST", notes.StreamPath, of("message", "hi", "session_id", id)},
			{"POST", notes.ClearPath, of("session_id", id)},
			{"GET", notes.HistoryPath + "?session_id=" + id, ""},
		} {
			a := g.ask(as(c.who), c.person, r.method, r.path, isJSON, r.body)
			if a.status != 400 || a.fields.Detail == nil || *a.fields.Detail != "Person not selected" || a.fields.Error.Code != parley.CodeInvalid || a.fields.Error.Field != notes.PersonHeader {
				t.Errorf("%s of %+v about %q: %d %s", r.path, c.who, c.person, a.status, a.body)
			}
		}
	}
	if h := g.history("petra", id); h.said() != secret.said() {
		t.Errorf("petra's own history is %s", h.body)
	}
}

// TestPersons_at_once: two persons, ten turns each, at once: files, answers and histories do not
// cross. Each prompt names the person's own folder.
func TestPersons_at_once(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	prompts := map[string]string{}
	g := newRig(t, func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		mu.Lock()
		prompts[r.System] = string(r.Session)
		mu.Unlock()
		return follows(ctx, r, say)
	})
	defer g.Close()
	persons := []string{"sebastian", "petra"}
	var wg sync.WaitGroup
	for _, person := range persons {
		wg.Go(func() {
			id := ""
			for n := range 10 {
				a := g.chat(person, id, fmt.Sprintf(`[{"call":[{"tool":"Write","input":{"file_path":"n%d.md","content":"%s %d"}},{"tool":"Read","input":{"file_path":"notes.md"}}]},{"say":["%s has it"]}]`, n, person, n, person))
				if a.status != 200 || a.fields.Response != person+" has it" || len(a.fields.History) != 2*(n+1) {
					t.Errorf("%s, turn %d: %d %s", person, n, a.status, a.body)
					return
				}
				id = a.fields.Session
			}
		})
	}
	wg.Wait()
	for _, person := range append(persons, "max") {
		list, err := os.ReadDir(filepath.Join(g.vault, person))
		if want := map[bool]int{true: 1, false: 11}[person == "max"]; len(list) != want || err != nil {
			t.Errorf("%s has %d files: %v", person, len(list), err)
		}
		for n := range 10 {
			raw, _ := os.ReadFile(filepath.Join(g.vault, person, fmt.Sprintf("n%d.md", n)))
			if want := fmt.Sprintf("%s %d", person, n); person != "max" && string(raw) != want {
				t.Errorf("%s: n%d.md is %q", person, n, raw)
			}
		}
	}
	if len(prompts) != 2 {
		t.Errorf("%d prompts: %v", len(prompts), prompts)
	}
	for _, person := range persons {
		if _, ok := prompts["Your notes: "+filepath.Join(g.vault, person)]; !ok {
			t.Errorf("no prompt names the folder of %s: %v", person, prompts)
		}
	}
}

// TestBadInput: what is wrong with a request is said before anything is begun, in both forms of an
// error.
func TestBadInput(t *testing.T) {
	t.Parallel()
	g := newRig(t, follows)
	defer g.Close()
	const form, text = "application/x-www-form-urlencoded", "text/plain"
	for _, c := range []struct {
		name, method, path, kind, body string
		status                         int
		says                           string
	}{
		{"no body", "POST", notes.ChatPath, isJSON, "", 400, "cannot be read"},
		{"no JSON", "POST", notes.ChatPath, isJSON, "hello", 400, "cannot be read"},
		{"a list", "POST", notes.ChatPath, isJSON, "[]", 400, "not an object"},
		{"null", "POST", notes.ChatPath, isJSON, "null", 400, "not an object"},
		{"two objects", "POST", notes.ChatPath, isJSON, `{"message":"a"}{}`, 400, "behind the object"},
		{"no message", "POST", notes.ChatPath, isJSON, `{}`, 400, "message is empty"},
		{"null message", "POST", notes.ChatPath, isJSON, `{"message":null}`, 400, "message is empty"},
		{"blank message", "POST", notes.StreamPath, isJSON, `{"message":" \n"}`, 400, "message is empty"},
		{"a number", "POST", notes.ChatPath, isJSON, `{"message":7}`, 400, `\"message\" must be text`},
		{"an id that is a number", "POST", notes.StreamPath, isJSON, `{"message":"a","session_id":7}`, 400, `\"session_id\" must be text`},
		{"an unknown field", "POST", notes.ChatPath, isJSON, `{"message":"a","sessionId":"b"}`, 400, `\"sessionId\" is not known`},
		{"a person in the body", "POST", notes.ChatPath, isJSON, `{"message":"a","person":"petra"}`, 400, `\"person\" is not known`},
		{"a field twice", "POST", notes.ChatPath, isJSON, `{"message":"a","message":"b"}`, 400, "twice"},
		{"a form with a field twice", "POST", notes.ChatPath, form, `message=a&message=b`, 400, "twice"},
		{"a form with an unknown field", "POST", notes.ChatPath, form, `message=a&mode=plan`, 400, `\"mode\" is not known`},
		{"a broken form", "POST", notes.ChatPath, form, `message=%zz`, 400, "cannot be read"},
		{"a form that is no text", "POST", notes.ChatPath, form, `message=%ff`, 400, "UTF-8"},
		{"parts without a boundary", "POST", notes.ChatPath, "multipart/form-data", `x`, 400, "boundary"},
		{"parts with a file", "POST", notes.ChatPath, "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"message\"; filename=\"a\"\r\n\r\na\r\n--x--\r\n", 400, "is a file"},
		{"parts that end early", "POST", notes.ChatPath, "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"message\"\r\n\r\na", 400, "cannot be read"},
		{"another type", "POST", notes.ChatPath, text, `message=a`, 415, "Content-Type"},
		{"no type", "POST", notes.ClearPath, "", `session_id=a`, 415, "Content-Type"},
		{"a message too large", "POST", notes.ChatPath, isJSON, `{"message":"` + strings.Repeat("x", 300<<10) + `"}`, 413, "bytes"},
		{"a body too large", "POST", notes.StreamPath, isJSON, `{"message":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "bytes"},
		{"ping", "POST", notes.StreamPath + "?ping=2", isJSON, `{"message":"a"}`, 400, "ping must be 0 or 1"},
		{"clear without an id", "POST", notes.ClearPath, isJSON, `{}`, 400, `\"session_id\" is missing`},
		{"clear with a message", "POST", notes.ClearPath, isJSON, `{"session_id":"a","message":"b"}`, 400, `\"message\" is not known`},
		{"history without an id", "GET", notes.HistoryPath, "", "", 400, `\"session_id\" is missing`},
	} {
		a := g.ask(context.Background(), "petra", c.method, c.path, c.kind, c.body)
		if a.status != c.status || !strings.Contains(a.body, c.says) || a.fields.Detail == nil || *a.fields.Detail != a.fields.Error.Message || a.fields.Error.Message == "" || a.fields.Error.Hint == "" {
			t.Errorf("%s: got %d %s, want %d saying %s", c.name, a.status, a.body, c.status, c.says)
		}
	}
	if list, err := g.Engine.Sessions(t.Context(), enginetest.User, seam.SessionQuery{}); err != nil || len(list) != 0 {
		t.Errorf("there are sessions: %v, %v", list, err)
	}
	if a := g.chat("petra", strings.Repeat("x", 500), "hi"); a.status != 200 {
		t.Errorf("an id that is too long is unknown: %d %s", a.status, a.body)
	}
}

// gated is a model that waits for the gate before it answers.
func gated(gate <-chan struct{}) enginetest.Model {
	return func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		say("one ")
		select {
		case <-gate:
		case <-ctx.Done():
			return seam.Reply{}, context.Cause(ctx)
		}
		say("two")
		return seam.Reply{}, nil
	}
}

// TestBusy: messages to a session that is busy wait for their turn, each with its own answer. When
// too many wait, one is refused before its stream begins.
func TestBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		g := newRig(t, gated(gate))
		defer g.Close()
		id := ""
		{ // a session to be busy
			begun, stop := context.WithCancel(context.Background())
			go func() { synctest.Wait(); stop() }()
			a := g.ask(begun, "petra", "POST", notes.StreamPath, isJSON, of("message", "first"))
			s, err := g.Engine.Session(t.Context(), enginetest.User, parley.SessionID(a.header.Get("Parley-Session")))
			if err != nil {
				t.Fatal(err)
			}
			id = s.OutsideID // its client went away, and its turn goes on
		}
		var wg sync.WaitGroup
		answers := make([]answer, 2)
		for i := range answers {
			wg.Go(func() { answers[i] = g.stream("petra", id, fmt.Sprint("more ", i)) })
			synctest.Wait()
		}
		full := g.stream("petra", id, "too many")
		if full.status != http.StatusConflict || full.fields.Error.Code != parley.CodeBusy || full.fields.Detail == nil {
			t.Errorf("the queue is full: %d %s", full.status, full.body)
		}
		close(gate)
		wg.Wait()
		for i, a := range answers {
			if a.status != 200 || !strings.HasSuffix(a.lines()[len(a.lines())-1], `"session_id":"`+id+`"}`) {
				t.Errorf("answer %d: %d %s", i, a.status, a.body)
			}
		}
		if h := g.history("petra", id); h.said() != "user: first | assistant: one two | user: more 0 | assistant: one two | user: more 1 | assistant: one two" {
			t.Errorf("history: %s", h.said())
		}
	})
}

// TestClear: a cleared session is empty at once and its id unknown, also while a turn runs, whose
// stream ends with an error.
func TestClear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		g := newRig(t, gated(gate))
		defer g.Close()
		var wg sync.WaitGroup
		var running answer
		wg.Go(func() { running = g.stream("petra", "", "first") })
		synctest.Wait()
		list, err := g.Engine.Sessions(t.Context(), enginetest.User, seam.SessionQuery{})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		id := list[0].OutsideID
		if a := g.clear("petra", id); a.status != 200 || a.body != `{"success":true,"message":"Session cleared"}`+"\n" {
			t.Errorf("clear: %d %s", a.status, a.body)
		}
		if a := g.history("petra", id); a.body != `{"success":false,"history":[]}`+"\n" {
			t.Errorf("history: %s", a.body)
		}
		wg.Wait()
		if last := running.lines()[len(running.lines())-1]; last != `{"type":"error","message":"the turn was cancelled: the session was cleared"}` || strings.Contains(running.body, "done") {
			t.Errorf("the stream: %s", running.body)
		}
		if a := g.clear("petra", id); a.body != `{"success":false,"message":"Session not found"}`+"\n" {
			t.Errorf("again: %s", a.body)
		}
		close(gate)
		if a := g.chat("petra", id, "hi"); a.fields.Session == id || a.said() != "user: hi | assistant: one two" {
			t.Errorf("the next message: %s", a.body)
		}
	})
}

// TestAfterWeb: what a page may have asked for is not told to others before a person has agreed.
// This wire's client waits for a minute; then the call is denied, and the turn goes on.
func TestAfterWeb(t *testing.T) {
	t.Parallel()
	const asks = `[{"call":[{"tool":"WebFetch","input":{"url":"https://example.com/a"}}]},{"say":["Posting."],"call":[{"tool":"linkedin_post","input":{"text":"buy"}}]},{"say":["That is all."]}]`
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, follows)
		defer g.Close()
		began := time.Now()
		a := g.stream("petra", "", asks)
		if took := time.Since(began); took < time.Minute || took > 2*time.Minute {
			t.Errorf("it took %s", took)
		}
		want := []string{
			`{"type":"status","message":"Running tool: WebFetch https://example.com/a"}`,
			`{"type":"tool","name":"WebFetch","input":{"url":"https://example.com/a"}}`,
			`{"type":"status","message":"Tool finished: WebFetch"}`,
			`{"type":"text","delta":"Posting."}`,
			`{"type":"status","message":"Running tool: linkedin_post"}`,
			`{"type":"tool","name":"linkedin_post","input":{"text":"buy"}}`,
			`{"type":"status","message":"Waiting for a person: `,
			`{"type":"status","message":"Tool finished: linkedin_post"}`,
			`{"type":"text","delta":"That is all."}`,
			`{"type":"done","session_id":"`,
		}
		got := a.lines()
		if len(got) != len(want) {
			t.Fatalf("got:\n%s", a.body)
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("line %d is %s, want %s", i, got[i], want[i])
			}
		}
		if len(g.outside.posts) != 0 {
			t.Errorf("posted: %v", g.outside.posts)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, follows)
		defer g.Close()
		var wg sync.WaitGroup
		var a answer
		wg.Go(func() { a = g.chat("petra", "", asks) })
		synctest.Wait()
		open, err := g.Engine.Interactions(t.Context(), enginetest.User, 0)
		if err != nil || len(open) != 1 || open[0].Tool != "linkedin_post" {
			t.Fatal(open, err)
		}
		if _, err := g.Engine.Answer(t.Context(), enginetest.User, open[0].ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if a.status != 200 || a.fields.Response != "That is all." || len(g.outside.posts) != 1 {
			t.Errorf("%d %s, posted %v", a.status, a.body, g.outside.posts)
		}
	})
}

// TestFailed: a turn that fails is an error in the form of each endpoint, and what the user said
// stays in the history.
func TestFailed(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(context.Context, seam.Request, func(string)) (seam.Reply, error) {
		return seam.Reply{}, parley.Errorf(parley.CodeModel, "the provider is on strike").WithHint("wait")
	})
	defer g.Close()
	a := g.chat("petra", "", "hello")
	if a.status != http.StatusBadGateway || a.fields.Detail == nil || !strings.Contains(*a.fields.Detail, "on strike") {
		t.Errorf("%d %s", a.status, a.body)
	}
	a = g.stream("petra", "", "hello")
	if lines := a.lines(); a.status != 200 || len(lines) != 1 || !strings.HasPrefix(lines[0], `{"type":"error","message":"`) || !strings.Contains(lines[0], "on strike") {
		t.Errorf("%d %s", a.status, a.body)
	}
	s, err := g.Engine.Session(t.Context(), enginetest.User, parley.SessionID(a.header.Get("Parley-Session")))
	if h := g.history("petra", s.OutsideID); err != nil || h.said() != "user: hello" {
		t.Errorf("%v %s", err, h.body)
	}
}

// TestFailedOfTheProvider: what a provider refuses is no mistake of the client's.
func TestFailedOfTheProvider(t *testing.T) {
	t.Parallel()
	for code, status := range map[parley.Code]int{
		parley.CodeInvalid: 502, parley.CodeUnauthenticated: 502, parley.CodeForbidden: 502, parley.CodeNotFound: 502, parley.CodeTooLarge: 413,
	} {
		g := newRig(t, func(context.Context, seam.Request, func(string)) (seam.Reply, error) {
			return seam.Reply{}, parley.Errorf(code, "the provider refused the request").WithHint("see its error")
		})
		a := g.chat("petra", "", "hello")
		g.Close()
		if a.status != status || a.fields.Detail == nil || *a.fields.Detail != "the provider refused the request" || status == 502 && a.fields.Error.Code != parley.CodeModel {
			t.Errorf("%s: %d %s", code, a.status, a.body)
		}
	}
}
