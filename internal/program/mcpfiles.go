package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/approval"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
)

const (
	mcpFileName  = ".mcp.json"
	maxMCPFile   = 256 << 10        // bytes of one
	maxServers   = 20               // of one file
	mcpLook      = 2 * time.Second  // how old a look at the files may be
	mcpListing   = 20 * time.Second // how long a scope waits for the tools of a server
	platformName = "platform"
	appName      = "app"
	longName     = 24 // bytes of a server's name that stay in the names of its tools
)

// mcpFiles holds the MCP servers that the files of platform, user and workspace add to one
// scope. Of two servers with the same name, the nearer one that may run is used; the app's own
// is nearer than the platform's.
//
// Servers of users and workspaces are less trusted than the operator's. Each runs only after a
// person has approved its digest. Its tools count as writes whatever it declares, and their
// names contain its level and digest. So no rule, grant or effect meant for another server of
// the same name applies to them.
type mcpFiles struct {
	p    *plan
	app  *config.App
	at   scope.Place
	gate *approval.Gate
	log  *slog.Logger

	mu      sync.Mutex
	looked  time.Time
	found   []fileServer // by name, the farther first
	stamp   string       // of what was found
	changes int64
	open    map[string]*mcp.Toolset // by id
	active  []*mcp.Toolset          // that have been listed
	listing bool                    // they are being listed
	closed  bool
}

// mcpFiles is the source of those servers.
func (p *plan) mcpFiles(app *config.App, log *slog.Logger) scope.Source {
	return func(ctx context.Context, at scope.Place) ([]seam.Toolset, error) {
		f := &mcpFiles{
			p: p, app: app, at: at, gate: p.gate(app, at), open: map[string]*mcp.Toolset{},
			log: log.With("app", at.App, "user", at.Principal.User, "workspace", at.Workspace),
		}
		f.look(ctx)
		return []seam.Toolset{f}, nil
	}
}

// look reads the files and the decisions about them.
func (f *mcpFiles) look(ctx context.Context) []fileServer {
	found := loginServers(f.app)
	for _, level := range []string{platformName, "user", "workspace"} {
		if !slices.Contains(f.app.Extensions, level) {
			continue
		}
		list, err := f.read(level)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				f.log.Warn("a file of MCP servers could not be read", "level", level, "err", err)
			}
			continue
		}
		if level != platformName {
			subjects := make([]approval.Subject, len(list))
			for i, s := range list {
				subjects[i] = s.subject
			}
			for i, a := range f.gate.States(ctx, subjects) {
				list[i].state = a.State
			}
		}
		found = append(found, list...)
	}
	var b strings.Builder
	for _, s := range found {
		fmt.Fprintln(&b, s.level, s.name, s.id, s.state)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked, f.found = time.Now(), found
	if stamp := b.String(); stamp != f.stamp {
		f.stamp = stamp
		f.changes++
	}
	return found
}

// chosen returns the servers that may run, the nearest of each name.
func (f *mcpFiles) chosen(found []fileServer) []fileServer {
	byName := map[string]fileServer{}
	for _, t := range f.app.Toolsets {
		if t.MCP != nil {
			byName[t.MCP.Name] = fileServer{level: appName}
		}
	}
	for _, s := range found {
		if s.app != nil || s.state == parley.ApprovalAllowed && s.subject.Wrong == nil && (s.level != platformName || byName[s.name].level == "") {
			byName[s.name] = s
		}
	}
	var list []fileServer
	for _, name := range names(byName) {
		if s := byName[name]; s.level != appName || s.app != nil {
			list = append(list, byName[name])
		}
	}
	return list
}

// Changes implements [seam.Changer].
func (f *mcpFiles) Changes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// Stale implements [seam.Refresher].
func (f *mcpFiles) Stale() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.looked) > mcpLook
}

// Refresh implements [seam.Refresher].
func (f *mcpFiles) Refresh(ctx context.Context) { f.look(ctx) }

// Tools implements [seam.Toolset]. A server whose tools are not known is started for them.
func (f *mcpFiles) Tools(ctx context.Context) ([]parley.ToolDecl, error) {
	f.mu.Lock()
	found := f.found
	f.listing = true
	f.mu.Unlock()
	chosen := f.chosen(found)
	sets := make([]*mcp.Toolset, len(chosen))
	var work sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, mcpListing)
	defer cancel()
	for i, s := range chosen {
		set, err := f.server(s)
		if err != nil {
			f.log.Warn("an MCP server of a file cannot be used", "level", s.level, "server", s.name, "err", err)
			continue
		}
		work.Go(func() {
			if _, err := set.Tools(ctx); err != nil {
				f.log.Warn("an MCP server of a file cannot be used", "level", s.level, "server", s.name, "err", err)
				return // when it has listed them after all, Changed says so
			}
			sets[i] = set
		})
	}
	work.Wait()
	sets = slices.DeleteFunc(sets, func(s *mcp.Toolset) bool { return s == nil })
	f.mu.Lock()
	f.active, f.listing = sets, false
	f.mu.Unlock()
	f.tidy(chosen)
	return f.Now().Tools(ctx)
}

// server is the toolset of a server, which is opened once.
func (f *mcpFiles) server(s fileServer) (*mcp.Toolset, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if set := f.open[s.id]; set != nil || f.closed {
		if f.closed {
			return nil, errors.New("the scope is closed")
		}
		return set, nil
	}
	o, err := f.options(s)
	if err != nil {
		return nil, err
	}
	set, err := mcp.New(o)
	if err == nil {
		f.open[s.id] = set
	}
	return set, err
}

