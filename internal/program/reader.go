package program

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/toolbox"
)

// lookEvery is how often the files of apps are checked. They are polled and not watched, because
// polling works on every file system: also for folders of a container or on a network, and with
// editors that replace a file by a new one. It costs a dozen stat calls for each app.
const lookEvery = time.Second

// maxShown is how many mistakes of an app are shown.
const maxShown = 10

// reader reads apps again when their files change. In the folder of --apps, new apps may appear,
// too. A running turn keeps the app that it began with. While an app has mistakes, its last correct
// version is served, and the log and the page show the mistakes.
type reader struct {
	p   *plan
	h   *house
	log *slog.Logger

	work  sync.Mutex // held while apps are checked and read
	ended bool
	apps  map[string]*appFolder

	mu       sync.Mutex
	mistakes map[string][]string          // of apps, by name, as their folders are now
	silent   map[string][]outage          // of apps, by name; those that have ended since included
	shown    map[string][]func() []string // what toolsets say to an app's users, by the app's name
	late     late
}

// appFolder is the folder of an app.
type appFolder struct {
	files []string    // checked when it was read
	read  string      // their stamp then
	now   string      // their stamp at the last check
	app   *config.App // as it is served; nil: it is not served
}

func newReader(p *plan, h *house, log *slog.Logger) *reader {
	r := &reader{p: p, h: h, log: log, apps: map[string]*appFolder{}, mistakes: map[string][]string{}, silent: map[string][]outage{}, shown: map[string][]func() []string{}}
	for _, a := range p.apps {
		w := &appFolder{files: a.Reads, app: a}
		w.read = r.stamp(a.Name, w.files)
		w.now = w.read
		r.apps[a.Name] = w
	}
	for name, b := range p.broken {
		w := &appFolder{files: b.read.Files}
		w.read = r.stamp(name, w.files)
		w.now = w.read
		r.apps[name] = w
		r.say(name, b.mistakes())
	}
	r.late.begin(r)
	for name, list := range p.opened {
		r.shows(name, list)
		for _, o := range list {
			r.hear(name, o)
		}
	}
	return r
}

// run checks the files until ctx ends.
func (r *reader) run(ctx context.Context) {
	if r.p.settings.Apps == "" {
		return // apps inside the program do not change
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.look()
		}
	}
}

// end waits until nothing is being read. Nothing is read after it.
func (r *reader) end() {
	if r == nil {
		return
	}
	r.work.Lock()
	r.ended = true
	r.work.Unlock()
	r.late.end()
}

// wrong returns the mistakes of apps, by name.
func (r *reader) wrong() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.mistakes)
}

// look reads the apps whose files have changed. It waits until they have not changed since the last
// check, because several files may be written one after another.
func (r *reader) look() {
	r.work.Lock()
	defer r.work.Unlock()
	if r.ended {
		return
	}
	var due []string
	for _, name := range r.names() {
		w := r.apps[name]
		if w == nil {
			w = &appFolder{files: []string{config.AppFile}}
			r.apps[name] = w
		}
		if len(w.files) == 0 {
			w.files = []string{config.AppFile} // until now the app inside the program was served
		}
		before := w.now
		if w.now = r.stamp(name, w.files); w.now != w.read && w.now == before {
			due = append(due, name)
		}
	}
	if len(due) == 0 {
		return
	}
	list, err := r.p.settings.ReadApps(r.p.kit.folders, r.p.kit.known())
	if err != nil && len(list) == 0 {
		r.log.Warn("the folder of the apps could not be read", "err", err)
		return
	}
	for _, name := range due {
		w := r.apps[name]
		w.read = w.now
		i := slices.IndexFunc(list, func(read config.Read) bool { return read.Name == name })
		if i < 0 {
			if w.app == nil {
				delete(r.apps, name)
				r.say(name, nil)
				continue
			}
			r.say(name, []string{"its folder has no " + config.AppFile})
			continue
		}
		if len(list[i].Files) > 0 {
			w.files = list[i].Files
			w.read = r.stamp(name, w.files)
			w.now = w.read
		}
		r.say(name, r.take(list[i], w))
	}
}

// names returns the apps in the folder, and those that were there before.
func (r *reader) names() []string {
	found := map[string]bool{}
	for name, w := range r.apps {
		found[name] = w.app == nil || w.app.Dir != ""
	}
	entries, err := os.ReadDir(r.p.settings.Apps)
	if err != nil {
		r.log.Warn("the folder of the apps could not be read", "err", err)
	}
	enabled := r.p.settings.Enabled
	for _, e := range entries {
		name := e.Name()
		if len(enabled) > 0 && !slices.Contains(enabled, name) || r.p.off[name] != "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(r.p.settings.Apps, name, config.AppFile)); err == nil {
			found[name] = true
		}
	}
	maps.DeleteFunc(found, func(_ string, ok bool) bool { return !ok })
	return slices.Sorted(maps.Keys(found))
}

// stamp returns a text that differs when a file has changed.
func (r *reader) stamp(app string, files []string) string {
	var b strings.Builder
	for _, name := range files {
		info, err := os.Stat(filepath.Join(r.p.settings.Apps, app, filepath.FromSlash(name)))
		if err != nil {
			fmt.Fprintf(&b, "%s -\n", name)
			continue
		}
		fmt.Fprintf(&b, "%s %d %d %v\n", name, info.Size(), info.ModTime().UnixNano(), info.Mode()&fs.ModeType)
	}
	return b.String()
}

