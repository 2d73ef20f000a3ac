package anthropic

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// traits are settings that some models accept and others reject.
type traits struct {
	Sampling bool // accepts a temperature
	Adaptive bool // chooses how much to think by an effort; otherwise it thinks within a token budget
	Effort   bool // accepts an effort
}

// table is what is known of models as of 2026-11-20, by the prefix of their ids; the first match
// applies. The last row is for models newer than this table:
// https://platform.claude.com/docs/en/about-claude/models/overview
var table = []struct {
	prefix string
	known  bool
	traits
}{
	{"claude-opus-4-8", true, traits{Adaptive: true, Effort: true}},
	{"claude-opus-4-7", true, traits{Adaptive: true, Effort: true}},
	{"claude-opus-4-6", true, traits{Sampling: true, Adaptive: true, Effort: true}},
	{"claude-sonnet-4-6", true, traits{Sampling: true, Adaptive: true, Effort: true}},
	{"claude-opus-4", true, traits{Sampling: true}},
	{"claude-sonnet-4", true, traits{Sampling: true}},
	{"claude-haiku-4", true, traits{Sampling: true}},
	{"claude-3", true, traits{Sampling: true}},
	{"claude-haiku-5", true, traits{Adaptive: true, Effort: true}},
	{"claude-sonnet-5", true, traits{Adaptive: true, Effort: true}},
	{"claude-opus-5", true, traits{Adaptive: true, Effort: true}},
	{"claude-fable-5", true, traits{Adaptive: true, Effort: true}},
	{"claude-mythos-5", true, traits{Adaptive: true, Effort: true}},
	{"", false, traits{Adaptive: true, Effort: true}},
}

// learned has the facts about a model that its provider has reported, beyond the table.
type learned struct {
	asked      time.Time // when its capabilities were received; zero: never
	thinking   bool      // whether they say how it thinks
	adaptive   bool
	effort     bool
	noSampling bool
}

// learnedFor is how long the capabilities are trusted.
const learnedFor = 24 * time.Hour

// maxLearned limits how many models are remembered.
const maxLearned = 1000

func (c *Client) learn(o modelObject) {
	l := learned{asked: c.opt.Now()}
	if k := o.Capabilities; k != nil && k.Thinking.Types != nil {
		l.thinking, l.adaptive, l.effort = true, k.Thinking.Types["adaptive"].Supported, k.Effort.Supported
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.noSampling = c.learned[o.ID].noSampling
	c.keep(o.ID, l)
}

// refusesSampling records that the model accepts no temperature.
func (c *Client) refusesSampling(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.learned[id]
	l.noSampling = true
	c.keep(id, l)
}

func (c *Client) keep(id string, l learned) {
	if _, ok := c.learned[id]; !ok && len(c.learned) >= maxLearned {
		clear(c.learned)
	}
	c.learned[id] = l
}

// traits returns what the model accepts. sure is false if neither the table nor the provider has
// said how it thinks.
func (c *Client) traits(id string) (t traits, sure bool) {
	for _, row := range table {
		if strings.HasPrefix(id, row.prefix) {
			t, sure = row.traits, row.known
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.learned[id]
	if l.noSampling {
		t.Sampling = false
	}
	if fresh := !l.asked.IsZero() && c.opt.Now().Sub(l.asked) < learnedFor; fresh {
		sure = true
		if l.thinking {
			t.Adaptive, t.Effort = l.adaptive, l.effort
		}
	}
	return t, sure
}

// ask requests the provider's description of a model.
func (c *Client) ask(ctx context.Context, id string) (modelObject, error) {
	var o modelObject
	if err := c.call(ctx, http.MethodGet, "/v1/models/"+url.PathEscape(id), nil, &o); err != nil {
		return o, err
	}
	// The answer may carry the id that an alias stands for.
	o.ID = id
	c.learn(o)
	return o, nil
}
