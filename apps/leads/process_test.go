package leads_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley/apps"
	"github.com/parley-server/parley/apps/leads"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/crm"
	"github.com/parley-server/parley/internal/sim/openai"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/server"
)

// TestMain is the program itself where a test starts it as a process.
func TestMain(m *testing.M) {
	if os.Getenv("LEADS_TEST_AS_PROGRAM") == "1" {
		server.Main(server.App(apps.FS()), leads.App())
		return
	}
	os.Exit(m.Run())
}

// stores are where the logs of a test's server are.
var stores = map[string]func(*testing.T) string{
	"sqlite": func(*testing.T) string { return "sqlite" }, "postgres": func(t *testing.T) string { return pgtest.Start(t) },
}

// office is a program that serves the app, as a process, and the CRM that it works with.
type office struct {
	t       *testing.T
	crm     *crm.Server
	crmURL  string
	url     string
	data    string
	args    []string
	env     []string
	front   func(crm http.Handler) http.Handler // what stands before the CRM; nil: nothing
	brain   seam.Model                          // what answers in place of the app's script; nil: nothing
	anybody bool                                // the server asks nobody for a login, and has no identity_url
	mu      sync.Mutex
	log     bytes.Buffer // what all processes wrote
	process *exec.Cmd
	ended   chan struct{}
}

func (o *office) logged() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.log.String()
}

// newOffice starts both. app is a folder that replaces the app, or "".
func newOffice(t *testing.T, store, app string, change ...func(*office)) *office {
	t.Helper()
	o := &office{t: t, crm: crm.New(crm.Options{}), data: filepath.Join(t.TempDir(), "data")}
	for _, f := range change {
		f(o)
	}
	var api http.Handler = o.crm
	if o.front != nil {
		api = o.front(api)
	}
	front := httptest.NewServer(api)
	t.Cleanup(func() { front.Close(); _ = o.crm.Close() })
	o.crmURL = front.URL
	settings := filepath.Join(t.TempDir(), "parley.yaml")
	text := "enabled: [leads]\n"
	if !o.anybody {
		text += "app:\n  leads:\n    identity_url: " + front.URL + "/api/me\n"
	}
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.args = []string{"serve", "--config", settings, "--data", o.data, "--store", store, "--addr", "127.0.0.1:0"}
	o.env = []string{"LEADS_TEST_AS_PROGRAM=1", "PLG_API_BASE_URL=" + front.URL, "PARLEY_SCRIPTED_PACE=1ms", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	if o.brain != nil {
		provider := httptest.NewServer(openai.New(openai.Options{Models: []string{"evil"}, Brain: o.brain}))
		t.Cleanup(provider.Close)
		o.env = append(o.env, "OPENAI_BASE_URL="+provider.URL+"/v1", "PARLEY_MODEL=openai/evil")
	}
	if app != "" {
		folder := t.TempDir()
		if err := os.CopyFS(filepath.Join(folder, "leads"), os.DirFS(app)); err != nil {
			t.Fatal(err)
		}
		o.env = append(o.env, "PARLEY_APPS="+folder)
	}
	o.start()
	t.Cleanup(func() {
		o.stop(os.Interrupt)
		if t.Failed() {
			t.Log(o.logged())
		}
	})
	return o
}

func (o *office) start() {
	o.t.Helper()
	self, err := os.Executable()
	if err != nil {
		o.t.Fatal(err)
	}
	o.process = exec.Command(self, o.args...)
	o.process.Env = o.env
	out, err := o.process.StdoutPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	o.process.Stderr = writing(func(b []byte) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.log.Write(b)
	})
	if err := o.process.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.url = ""
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			o.url = at
			break
		}
	}
	o.ended = make(chan struct{})
	go func() {
		defer close(o.ended)
		_, _ = io.Copy(io.Discard, out)
		_ = o.process.Wait()
	}()
	if o.url == "" {
		o.t.Fatalf("it did not start: %s", o.logged())
	}
}

var interrupt = os.Interrupt

type writing func([]byte)

func (w writing) Write(b []byte) (int, error) { w(b); return len(b), nil }

func (o *office) stop(how os.Signal) {
	_ = o.process.Process.Signal(how)
	<-o.ended
}

func (o *office) token(email string) string {
	o.t.Helper()
	token, err := o.crm.Token(email + ".example")
	if err != nil {
		o.t.Fatal(err)
	}
	return token
}

const (
	jonas = "jonas@fieldnote" // of one organisation
	ruben = "ruben@cargolane" // of another
	mara  = "mara@fieldnote"  // of both
)

// frame is a frame of the wire.
type frame struct {
	Type, Text, Status, Message, SessionID, Action, Tool, Command string
}

// browser is a client of the wire.
type browser struct {
	t       *testing.T
	conn    *websocket.Conn
	token   string
	session string
	frames  []frame // of the last answer
}

