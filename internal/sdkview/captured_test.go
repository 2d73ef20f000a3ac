package sdkview_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/sdkview"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/claudecli"
	"github.com/parley-server/parley/internal/task"
	"github.com/parley-server/parley/internal/tool/ask"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/wire"
)

// actor is a model that follows the scripts in the prompts of the transcripts.
type actor struct{}

func (actor) Model(string) (seam.Model, error) { return actor{}, nil }
func (actor) Names() []string                  { return []string{"test/model"} }
func (actor) Info() seam.ModelInfo {
	return seam.ModelInfo{Name: "test/model", Provider: "test", ContextTokens: 100_000, MaxOutputTokens: 1000, InputUSD: 3, OutputUSD: 15}
}

func (actor) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		step, script := 0, []claudecli.Step{{Block: claudecli.Block{Text: "ok"}}}
		for _, m := range r.Messages {
			text := m.Text()
			if _, s, ok := strings.Cut(text, "FAKE-SCRIPT "); ok && m.Role == parley.RoleUser {
				step, script = 0, nil
				if err := json.NewDecoder(strings.NewReader(s)).Decode(&script); err != nil {
					yield(seam.ModelDelta{}, err)
					return
				}
			} else if m.Role == parley.RoleAssistant {
				step++
			}
		}
		s := script[min(step, len(script)-1)]
		blocks := s.Blocks
		if len(blocks) == 0 {
			blocks = []claudecli.Block{s.Block}
		}
		reply := seam.Reply{StopReason: "end_turn", Model: "test/model", Usage: parley.Usage{InputTokens: 100, OutputTokens: 20}}
		for _, b := range blocks {
			switch {
			case b.Tool != "":
				name := b.Tool
				if name == "Agent" {
					name = "Task"
				}
				reply.StopReason = "tool_use"
				reply.Parts = append(reply.Parts, parley.Part{Type: parley.PartToolCall, Name: name, Input: b.Input})
			case b.Thinking != "":
				reply.Parts = append(reply.Parts, parley.Part{Type: parley.PartThinking, Text: b.Thinking})
				if !yield(seam.ModelDelta{Thinking: b.Thinking}, nil) {
					return
				}
			default:
				reply.Parts = append(reply.Parts, parley.Part{Type: parley.PartText, Text: b.Text})
				for _, w := range strings.SplitAfter(b.Text, " ") {
					if !yield(seam.ModelDelta{Text: w}, nil) {
						return
					}
					pause(ctx)
					if s.Chunks > 20 { // it talks for long, and is interrupted
						<-ctx.Done()
						yield(seam.ModelDelta{}, context.Cause(ctx))
						return
					}
				}
			}
		}
		yield(seam.ModelDelta{Reply: &reply}, nil)
	}
}

