package replay_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
)

// judge is a toolset without tools. Its hook judges calls of one tool until the call is over.
type judge string

func (judge) Tools(context.Context) ([]parley.ToolDecl, error) { return nil, nil }

func (judge) Run(context.Context, seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{}, nil
}

func (j judge) Hooks() []hook.Hook {
	return []hook.Hook{{
		Entry: hook.Entry{Event: hook.PreToolUse, Name: "judge", Timeout: time.Minute}, Level: "app",
		Do: func(ctx context.Context, message []byte) (hook.Said, error) {
			if !strings.Contains(string(message), `"tool_name":"`+string(j)+`"`) {
				return hook.Said{}, nil
			}
			<-ctx.Done()
			return hook.Said{}, ctx.Err()
		},
	}}
}

// TestReplayOfACutCall: a turn is cancelled, or its session ends, while a hook judges a call. The call
// never started, and the calls beside it have ended. The replay is the same. In a run in which the call
// has a result, that is a difference.
func TestReplayOfACutCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held  judge
		calls []string
		end   bool
	}{
		"a write":                {"mail", []string{"mail"}, false},
		"a read":                 {"look", []string{"look"}, false},
		"a write after reads":    {"mail", []string{"look", "look", "mail"}, false},
		"a read beside a write":  {"look", []string{"look", "put"}, false},
		"a write, by an end":     {"mail", []string{"mail"}, true},
		"two writes":             {"mail", []string{"mail", "mail"}, false},
		"a write behind a write": {"mail", []string{"put", "mail"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
				var reply seam.Reply
				if len(enginetest.Results(r)) > 0 {
					say("done")
					return reply, nil
				}
				for _, tool := range c.calls {
					reply.Parts = append(reply.Parts, enginetest.Call(tool, map[string]string{"text": tool}))
				}
				return reply, nil
			}
			var rec *replay.Recording
			synctest.Test(t, func(t *testing.T) {
				r := enginetest.New(t, model, enginetest.App(), func(o *engine.Options) {
					o.Tools["test"], _ = o.Tools["test"].With(ctx, []seam.Toolset{c.held})
				})
				defer r.Close()
				s := r.Session()
				turn := r.Send(s.ID, "go")
				synctest.Wait()
				time.Sleep(time.Second) // of the bubble: whatever is committed soon, is
				var err error
				if c.end {
					_, err = r.Engine.End(ctx, enginetest.User, s.ID, "enough")
				} else {
					_, err = r.Engine.Cancel(ctx, enginetest.User, turn.ID, "no")
				}
				if err != nil {
					t.Fatal(err)
				}
				if turn = r.Await(turn.ID); turn.Status != parley.StatusCancelled {
					t.Fatalf("the turn is %s", turn.Status)
				}
				rec = recording(t, r, s.ID)
			})
			same(t, rec)
			res := again(t, rec, replay.Options{})
			for i, ev := range res.Events {
				if strings.Contains(string(ev.Data), `"outcome":"cancelled"`) {
					res.Events[i] = ev.WithData([]byte(strings.Replace(string(ev.Data), `"outcome":"cancelled"`, `"outcome":"ok"`, 1)))
					if d := replay.Compare(rec.Events, res.Events); d == nil || !strings.Contains(d.String(), "tool.ended") {
						t.Errorf("a result of the call is no difference: %v", d)
					}
					return
				}
			}
			t.Errorf("no call was cancelled:\n%s", enginetest.Types(rec.Events))
		})
	}
}
