package conversations

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
)

// memory is the table in memory.
type memory struct {
	mu   sync.Mutex
	rows map[string]row
}

type row struct {
	Conversation
	owner
}

func (m *memory) each(_ context.Context, of owner, after mark, messages bool, visit func(Conversation) bool) error {
	m.mu.Lock()
	var all []Conversation
	for _, r := range m.rows {
		if r.owner == of && (after.id == "" || cmp.Or(r.UpdatedAt.Compare(after.at), cmp.Compare(r.ID, after.id)) < 0) {
			all = append(all, r.Conversation)
		}
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b Conversation) int { return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), cmp.Compare(b.ID, a.ID)) })
	for _, c := range all {
		if !messages {
			c.Messages = nil
		}
		if !visit(c) {
			return nil
		}
	}
	return nil
}

func (m *memory) get(_ context.Context, of owner, id string) (Conversation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(of, id)
}

func (m *memory) find(of owner, id string) (Conversation, error) {
	r, ok := m.rows[id]
	if !ok || r.owner != of {
		return Conversation{}, notFound(id)
	}
	r.Messages = bytes.Clone(r.Messages)
	return r.Conversation, nil
}

// put stores c, unless that is beyond the owner's limits.
func (m *memory) put(of owner, c Conversation) error {
	old, there := m.rows[c.ID]
	count, sum := int64(0), c.size()
	for id, r := range m.rows {
		if r.owner == of {
			count++
			if id != c.ID {
				sum += r.size()
			}
		}
	}
	if !there {
		count++
	}
	if !there || c.size() > old.size() {
		if err := full(count, sum); err != nil {
			return err
		}
	}
	c.Messages = bytes.Clone(c.Messages)
	m.rows[c.ID] = row{c, of}
	return nil
}

func (m *memory) add(_ context.Context, of owner, c Conversation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(of, c)
}

func (m *memory) change(_ context.Context, of owner, id string, edit func(c *Conversation)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.find(of, id)
	if err != nil {
		return err
	}
	edit(&c)
	return m.put(of, c)
}

func (m *memory) remove(_ context.Context, of owner, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find(of, id); err != nil {
		return err
	}
	delete(m.rows, id)
	return nil
}
