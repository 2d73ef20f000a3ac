package program_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/redact/redacttest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/simtest"
)

// TestCredentials_over_plain_HTTP: no tool sends a caller's credential to another machine by
// http, unless the app's file says so.
func TestCredentials_over_plain_HTTP(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.withBank(&aviary{Server: &httptest.Server{URL: "http://crm.invalid"}}, "scripted/bank")
	file := filepath.Join(p.dir, "apps", "bank", "app.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for at, says := range map[string]string{
		"url: http://crm.invalid/http": "app.yaml:9: tools.http.auth: sends the credential HTTP_TOKEN to crm.invalid over http", "base_url: http:": "app.yaml:14: tools.openapi.auth: sends the credential API_TOKEN to crm.invalid over http",
		"url: http://crm.invalid/mcp": "app.yaml:19: tools.mcp.auth: sends the credential MCP_TOKEN to crm.invalid over http",
	} {
		p.write(file, strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(string(raw), at, "@"), "http:/", "https:/"), "@", at))
		if code, out, _ := p.run("app", "check"); code != 1 || !strings.Contains(out, says) {
			t.Errorf("exit %d, no %q in\n%s", code, says, out)
		}
	}
	p.write(file, strings.ReplaceAll(string(raw), "auth: {", "auth: {plain_http: true, "))
	if _, out, _ := p.run("app", "check"); strings.Contains(out, "over http") || !strings.Contains(out, "tools.mcp: the MCP server birds cannot be used") {
		t.Errorf("with plain_http:\n%s", out)
	}
}

