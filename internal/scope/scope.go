// Package scope keeps what the turns of a scope run with: the resolved app, the tools, and
// the way to the workspace.
//
// A scope is a user, an app and a workspace. Two scopes share the tools of their app's file
// and nothing else: what a [Source] makes for a scope belongs to it alone.
//
// [Scopes.Resolve] makes a scope's toolsets when they are first needed and keeps them while
// somebody holds the result, and for [Options.Idle] after that. Then those that are an
// [io.Closer] are closed. A toolset that cannot be opened or listed is left out; the log
// says why, and once nobody holds the scope it is made again. A [seam.Changer] is asked at
// every Resolve whether its tools have changed; who holds an older result keeps it.
//
// It decides nothing about sessions (see package engine) and stores nothing.
//
// Methods are safe for concurrent use. Scopes that are being made do not delay others.
package scope

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

// Options configure Scopes.
type Options struct {
	Apps []App
	// Clean removes the secrets from the JSON of an app before it is stored. Nil: it is
	// stored as it is.
	Clean func(body []byte) (clean []byte, ok bool)
	// Idle is how long the toolsets of a scope that nobody holds stay open; 0: 5 minutes.
	Idle time.Duration
	// MostIdle is how many such scopes stay open at once; 0: 100. The one that was left
	// first is closed.
	MostIdle int
	// Within is how long making a scope may take; 0: 45 s.
	Within time.Duration
	Logger *slog.Logger // nil: discarded
}

// App is an app as every scope has it.
type App struct {
	parley.App
	Tools   *toolbox.Box       // of the app's file; nil: none
	Folders *workspace.Folders // where its workspaces are; nil: it has none
	// Sources make the tools that a scope has beyond those.
	Sources []Source
	// With gives the app's agents those of a scope's tools that they may call. Nil: they
	// keep the tools that App says.
	With func(decls []parley.ToolDecl) (parley.App, error)
	// Unknown reports whether its tools are not known yet and must be asked for externally. It
	// must answer from memory without blocking, and must not call Scopes. Nil: never.
	Unknown func() bool
	// Learn asks for the tools and, when it has them, replaces the app. It may take as long as
	// starting their servers takes, but must end with ctx. Callers that resolve the app wait
	// for the first attempt. If that fails, the app works without the tools, and later attempts
	// delay nobody.
	Learn func(ctx context.Context)
	// Close is called once, after the app was replaced and nobody holds it any more. Nil: there
	// is nothing to do.
	Close func()
}

// Source makes toolsets for one scope. A toolset that is an [io.Closer] is closed when the
// scope is. An error does not keep the toolsets that come with it from being used.
type Source func(ctx context.Context, at Place) ([]seam.Toolset, error)

// Place is where a scope's tools work.
type Place struct {
	seam.Scope
	Folders *workspace.Folders // of the app; nil: it has none
}

// Scopes are the scopes of all apps.
type Scopes struct {
	o    Options
	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu     sync.Mutex
	apps   map[string]*app
	kept   map[seam.Scope]*kept
	gone   map[*kept]bool      // scopes of replaced apps that are still held
	tried  map[string]*attempt // the last attempt to learn the tools of each app, by name
	closed bool
	work   sync.WaitGroup // what is being made or closed
}

// attempt is an attempt to learn an app's tools.
type attempt struct {
	first bool
	began time.Time
	done  chan struct{}
}

type app struct {
	App
	plain *made // what every scope begins with

	// Guarded by Scopes.mu.
	holders  int
	replaced bool
	closed   bool
}

// made is one resolution of a scope. It does not change.
type made struct {
	app     parley.App
	digest  parley.Digest
	body    []byte
	tools   *toolbox.Box
	changes []int64 // of each toolset, before it was listed
}

// New makes the scopes of apps.
func New(o Options) (*Scopes, error) {
	if o.Idle == 0 {
		o.Idle = 5 * time.Minute
	}
	if o.MostIdle == 0 {
		o.MostIdle = 100
	}
	if o.Within == 0 {
		o.Within = 45 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clean == nil {
		o.Clean = func(body []byte) ([]byte, bool) { return body, true }
	}
	s := &Scopes{o: o, apps: map[string]*app{}, kept: map[seam.Scope]*kept{}, gone: map[*kept]bool{}, tried: map[string]*attempt{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	for _, a := range o.Apps {
		if err := s.Replace(a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Replace adds an app, replacing an existing one of the same name. Holders of the old app keep
// it, with its tools, until Release.
func (s *Scopes) Replace(a App) error {
	if a.Tools == nil {
		none, err := toolbox.New(nil, toolbox.Options{Logger: s.o.Logger})
		if err != nil {
			return err
		}
		a.Tools = none
	}
	plain, err := s.seal(a.App, a.Tools)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	for at, k := range s.kept {
		switch {
		case at.App != a.Name:
		case k.holders == 0:
			s.drop(k)
		default:
			delete(s.kept, at)
			s.gone[k] = true
		}
	}
	old := s.apps[a.Name]
	s.apps[a.Name] = &app{App: a, plain: plain}
	if old != nil {
		old.replaced = true
		s.leave(old)
	}
	return nil
}

// leave closes a replaced app if nobody holds it. It is called with mu held.
func (s *Scopes) leave(a *app) {
	if a.holders > 0 || !a.replaced || a.closed || s.closed {
		return
	}
	a.closed = true
	if a.Close != nil {
		s.work.Go(a.Close)
	}
}

// seal gives an app its digest.
func (s *Scopes) seal(a parley.App, tools *toolbox.Box) (*made, error) {
	body, err := json.Marshal(a)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "app %s: %w", a.Name, err)
	}
	if clean, ok := s.o.Clean(body); ok {
		body = clean
	}
	sum := sha256.Sum256(body)
	return &made{app: a, digest: parley.Digest(hex.EncodeToString(sum[:])), body: body, tools: tools}, nil
}

// App is an app as every scope begins with it; ok is false if there is none of that name.
func (s *Scopes) App(name string) (r *Resolved, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.apps[name]
	if a == nil {
		return nil, false
	}
	r = &Resolved{scopes: s, app: a, made: a.plain}
	r.once.Do(func() {}) // Release has nothing to do: it is not held
	return r, true
}

// Names lists the apps.
func (s *Scopes) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for name := range s.apps {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// Ready is Resolve for those who cannot wait. ok is false if Resolve would have to open or
// list something, or fail.
func (s *Scopes) Ready(at seam.Scope) (r *Resolved, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.apps[at.App]
	if a == nil || s.learn(a) != nil {
		return nil, false
	}
	r = &Resolved{scopes: s, app: a, made: a.plain, space: at.Workspace, owner: at.Principal}
	if len(a.Sources) == 0 {
		a.holders++
		return r, true
	}
	k := s.kept[at]
	if s.closed || k == nil || k.made == nil || !slices.Equal(k.made.changes, changesOf(k.sets)) {
		return nil, false
	}
	k.hold()
	a.holders++
	r.made, r.kept = k.made, k
	return r, true
}

// Resolve returns what the turns of a scope run with now. The caller must call Release. It
// may take as long as starting what its tools run on; when ctx ends, that goes on for the
// next caller. Errors: CodeNotFound for an unknown app, CodeUnavailable after Close.
func (s *Scopes) Resolve(ctx context.Context, at seam.Scope) (*Resolved, error) {
	if err := s.learned(ctx, at.App); err != nil {
		return nil, err
	}
	r, err := s.hold(at)
	if err != nil || r.kept == nil {
		return r, err
	}
	if r.made, err = s.make(ctx, r.app, r.kept); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}
