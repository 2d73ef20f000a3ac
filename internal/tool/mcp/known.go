//go:build unix

package mcp

import (
	"encoding/json"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxKept is the most bytes that are kept of a server's lists.
const maxKept = 4 << 20

// known is what is known of a server's tools.
type known struct {
	mu      sync.Mutex
	tools   []definition // nil: nothing
	listing []*sdk.Tool  // from which they were made
	live    bool         // this process has asked the server
	wrong   error        // the error about options for tools that the server does not have

	order sync.Mutex // of what is kept: the newest is kept last
}

// keeping is the format in which the lists are kept.
type keeping struct {
	Tools   []*sdk.Tool   `json:"tools"`
	Prompts []*sdk.Prompt `json:"prompts,omitempty"`
}

// definitions returns the tools of this version, or those that are known; nil: none are known.
func (t *Toolset) definitions() []definition {
	if t.fixed != nil {
		return t.fixed
	}
	return t.known.now()
}

// now returns the tools as they are known; nil: none are known.
func (k *known) now() []definition {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tools
}

func declared(list []definition) []parley.ToolDecl {
	decls := make([]parley.ToolDecl, 0, len(list))
	for _, d := range list {
		decls = append(decls, d.decl)
	}
	return decls
}

// Known reports whether the tools are known, so that Tools need not ask the server.
func (t *Toolset) Known() bool { return t.definitions() != nil }

// Now returns a version of the toolset whose tools do not change any more. It needs no Close.
func (t *Toolset) Now() seam.Toolset {
	return &Toolset{core: t.core, fixed: append([]definition{}, t.o.withLogin(t.definitions())...)}
}

// Prefix is what the names of the server's tools begin with.
func (t *Toolset) Prefix() string { return t.o.prefix() }

// Wrong returns the error about options for tools that the server, in its last list, does not have.
func (t *Toolset) Wrong() error {
	t.known.mu.Lock()
	defer t.known.mu.Unlock()
	return t.known.wrong
}

// recall reads what an earlier process kept.
func (c *core) recall() {
	c.server.prompted = c.keep
	var kept keeping
	if json.Unmarshal(c.o.Kept, &kept) != nil || kept.Tools == nil || slices.Contains(kept.Tools, nil) || slices.Contains(kept.Prompts, nil) {
		return
	}
	c.known.listing, c.known.tools = kept.Tools, c.o.define(kept.Tools)
	for _, p := range kept.Prompts {
		c.server.prompts = append(c.server.prompts, c.o.prompt(p))
	}
}

// adopt replaces what was known by the first list of this process. Later lists only show which
// tools are gone, see unchanged.
func (c *core) adopt(listed []*sdk.Tool) {
	if listed == nil {
		listed = []*sdk.Tool{}
	}
	k := &c.known
	k.mu.Lock()
	if k.live {
		k.mu.Unlock()
		return
	}
	defs := c.o.define(listed)
	same := k.tools != nil && slices.EqualFunc(k.tools, defs, func(a, b definition) bool { return a.name == b.name && a.print == b.print })
	k.live, k.listing, k.tools, k.wrong = true, listed, defs, c.o.fit(listed)
	k.mu.Unlock()
	c.keep()
	if !same && c.o.Changed != nil {
		c.o.Changed()
	}
}

// keep stores the lists beyond the process.
func (c *core) keep() {
	if c.o.Keep == nil {
		return
	}
	c.known.order.Lock()
	defer c.known.order.Unlock()
	c.known.mu.Lock()
	kept := keeping{Tools: c.known.listing}
	c.known.mu.Unlock()
	if kept.Tools == nil {
		return // a list of prompts says nothing about the tools
	}
	kept.Prompts = c.server.offered()
	raw, err := json.Marshal(kept)
	if err == nil && c.o.Clean != nil { // a server's words may be stored in a file, secrets may not
		raw = []byte(c.o.Clean(string(raw)))
	}
	if err != nil || len(raw) > maxKept || !json.Valid(raw) {
		c.o.Logger.Warn("the tools of an MCP server are not kept, so the next process asks it again", "server", c.o.Name, "bytes", len(raw))
		return
	}
	c.o.Keep(raw)
}

// offered returns the prompts that the server listed last.
func (s *server) offered() []*sdk.Prompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*sdk.Prompt
	for _, p := range s.prompts {
		list = append(list, p.listed)
	}
	return list
}

// again replaces the error of a call that was not made because the tool has changed. It says that a
// turn which knows the new definition can call the tool.
func (t *Toolset) again(d definition, err error) error {
	now, ok := (&Toolset{core: t.core}).find(d.decl.Name)
	if t.fixed == nil || !ok || now.print == d.print || parley.CodeOf(err) != parley.CodeForbidden {
		return err
	}
	return parley.Errorf(parley.CodeForbidden, "the MCP server %s has changed the definition of its tool %s since this turn began, so the call was not made", t.o.Name, d.name).
		WithHint("it can be called in the next turn, when the user has sent another message")
}
