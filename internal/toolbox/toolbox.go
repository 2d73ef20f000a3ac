// Package toolbox is the registry of an app's tools, and the only place that runs a call.
//
// A [Box] is made from toolsets and never changes: it asked each toolset for its tools
// once and compiled every schema. [Box.Check] says whether an input fits, in words that a
// model can act on. [Box.Run] makes one call: it limits time and output, survives a panic,
// checks the result against the tool's output schema, moves what is too large into an
// artifact, and says by [parley.Outcome] what is known of the call's effects. It decides
// nothing about permission and appends nothing; that is for package engine.
//
// # What an outcome promises
//
// A service that answered gives ok or error, as it said. A call that provably was never
// sent ([seam.NotSent]) is an error. Everything else leaves open what happened: a lost
// connection, a deadline, a cancelled context, a panic, a toolset that never returns. A
// read is then an error (cancelled, if the context was cancelled before the deadline). Any
// other call is unknown, since it may have taken effect.
//
// The caller decides how long a call gets, with the context and the deadline: the box cuts
// a call when either ends. A Run that ignores its context gets a grace period and is then
// abandoned. Its later answer is dropped and its progress is not shown. A tool with too
// many abandoned calls is refused until some of them return.
//
// Methods are safe for concurrent use.
package toolbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
	"github.com/parley-server/parley/internal/seam"
)

// Options bound what one call may take. Zero values are the defaults.
type Options struct {
	OutputLimit int           // bytes of output kept in the log, for a tool that names no limit; 0: 16 KiB
	MaxArtifact int           // bytes kept of a larger output; 0: 16 MiB
	Timeout     time.Duration // of a call without a deadline, for a tool that names none; 0: 60 s
	Grace       time.Duration // for a call with effects to answer after its time is up; 0: 2 s
	// Redact removes the secrets from an output before it is cut, because half a secret
	// would no longer be recognised. Nil: outputs are cut as they are.
	Redact func(text string) (clean string, found bool)
	Logger *slog.Logger // gets stacks of panics and calls that were abandoned; nil: slog.Default
}

// maxAbandoned is how many abandoned calls of one tool may still be running. Each holds a
// goroutine that nothing can end.
const maxAbandoned = 16

// listTimeout bounds asking one toolset for its tools.
const listTimeout = 30 * time.Second

// Box holds the tools of an app. The zero Box has none, and can be asked about them.
type Box struct {
	o     Options
	sets  []seam.Toolset
	tools map[string]*tool
	decls []parley.ToolDecl
}

type tool struct {
	decl      parley.ToolDecl
	set       seam.Toolset
	in, out   *schema // out is nil when the tool declares none
	abandoned atomic.Int32
}

// anyObject is the input schema of a tool that declares none.
const anyObject = `{"type":"object","properties":{}}`

// Names go to providers and to MCP, which allow these characters.
var validName = pattern.New(`^[A-Za-z0-9_.-]{1,128}$`)

