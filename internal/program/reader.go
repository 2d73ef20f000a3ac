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

// lookEvery is how often the files of apps are looked at. They are asked for, not watched: that works on
// every file system, also for a folder that a container or a network has, and for editors that put a
// new file in the place of the old one. It is a dozen calls of stat for each app.
const lookEvery = time.Second

// maxShown is how many mistakes of an app are shown.
const maxShown = 10

// reader reads apps anew when their files change: those in the folder of --apps, where new ones may
// appear, too. A turn that runs keeps the app that it began with. While an app has mistakes, its last
// version that was right is served, and the log and the page say what is wrong.
type reader struct {
	p   *plan
	h   *house
	log *slog.Logger

	work  sync.Mutex // held while apps are looked at and read
	ended bool
	apps  map[string]*appFolder

	mu       sync.Mutex
	mistakes map[string][]string // of apps, as they are in their folders now
	late     late
}

// appFolder is the folder of an app.
type appFolder struct {
	files []string    // that were looked at when it was read
	read  string      // what they were then
	now   string      // what they were when they were last looked at
	app   *config.App // as it is served; nil: it is not
}

func newReader(p *plan, h *house, log *slog.Logger) *reader {
	r := &reader{p: p, h: h, log: log, apps: map[string]*appFolder{}, mistakes: map[string][]string{}}
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
		for _, o := range list {
			r.hear(name, o)
		}
	}
	return r
}

// run looks at the files until ctx ends.
func (r *reader) run(ctx context.Context) {
	if r.p.settings.Apps == "" {
		return // what is inside the program does not change
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

// end waits until nothing is being read, and reads nothing from then on.
func (r *reader) end() {
	if r == nil {
		return
	}
	r.work.Lock()
	r.ended = true
	r.work.Unlock()
	r.late.end()
}

// wrong are the mistakes of apps, by name.
func (r *reader) wrong() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.mistakes)
}

// look reads the apps whose files have changed and did not change since the last look, since several may be
// written one after another.
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
			w.files = []string{config.AppFile} // so far the one inside the program was served
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

// names are the apps in the folder, and those that were there.
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

// stamp is other when a file has changed.
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

// say keeps what is wrong with an app, and logs it if it is new. Users are not shown where the
// folder of the apps is.
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
		r.log.Warn("an app has a mistake; its last version that was right is served, if there is one", "app", name, "mistake", text)
	}
}

// take serves an app as it was read now, and returns what keeps it from that.
func (r *reader) take(read config.Read, w *appFolder) (wrong []string) {
	k, s := r.p.kit, r.p.settings
	answers, err := newAnswerers(s, slog.New(slog.DiscardHandler))
	if err != nil {
		return []string{err.Error()}
	}
	check := &plan{kit: k, settings: s, models: answers, red: r.p.red}
	defer check.close()
	again := read // check takes out of the app what it cannot check
	if read.App != nil {
		a := *read.App
		a.Toolsets = slices.Clone(a.Toolsets)
		again.App = &a
	}
	_, mistakes := check.check(again, r.log)
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
	r.log.Info("an app was read anew", "app", read.Name)
	if before == nil { // turns that a crash has left open, while the app was off
		if _, err := r.h.engine.Recover(context.Background()); err != nil {
			r.log.Warn("the turns of an app that is served again could not be listed", "app", read.Name, "err", err)
		}
	}
	return nil
}

// fixed says what of an app cannot change while the server runs; old is nil for a new app.
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
			wrong = append(wrong, now.Mistake(f.what, "%s is read when the server starts; start it again", f.what).String())
		}
	}
	return wrong
}

// serve puts an app in the place of its last version.
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
			return config.Mistakes{a.Mistake("tools."+o.of.Kind, "the tools %s begin when the server starts; start it again", o.of.Kind)}
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
			return config.Mistakes{a.Mistake("hosted", "the provider keeps the agents of %s, and gets them when the server starts; start it again", name)}
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
			o.start(r.h.engine)
		}
	}
	p.opened[a.Name] = sets
	p.all = slices.DeleteFunc(p.all, func(o *opened) bool { return o.closed() })
	r.h.roll.put(a.Name, newMCPServer(resolved, r.h.deps))
	return nil
}
