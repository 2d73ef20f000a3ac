package program_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/redact/redacttest"
)

// TestSecretsNeverLeaveTheProgram plants secrets of all kinds in everything that people, a
// model and a service send to a running server. It looks for them on every wire, in the
// server's files, its log and what it sends to a collector. The server is killed in the middle
// of a stream.
func TestSecretsNeverLeaveTheProgram(t *testing.T) {
	t.Parallel()
	const seed = 7
	w := &watch{t: t, secrets: redacttest.Secrets(seed), counts: map[string]int{}, redacted: map[string]bool{}}
	w.finder = redacttest.NewFinder(w.secrets)
	var texts []string
	for _, s := range w.secrets {
		texts = append(texts, s.Text())
	}
	all := strings.Join(texts, " and then ")
	service := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, all) }))
	defer service.Close()
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if z, err := gzip.NewReader(r.Body); err == nil {
			raw, _ := io.ReadAll(z)
			w.saw("trace", raw)
		}
	}))
	defer collector.Close()

	p := newPlace(t, "STAPLE_PASSWORD="+redacttest.Known, "PARLEY_LOG_LEVEL=debug", "DATABASE_URL=postgres://me:"+w.secrets[0].Value[:20]+"@db/x")
	p.withDesk(service.URL, "1ms")
	p.write(filepath.Join(p.dir, "parley.yaml"), "telemetry: {otlp_endpoint: "+collector.URL+", content: true}\n")
	for _, app := range []string{"desk-auto", "desk-manual"} {
		file := filepath.Join(p.dir, "apps", app, "app.yaml")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		more := ""
		if app == "desk-auto" {
			more = "wires: [events]\n"
		}
		p.write(file, string(raw)+more)
	}
	s := p.serve()
	token := w.secrets[0].Text()
	body := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	made := w.ask(s, 201, "POST", "/v1/sessions", body(map[string]any{
		"app": "desk-auto", "title": "about " + token, "outside_id": token[:60], "preferences": map[string]any{"state": all, "note": all},
	}), "Idempotency-Key", token, "User-Agent", token)
	var info parley.SessionInfo
	if err := json.Unmarshal(made, &info); err != nil {
		t.Fatal(err)
	}
	session := "/v1/sessions/" + string(info.ID)
	w.ask(s, 200, "PATCH", session, body(map[string]any{"title": w.secrets[4].Text(), "pins": []any{map[string]any{"label": token, "text": all}}}))
	follow := func(s *process) {
		for _, path := range []string{
			session + "/events?deltas=true", "/v1/stream?sessions=" + string(info.ID) + ":0&deltas=true", "/events/" + string(info.ID),
		} {
			w.stream(s, path, "text/event-stream")
		}
		w.stream(s, session+"/events?deltas=true", "application/x-ndjson")
	}
	follow(s)
	for _, message := range []string{"mail it", "hello " + all, "mail " + token} {
		w.turn(s, session, message, "Idempotency-Key", message[:6]+token, "User-Agent", all[:200])
	}
	w.ask(s, 422, "POST", session+"/turns", body(map[string]any{"message": "other"}), "Idempotency-Key", "hello "+token)
	w.mcp(s, all)
	w.errors(s, session)
	w.ask(s, 200, "POST", "/chat", body(map[string]any{"message": "What is the final spec? " + all, "session_id": token[:50]}))
	w.saw("log", []byte(s.errs.String()))
	w.look(p.data)

	// The server is killed after a good part of a stream was shown.
	var turn parley.TurnInfo
	if err := json.Unmarshal(w.ask(s, 202, "POST", session+"/turns", body(map[string]any{"message": fmt.Sprint("leak ", seed)})), &turn); err != nil {
		t.Fatal(err)
	}
	w.until(s, session, 2000)
	s.kill()
	w.follows.Wait()
	w.look(p.data)

	s2 := p.serve()
	follow(s2)
	done := s2.settle(turn.ID)
	if done.Status != parley.StatusCompleted {
		t.Errorf("after the crash: %+v", done)
	}
	for _, path := range []string{session, session + "/events", session + "/turns", "/v1/sessions", "/v1/turns/" + string(turn.ID), "/v1/interactions", "/metrics", "/v1/apps", "/readyz"} {
		if a := w.try(s2, "GET", path, ""); a.status == 200 {
			w.counts[path]++
		}
	}
	w.export(s2, session)
	w.saw("log", []byte(s2.errs.String()))
	w.look(p.data)
	w.turn(s2, session, "mail it")
	if err := s2.cmd.Process.Signal(os.Interrupt); err != nil { // so that it sends its last traces
		t.Fatal(err)
	}
	select {
	case <-s2.done:
	case <-time.After(within):
		t.Error("the server did not stop")
	}
	s2.kill()
	w.follows.Wait()
	w.look(p.data)
	w.saw("log", []byte(s2.errs.String()))

	w.mu.Lock()
	defer w.mu.Unlock()
	for _, where := range []string{"answer", "text/event-stream", "application/x-ndjson", "trace", "file", "export", "mcp", session + "/events"} {
		if w.counts[where] == 0 || strings.HasPrefix(where, "/") == w.redacted[where] {
			t.Errorf("%s: %d were looked at, one with something redacted: %v", where, w.counts[where], w.redacted[where])
		}
	}
}