// pause lets others go on for a while.
func pause(ctx context.Context) {
	wait := time.NewTimer(100 * time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

// tools are those of the CLI that the scripts call.
type tools struct{}

func (tools) Tools(context.Context) ([]parley.ToolDecl, error) {
	var list []parley.ToolDecl
	for name, effect := range map[string]parley.Effect{"Read": parley.EffectRead, "Write": parley.EffectWrite, "Bash": parley.EffectWrite} {
		list = append(list, parley.ToolDecl{Name: name, Description: "The tool " + name + ".", Effect: effect, InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	slices.SortFunc(list, func(a, b parley.ToolDecl) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (tools) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	if strings.Contains(string(r.Input), "sleep 30") {
		<-ctx.Done()
		return parley.ToolResult{}, context.Cause(ctx)
	}
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "done", Data: json.RawMessage(`{"done":true}`)}, nil
}

func app(change ...func(*parley.App)) parley.App {
	return enginetest.App(append([]func(*parley.App){func(a *parley.App) {
		decls, _ := tools{}.Tools(context.Background())
		questions, _ := ask.New().Tools(context.Background())
		a.Agents = map[string]parley.AgentDef{
			"lead":   {Name: "lead", Prompt: "Be useful.", Tools: []string{"Read", "Write", "Bash", ask.Tool, "Task"}},
			"helper": {Name: "helper", Description: "Helps.", Prompt: "Help.", Tools: []string{"Write"}, AsTool: true},
		}
		a.Tools = append(decls, questions...)
		a.Tools = append(a.Tools, task.Decls(*a)...)
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Allow, Tool: "Read"}, {Verdict: parley.Ask, Tool: "Write"}, {Verdict: parley.Ask, Tool: "Bash"}}
		a.Budgets.MaxToolCalls = 50
	}}, change...)...)
}

func rig(t *testing.T, a parley.App) *enginetest.Rig {
	return enginetest.New(t, enginetest.Echo, a, func(o *engine.Options) {
		box, err := toolbox.New([]seam.Toolset{tools{}, ask.New()}, toolbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o.Models, o.Runtimes, o.Tools = actor{}, enginetest.Loop(actor{}), map[string]*toolbox.Box{a.Name: box}
	})
}

// drive plays the turns of a transcript's host.
func drive(t *testing.T, r *enginetest.Rig, name string) parley.SessionID {
	return driveFrom(t, r, name, func(parley.SessionID) {})
}

// driveFrom tells begun the session before its first turn.
func driveFrom(t *testing.T, r *enginetest.Rig, name string, begun func(parley.SessionID)) parley.SessionID {
	t.Helper()
	ctx := t.Context()
	s := r.Session()
	begun(s.ID)
	c, err := claudecli.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, prompt := range c.Prompts("/workspace") {
		turn := r.Send(s.ID, prompt)
		await(ctx, r, turn.ID)
		for round := 0; ; round++ {
			if round > 30 {
				t.Fatalf("%s: the turn does not end", name)
			}
			now, err := r.Engine.Turn(ctx, enginetest.User, turn.ID)
			if err != nil {
				t.Fatal(err)
			}
			if now.Status.Ended() {
				break
			}
			if now.Status != parley.StatusWaiting || strings.Contains(name, "interrupt-permission") {
				if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "stopped"); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Engine.Await(ctx, enginetest.User, turn.ID, 10*time.Minute); err != nil { // a write runs until its deadline
					t.Fatal(err)
				}
				continue
			}
			for _, id := range now.Interactions {
				i, err := r.Engine.Interaction(ctx, enginetest.User, id)
				if err != nil {
					t.Fatal(err)
				}
				a := parley.Answer{Choice: parley.ChoiceAllow}
				switch {
				case strings.Contains(name, "deny"):
					a = parley.Answer{Choice: parley.ChoiceDeny, Text: "no"}
				case i.Kind == parley.KindQuestion:
					a = parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{}}
					for _, q := range i.Questions {
						a.Answers[q.Question] = q.Options[0].Label
					}
				}
				if _, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: a}); err != nil {
					t.Fatal(err)
				}
			}
			await(ctx, r, turn.ID)
		}
	}
	return s.ID
}

// await waits until a turn has ended, or waits for a human or for being stopped.
func await(ctx context.Context, r *enginetest.Rig, id parley.TurnID) {
	_, _ = r.Engine.Await(ctx, enginetest.User, id, 20*time.Second) // what became of it is looked at
}

// turnsOf has a mark for each turn of a transcript.
func turnsOf(t *testing.T, name string) string {
	c, err := claudecli.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Repeat("\x00", len(c.Prompts("")))
}

func jsonUnmarshal(raw string, v any) error { return json.Unmarshal([]byte(raw), v) }

// shown are the messages of a view over frames.
func shown(e sdkview.Encoder, frames []eventlog.Frame) (list []wire.Message) {
	for _, f := range frames {
		e.Encode(f, func(m wire.Message) {
			m.Data = slices.Clone(m.Data)
			list = append(list, m)
		})
	}
	return list
}

