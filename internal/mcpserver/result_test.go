package mcpserver_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/toolbox"
)

// meter is a toolset: one tool returns structured data, the other a result too long for the log.
type meter struct{}

func (meter) Tools(context.Context) ([]parley.ToolDecl, error) {
	in := json.RawMessage(`{"type":"object"}`)
	return []parley.ToolDecl{
		{Name: "measure", Description: "Measure.", InputSchema: in, Effect: parley.EffectRead, OutputSchema: json.RawMessage(`{"type":"object","properties":{"volts":{"type":"number"}},"required":["volts"]}`)},
		{Name: "history", Description: "All of it.", InputSchema: in, Effect: parley.EffectRead, OutputLimit: 1000},
	}, nil
}

func (meter) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	if r.Name == "measure" {
		return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "230 V", Data: json.RawMessage(`{"volts":230}`)}, nil
	}
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: strings.Repeat("230 V\n", 1000)}, nil
}

func metered(t *testing.T) (parley.App, func(*engine.Options)) {
	t.Helper()
	box, err := toolbox.New([]seam.Toolset{meter{}}, toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	app := enginetest.App(func(a *parley.App) {
		a.Tools = box.Decls()
		lead := a.Agents["lead"]
		lead.Tools = []string{"measure", "history"}
		a.Agents = map[string]parley.AgentDef{"lead": lead}
	})
	return app, func(o *engine.Options) { o.Tools["test"] = box }
}

// TestResult_of_a_failure: an error has the one shape, whether a tool or the server refuses. What a tool has said
// besides follows.
func TestResult_of_a_failure(t *testing.T) {
	t.Parallel()
	no := &parley.ErrorInfo{Code: parley.CodeConflict, Message: "no", Hint: "ask later", Field: "path"}
	const shape = `{"error":{"code":"conflict","message":"no","hint":"ask later","field":"path"}}`
	for _, c := range []struct {
		res  parley.ToolResult
		want []string
	}{
		{parley.ToolResult{Outcome: parley.OutcomeError, Error: no}, []string{shape}},
		{parley.ToolResult{Outcome: parley.OutcomeError, Error: no, Output: "no"}, []string{shape}},
		{parley.ToolResult{Outcome: parley.OutcomeError, Error: no, Output: "no; ask later"}, []string{shape}},
		{parley.ToolResult{Outcome: parley.OutcomeError, Error: no, Output: "no\nask later\n"}, []string{shape}},
		{parley.ToolResult{Outcome: parley.OutcomeError, Error: no, Output: "no such file\nexit code 2"}, []string{shape, "no such file\nexit code 2"}},
		{parley.ToolResult{Outcome: parley.OutcomeUnknown, Error: no, Output: "no.\nIt is not known whether it took effect."}, []string{shape, "no.\nIt is not known whether it took effect."}},
		{parley.ToolResult{Outcome: parley.OutcomeError, Output: "broken\nat line 3"}, []string{`{"error":{"code":"tool_error","message":"broken"}}`, "broken\nat line 3"}},
		{parley.ToolResult{Outcome: parley.OutcomeDenied, Output: "not here"}, []string{`{"error":{"code":"forbidden","message":"not here"}}`}},
		{parley.ToolResult{Outcome: parley.OutcomeCancelled}, []string{`{"error":{"code":"cancelled","message":"the call failed"}}`}},
	} {
		res := mcpserver.Result(c.res, true)
		var got []string
		for _, part := range res.Content {
			got = append(got, part.(*mcp.TextContent).Text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || !res.IsError {
			t.Errorf("%+v: %s", c.res, diff)
		}
	}
}

func TestResults(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		app, change := metered(t)
		model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if len(enginetest.Results(r)) > 0 {
				say("seen")
				return seam.Reply{}, nil
			}
			return seam.Reply{Parts: []parley.Part{enginetest.Call("history", map[string]any{})}}, nil
		}
		h := houseOf(t, enginetest.New(t, model, app, change), app)
		c := h.host(era, "", nil)
		if got := c.call("measure", nil); !cmp.Equal(got, map[string]any{"volts": 230.0}) {
			t.Errorf("structured: %v", got)
		}
		whole := strings.Repeat("230 V\n", 1000)
		linked := func(res *mcp.CallToolResult) {
			t.Helper()
			l, ok := res.Content[len(res.Content)-1].(*mcp.ResourceLink)
			if !ok || *l.Size != int64(len(whole)) {
				t.Fatalf("no link to the whole: %+v", res.Content)
			}
			read, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: l.URI})
			if err != nil || read.Contents[0].Text != whole {
				t.Errorf("the artifact has changed: %v", err)
			}
			if _, err := h.host(era, "ben", nil).ReadResource(t.Context(), &mcp.ReadResourceParams{URI: l.URI}); err == nil {
				t.Error("ben reads it")
			}
		}
		direct, text := c.try("history", nil)
		if len(text) >= len(whole) {
			t.Errorf("the preview has %d bytes", len(text))
		}
		linked(direct)
		res, _ := c.try("test.ask", args{"message": "x"})
		linked(res)
		refs := res.StructuredContent.(map[string]any)["artifacts"].([]any)
		ref := refs[0].(map[string]any)
		if want := "/v1/artifacts/" + ref["id"].(string); ref["path"] != want || ref["type"] == "" {
			t.Errorf("got %v", ref)
		}
	})
}

