//go:build unix

package program_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestCut_at_every_event_of_a_turn_with_hooks follows turns in which hooks decide. SSE is enough,
// because no wire treats these events differently from others. A client that resumes before,
// between or after the decisions of several hooks sees the same log.
func TestCut_at_every_event_of_a_turn_with_hooks(t *testing.T) {
	t.Parallel()
	onStores(t, cutHooks)
}

func cutHooks(t *testing.T, store string) {
	p := hookPlace(t, "").on(store)
	p.env = append(p.env, "PARLEY_LIMITS_MAX_STREAMS=5000")
	says := func(text string) string {
		return fmt.Sprintf(`{"matcher":"","hooks":[{"type":"command","command":%q}]}`, text)
	}
	adds := func(event, text string) string {
		return fmt.Sprintf(`echo '{"hookSpecificOutput":{"hookEventName":%q,"additionalContext":%q}}'`, event, text)
	}
	// The platform's hooks block a message and deny a call. The app's hooks replace a result and
	// once keep the first turn from ending.
	p.write(filepath.Join(p.dir, "platform/.claude/settings.json"), `{"hooks":{"UserPromptSubmit":[`+says("if grep -q blocked; then echo 'not today' >&2; exit 2; fi")+
		`],"PreToolUse":[`+says("if grep -q forbidden; then echo 'the platform forbids it' >&2; exit 2; fi")+
		`],"PostToolUse":[`+says(adds("PostToolUse", "it is Sunday"))+`]}}`)
	p.write(filepath.Join(p.dir, "apps/notes/.claude/settings.json"), `{"hooks":{"UserPromptSubmit":[`+says(adds("UserPromptSubmit", "be brief"))+
		`],"PostToolUse":[`+says(`echo '{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":"replaced"}}'`)+
		`],"Stop":[`+says(`if grep -q 'last_assistant_message[^,]*replaced'; then echo '{"decision":"block","reason":"look again"}'; fi`)+`]}}`)
	s := p.serve()
	id := s.session("notes")
	ctx, stop := context.WithTimeout(t.Context(), within)
	var hands sync.WaitGroup
	defer func() { stop(); hands.Wait() }()
	followers := cutEverywhere(ctx, &hands, s, id, 50, "sse") // more than there are frames
	for _, c := range []struct {
		message string
		want    parley.TurnStatus
	}{{"ours", parley.StatusCompleted}, {"forbidden", parley.StatusCompleted}, {"blocked", parley.StatusFailed}} {
		if end := s.settle(s.send(id, c.message).ID); end.Status != c.want {
			t.Fatalf("the turn of %q is %s: %+v", c.message, end.Status, end.Error)
		}
	}
	log := s.log(id)
	followers.have(ctx, t, log)
	ran := map[string]int{}
	for _, e := range decode(t, log) {
		if p, err := e.Payload(); err == nil {
			if p, ok := p.(parley.HookRan); ok {
				ran[p.Event]++
			}
		}
	}
	for _, event := range []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"} {
		if ran[event] < 2 {
			t.Errorf("%s: the log has %d decisions of hooks", event, ran[event])
		}
	}
	if t.Failed() {
		t.Log(strings.Join(log, "\n"))
	}
	if err := enginetest.CheckLog(decode(t, log)); err != nil {
		t.Error(err)
	}
}