// New asks each toolset for its tools and compiles their schemas. A duplicate name, a
// schema that does not compile or an unknown effect is an error that names the tool.
func New(sets []seam.Toolset, o Options) (*Box, error) {
	if o.OutputLimit <= 0 {
		o.OutputLimit = 16 << 10
	}
	if o.MaxArtifact <= 0 {
		o.MaxArtifact = 16 << 20
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Grace <= 0 {
		o.Grace = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	b := &Box{o: o, sets: sets, tools: map[string]*tool{}}
	for _, set := range sets {
		decls, err := list(set)
		if err != nil {
			return nil, err
		}
		for _, d := range decls {
			t, err := newTool(set, d)
			if err != nil {
				return nil, err
			}
			if b.tools[d.Name] != nil {
				return nil, parley.Errorf(parley.CodeInvalid, "two tools are named %q", d.Name).
					WithHint("give one of them another name, or leave its toolset out of the app")
			}
			b.tools[d.Name] = t
			b.decls = append(b.decls, t.decl)
		}
	}
	return b, nil
}

// Sets returns the toolsets that implement T, such as [seam.Commander].
func Sets[T any](b *Box) (list []T) {
	for _, set := range b.sets {
		if t, ok := set.(T); ok {
			list = append(list, t)
		}
	}
	return list
}

// With returns a box that has the tools of b, and those of further toolsets. Nothing of b
// is replaced: a tool whose name is taken, or that New would refuse, is left out, and so is
// every tool of a toolset that cannot list them before ctx ends. The errors say what was
// left out.
func (b *Box) With(ctx context.Context, sets []seam.Toolset) (*Box, []error) {
	if len(sets) == 0 {
		return b, nil
	}
	more := &Box{o: b.o, sets: slices.Concat(b.sets, sets), tools: maps.Clone(b.tools), decls: slices.Clone(b.decls)}
	var left []error
	for _, set := range sets {
		decls, err := listWithin(ctx, set)
		if err != nil {
			left = append(left, err)
			continue
		}
		for _, d := range decls {
			t, err := newTool(set, d)
			if err == nil && more.tools[d.Name] != nil {
				err = parley.Errorf(parley.CodeConflict, "a second tool named %q is left out", d.Name)
			}
			if err != nil {
				left = append(left, err)
				continue
			}
			more.tools[d.Name] = t
			more.decls = append(more.decls, t.decl)
		}
	}
	return more, left
}

func list(set seam.Toolset) ([]parley.ToolDecl, error) {
	return listWithin(context.Background(), set)
}

func listWithin(ctx context.Context, set seam.Toolset) ([]parley.ToolDecl, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	decls, err := set.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tools of %T: %w", set, err)
	}
	return decls, nil
}

func newTool(set seam.Toolset, d parley.ToolDecl) (*tool, error) {
	if !validName.MatchString(d.Name) {
		return nil, parley.Errorf(parley.CodeInvalid, "%q cannot be a tool's name", d.Name).
			WithHint("use letters, digits, _ . and -, at most 128 of them")
	}
	switch d.Effect {
	case "":
		d.Effect = parley.EffectWrite
	case parley.EffectRead, parley.EffectIdempotent, parley.EffectWrite:
	default:
		return nil, parley.Errorf(parley.CodeInvalid, "tool %s: effect %q is not one of read, idempotent, write", d.Name, d.Effect)
	}
	for _, c := range d.Credentials {
		if !parley.CredentialName(c.Name) || len(c.Hosts) == 0 {
			return nil, parley.Errorf(parley.CodeInvalid, "tool %s: the credential %q has an invalid name or no hosts", d.Name, parley.Cut(c.Name, 60)).
				WithHint("use at most 64 letters, digits and _, and begin with a letter; list the hosts that it may be sent to")
		}
	}
	if len(d.InputSchema) == 0 {
		d.InputSchema = json.RawMessage(anyObject)
	}
	t := &tool{decl: d, set: set}
	var err error
	if t.in, err = compile(d.InputSchema); err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "tool %s: input schema: %w", d.Name, err)
	}
	if len(d.OutputSchema) > 0 {
		if t.out, err = compile(d.OutputSchema); err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "tool %s: output schema: %w", d.Name, err)
		}
	}
	return t, nil
}

// Check reports what is wrong with a tool by itself, for a toolset that gets its tools from
// somebody else and would rather leave one out; nil: a box can have it.
func Check(d parley.ToolDecl) error {
	_, err := newTool(nil, d)
	return err
}

// Decls returns what is known of each tool, in the order of the toolsets, with
// defaults filled in.
func (b *Box) Decls() []parley.ToolDecl { return slices.Clone(b.decls) }

// Decl returns what is known of one tool.
func (b *Box) Decl(name string) (parley.ToolDecl, bool) {
	t := b.tools[name]
	if t == nil {
		return parley.ToolDecl{}, false
	}
	return t.decl, true
}

