package parley_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

var update = flag.Bool("update", false, "rewrite what the logs in testdata fold to")

// TestLogs folds the logs in testdata/logs, which the page folds too: what both
// must make of them lies beside each log.
func TestLogs(t *testing.T) {
	t.Parallel()
	for name, events := range logs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", "logs", name+".ndjson")
			var b bytes.Buffer
			for _, e := range events {
				b.Write(append(e.AppendJSON(nil), '\n'))
			}
			golden(t, path, b.Bytes())
			read := readLog(t, path)
			var s parley.Session
			view := parley.Transcript{Turns: []parley.TurnView{}}
			for i, e := range read {
				if !e.Equal(events[i]) {
					t.Fatalf("event %d read back as %s, want %s", i+1, e.AppendJSON(nil), events[i].AppendJSON(nil))
				}
				if parley.Known(e.Type) {
					if err := s.Apply(e); err != nil {
						t.Fatal(err)
					}
				}
				view.Apply(e)
				view.Apply(e) // a repeated event changes nothing
			}
			golden(t, strings.TrimSuffix(path, ".ndjson")+".session.json", indent(t, s))
			golden(t, strings.TrimSuffix(path, ".ndjson")+".transcript.json", indent(t, view))
		})
	}
}

// TestInterruptedTurnThatGoesOn: whether a turn goes on by itself is known while it is interrupted,
// and no longer. The queue behind it is not held meanwhile.
func TestInterruptedTurnThatGoesOn(t *testing.T) {
	t.Parallel()
	type seen struct{ Session, Transcript, Held bool }
	for name, c := range map[string]struct {
		add  []parley.Payload
		want seen
	}{
		"it goes on":   {[]parley.Payload{parley.TurnInterrupted{Resumes: true}}, seen{true, true, false}},
		"it does not":  {[]parley.Payload{parley.TurnInterrupted{}}, seen{false, false, true}},
		"no longer":    {[]parley.Payload{parley.TurnInterrupted{Resumes: true}, parley.TurnInterrupted{}}, seen{false, false, true}},
		"it has":       {[]parley.Payload{parley.TurnInterrupted{Resumes: true}, parley.TurnResumed{Attempt: 1, Auto: true}}, seen{}},
		"it was ended": {[]parley.Payload{parley.TurnInterrupted{Resumes: true}, parley.TurnCancelled{Reason: "enough"}}, seen{}},
	} {
		l := start(newTape(), t1, "one").add(t2, "", parley.TurnQueued{TurnRequest: ask("two")})
		for _, p := range c.add {
			l.add(t1, "", p)
		}
		var s parley.Session
		var view parley.Transcript
		for _, e := range l.events {
			if err := s.Apply(e); err != nil {
				t.Fatal(err)
			}
			view.Apply(e)
		}
		got := seen{s.Turn != nil && s.Turn.Resumes, view.Turns[0].Resumes, s.QueueHeld() && s.Turn != nil}
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func indent(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readLog(t *testing.T, path string) []parley.Event {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var events []parley.Event
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e parley.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// tape makes logs: one event a second from a fixed day.
type tape struct {
	session parley.SessionID
	events  []parley.Event
}

var day = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func (l *tape) add(turn parley.TurnID, agent parley.AgentPath, p parley.Payload) *tape {
	e := parley.NewEvent(turn, agent, p)
	e.Session, e.Seq = l.session, int64(len(l.events)+1)
	e.Time = day.Add(time.Duration(e.Seq) * time.Second)
	l.events = append(l.events, e)
	return l
}

func newTape() *tape {
	l := &tape{session: "01JSESSION0000000000000001"}
	return l.add("", "", parley.SessionCreated{App: "chaos", User: "local", Busy: parley.BusyReject, MaxOpenTurns: 2})
}

func ask(text string) parley.TurnRequest {
	return parley.TurnRequest{
		Origin: parley.OriginUser, Message: parley.Text(parley.RoleUser, text),
		Budgets: parley.Budgets{MaxSteps: 12}, Client: "api", By: "local",
	}
}

const (
	t1    = parley.TurnID("01JTURN0000000000000000001")
	t2    = parley.TurnID("01JTURN0000000000000000002")
	in    = parley.AgentPath("interface")
	scav  = parley.AgentPath("scavenger")
	synth = parley.AgentPath("synthesizer")
)

func text(s string) []parley.Part { return []parley.Part{{Type: parley.PartText, Text: s}} }

func used(in, out int64) parley.Usage { return parley.Usage{InputTokens: in, OutputTokens: out} }

func withResources(r parley.TurnRequest, parts ...parley.Part) parley.TurnRequest {
	r.Message.Parts = append(r.Message.Parts, parts...)
	return r
}

func logs(t testing.TB) map[string][]parley.Event {
	t.Helper()
	all := map[string]*tape{}
	answer := "Use **Google OAuth** only.\n\n> scrap the email/password login <CEO> & \"go\"\u2028"

	l := newTape()
	demo(l, answer)
	all["demo"] = l

	l = newTape()
	demo(l, answer)
	l.add(t2, "", parley.TurnStarted{TurnRequest: ask("What library should I use for that?"), App: "d1"}).
		add(t2, in, parley.AgentStarted{Name: "interface"}).
		add(t2, in, parley.ModelStarted{Call: "c9", Model: "scripted/chaos", Context: "x", Reserved: used(10, 100)}).
		add(t2, in, parley.ModelReplied{Call: "c9", Model: "scripted/chaos", Parts: text("`react-oauth/google` + `authlib`"), Usage: used(10, 5), Warning: "the server counted far fewer tokens than were sent"}).
		add(t2, "", parley.TurnCompleted{Response: parley.Response{Message: "`react-oauth/google` + `authlib`"}, Usage: used(10, 5)})
	all["follow-up"] = l

	l = newTape()
	start(l, t1, "What is the spec?").
		add(t1, in, parley.ModelFailed{Call: "c1", Partial: "The spec is", Usage: parley.Usage{InputTokens: 10, OutputTokens: 100, Estimated: true}, Error: parley.ErrorInfo{Code: parley.CodeCancelled, Message: "the call was cut off"}}).
		add(t1, "", parley.TurnCancelled{Reason: "changed my mind", By: "local", Response: &parley.Response{Message: "The spec is"}, Usage: used(10, 100)}).
		add("", "", parley.SessionUpdated{Title: ptr("Login"), By: "local"})
	all["cancelled"] = l

	l = newTape()
	start(l, t1, "What is the spec?").
		add(t1, in, parley.ModelFailed{Call: "c1", Retry: true, Usage: used(0, 0), Error: parley.ErrorInfo{Code: parley.CodeRateLimited, Message: "slow down", RetryAfterMS: 10}}).
		add(t1, in, parley.ModelStarted{Call: "c2", Model: "m", Context: "x", Reserved: used(10, 100)}).
		add(t1, in, parley.ModelFailed{Call: "c2", Usage: used(10, 0), Error: parley.ErrorInfo{Code: parley.CodeModel, Message: "the model refused"}}).
		add(t1, "", parley.TurnFailed{Error: parley.ErrorInfo{Code: parley.CodeModel, Message: "the model refused", Hint: "try another"}, Usage: used(10, 0)}).
		add(t2, "", parley.TurnStarted{TurnRequest: withRetry(ask("What is the spec?"), t1), App: "d1"}).
		add(t2, in, parley.AgentStarted{Name: "interface"})
	all["failed-retry"] = l

	l = newTape()
	start(l, t1, "one").
		add(t2, "", parley.TurnQueued{TurnRequest: ask("two")}).
		add("01JTURN0000000000000000003", "", parley.TurnQueued{TurnRequest: ask("three")}).
		add("01JTURN0000000000000000003", "", parley.TurnCancelled{Reason: "taken off the queue", By: "local"}).
		add(t1, "", parley.TurnSteered{Message: parley.Text(parley.RoleUser, "be short"), By: "local"}).
		add(t1, in, parley.ModelReplied{Call: "c1", Model: "m", Parts: text("1"), Usage: used(10, 1)}).
		add(t1, in, parley.ModelStarted{Call: "c2", Model: "m", Context: "x", Reserved: used(11, 100)}).
		add(t1, in, parley.ModelReplied{Call: "c2", Model: "m2", Parts: text("One."), Usage: used(11, 2)}).
		add(t1, "", parley.TurnCompleted{Response: parley.Response{Message: "One.", FollowUps: []string{"two?"}, Citations: []parley.Citation{{Source: "doc", Ref: "1"}}}, Usage: used(21, 3)}).
		add(t2, "", parley.TurnStarted{TurnRequest: ask("two"), App: "d1"}).
		add(t2, in, parley.AgentStarted{Name: "interface"}).
		add(t2, "", parley.BudgetReached{Name: "steps", Limit: 12, Used: 12}).
		add(t2, "", parley.TurnFailed{Error: parley.ErrorInfo{Code: "budget_steps", Message: "12 steps"}, Response: &parley.Response{Message: "so far"}, Usage: used(1, 1)})
	all["queue-steer-budget"] = l

	l = newTape()
	l.events = nil
	l.add("", "", parley.SessionCreated{App: "major", User: "local", Workspace: "company", MaxUSD: 2, Attached: []parley.EntityRef{{Path: "docs/plan.md", Title: "Plan", Kind: "doc"}}}).
		add("", "", parley.HistoryRestored{User: "When is the launch?", Reply: "In May."}).
		add("", "", parley.HistoryRestored{User: "Thanks."})
	start(l, t1, "Who owns it?").
		add(t1, in, parley.ContextRetrieved{Entities: []parley.AttachedEntity{
			{EntityRef: parley.EntityRef{Path: "docs/plan.md", Title: "Plan"}, Version: "d9", Text: "Ines owns it.", Cut: true},
			{EntityRef: parley.EntityRef{Path: "docs/gone.md"}, Why: "it could not be read"},
		}}).
		add(t1, in, parley.ModelStarted{Call: "c2", Model: "m", Context: "x", Reserved: used(10, 100)}).
		add("", "", parley.SessionUpdated{Attached: &[]parley.EntityRef{}})
	all["restored"] = l

	l = newTape()
	start(l, t1, "note it").
		add(t1, in, parley.ModelReplied{Call: "c1", Model: "m", Usage: used(9, 9), Parts: []parley.Part{
			{Type: parley.PartThinking, Text: "hm", Signature: json.RawMessage(`"s1g"`)},
			{Type: parley.PartToolCall, Call: "k1", ProviderID: "call_0", Name: "note_add", Input: json.RawMessage(`{"text":"a"}`)},
		}}).
		add(t1, in, parley.ToolRequested{Call: "k1", Name: "note_add", Input: json.RawMessage(`{"text":"a"}`)}).
		add(t1, in, parley.InteractionOpened{Interaction: parley.Interaction{
			ID: "01JINTER000000000000000001", Session: l.session, Turn: t1, Agent: in, Kind: parley.KindPermission, Call: "k1", Tool: "note_add",
			Input: json.RawMessage(`{"text":"a"}`), Title: "Allow note_add?", Choices: []string{"allow", "deny"}, OpenedAt: day, ExpiresAt: day.Add(24 * time.Hour),
		}}).
		add(t1, in, parley.InteractionAnswered{ID: "01JINTER000000000000000001", Answer: parley.Answer{Choice: parley.ChoiceAllow}, By: "local"}).
		add(t1, in, parley.ToolStarted{Call: "k1", Name: "note_add", Input: json.RawMessage(`{"text":"a"}`), Effect: parley.EffectWrite, Grant: "01JINTER000000000000000001", Deadline: day.Add(time.Minute), Attempt: 1}).
		add(t1, "", parley.TurnStopRequested{Reason: "enough", By: "local"}).
		add(t1, "", parley.TurnInterrupted{Reason: "the server stopped while the turn was running"}).
		add(t1, "", parley.TurnResumed{Attempt: 1, By: "local"}).
		add(t1, in, parley.ToolEnded{Name: "note_add", Effect: parley.EffectWrite, ToolResult: parley.ToolResult{Call: "k1", Outcome: parley.OutcomeUnknown, Output: "unknown"}}).
		add(t1, in, parley.InteractionOpened{Interaction: parley.Interaction{
			ID: "01JINTER000000000000000002", Session: l.session, Turn: t1, Agent: in, Kind: parley.KindUnknown, Call: "k1", Tool: "note_add",
			Title: "What became of note_add?", Choices: []string{"happened", "did_not", "again", "leave"}, OpenedAt: day,
		}})
	l.add(t1, in, parley.ContextObserved{Source: "client", Ref: "k1", Text: "The client that had claimed note_add reported after the deadline: ok", At: day})
	all["waiting-unknown"] = l

	const stored = parley.ArtifactID("01JARTIFACT000000000000001")
	l = newTape()
	l.add(t1, "", parley.TurnStarted{TurnRequest: withResources(ask("What is in @docs:file:///a.md?"),
		parley.Part{Type: parley.PartResource, Server: "docs", URI: "file:///a.md", MediaType: "text/markdown", Text: strings.Repeat("ü", 2100)},
		parley.Part{Type: parley.PartImage, Server: "docs", URI: "file:///b.png", Title: "A pear", MediaType: "image/png", Name: "b.png", Artifact: stored}), App: "d1"}).
		add(t1, "", parley.ArtifactStored{ArtifactRef: parley.ArtifactRef{ID: stored, Name: "b.png", MediaType: "image/png", Size: 3, SHA256: "d2"}}).
		add(t1, in, parley.AgentStarted{Name: "interface"}).
		add(t1, in, parley.ModelStarted{Call: "c1", Model: "m", Context: "x", Reserved: used(10, 100)}).
		add(t1, "", parley.TurnSteered{Message: withResources(ask("and this"), parley.Part{Type: parley.PartResource, Server: "docs", URI: "file:///c.md", Text: "C"}).Message, By: "local"}).
		add(t1, in, parley.ModelReplied{Call: "c1", Model: "m", Parts: text("Much."), Usage: used(10, 1)}).
		add(t1, "", parley.TurnCompleted{Response: parley.Response{Message: "Much."}, Usage: used(10, 1)})
	all["resources"] = l

	const stopped = "the server stopped while the turn was running"
	l = newTape()
	start(l, t1, "What is the spec?").
		add(t1, in, parley.ModelFailed{Call: "c1", Error: parley.ErrorInfo{Code: "interrupted", Message: "the server stopped while the model was answering"}, Partial: "The", Usage: used(10, 100)}).
		add(t1, "", parley.TurnInterrupted{Reason: stopped, Resumes: true}).
		add(t1, "", parley.TurnResumed{Attempt: 1, Auto: true}).
		add(t1, in, parley.ModelStarted{Call: "c2", Model: "m", Context: "x", Reserved: used(10, 100)}).
		add(t1, in, parley.ModelReplied{Call: "c2", Model: "m", Parts: text("It is done."), Usage: used(10, 4)}).
		add(t1, "", parley.TurnInterrupted{Reason: stopped, Resumes: true}).
		add(t1, "", parley.TurnInterrupted{Reason: stopped + "; the app chaos is off"})
	all["resumed"] = l
	l = newTape()
	start(l, t1, "What is the spec?").
		add(t2, "", parley.TurnQueued{TurnRequest: parley.TurnRequest{Origin: parley.OriginUser, Message: parley.Message{Role: "user", Parts: text("And then?")}}}).
		add(t1, "", parley.TurnInterrupted{Reason: stopped, Resumes: true})
	all["resuming"] = l

	l = newTape()
	l.events = nil
	l.add("", "", parley.SessionCreated{App: "home", User: "local", Memory: parley.MemoryOptions{LastK: 2, SummaryTokens: 100}})
	start(l, t1, "one").
		add(t1, in, parley.ModelReplied{Call: "c1", Model: "m", Parts: text("1"), Usage: used(10, 1)}).
		add(t1, "", parley.TurnCompleted{Response: parley.Response{Message: "1"}, Usage: used(10, 1)})
	summary := "The user counts."
	l.add(t2, "", parley.TurnStarted{TurnRequest: ask("two"), App: "d1"}).
		add(t2, in, parley.AgentStarted{Name: "interface"}).
		add(t2, "interface/memory", parley.AgentStarted{Name: parley.MemoryAgent, Parent: in}).
		add(t2, "interface/memory", parley.ModelStarted{Call: "m1", Model: "m", Context: "x", Reserved: used(10, 100)}).
		add(t2, "interface/memory", parley.ModelFailed{Call: "m1", Error: parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "no answer"}, Partial: "{"}).
		add(t2, "interface/memory", parley.AgentEnded{Outcome: parley.OutcomeError}).
		add(t2, "interface/memory#2", parley.AgentStarted{Name: parley.MemoryAgent, Parent: in}).
		add(t2, "interface/memory#2", parley.ModelStarted{Call: "m2", Model: "m", Context: "x", Reserved: used(10, 100)}).
		add(t2, "interface/memory#2", parley.ModelReplied{Call: "m2", Model: "m", Parts: text("{}"), Usage: used(10, 3)}).
		add(t2, "interface/memory#2", parley.AgentEnded{Outcome: parley.OutcomeOK}).
		add(t2, in, parley.MemoryUpdated{Summary: &summary, Facts: &[]parley.Fact{{Text: "counts", Source: "turn 1", Seq: 6}}, Through: 6, Dropped: 1, By: "memory"}).
		add(t2, in, parley.ContextRetrieved{Snippets: []parley.Snippet{{Source: "index", Ref: "light.x", Text: "on"}}}).
		add(t2, in, parley.ModelStarted{Call: "c2", Model: "m", Context: "x", Reserved: used(10, 100)}).
		add(t2, in, parley.ModelReplied{Call: "c2", Model: "m", Parts: text("2"), Usage: used(10, 1)}).
		add(t2, "", parley.TurnCompleted{Response: parley.Response{Message: "2"}, Usage: used(20, 4)}).
		add("", "", parley.MemoryUpdated{Pins: &[]parley.Pin{{Label: "house", Text: "Ulm"}}, By: "local"})
	all["memory"] = l

	l = newTape()
	start(l, t1, "note it").
		add(t1, in, parley.ModelReplied{Call: "c1", Model: "m", Usage: used(9, 9), Parts: []parley.Part{
			{Type: parley.PartToolCall, Call: "k1", ProviderID: "toolu_1", Name: "Edit", Input: json.RawMessage(`{"file":"a.md"}`)},
		}}).
		add(t1, in, parley.ToolRequested{Call: "k1", Name: "Edit", Input: json.RawMessage(`{"file":"a.md"}`)}).
		add(t1, in, parley.HookRan{Event: "PreToolUse", Name: "guard", Call: "k1", Decision: parley.Allow}).
		add(t1, in, parley.HookRan{Event: "PreToolUse", Name: "style", Call: "k1", Decision: parley.Deny, Reason: "use the lake's form"}).
		add(t1, in, parley.HookRan{Event: "PreToolUse", Name: "broken", Call: "k1", Error: &parley.ErrorInfo{Code: parley.CodeTool, Message: "exit code 1"}}).
		add(t1, in, parley.FilesAnnounced{Call: "k1", Paths: []string{"a.md"}}).
		add(t1, in, parley.ToolStarted{Call: "k1", Name: "Edit", Input: json.RawMessage(`{"file":"a.md"}`), Effect: parley.EffectWrite, Deadline: day.Add(time.Minute), Attempt: 1, Run: parley.RunRuntime}).
		add(t1, in, parley.InteractionOpened{Interaction: parley.Interaction{
			ID: "01JINTER000000000000000001", Session: l.session, Turn: t1, Agent: in, Kind: parley.KindQuestion, Call: "k1", Key: "which", Tool: "Edit",
			Title: "Which one?", OpenedAt: day,
		}}).
		add(t1, in, parley.InteractionAnswered{ID: "01JINTER000000000000000001", Answer: parley.Answer{Choice: parley.ChoiceAnswered}, By: "local"}).
		add(t1, in, parley.FilesSaved{Call: "k1", Files: []parley.FileSaved{{Path: "a.md", Before: "d1", After: "d2"}, {Path: "b.md", After: "d3"}}}).
		add(t1, in, parley.ToolEnded{Name: "Edit", Effect: parley.EffectWrite, ToolResult: parley.ToolResult{Call: "k1", Outcome: parley.OutcomeOK, Output: "saved"}}).
		add(t1, in, parley.RuntimeNoted{Kind: "restarted", Text: "the program stopped and was started again", Data: json.RawMessage(`{"exit":1}`)}).
		add(t1, "", parley.RuntimeKept{Runtime: "cli", SHA256: "d4", Size: 100, Entry: "e9"}).
		add(t1, "", parley.TurnCompleted{Response: parley.Response{Message: "Noted."}, Usage: used(9, 9)}).
		add(t2, "", parley.TurnStarted{TurnRequest: parley.TurnRequest{Origin: parley.OriginRuntime, Message: parley.Message{Role: "user", Parts: text("the build has ended")}}, App: "d1"}).
		add(t2, in, parley.AgentStarted{Name: "interface"}).
		add(t2, "", parley.TurnFailed{Error: parley.ErrorInfo{Code: parley.CodeModel, Message: "no"}})
	all["runtime"] = l

	l = newTape()
	sampling(l)
	all["sampling"] = l

	l = newTape()
	subAgents(l)
	all["sub-agents"] = l

	l = newTape()
	rewoundLog(t, l)
	all["rewound"] = l

	l = newTape()
	demo(l, answer)
	l.session = "01JSESSION0000000000000002"
	l.add("", "", parley.SessionForked{Parent: "01JSESSION0000000000000001", At: 5, Title: "Fork of Login", By: "local"}).
		add("", "", parley.SessionEnded{Status: parley.Ended, Reason: "done", By: "local"})
	all["forked-ended"] = l

	out := map[string][]parley.Event{}
	for name, l := range all {
		out[name] = l.events
	}
	return out
}

// sampling is a turn in which the server of a tool gets two replies of the model, and a third
// call fails. The write that it is for goes on.
func sampling(l *tape) {
	input := json.RawMessage(`{"about":"tides"}`)
	at := in.Sampling("deep")
	asks := func(key, text string) parley.ModelStarted {
		return parley.ModelStarted{Call: parley.CallID("s" + key), Model: "m", Reserved: used(20, 50), For: &parley.Sampling{
			Call: "k1", Key: "model-" + key, Server: "deep", System: "Be brief.", Messages: []parley.Message{parley.Text(parley.RoleUser, text)}, MaxTokens: 50,
		}}
	}
	start(l, t1, "look into tides").
		add(t1, in, parley.ModelReplied{Call: "c1", Model: "m", Usage: used(9, 9), Parts: []parley.Part{{Type: parley.PartToolCall, Call: "k1", Name: "mcp__deep__study", Input: input}}}).
		add(t1, in, parley.ToolRequested{Call: "k1", Name: "mcp__deep__study", Input: input}).
		add(t1, in, parley.ToolStarted{Call: "k1", Name: "mcp__deep__study", Input: input, Effect: parley.EffectWrite, Deadline: day.Add(time.Minute), Attempt: 1}).
		add(t1, in, parley.InteractionOpened{Interaction: parley.Interaction{
			ID: "01JINTER000000000000000001", Session: l.session, Turn: t1, Agent: in, Kind: parley.KindQuestion, Call: "k1", Key: "model-1", Tool: "mcp__deep__study", Sampling: "deep",
			Title: "deep asks for a reply from the model", Text: "As the user:\n> What makes tides?\n", Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny}, OpenedAt: day,
			Questions: []parley.Question{{Header: "Allow", Question: "May deep have the model's reply?", Options: []parley.Option{{Label: parley.SamplingOnce}, {Label: parley.SamplingSession}}}},
		}}).
		add(t1, in, parley.InteractionAnswered{ID: "01JINTER000000000000000001", Answer: parley.Answer{
			Choice: parley.ChoiceAnswered, Answers: map[string]string{"May deep have the model's reply?": parley.SamplingSession},
		}, By: "local"}).
		add("", "", parley.SessionUpdated{Rules: &[]parley.Rule{{Verdict: parley.Allow, Tool: parley.SamplingRule("deep"), Reason: "allowed for this session by local"}}, By: "local"}).
		add(t1, at, asks("1", "What makes tides?")).
		add(t1, at, parley.ModelReplied{Call: "s1", Model: "m", Usage: used(12, 4), Parts: text("The moon."), StopReason: "end_turn"}).
		add(t1, at, asks("2", "And the sun?")).
		add(t1, at, parley.ModelFailed{Call: "s2", Usage: used(20, 50), Error: parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "overloaded"}}).
		add(t1, at, asks("3", "And the sun, again?"))
}

// subAgents is a turn whose agent has two others look something up at once. One of them
// asks a human while the other goes on, and then runs in the background.
func subAgents(l *tape) {
	one, two := in+"/researcher", in+"/researcher#2"
	task := func(call parley.CallID, prompt string, background bool) (parley.Part, parley.ToolRequested, parley.ToolStarted) {
		input, err := json.Marshal(map[string]any{"subagent_type": "researcher", "prompt": prompt, "run_in_background": background})
		if err != nil {
			panic(err)
		}
		return parley.Part{Type: parley.PartToolCall, Call: call, Name: "Task", Input: input},
			parley.ToolRequested{Call: call, Name: "Task", Input: input},
			parley.ToolStarted{Call: call, Name: "Task", Input: input, Effect: parley.EffectRead, Deadline: day.Add(time.Minute), Attempt: 1}
	}
	p1, r1, s1 := task("k1", "Read Notion.", false)
	p2, r2, s2 := task("k2", "Read Slack.", true)
	asked := parley.Interaction{ID: "01JINTER000000000000000009", Agent: one, Kind: parley.KindPermission, Call: "k3", Tool: "mail", Title: "Allow mail?", Choices: []string{"allow", "deny"}}
	start(l, t1, "What do Notion and Slack say?").
		add(t1, in, parley.ModelReplied{Call: "c1", Model: "m", Parts: []parley.Part{p1, p2}, Usage: used(10, 4)}).
		add(t1, in, r1).
		add(t1, in, r2).
		add(t1, in, s1).
		add(t1, one, parley.AgentStarted{Name: "researcher", Parent: in, Call: "k1", Input: "Read Notion.", Title: "Notion"}).
		add(t1, in, s2).
		add(t1, two, parley.AgentStarted{Name: "researcher", Parent: in, Call: "k2", Input: "Read Slack.", Title: "Slack", Background: true}).
		add(t1, in, parley.ToolEnded{Name: "Task", Effect: parley.EffectRead, ToolResult: parley.ToolResult{Call: "k2", Outcome: parley.OutcomeOK, Output: "started"}}).
		add(t1, one, parley.ModelStarted{Call: "c2", Model: "m", Context: "x", Reserved: used(10, 100)}).
		add(t1, two, parley.ModelStarted{Call: "c3", Model: "m", Context: "x", Reserved: used(10, 100)}).
		add(t1, one, parley.ModelReplied{Call: "c2", Model: "m", Usage: used(10, 4), Parts: []parley.Part{{Type: parley.PartToolCall, Call: "k3", Name: "mail", Input: json.RawMessage(`{}`)}}}).
		add(t1, one, parley.ToolRequested{Call: "k3", Name: "mail", Input: json.RawMessage(`{}`)}).
		add(t1, one, parley.InteractionOpened{Interaction: asked}).
		add(t1, two, parley.TurnSteered{Message: parley.Message{Role: "user", Parts: text("Only this year.")}}).
		add(t1, two, parley.ModelFailed{Call: "c3", Error: parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "busy"}, Retry: true, Fallback: "n", Usage: used(10, 0)}).
		add(t1, two, parley.ModelStarted{Call: "c4", Model: "n", Context: "x", Reserved: used(10, 100)})
}

