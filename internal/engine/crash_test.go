package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	ask := func(a *parley.App) {
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}, {Verdict: parley.Allow, Effect: parley.EffectRead}}
	}
	auto := func(a *parley.App) { a.Resume = parley.ResumeAuto }
	for name, sc := range map[string]enginetest.Scenario{
		"plain":      {App: enginetest.App(), Model: always(enginetest.Echo), Messages: []string{"one", "two"}},
		"read":       {App: enginetest.App(), Model: always(mailer("look")), Messages: []string{"go"}},
		"idempotent": {App: enginetest.App(), Model: always(mailer("put")), Messages: []string{"go"}},
		"write":      {App: enginetest.App(), Model: always(mailer("mail")), Messages: []string{"go", "and then?"}},
		"asked":      {App: enginetest.App(ask), Model: always(mailer("mail")), Messages: []string{"go"}},
		"auto":       {App: enginetest.App(auto), Model: always(mailer("mail")), Messages: []string{"go"}},
		"question":   {App: enginetest.App(curious), Model: always(asker), Messages: []string{"go"}},
		"handoff":    {App: threeAgents(), Model: always(relay), Messages: []string{"the question"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.CrashEverywhere(t, sc)
		})
	}
}

func always(m enginetest.Model) func() enginetest.Model { return func() enginetest.Model { return m } }

// threeAgents is an app with the same handoffs as chaos.
func threeAgents() parley.App {
	return enginetest.App(func(a *parley.App) {
		a.Entry = "front"
		a.Agents = map[string]parley.AgentDef{
			"front": {Name: "front", Prompt: "Answer.", Handoffs: []string{"fetch"}},
			"fetch": {Name: "fetch", Prompt: "Fetch.", Tools: []string{"look", "mail"}, Handoffs: []string{"sum"}, History: parley.HistoryNone},
			"sum":   {Name: "sum", Prompt: "Sum up.", Handoffs: []string{"front"}, History: parley.HistoryNone},
		}
	})
}

// relay passes the turn round the three agents, with two reads and a mail on the way.
func relay(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	hand := func(to string) seam.Reply {
		return seam.Reply{Parts: []parley.Part{{Type: parley.PartHandoff, Name: to, Text: "as agreed"}}}
	}
	last := enginetest.Last(r)
	switch r.Agent {
	case "front":
		if strings.Contains(last, "[handed over by sum]") {
			say("The answer: ")
			say(last[strings.LastIndex(last, "\n")+1:])
			return seam.Reply{}, nil
		}
		return hand("fetch"), nil
	case "fetch":
		if len(enginetest.Results(r)) == 0 {
			return seam.Reply{Parts: []parley.Part{
				enginetest.Call("look", map[string]string{"text": "a"}), enginetest.Call("look", map[string]string{"text": "b"}),
				enginetest.Call("mail", map[string]string{"text": "c"}),
			}}, nil
		}
		return hand("sum"), nil
	}
	say("both seen")
	return hand("front"), nil
}
