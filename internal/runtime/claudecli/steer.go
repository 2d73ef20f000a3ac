package claudecli

import (
	"context"
	"fmt"

	"github.com/parley-server/parley"
)

// messageID is the id of a message to the CLI, which names the turn. Each attempt has ids of its own: the CLI
// drops a message whose id is in its transcript, also in what it was told not to go on from.
func (t *turn) messageID(what string) string { return promptID(t.h.Turn(), t.attempt+" "+what) }

// say sends a message to the CLI.
func (t *turn) say(id string, content []any) error {
	t.mu.Lock()
	t.sent = append(t.sent, id)
	t.mu.Unlock()
	return t.p.conn.send(map[string]any{
		"type": "user", "uuid": id, "message": map[string]any{"role": "user", "content": content},
		"client_composed": true, // slash commands and @file are for those who sit at the CLI
	})
}

// steer passes on what the user has said since the turn began.
func (t *turn) steer(ctx context.Context) error {
	s := t.h.State()
	if s.Turn == nil {
		return nil
	}
	said := steers(s.Turn, t.entry)
	t.mu.Lock()
	from := min(t.heard, len(said))
	t.heard = len(said)
	t.mu.Unlock()
	t.p.mu.Lock()
	t.p.heard = len(said)
	t.p.mu.Unlock()
	for i, parts := range said[from:] {
		content, err := t.content(ctx, parts)
		if err != nil {
			return err
		}
		if err := t.say(t.messageID(fmt.Sprintf("steer %d", from+i)), content); err != nil {
			return err
		}
	}
	return t.syncMode(ctx, s)
}

// steers lists what the user and hooks have told the agent in this turn, in order.
func steers(t *parley.Turn, path parley.AgentPath) (list [][]parley.Part) {
	a := t.Agent(path)
	if a == nil {
		return nil
	}
	add := func(it parley.Item) {
		switch it.Kind {
		case parley.ItemSteer:
			list = append(list, it.Parts)
		case parley.ItemHook:
			list = append(list, []parley.Part{{Type: parley.PartText, Text: parley.HookSays(it.Text)}})
		}
	}
	for _, it := range a.Items {
		add(it)
	}
	for _, it := range t.Pending(a) {
		add(it)
	}
	return list
}

// syncMode gives the CLI the session's permission mode. Only plan mode matters: it tells the model
// to plan. What is allowed is decided here.
func (t *turn) syncMode(ctx context.Context, s *parley.Session) error {
	mode := modeOf(t.app, s)
	t.p.mu.Lock()
	same := t.p.mode == mode
	t.p.mode = mode
	t.p.mu.Unlock()
	if same {
		return nil
	}
	_, err := t.p.conn.ask(ctx, map[string]any{"subtype": "set_permission_mode", "mode": mode})
	return err
}

func modeOf(app *parley.App, s *parley.Session) string {
	mode := s.Mode
	if mode == "" {
		mode = app.Mode
	}
	if mode == parley.ModePlan {
		return "plan"
	}
	return "default"
}
