package gemini

import (
	"context"
	"errors"
	"strings"

	"github.com/parley-server/parley"
)

// thinking is the form in which a model is told how much to think.
type thinking string

const (
	byLevel  thinking = "level"
	byBudget thinking = "budget" // a token budget
	byNobody thinking = "nobody" // it does not think, or decides itself
)

// traits are settings that some models accept and others reject.
type traits struct {
	Thinking thinking
	NoMedium bool // there is no level between low and high
	Seals    bool // requires calls to come back with their signatures
}

// table is what is known of models as of 2026-11-20, by the prefix of their ids; the first match
// applies. The last row is for models newer than this table:
// https://ai.google.dev/gemini-api/docs/thinking and .../thought-signatures
var table = []struct {
	prefix string
	traits
}{
	{"gemini-1", traits{Thinking: byNobody}},
	{"gemini-2.0", traits{Thinking: byNobody}},
	{"gemini-2", traits{Thinking: byBudget}},
	{"gemini-3-pro", traits{Thinking: byLevel, NoMedium: true, Seals: true}},
	{"gemma", traits{Thinking: byNobody}},
	{"learnlm", traits{Thinking: byNobody}},
	{"", traits{Thinking: byLevel, Seals: true}},
}

func (c *Client) traits(id string) (t traits) {
	for _, row := range table {
		if strings.HasPrefix(id, row.prefix) {
			t = row.traits
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, ok := c.learned[id]; ok {
		t.Thinking = l
	}
	return t
}

// maxLearned limits how many models are remembered.
const maxLearned = 1000

func (c *Client) learn(id string, t thinking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.learned[id]; !ok && len(c.learned) >= maxLearned {
		clear(c.learned)
	}
	c.learned[id] = t
}

var levels = map[string]string{"low": levelLow, "medium": levelMedium, "high": levelHigh, "xhigh": levelHigh, "max": levelHigh}

// budgets are values that every model with a budget accepts.
var budgets = map[string]int32{"low": 2048, "medium": 8192, "high": 24_576, "xhigh": 24_576, "max": 24_576}

// think says how much to think. nil is the provider's default.
func (t traits) think(effort string) *thinkingConfig {
	level, ok := levels[effort]
	if !ok {
		return nil
	}
	switch t.Thinking {
	case byLevel:
		if t.NoMedium && level == levelMedium {
			level = levelHigh
		}
		return &thinkingConfig{Thoughts: true, Level: level}
	case byBudget:
		budget := budgets[effort]
		return &thinkingConfig{Thoughts: true, Budget: &budget}
	}
	return nil
}

// again derives from a rejection whether another form of the request may be accepted, and
// changes the form accordingly.
func (m *model) again(ctx context.Context, err error, f *form) bool {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Code != parley.CodeInvalid {
		return false
	}
	words := strings.ToLower(strings.ReplaceAll(e.Message, "_", " "))
	switch {
	case strings.Contains(words, "thought signature"):
		if !f.sealed || f.bare {
			return false
		}
		f.bare = true
		m.c.opt.Logger.WarnContext(ctx, "gemini: the provider no longer accepts one of its own seals", "model", m.id, "said", e.Message)
		return true
	case strings.Contains(words, "thinking") && f.thinks:
		next := byNobody
		if f.traits.Thinking == byLevel && strings.Contains(words, "level") {
			next = byBudget
		}
		f.traits.Thinking = next
		m.c.learn(m.id, next)
		m.c.opt.Logger.InfoContext(ctx, "gemini: trying another form of the thinking setting", "model", m.id, "said", e.Message)
		return true
	}
	return false
}
