package replay_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// dot is a PNG of one pixel.
var dot = func() []byte {
	raw, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==")
	if err != nil {
		panic(err)
	}
	return raw
}()

// shelf has a slash command, a server with resources, and a tool that waits once. Nobody can ask
// it again: what it says is different each time.
type shelf struct {
	n     *int
	begun chan struct{}
	gate  chan struct{}
}

func (shelf) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "peek", Description: "Peeks.", Effect: parley.EffectRead, InputSchema: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (s shelf) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	if s.gate != nil {
		s.begun <- struct{}{}
		<-s.gate
	}
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK, Output: "peeked"}, nil
}

func (shelf) Commands() []parley.SlashCommand { return []parley.SlashCommand{{Name: "report"}} }

func (s shelf) Expand(_ context.Context, _, args string) (string, error) {
	return s.say("Report on " + args), nil
}

func (s shelf) ResourceServers() []seam.ResourceServer { return []seam.ResourceServer{s} }

func (shelf) ServerName() (name, short string) { return "docs-w1", "docs" }

func (shelf) Resources(context.Context) ([]parley.Resource, bool, error) { return nil, false, nil }

func (s shelf) Read(_ context.Context, r seam.Reading) ([]seam.ResourceContent, error) {
	if strings.HasPrefix(r.URI, "img:") {
		return []seam.ResourceContent{{Text: s.say("about it")}, {File: &seam.File{Name: "p.png", MediaType: "image/png", Body: dot}}}, nil
	}
	return []seam.ResourceContent{{Text: s.say("of " + r.URI), MediaType: "text/plain"}}, nil
}

func (s shelf) say(what string) string {
	*s.n++
	return strings.Repeat("again ", *s.n) + what
}

// sees are models that take images.
type sees struct{ seam.Models }

func (s sees) Model(name string) (seam.Model, error) {
	m, err := s.Models.Model(name)
	return seer{m}, err
}

type seer struct{ seam.Model }

func (s seer) Info() seam.ModelInfo {
	info := s.Model.Info()
	info.Images = true
	return info
}

func shelved(t *testing.T, s shelf, model enginetest.Model) *enginetest.Rig {
	app := enginetest.App(func(a *parley.App) {
		a.Tools, _ = s.Tools(ctx)
		a.MaxOpenTurns = 4
		a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Be useful.", Tools: []string{"peek"}}}
	})
	return enginetest.New(t, model, app, func(o *engine.Options) {
		box, err := toolbox.New([]seam.Toolset{s}, toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		o.Tools = map[string]*toolbox.Box{"test": box}
		o.Models = sees{o.Models}
		o.Runtimes = enginetest.Loop(o.Models)
	})
}

// TestReplayOfWhatMessagesStandFor: the prompt of a slash command and the texts of resources are those
// of the recording, in the log and for the model, and nobody is asked for them. A mention or a
// command that was just text stays that.
func TestReplayOfWhatMessagesStandFor(t *testing.T) {
	t.Parallel()
	r := shelved(t, shelf{n: new(int)}, enginetest.Echo)
	defer r.Close()
	s := r.Session()
	var last parley.TurnID
	for _, c := range []parley.Send{
		{Message: "/report the week"},
		{Message: "/none of it, @nobody:x:a"},
		{Message: "see @docs:x:a and @docs-w1:x:b", Resources: []parley.ResourceRef{{Server: "docs", URI: "x:c d"}}},
		{Message: "and now?"},
		{Message: "/report on @docs:x:a"},
	} {
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, c)
		if err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		last = turn.ID
	}
	retried, err := r.Engine.Retry(ctx, enginetest.User, last, "", "")
	if err != nil {
		t.Fatal(err)
	}
	r.Await(retried.ID)
	rec := recording(t, r, s.ID)
	same(t, rec)
	prompts := func(events []parley.Event) (list []parley.Digest) {
		for _, ev := range events {
			if p, err := ev.Payload(); err == nil {
				if m, ok := p.(parley.ModelStarted); ok {
					list = append(list, m.Context)
				}
			}
		}
		return list
	}
	res := again(t, rec, replay.Options{Info: func(name string) seam.ModelInfo {
		m, _ := enginetest.Models{F: enginetest.Echo}.Model(name)
		return seer{m}.Info()
	}})
	all := ""
	for _, q := range res.Requests {
		all += q.Messages[len(q.Messages)-1].Text()
	}
	for _, want := range []string{"again Report on the week", "of x:a", "of x:b", "of x:c d"} {
		if !strings.Contains(all, want) {
			t.Errorf("models were not told %q", want)
		}
	}
	// The last one repeats a turn, where a replay has one of its own.
	if diff := cmp.Diff(prompts(rec.Events)[:5], prompts(res.Events)[:5]); diff != "" {
		t.Errorf("prompts differ (-recorded +again): %s", diff)
	}
}

// TestReplayOfWhatSteersStandFor: the same of messages to a running turn. Images are artifacts, which a
// replay has none of.
func TestReplayOfWhatSteersStandFor(t *testing.T) {
	t.Parallel()
	shelf := shelf{n: new(int), begun: make(chan struct{}), gate: make(chan struct{})}
	var asked atomic.Int32
	r := shelved(t, shelf, func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		if asked.Add(1) == 1 {
			return seam.Reply{Parts: []parley.Part{enginetest.Call("peek", map[string]string{})}}, nil
		}
		say("done")
		return seam.Reply{}, nil
	})
	defer r.Close()
	s := r.Session()
	turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "go on with @docs:img:p"})
	if err != nil {
		t.Fatal(err)
	}
	<-shelf.begun
	for _, message := range []string{"/report the day", "and see @docs:x:a, @docs:img:q"} {
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: message, Busy: parley.BusySteer}); err != nil {
			t.Fatal(err)
		}
	}
	close(shelf.gate)
	r.Await(turn.ID)
	rec := recording(t, r, s.ID)
	if log := enginetest.Types(rec.Events); strings.Count(log, "turn.steered") != 2 {
		t.Fatalf("the log is\n%s", log)
	}
	same(t, rec)
}

// TestReplayOfADoubtfulReply: why a reply is doubtful is of the recording, too: whoever said so is not there.
func TestReplayOfADoubtfulReply(t *testing.T) {
	t.Parallel()
	model := func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		say("Perhaps.")
		return seam.Reply{Warning: "the beginning may have been cut off"}, nil
	}
	same(t, recorded(t, model, enginetest.App(), func(r *enginetest.Rig, s parley.SessionInfo) {
		r.Await(r.Send(s.ID, "Is it so?").ID)
	}))
}