func ptr[T any](v T) *T { return &v }

func withRetry(r parley.TurnRequest, of parley.TurnID) parley.TurnRequest {
	r.RetryOf = of
	return r
}

func start(l *tape, turn parley.TurnID, message string) *tape {
	return l.add(turn, "", parley.TurnStarted{TurnRequest: ask(message), App: "d1"}).
		add(turn, in, parley.AgentStarted{Name: "interface"}).
		add(turn, in, parley.ModelStarted{Call: "c1", Model: "m", Context: "x", Reserved: used(10, 100)})
}

// demo is the first question of seed 004.
func demo(l *tape, answer string) {
	start(l, t1, "I'm starting on the login system. What's the final spec?").
		add(t1, in, parley.ModelReplied{Call: "c1", Model: "scripted/chaos", Usage: used(10, 4), Parts: []parley.Part{{Type: parley.PartHandoff, Call: "h1", Name: "scavenger", Text: "fresh data"}}}).
		add(t1, in, parley.AgentHandoff{From: in, To: scav, Name: "scavenger", Why: "fresh data", Call: "h1"}).
		add(t1, scav, parley.ModelStarted{Call: "c2", Model: "scripted/chaos", Context: "x", Reserved: used(10, 100)}).
		add(t1, scav, parley.ModelReplied{Call: "c2", Model: "scripted/chaos", Usage: used(10, 4), Parts: []parley.Part{
			{Type: parley.PartToolCall, Call: "k1", Name: "read_notion_mock", Input: json.RawMessage(`{"query":"login system"}`)},
			{Type: parley.PartToolCall, Call: "k2", Name: "read_slack_mock", Input: json.RawMessage(`{"query":"login system"}`)},
		}}).
		add(t1, scav, parley.ToolRequested{Call: "k1", Name: "read_notion_mock", Input: json.RawMessage(`{"query":"login system"}`)}).
		add(t1, scav, parley.ToolRequested{Call: "k2", Name: "read_slack_mock", Input: json.RawMessage(`{"query":"login system"}`)}).
		add(t1, scav, parley.ToolStarted{Call: "k1", Name: "read_notion_mock", Input: json.RawMessage(`{"query":"login system"}`), Effect: parley.EffectRead, Deadline: day.Add(time.Minute), Attempt: 1}).
		add(t1, scav, parley.ToolStarted{Call: "k2", Name: "read_slack_mock", Input: json.RawMessage(`{"query":"login system"}`), Effect: parley.EffectRead, Deadline: day.Add(time.Minute), Attempt: 1}).
		add(t1, scav, parley.ToolEnded{Name: "read_notion_mock", Effect: parley.EffectRead, ToolResult: parley.ToolResult{Call: "k1", Outcome: parley.OutcomeOK, Output: "[Notion | MVP Authentication Specs | Last updated: 2026-01-15] …"}}).
		add(t1, scav, parley.ToolEnded{Name: "read_slack_mock", Effect: parley.EffectRead, ToolResult: parley.ToolResult{Call: "k2", Outcome: parley.OutcomeOK, Output: "[Slack | #engineering | CEO | 2026-02-27] …"}}).
		add(t1, scav, parley.ModelStarted{Call: "c3", Model: "scripted/chaos", Context: "x", Reserved: used(10, 100)}).
		add(t1, scav, parley.ModelReplied{Call: "c3", Model: "scripted/chaos", Usage: used(10, 4), Parts: []parley.Part{{Type: parley.PartHandoff, Call: "h2", Name: "synthesizer"}}}).
		add(t1, scav, parley.AgentHandoff{From: scav, To: synth, Name: "synthesizer", Call: "h2"}).
		add(t1, synth, parley.ModelStarted{Call: "c4", Model: "scripted/chaos", Context: "x", Reserved: used(10, 100)}).
		add(t1, synth, parley.ModelReplied{Call: "c4", Model: "scripted/chaos", Usage: used(10, 9), Parts: []parley.Part{
			{Type: parley.PartText, Text: "Source of Truth: Google OAuth."}, {Type: parley.PartHandoff, Call: "h3", Name: "interface"},
		}}).
		add(t1, synth, parley.AgentHandoff{From: synth, To: in, Name: "interface", Call: "h3"}).
		add(t1, in, parley.ModelStarted{Call: "c5", Model: "scripted/chaos", Context: "x", Reserved: used(10, 100)}).
		add(t1, in, parley.ModelReplied{Call: "c5", Model: "scripted/chaos", Usage: used(10, 20), Parts: text(answer)}).
		add(t1, "", parley.TurnCompleted{Response: parley.Response{Message: answer}, Usage: used(50, 41)})
}