// Same reports whether the box's tool of that name still does what d says: it has the same
// effect, takes the same input and credentials, and is run by the same side. Otherwise a call
// that was made for d would do something else. If the tool is missing, Same returns false.
func (b *Box) Same(d parley.ToolDecl) bool {
	t := b.tools[d.Name]
	if t == nil || cmp.Or(d.Effect, parley.EffectWrite) != t.decl.Effect || d.Reads != t.decl.Reads || d.Run != t.decl.Run {
		return false
	}
	if !slices.EqualFunc(d.Credentials, t.decl.Credentials, func(a, b parley.CredentialDecl) bool {
		return a.Name == b.Name && slices.Equal(a.Hosts, b.Hosts)
	}) {
		return false // a person may have been told where a credential is sent
	}
	if len(d.InputSchema) == 0 {
		d.InputSchema = json.RawMessage(anyObject)
	}
	if bytes.Equal(d.InputSchema, t.decl.InputSchema) {
		return true
	}
	var one, other any // stored JSON may be formatted differently
	return json.Unmarshal(d.InputSchema, &one) == nil && json.Unmarshal(t.decl.InputSchema, &other) == nil && reflect.DeepEqual(one, other)
}

// Check reports whether input fits the tool's schema; nil is yes. The message lists
// everything that is wrong, so that a model can fix it in one attempt. An absent input
// counts as {}.
func (b *Box) Check(name string, input json.RawMessage) *parley.Error {
	t := b.tools[name]
	if t == nil {
		return b.unknown(name)
	}
	if len(input) == 0 {
		input = json.RawMessage(`{}`)
	}
	if wrong := t.in.check(input); len(wrong) > 0 {
		if r, ok := t.set.(seam.Refuser); ok {
			if words := r.Refuses(name, input); words != "" {
				return parley.Errorf(parley.CodeInvalid, "%s", words).WithField(wrong[0].at)
			}
		}
		// Arguments that are not JSON arrive here as a string.
		var text string
		if json.Unmarshal(input, &text) == nil && strings.HasPrefix(strings.TrimSpace(text), "{") {
			if err := json.Unmarshal([]byte(text), new(any)); err != nil {
				wrong[0].what = "is not JSON: " + err.Error()
			}
		}
		return parley.Errorf(parley.CodeInvalid, "the input of %s does not fit its schema:\n%s", name, lines(wrong)).
			WithHint("call %s again with an input that fits", name).WithField(wrong[0].at)
	}
	return nil
}

func (b *Box) unknown(name string) *parley.Error {
	names := make([]string, 0, len(b.decls))
	for _, d := range b.decls {
		names = append(names, d.Name)
	}
	e := parley.Errorf(parley.CodeNotFound, "there is no tool named %q", name)
	if len(names) == 0 {
		return e.WithHint("this app has no tools")
	}
	return e.WithHint("the tools are %s", clip(joinAnd(names), 1000))
}

// Reaches names what a call would act on, see [seam.Reacher].
func (b *Box) Reaches(name string, input json.RawMessage) (what []string, scoped bool) {
	t := b.tools[name]
	if t == nil {
		return nil, false
	}
	if r, ok := t.set.(seam.Reacher); ok {
		return r.Reaches(name, input)
	}
	return nil, false
}

// Parts is what a call consists of, see [seam.Composer].
func (b *Box) Parts(name string, input json.RawMessage) (p seam.Parts, composed bool) {
	if t := b.tools[name]; t != nil {
		if c, ok := t.set.(seam.Composer); ok {
			return c.Parts(name, input)
		}
	}
	return p, false
}

// Zone is the time zone of what the tools deal with, see [seam.Zoned]: that of the
// first toolset that knows.
func (b *Box) Zone(at time.Time) (z parley.Zone, ok bool) {
	for _, set := range b.sets {
		if k, is := set.(seam.Zoned); is {
			if z, ok = k.Zone(at); ok {
				return z, true
			}
		}
	}
	return z, false
}

