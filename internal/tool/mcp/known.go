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
	listing []*sdk.Tool  // that they were made of
	live    bool         // this process has asked the server
	wrong   error        // what the options say of tools that are not there
}

// keeping is the form of what is kept.
type keeping struct {
	Tools   []*sdk.Tool   `json:"tools"`
	Prompts []*sdk.Prompt `json:"prompts,omitempty"`
}

// definitions are the tools of this version, or those that are known; nil: none are known.
func (t *Toolset) definitions() []definition {
	if t.fixed != nil {
		return t.fixed
	}
	return t.known.now()
}

// now are the tools as they are known; nil: they are not.
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

// Now is a version of the toolset: its tools stay those that are known now. It needs no Close.
func (t *Toolset) Now() seam.Toolset {
	return &Toolset{core: t.core, fixed: append([]definition{}, t.o.withLogin(t.definitions())...)}
}

// Prefix is what the names of the server's tools begin with.
func (t *Toolset) Prefix() string { return t.o.prefix() }

// Wrong is what the options say of tools that the server, as it listed them, does not have.
func (t *Toolset) Wrong() error {
	t.known.mu.Lock()
	defer t.known.mu.Unlock()
	return t.known.wrong
}

// recall takes what an earlier process has kept.
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

// adopt takes the first list of this process in place of what was known. The later ones
// count only for what they lack, see unchanged.
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

// keep keeps the lists beyond the process.
func (c *core) keep() {
	if c.o.Keep == nil {
		return
	}
	c.known.mu.Lock()
	kept := keeping{Tools: c.known.listing}
	c.known.mu.Unlock()
	if kept.Tools == nil {
		return // a list of prompts alone says nothing of the tools
	}
	kept.Prompts = c.server.offered()
	raw, err := json.Marshal(kept)
	if err == nil && c.o.Clean != nil { // what a server says may be in a file, but no secret
		raw = []byte(c.o.Clean(string(raw)))
	}
	if err != nil || len(raw) > maxKept || !json.Valid(raw) {
		c.o.Logger.Warn("the tools of an MCP server are not kept, so the next process asks it again", "server", c.o.Name, "bytes", len(raw))
		return
	}
	c.o.Keep(raw)
}

// offered are the prompts as the server listed them last.
func (s *server) offered() []*sdk.Prompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*sdk.Prompt
	for _, p := range s.prompts {
		list = append(list, p.listed)
	}
	return list
}

// again says of a tool that was not called, since it has changed, that it can be called as it
// is now: by a turn that knows it.
func (t *Toolset) again(d definition, err error) error {
	now, ok := (&Toolset{core: t.core}).find(d.decl.Name)
	if t.fixed == nil || !ok || now.print == d.print || parley.CodeOf(err) != parley.CodeForbidden {
		return err
	}
	return parley.Errorf(parley.CodeForbidden, "the MCP server %s has another definition of its tool %s than when this turn began, so the call was not made", t.o.Name, d.name).
		WithHint("it can be called in the next turn, when the user has sent another message")
}
