package program

import (
	"github.com/parley-server/parley/internal/approval"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/scope"
)

// gate returns the gate that decides what the files of a scope's user and workspace may run.
func (p *plan) gate(app *config.App, at scope.Place) *approval.Gate {
	return approval.For(at.Scope, approval.Options{
		Exec: app.Exec.On, Env: app.Exec.Env, Hosts: app.Exec.Hosts, Book: p.book,
		Value: p.value,
	})
}

// value returns the value of a variable in the server's environment.
func (p *plan) value(name string) (string, bool) {
	v := p.settings.Env(name)
	return v, v != ""
}
