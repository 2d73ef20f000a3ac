package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// offering is the service with the given tools instead of its own.
type offering struct {
	*enginetest.Service
	decls []parley.ToolDecl
}

func (o offering) Tools(context.Context) ([]parley.ToolDecl, error) { return o.decls, nil }

// offered returns an app and engine options after a change of one tool. A nil change removes the
// tool.
func offered(t *testing.T, s *enginetest.Service, name string, change func(*parley.ToolDecl)) (parley.App, func(*engine.Options)) {
	t.Helper()
	app := enginetest.App(asking)
	decls := slices.Clone(app.Tools)
	at := slices.IndexFunc(decls, func(d parley.ToolDecl) bool { return d.Name == name })
	if change == nil {
		decls = slices.Delete(decls, at, at+1)
	} else {
		change(&decls[at])
	}
	app.Tools = decls
	return app, enginetest.With(offering{s, decls})
}

var widened = json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"to":{"type":"string"}},"required":["text"]}`)

// TestToolsOfYesterday resumes turns after the tools have changed. A call is made with the tool as
// it was when the turn began. If that is not possible, it is not made, and its result says so.
func TestToolsOfYesterday(t *testing.T) {
	t.Parallel()
	type change = func(*parley.ToolDecl)
	reworded := func(d *parley.ToolDecl) {
		d.Description = "Another word for it."
		d.Timeout = parley.Duration(time.Second)
	}
	for name, tc := range map[string]struct {
		tool    string
		started bool
		change  change
		later   time.Duration
		want    string // outcome
		says    string
		calls   int // calls that reached the service, including those before the change
	}{
		"asked, the same":                    {tool: "mail", change: reworded, want: "mail ok", calls: 1},
		"asked, gone":                        {tool: "mail", want: "mail error", says: `The tool "mail" is not there any more. The call was not made.`},
		"asked, other effect":                {tool: "mail", change: func(d *parley.ToolDecl) { d.Effect = parley.EffectRead }, want: "mail error", says: `The tool "mail" has changed`},
		"asked, other schema":                {tool: "mail", change: func(d *parley.ToolDecl) { d.InputSchema = widened }, want: "mail error", says: `The tool "mail" has changed`},
		"asked, and moves things today":      {tool: "mail", change: func(d *parley.ToolDecl) { d.Actuation = true }, want: "mail denied", says: "actuation is off"},
		"started write, gone":                {tool: "mail", started: true, want: "mail unknown", says: `The tool "mail" is not there any more`, calls: 1},
		"started write, a read today":        {tool: "mail", started: true, change: func(d *parley.ToolDecl) { d.Effect = parley.EffectRead }, want: "mail unknown", says: `The tool "mail" has changed`, calls: 1},
		"started with a key, the same":       {tool: "put", started: true, change: reworded, want: "put ok", calls: 1},
		"started with a key, gone":           {tool: "put", started: true, want: "put unknown", says: `The tool "put" is not there any more`, calls: 1},
		"started with a key, none today":     {tool: "put", started: true, change: func(d *parley.ToolDecl) { d.Effect = parley.EffectWrite }, want: "put unknown", says: `The tool "put" has changed`, calls: 1},
		"started with a key kept less today": {tool: "put", started: true, change: func(d *parley.ToolDecl) { d.KeyTTL = parley.Duration(time.Minute) }, later: 2 * time.Minute, want: "put unknown", calls: 1},
		"started read, gone":                 {tool: "look", started: true, want: "look error", says: `The tool "look" is not there any more`, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(asking)
				if tc.started {
					app = enginetest.App(func(a *parley.App) { a.Policy.Unattended = true })
				}
				first := enginetest.New(t, mailer(tc.tool), app)
				hang := make(chan struct{})
				first.Service.SetGate(func(context.Context, seam.Run) error { <-hang; return nil })
				s := first.Session()
				turn := first.Send(s.ID, "go")
				time.Sleep(time.Second) // long enough to commit the start of a read too
				synctest.Wait()
				disk := first.Dies(hang)
				first.Service.SetGate(nil)
				time.Sleep(tc.later)

				today, tools := offered(t, first.Service, tc.tool, tc.change)
				r := enginetest.Over(t, disk, first.Service, mailer(tc.tool), today, tools)
				defer r.Close()
				if _, err := r.Engine.Recover(ctx); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				switch got := r.Await(turn.ID); {
				case got.Status == parley.StatusWaiting:
					if _, err := r.Engine.Answer(ctx, enginetest.User, got.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
						t.Fatal(err)
					}
				case got.Status == parley.StatusInterrupted:
					if _, err := r.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
						t.Fatal(err)
					}
				}
				got, err := r.Engine.Await(ctx, enginetest.User, turn.ID, 2*time.Minute) // a started call runs until its deadline
				if err != nil || got.Status != parley.StatusCompleted || !strings.Contains(got.Response.Message, tc.says) {
					t.Errorf("the turn is %s and says %+v: %v", got.Status, got.Response, got.Error)
				}
				log := r.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if got := enginetest.Outcomes(log); got[0] != tc.want {
					t.Errorf("got %v", got)
				}
				for _, e := range log {
					if p, err := e.Payload(); err != nil {
						t.Fatal(err)
					} else if p, ok := p.(parley.ToolStarted); ok && p.Deadline.Sub(e.Time) < 9*time.Second { // it was 10 s or more yesterday
						t.Errorf("attempt %d may take %s, as the tool of today says", p.Attempt, p.Deadline.Sub(e.Time))
					}
				}
				looks, puts, mails := r.Service.Counts()
				if n := looks + puts + mails; n != tc.calls {
					t.Errorf("the service was called %d times", n)
				}
			})
		})
	}
}