// watch searches all output of the server.
type watch struct {
	t       *testing.T
	secrets []redacttest.Secret
	finder  *redacttest.Finder
	follows sync.WaitGroup

	mu       sync.Mutex
	counts   map[string]int
	redacted map[string]bool
}

func (w *watch) saw(where string, raw []byte) {
	leaks := w.finder.Leaks(raw)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[where]++
	w.redacted[where] = w.redacted[where] || bytes.Contains(raw, []byte("[redacted]"))
	for _, leak := range leaks {
		w.t.Errorf("%s has %s", where, leak)
	}
}

func (w *watch) try(s *process, method, path, body string, header ...string) answer {
	w.t.Helper()
	a := s.ask(method, path, body, header...)
	var head bytes.Buffer
	_ = a.header.Write(&head)
	w.saw("answer", append(head.Bytes(), a.body...))
	return a
}

func (w *watch) ask(s *process, status int, method, path, body string, header ...string) []byte {
	w.t.Helper()
	a := w.try(s, method, path, body, header...)
	if a.status != status {
		w.t.Fatalf("%s %s: got %s, want %d", method, path, a, status)
	}
	return a.body
}

func (w *watch) turn(s *process, session, message string, header ...string) {
	w.t.Helper()
	var turn parley.TurnInfo
	raw := w.ask(s, 202, "POST", session+"/turns", object("message", message), header...)
	if err := json.Unmarshal(raw, &turn); err != nil {
		w.t.Fatal(err)
	}
	if done := w.ask(s, 200, "POST", "/v1/turns/"+string(turn.ID)+"/await", `{"timeout_ms":20000}`); !bytes.Contains(done, []byte(`"completed"`)) {
		w.t.Fatalf("%.20s: %s", message, done)
	}
}

// stream searches a stream until the server is killed.
func (w *watch) stream(s *process, path, accept string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), accept) {
		w.t.Fatalf("%s: %s, %s", path, resp.Status, resp.Header.Get("Content-Type"))
	}
	w.follows.Go(func() {
		defer cancel()
		raw, _ := io.ReadAll(resp.Body) // the kill cuts it
		_ = resp.Body.Close()
		w.saw(accept, raw)
		w.saw(accept, deltas(raw)) // a secret must not appear across fragments either
	})
}

// deltas joins the text of a stream's fragments.
func deltas(raw []byte) []byte {
	texts := map[string][]byte{}
	for line := range bytes.Lines(raw) {
		var d parley.Delta
		if i := bytes.IndexByte(line, '{'); i < 0 || json.Unmarshal(line[i:], &d) != nil || d.Text == "" {
			continue
		}
		k := string(d.Call) + string(d.Kind)
		texts[k] = append(texts[k], d.Text...)
	}
	var out []byte
	for _, text := range texts {
		out = append(append(out, text...), '\n')
	}
	return out
}

// until returns after 40 fragments of text.
func (w *watch) until(s *process, session string, n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+session+"/events?deltas=true&after=1", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var raw []byte
	buf := make([]byte, 1<<10)
	for bytes.Count(raw, []byte("event: model.delta"))+bytes.Count(raw, []byte("event: model.partial")) < 40 {
		k, err := resp.Body.Read(buf)
		raw = append(raw, buf[:k]...)
		if err != nil {
			w.t.Fatalf("the stream ended: %v\n%s", err, raw)
		}
	}
	w.saw("text/event-stream", raw)
}

// tee searches the responses to an MCP host's requests.
type tee struct{ w *watch }

func (h tee) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		resp.Body = &teed{resp.Body, h.w, nil}
	}
	return resp, err
}

type teed struct {
	io.ReadCloser
	w   *watch
	raw []byte
}

func (b *teed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.raw = append(b.raw, p[:n]...)
	if err != nil && len(b.raw) > 0 {
		b.w.saw("mcp", b.raw)
		b.raw = nil
	}
	return n, err
}

func (b *teed) Close() error {
	if len(b.raw) > 0 {
		b.w.saw("mcp", b.raw)
	}
	return b.ReadCloser.Close()
}

