package program

import (
	"context"
	"reflect"
	"sync"

	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/seam"
)

// opened is an open toolset. An app that is read again keeps its unchanged toolsets, so that a new
// prompt ends no MCP server.
type opened struct {
	app.Service
	of config.Toolset

	mu      sync.Mutex
	holders int // versions of its app that use it; it is closed when none is left
}

// is reports whether the settings in t would open this same toolset.
func (o *opened) is(t config.Toolset) bool {
	have := o.of
	have.At, t.At = "", ""
	have.Data.FS, t.Data.FS = nil, nil // the folder is compared by its name
	return reflect.DeepEqual(have, t)
}

// hold adds a holder and reports true, unless the toolset is closed already.
func (o *opened) hold() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.holders == 0 {
		return false
	}
	o.holders++
	return true
}

// outside reports whether the toolset passes events to the server, which works only from the start
// on.
func (o *opened) outside() bool { return o.Observe != nil || o.Meta != nil }

func (o *opened) start(h *house) {
	if o.Observe != nil {
		o.Observe(h.engine.Observe)
	}
	if o.Follow != nil {
		o.Follow(app.Followed{Reader: h.deps.reader, Store: h.store, Data: h.plan.folder})
	}
	if o.Start != nil {
		o.Start()
	}
}

func (o *opened) closed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.holders == 0
}

// release removes a holder from each toolset, and closes those that have none left.
func release(list []*opened) {
	for _, o := range list {
		o.leave(1)
	}
}

// leave removes n holders, or all if there are fewer.
func (o *opened) leave(n int) {
	o.mu.Lock()
	last := o.holders > 0 && o.holders <= n
	o.holders = max(o.holders-n, 0)
	o.mu.Unlock()
	if last && o.Close != nil {
		o.Close()
	}
}

// setsOf returns the toolsets with the tools that are known now. unknown has the prefixes of the
// tool names that are not known yet.
func setsOf(list []*opened) (sets []seam.Toolset, unknown []string) {
	for _, o := range list {
		if own, ok := o.Toolset.(personal); ok {
			unknown = append(unknown, own.prefix) // each user has other tools
			continue
		}
		late, ok := o.Toolset.(app.Late)
		switch {
		case !ok:
			sets = append(sets, o.Toolset)
			continue
		case !late.Known():
			unknown = append(unknown, late.Prefix())
		}
		sets = append(sets, late.Now())
	}
	return sets, unknown
}

// roll holds the apps that are served now, by name, as MCP servers.
type roll struct {
	mu   sync.Mutex
	apps map[string]*mcpserver.App
	old  []*mcpserver.App
}

func (r *roll) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.apps[name]
	return ok
}

func (r *roll) mcp(name string) *mcpserver.App {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.apps[name]
}

// put adds or replaces an app. MCP hosts that are connected to the old one stay connected.
func (r *roll) put(name string, m *mcpserver.App) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.apps[name]; old != nil {
		r.old = append(r.old, old)
	}
	r.apps[name] = m
}

func (r *roll) close(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.old {
		m.Close(ctx)
	}
	for _, m := range r.apps {
		m.Close(ctx)
	}
}
