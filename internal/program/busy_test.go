package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// waitingDesk is a session whose turn waits for a yes.
type waitingDesk struct {
	*process
	t       *testing.T
	place   *place
	session parley.SessionID
	outside string
	turn    parley.TurnInfo
}

// TestBusy_while_a_turn_waits sends a message over each wire to a session whose turn waits for
// a human. The message is refused with the name of the open request; or it is queued and
// answers nothing; or it declines the request.
func TestBusy_while_a_turn_waits(t *testing.T) {
	t.Parallel()
	service := newPost(t)
	p := newPlace(t)
	p.withDesk(service.URL, "0s")
	dir := filepath.Join(p.dir, "apps", "counter")
	p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
	p.write(filepath.Join(dir, "app.yaml"), `title: Counter
model: test/clerk
agents:
  clerk: {prompt: clerk.md, tools: [mail]}
tools: {desk: {}}
policy: {rules: [{verdict: ask}]}
max_open_turns: 4
wires: [chat]
`)
	p.env = append(p.env, "PARLEY_ENABLED=counter")
	s := p.serve()

	// Each wire returns nil if the message was accepted, else the reason for the refusal.
	wires := map[string]func(d *waitingDesk, busy parley.BusyMode) *parley.ErrorInfo{
		"JSON": func(d *waitingDesk, busy parley.BusyMode) *parley.ErrorInfo {
			a := d.ask("POST", "/v1/sessions/"+string(d.session)+"/turns", object("message", "and?", "busy", string(busy)))
			return d.refusal(a, http.StatusAccepted)
		},
		"SSE": func(d *waitingDesk, busy parley.BusyMode) *parley.ErrorInfo {
			return d.refusal(d.begin("/v1/sessions/"+string(d.session)+"/turns", object("message", "and?", "busy", string(busy))), http.StatusOK)
		},
		"client": func(d *waitingDesk, busy parley.BusyMode) *parley.ErrorInfo {
			_, err := client.New(client.Options{BaseURL: d.url}).Send(d.t.Context(), d.session, parley.Send{Message: "and?", Busy: busy})
			if err == nil {
				return nil
			}
			info := parley.Info(err)
			return &info
		},
		"MCP": func(d *waitingDesk, busy parley.BusyMode) *parley.ErrorInfo {
			must[parley.SessionInfo](d.process, "PATCH", "/v1/sessions/"+string(d.session), object("busy", string(busy)))
			return d.overMCP()
		},
		"run": func(d *waitingDesk, busy parley.BusyMode) *parley.ErrorInfo { return d.overCommand(busy) },
		"chat": func(d *waitingDesk, busy parley.BusyMode) *parley.ErrorInfo {
			if busy != parley.BusyReject { // this wire only rejects
				return nil
			}
			return d.refusal(d.begin("/chat", object("session_id", d.outside, "message", "and?")), http.StatusOK)
		},
	}
	for wire, send := range wires {
		for busy, want := range map[parley.BusyMode][]string{
			parley.BusyReject:  nil,
			parley.BusyEnqueue: {"turn.queued"},
			parley.BusySteer:   {"interaction.answered", "turn.steered"},
		} {
			if wire == "chat" && busy != parley.BusyReject {
				continue
			}
			t.Run(wire+" "+string(busy), func(t *testing.T) {
				d := waitsAt(t, s, p, wire+string(busy))
				before := len(s.log(d.session))
				refused := send(d, busy)
				var came []string
				for _, ev := range decode(t, s.log(d.session))[before:] {
					if len(came) < len(want) && ev.Type != "session.updated" {
						came = append(came, string(ev.Type))
					}
				}
				if diff := cmp.Diff(want, came); diff != "" {
					t.Errorf("it came to (-want +got):\n%s", diff)
				}
				switch in := d.turn.Interactions[0]; {
				case busy != parley.BusyReject:
					if refused != nil {
						t.Errorf("it was refused: %+v", refused)
					}
				case refused == nil:
					t.Error("it was taken")
				case refused.Code != parley.CodeBusy || !strings.Contains(refused.Message, string(in)) || refused.Hint == "" || refused.RetryAfterMS <= 0 && wire != "run":
					t.Errorf("it was refused with %+v, which should name %s", refused, in)
				}
				must[parley.SessionInfo](s, "POST", "/v1/sessions/"+string(d.session)+"/end", "{}")
				if err := enginetest.CheckLog(decode(t, s.log(d.session))); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// waitsAt makes a session whose turn waits for permission to send a mail.
func waitsAt(t *testing.T, s *process, p *place, outside string) *waitingDesk {
	d := &waitingDesk{process: s, t: t, place: p, outside: outside}
	d.session = must[parley.SessionInfo](d.process, "POST", "/v1/sessions", object("app", "counter", "outside_id", outside)).ID
	d.turn = d.waiting(d.send(d.session, "mail a letter").ID)
	return d
}

// begin makes a request whose answer may be an endless stream, and reads only its beginning.
func (d *waitingDesk) begin(path, body string) answer {
	d.t.Helper()
	ctx, stop := context.WithCancel(d.t.Context())
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return answer{resp.StatusCode, resp.Header, nil}
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		d.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, b.Bytes()}
}

// refusal returns the error of an answer with status 409, or nil if the message was accepted.
func (d *waitingDesk) refusal(a answer, taken int) *parley.ErrorInfo {
	d.t.Helper()
	if a.status == taken {
		return nil
	}
	if a.status != http.StatusConflict {
		d.t.Errorf("got %s", a)
	}
	info := problemOf(d.t, a)
	return &info
}

func (d *waitingDesk) overMCP() *parley.ErrorInfo {
	d.t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "another", Version: "1"}, nil).
		Connect(d.t.Context(), &mcp.StreamableClientTransport{Endpoint: d.url + "/apps/counter/mcp", MaxRetries: -1}, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the test is done with it
	got, err := c.CallTool(d.t.Context(), &mcp.CallToolParams{Name: "counter.send_message", Arguments: map[string]any{"session_id": d.session, "message": "and?"}})
	if err != nil {
		d.t.Fatal(err)
	}
	if !got.IsError {
		return nil
	}
	var e struct{ Error parley.ErrorInfo }
	if err := json.Unmarshal([]byte(got.Content[0].(*mcp.TextContent).Text), &e); err != nil {
		d.t.Fatal(err)
	}
	return &e.Error
}

// overCommand sends with the command. The command follows the turn, so the open request is
// answered once the message is there.
func (d *waitingDesk) overCommand(busy parley.BusyMode) *parley.ErrorInfo {
	d.t.Helper()
	cmd := d.place.command("run", "--session", string(d.session), "--busy", string(busy), "and?")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	if busy == parley.BusyEnqueue {
		d.until("a message in the queue", func() bool { return strings.Contains(strings.Join(d.log(d.session), "\n"), "turn.queued") })
		if open := d.waiting(d.turn.ID).Interactions; len(open) != 1 {
			d.t.Errorf("%d interactions are open", len(open))
		}
		d.answer(d.turn.Interactions[0], parley.Answer{Choice: parley.ChoiceDeny})
	}
	_ = cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	if code == 0 {
		if !strings.Contains(out.String(), "You said: and?") && busy == parley.BusyEnqueue {
			d.t.Errorf("it printed %q", out.String())
		}
		return nil
	}
	if code != 1 {
		d.t.Errorf("exit %d: %s", code, errs.String())
	}
	return &parley.ErrorInfo{Code: parley.CodeBusy, Message: errs.String(), Hint: fmt.Sprint(strings.Contains(errs.String(), "busy=steer"))}
}