// say stores the mistakes of an app, and logs them if they are new. Users are not shown the path of
// the folder.
func (r *reader) say(name string, wrong []string) {
	more := len(wrong) - maxShown
	wrong = wrong[:min(len(wrong), maxShown)]
	shown := make([]string, len(wrong), len(wrong)+1)
	for i, text := range wrong {
		text, _ = r.p.red.String(text)
		wrong[i] = parley.Cut(text, 500)
		shown[i] = strings.ReplaceAll(wrong[i], path.Clean(filepath.ToSlash(r.p.settings.Apps))+"/", "")
	}
	if more > 0 {
		text := fmt.Sprintf("and %d more; parley app check lists them", more)
		wrong, shown = append(wrong, text), append(shown, text)
	}
	r.mu.Lock()
	same := slices.Equal(r.mistakes[name], shown)
	if r.mistakes[name] = shown; len(shown) == 0 {
		delete(r.mistakes, name)
	}
	r.mu.Unlock()
	if same {
		return
	}
	for _, text := range wrong {
		r.log.Warn("an app has a mistake; its last correct version is served, if there is one", "app", name, "mistake", text)
	}
}

// take begins to serve an app as it was just read, and returns the mistakes that prevent it.
func (r *reader) take(read config.Read, w *appFolder) (wrong []string) {
	k, s := r.p.kit, r.p.settings
	answers, err := newAnswerers(s, slog.New(slog.DiscardHandler))
	if err != nil {
		return []string{err.Error()}
	}
	check := &plan{kit: k, settings: s, models: answers, red: r.p.red}
	defer check.close()
	again := read // check removes from the app what it cannot check
	if read.App != nil {
		a := *read.App
		a.Toolsets = slices.Clone(a.Toolsets)
		again.App = &a
	}
	_, mistakes, _ := check.check(again, r.log)
	for _, m := range mistakes {
		wrong = append(wrong, m.String())
	}
	if len(wrong) > 0 || read.App == nil {
		return wrong
	}
	if wrong = fixed(w.app, read.App); len(wrong) > 0 {
		return wrong
	}
	if err := r.serve(read.App); err != nil {
		for _, m := range mistakesOf(err, config.Mistake{File: read.App.Where}) {
			wrong = append(wrong, m.String())
		}
		return wrong
	}
	before := w.app
	w.app = read.App
	r.p.latest.Store(w.app.Name, w.app)
	r.h.define(context.Background(), w.app)
	r.log.Info("an app was read again", "app", read.Name)
	if before == nil { // resume turns that a crash left open while the app was off
		if _, err := r.h.engine.Recover(context.Background()); err != nil {
			r.log.Warn("the turns of an app that is served again could not be listed", "app", read.Name, "err", err)
		}
	}
	return nil
}

// shows notes whose notices an app has.
func (r *reader) shows(name string, sets []*opened) {
	var list []func() []string
	for _, o := range sets {
		if o.Notices != nil {
			list = append(list, o.Notices)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown[name] = list
}

// notices are what the toolsets of an app say to its users.
func (r *reader) notices(name string) (list []string) {
	r.mu.Lock()
	shown := r.shown[name]
	r.mu.Unlock()
	for _, f := range shown {
		for _, text := range f() {
			text, _ = r.p.red.String(text)
			list = append(list, parley.Cut(text, 500))
		}
	}
	return list
}

// fixed returns the changes to an app that need a restart of the server; old is nil for a new app.
func fixed(old, now *config.App) (wrong []string) {
	if old == nil {
		old = &config.App{}
	}
	for _, f := range []struct {
		what string
		same bool
	}{
		{"wires", slices.Equal(old.Wires, now.Wires)},
		{"live_files", old.LiveFiles == now.LiveFiles},
		{"streaming", old.PartialEvery == now.PartialEvery && old.FlushEvery == now.FlushEvery},
	} {
		if !f.same {
			wrong = append(wrong, now.Mistake(f.what, "%s is read only when the server starts; restart it", f.what).String())
		}
	}
	return wrong
}

// serve replaces the last version of an app.
func (r *reader) serve(a *config.App) (err error) {
	p := r.p
	have := p.opened[a.Name]
	sets, err := p.toolsets(a, false, have, r.log)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			release(sets)
		}
	}()
	for _, o := range sets {
		if o.outside() && !slices.Contains(have, o) {
			return config.Mistakes{a.Mistake("tools."+o.of.Kind, "the tools %s are started only with the server; restart it", o.of.Kind)}
		}
		for i, secret := range o.Secrets {
			p.red.Add(fmt.Sprintf("%s/%s%d", a.Name, o.of.At, i), secret)
		}
	}
	known, unknown := setsOf(sets)
	box, err := toolbox.New(known, toolbox.Options{Logger: r.log, Redact: p.red.String})
	if err != nil {
		return err
	}
	resolved, err := a.Resolve(box.Decls(), unknown...)
	if err != nil {
		return err
	}
	own, err := scripts(p.settings, []*config.App{a})
	if err != nil {
		return err
	}
	for _, name := range append(append(agentModels(resolved), fallbacks(resolved)...), resolved.Model) {
		provider, _, _ := strings.Cut(name, "/")
		if strings.HasSuffix(provider, hostedSuffix) {
			return config.Mistakes{a.Mistake("hosted", "the agents of %s are stored at the provider when the server starts; restart it", name)}
		}
	}
	made, err := p.scopeApp(a, resolved, box, sets, unknown, r.log)
	if err != nil {
		return err
	}
	p.models.put(own)
	if err := r.h.scopes.Replace(made); err != nil {
		return err
	}
	for _, o := range sets {
		if !slices.Contains(have, o) {
			r.hear(a.Name, o)
			o.start(r.h)
		}
	}
	p.opened[a.Name] = sets
	p.accepts(a.Name, sets)
	r.shows(a.Name, sets)
	p.all = slices.DeleteFunc(p.all, func(o *opened) bool { return o.closed() })
	r.h.roll.put(a.Name, newMCPServer(resolved, r.h.deps))
	return nil
}
