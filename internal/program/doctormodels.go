package program

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/seam"
)

const noPrice = "it has no price, so budgets in dollars do not count it (models.known in parley.yaml gives it one)"

// providers asks each model provider whether it would answer. No output contains a key.
func (d *doctor) providers(ctx context.Context, s config.Settings) {
	m, err := newAnswerers(s, slog.New(slog.DiscardHandler))
	if err != nil {
		d.fail("providers", err)
		return
	}
	var list []client.Provider
	if err := asClient(m.ask(ctx), &list); err != nil {
		d.fail("providers", err)
		return
	}
	d.answers(list)
}

// answers reports what the providers answered.
func (d *doctor) answers(list []client.Provider) {
	if len(list) == 0 {
		d.ok("providers", "none is set up; apps answer with their scripts")
	}
	for _, p := range list {
		if p.OK {
			d.ok("provider", "%s accepts the key and has %s", p.Name, count(len(p.Models), "model", "models"))
			continue
		}
		e := cmp.Or(p.Error, &parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "it does not answer"})
		d.fail("provider", (&parley.Error{Code: e.Code, Message: p.Name + ": " + e.Message, Hint: e.Hint}))
	}
}

// fewTokens is a context window in which an app's instructions and tools leave little
// room.
const fewTokens = 16_000

// takes reports the context window that a server was found to be set to.
func (d *doctor) takes(name string, tokens int64, hint string) {
	if tokens < fewTokens {
		d.warn("context", "%s takes %d tokens with its server's settings, too few for long conversations; %s", name, tokens, hint)
		return
	}
	d.ok("context", "%s takes %d tokens", name, tokens)
}

// window reports how many tokens a local server accepts, if that is little or not known
// yet.
func (d *doctor) window(ctx context.Context, name string, m seam.Model) {
	measurer, ok := m.(seam.Measurer)
	if !ok {
		return
	}
	brief, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	err := measurer.Measure(brief)
	switch i := m.Info(); {
	case err != nil:
		d.warn("context", "%s: how many tokens its server takes could not be asked: %v", name, err)
	case i.ContextHint != "":
		d.takes(name, i.ContextTokens, i.ContextHint)
	case i.Guessed:
		d.ok("context", "%s: its server says how many tokens it takes once it is loaded; %d are assumed", name, i.ContextTokens)
	}
}

// used checks, with their providers, the models that apps name.
func (d *doctor) used(ctx context.Context, p *plan) {
	for _, a := range p.resolved {
		switch {
		case a.Runtime == "claude":
			d.onClaude = append(d.onClaude, a.Name)
		case slices.Contains(a.Runtimes, "claude"):
			d.mayClaude = append(d.mayClaude, a.Name)
		}
	}
	seen := map[string]bool{}
	for _, a := range p.resolved {
		for _, name := range slices.Concat([]string{a.Model}, agentModels(a), fallbacks(a)) {
			m, err := p.models.Model(name)
			if name == "" || err != nil || seen[name] {
				continue
			}
			seen[name] = true
			checker, ok := of(m).(seam.Checker)
			if !ok {
				continue
			}
			brief, cancel := context.WithTimeout(ctx, askWithin)
			err = checker.Check(brief)
			cancel()
			if err == nil {
				d.window(ctx, name, of(m))
			}
			switch {
			case err != nil:
				d.fail("model", fmt.Errorf("%s: %w", name, err))
			case m.Info().PricedAt == "":
				d.warn("model", "%s would answer; %s", name, noPrice)
			default:
				d.ok("model", "%s would answer", name)
			}
		}
	}
}
