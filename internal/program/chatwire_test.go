package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/chaos/chaostest"
)

const followUp = "What library should I use for that?"

// chat is one answer of POST /chat: its frames as they are on the wire, without the tokens. The
// number of tokens depends on time, so their text is joined.
type chat struct {
	frames  string
	text    string
	tokens  int
	session parley.SessionID
	turn    parley.TurnID
}

// chat starts a chat and returns its response.
func (s *process) chat(ctx context.Context, session, message, query string) (*http.Response, error) {
	body := object("session_id", session, "message", message)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/chat"+query, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := streams.Do(req)
	if err != nil {
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return nil, fmt.Errorf("%s as %s: %s", resp.Status, kind, b)
	}
	return resp, nil
}

// say chats to the end.
func (s *process) say(session, message string) chat {
	s.t.Helper()
	return s.sayTo(session, message, "")
}

func (s *process) sayTo(session, message, query string) chat {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	resp, err := s.chat(ctx, session, message, query)
	if err != nil {
		s.t.Fatalf("chat: %v", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("chat: %v after %q", err, raw)
	}
	return readChat(s.t, resp, raw)
}

// chatFrame matches every frame of this wire, to the byte.
var chatFrame = regexp.MustCompile(`^(?:id: [1-9][0-9]*\n)?event: (agent_start|tool_call|tool_result|handoff|token|done|error)\ndata: (\{.*\})$`)

func readChat(t *testing.T, resp *http.Response, raw []byte) chat {
	t.Helper()
	c := chat{session: parley.SessionID(resp.Header.Get("Parley-Session")), turn: parley.TurnID(resp.Header.Get("Parley-Turn"))}
	if c.session == "" || c.turn == "" {
		t.Errorf("headers: %v", resp.Header)
	}
	body, whole := strings.CutSuffix(string(raw), "\n\n")
	if !whole {
		t.Errorf("the last frame is cut: %q", raw)
	}
	var kept []string
	for block := range strings.SplitSeq(body, "\n\n") {
		m := chatFrame.FindStringSubmatch(block)
		if m == nil {
			t.Errorf("an unknown frame: %q", block)
			continue
		}
		if m[1] != "token" {
			kept = append(kept, block)
			continue
		}
		var token struct{ Text string }
		if err := json.Unmarshal([]byte(m[2]), &token); err != nil {
			t.Error(err)
		}
		var again bytes.Buffer
		e := json.NewEncoder(&again)
		e.SetEscapeHTML(false)
		_ = e.Encode(token.Text) // a string can always be encoded
		if want := `{"text":` + strings.TrimSpace(again.String()) + "}"; m[2] != want || token.Text == "" {
			t.Errorf("a token is %s, want %s", m[2], want)
		}
		c.text += token.Text
		if c.tokens++; len(kept) == 0 || kept[len(kept)-1] != chaostest.Tokens {
			kept = append(kept, chaostest.Tokens)
		}
	}
	c.frames = strings.Join(kept, "\n\n") + "\n"
	return c
}

func TestChat_demo_to_the_byte(t *testing.T) {
	t.Parallel()
	s := newPlace(t, "PARLEY_SCRIPTED_PACE=2ms").serve()
	first := s.say("0b9f4c1e-browser", spec)
	if diff := cmp.Diff(chaostest.Demo, first.frames); diff != "" {
		t.Errorf("question 1 (-want +got):\n%s", diff)
	}
	for _, part := range []string{"Notion says Email/Password", "CEO", "2026-02-27", "overrides", "**Recommendation:** Google OAuth"} {
		if !strings.Contains(first.text, part) {
			t.Errorf("the answer lacks %q:\n%s", part, first.text)
		}
	}
	if first.tokens < 10 {
		t.Errorf("the answer came in %d tokens", first.tokens)
	}
	second := s.say("0b9f4c1e-browser", followUp)
	if diff := cmp.Diff(chaostest.Memory, second.frames); diff != "" {
		t.Errorf("question 2 (-want +got):\n%s", diff)
	}
	for _, part := range []string{"Google OAuth", "react-oauth/google", "authlib"} {
		if !strings.Contains(second.text, part) {
			t.Errorf("the answer lacks %q:\n%s", part, second.text)
		}
	}
	if second.session != first.session || second.turn == first.turn {
		t.Errorf("one browser's session is %s and %s, its turns %s and %s", first.session, second.session, first.turn, second.turn)
	}
	// done was sent only after the turn was durable, and its text is the stored one.
	for _, c := range []chat{first, second} {
		if turn := must[parley.TurnInfo](s, "GET", "/v1/turns/"+string(c.turn), ""); turn.Status != parley.StatusCompleted || turn.Response.Message != c.text {
			t.Errorf("the turn is %s with %q, and the wire had %q", turn.Status, turn.Response.Message, c.text)
		}
	}
}

func (p *place) notion(text string) { p.write(filepath.Join(p.dir, "notes", "mock_notion.json"), text) }
func (p *place) slack(text string)  { p.write(filepath.Join(p.dir, "notes", "mock_slack.json"), text) }

const otherNotion = `{"docs": [
  {"id": "a", "title": "Storage", "last_updated": "2026-05-20", "content": "We decided on PostgreSQL for the database. The \"managed\" one."},
  {"id": "b", "title": "Storage, first draft", "last_updated": "2025-11-02", "content": "The database will be MongoDB."},
  {"id": "c", "title": "Holidays", "last_updated": "2026-06-01", "content": "The office is closed in August."}
]}`

const otherSlack = `{"messages": [
  {"channel": "#backend", "user": "Mia", "date": "2026-03-01", "text": "Let's use MySQL as our database, I know it well."},
  {"channel": "#random", "user": "Tom", "date": "2026-06-02", "text": "Lunch at twelve?"}
]}`

// TestChat_other_data_other_question: with other data and another question, the newest source
// wins, the conflict is named and the source quoted. The folder is read again for each call.
func TestChat_other_data_other_question(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=0s")
	p.env = append(p.env, "PARLEY_CHAOS_DATA="+filepath.Join(p.dir, "notes"))
	p.notion(otherNotion)
	p.slack(otherSlack)
	s := p.serve()
	got := s.say("x", "Which database did we choose?")
	for _, result := range []string{
		`"tool":"read_notion_mock","result":"[Notion | Storage | Last updated: 2026-05-20] We decided on PostgreSQL for the database. The \"managed\" one.\n[Notion | Storage, first draft | Last updated: 2025-11-02] The database will be MongoDB."}`,
		`"tool":"read_slack_mock","result":"[Slack | #backend | Mia | 2026-03-01] Let's use MySQL as our database, I know it well."}`,
	} {
		if !strings.Contains(got.frames, result) {
			t.Errorf("the frames lack %s:\n%s", result, got.frames)
		}
	}
	answer, _, _ := strings.Cut(got.text, "\n")
	if !strings.Contains(answer, "PostgreSQL") || !strings.Contains(answer, "MySQL") || !strings.Contains(answer, "It overrides MySQL") {
		t.Errorf("the newest does not win, or its conflict is not named:\n%s", got.text)
	}
	if !strings.Contains(got.text, "> We decided on PostgreSQL for the database.") || !strings.Contains(got.text, "2026-05-20") {
		t.Errorf("the source is not quoted:\n%s", got.text)
	}
	t.Logf("answer:\n%s", got.text)

	p.slack(strings.ReplaceAll(otherSlack, "2026-03-01", "2026-07-01"))
	if got := s.say("y", "Which database did we choose?"); !strings.Contains(got.text, "> Let's use MySQL as our database") {
		t.Errorf("the folder has changed and the answer has not:\n%s", got.text)
	}

	got = s.say("z", "What about the Kubernetes rollout?")
	for _, result := range []string{
		"event: tool_result\ndata: {\"agent\":\"scavenger\",\"tool\":\"read_notion_mock\",\"result\":\"No relevant Notion document found for query: kubernetes rollout\"}\n",
		"event: tool_result\ndata: {\"agent\":\"scavenger\",\"tool\":\"read_slack_mock\",\"result\":\"No relevant Slack message found for query: kubernetes rollout deploy hosting\"}\n",
	} {
		if !strings.Contains(got.frames, result) {
			t.Errorf("the frames lack %s:\n%s", result, got.frames)
		}
	}
	if !strings.HasSuffix(got.frames, "event: done\ndata: {}\n") {
		t.Errorf("the last frames are %s", got.frames)
	}
}

// TestChat_broken_data: a data file that is missing or malformed is an error of the tool, with
// the file's name and line. The turn goes on with the result of the other tool.
func TestChat_broken_data(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=0s")
	p.env = append(p.env, "PARLEY_CHAOS_DATA="+filepath.Join(p.dir, "notes"))
	p.notion(otherNotion)
	p.slack(otherSlack)
	s := p.serve()
	for i, c := range []struct {
		name   string
		breaks func()
		says   []string
	}{
		{"missing", func() { _ = os.Remove(filepath.Join(p.dir, "notes", "mock_slack.json")) }, []string{"mock_slack.json: ", "missing"}},
		{"malformed", func() { p.slack("{\"messages\": [\n  {\"channel\": \"#a\",\n   \"user\": }\n]}") }, []string{"mock_slack.json:3:", "not JSON"}},
		{"cut", func() { p.slack("{\"messages\": [\n  {\"channel\": \"#a\"}\n") }, []string{"mock_slack.json:2:", "unexpected end"}},
		{"other type", func() { p.slack("{\"messages\": [\n  {\"channel\": 7}\n]}") }, []string{"mock_slack.json:2:", "messages[0].channel"}},
		{"empty", func() { p.slack("") }, []string{"mock_slack.json:1:"}},
		{"a folder", func() {
			_ = os.Remove(filepath.Join(p.dir, "notes", "mock_slack.json"))
			_ = os.Mkdir(filepath.Join(p.dir, "notes", "mock_slack.json"), 0o700)
		}, []string{"mock_slack.json: is not a file"}},
	} {
		c.breaks()
		got := s.say(fmt.Sprint("s", i), "Which database did we choose?")
		_, result, _ := strings.Cut(got.frames, `"tool":"read_slack_mock","result":`)
		result, _, _ = strings.Cut(result, "\n")
		t.Logf("%s: %s", c.name, result)
		for _, part := range c.says {
			if !strings.Contains(result, part) {
				t.Errorf("%s: the result of the tool lacks %q: %s", c.name, part, result)
			}
		}
		if !strings.HasSuffix(got.frames, "event: done\ndata: {}\n") || !strings.Contains(got.text, "PostgreSQL") {
			t.Errorf("%s: it ends with\n%s\n%s", c.name, got.frames, got.text)
		}
		outcomes := ""
		for _, e := range decode(t, s.log(got.session)) {
			if p, err := e.Payload(); err == nil {
				if p, ok := p.(parley.ToolEnded); ok {
					outcomes += p.Name + " " + string(p.Outcome) + "\n"
				}
			}
		}
		if !strings.Contains(outcomes, "read_slack_mock error\n") || !strings.Contains(outcomes, "read_notion_mock ok\n") {
			t.Errorf("%s: the log has %q", c.name, outcomes)
		}
	}
}

// TestChat_goes_on_without_its_client: a turn goes on when its client disconnects. Meanwhile
// the session is busy.
func TestChat_goes_on_without_its_client(t *testing.T) {
	t.Parallel()
	s := newPlace(t, "PARLEY_SCRIPTED_PACE=30ms").serve()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := s.chat(ctx, "tab", spec, "")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	begin := "event: agent_start\ndata: {\"agent\":\"interface\"}\n\n"
	if _, err := io.ReadFull(resp.Body, make([]byte, len(begin))); err != nil {
		t.Fatal(err)
	}
	busy := s.ask("POST", "/chat", object("session_id", "tab", "message", "and?"))
	if e := problemOf(t, busy); busy.status != http.StatusConflict || e.Code != parley.CodeBusy || e.Hint == "" {
		t.Errorf("a second message: %s", busy)
	}
	cancel()
	id, session := parley.TurnID(resp.Header.Get("Parley-Turn")), parley.SessionID(resp.Header.Get("Parley-Session"))
	end := s.settle(id)
	if end.Status != parley.StatusCompleted || !strings.Contains(end.Response.Message, "Google OAuth") {
		t.Errorf("the turn is %s: %+v", end.Status, end)
	}
	log := s.log(session)
	if last := log[len(log)-1]; !strings.Contains(last, `"turn.completed"`) {
		t.Errorf("the log ends with %s", last)
	}
	if got := s.say("tab", followUp); !strings.Contains(got.text, "authlib") {
		t.Errorf("the next answer does not know the unread one: %s", got.text)
	}
}

func TestChat_cancel_and_budget_are_errors(t *testing.T) {
	t.Parallel()
	s := newPlace(t, "PARLEY_SCRIPTED_PACE=30ms").serve()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	resp, err := s.chat(ctx, "tab", spec, "")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	turn := resp.Header.Get("Parley-Turn")
	if a := s.ask("POST", "/v1/turns/"+turn+"/cancel", object("reason", "not \"now\"")); a.status != 200 {
		t.Fatalf("cancel: %s", a)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := readChat(t, resp, raw)
	if want := "event: error\ndata: {\"message\":\"the turn was cancelled: not \\\"now\\\"\"}\n"; !strings.HasSuffix(got.frames, want) || strings.Contains(got.frames, "event: done") {
		t.Errorf("a cancelled turn ends with\n%s\nwant\n%s", got.frames, want)
	}

	for name, budgets := range map[string]string{"steps": `{"max_steps":2}`, "tool_calls": `{"max_tool_calls":1}`, "duration": `{"max_duration_ms":40}`} {
		made := s.ask("POST", "/v1/sessions", `{"app":"chaos","outside_id":"`+name+`","budgets":`+budgets+`}`)
		if made.status != http.StatusCreated {
			t.Fatalf("%s: %s", name, made)
		}
		got := s.say(name, spec)
		frames := strings.Split(strings.TrimSuffix(got.frames, "\n"), "\n\n")
		last := frames[len(frames)-1]
		t.Logf("budget %s: %s", name, last)
		if !strings.HasPrefix(last, "event: error\ndata: {\"message\":\"") || strings.Count(got.frames, "event: error") != 1 || strings.Contains(got.frames, "event: done") {
			t.Errorf("budget %s: it ends with\n%s", name, got.frames)
		}
		end := must[parley.TurnInfo](s, "GET", "/v1/turns/"+string(got.turn), "")
		if end.Status != parley.StatusFailed || end.Error == nil || string(end.Error.Code) != "budget_"+name || !strings.Contains(last, end.Error.Message) {
			t.Errorf("budget %s: the turn is %s with %+v", name, end.Status, end.Error)
		}
	}
}

// TestChat_cursor: with ?cursor=1 frames have ids. The native wire resumes after any of them.
func TestChat_cursor(t *testing.T) {
	t.Parallel()
	s := newPlace(t, "PARLEY_SCRIPTED_PACE=1ms").serve()
	s.say("tab", spec)
	got := s.sayTo("tab", "And the database?", "?cursor=1")
	log := s.log(got.session)
	turn := must[parley.TurnInfo](s, "GET", "/v1/turns/"+string(got.turn), "")
	last, n := turn.FirstSeq-1, 0
	for line := range strings.Lines(got.frames) {
		var id int64
		if k, _ := fmt.Sscanf(line, "id: %d\n", &id); k == 0 {
			continue
		}
		n++
		if id < last || id < turn.FirstSeq || id > turn.LastSeq {
			t.Errorf("id %d after %d in a turn of events %d to %d", id, last, turn.FirstSeq, turn.LastSeq)
		}
		last = id
		if int(id) == len(log) {
			continue
		}
		w := newWatcher("sse", got.session)
		w.cursor, w.events = fmt.Sprint(id), append(w.events, log[:id]...)
		ctx, cancel := context.WithTimeout(t.Context(), within)
		if err := w.follow(ctx, s.url, len(log)-int(id)); err != nil {
			t.Error(err)
		}
		cancel()
		if err := w.has(t.Context(), log); err != nil {
			t.Errorf("from id %d: %v", id, err)
		}
	}
	if n < 5 || last != turn.LastSeq || int(last) != len(log) {
		t.Errorf("%d ids, the last is %d of %d:\n%s", n, last, len(log), got.frames)
	}
	if plain := s.say("tab", followUp); strings.Contains(plain.frames, "id: ") {
		t.Errorf("unexpected ids:\n%s", plain.frames)
	}
}
