package function_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/function"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/tool"
)

type in struct {
	Name  string   `json:"name" jsonschema:"a part of the name"`
	Tags  []string `json:"tags,omitempty"`
	Limit *int     `json:"limit,omitempty"`
}

type contact struct {
	Name string   `json:"name"`
	Tags []string `json:"tags"`
}

func box(t *testing.T, tools ...tool.Tool) *toolbox.Box {
	t.Helper()
	var list []function.Tool
	for _, one := range tools {
		list = append(list, one)
	}
	set, err := function.Make(list)
	if err != nil {
		t.Fatal(err)
	}
	b, err := toolbox.New([]seam.Toolset{set}, toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSchemas: what the model and MCP clients are told follows from the types.
func TestSchemas(t *testing.T) {
	t.Parallel()
	b := box(t, tool.New(tool.Def{Name: "find", Effect: parley.EffectRead}, func(context.Context, in) (contact, error) { return contact{}, nil }))
	d, _ := b.Decl("find")
	var input, output any
	for raw, into := range map[string]*any{string(d.InputSchema): &input, string(d.OutputSchema): &output} {
		if err := json.Unmarshal([]byte(raw), into); err != nil {
			t.Fatal(err)
		}
	}
	type m = map[string]any
	if diff := cmp.Diff(m{
		"type": "object", "required": []any{"name"}, "additionalProperties": false,
		"properties": m{
			"name":  m{"type": "string", "description": "a part of the name"},
			"tags":  m{"type": "array", "items": m{"type": "string"}},
			"limit": m{"type": "integer"},
		},
	}, input); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(m{
		"type": "object", "required": []any{"name", "tags"}, "additionalProperties": false,
		"properties": m{"name": m{"type": "string"}, "tags": m{"type": []any{"null", "array"}, "items": m{"type": "string"}}},
	}, output); diff != "" {
		t.Error(diff)
	}
	if wrong := b.Check("find", json.RawMessage(`{"name":1,"x":2}`)); wrong == nil || !strings.Contains(wrong.Message, "x") {
		t.Errorf("an input that does not fit: %v", wrong)
	}
}

// TestOutcomes: what is known of a call after each way in which a function can end.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	refused := parley.Errorf(parley.CodeNotFound, "there is no Ana").WithHint("look her up first")
	for name, c := range map[string]struct {
		effect  parley.Effect
		do      func(context.Context, in) (any, error)
		outcome parley.Outcome
		output  string
	}{
		"text":                  {parley.EffectWrite, func(context.Context, in) (any, error) { return "moved", nil }, parley.OutcomeOK, "moved"},
		"JSON":                  {parley.EffectRead, func(_ context.Context, i in) (any, error) { return []contact{{Name: i.Name}}, nil }, parley.OutcomeOK, `[{"name":"Ana","tags":null}]`},
		"nothing":               {parley.EffectWrite, func(context.Context, in) (any, error) { return struct{}{}, nil }, parley.OutcomeOK, "Done."},
		"nil":                   {parley.EffectWrite, func(context.Context, in) (any, error) { return nil, nil }, parley.OutcomeOK, "Done."},
		"what no JSON can show": {parley.EffectWrite, func(context.Context, in) (any, error) { return make(chan int), nil }, parley.OutcomeOK, "The call was made, but its result cannot be shown"},
		"the call":              {parley.EffectWrite, func(ctx context.Context, _ in) (any, error) { return string(tool.From(ctx).ID), nil }, parley.OutcomeOK, "01J"},
		"a write without effect": {
			parley.EffectWrite, func(context.Context, in) (any, error) { return nil, tool.NoEffect(refused) },
			parley.OutcomeError, "there is no Ana\nlook her up first",
		},
		"a write that failed somehow":        {parley.EffectWrite, func(context.Context, in) (any, error) { return nil, errors.New("EOF") }, parley.OutcomeUnknown, "EOF"},
		"a write that panicked":              {parley.EffectWrite, func(context.Context, in) (any, error) { panic("x") }, parley.OutcomeUnknown, "crashed"},
		"an idempotent call, failed somehow": {parley.EffectIdempotent, func(context.Context, in) (any, error) { return nil, errors.New("EOF") }, parley.OutcomeUnknown, "EOF"},
		"a read that failed":                 {parley.EffectRead, func(context.Context, in) (any, error) { return nil, refused }, parley.OutcomeError, "there is no Ana"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := box(t, tool.New(tool.Def{Name: "do", Effect: c.effect}, c.do))
			got := b.Run(t.Context(), seam.Run{Call: "01J", Name: "do", Input: json.RawMessage(`{"name":"Ana"}`)}, time.Time{})
			if got.Outcome != c.outcome || !strings.Contains(got.Output, c.output) {
				t.Errorf("got %s %q, want %s %q", got.Outcome, got.Output, c.outcome, c.output)
			}
		})
	}
}

