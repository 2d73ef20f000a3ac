package notes_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley/apps"
	"github.com/parley-server/parley/apps/chaos"
	"github.com/parley-server/parley/apps/home"
	"github.com/parley-server/parley/apps/leads"
	"github.com/parley-server/parley/apps/major"
	"github.com/parley-server/parley/apps/notes"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/server"
)

// TestMain is the program itself where a test starts it as a process.
func TestMain(m *testing.M) {
	if os.Getenv("NOTES_TEST_AS_PROGRAM") == "1" {
		server.Main(server.App(apps.FS()), chaos.App(), home.App(), leads.App(), major.App(), notes.App())
		return
	}
	os.Exit(m.Run())
}

// demo is the program's demo as a process.
type demo struct {
	t       *testing.T
	url     string
	data    string
	vault   string // with a folder for each person
	web     string // the simulated pages
	mu      sync.Mutex
	log     bytes.Buffer // what it wrote
	process *exec.Cmd
}

func (d *demo) logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

// startDemo starts it. settings are the lines of its parley.yaml, and env more of its variables.
func startDemo(t *testing.T, store, settings string, env ...string) *demo {
	t.Helper()
	d := &demo{t: t, data: filepath.Join(t.TempDir(), "data")}
	file := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	d.vault = filepath.Join(d.data, "demo", "notes")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d.process = exec.Command(self, "demo", "--crm-addr", "127.0.0.1:0", "--config", file, "--data", d.data, "--store", store, "--addr", "127.0.0.1:0")
	d.process.Env = []string{"NOTES_TEST_AS_PROGRAM=1", "PARLEY_SCRIPTED_PACE=1ms", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	d.process.Env = append(d.process.Env, env...)
	out, err := d.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.process.Stderr = writing(func(b []byte) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.log.Write(b)
	})
	if err := d.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.process.Process.Signal(os.Interrupt)
		_ = d.process.Wait()
		if t.Failed() {
			t.Log(d.logged())
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			d.url = at
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if d.url == "" {
		t.Fatalf("it did not start: %s", d.logged())
	}
	var at map[string]string
	raw, err := os.ReadFile(filepath.Join(d.data, "demo", "addresses.json"))
	if err == nil {
		err = json.Unmarshal(raw, &at)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.web = "http://" + at["web"]
	return d
}

type writing func([]byte)

func (w writing) Write(b []byte) (int, error) { w(b); return len(b), nil }

// onStores runs a test on each store that outlives a process.
func onStores(t *testing.T, f func(t *testing.T, store string)) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) string{
		"sqlite": func(*testing.T) string { return "sqlite" }, "postgres": func(t *testing.T) string { return pgtest.Start(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, open(t))
		})
	}
}

var patient = &http.Client{Timeout: 2 * time.Minute}