// TestResumeAfterACrash: after a crash the turn is interrupted. The resume tool continues it, and
// completed calls are not made again.
func TestResumeAfterACrash(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		app := enginetest.App()
		again := make(chan struct{}) // closed when the call has ended and the model is asked again
		first := enginetest.New(t, func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if len(enginetest.Results(r)) == 0 {
				return mailer(ctx, r, say)
			}
			close(again)
			<-ctx.Done() // the crash comes during this call
			return seam.Reply{}, ctx.Err()
		}, app)
		s := first.Session()
		turn := first.Send(s.ID, "mail").ID
		<-again
		first.Kill()
		first.Mem.SetFaults(mem.Faults{})
		second := enginetest.Over(t, first.Store, first.Service, mailer, app)
		if _, err := second.Engine.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := houseOf(t, second, app).host(era, "", nil)
		if got := c.call("test.await_continuation", args{"continuation_id": turn}); got["status"] != "interrupted" {
			t.Errorf("after the crash: %v", got)
		}
		got := c.call("test.resume", args{"continuation_id": turn})
		if diff := cmp.Diff(map[string]any{"status": "completed", "response": map[string]any{"finalMessage": "done: mailed hi"}}, got); diff != "" {
			t.Error(diff)
		}
		if _, _, mails := second.Service.Counts(); mails != 1 {
			t.Errorf("%d mails", mails)
		}
	})
}

