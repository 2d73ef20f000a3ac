package program

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/approval"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/vault"
)

// fileServer is a server as it is written in a file.
type fileServer struct {
	level   string
	name    string
	entry   config.MCPEntry
	dir     string
	subject approval.Subject  // of a user or a workspace
	id      string            // differs if anything else would run
	app     *config.MCPServer // a server of the app's own file at which users log in; nil: one of another file
	state   parley.ApprovalState
}

// folder opens the folder of a level.
func (f *mcpFiles) folder(level string) (root *os.Root, dir string, err error) {
	switch level {
	case platformName:
		dir = f.p.settings.PlatformFolder()
		root, err = os.OpenRoot(dir)
	case "user":
		if root, err = f.at.Folders.OpenUser(f.at.Principal); err == nil {
			dir, err = f.at.Folders.UserDir(f.at.Principal)
		}
	default:
		if f.at.Workspace == "" {
			return nil, "", fs.ErrNotExist
		}
		if root, err = f.at.Folders.Open(f.at.Principal, f.at.Workspace); err == nil {
			dir, err = f.at.Folders.Dir(f.at.Principal, f.at.Workspace)
		}
		if parley.CodeOf(err) == parley.CodeNotFound {
			err = fs.ErrNotExist
		}
	}
	if err != nil && root != nil {
		_ = root.Close()
		root = nil
	}
	return root, dir, err
}