// mcp makes an MCP host's requests, and reads a log as a resource.
func (w *watch) mcp(s *process, all string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	host, err := mcp.NewClient(&mcp.Implementation{Name: w.secrets[0].Text(), Version: all}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: s.url + "/apps/desk-manual/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: tee{w}}}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	call := func(tool string, in map[string]any) map[string]any {
		res, err := host.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: in, Meta: mcp.Meta{"progressToken": "p"}})
		if err != nil || res.IsError {
			return nil
		}
		out, _ := res.StructuredContent.(map[string]any)
		return out
	}
	made := call("desk-manual.start_session", map[string]any{"preferences": map[string]any{"note": all}})
	if made == nil {
		w.t.Fatal("no session was started")
	}
	session := made["session_id"]
	for _, message := range []string{"leak 7", "mail it", all} {
		sent := call("desk-manual.send_message", map[string]any{"session_id": session, "message": message, "idempotency_key": w.secrets[1].Text() + message[:3]})
		if sent == nil {
			w.t.Fatalf("%.10s was not sent", message)
		}
		call("desk-manual.await_continuation", map[string]any{"continuation_id": sent["continuation_id"]})
	}
	for tool, in := range map[string]map[string]any{
		w.secrets[0].Text(): {}, "mail": {"text": all}, "desk-manual.get_session": {"session_id": session},
		"desk-manual.send_message": {"session_id": w.secrets[0].Text(), "message": "x"}, "desk-manual.start_session": {w.secrets[2].Text(): w.secrets[3].Text()},
	} {
		call(tool, in)
	}
	list, err := host.ListResources(ctx, nil)
	if err != nil || len(list.Resources) == 0 {
		w.t.Fatalf("resources: %v, %v", list, err)
	}
	for _, r := range list.Resources {
		if _, err := host.ReadResource(ctx, &mcp.ReadResourceParams{URI: r.URI}); err != nil {
			w.t.Errorf("%s: %v", r.URI, err)
		}
		if _, err := host.ReadResource(ctx, &mcp.ReadResourceParams{URI: r.URI + url.PathEscape(w.secrets[0].Text())}); err == nil {
			w.t.Error("a resource that is not there was read")
		}
	}
	if err := host.Close(); err != nil {
		w.t.Error(err)
	}
}

// errors makes requests that are refused, each with a secret in another place.
func (w *watch) errors(s *process, session string) {
	w.t.Helper()
	for _, secret := range w.secrets {
		text, in := url.PathEscape(secret.Text()), url.QueryEscape(secret.Text())
		for _, r := range [][3]string{
			{"GET", "/v1/sessions/" + text, ""},
			{"GET", "/v1/turns/" + text, ""},
			{"GET", "/v1/sessions?" + in + "=" + in, ""},
			{"GET", "/v1/sessions?limit=" + in, ""},
			{"GET", "/v1/artifacts/" + text, ""},
			{"GET", "/" + text, ""},
			{"GET", "/apps/" + text + "/mcp", ""},
			{"GET", "/events/" + text, ""},
			{"POST", "/v1/sessions", object("app", secret.Text())},
			{"POST", "/v1/sessions", object("app", "desk-auto", "model", secret.Text())},
			{"POST", "/v1/sessions", object("app", "desk-auto", secret.Text(), "x")},
			{"POST", "/v1/sessions", `{"app":"` + secret.Text()},
			{"POST", session + "/turns", object("message", "x", "busy", secret.Text())},
			{"POST", "/v1/interactions/" + text + "/answer", object("choice", secret.Text())},
			{"POST", "/apps/desk-auto/mcp", secret.Text()},
			{"POST", "/v1/sessions/import?app=" + in, secret.Text()},
			{"POST", "/chat", `{"message":` + secret.Text()},
		} {
			a := w.try(s, r[0], r[1], r[2], "Accept", "application/json, text/event-stream", "Last-Event-ID", strings.Map(printable, secret.Text()), "Mcp-Session-Id", strings.Map(printable, secret.Text()))
			if a.status < 300 && !strings.Contains(string(a.header.Get("Content-Type")), "html") && !strings.HasPrefix(r[1], "/events/") {
				w.t.Errorf("%s %s: %s", r[0], r[1], a)
			}
		}
	}
}

// printable removes runes that no header may have.
func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

func (w *watch) export(s *process, session string) {
	w.t.Helper()
	raw := w.ask(s, 200, "GET", session+"/export", "")
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			w.t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			w.t.Fatal(err)
		}
		w.saw("export", append([]byte(f.Name+"\n"), body...))
	}
	w.ask(s, 201, "POST", "/v1/sessions/import", string(raw), "Content-Type", "application/zip")
}

// look searches all files of the data folder.
func (w *watch) look(dir string) {
	w.t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		w.saw("file", raw)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