// TestAwaitThroughACrash: await_continuation comes while a turn is interrupted that will be resumed
// automatically. It waits for the turn's end.
func TestAwaitThroughACrash(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		app := enginetest.App(func(a *parley.App) { a.Resume = parley.ResumeAuto })
		asked := make(chan struct{}, 8)
		hangs := func(ctx context.Context, _ seam.Request, _ func(string)) (seam.Reply, error) {
			asked <- struct{}{}
			<-ctx.Done() // the crash comes during this call
			return seam.Reply{}, ctx.Err()
		}
		rig := enginetest.New(t, hangs, app)
		turn := rig.Send(rig.Session().ID, "mail").ID
		heard := make(chan struct{}) // the first answer; until then the turn does not end, however late that is
		answers := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			select {
			case <-heard:
				return mailer(ctx, r, say)
			case <-ctx.Done():
				return seam.Reply{}, ctx.Err()
			}
		}
		var done <-chan struct{}
		for _, model := range []enginetest.Model{hangs, answers} { // the second resumption comes after a pause
			<-asked
			rig.Kill()
			rig.Mem.SetFaults(mem.Faults{})
			rig = enginetest.Over(t, rig.Store, rig.Service, model, app)
			var err error
			if done, err = rig.Engine.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-done
		}
		if row, err := rig.Store.Turn(t.Context(), enginetest.User, turn); err != nil || !row.Resumes {
			t.Fatalf("in the gap it is %s, resumes: %t, %v", row.Status, row.Resumes, err)
		}
		c := houseOf(t, rig, app).host(era, "", nil)
		// A host that asks how it stands takes it for a turn that runs.
		if diff := cmp.Diff(map[string]any{"status": "running"}, c.call("test.await_continuation", args{"continuation_id": turn, "timeout_ms": 0})); diff != "" {
			t.Error(diff)
		}
		close(heard)
		got := c.call("test.await_continuation", args{"continuation_id": turn})
		if diff := cmp.Diff(map[string]any{"status": "completed", "response": map[string]any{"finalMessage": "done: mailed hi"}}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestForms(t *testing.T) {
	t.Parallel()
	in := parley.Interaction{ID: "i", Kind: parley.KindQuestion, Title: "Questions", Questions: []parley.Question{
		{Header: "Room", Question: "Which room?", Options: []parley.Option{{Label: "Bedroom", Description: "upstairs"}, {Label: "Hall"}}},
		{Header: "Times", Question: "When?", MultiSelect: true, Options: []parley.Option{{Label: "Day"}, {Label: "Night"}}},
	}}
	for version, kind := range map[string]string{"2025-06-18": `"q2":{"description":"When?\nSeveral`, "2025-11-25": `"q2":{"description":"When?","items":{"enum":["Day","Night"],"type":"string"}`} {
		raw, err := json.Marshal(mcpserver.Form(in, version).RequestedSchema)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{kind, `"enum":["Bedroom","Hall"]`, `"q1_other"`} {
			if !strings.Contains(string(raw), want) {
				t.Errorf("%s: %s lacks %s", version, raw, want)
			}
		}
	}
	unknown := parley.Interaction{Kind: parley.KindUnknown, Choices: []string{"happened", "did_not", "again", "leave"}}
	for name, c := range map[string]struct {
		in   parley.Interaction
		res  mcp.ElicitResult
		want parley.Answer
		ok   bool
	}{
		"chosen and own words": {
			in,
			mcp.ElicitResult{Action: "accept", Content: args{"q1": "Hall", "q2": []any{"Day", "Night"}, "q2_other": "dusk"}},
			parley.Answer{Choice: "answered", Answers: map[string]string{"Which room?": "Hall", "When?": "Day, Night, dusk"}},
			true,
		},
		"an empty form":     {in, mcp.ElicitResult{Action: "accept", Content: args{"q1": ""}}, parley.Answer{Choice: "answered", Answers: map[string]string{}}, false},
		"declined":          {in, mcp.ElicitResult{Action: "decline"}, parley.Answer{Choice: "deny"}, true},
		"put aside":         {in, mcp.ElicitResult{Action: "cancel"}, parley.Answer{}, false},
		"unknown, declined": {unknown, mcp.ElicitResult{Action: "decline"}, parley.Answer{Choice: "leave"}, true},
		"unknown, chosen":   {unknown, mcp.ElicitResult{Action: "accept", Content: args{"choice": "again"}}, parley.Answer{Choice: "again"}, true},
		"no such choice":    {unknown, mcp.ElicitResult{Action: "accept", Content: args{"choice": "allow"}}, parley.Answer{Choice: "allow"}, false},
	} {
		if got, ok := mcpserver.AnswerOf(c.in, &c.res); ok != c.ok || !cmp.Equal(got, c.want) {
			t.Errorf("%s: %+v %v", name, got, ok)
		}
	}
}
