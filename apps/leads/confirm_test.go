package leads_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
)

// TestLeadsProcess_one_id_one_write: the id of an action opens the one write that it was shown with, whatever else
// asks for the same: another call of the reply, a sub-agent, a retry, a rewound session, an import, another API, or the same
// chat on two connections at once.
func TestLeadsProcess_one_id_one_write(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "sqlite", "testdata/hostile", func(o *office) { o.brain = evil{} })
	token := o.token(jonas)
	n := 0
	write := func() string { // the CRM takes each address once
		n++
		return fmt.Sprintf(`{"method":"POST","path":"/api/leads","body":{"name":"Eve","email":"eve%d@evil.example"}}`, n)
	}
	// writes fails the test unless so many have reached the CRM since before.
	writes := func(before, want int, what string) {
		t.Helper()
		// The card of what waits may come while another agent's write is on its way.
		for late := time.Now().Add(10 * time.Second); o.crm.Counts().Writes-before < want && time.Now().Before(late); {
			runtime.Gosched()
		}
		if got := o.crm.Counts().Writes - before; got != want {
			t.Errorf("%s: %d writes, want %d", what, got, want)
		}
	}
	confirm := func(b *browser, id string) frame { return b.ask("CONFIRM_ACTION: " + id) }
	refused := func(b *browser, id, what string) {
		t.Helper()
		before := o.crm.Counts().Writes
		if f := confirm(b, id); f.Type != "error" {
			t.Errorf("%s: got %+v", what, b.frames)
		}
		writes(before, 0, what)
	}
	ask := func(status int, method, path, body string, into any) {
		t.Helper()
		got, said := o.native(token, method, path, body)
		if got != status || into != nil && json.Unmarshal([]byte(said), into) != nil {
			t.Fatalf("%s %s: %d %s", method, path, got, said)
		}
	}

	for _, verb := range []string{"TWICE ", "DELEGATE CALL "} { // two that are alike, at once
		b := o.browser(token)
		before := o.crm.Counts().Writes
		first := b.proposes(verb + write())
		second, ok := confirmOf(confirm(b, first.ID))
		if !ok || second.ID == first.ID || string(second.Body) != string(first.Body) {
			t.Errorf("%s: the other is not shown: %+v", verb, b.frames)
		}
		writes(before, 1, verb)
		if f := confirm(b, first.ID); f.Type == "turn.completed" { // again: the other still waits
			if w, ok := confirmOf(f); !ok || w.ID != second.ID {
				t.Errorf("%s: got %+v", verb, b.frames)
			}
		}
		writes(before, 1, verb+"again")
		if f := b.ask("Not that one."); f.Type != "turn.completed" {
			t.Errorf("%s: got %+v", verb, b.frames)
		}
		refused(b, second.ID, verb+"declined")
	}

	// Another API than the one that it was shown for.
	const other = "http://127.0.0.1:1"
	at := func(b *browser, base, message string) frame {
		b.say(map[string]any{"type": "chat", "message": message, "token": token, "sessionId": b.session, "apiBaseUrl": base})
		return b.read()
	}
	for _, bases := range [][2]string{{o.crmURL, other}, {other, o.crmURL}} {
		b := o.browser(token)
		before := o.crm.Counts().Writes
		w, ok := confirmOf(at(b, bases[0], "CALL "+write()))
		if !ok {
			t.Fatalf("got %+v", b.frames)
		}
		for _, base := range []string{bases[1], "http://evil.example", bases[0] + "@evil.example"} {
			if f := at(b, base, "CONFIRM_ACTION: "+w.ID); f.Type != "error" {
				t.Errorf("at %s: got %+v", base, b.frames)
			}
		}
		writes(before, 0, "another API")
	}

	// A retry asks anew, and so does what was rewound; the ids of before open nothing.
	b := o.browser(token)
	w := b.proposes("CALL " + write())
	before := o.crm.Counts().Writes
	if f := confirm(b, w.ID); f.Type != "turn.completed" {
		t.Fatalf("got %+v", b.frames)
	}
	writes(before, 1, "confirmed")
	var turns struct{ Turns []parley.TurnInfo }
	ask(200, "GET", "/v1/sessions/"+b.session+"/turns", "", &turns)
	if len(turns.Turns) != 1 {
		t.Fatalf("got %+v", turns)
	}
	var again parley.TurnInfo
	ask(202, "POST", "/v1/turns/"+string(turns.Turns[0].ID)+"/retry", "{}", &again)
	ask(200, "POST", "/v1/turns/"+string(again.ID)+"/await", "{}", &again)
	if len(again.Interactions) == 0 {
		t.Errorf("a retry waits for %+v", again)
	}
	refused(b, w.ID, "an id of before the retry")
	writes(before, 1, "a retry")

	// A turn that was taken back has nothing to confirm.
	b = o.browser(token)
	w = b.proposes("CALL " + write())
	ask(200, "GET", "/v1/sessions/"+b.session+"/turns", "", &turns)
	if status, said := o.native(token, "POST", "/v1/sessions/"+b.session+"/rewind", `{"turn":"`+string(turns.Turns[0].ID)+`"}`); status != 409 {
		t.Errorf("a turn that waits is rewound: %d %s", status, said)
	}
	ask(200, "POST", "/v1/turns/"+string(turns.Turns[0].ID)+"/cancel", "{}", nil)
	ask(200, "POST", "/v1/sessions/"+b.session+"/rewind", `{"turn":"`+string(turns.Turns[0].ID)+`"}`, nil)
	refused(b, w.ID, "an id of before the rewind")

	// With the token of an app's API nothing is imported, so no log can be brought that has an answer already.
	b = o.browser(token)
	w = b.proposes("CALL " + write())
	before = o.crm.Counts().Writes
	status, zip := o.native(token, "GET", "/v1/sessions/"+b.session+"/export", "")
	if status != 200 {
		t.Fatalf("%d %s", status, zip)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.url+"/v1/sessions/import", strings.NewReader(zip))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/zip")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("an import: %s", resp.Status)
	}
	writes(before, 0, "an import")

	// The same chat on two connections at once.
	frames := make([]frame, 2)
	var hands sync.WaitGroup
	for i := range frames {
		c := o.browser(token)
		c.session = b.session
		hands.Go(func() { frames[i] = confirm(c, w.ID) })
	}
	hands.Wait()
	writes(before, 1, "two connections")
	for _, f := range frames {
		if f.Type != "turn.completed" && !strings.Contains(f.Message, "confirmed already") {
			t.Errorf("got %+v", frames)
		}
	}
	o.noToken(token)
}

// TestLeadsProcess_organisation_as_it_is: where the server asks nobody for a login, the organisation of a chat
// reaches the API letter by letter, and two that differ only in their prefix have sessions of their own.
func TestLeadsProcess_organisation_as_it_is(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var orgs []string
	o := newOffice(t, "sqlite", "testdata/hostile", func(o *office) {
		o.anybody = true
		o.front = func(crm http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				orgs = append(orgs, r.Header.Get("X-Org-Id"))
				mu.Unlock()
				crm.ServeHTTP(w, r)
			})
		}
	})
	want := []string{"west", "acme:west", "other:west", ":west"}
	sessions := map[string]bool{}
	b := o.browser(o.token(jonas))
	for _, org := range want {
		b.say(map[string]any{"type": "chat", "message": `CALL {"method":"GET","path":"/api/leads"}`, "token": b.token, "orgId": org, "sessionId": b.session})
		if f := b.read(); f.Type != "turn.completed" {
			t.Errorf("%s: got %+v", org, b.frames)
		}
		sessions[b.session] = true
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(orgs, want) || len(sessions) != len(want) {
		t.Errorf("the API got %q, in %d sessions", orgs, len(sessions))
	}
}
