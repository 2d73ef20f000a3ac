package engine_test

import (
	"context"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// teamMoves are the commands that concern one sub-agent, or that change the mode or the app for all
// of them.
var teamMoves = []string{"steer worker", "answer one", "decline one", "plan mode", "other app"}

// team plays pairs of commands while sub-agents work: all pairs with a command of teamMoves, and a
// third of the others. In "team both" two sub-agents each ask a human. In "team back" one asks a
// human and one works in the background. With which of these messages a pair begins depends only on
// the pair.
func (h *pairs) team() {
	h.moves = slices.Concat(pairMoves, teamMoves)
	base := h.app
	h.app = enginetest.App(team, func(a *parley.App) {
		a.Resume, a.MaxOpenTurns, a.TTL, a.Policy = base.Resume, base.MaxOpenTurns, base.TTL, base.Policy
		a.Policy.Modes = []parley.PermissionMode{parley.ModeDefault, parley.ModePlan}
	})
	h.start(h.r.Service, h.app)
	for _, first := range h.moves {
		for _, second := range h.moves {
			hash := fnv.New32a()
			_, _ = hash.Write([]byte(first + second))
			n := hash.Sum32()
			if own := slices.Contains(teamMoves, first) || slices.Contains(teamMoves, second); own || n/2%3 == 0 {
				h.play([]string{"team both", "team back"}[n%2], first, second)
			}
		}
	}
	if !h.saw["agent.ended"] {
		h.t.Error("no sub-agent has ended")
	}
}

// model answers for the agents of a team, and for a single one.
func (h *pairs) model(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	last := enginetest.Last(r)
	if r.Agent != "worker" && strings.HasPrefix(last, "team ") {
		results := enginetest.Results(r)
		switch {
		case len(results) > 0:
			say(strings.Join(results, ", "))
			return seam.Reply{}, nil
		case last == "team both":
			return seam.Reply{Parts: []parley.Part{give("mail first", false), give("mail second", false)}}, nil
		}
		return seam.Reply{Parts: []parley.Part{give("mail first", false), give("long second", true)}}, nil
	}
	return h.held.model(ctx, r, say)
}

func (h *pairs) doTeam(move string, before parley.Session) (err error) {
	e := h.r.Engine
	switch move {
	case "steer worker":
		_, err = e.Send(ctx, enginetest.User, h.id, parley.Send{Message: "hurry", Busy: parley.BusySteer, Agent: "lead/worker"})
	case "answer one", "decline one":
		if len(before.Interactions) == 0 {
			return nil
		}
		choice := map[string]string{"answer one": parley.ChoiceAllow, "decline one": parley.ChoiceDeny}[move]
		in := before.Interactions[0]
		_, err = e.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: choose(in, choice)}})
		if now := h.state(); err == nil && now.Turn != nil && before.Turn.ID == now.Turn.ID && len(before.Interactions) == 2 && len(now.Interactions) == 0 {
			h.t.Errorf("%s: the answer to one agent has closed the question of another\n%s", h.what, enginetest.Types(h.r.Log(h.id)))
		}
	case "plan mode":
		plan := parley.ModePlan
		_, err = e.Update(ctx, enginetest.User, h.id, parley.UpdateSession{Mode: &plan})
	case "other app": // an app whose agent has no sub-agents
		h.restart(enginetest.App(func(a *parley.App) {
			a.Resume, a.MaxOpenTurns, a.TTL, a.Policy = h.app.Resume, h.app.MaxOpenTurns, h.app.TTL, h.app.Policy
		}))
		h.restart(h.app)
	case "claim":
		for _, in := range before.Interactions {
			if in.Kind == parley.KindClient {
				err = h.client.Take(ctx, e, in.ID)
			}
		}
	case "report":
		h.reports()
	default:
		h.t.Fatalf("there is no move %q", move)
	}
	return err
}

// choose returns choice, or ChoiceLeave if in asks about an unknown outcome.
func choose(in parley.Interaction, choice string) string {
	if in.Kind == parley.KindUnknown {
		return parley.ChoiceLeave
	}
	return choice
}

// once checks that no more mails were sent in a session than its log records as sent or as unknown.
func (h *pairs) once(log []parley.Event) {
	said := 0
	for _, ev := range log {
		p, err := ev.Payload()
		if p, ok := p.(parley.ToolEnded); err == nil && ok && p.Name == "mail" && (p.Outcome == parley.OutcomeOK || p.Outcome == parley.OutcomeUnknown) {
			said++
		}
	}
	if _, _, mails := h.r.Service.Counts(); mails-h.mails > said {
		h.t.Errorf("%s: %d mails were sent, and the log has %d\n%s", h.what, mails-h.mails, said, enginetest.Types(log))
	}
}
