// Package hook runs what an operator or a user wants to be asked about an agent's work: a
// program or a service that hears of an event, such as a tool call, and may decide about it.
//
// Hooks are entries of settings files in the form of Claude Code (its documentation, "Hooks
// reference"): [Parse] reads them, [Matching] finds those of an event, [Run] runs them.
// What they decide is a [Result]; package engine journals and obeys it.
//
// A hook of [PreToolUse] fails closed: when it ends with another exit code than 0 or 2,
// takes too long, says JSON that cannot be read or cannot be run, its result is a denial that
// says so. Every other one that fails decides nothing, and its result has the error.
//
// Levels are asked one after another, the nearest first and the operator's last. Each sees
// the input as the ones before have changed it, so nobody changes what the operator's hook
// has passed. After a denial no further level is asked. The hooks of one level run at once.
//
// A hook can run more than once for the same event: when the server stops between the
// run and the commit of what it decided. A program runs in a process group of its own with
// a clean environment, and leaves nothing behind (package proc). All is safe for concurrent
// use.
package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// The events.
const (
	PreToolUse         = "PreToolUse"
	PostToolUse        = "PostToolUse"
	PostToolUseFailure = "PostToolUseFailure"
	PermissionRequest  = "PermissionRequest"
	UserPromptSubmit   = "UserPromptSubmit"
	SessionStart       = "SessionStart"
	SessionEnd         = "SessionEnd"
	Stop               = "Stop"
	SubagentStart      = "SubagentStart"
	SubagentStop       = "SubagentStop"
	PreCompact         = "PreCompact"
	Notification       = "Notification"
)

// Events are those that Parley has.
var Events = []string{
	PreToolUse, PostToolUse, PostToolUseFailure, PermissionRequest,
	UserPromptSubmit, SessionStart, SessionEnd, Stop, SubagentStart, SubagentStop, PreCompact, Notification,
}

// Elsewhere are events of others that Parley does not have. Their hooks do not run.
var Elsewhere = []string{
	"StopFailure", "PostCompact", "PermissionDenied", "Setup", "InstructionsLoaded", "UserPromptExpansion", "PostToolBatch", "MessageDisplay", "TaskCreated", "TaskCompleted", "TeammateIdle",
	"ConfigChange", "CwdChanged", "DirectoryAdded", "FileChanged", "WorktreeCreate", "WorktreeRemove", "Elicitation", "ElicitationResult",
}

// Limits of a hook.
const (
	DefaultTimeout = 60 * time.Second
	MaxTimeout     = 10 * time.Minute
	// PromptTimeout is the default while a person waits for their message to be taken.
	PromptTimeout = 30 * time.Second
	// EndTimeout is the default of hooks of [SessionEnd]: a session that has ended waits for
	// nobody. Their settings can raise it to MaxEndTimeout.
	EndTimeout    = 1500 * time.Millisecond
	MaxEndTimeout = 60 * time.Second
	// MaxText is the most bytes of each text that a hook says.
	MaxText = 10_000
	// MaxInput is the most bytes of an input that a hook has changed.
	MaxInput = 256 << 10
	// MaxHooks is how many hooks a file may have.
	MaxHooks = 64
)

// Source is what has hooks, such as a toolset.
type Source interface {
	// Hooks lists them, those of the farthest level first. It must answer from memory at once.
	Hooks() []Hook
}

// Hook is one handler for one event.
type Hook struct {
	Entry
	Level string // whose file it is from: platform, app, user or workspace
	// On reports whether the hook may run now. Nil: always.
	On func(ctx context.Context) bool
	// Do runs it with a message, and returns what it says.
	Do func(ctx context.Context, message []byte) (Said, error)
}

// Said is how a hook ended.
type Said struct {
	Code int // exit code; 0 and 2 say something
	Out  []byte
	Err  string // of exit code 2: why
}

// Input is what hooks are told of an event.
type Input struct {
	Event   string
	Subject string          // what a matcher is about, such as the tool's name; empty: the event has nothing of the kind
	Input   json.RawMessage // of a tool call; a hook before may have changed it
	Fields  map[string]any  // the message, without hook_event_name and tool_input
}

// Result is what came of one hook.
type Result struct {
	Hook     *Hook
	Decision parley.Verdict  // allow, ask, deny; empty: none
	Reason   string          // for the model and for people
	Input    json.RawMessage // in place of the call's; nil: unchanged
	Output   *string         // in place of the call's result, for the model; nil: unchanged
	Context  string          // more for the model
	Message  string          // for people
	Halt     bool            // the turn is to end
	Err      error
	Took     time.Duration
}

// exact matches a matcher that is a list of names.
var exact = regexp.MustCompile(`^[A-Za-z0-9_\-, |]*$`)

// matcher is which subjects an entry is for.
type matcher struct {
	names   []string
	pattern *regexp.Regexp
}

