package function

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Run is the function that makes a call.
type Run[In, Out any] func(ctx context.Context, in In) (Out, error)

// Reconcile is the function that finds out the outcome of a call.
type Reconcile[In, Out any] func(ctx context.Context, in In) (out Out, happened bool, err error)

// typed implements [Tool].
type typed[In, Out any] struct {
	decl   parley.ToolDecl
	err    error
	within bool
	do     Run[In, Out]
	ask    Reconcile[In, Out] // nil: the tool cannot be asked
}

// New makes a tool. Schemas that d lacks are made from the types. inside says that all that a call
// does is over when its process has ended.
func New[In, Out any](d parley.ToolDecl, inside bool, run Run[In, Out], reconcile Reconcile[In, Out]) Tool {
	t := &typed[In, Out]{decl: d, within: inside, do: run, ask: reconcile}
	t.err = t.complete()
	return t
}

func (t *typed[In, Out]) complete() error {
	wrong := func(format string, args ...any) *parley.Error {
		return parley.Errorf(parley.CodeInvalid, "the tool %q: "+format, append([]any{t.decl.Name}, args...)...)
	}
	if t.do == nil {
		return wrong("it has no function")
	}
	in, out := reflect.TypeFor[In](), reflect.TypeFor[Out]()
	if !object(in) {
		return wrong("its input is a %s", in).WithHint("the input of a tool is a struct, or a map with strings as keys")
	}
	if len(t.decl.InputSchema) == 0 {
		schema, err := jsonschema.For[In](nil)
		if err != nil {
			return wrong("the schema of its input: %w", err)
		}
		notNull(schema)
		if t.decl.InputSchema, err = json.Marshal(schema); err != nil {
			return wrong("the schema of its input: %w", err)
		}
	}
	if len(t.decl.OutputSchema) == 0 && object(out) && out != reflect.TypeFor[struct{}]() {
		schema, err := jsonschema.For[Out](nil)
		if err == nil {
			t.decl.OutputSchema, err = json.Marshal(schema)
		}
		if err != nil {
			return wrong("the schema of its output: %w", err)
		}
	}
	return nil
}

// object reports whether values of a type are JSON objects.
func object(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return !t.Implements(reflect.TypeFor[json.Marshaler]()) && t.String() != "time.Time"
	case reflect.Map:
		return t.Key().Kind() == reflect.String
	}
	return false
}

// notNull removes null from the types in an input's schema. An absent field means the same, and
// not every provider accepts a list of types.
func notNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if i := slices.Index(s.Types, "null"); i >= 0 {
		if s.Types = slices.Delete(s.Types, i, i+1); len(s.Types) == 1 {
			s.Type, s.Types = s.Types[0], nil
		}
	}
	for _, p := range s.Properties {
		notNull(p)
	}
	for _, d := range s.Defs {
		notNull(d)
	}
	notNull(s.Items)
	notNull(s.AdditionalProperties)
}

// Decl implements [Tool].
func (t *typed[In, Out]) Decl() (parley.ToolDecl, error) { return t.decl, t.err }

func (t *typed[In, Out]) reconciles() bool { return t.ask != nil }

func (t *typed[In, Out]) inside() bool { return t.within }

func (t *typed[In, Out]) run(ctx context.Context, input json.RawMessage) (Output, error) {
	in, err := decode[In](input)
	if err != nil {
		return Output{}, seam.NotSent(err)
	}
	out, err := t.do(ctx, in)
	if err != nil {
		return Output{}, err
	}
	return encode(out, len(t.decl.OutputSchema) > 0), nil
}

func (t *typed[In, Out]) reconcile(ctx context.Context, input json.RawMessage) (Output, bool, error) {
	in, err := decode[In](input)
	if err != nil {
		return Output{}, false, err
	}
	out, happened, err := t.ask(ctx, in)
	if err != nil || !happened {
		return Output{}, false, err
	}
	return encode(out, len(t.decl.OutputSchema) > 0), true, nil
}

func decode[In any](input json.RawMessage) (in In, err error) {
	if len(input) == 0 {
		input = json.RawMessage(`{}`)
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return in, parley.Errorf(parley.CodeInvalid, "the input does not fit the function: %w", err)
	}
	return in, nil
}

// Output is what a function returned.
type Output struct {
	text string
	data json.RawMessage // nil: the tool declares no schema
}

// encode never fails, because the call was made whatever it returned.
func encode(v any, structured bool) Output {
	rv := reflect.ValueOf(v)
	switch {
	case !rv.IsValid() || rv.Type() == reflect.TypeFor[struct{}]():
		return Output{text: "Done."}
	case rv.Kind() == reflect.String:
		return Output{text: rv.String()}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return Output{text: fmt.Sprintf("The call was made, but its result cannot be shown: %v", err)}
	}
	if structured {
		return Output{string(raw), raw}
	}
	return Output{text: string(raw)}
}

func (o Output) result(r seam.Run) parley.ToolResult {
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK, Output: o.text, Data: o.data}
}