func (o *office) browser(token string) *browser {
	o.t.Helper()
	conn, _, err := websocket.Dial(o.t.Context(), o.url+"/ws/codex", nil)
	if err != nil {
		o.t.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	o.t.Cleanup(func() { _ = conn.CloseNow() })
	return &browser{t: o.t, conn: conn, token: token}
}

func (b *browser) say(v map[string]any) {
	b.t.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		err = b.conn.Write(b.t.Context(), websocket.MessageText, raw)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// read reads the frames of an answer, up to its end.
func (b *browser) read() frame {
	b.t.Helper()
	b.frames = nil
	ctx, done := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer done()
	for {
		_, raw, err := b.conn.Read(ctx)
		if err != nil {
			b.t.Fatalf("after %+v: %v", b.frames, err)
		}
		var f frame
		if err := json.Unmarshal(raw, &f); err != nil {
			b.t.Fatalf("%s: %v", raw, err)
		}
		b.frames = append(b.frames, f)
		switch f.Type {
		case "session.id":
			b.session = f.SessionID
		case "turn.completed", "error":
			return f
		}
	}
}

// ask says a message, and returns the last frame of the answer.
func (b *browser) ask(message string) frame {
	b.t.Helper()
	b.say(map[string]any{"type": "chat", "message": message, "token": b.token, "sessionId": b.session})
	return b.read()
}

// wanted is a confirm object.
type wanted struct {
	Type, ID, Title, Summary, Method, Path string
	Body                                   json.RawMessage
}

func confirmOf(f frame) (w wanted, ok bool) {
	return w, f.Type == "turn.completed" && json.Unmarshal([]byte(f.Text), &w) == nil && w.Type == "confirm"
}

// proposes asks for a write, and returns what is to be confirmed.
func (b *browser) proposes(message string) wanted {
	b.t.Helper()
	f := b.ask(message)
	w, ok := confirmOf(f)
	if !ok || len(b.frames) < 3 || b.frames[len(b.frames)-2].Text != f.Text || b.frames[len(b.frames)-2].Status != "done" {
		b.t.Fatalf("%s: got %+v", message, b.frames)
	}
	return w
}

// native makes a request of the native API.
func (o *office) native(token, method, path, body string) (int, string) {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.url+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// lead is the id of some lead of an organisation.
func (o *office) lead(token string) string {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, o.crmURL+"/api/leads?page_size=1&unsubscribed=false", http.NoBody)
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct{ Items []struct{ ID string } }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Items) != 1 {
		o.t.Fatalf("%v %v", list, err)
	}
	return list.Items[0].ID
}

// rows is everything in the database of a store, as text; "" for one that is in files.
func (o *office) rows() string {
	o.t.Helper()
	store := o.args[slices.Index(o.args, "--store")+1]
	if !strings.HasPrefix(store, "postgres") {
		return ""
	}
	db, err := pgx.Connect(o.t.Context(), store)
	if err != nil {
		o.t.Fatal(err)
	}
	defer db.Close(o.t.Context())
	texts := func(query string) []string {
		rows, err := db.Query(o.t.Context(), query)
		if err != nil {
			o.t.Fatal(err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			o.t.Fatal(err)
		}
		return list
	}
	var all strings.Builder
	tables := texts(`SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')`)
	for _, table := range tables {
		for _, row := range texts("SELECT t::text FROM " + table + " t") {
			all.WriteString(row)
		}
	}
	if len(tables) == 0 || all.Len() == 0 {
		o.t.Error("the database is empty")
	}
	return all.String()
}

// noToken fails the test if a token is in anything that is stored or logged.
func (o *office) noToken(tokens ...string) {
	o.t.Helper()
	rows := o.rows()
	for _, token := range tokens {
		if strings.Contains(rows, token) || strings.Contains(rows, hex.EncodeToString([]byte(token))) {
			o.t.Error("a token is in the database")
		}
		if strings.Contains(o.logged(), token) {
			o.t.Error("a token is in the server's log")
		}
		err := filepath.WalkDir(o.data, func(at string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(at)
			if bytes.Contains(raw, []byte(token)) {
				o.t.Errorf("a token is in %s", at)
			}
			return err
		})
		if err != nil {
			o.t.Error(err)
		}
	}
}

// TestLeadsProcess_killed: the server is killed in the middle of a write that was confirmed. A write with a key is
// made once; another is reported as unknown, and not made again.
func TestLeadsProcess_killed(t *testing.T) {
	t.Parallel()
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, store(t), "testdata/hostile")
			token := o.token(jonas)
			lead := o.lead(token)
			for _, keyed := range []bool{true, false} {
				b := o.browser(token)
				message := `CALL {"method":"PUT","path":"/api/leads/` + lead + `","body":{"city":"Oslo"}}`
				if keyed {
					message = `CALL {"method":"POST","path":"/api/leads","body":{"name":"Ida Holm","email":"ida@holm.example"}}`
				}
				before := o.crm.Counts()
				want := b.proposes(message)
				o.crm.Fail(crm.Fault{Method: want.Method, After: func() { o.stop(os.Kill) }})
				b.say(map[string]any{"type": "chat", "message": "CONFIRM_ACTION: " + want.ID, "token": token, "sessionId": b.session})
				<-o.ended
				o.start()
				// The page connects again and says the same again.
				again := o.browser(token)
				again.session = b.session
				f := again.ask("CONFIRM_ACTION: " + want.ID)
				after := o.crm.Counts()
				if after.Writes != before.Writes+1 {
					t.Errorf("keyed %v: %d writes; got %+v", keyed, after.Writes-before.Writes, again.frames)
				}
				if keyed && (after.Replays != before.Replays+1 || f.Type != "turn.completed" || !strings.Contains(f.Text, "Ida Holm")) || !keyed && !strings.Contains(f.Text, "not known") {
					t.Errorf("keyed %v: got %+v, %+v", keyed, again.frames, after)
				}
				if !keyed {
					if f := again.ask("Leave it."); f.Type != "turn.completed" || o.crm.Counts().Writes != after.Writes {
						t.Errorf("got %+v", again.frames)
					}
				}
			}
			if store := name; store == "sqlite" {
				o.stop(os.Interrupt)
			}
			o.noToken(token)
		})
	}
}