func events(log []parley.Event) []eventlog.Frame {
	var frames []eventlog.Frame
	for i := range log {
		frames = append(frames, eventlog.Frame{Event: &log[i]})
	}
	return frames
}

func options(t *testing.T, r *enginetest.Rig, id parley.SessionID) sdkview.Options {
	return sdkview.Options{Session: id, Deltas: true, Version: "1", App: func(d parley.Digest) (a parley.App, err error) {
		body, err := r.Store.Blob(t.Context(), enginetest.User, id, d)
		if err == nil {
			err = json.Unmarshal(body, &a)
		}
		return a, err
	}}
}

// nameOf is the type of a message, with its subtype or its event.
func nameOf(m map[string]any) string {
	name := fmt.Sprint(m["type"])
	if s, ok := m["subtype"].(string); ok && name != "result" {
		name += "." + s
	}
	if s, ok := m["status"].(string); ok {
		name += "." + s
	}
	if e, ok := m["event"].(map[string]any); ok {
		name += fmt.Sprint(".", e["type"])
	}
	if m["isReplay"] == true {
		name += ".replay"
	}
	if m["parent_tool_use_id"] != nil {
		name += ".sub"
		if c, ok := m["message"].(map[string]any)["content"].([]any); ok && name == "user.sub" {
			name += fmt.Sprint(".", c[0].(map[string]any)["type"])
		}
	}
	return name
}

func decoded(t *testing.T, raw []byte) map[string]any {
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return m
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case bool:
		return "bool"
	case float64, json.Number:
		return "number"
	case []any:
		return "list"
	}
	return "object"
}

// compare notes what differs in the shape of two values.
func compare(at string, want, got any, note func(string)) {
	if w, g := kindOf(want), kindOf(got); w != g {
		note(at + ": " + w + " there, " + g + " here")
		return
	}
	switch want := want.(type) {
	case map[string]any:
		got := got.(map[string]any)
		for k, v := range want {
			if free[at] {
				continue
			}
			if _, ok := got[k]; !ok {
				note(at + "." + k + ": not here")
				continue
			}
			compare(at+"."+k, v, got[k], note)
		}
		for k := range got {
			if _, ok := want[k]; !ok && !free[at] {
				note(at + "." + k + ": only here")
			}
		}
		if free[at] && len(want) > 0 && len(got) > 0 && strings.HasSuffix(at, "modelUsage") {
			for _, w := range want {
				for _, g := range got {
					compare(at+".*", w, g, note)
				}
			}
		}
	case []any:
		if got := got.([]any); len(want) > 0 && len(got) > 0 {
			compare(at+"[]", want[0], got[0], note)
		}
	}
}

// free are objects whose fields are the tool's or the model's affair.
var free = map[string]bool{
	"user.tool_use_result": true, "assistant.message.content[].input": true, "result.modelUsage": true,
	"stream_event.content_block_start.event.content_block.input": true,
}

