package program

import (
	"errors"
	"log/slog"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/toolbox"
)

// An app in the folder of --apps that has mistakes when the server starts does not prevent the
// others from being served. A server that a crash has ended must come back even if somebody is in
// the middle of an edit. The app is off, its sessions are kept, and the reader serves it once its
// files are correct. Mistakes inside the program, in the settings, or in every app end the start.

// broken is such an app.
type broken struct {
	read config.Read
	err  error
}

// breaks records that an app cannot be served as it is. It returns err where the mistake ends the
// start.
func (p *plan) breaks(read config.Read, err error) error {
	if read.Files == nil {
		return err
	}
	p.broken[read.Name] = broken{read, err}
	return nil
}

// load reads the apps, and opens the tools of those that can be served.
func (p *plan) load(log *slog.Logger) error {
	k, s := p.kit, p.settings
	list, err := s.ReadApps(k.folders, k.known())
	if err != nil {
		_, err = s.LoadApps(k.folders, k.known()) // reports all mistakes at once
		return err
	}
	for _, read := range list {
		if err := p.open(read, log); err != nil {
			if p.breaks(read, err) == nil {
				continue
			}
			if read.Err != nil {
				_, err = s.LoadApps(k.folders, k.known())
			}
			return err
		}
	}
	return p.some()
}

// open opens the tools of an app, unless it is off.
func (p *plan) open(read config.Read, log *slog.Logger) error {
	if read.Err != nil {
		return read.Err
	}
	meta := p.meta
	made, err := p.toolsets(read.App, p.inspect, nil, log)
	if off, ok := errors.AsType[*app.Off](err); ok {
		p.off[read.Name] = off.Why
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := scripts(p.settings, []*config.App{read.App}); err != nil {
		release(made)
		p.meta = meta
		return err
	}
	p.opened[read.Name] = made
	p.sets[read.Name], p.unknown[read.Name] = setsOf(made)
	p.read, p.apps = append(p.read, read), append(p.apps, read.App)
	return nil
}

// some returns an error if no app can be served.
func (p *plan) some() error {
	switch {
	case len(p.apps) > 0:
		return nil
	case len(p.broken) > 0:
		if _, err := p.settings.LoadApps(p.kit.folders, p.kit.known()); err != nil {
			return err // it has all mistakes
		}
		return p.broken[names(p.broken)[0]].err
	case len(p.off) > 0:
		name := names(p.off)[0]
		return parley.Errorf(parley.CodeInvalid, "there is no app to serve: %s is off", name).WithHint("%s", p.off[name])
	}
	_, err := p.settings.LoadApps(p.kit.folders, p.kit.known())
	return err
}

// resolve assigns tools and models to the apps.
func (p *plan) resolve(log *slog.Logger) error {
	list := p.read
	p.read, p.apps = nil, nil
	for _, read := range list {
		box, err := toolbox.New(p.sets[read.Name], toolbox.Options{Logger: log, Redact: p.red.String})
		if err != nil {
			return err
		}
		resolved, err := read.App.Resolve(box.Decls(), p.unknown[read.Name]...)
		if err == nil {
			err = p.models.host(&resolved, p.settings.Data, p.there)
		}
		if err == nil {
			err = p.models.has(resolved)
		}
		if err != nil {
			if err := p.breaks(read, err); err != nil {
				return err
			}
			release(p.opened[read.Name])
			delete(p.opened, read.Name)
			continue
		}
		warnStrange(read.App, resolved, box.Decls(), p.unknown[read.Name], log)
		p.read, p.apps, p.resolved = append(p.read, read), append(p.apps, read.App), append(p.resolved, resolved)
		p.boxes[read.Name] = box
		p.latest.Store(read.Name, read.App)
	}
	return p.some()
}

// wrong returns the present mistakes of apps, by name, in the form that users may see.
func (p *plan) wrong() map[string][]string {
	if r := p.anew.Load(); r != nil {
		return r.wrong()
	}
	return nil
}

// mistakes returns the mistakes of the app, in the form for the operator.
func (b broken) mistakes() (list []string) {
	for _, m := range mistakesOf(b.err, config.Mistake{}) {
		list = append(list, m.String())
	}
	return list
}
