// Package hook runs hooks: programs or services of an operator or a user that are told of an
// event in an agent's work, such as a tool call, and may decide about it.
//
// Hooks are entries in settings files in the format of Claude Code (see "Hooks reference" in
// its documentation). [Parse] reads them, [Matching] finds the hooks for an event, and [Run]
// runs them. A decision is a [Result]; package engine records and obeys it.
//
// A [PreToolUse] hook fails closed. If it cannot be run, takes too long, ends with an exit code
// other than 0 or 2, or writes JSON that cannot be read, its result is a denial that says why.
// Any other hook that fails decides nothing, and its result holds the error.
//
// Levels are asked one after another, the nearest first and the operator's last. Each sees the
// input as changed by the levels before it, so nobody can change an input after the operator's
// hook has passed it. After a denial no further level is asked. The hooks of one level run
// concurrently.
//
// A hook runs again for the same event if the server stops after the run and before its
// decision is committed. A program runs in its own process group with a clean environment, and
// all of its processes are ended with it (package proc). Everything here is safe for concurrent
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

// Events are the events that Parley has.
var Events = []string{
	PreToolUse, PostToolUse, PostToolUseFailure, PermissionRequest,
	UserPromptSubmit, SessionStart, SessionEnd, Stop, SubagentStart, SubagentStop, PreCompact, Notification,
}

// Elsewhere are events that only other agents have. Hooks for them do not run.
var Elsewhere = []string{
	"StopFailure", "PostCompact", "PermissionDenied", "Setup", "InstructionsLoaded", "UserPromptExpansion", "PostToolBatch", "MessageDisplay", "TaskCreated", "TaskCompleted", "TeammateIdle",
	"ConfigChange", "CwdChanged", "DirectoryAdded", "FileChanged", "WorktreeCreate", "WorktreeRemove", "Elicitation", "ElicitationResult",
}

// Limits of a hook.
const (
	DefaultTimeout = 60 * time.Second
	MaxTimeout     = 10 * time.Minute
	// PromptTimeout is the default for UserPromptSubmit: a person waits for their message to be
	// accepted.
	PromptTimeout = 30 * time.Second
	// EndTimeout is the default for [SessionEnd]. It is short because the session has already
	// ended. A hook's settings can raise it to MaxEndTimeout.
	EndTimeout    = 1500 * time.Millisecond
	MaxEndTimeout = 60 * time.Second
	// MaxText limits each text in a hook's output, in bytes.
	MaxText = 10_000
	// MaxInput limits an input that a hook has changed, in bytes.
	MaxInput = 256 << 10
	// MaxHooks limits the number of hooks in a file.
	MaxHooks = 64
)

// Source is something that has hooks, such as a toolset.
type Source interface {
	// Hooks lists the hooks, those of the farthest level first. It must not block: it answers
	// from memory.
	Hooks() []Hook
}

// Hook is one handler for one event.
type Hook struct {
	Entry
	Level string // the level of its file: platform, app, user or workspace
	// On reports whether the hook may run now. Nil: always.
	On func(ctx context.Context) bool
	// Do runs the hook with a message and returns its output.
	Do func(ctx context.Context, message []byte) (Said, error)
}

// Said is the output of a hook that has ended.
type Said struct {
	Code int // exit code; 0 and 2 have a meaning
	Out  []byte
	Err  string // with exit code 2: the reason
}

// Input is what hooks receive about an event.
type Input struct {
	Event   string
	Subject string          // what matchers are compared with, such as the tool's name; empty: nothing
	Input   json.RawMessage // of a tool call; an earlier hook may have changed it
	Fields  map[string]any  // the message, without hook_event_name and tool_input
}

// Result is the result of one hook.
type Result struct {
	Hook     *Hook
	Decision parley.Verdict  // allow, ask, deny; empty: none
	Reason   string          // for the model and for people
	Input    json.RawMessage // replaces the call's input; nil: unchanged
	Output   *string         // replaces the call's result for the model; nil: unchanged
	Context  string          // added for the model
	Message  string          // for people
	Halt     bool            // the turn must end
	Err      error
	Took     time.Duration
}

// exact matches a matcher that is a list of names.
var exact = regexp.MustCompile(`^[A-Za-z0-9_\-, |]*$`)

// matcher decides which subjects an entry is for.
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

// plain reports whether an event has no subject that a matcher could be compared with.
func plain(event string) bool { return event == UserPromptSubmit || event == Stop }

// Limits returns the default and the longest timeout of a hook for an event.
func Limits(event string) (usual, most time.Duration) {
	switch event {
	case UserPromptSubmit:
		return PromptTimeout, MaxTimeout
	case SessionEnd:
		return EndTimeout, MaxEndTimeout
	}
	return DefaultTimeout, MaxTimeout
}

// Matching returns the hooks for an event about a subject. Of several hooks that would do
// exactly the same, only the first is returned.
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

// On returns the hooks that may run now.
func On(ctx context.Context, hooks []*Hook) []*Hook {
	return slices.DeleteFunc(slices.Clone(hooks), func(h *Hook) bool { return h.On != nil && !h.On(ctx) })
}

// Run runs hooks and returns their results in the order in which they apply. An error means
// that ctx has ended, and nothing is decided.
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
				r.Input = nil // unchanged, so a person's permission for it stays valid
			case changed: // two hooks that run together cannot both change the input
				r.Input = nil
				r.Message = strings.TrimSpace(r.Message + "\nanother hook has already changed the input, so this change is ignored")
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
		d.UseNumber() // keep large numbers exact
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// together runs hooks concurrently.
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

// run runs one hook within its timeout.
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

// failed returns the result of a hook that failed to give a decision.
func (h *Hook) failed(err error) Result {
	r := Result{Hook: h, Err: err}
	if h.Event == PreToolUse {
		r.Decision, r.Reason = parley.Deny, "the hook "+h.Name+" of the "+h.Level+" could not be asked: "+parley.Info(err).Message
	}
	return r
}