func newMatcher(text string) (m matcher, err error) {
	switch {
	case text == "" || text == "*":
	case exact.MatchString(text):
		m.names = strings.FieldsFunc(text, func(r rune) bool { return r == '|' || r == ',' })
		for i, n := range m.names {
			m.names[i] = strings.TrimSpace(n)
		}
	default:
		m.pattern, err = regexp.Compile(text)
	}
	return m, err
}

func (m matcher) matches(subject string) bool {
	switch {
	case m.pattern != nil:
		return m.pattern.MatchString(subject)
	case m.names != nil:
		return slices.Contains(m.names, subject)
	}
	return true
}

// plain reports whether an event has nothing that a matcher could be about.
func plain(event string) bool { return event == UserPromptSubmit || event == Stop }

// Limits returns how long a hook of an event may take by default, and at most.
func Limits(event string) (usual, most time.Duration) {
	switch event {
	case UserPromptSubmit:
		return PromptTimeout, MaxTimeout
	case SessionEnd:
		return EndTimeout, MaxEndTimeout
	}
	return DefaultTimeout, MaxTimeout
}

// Matching returns the hooks for an event about a subject. Of those that would do exactly
// the same, the first one counts.
func Matching(hooks []Hook, event, subject string) (list []*Hook) {
	for i := range hooks {
		h := &hooks[i]
		if h.Event != event || !plain(event) && !h.match.matches(subject) {
			continue
		}
		if !slices.ContainsFunc(list, func(o *Hook) bool { return h.same != "" && o.Level == h.Level && o.same == h.same }) {
			list = append(list, h)
		}
	}
	return list
}

// On are the hooks that may run now.
func On(ctx context.Context, hooks []*Hook) []*Hook {
	return slices.DeleteFunc(slices.Clone(hooks), func(h *Hook) bool { return h.On != nil && !h.On(ctx) })
}

// Run runs hooks, and returns their results in the order in which they count. An error means
// that ctx has ended; nothing is decided then.
func Run(ctx context.Context, hooks []*Hook, in Input) (list []Result, err error) {
	for len(hooks) > 0 {
		level := hooks[len(hooks)-1].Level
		first := slices.IndexFunc(hooks, func(h *Hook) bool { return h.Level == level })
		results := together(ctx, hooks[first:], in)
		hooks = hooks[:first]
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		changed, denied := false, false
		was := in.Input
		for i := range results {
			r := &results[i]
			denied = denied || r.Decision == parley.Deny || r.Halt
			switch {
			case r.Input == nil:
			case equal(r.Input, was):
				r.Input = nil // so what a person has allowed stays allowed
			case changed: // one input cannot be changed twice at once
				r.Input = nil
				r.Message = strings.TrimSpace(r.Message + "\nanother hook has changed the input already, so this change does not count")
			default:
				changed, in.Input = true, r.Input
			}
		}
		list = append(list, results...)
		if denied {
			break
		}
	}
	return list, nil
}

// equal reports whether two JSON texts mean the same.
func equal(a, b json.RawMessage) bool {
	var values [2]any
	for i, text := range []json.RawMessage{a, b} {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber() // a large number is not another one
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// together runs hooks at once.
func together(ctx context.Context, hooks []*Hook, in Input) []Result {
	fields := map[string]any{"hook_event_name": in.Event}
	for k, v := range in.Fields {
		fields[k] = v
	}
	if in.Input != nil {
		fields["tool_input"] = in.Input
	}
	message, err := json.Marshal(fields)
	results := make([]Result, len(hooks))
	var all sync.WaitGroup
	for i, h := range hooks {
		if err != nil {
			results[i] = h.failed(err)
			continue
		}
		all.Go(func() { results[i] = h.run(ctx, message) })
	}
	all.Wait()
	return results
}

// run runs one hook within its time.
func (h *Hook) run(ctx context.Context, message []byte) Result {
	began := time.Now()
	within, cancel := context.WithTimeoutCause(ctx, h.Timeout, parley.Errorf(parley.CodeTool, "it took longer than %s", h.Timeout))
	defer cancel()
	said, err := h.do(within, message)
	if err != nil && within.Err() != nil {
		err = context.Cause(within)
	}
	r := Result{Hook: h}
	if err == nil {
		r, err = h.read(said)
	}
	if err != nil {
		r = h.failed(err)
	}
	r.Hook, r.Took = h, time.Since(began)
	return r
}

func (h *Hook) do(ctx context.Context, message []byte) (Said, error) {
	if h.Wrong != nil {
		return Said{}, h.Wrong
	}
	return h.Do(ctx, message)
}

// failed is the result of a hook that did not say what it decided.
func (h *Hook) failed(err error) Result {
	r := Result{Hook: h, Err: err}
	if h.Event == PreToolUse {
		r.Decision, r.Reason = parley.Deny, "the hook "+h.Name+" of the "+h.Level+" could not be asked: "+parley.Info(err).Message
	}
	return r
}
