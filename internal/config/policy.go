package config

import (
	"fmt"

	"github.com/parley-server/parley"
)

// policy checks a policy whose keys stand behind at.
func (a *App) policy(at string, p parley.Policy) {
	if v := p.OutwardAfterWeb; v != "" {
		a.choice(at+"outward_after_web", string(v), string(parley.Allow), string(parley.Ask), string(parley.Deny))
	}
	for i, r := range p.Rules {
		rule := fmt.Sprintf("%srules[%d]", at, i)
		a.choice(rule+".verdict", string(r.Verdict), string(parley.Allow), string(parley.Ask), string(parley.Confirm), string(parley.Deny))
		if r.Effect != "" {
			a.choice(rule+".effect", string(r.Effect), string(parley.EffectRead), string(parley.EffectIdempotent), string(parley.EffectWrite))
		}
	}
	for i, m := range p.Modes {
		a.choice(fmt.Sprintf("%smodes[%d]", at, i), string(m), permissionModes...)
	}
	if p.AnswerWithin < 0 {
		a.d.at(at+"answer_within", "cannot be negative")
	}
}

// ReadPolicy reads a file with a policy, as it is written in an app.yaml. The error has every
// mistake with its line.
func ReadPolicy(name string, raw []byte) (*parley.Policy, error) {
	a := &App{d: &decoder{file: name, env: func(string) (string, bool) { return "", false }}}
	var p parley.Policy
	if a.d.parse(raw, &p) {
		a.policy("", p)
	}
	if err := a.d.err(); err != nil {
		return nil, err
	}
	return &p, nil
}