// tidy ends the servers that are no longer chosen, because they were removed or their approval
// was withdrawn.
func (f *mcpFiles) tidy(chosen []fileServer) {
	f.mu.Lock()
	var over []*mcp.Toolset
	for id, set := range f.open {
		if !slices.ContainsFunc(chosen, func(s fileServer) bool { return s.id == id }) {
			delete(f.open, id)
			over = append(over, set)
		}
	}
	f.mu.Unlock()
	for _, set := range over {
		set.Close()
	}
}

// Close implements [io.Closer].
func (f *mcpFiles) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.tidy(nil)
	return nil
}

// Now implements [seam.Versioned].
func (f *mcpFiles) Now() seam.Toolset {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := &mcpFilesNow{mcpFiles: f, of: map[string]seam.Toolset{}}
	for _, set := range f.active {
		v := set.Now()
		now.sets = append(now.sets, v)
		decls, err := v.Tools(context.Background()) // which are known
		if err != nil {
			continue
		}
		for _, d := range decls {
			now.decls, now.of[d.Name] = append(now.decls, d), v
		}
	}
	return now
}

// Run implements [seam.Toolset].
func (f *mcpFiles) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	return f.Now().Run(ctx, r)
}

// mcpFilesNow are the servers with the tools that they had at some time.
type mcpFilesNow struct {
	*mcpFiles
	sets  []seam.Toolset
	decls []parley.ToolDecl
	of    map[string]seam.Toolset // by a tool's name
}

// Tools implements [seam.Toolset].
func (n *mcpFilesNow) Tools(context.Context) ([]parley.ToolDecl, error) { return n.decls, nil }

// Run implements [seam.Toolset].
func (n *mcpFilesNow) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	set := n.of[r.Name]
	if set == nil {
		return parley.ToolResult{}, seam.NotSent(fmt.Errorf("no MCP server of a file has the tool %s", r.Name))
	}
	return set.Run(ctx, r)
}

// Commands implements [seam.Commander].
func (n *mcpFilesNow) Commands() (list []parley.SlashCommand) {
	for _, set := range n.sets {
		if c, ok := set.(seam.Commander); ok {
			list = append(list, c.Commands()...)
		}
	}
	return list
}

// Expand implements [seam.Commander].
func (n *mcpFilesNow) Expand(ctx context.Context, name, args string) (string, error) {
	for _, set := range n.sets {
		if c, ok := set.(seam.Commander); ok && slices.ContainsFunc(c.Commands(), func(cmd parley.SlashCommand) bool { return cmd.Name == name }) {
			return c.Expand(ctx, name, args)
		}
	}
	return "", parley.Errorf(parley.CodeNotFound, "there is no command /%s", parley.Cut(name, 80))
}

// ResourceServers implements [seam.ResourceKeeper].
func (n *mcpFilesNow) ResourceServers() (list []seam.ResourceServer) {
	for _, set := range n.sets {
		if k, ok := set.(seam.ResourceKeeper); ok {
			list = append(list, k.ResourceServers()...)
		}
	}
	return list
}

// Prepare implements [seam.Preparer].
func (n *mcpFilesNow) Prepare(ctx context.Context, r seam.Run) (*parley.Interaction, error) {
	if p, ok := n.of[r.Name].(seam.Preparer); ok {
		return p.Prepare(ctx, r)
	}
	return nil, nil
}

// Approvals implements [seam.Applicant].
func (f *mcpFiles) Approvals(ctx context.Context) []parley.Approval {
	var subjects []approval.Subject
	for _, s := range f.look(ctx) {
		if s.subject.Digest != "" {
			subjects = append(subjects, s.subject)
		}
	}
	return f.gate.States(ctx, subjects)
}

// Approve implements [seam.Applicant].
func (f *mcpFiles) Approve(ctx context.Context, d parley.Digest, c parley.DecideApproval) (parley.Approval, error) {
	for _, s := range f.look(ctx) {
		if s.subject.Digest != "" && s.subject.Digest == d {
			done, err := f.gate.Decide(ctx, s.subject, c)
			f.look(ctx)
			return done, err
		}
	}
	return parley.Approval{}, parley.Errorf(parley.CodeNotFound, "no MCP server of a file has the digest %q", parley.Cut(string(d), 64))
}

var fromFile = regexp.MustCompile(`^mcp__([A-Za-z][A-Za-z0-9_-]*)-[uw][0-9a-f]{6}__`)

// shadowed takes out the tools of the app's servers of which a nearer file has one of the same
// name. gone are what their names begin with.
func shadowed(decls []parley.ToolDecl) (left []parley.ToolDecl, gone []string) {
	for _, d := range decls {
		m := fromFile.FindStringSubmatch(d.Name)
		if m == nil {
			continue
		}
		prefix := "mcp__" + m[1]
		if len(m[1]) < longName {
			prefix += "__"
		}
		if !slices.Contains(gone, prefix) {
			gone = append(gone, prefix)
		}
	}
	if gone == nil {
		return decls, nil
	}
	return slices.DeleteFunc(slices.Clone(decls), func(d parley.ToolDecl) bool {
		return !fromFile.MatchString(d.Name) && slices.ContainsFunc(gone, func(prefix string) bool { return strings.HasPrefix(d.Name, prefix) })
	}), gone
}