// What the view makes of turns like those of the transcripts has the messages
// of the transcripts in their order, and their fields. What differs is in this table, with the reason.
func TestCaptured(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, name := range []string{
		"01-simple-partial", "02-no-partial", "03-permission-allow", "06-ask-user-question", "07-interrupt-stream", "08-interrupt-tool", "09-interrupt-permission",
		"26-subagent",
	} {
		c, err := claudecli.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		var there, here []map[string]any
		for _, e := range c.Entries {
			if raw, _ := json.Marshal(e.Line); !e.In {
				there = append(there, decoded(t, raw))
			}
		}
		synctest.Test(t, func(t *testing.T) {
			r := rig(t, app())
			defer r.Close()
			id := drive(t, r, name)
			o := options(t, r, id)
			o.Deltas = strings.Contains(c.Args, "--include-partial-messages")
			for _, m := range shown(sdkview.NewSDK(o), events(r.Log(id))) {
				here = append(here, decoded(t, m.Data))
			}
		})
		pick := func(all []map[string]any) (list []map[string]any, names []string) {
			for _, m := range all {
				n := nameOf(m)
				if slices.Contains(names, n) && strings.HasSuffix(n, "content_block_delta") && names[len(names)-1] == n || outside(n, c) {
					continue
				}
				list, names = append(list, m), append(names, n)
			}
			return list, names
		}
		wants, wantNames := pick(there)
		gots, gotNames := pick(here)
		if name == "26-subagent" { // which runs beside its caller, so the order is a matter of chance
			first := func(all []map[string]any, names []string) (list []map[string]any, kinds []string) {
				kinds = slices.Compact(slices.Sorted(slices.Values(names)))
				for _, n := range kinds {
					list = append(list, all[slices.Index(names, n)])
				}
				return list, kinds
			}
			wants, wantNames = first(wants, wantNames)
			gots, gotNames = first(gots, gotNames)
		}
		if diff := cmp.Diff(wantNames, gotNames); diff != "" {
			t.Errorf("%s (-CLI +view):\n%s", name, diff)
			continue
		}
		for i := range wants {
			compare(wantNames[i], wants[i], gots[i], func(d string) { seen[general(d)] = true })
		}
	}
	// Messages that no scripted turn brings about, one by one.
	var rare []map[string]any
	for _, m := range shown(sdkview.NewSDK(sdkview.Options{Session: "01SESSION", Deltas: true}), events(others())) {
		rare = append(rare, decoded(t, m.Data))
	}
	for from, subtype := range map[string]string{
		"29-slash": "compact_boundary", "31-settings-skills-a-all": "hook_response", "31-settings-skills-d-skills-filter": "hook_started", "14-max-turns": "error_max_turns",
	} {
		c, err := claudecli.Load(from)
		if err != nil {
			t.Fatal(err)
		}
		first := func(all []map[string]any) map[string]any {
			at := slices.IndexFunc(all, func(m map[string]any) bool { return m["subtype"] == subtype })
			if at < 0 {
				t.Fatalf("%s: no %s", from, subtype)
			}
			return all[at]
		}
		var there []map[string]any
		for _, e := range c.Entries {
			if raw, _ := json.Marshal(e.Line); !e.In {
				there = append(there, decoded(t, raw))
			}
		}
		want := first(there)
		compare(nameOf(want), want, first(rare), func(d string) { seen[general(d)] = true })
	}
	for d := range seen {
		if differences[d] == "" {
			t.Errorf("a difference without a reason: %s", d)
		}
	}
	for d := range differences {
		if !seen[d] {
			t.Errorf("a reason without a difference: %s", d)
		}
	}
}

// general is a difference with what applies to all events of a stream said once.
func general(d string) string {
	if rest, ok := strings.CutPrefix(d, "stream_event."); ok {
		_, rest, _ = strings.Cut(rest, ".")
		d = "stream_event.*." + rest
	}
	d = strings.Replace(d, ".sub.text.", ".sub.", 1)
	if at, ok := strings.CutSuffix(d, ": only here"); ok && (strings.Contains(at, ".message.") || strings.Contains(at, ".event.")) {
		return d[strings.LastIndex(at, ".")+1:] // of the Messages API, wherever it is
	}
	return d
}

// outside reports whether messages of a type are left out of the comparison.
func outside(name string, c *claudecli.Transcript) bool {
	switch {
	case strings.HasPrefix(name, "control_"), name == "command_lifecycle":
		return true // between the CLI and its host, no messages of the SDK
	case name == "user.replay":
		return !strings.Contains(c.Args, "--replay-user-messages") // always here: others may have said it
	case name == "system.session_state_changed":
		return !strings.Contains(c.Env, "SESSION_STATE") // always here
	case name == "system.thinking_tokens":
		return true // an estimate that nobody makes here
	case name == "system.task_progress", name == "system.task_updated", name == "system.background_tasks_changed":
		return true // how far a task is, is not in the log
	}
	return false
}

