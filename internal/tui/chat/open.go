package chat

import (
	"context"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// Of a session at first the newest turns are read: as many as have so many events, and no more
// than so many events of a single turn.
const (
	firstTurns  = 20
	firstEvents = 1000
	olderTurns  = 20
	pageEvents  = 1000
)

// opened is a session as it was read.
type openedSession struct {
	conv  *conversation
	after int64 // where to follow from
}

// read reads the end of a session: who it is, what changed it as a whole, its newest turns, and
// what they wait for.
func read(ctx context.Context, c *client.Client, id parley.SessionID) (openedSession, error) {
	info, err := c.Session(ctx, id)
	if err != nil {
		return openedSession{}, err
	}
	conv := newConversation(info)
	for after := int64(0); ; {
		page, err := c.Events(ctx, id, after, client.EventFilter{Types: []string{"session.*"}, Limit: pageEvents})
		if err != nil {
			return openedSession{}, err
		}
		for _, e := range page.Events {
			if p, err := e.Payload(); err == nil {
				conv.session(p)
			}
		}
		if !page.More || page.Next <= after {
			break
		}
		after = page.Next
	}
	model := conv.info.Model
	if conv.info = info; conv.info.Model == "" {
		conv.info.Model = model
	}
	turns, next, err := c.TurnPage(ctx, id, client.TurnFilter{Limit: firstTurns})
	if err != nil {
		return openedSession{}, err
	}
	after, kept := info.Version, 0
	for _, t := range turns {
		if t.Status == parley.StatusPending {
			kept++
			continue
		}
		from := max(t.FirstSeq-1, 0)
		if info.Version-from > firstEvents && after < info.Version {
			break
		}
		after = min(after, from)
		kept++
		if info.Version-from > firstEvents {
			break
		}
	}
	if kept < len(turns) {
		next = turns[kept-1].ID
	}
	if info.Version-after > 2*firstEvents { // within a long turn
		after = info.Version - 2*firstEvents
	}
	conv.from, conv.seq, conv.older = after, after, next
	for _, t := range slices.Backward(turns[:kept]) {
		conv.taken[t.ID] = t.Rewound != 0
		if t.FirstSeq > after {
			continue // its events are read
		}
		shown := conv.seed(t)
		if t.Status != parley.StatusPending && t.FirstSeq <= after {
			shown.from = after
			shown.items = append(shown.items, &item{kind: kindGap, turn: shown, text: "… earlier steps"})
		}
		for _, in := range t.Interactions {
			if err := openOne(ctx, c, conv, shown, in); err != nil {
				return openedSession{}, err
			}
		}
	}
	return openedSession{conv: conv, after: after}, nil
}

// openOne reads an open interaction whose event may not be read.
func openOne(ctx context.Context, c *client.Client, conv *conversation, t *turn, id parley.InteractionID) error {
	in, err := c.Interaction(ctx, id)
	if parley.CodeOf(err) == parley.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if in.Open {
		conv.open = append(conv.open, in.Interaction)
	}
	return nil
}

// readOlder reads what comes before a conversation: the earlier steps of its first turn, or the
// turns before that. It returns the turns with their items.
func readOlder(ctx context.Context, c *client.Client, id parley.SessionID, first *turn, from int64, older parley.TurnID) (before []*turn, part *turn, at int64, next parley.TurnID, err error) {
	fold := newConversation(parley.SessionInfo{ID: id})
	load := func(after, to int64) error {
		fold.seq = after
		for fold.seq < to {
			page, err := c.Events(ctx, id, fold.seq, client.EventFilter{Limit: int(min(pageEvents, to-fold.seq))})
			if err != nil {
				return err
			}
			for _, e := range page.Events {
				if e.Seq <= to {
					fold.apply(e)
				}
			}
			if len(page.Events) == 0 {
				return nil
			}
		}
		return nil
	}
	if first != nil && first.from > 0 {
		at = max(first.first-1, first.from-firstEvents)
		if at >= first.first {
			t := fold.seed(parley.TurnInfo{ID: first.id, Status: parley.StatusRunning, Message: first.message, FirstSeq: first.first})
			t.from = at
		}
		err = load(at, first.from)
		return nil, fold.turn(first.id), at, older, err
	}
	turns, next, err := c.TurnPage(ctx, id, client.TurnFilter{Limit: olderTurns, Before: older})
	if err != nil || len(turns) == 0 {
		return nil, nil, 0, "", err
	}
	for _, t := range turns {
		fold.taken[t.ID] = t.Rewound != 0
	}
	oldest := turns[len(turns)-1]
	at = max(oldest.FirstSeq-1, 0)
	if from-at > 5*firstEvents { // a long turn among them: its end is enough at first
		at = from - 5*firstEvents
	}
	for _, t := range slices.Backward(turns) {
		if t.Status != parley.StatusPending && t.FirstSeq <= at {
			s := fold.seed(t)
			s.from = at
		}
	}
	if err = load(at, from); err != nil {
		return nil, nil, 0, "", err
	}
	return fold.turns, nil, at, next, nil
}

// prepend puts what was read before a conversation.
func (c *conversation) prepend(before []*turn, part *turn, at int64, next parley.TurnID) {
	c.from, c.older = at, next
	if part != nil && len(c.turns) > 0 {
		t := c.turns[0]
		t.items = slices.DeleteFunc(t.items, func(it *item) bool { return it.kind == kindGap })
		t.join(part)
		for call, it := range t.calls {
			it.waits = slices.ContainsFunc(c.open, func(in parley.Interaction) bool { return in.Call == call })
			it.rev++
		}
		if t.from = at; at < t.first {
			t.from = 0
		} else {
			t.items = append([]*item{{kind: kindGap, turn: t, text: "… earlier steps"}}, t.items...)
		}
		return
	}
	for _, t := range before {
		if t.from > 0 {
			t.items = append([]*item{{kind: kindGap, turn: t, text: "… earlier steps"}}, t.items...)
		}
	}
	c.turns = append(slices.Clip(before), c.turns...)
}

// join puts the items of an earlier part of the turn before those that it has.
func (t *turn) join(part *turn) {
	// A sub-agent belongs to the call that began it, if that had not ended.
	for agent, it := range t.agents {
		was := part.calls[it.call]
		if it.kind != kindAgent || was == nil || was.status == parley.ToolIsEnded {
			continue
		}
		was.live, was.title, was.inner = it.live, it.title, append(was.inner, it.inner...)
		if now := t.calls[it.call]; now != nil {
			now.live = it.live
		}
		t.agents[agent] = was
		t.items = slices.DeleteFunc(t.items, func(o *item) bool { return o == it })
	}
	for i, was := range part.items {
		part.items[i] = t.joined(was)
	}
	for call, was := range part.calls {
		if t.calls[call] == nil {
			t.calls[call] = was
		}
	}
	for agent, it := range t.agents {
		if now := t.calls[it.call]; it.kind == kindTool && now != nil {
			t.agents[agent] = now
		}
	}
	for agent, was := range part.agents {
		if now := t.calls[was.call]; was.kind == kindTool && now != nil {
			was = now
		}
		t.agents[agent] = was
	}
	// What a sub-agent did goes to the sub-agent.
	t.items = slices.DeleteFunc(t.items, func(it *item) bool {
		if slices.Contains(part.items, it) {
			return true
		}
		if call := t.calls[it.call]; it.kind == kindFiles && call != nil {
			call.files = append(call.files, it.files...)
			call.rev++
			return true
		}
		of := t.agents[it.agent]
		if it.agent.Depth() == 0 || of == nil || of == it {
			return false
		}
		of.inner = append(of.inner, it)
		of.rev++
		return true
	})
	// An answer is shown by itself only if no model call said it.
	t.items = slices.DeleteFunc(t.items, func(it *item) bool {
		return it.kind == kindText && it.call == "" && strings.TrimSpace(it.text) == strings.TrimSpace(part.said)
	})
	t.items = append(slices.Clip(part.items), t.items...)
	for _, name := range slices.Backward(part.models) {
		if !slices.Contains(t.models, name) {
			t.models = slices.Insert(t.models, 0, name)
		}
	}
	if t.entry == "" {
		t.entry = part.entry
	}
	if t.end != nil {
		t.end.rev++
	}
}

// joined is an item of an earlier part with what is known of it now: of a call that began in one
// part and ended in the other.
func (t *turn) joined(was *item) *item {
	was.turn = t
	for i, it := range was.inner {
		was.inner[i] = t.joined(it)
	}
	now := t.calls[was.call]
	if was.kind != kindTool || now == nil || now == was {
		return was
	}
	if len(now.input) == 0 {
		if now.took == now.done.Sub(now.at) { // it was measured here
			now.took = now.done.Sub(was.at)
		}
		now.input, now.at, now.subject = was.input, was.at, was.subject
	}
	if now.title == "" {
		now.title = was.title
	}
	now.live = now.live || was.live && was.kind == kindTool && len(was.inner) > 0 && now.status != parley.ToolIsEnded
	now.inner = append(was.inner, now.inner...)
	now.files = append(was.files, now.files...)
	now.rev++
	return now
}

// openSession reads a session and shows it.
func (m *model) openSession(id parley.SessionID) tea.Cmd {
	m.unfollow()
	m.opening = id
	m.say("Opening…")
	return ask(m, func(ctx context.Context, c *client.Client) (openedSession, error) { return read(ctx, c, id) },
		func(m *model, s openedSession, err error) tea.Cmd {
			if m.opening != id {
				return nil // another one was chosen meanwhile
			}
			m.opening = ""
			if err != nil {
				m.fail(err)
				if m.conv == nil && m.panel == nil {
					return m.chooseSession()
				}
				return nil
			}
			return m.show(s)
		})
}

// show puts a session on the screen.
func (m *model) show(s openedSession) tea.Cmd {
	keep, begun := m.conv != nil && m.conv.info.ID == s.conv.info.ID, m.ready()
	m.conv, m.draft, m.message = s.conv, nil, ""
	m.view.reset()
	if !keep {
		m.panel = nil
		m.asking = nil
		m.commands, m.files = nil, nil
		m.ed.history = nil
	}
	if !keep && begun {
		m.sending, m.attached = nil, nil
		m.ed.reset()
	}
	for _, t := range s.conv.turns {
		m.ed.remember(strings.TrimSpace(t.message))
	}
	m.app = m.appNamed(s.conv.info.App)
	m.sync()
	return tea.Batch(m.follow(s.conv.info.ID, s.after), m.readCommands(), m.sendEarly())
}

func (m *model) unfollow() {
	if m.following != nil {
		m.following.stop()
		m.following = nil
	}
}