// EffectOf returns the effect of a call of a tool that is declared as d, see [seam.Effecter].
func (b *Box) EffectOf(d parley.ToolDecl, input json.RawMessage) parley.Effect {
	declared := cmp.Or(d.Effect, parley.EffectWrite)
	t := b.tools[d.Name]
	if d.Reads == "" || t == nil || len(input) == 0 {
		return declared
	}
	e, ok := t.set.(seam.Effecter)
	if !ok {
		return declared
	}
	switch effect := e.EffectOf(d.Name, input); effect {
	case parley.EffectRead, parley.EffectIdempotent, parley.EffectWrite:
		return effect
	}
	return parley.EffectWrite
}

// Vet returns an error for a call that certainly has no effect, see [seam.Vetter].
func (b *Box) Vet(name string, input json.RawMessage) error {
	t := b.tools[name]
	if t == nil {
		return nil
	}
	if v, ok := t.set.(seam.Vetter); ok {
		return v.Vet(name, input)
	}
	return nil
}

// Over reports whether a call of an earlier process can have no further effect, see [seam.Local].
func (b *Box) Over(name string, call parley.CallID) bool {
	t := b.tools[name]
	if t == nil {
		return false
	}
	l, ok := t.set.(seam.Local)
	return ok && l.Over(name, call)
}

// Requested tells the toolset of a call that it was requested, see [seam.Informed]. A panic in the
// toolset is logged.
func (b *Box) Requested(ctx context.Context, r seam.Run) {
	t := b.tools[r.Name]
	if t == nil {
		return
	}
	in, ok := t.set.(seam.Informed)
	if !ok {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			b.o.Logger.Error("a tool panicked", "tool", r.Name, "panic", v)
		}
	}()
	in.Requested(ctx, r)
}

// Prepares reports whether a human may have to do something before a call of the tool. Prepare
// returns what, or nil. See [seam.Preparer].
func (b *Box) Prepares(name string) bool {
	t := b.tools[name]
	if t == nil {
		return false
	}
	_, ok := t.set.(seam.Preparer)
	return ok
}

// Prepare returns what a human must do before the call, or nil; see [seam.Preparer]. A panic in
// the toolset becomes an error.
func (b *Box) Prepare(ctx context.Context, r seam.Run) (ask *parley.Interaction, err error) {
	if !b.Prepares(r.Name) {
		return nil, nil
	}
	defer func() {
		if v := recover(); v != nil {
			b.o.Logger.Error("a tool panicked", "tool", r.Name, "panic", v)
			ask, err = nil, errPanic
		}
	}()
	return b.tools[r.Name].set.(seam.Preparer).Prepare(ctx, r)
}

// Words puts a call into words for a person, see [seam.Worder].
func (b *Box) Words(name string, input json.RawMessage) string {
	t := b.tools[name]
	if t == nil {
		return ""
	}
	if w, ok := t.set.(seam.Worder); ok {
		return w.Words(name, input)
	}
	return ""
}

// Stays says why a rewind does not take back what a tool changed, see [seam.Lasting].
func (b *Box) Stays(name string) string {
	t := b.tools[name]
	if t == nil {
		return ""
	}
	if l, ok := t.set.(seam.Lasting); ok {
		return l.Stays(name)
	}
	return ""
}

// Preview shows what a call would send out, see [seam.Previewer].
func (b *Box) Preview(name string, input json.RawMessage, space parley.Workspace) string {
	t := b.tools[name]
	if t == nil {
		return ""
	}
	if p, ok := t.set.(seam.Previewer); ok {
		return p.Preview(name, input, space)
	}
	return ""
}

// CanReconcile reports whether the tool's service can be asked what became of a
// call.
func (b *Box) CanReconcile(name string) bool {
	t := b.tools[name]
	if t == nil {
		return false
	}
	if c, ok := t.set.(seam.Choosy); ok {
		return c.Reconciles(name)
	}
	_, ok := t.set.(seam.Reconciler)
	return ok
}