// read reads the file of a level.
func (f *mcpFiles) read(level string) (list []fileServer, err error) {
	root, dir, err := f.folder(level)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	raw, err := readRegular(root, mcpFileName, maxMCPFile)
	if err != nil {
		return nil, err
	}
	entries, err := config.MCPEntries(raw)
	if err != nil {
		return nil, fmt.Errorf("%s %w", mcpFileName, err)
	}
	for _, name := range names(entries) {
		s := fileServer{level: level, name: name, entry: entries[name], dir: dir, state: parley.ApprovalAllowed}
		if err := s.entry.Wrong(name); err != nil || len(list) == maxServers {
			f.log.Warn("a server in a file is left out", "file", mcpFileName, "level", level, "server", parley.Cut(name, 60), "why", err)
			continue
		}
		runs, words := s.entry.URL, []string(nil)
		if s.entry.Command != "" {
			words = append([]string{s.entry.Command}, s.entry.Args...)
			runs = approval.CommandLine(s.entry.Env, words)
			words = slices.AppendSeq(words, maps.Values(s.entry.Env))
		}
		if level == platformName {
			s.id = idOf(level, dir, name, s.entry)
		} else {
			s.subject = approval.Of(approval.Subject{
				Kind: parley.ApprovalMCP, Level: level, File: mcpFileName, Name: name, Runs: runs, Words: words, Remote: s.entry.Command == "",
			}, s.entry, root.FS(), dir)
			s.id = string(s.subject.Digest)
			if s.subject.Wrong == nil {
				s.subject.Wrong = f.wrong(s)
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// idOf returns a digest that differs if any part differs.
func idOf(parts ...any) string {
	raw, err := json.Marshal(parts)
	if err != nil {
		panic(err) // they are texts and numbers
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func readRegular(root *os.Root, name string, limit int64) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is not a file, or has more than %d bytes", name, limit)
	}
	return io.ReadAll(io.LimitReader(file, limit))
}

// own returns the variables that each file may use.
func (f *mcpFiles) own(s fileServer) map[string]string {
	dir := s.dir
	if at, err := f.at.Folders.Dir(f.at.Principal, f.at.Workspace); err == nil && f.at.Workspace != "" {
		dir = at
	}
	return map[string]string{"WORKSPACE_PATH": dir, "CLAUDE_PROJECT_DIR": dir}
}

// wrong says why a server of a user's or workspace's file could not be used if it were approved: it
// names a variable or a host that the operator has not listed.
func (f *mcpFiles) wrong(s fileServer) error {
	texts := append([]string{s.entry.Command}, s.entry.Args...)
	for _, of := range []map[string]string{s.entry.Env, s.entry.Headers} {
		for _, name := range names(of) {
			texts = append(texts, of[name])
		}
	}
	own := f.own(s)
	for _, text := range texts {
		if _, err := f.gate.Expand(text, own); err != nil {
			return err
		}
	}
	if s.entry.URL == "" {
		return nil
	}
	address, err := f.gate.Expand(s.entry.URL, own)
	if err != nil {
		return err
	}
	return f.gate.Address(address)
}

func (f *mcpFiles) options(s fileServer) (o mcp.Options, err error) {
	if s.app != nil {
		return f.ofApp(s)
	}
	own := f.own(s)
	expand := func(text string) string {
		if err != nil {
			return ""
		}
		if s.level == platformName {
			text = variables.ReplaceAllStringFunc(text, func(whole string) string {
				m := variables.FindStringSubmatch(whole)
				if v, ok := own[m[1]]; ok {
					return v
				}
				if v := f.p.settings.Env(m[1]); v != "" {
					f.p.red.Add(f.at.App+"/"+mcpFileName+"/"+m[1], v) // the operator's value, so it is hidden like their other secrets
					return v
				}
				if m[2] == "" {
					err = fmt.Errorf("%s is not set", whole)
				}
				return strings.TrimPrefix(m[2], ":-")
			})
			return text
		}
		text, err = f.gate.Expand(text, own)
		return text
	}
	o = mcp.Options{
		Name: s.name, Timeout: time.Duration(s.entry.Timeout * float64(time.Millisecond)), Check: toolbox.Check, Logger: f.log,
		Clean: f.clean, Changed: f.changed, Sampling: s.entry.Sampling,
	}
	if f.at.Workspace != "" {
		o.Roots = []string{}
		if dir, err := f.at.Folders.Dir(f.at.Principal, f.at.Workspace); err == nil {
			o.Roots = append(o.Roots, dir)
		}
	}
	if s.level != platformName {
		o.Name = fmt.Sprintf("%s-%c%s", s.name[:min(len(s.name), longName)], s.level[0], s.id[:6])
		o.Short, o.Distrust = s.name, true
		o.Allowed = func(ctx context.Context) error { return f.still(ctx, s) }
	}
	if s.entry.Command != "" {
		o.Run, o.Dir, o.Env = []string{expand(s.entry.Command)}, s.dir, map[string]string{}
		for _, arg := range s.entry.Args {
			o.Run = append(o.Run, expand(arg))
		}
		for _, name := range names(s.entry.Env) {
			o.Env[name] = expand(s.entry.Env[name])
		}
		for name, v := range own {
			o.Env[name] = v
		}
		if strings.Contains(o.Run[0], "/") && !filepath.IsAbs(o.Run[0]) {
			o.Run[0] = filepath.Join(s.dir, o.Run[0])
		}
	} else {
		o.URL, o.Headers = expand(s.entry.URL), map[string]string{}
		for _, name := range names(s.entry.Headers) {
			o.Headers[name] = expand(s.entry.Headers[name])
		}
		if err == nil && s.level != platformName {
			err = f.gate.Address(o.URL)
		}
		if err == nil && !slices.ContainsFunc(names(o.Headers), func(h string) bool { return strings.EqualFold(h, "Authorization") }) {
			o.Hosts = f.app.Exec.Hosts
			at := login.Place{Principal: f.at.Principal, Scope: vault.Scope{App: f.at.App, Workspace: f.at.Workspace}}
			// The name contains the digest of a user's or workspace's file, so a changed file has
			// another login.
			o, err = loginOf(f.p.logins, at, &config.MCPServer{Name: o.Name}, o)
		}
	}
	name := "mcp-" + idOf(f.at.Principal, f.at.App, f.at.Workspace, s.id)[:32] + ".json"
	o.Kept = f.p.kept(name)
	o.Keep = func(body []byte) { f.p.keep(name, body) }
	return o, err
}

// ofApp returns the options for a server of the app's own file at which users log in. The user has
// the same login and tools in all workspaces of the app.
func (f *mcpFiles) ofApp(s fileServer) (mcp.Options, error) {
	o := mcpOptions(s.app, f.clean, f.log)
	o.Changed = f.changed
	name := "mcp-" + idOf(f.at.Principal, f.at.App, s.id)[:32] + ".json"
	o.Kept = f.p.kept(name)
	o.Keep = func(body []byte) { f.p.keep(name, body) }
	return loginOf(f.p.logins, login.Place{Principal: f.at.Principal, Scope: vault.Scope{App: f.at.App}}, s.app, o)
}

func (f *mcpFiles) clean(text string) string { text, _ = f.p.red.String(text); return text }

// changed is called when a server has listed other tools than were known.
func (f *mcpFiles) changed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.listing {
		f.changes++
	}
}

// loginServers returns the servers of an app's own file at which users log in.
func loginServers(a *config.App) (list []fileServer) {
	for _, t := range a.Toolsets {
		if t.MCP != nil && t.MCP.Auth.Login != nil {
			list = append(list, fileServer{level: appName, name: t.MCP.Name, id: idOf(appName, t.MCP), state: parley.ApprovalAllowed, app: t.MCP})
		}
	}
	return list
}

// variables matches ${NAME} and ${NAME:-otherwise}.
var variables = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

// still reports whether a server that is about to start may still run: its file is unchanged, and
// its approval is valid.
func (f *mcpFiles) still(ctx context.Context, s fileServer) error {
	list, err := f.read(s.level)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(now fileServer) bool { return now.id == s.id })
	if i < 0 {
		return parley.Errorf(parley.CodeForbidden, "%s of the %s has changed since it was approved", s.name, s.level)
	}
	return f.gate.Allowed(ctx, list[i].subject)
}
