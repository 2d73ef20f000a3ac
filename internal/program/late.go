package program

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
)

// late holds the apps whose external tools have become known or have changed. They are rebuilt
// with the same toolsets.
type late struct {
	mu    sync.Mutex
	due   map[string]bool
	wake  chan struct{}
	ready chan struct{} // closed when the server is assembled
	ctx   context.Context
	stop  context.CancelFunc
	work  sync.WaitGroup
}

func (l *late) begin(r *reader) {
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.due, l.wake, l.ready = map[string]bool{}, make(chan struct{}, 1), make(chan struct{})
	l.work.Go(func() {
		for {
			select {
			case <-l.ctx.Done():
				return
			case <-l.wake:
				r.again()
			}
		}
	})
}

func (l *late) end() {
	l.stop()
	l.work.Wait()
}

// hear has the toolsets of an app report when their tools change.
func (r *reader) hear(name string, o *opened) {
	if o.Changes == nil {
		return
	}
	o.Changes(func() {
		r.late.mu.Lock()
		r.late.due[name] = true
		r.late.mu.Unlock()
		select {
		case r.late.wake <- struct{}{}:
		default:
		}
	})
}

// again rebuilds the apps whose tools have changed.
func (r *reader) again() {
	select {
	case <-r.late.ready:
	case <-r.late.ctx.Done():
		return
	}
	r.work.Lock()
	defer r.work.Unlock()
	r.late.mu.Lock()
	due := names(r.late.due)
	clear(r.late.due)
	r.late.mu.Unlock()
	for _, name := range due {
		w := r.apps[name]
		if r.ended || w == nil || w.app == nil {
			continue
		}
		var wrong []string
		for _, m := range r.lately(w.app) {
			wrong = append(wrong, m.String())
		}
		r.say(name, wrong)
	}
}

// lately serves an app with its current tools.
func (r *reader) lately(a *config.App) (wrong []config.Mistake) {
	err := r.serve(a)
	wrong = mistakesOf(err, config.Mistake{File: a.Where})
	for _, o := range r.p.opened[a.Name] {
		if l, ok := o.Toolset.(app.Late); ok && l.Wrong() != nil {
			wrong = append(wrong, mistakesOf(app.ToolDeps{App: a, Toolset: o.of}.Mistakes(l.Wrong()), config.Mistake{})...)
		}
	}
	return wrong
}

// strangers returns the toolsets whose tools are not known yet.
func strangers(list []*opened) []*opened {
	return slices.DeleteFunc(slices.Clone(list), func(o *opened) bool {
		l, ok := o.Toolset.(app.Late)
		return !ok || l.Known()
	})
}

// learn asks the given toolsets of an app for their tools. It returns when the app is served
// with the tools of those that answered.
func (p *plan) learn(ctx context.Context, name string, sets []*opened) {
	r := p.anew.Load()
	if r == nil {
		return
	}
	var mu sync.Mutex
	var silent []outage
	var work sync.WaitGroup
	for _, o := range strangers(sets) {
		if !o.hold() {
			continue
		}
		work.Go(func() {
			defer o.leave(1)
			if _, err := o.Tools(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				silent = append(silent, outage{o, hide(app.Says(err), o.Secrets)})
			}
		})
	}
	work.Wait()
	r.again()
	if ctx.Err() == nil {
		r.missing(name, silent)
	}
}

// outage is a toolset that did not say what its tools are.
type outage struct {
	of   *opened
	says string
}

// missing stores the toolsets of an app whose tools could not be asked for, and logs them if they
// are new. This is no mistake in the app's files: the app is served without these tools.
func (r *reader) missing(name string, list []outage) {
	slices.SortFunc(list, func(a, b outage) int { return strings.Compare(a.says, b.says) })
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, o := range list {
		text, _ := r.p.red.String(o.says)
		list[i].says = parley.Cut(text, 500)
		if !slices.ContainsFunc(r.silent[name], func(had outage) bool { return had.says == list[i].says }) {
			r.log.Warn("tools of an app are not known, so it is served without them", "app", name, "err", list[i].says)
		}
	}
	r.silent[name] = list
}

// outages says, by app, whose tools are still not known.
func (r *reader) outages() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][]string{}
	for name, list := range r.silent {
		for _, o := range list {
			if l, ok := o.of.Toolset.(app.Late); ok && !l.Known() && !o.of.closed() {
				out[name] = append(out[name], o.says)
			}
		}
	}
	return out
}

// keptFolder is the folder, in the data folder, where toolsets cache what they know about
// external servers.
const keptFolder = "known"

// maxKnown limits the files in that folder. The oldest are removed.
const maxKnown = 500

// kept reads what a toolset has cached. It may be called before the data folder is locked,
// because the files are replaced atomically.
func (p *plan) kept(name string) []byte {
	body, err := os.ReadFile(filepath.Join(p.settings.Data, keptFolder, name))
	if err != nil {
		return nil // the toolset asks for it again
	}
	return body
}

// keep caches something for a toolset. A failure costs only time.
func (p *plan) keep(name string, body []byte) {
	if p.folder == nil {
		return
	}
	if err := p.folder.Make(keptFolder); err != nil {
		return
	}
	dir := p.folder.Path(keptFolder)
	half, err := os.CreateTemp(dir, ".half-*")
	if err != nil {
		return
	}
	_, err = half.Write(body)
	if cerr := half.Close(); err != nil || cerr != nil || os.Rename(half.Name(), filepath.Join(dir, name)) != nil {
		_ = os.Remove(half.Name())
	}
	forget(dir)
}

// forget removes the oldest files beyond maxKnown.
func forget(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= maxKnown {
		return
	}
	var list []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			list = append(list, info)
		}
	}
	slices.SortFunc(list, func(a, b fs.FileInfo) int {
		if c := a.ModTime().Compare(b.ModTime()); c != 0 {
			return c
		}
		return strings.Compare(a.Name(), b.Name())
	})
	for _, info := range list[:max(0, len(list)-maxKnown)] {
		_ = os.Remove(filepath.Join(dir, info.Name()))
	}
}