// TestCredentialsNeverLeaveTheProgram sends credentials over every wire that takes them, and makes
// the calls succeed, fail, be redirected, cancelled, queued and killed. The credentials reach the
// service that the app's file names, and nothing else: no wire, no file of the server, no log,
// trace, prompt, export, archive or fork.
func TestCredentialsNeverLeaveTheProgram(t *testing.T) {
	t.Parallel()
	var secrets []redacttest.Secret
	a := &aviary{t: t, of: map[string]*redacttest.Finder{}, held: make(chan struct{}, 100), free: make(chan struct{}), came: map[string]bool{}}
	others := map[string][]redacttest.Secret{}
	for _, wire := range wires {
		for path, name := range tokens {
			v := canaries(wire)[name]
			list := []redacttest.Secret{{Kind: wire, Value: v}, {Kind: wire + " in hex", Value: hex.EncodeToString([]byte(v))}}
			for skip := range 3 { // whatever stands before it
				raw := base64.StdEncoding.EncodeToString([]byte(v[skip:]))
				list = append(list, redacttest.Secret{Kind: wire + " in base64", Value: strings.TrimRight(raw, "=")[:len(raw)-4]})
			}
			secrets = append(secrets, list...)
			for other := range tokens {
				if other != path {
					others[other] = append(others[other], list...)
				}
			}
		}
	}
	for path, list := range others {
		a.of[path] = redacttest.NewFinder(list)
	}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	w := &watch{t: t, secrets: secrets, finder: redacttest.NewFinder(secrets), counts: map[string]int{}, redacted: map[string]bool{}}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if z, err := gzip.NewReader(r.Body); err == nil {
			raw, _ := io.ReadAll(z)
			w.saw("trace", raw)
		}
	}))
	t.Cleanup(collector.Close)
	model := simtest.Providers()[0]
	sim := model.Start(t, simtest.Brain(teller), nil)

	p := newPlace(t, "PARLEY_LOG_LEVEL=debug")
	p.account(map[*simtest.Server]simtest.Provider{sim: model})
	raw, err := os.ReadFile(filepath.Join(p.dir, "parley.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p.write(filepath.Join(p.dir, "parley.yaml"), strings.TrimSuffix(string(raw), "}")+`,"telemetry":{"otlp_endpoint":"`+collector.URL+`","content":true}}`)
	p.withBank(a, model.Model)
	cli := *p // the environment of a command, which the server does not have
	for name, v := range canaries("run") {
		cli.env = append(cli.env[:len(cli.env):len(cli.env)], name+"="+v)
	}
	for name, v := range canaries("session answer") {
		p.write(filepath.Join(p.dir, "tokens", name), v+"\n")
	}
	for name, v := range canaries("bridge") {
		cli.env = append(cli.env, "BRIDGE_"+name+"="+v)
	}
	flags := func(form string) (args []string) {
		for _, name := range tokens {
			args = append(args, "--credential", strings.ReplaceAll(form, "NAME", name))
		}
		return args
	}
	command := func(want int, args ...string) (out, errs string) {
		t.Helper()
		code, out, errs := cli.run(args...)
		w.saw("command", []byte(out+errs))
		if code != want {
			t.Fatalf("%q: exit %d\n%s%s", args, code, out, errs)
		}
		return out, errs
	}
	s := p.serve()
	b := bank{w, s}

	// Over the native wire: each tool, and each way in which a call may end.
	id := s.session("bank")
	follow := func(id parley.SessionID) {
		path := "/v1/sessions/" + string(id) + "/events?deltas=true"
		w.stream(s, path, "text/event-stream")
		w.stream(s, path, "application/x-ndjson")
		w.stream(s, "/v1/stream?sessions="+string(id)+":0&deltas=true", "text/event-stream")
	}
	follow(id)
	for _, tool := range bankTools {
		for _, what := range []string{"fly", "fail", "redirect"} {
			b.ends(b.send(id, tool+" "+what, "turn"))
		}
	}
	// With the answer to the question that asks for the credential.
	for _, tool := range bankTools {
		turn := s.send(id, tool+" fly").ID
		b.answer(turn, "answer")
		b.ends(turn)
	}
	// Over a WebSocket, which is followed meanwhile.
	c, err := s.socket(id, 0)
	if err != nil {
		t.Fatal(err)
	}
	say := func(what map[string]any, until string) {
		t.Helper()
		raw, err := json.Marshal(what)
		if err == nil {
			err = c.Write(t.Context(), websocket.MessageText, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		for {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			_, heard, err := c.Read(ctx)
			cancel()
			if err != nil {
				t.Fatalf("no %q: %v", until, err)
			}
			w.saw("socket", heard)
			if bytes.Contains(heard, []byte(until)) {
				return
			}
		}
	}
	for i, tool := range bankTools {
		mark := fmt.Sprint("socket", i)
		say(map[string]any{"do": "send", "id": mark, "body": map[string]any{"message": tool + " fly", "credentials": canaries("socket")}}, `"id":"`+mark+`"`)
		turn := b.last(id)
		b.ends(turn)
		turn = s.send(id, tool+" fly").ID
		in := s.waiting(turn).Interactions[0]
		say(map[string]any{"do": "answer", "id": mark + "a", "interaction": in, "body": map[string]any{"choice": "answered", "credentials": canaries("socket answer")}}, `"id":"`+mark+`a"`)
		b.ends(turn)
	}
	// In the headers of /chat and MCP, and in the flags of commands.
	header := func(wire string) string {
		raw, err := json.Marshal(map[string]string(canaries(wire)))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for _, tool := range bankTools {
		got := w.ask(s, 200, "POST", "/chat", object("message", tool+" fly", "session_id", "browser"), parley.CredentialsHeader, header("chat"))
		if !bytes.Contains(got, []byte("event: done")) {
			t.Errorf("/chat: %s", got)
		}
	}
	w.hosted(&mcp.StreamableClientTransport{
		Endpoint: s.url + "/apps/bank/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: withHeader{tee{w}, parley.CredentialsHeader, header("mcp")}},
	})
	w.hosted(&mcp.CommandTransport{Command: cli.command(append([]string{"mcp", "--app", "bank"}, flags("NAME=env:BRIDGE_NAME")...)...)})
	for _, tool := range bankTools {
		command(0, append([]string{"run", tool + " fly"}, flags("NAME")...)...)
		_, errs := command(4, "run", tool+" fly")
		command(0, append([]string{"session", "answer", waitingIn(t, errs)}, flags("NAME=file:"+filepath.Join(p.dir, "tokens", "NAME"))...)...)
	}
	b.refusals(id, header("refused"))

	// A call that hangs is cancelled. The turn that is queued behind it has credentials of its own.
	// The credentials of a turn that is taken out of the queue are dropped with it.
	for _, tool := range bankTools {
		turn := b.send(id, tool+" hang", "turn")
		next, dropped := b.send(id, tool+" fly", "queued"), b.send(id, tool+" fly", "refused")
		<-a.held
		w.ask(s, 204, "DELETE", "/v1/sessions/"+string(id)+"/queue/"+string(dropped), "")
		w.ask(s, 200, "POST", "/v1/turns/"+string(turn)+"/cancel", "")
		a.free <- struct{}{}
		b.ends(turn)
		if at := must[parley.TurnInfo](s, "GET", "/v1/turns/"+string(next), ""); !at.Status.Ended() {
			w.ask(s, 202, "POST", "/v1/sessions/"+string(id)+"/turns", object("message", "hello"))
		}
		b.ends(next)
	}
	fork := w.ask(s, 201, "POST", "/v1/sessions/"+string(id)+"/fork", "{}")
	var forked parley.SessionInfo
	if err := json.Unmarshal(fork, &forked); err != nil {
		t.Fatal(err)
	}
	waits := s.send(forked.ID, "fly fly").ID // a fork has none of them
	s.waiting(waits)

	// The server dies during a call, with another turn in the queue. The credentials of both are
	// gone.
	turn, next := b.send(id, "go_pay hang", "crash"), b.send(id, "fly fly", "crash")
	<-a.held
	w.look(p.data)
	w.saw("log", []byte(s.errs.String()))
	s.kill()
	w.follows.Wait()
	w.look(p.data)
	s = p.serve()
	b.s = s
	follow(id)
	if end := s.settle(turn); !end.Status.Ended() {
		t.Errorf("after the crash: %+v", end)
	}
	if at := must[parley.TurnInfo](s, "GET", "/v1/turns/"+string(next), ""); at.Status == parley.StatusPending {
		w.ask(s, 202, "POST", "/v1/sessions/"+string(id)+"/turns", object("message", "hello"))
	}
	b.answer(next, "answer")
	b.ends(next)

	// Everything that can be read, also after it was archived.
	w.export(s, "/v1/sessions/"+string(id))
	command(0, "session", "sweep")
	if kept, _ := filepath.Glob(filepath.Join(p.data, "archive", "*", "*")); len(kept) == 0 {
		t.Error("nothing is archived")
	}
	w.export(s, "/v1/sessions/"+string(id))
	session := "/v1/sessions/" + string(id)
	for _, path := range []string{
		session, session + "/events", session + "/turns", session + "/window", session + "/queue", "/v1/sessions?direct=true", "/v1/turns/" + string(turn), "/v1/interactions",
		"/metrics", "/v1/apps", "/v1/apps/bank", "/v1/usage", "/readyz", "/v1/sessions/" + string(forked.ID), "/v1/sessions/" + string(forked.ID) + "/events",
	} {
		w.ask(s, 200, "GET", path, "")
	}
	w.try(s, "GET", "/apps/bank/", "") // the page may not have been built
	for _, args := range [][]string{{"session", "why", string(id)}, {"session", "show", string(id)}, {"session", "events", string(id)}, {"doctor"}} {
		_, out, errs := cli.run(args...)
		w.saw("command", []byte(out+errs))
	}
	w.look(p.data)
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil { // so that it sends its last traces
		t.Fatal(err)
	}
	select {
	case <-s.done:
	case <-time.After(within):
		t.Error("the server did not stop")
	}
	w.follows.Wait()
	w.look(p.data)
	w.saw("log", []byte(s.errs.String()))
	for _, call := range sim.Calls() {
		w.saw("prompt", call)
	}

	for _, wire := range wires {
		for path := range tokens {
			if got, want := a.came[path+" "+wire], wire != "refused" && (wire != "crash" || path == "/go"); got != want {
				t.Errorf("the credentials by %s came to %s: %v", wire, path, got)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, where := range []string{"answer", "text/event-stream", "application/x-ndjson", "socket", "command", "trace", "file", "export", "mcp", "prompt", "log"} {
		if w.counts[where] == 0 || !w.redacted[where] && where != "command" && where != "answer" && where != "log" {
			t.Errorf("%s: %d were looked at, one with something redacted: %v", where, w.counts[where], w.redacted[where])
		}
	}
}

// teller is a model that makes the call that its user names, and repeats the result.
func teller(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	asked := ""
	for _, m := range r.Messages {
		for _, part := range m.Parts {
			if m.Role == parley.RoleUser && part.Type == parley.PartText && !strings.HasPrefix(part.Text, "[") {
				asked = part.Text
			}
		}
	}
	results := enginetest.Results(r)
	tool, text, ok := strings.Cut(asked, " ")
	if !ok || len(results) > 0 {
		say("It said: " + strings.Join(results, " "))
		return seam.Reply{StopReason: "end_turn"}, nil
	}
	return seam.Reply{Parts: []parley.Part{enginetest.Call(tool, map[string]string{"text": text})}, StopReason: "tool_use"}, nil
}

// withHeader sends a header with each request.
type withHeader struct {
	http.RoundTripper
	name, value string
}

func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.value)
	return h.RoundTripper.RoundTrip(r)
}

// bank sends messages to the app bank of a server.
type bank struct {
	w *watch
	s *process
}

// send sends a message with the credentials of a wire.
func (b *bank) send(id parley.SessionID, message, wire string) parley.TurnID {
	b.w.t.Helper()
	raw, err := json.Marshal(map[string]any{"message": message, "credentials": canaries(wire)})
	if err != nil {
		b.w.t.Fatal(err)
	}
	var turn parley.TurnInfo
	if err := json.Unmarshal(b.w.ask(b.s, 202, "POST", "/v1/sessions/"+string(id)+"/turns", string(raw)), &turn); err != nil {
		b.w.t.Fatal(err)
	}
	return turn.ID
}

// answer gives the credentials that a turn waits for.
func (b *bank) answer(turn parley.TurnID, wire string) {
	b.w.t.Helper()
	in := b.s.waiting(turn).Interactions[0]
	if got := b.s.interaction(in); got.Kind != parley.KindCredential {
		b.w.t.Fatalf("it waits for %+v", got)
	}
	raw, err := json.Marshal(map[string]any{"choice": "answered", "credentials": canaries(wire)})
	if err != nil {
		b.w.t.Fatal(err)
	}
	b.w.ask(b.s, 200, "POST", "/v1/interactions/"+string(in)+"/answer", string(raw))
}

// ends waits for the end of a turn, and searches it.
func (b *bank) ends(turn parley.TurnID) {
	b.w.t.Helper()
	b.s.settle(turn)
	b.w.ask(b.s, 200, "GET", "/v1/turns/"+string(turn), "")
}

// last returns the last turn of a session.
func (b *bank) last(id parley.SessionID) parley.TurnID {
	b.w.t.Helper()
	list := must[struct{ Turns []parley.TurnInfo }](b.s, "GET", "/v1/sessions/"+string(id)+"/turns?limit=100", "")
	newest := list.Turns[0]
	for _, turn := range list.Turns {
		if turn.FirstSeq > newest.FirstSeq {
			newest = turn
		}
	}
	return newest.ID
}

// refusals sends credentials that are refused, and checks that no answer repeats them.
func (b *bank) refusals(id parley.SessionID, header string) {
	b.w.t.Helper()
	good := canaries("refused")
	long, short := maps.Clone(good), maps.Clone(good)
	long["API_TOKEN"] = strings.Repeat(good["API_TOKEN"], 300)
	short["GO_TOKEN"] = "a\nb" + good["GO_TOKEN"]
	for what, given := range map[string]any{"long": long, "two lines": short, "a name": map[string]string{good["GO_TOKEN"]: "x"}, "a list": []string{good["GO_TOKEN"]}, "text": good["GO_TOKEN"]} {
		raw, err := json.Marshal(map[string]any{"message": "fly fly", "credentials": given})
		if err != nil {
			b.w.t.Fatal(err)
		}
		if a := b.w.try(b.s, "POST", "/v1/sessions/"+string(id)+"/turns", string(raw)); a.status/100 != 4 {
			b.w.t.Errorf("%s: %s", what, a)
		}
	}
	for _, bad := range []string{header[1:], `["` + header + `"]`, good["GO_TOKEN"]} {
		if a := b.w.try(b.s, "POST", "/chat", object("message", "fly fly", "session_id", "other"), parley.CredentialsHeader, bad); a.status/100 != 4 {
			b.w.t.Errorf("/chat: %s", a)
		}
	}
}

// hosted uses the app as an MCP host does: through an agent, and with direct calls.
func (w *watch) hosted(transport mcp.Transport) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	host, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	call := func(tool string, in map[string]any) *mcp.CallToolResult {
		w.t.Helper()
		res, err := host.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: in, Meta: mcp.Meta{"progressToken": "p"}})
		if err != nil {
			w.t.Fatalf("%s: %v", tool, err)
		}
		raw, err := json.Marshal(res)
		if err != nil {
			w.t.Fatal(err)
		}
		w.saw("mcp", raw)
		return res
	}
	for _, tool := range bankTools {
		if res := call("bank.ask", map[string]any{"message": tool + " fly"}); res.IsError {
			w.t.Errorf("asked for %s: %+v", tool, res.Content[0])
		}
		if res := call(tool, map[string]any{"text": "fly"}); res.IsError {
			w.t.Errorf("%s: %+v", tool, res.Content[0])
		}
	}
	if err := host.Close(); err != nil {
		w.t.Error(err)
	}
}
