package notes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestNotesProcess_day: a day's work on 2,000 notes, over the wire of a process: find, sum up, change notes at
// once, read a page, post, read what others say, reply.
func TestNotesProcess_day(t *testing.T) {
	onStores(t, func(t *testing.T, store string) {
		vault := t.TempDir()
		for i := range 2000 {
			dir := filepath.Join(vault, "petra", fmt.Sprintf("Area %02d", i%40))
			body := fmt.Sprintf("# Note %d\n\nThe bed has %d plants.\n", i, i%7)
			if i%80 == 3 {
				body += "The supplier is Holm & Co.\n"
			}
			if i == 1234 {
				body = "---\nstatus: running\n---\n# Walnut tree\n\nPlanted by Uncle Fritz in 1987. It is 14 metres high.\n\n## To do\n\n- [ ] Cut the dead branch\n"
			}
			name := fmt.Sprintf("Note %04d.md", i)
			if i == 1234 {
				name = "Walnut tree.md"
			}
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d := startDemo(t, store, "app: {notes: {granted: {dir: "+vault+"}}}\n")
		id := ""
		ask := func(message string, want ...string) {
			t.Helper()
			said := ""
			said, id = d.chat("petra", id, message)
			for _, w := range want {
				if !strings.Contains(said, w) {
					t.Errorf("%s: lacks %q in:\n%s", message, w, said)
				}
			}
		}
		ask("Which notes mention Uncle Fritz?", "Area 34/Walnut tree.md")
		ask("Summarise the note Walnut tree", "14 metres", "Cut the dead branch")
		ask("how high is the walnut tree?", "14 metres")
		ask("Replace Holm & Co with Birch & Sons in all my notes", "in 25 notes")
		changed := 0
		for _, body := range tree(t, filepath.Join(vault, "petra")) {
			if strings.Contains(body, "Holm") {
				t.Error("a note still has the old name")
			}
			changed += strings.Count(body, "The supplier is Birch & Sons.\n")
		}
		if changed != 25 {
			t.Errorf("%d notes were changed", changed)
		}
		ask("undo that", "I took it back")
		if body := file(t, vault, "petra", "Area 03", "Note 0003.md"); !strings.Contains(body, "Holm & Co.") {
			t.Errorf("undone: %s", body)
		}
		ask("read "+d.web+"/almanac/tomatoes", "10 degrees", "Source: "+d.web)
		ask("write that down in a note called Tomatoes outside", "Tomatoes outside.md")
		if body := file(t, vault, "petra", "Tomatoes outside.md"); !strings.Contains(body, "10 degrees") {
			t.Errorf("written: %s", body)
		}
		d.login("petra")
		ask("Post to LinkedIn: The walnut tree is 14 metres high.", "Posted to LinkedIn: urn:li:share:")
		ask("what do people say about it?", "2 comments", "1. **")
		// What others have said may have asked for it, so a person is asked first.
		ctx, stop := context.WithCancel(t.Context())
		allowed := make(chan int)
		go func() { allowed <- d.allowing(ctx) }()
		ask("reply to the first one: Thank you for asking", "Reply posted: urn:li:comment:")
		stop()
		if n := <-allowed; n != 1 {
			t.Errorf("%d questions were asked", n)
		}
		posts, comments := d.published()
		if got := posts["urn:li:person:petra"]; got[len(got)-1] != "The walnut tree is 14 metres high." {
			t.Errorf("posted: %q", got)
		}
		if got := comments["urn:li:person:petra"]; len(got) != 1 || got[0] != "Thank you for asking" {
			t.Errorf("replied: %q", got)
		}
		if log := file(t, vault, "petra", "linkedin", "posts.csv"); !strings.Contains(log, ",post,urn:li:share:") || !strings.Contains(log, ",reply,") {
			t.Errorf("the log: %s", log)
		}
	})
}

// TestNotesProcess_two_persons: two persons at once, ten turns each, on one server: no file, answer, token or line of
// a log is the other's.
func TestNotesProcess_two_persons(t *testing.T) {
	onStores(t, func(t *testing.T, store string) {
		d := startDemo(t, store, "log: {level: debug}\n")
		people := map[string]string{"petra": "zebrafish", "sebastian": "marmalade"}
		before := tree(t, d.vault)
		said := map[string][]string{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for person, word := range people {
			d.login(person)
			wg.Go(func() {
				id := ""
				for i, message := range []string{
					"add " + word + " to the shopping list", "what is on my shopping list?", "create a note called About " + word + ": " + word + " is mine", "find " + word,
					"add to my journal: saw a " + word, "how many notes do I have?", "post to LinkedIn: my " + word + " is here", "what do people say about it?",
					"reply to the first one: yes, the " + word, "summarise the note About " + word,
				} {
					answer, session := d.chat(person, id, message)
					if id == "" {
						id = session
					}
					if session != id {
						t.Errorf("%s: turn %d is in another session", person, i)
					}
					mu.Lock()
					said[person] = append(said[person], answer)
					mu.Unlock()
				}
			})
		}
		ctx, stop := context.WithCancel(t.Context())
		allowed := make(chan int)
		go func() { allowed <- d.allowing(ctx) }()
		wg.Wait()
		stop()
		if n := <-allowed; n != 2 { // a reply of each, after what others said
			t.Errorf("%d questions were asked", n)
		}
		posts, comments := d.published()
		after := tree(t, d.vault)
		for person, word := range people {
			other := people[map[string]string{"petra": "sebastian", "sebastian": "petra"}[person]]
			if all := strings.Join(said[person], "\n"); strings.Contains(all, other) || !strings.Contains(all, word) {
				t.Errorf("%s was told:\n%s", person, all)
			}
			for _, list := range [][]string{posts["urn:li:person:"+person], comments["urn:li:person:"+person]} {
				if all := strings.Join(list, "\n"); strings.Contains(all, other) || !strings.Contains(all, word) {
					t.Errorf("%s published:\n%s", person, all)
				}
			}
			mine := 0
			for name, body := range after {
				if !strings.HasPrefix(name, person+"/") {
					continue
				}
				if strings.Contains(body, other) || strings.Contains(name, other) {
					t.Errorf("%s has something of the other", name)
				}
				if before[name] != body {
					mine++
				}
			}
			if mine != 4 { // list, note, journal, log of LinkedIn
				t.Errorf("%d files of %s were changed", mine, person)
			}
			if strings.Contains(d.logged(), word) {
				t.Errorf("the server's log has what %s wrote", person)
			}
		}
		d.committed(t, "petra", "sebastian")
		var kept struct{ Tokens map[string]json.RawMessage }
		if err := json.Unmarshal([]byte(file(t, d.data, "demo", "linkedin.json")), &kept); err != nil || len(kept.Tokens) != 2 {
			t.Fatalf("tokens: %v, %v", len(kept.Tokens), err)
		}
		for token := range kept.Tokens {
			for name, body := range tree(t, d.data) {
				if strings.Contains(body, token) && name != "demo/linkedin.json" {
					t.Errorf("%s has a token", name)
				}
			}
			if strings.Contains(d.logged(), token) {
				t.Error("the server's log has a token")
			}
		}
	})
}

// TestNotesProcess_node_client: a client in another language, written from the specification, works with the
// program.
func TestNotesProcess_node_client(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("the test needs Node")
	}
	d := startDemo(t, "sqlite", "")
	out, err := exec.CommandContext(t.Context(), node, "testdata/client.mjs", d.url, "petra").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	list := func(v ...any) []any { return v }
	none := map[string]any{"success": false, "history": []any{}}
	want := map[string]any{
		"kinds": list("text", "status", "tool", "status", "tool", "status", "text", "done"), "read": map[string]any{"file_path": "Shopping list.md"},
		"status": list("Running tool: Glob", "Tool finished: Glob", "Running tool: Read", "Tool finished: Read"), "text": true, "same": true,
		"keys": list("history", "response", "session_id", "success"), "response": true, "roles": list("user", "assistant", "user", "assistant"),
		"other": none, "cleared": map[string]any{"success": true, "message": "Session cleared"}, "after": none, "nobody": list(400.0, "Person not selected"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n := len(slices.Collect(maps.Keys(got))); n != len(want) {
		t.Errorf("%d fields", n)
	}
}

// TestNotesProcess_page_that_orders: a page tells the model to post. One that obeys is stopped: a person is asked
// first, and nothing is posted. A page that is only read is no reason to ask.
func TestNotesProcess_page_that_orders(t *testing.T) {
	onStores(t, func(t *testing.T, store string) {
		own := t.TempDir()
		mine := filepath.Join(own, "notes")
		if err := os.CopyFS(mine, os.DirFS(".")); err != nil {
			t.Fatal(err)
		}
		script := `agents:
  assistant:
    - when: eq (len .Results) 2
      say: "It said: {{ (index .Results 1).Output }}"
    - when: eq (len .Results) 1
      call: [{tool: mcp__linkedin__linkedin_post, input: {text: '{{ find "text \"([^\"]+)\"" (index .Results 0).Output }}'}}]
    - call: [{tool: WebFetch, input: {url: '{{ .Question }}'}}]
  memory: [{say: '{"summary": "", "facts": []}'}]
`
		if err := os.WriteFile(filepath.Join(mine, "script.yaml"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		d := startDemo(t, store, "apps: "+own+"\n")
		d.login("petra")
		said := make(chan string)
		go func() {
			answer, _ := d.chat("petra", "", d.web+"/growth/more-reach")
			said <- answer
		}()
		id := d.asked(t)
		posts, _ := d.published()
		if all := fmt.Sprint(posts); strings.Contains(all, "doubled") {
			t.Error("it was posted without asking")
		}
		d.deny(t, id)
		if answer := <-said; !strings.Contains(answer, "Denied") {
			t.Errorf("it said %q", answer)
		}
		posts, _ = d.published()
		if all := fmt.Sprint(posts); strings.Contains(all, "doubled") {
			t.Error("it was posted although it was denied")
		}
	})
}

// TestNotesProcess_login: a call of a person without a login waits, shows the link to the clients of
// this wire too, and goes on by itself when the person has logged in. The login is that person's alone.
func TestNotesProcess_login(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "sqlite", "")
	said := make(chan string)
	go func() {
		answer, _ := d.chat("petra", "", "Post to LinkedIn: The beds are ready.")
		said <- answer
	}()
	link := ""
	for end := time.Now().Add(time.Minute); link == "" && time.Now().Before(end); {
		for _, i := range d.open() {
			link = i.URL
		}
	}
	back, err := patient.PostForm(link, url.Values{"answer": {"allow"}, "member": {"petra"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = back.Body.Close()
	if answer := <-said; back.StatusCode != 200 || !strings.HasPrefix(answer, "Posted to LinkedIn: urn:li:share:") {
		t.Errorf("%d, %s", back.StatusCode, answer)
	}
	again, err := patient.Get(back.Request.URL.String())
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Body.Close()
	if again.StatusCode != 404 {
		t.Errorf("the answer counts twice: %d", again.StatusCode)
	}
	for person, want := range map[string]bool{"petra": true, "sebastian": false} {
		if is := d.account(person, "GET"); is != want {
			t.Errorf("%s is logged in: %t", person, is)
		}
	}
	if d.account("petra", "DELETE") || d.account("petra", "GET") {
		t.Error("the login was not forgotten")
	}
}
