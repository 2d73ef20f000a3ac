package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// outage runs f in fake time, with a host connected to a server whose store can go away.
func outage(t *testing.T, store *enginetest.Outage, model enginetest.Model, app parley.App, f func(t *testing.T, c *host, rig *enginetest.Rig, store *enginetest.Outage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store.Store = mem.New()
		rig := enginetest.Over(t, store, &enginetest.Service{}, model, app)
		c, end := inMemory(t, rig, app, nil)
		f(t, c, rig, store)
		end()
	})
}

// inMemory connects a host to an engine's door without a socket, so that fake time works. end closes
// everything.
func inMemory(t *testing.T, rig *enginetest.Rig, app parley.App, o *mcp.ClientOptions) (c *host, end func()) {
	t.Helper()
	door := mcpserver.New(app, mcpserver.Options{Engine: rig.Engine, Reader: rig.Reader})
	ours, theirs := mcp.NewInMemoryTransports()
	server, err := door.Connect(context.Background(), enginetest.User, ours)
	if err != nil {
		t.Fatal(err)
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).
		Connect(context.Background(), theirs, &mcp.ClientSessionOptions{ProtocolVersion: eras[0]})
	if err != nil {
		t.Fatal(err)
	}
	return &host{client, t}, func() {
		_ = client.Close()
		_ = server.Wait()
		rig.Close()
	}
}

// makers are the ways in which a host can have a mail written. Each returns the text that the host gets.
var makers = map[string]func(c *host) (said string, isError bool){
	"call": func(c *host) (string, bool) {
		res, text := c.try("mail", args{"text": "hi"})
		return strings.ReplaceAll(text, "mailed hi", "done: mailed hi"), res.IsError
	},
	"ask": func(c *host) (string, bool) {
		res, text := c.try("test.ask", args{"message": "mail"})
		return text, res.IsError
	},
}

// TestOutageWhileAMailIsMade: the store goes away while the mail is made and comes back before the
// host stops waiting. The host gets the result of the call.
func TestOutageWhileAMailIsMade(t *testing.T) {
	t.Parallel()
	for name, do := range makers {
		for _, lasts := range []time.Duration{time.Second, 5 * time.Minute} {
			t.Run(fmt.Sprint(name, " ", lasts), func(t *testing.T) {
				t.Parallel()
				outage(t, &enginetest.Outage{Lasts: lasts}, mailer, enginetest.App(), func(t *testing.T, c *host, rig *enginetest.Rig, store *enginetest.Outage) {
					rig.Service.SetGate(func(context.Context, seam.Run) error { store.Leave(); return nil })
					if said, bad := do(c); bad || !strings.Contains(said, "done: mailed hi") {
						t.Errorf("got %s", said)
					}
					if _, _, mails := rig.Service.Counts(); mails != 1 {
						t.Errorf("%d mails", mails)
					}
				})
			})
		}
	}
}

// continuation checks an error that says not to make the call again, and returns the continuation
// id in it.
func continuation(t *testing.T, said string) string {
	t.Helper()
	var e struct{ Error parley.ErrorInfo }
	if err := json.Unmarshal([]byte(said), &e); err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	if e.Error.Code != parley.CodeTimeout || e.Error.RetryAfterMS != 0 || !strings.Contains(e.Error.Message, "it may have been done") || !strings.Contains(e.Error.Hint, "do not call this again") {
		t.Errorf("got %+v", e.Error)
	}
	_, id, _ := strings.Cut(e.Error.Hint, "continuation_id ")
	id, _, _ = strings.Cut(id, " ")
	return id
}

// TestOutageThatOutlastsTheHost: the store stays away for longer than a host waits, or the server
// stops. The host is not told to try again. It gets the continuation that leads to the result.
func TestOutageThatOutlastsTheHost(t *testing.T) {
	t.Parallel()
	for name, do := range makers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outage(t, &enginetest.Outage{Lasts: time.Hour}, mailer, enginetest.App(), func(t *testing.T, c *host, rig *enginetest.Rig, store *enginetest.Outage) {
				rig.Service.SetGate(func(context.Context, seam.Run) error { store.Leave(); return nil })
				began := time.Now()
				said, bad := do(c)
				if waited := time.Since(began); !bad || waited < 10*time.Minute || waited > 11*time.Minute {
					t.Errorf("after %s: %s", waited, said)
				}
				id := continuation(t, said)
				time.Sleep(time.Hour) // in fake time
				if got := c.call("test.await_continuation", args{"continuation_id": id}); got["status"] != "completed" || !strings.Contains(fmt.Sprint(got["response"]), "mailed hi") {
					t.Errorf("afterwards: %v", got)
				}
				if _, _, mails := rig.Service.Counts(); mails != 1 {
					t.Errorf("%d mails", mails)
				}
			})
			outage(t, &enginetest.Outage{}, mailer, enginetest.App(), func(t *testing.T, c *host, rig *enginetest.Rig, _ *enginetest.Outage) {
				rig.Service.SetGate(func(ctx context.Context, _ seam.Run) error {
					go rig.Kill()
					<-ctx.Done()
					return ctx.Err()
				})
				said, bad := do(c)
				if !bad || continuation(t, said) == "" {
					t.Errorf("as the server stops: %s", said)
				}
			})
		})
	}
}