// differences are those between what the CLI wrote and the view, each with its reason.
var differences = func() map[string]string {
	all := map[string]string{}
	for reason, list := range map[string][]string{
		"no published type of the SDK has it": {
			"system.init.analytics_disabled", "system.init.product_feedback_disabled", "system.init.served_by_anthropic", "system.init.messaging_socket_path",
			"system.init.original_cwd", "system.init.additional_directories", "system.init.per_turn_effort_active", "system.init.ultrathink_available",
			"system.init.ultrathink_typed_raises", "system.init.view_mode", "system.init.user_message_uuids", "system.status.requesting.user_message_uuids",
			"stream_event.*.api_message_id", "stream_event.*.thinking_display", "stream_event.*.owed_rows", "stream_event.*.abandoned_blocks",
			"assistant.thinking_duration_ms", "assistant.thinking_display", "user.tool_result_meta", "user.sub.tool_result.tool_result_meta",
			"result.subagent_stats", "result.safety_stops", "result.result_index", "result.model_usage_since_last_result", "system.session_state_changed.sdk_host_only",
			"system.compact_boundary.logical_parent_uuid", "system.compact_boundary.compact_metadata.cumulative_dropped_tokens",
		},
		"what the CLI itself can do, which a program has no use for": {
			"system.init.terminal_slash_commands", "system.init.capabilities", "system.init.memory_paths", "system.init.fast_mode_state", "system.init.fast_mode_disabled_reason",
			"result.fast_mode_state", "result.fast_mode_disabled_reason",
		},
		"a time that the log does not have": {
			"stream_event.*.ttft_ms", "result.ttft_stream_ms", "result.first_content_frame_ms", "result.time_to_request_ms",
			"system.compact_boundary.compact_metadata.duration_ms",
		},
		"the provider's own, which no adapter keeps": {
			"result.modelUsage.*.cacheCreationEphemeral1hInputTokens", "result.modelUsage.*.cacheCreationEphemeral5mInputTokens", "result.modelUsage.*.provider",
			"result.modelUsage.*.costBasis", "result.modelUsage.*.canonicalModel", "assistant.request_id", "assistant.sub.request_id",
		},
		"the result names the message, once a turn": {
			"assistant.user_message_uuid", "assistant.user_message_uuids", "stream_event.*.user_message_uuid", "stream_event.*.user_message_uuids",
		},
		"a number that would be another one by the time it is read": {"result.queued_turn_count"},
		"a hook may be no program":                                  {"system.hook_response.exit_code"},
		"false is left out":                                         {"user.message.content[].is_error"},
		"a sub-agent is no process":                                 {"system.task_started.run_id", "system.task_started.spawn_depth", "system.task_notification.completed.run_id"},
		"the turn's result has it":                                  {"system.task_notification.completed.usage"},
	} {
		for _, at := range list {
			all[at+": not here"] = reason
		}
	}
	tool := "a tool's result is what that tool returns"
	all["user.message.content[].content: list there, text here"] = tool
	all["user.tool_use_result: text there, object here"] = tool
	all["user.tool_use_result: object there, text here"] = tool
	for _, name := range []string{
		"container", "diagnostics", "stop_details", "context_management", "citations", "estimated_tokens", "output_tokens_details", "server_tool_use", "service_tier",
		"cache_creation", "inference_geo", "iterations", "speed", "fallback_credit",
	} {
		all[name+": only here"] = "the types of the Messages API require it, and the API of the captures left it out"
	}
	all["result.user_message_uuid: only here"] = "every message has a uuid here"
	all["result.user_message_uuids: only here"] = "every message has a uuid here"
	all["user.sub.tool_result.tool_use_result: only here"] = "results of a sub-agent are like all others"
	return all
}()