// chat sends a message and returns the answer and the session.
func (d *demo) chat(person, session, message string) (said, id string) {
	d.t.Helper()
	form := url.Values{"message": {message}}
	if session != "" {
		form.Set("session_id", session)
	}
	req, err := http.NewRequest(http.MethodPost, d.url+notes.ChatPath, strings.NewReader(form.Encode()))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set(notes.PersonHeader, person)
	resp, err := patient.Do(req)
	if err != nil {
		d.t.Error(err)
		return "", session
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var in struct {
		Response string
		Session  string `json:"session_id"`
	}
	if err != nil || json.Unmarshal(body, &in) != nil || resp.StatusCode != 200 {
		d.t.Errorf("%s: %s: %v %d %s", person, message, err, resp.StatusCode, body)
	}
	return in.Response, in.Session
}

// login logs a person in at the simulated LinkedIn, as a browser does.
func (d *demo) login(person string) {
	d.t.Helper()
	req, err := http.NewRequest(http.MethodPost, d.url+notes.AccountPath, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set(notes.PersonHeader, person)
	resp, err := patient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	var in struct{ URL string }
	if err := json.NewDecoder(resp.Body).Decode(&in); err != nil || in.URL == "" {
		d.t.Fatalf("%v, %d", err, resp.StatusCode)
	}
	back, err := patient.PostForm(in.URL, url.Values{"answer": {"allow"}, "member": {person}})
	if err != nil {
		d.t.Fatal(err)
	}
	defer back.Body.Close()
	body, _ := io.ReadAll(back.Body)
	if back.StatusCode != 200 || !regexp.MustCompile(`^{"success":true,"expires_in":5184000}\s*$`).Match(body) {
		d.t.Fatalf("%d %s", back.StatusCode, body)
	}
}

// published are the posts and comments that the simulated LinkedIn has, by who made them.
func (d *demo) published() (posts, comments map[string][]string) {
	d.t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.data, "demo", "linkedin.json"))
	var in struct {
		Posts    []struct{ Author, Text string } `json:"posts"`
		Comments []struct{ Actor, Text string }  `json:"comments"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &in)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	posts, comments = map[string][]string{}, map[string][]string{}
	for _, p := range in.Posts {
		posts[p.Author] = append(posts[p.Author], p.Text)
	}
	for _, c := range in.Comments {
		comments[c.Actor] = append(comments[c.Actor], c.Text)
	}
	return posts, comments
}

func file(t *testing.T, parts ...string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// allowing allows what is asked meanwhile, each once, until the context ends.
func (d *demo) allowing(ctx context.Context) (allowed int) {
	done := map[string]bool{}
	for ctx.Err() == nil {
		for _, i := range d.open() {
			if done[i.ID] {
				continue
			}
			done[i.ID] = true
			if i.Kind != "confirmation" {
				d.t.Errorf("asked is %+v", i)
			}
			resp, err := patient.Post(d.url+"/v1/interactions/"+i.ID+"/answer", "application/json", strings.NewReader(`{"choice":"allow"}`))
			if err != nil || resp.StatusCode != 200 {
				d.t.Errorf("the answer: %v", err)
			}
			if err == nil {
				_ = resp.Body.Close()
			}
		}
		select { // the list is asked for again: it says what is open, and not when that changes
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return len(done)
}

// account asks whether a person is logged in at LinkedIn, or forgets it.
func (d *demo) account(person, method string) bool {
	d.t.Helper()
	req, err := http.NewRequest(method, d.url+notes.AccountPath, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set(notes.PersonHeader, person)
	resp, err := patient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	var in struct {
		Success bool
		In      bool `json:"logged_in"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&in); err != nil || !in.Success {
		d.t.Fatalf("%v, %d", err, resp.StatusCode)
	}
	return in.In
}

type waiting struct{ ID, Kind, Tool, Text, URL string }

// open is what waits for a person.
func (d *demo) open() []waiting {
	d.t.Helper()
	resp, err := patient.Get(d.url + "/v1/interactions")
	if err != nil {
		d.t.Error(err)
		return nil
	}
	defer resp.Body.Close()
	var in struct{ Interactions []waiting }
	if err := json.NewDecoder(resp.Body).Decode(&in); err != nil {
		d.t.Error(err)
	}
	return in.Interactions
}

// asked waits until a person is asked about a post, and returns the interaction.
func (d *demo) asked(t *testing.T) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if list := d.open(); len(list) == 1 {
			if i := list[0]; i.Kind == "confirmation" && strings.HasSuffix(i.Tool, "linkedin_post") && strings.Contains(i.Text, "doubled my reach") {
				return i.ID
			}
			t.Fatalf("asked is %+v", list)
		}
	}
	t.Fatal("nobody was asked")
	return ""
}

func (d *demo) deny(t *testing.T, id string) {
	t.Helper()
	resp, err := patient.Post(d.url+"/v1/interactions/"+id+"/answer", "application/json", strings.NewReader(`{"choice":"deny"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
}

// committed waits until everything in the vault is committed and pushed, and checks that no commit of
// a turn is about two persons.
func (d *demo) committed(t *testing.T, people ...string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		return // the demo has no repository then
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // another process commits
		if git(t, d.vault, "status", "--porcelain") == "" && git(t, d.vault, "rev-parse", "HEAD") == git(t, d.vault+".git", "rev-parse", "main") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not committed or pushed: %q\n%s", git(t, d.vault, "status", "--porcelain"), git(t, d.vault, "log", "--stat", "-12", "--format=%an %s"))
		}
	}
	of := map[string]int{}
	for commit := range strings.SplitSeq(git(t, d.vault, "log", "--author=Parley", "--format=@%s", "--name-only"), "@") {
		in := map[string]bool{}
		for _, line := range strings.Split(strings.TrimSpace(commit), "\n")[1:] {
			if top, _, ok := strings.Cut(strings.Trim(line, `"`), "/"); ok {
				in[top] = true
			}
		}
		if len(in) > 1 {
			t.Errorf("a commit is about several: %s", commit)
		}
		for top := range in {
			of[top]++
		}
	}
	for _, person := range people {
		if of[person] < 4 { // list, note, journal, LinkedIn: a turn right after another may be in its commit
			t.Errorf("%s has %d commits", person, of[person])
		}
	}
}