// TestReconcile: a tool tells what became of a call; one that cannot is not asked.
func TestReconcile(t *testing.T) {
	t.Parallel()
	add := func(context.Context, in) (contact, error) { return contact{}, errors.New("EOF") }
	b := box(
		t,
		tool.New(tool.Def{Name: "mute"}, add),
		tool.NewReconciled(tool.Def{Name: "add"}, add, func(ctx context.Context, i in) (contact, bool, error) {
			switch tool.From(ctx).ID {
			case "happened":
				return contact{Name: i.Name}, true, nil
			case "did not":
				return contact{}, false, nil
			}
			return contact{}, true, errors.New("the table cannot be read")
		}),
	)
	for _, c := range []struct {
		tool    string
		call    parley.CallID
		known   bool
		outcome parley.Outcome
		output  string
	}{
		{"add", "happened", true, parley.OutcomeOK, `{"name":"Ana","tags":null}`},
		{"add", "did not", true, parley.OutcomeError, "it did not happen"},
		{"add", "who knows", false, "", ""},
		{"mute", "happened", false, "", ""},
	} {
		got, known, _ := b.Reconcile(t.Context(), seam.Run{Call: c.call, Name: c.tool, Input: json.RawMessage(`{"name":"Ana"}`)})
		if known != c.known || known && (got.Outcome != c.outcome || !strings.Contains(got.Output, c.output)) {
			t.Errorf("%s of %s: %v %s %q", c.call, c.tool, known, got.Outcome, got.Output)
		}
	}
}

// TestOver: a call that does nothing outside its process is over when it does not run in this one,
// whichever toolset has begun it. What another one had sent may still arrive.
func TestOver(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	add := func(context.Context, in) (contact, error) {
		close(begun)
		<-end // whatever its context says
		return contact{}, nil
	}
	mute := tool.New(tool.Def{Name: "mute", Inside: true}, add)
	first := box(t, mute)
	added := func(context.Context, in) (contact, bool, error) { return contact{}, false, nil }
	next := box(t, mute, tool.New(tool.Def{Name: "send"}, add), tool.NewReconciled(tool.Def{Name: "add"}, add, added), tool.NewReconciled(tool.Def{Name: "keep", Inside: true}, add, added))
	over := make(chan struct{})
	go func() {
		defer close(over)
		first.Run(context.WithoutCancel(t.Context()), seam.Run{Call: "over", Name: "mute", Input: json.RawMessage(`{"name":"Ana"}`)}, time.Time{})
	}()
	<-begun
	for _, c := range []struct {
		tool string
		call parley.CallID
		over bool
	}{{"mute", "over", false}, {"mute", "another", true}, {"keep", "another", true}, {"send", "another", false}, {"add", "another", false}, {"absent", "another", false}} {
		if next.Over(c.tool, c.call) != c.over {
			t.Errorf("the call %s of %s is over: %t", c.call, c.tool, !c.over)
		}
	}
	close(end)
	<-over
	if !next.Over("mute", "over") {
		t.Error("it is not over when it has ended")
	}
}

// TestMistakes: a tool that cannot be is an error that names it.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool tool.Tool
		want string
	}{
		"no function": {tool.New[in, string](tool.Def{Name: "find"}, nil), `the tool "find": it has no function`},
		"no object":   {tool.New(tool.Def{Name: "find"}, func(context.Context, int) (string, error) { return "", nil }), "its input is a int"},
		"no JSON": {tool.New(tool.Def{Name: "find"}, func(context.Context, struct{ C chan int }) (string, error) {
			return "", nil
		}), "the schema of its input"},
		"nil": {nil, "one of the tools is nil"},
	} {
		if _, err := function.Make([]function.Tool{c.tool}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestContext: a function can be called without a server.
func TestContext(t *testing.T) {
	t.Parallel()
	c := tool.From(tool.Context(t.Context(), tool.Call{ID: "01J", Principal: parley.Principal{User: "ana"}}))
	c.Progress("half")
	if _, err := c.Workspace(); c.ID != "01J" || c.Principal.User != "ana" || c.Attempt != 1 || c.Stopped() != nil || err == nil || c.Keep("a", "text/plain", nil) != nil {
		t.Errorf("%+v, %v", c, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a context without a call has one")
		}
	}()
	tool.From(t.Context())
}