// TestOutageOfTheCallItself: the store goes away during the append that makes the turn, whether the
// append took place or not. The host is told to call again only if nothing was done.
func TestOutageOfTheCallItself(t *testing.T) {
	t.Parallel()
	for name, do := range makers {
		for _, lost := range []bool{true, false} {
			for _, lasts := range []time.Duration{5 * time.Second, 30 * time.Second, time.Hour} {
				t.Run(fmt.Sprint(name, " lost ", lost, " ", lasts), func(t *testing.T) {
					t.Parallel()
					outage(t, &enginetest.Outage{At: 2, Lost: lost, Lasts: lasts}, mailer, enginetest.App(), func(t *testing.T, c *host, rig *enginetest.Rig, _ *enginetest.Outage) {
						// A direct call has its tool's timeout, counted from its start. If the store is away for
						// that long, the call is not made. A turn waits instead.
						end, mails := "done: mailed hi", 1
						switch {
						case lost:
							end, mails = `"not_found"`, 0
						case name == "call" && lasts >= 30*time.Second:
							end, mails = "mail was not called: its time was up before it began", 0
						}
						said, bad := do(c)
						switch {
						case lasts == time.Hour:
							id := continuation(t, said)
							time.Sleep(time.Hour)
							res, text := c.try("test.await_continuation", args{"continuation_id": id})
							if !bad || res.IsError != lost || !strings.Contains(text, end) {
								t.Errorf("afterwards: error %v: %s, want %q", res.IsError, text, end)
							}
						case lost:
							var e struct{ Error parley.ErrorInfo }
							if err := json.Unmarshal([]byte(said), &e); err != nil || !bad || e.Error.Code != parley.CodeUnavailable || e.Error.RetryAfterMS == 0 ||
								!strings.Contains(e.Error.Message, "nothing was") {
								t.Errorf("nothing was done, and the host is told %s, %v", said, err)
							}
						default:
							if bad != (mails == 0) || !strings.Contains(said, end) {
								t.Errorf("error %v: %s, want %q", bad, said, end)
							}
						}
						if _, _, got := rig.Service.Counts(); got != mails {
							t.Errorf("%d mails, want %d", got, mails)
						}
					})
				})
			}
		}
	}
}

// TestOutageOfACallThatIsGivenUp: a host gives up a call while its turn is being committed. The turn
// is cancelled.
func TestOutageOfACallThatIsGivenUp(t *testing.T) {
	t.Parallel()
	outage(t, &enginetest.Outage{At: 2, Lasts: 5 * time.Second}, mailer, enginetest.App(asking), func(t *testing.T, c *host, rig *enginetest.Rig, _ *enginetest.Outage) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "mail", Arguments: args{"text": "hi"}}); err == nil {
			t.Error("the call ended well")
		}
		time.Sleep(time.Minute)
		list, err := rig.Store.Turns(t.Context(), enginetest.User, seam.TurnQuery{Limit: 10})
		if err != nil || len(list) != 1 || list[0].Status != parley.StatusCancelled {
			t.Errorf("got %+v, %v", list, err)
		}
	})
}

// TestOutageAsAPersonAnswers: the store is away when a person answers. await_continuation waits for
// the host's timeout once, not twice.
func TestOutageAsAPersonAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &enginetest.Outage{Store: mem.New(), Lasts: time.Hour}
		rig := enginetest.Over(t, store, &enginetest.Service{}, mailer, enginetest.App(asking))
		c, end := inMemory(t, rig, enginetest.App(asking), forms(func(*mcp.ElicitParams) (*mcp.ElicitResult, error) {
			time.Sleep(time.Minute) // in fake time
			store.Leave()
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"choice": "allow"}}, nil
		}))
		s := c.call("test.start_session", nil)["session_id"]
		turn := c.call("test.send_message", args{"session_id": s, "message": "mail"})["continuation_id"]
		began := time.Now()
		c.try("test.await_continuation", args{"continuation_id": turn, "timeout_ms": 2000})
		if took := time.Since(began) - time.Minute; took < 2*time.Second || took > 5*time.Second {
			t.Errorf("it returned %s after the answer", took)
		}
		end()
	})
}
