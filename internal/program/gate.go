package program

import (
	"github.com/parley-server/parley/internal/approval"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/scope"
)

// gate is what the files of a scope's user and workspace have to pass before something in
// them runs.
func (p *plan) gate(app *config.App, at scope.Place) *approval.Gate {
	return approval.For(at.Scope, approval.Options{
		Exec: app.Exec.On, Env: app.Exec.Env, Hosts: app.Exec.Hosts, Book: p.book,
		Value: p.value,
	})
}

// value is that of a variable of the server's environment.
func (p *plan) value(name string) (string, bool) {
	v := p.settings.Env(name)
	return v, v != ""
}
