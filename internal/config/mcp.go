package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// mcpFile is an MCP server, or a file with several.
type mcpFile struct {
	File string            `yaml:"file"`     // .mcp.json, or another of its form, in the app's folder
	Vars map[string]string `yaml:"vars,ref"` // what ${NAME} means in that file; no other variable is expanded

	Name    string                 `yaml:"name"`        // of the server, in the tools' names; without run and url: of one in a file, to say more about it
	Run     some[string]           `yaml:"run,ref"`     // the program and its arguments; a program with a slash is in the app's folder
	Env     map[string]string      `yaml:"env,ref"`     // its environment besides what [proc.Env] adds
	Memory  Size                   `yaml:"memory"`      // that each of its processes may allocate; default 1GiB
	URL     string                 `yaml:"url,ref"`     // or the address of a service
	Headers map[string]string      `yaml:"headers,ref"` // sent to it
	Auth    mcpAuthFile            `yaml:"auth"`        // what lets calls in; default: nothing
	Hosts   []string               `yaml:"hosts"`       // further hosts, which its login may be at
	Private []string               `yaml:"private"`     // hosts, addresses and prefixes that need not be public; default: none
	Allow   some[string]           `yaml:"allow"`       // tools to take, such as read_*; default: all
	Tools   map[string]mcpToolFile `yaml:"tools"`       // what replaces the server's word about a tool
	Timeout parley.Duration        `yaml:"timeout"`     // of a call; default 60s
	Idle    parley.Duration        `yaml:"idle"`        // after which an unused server is ended; default 10m
	AtOnce  int                    `yaml:"at_once"`     // calls at once; default 8
	// Sampling lets the server have replies of the app's model in the middle of a call, once a
	// person has allowed it; default false.
	Sampling bool `yaml:"sampling"`
}

type mcpAuthFile struct {
	Bearer mcpBearerFile `yaml:"bearer"`
	OAuth  mcpOAuthFile  `yaml:"oauth"`
	Login  *mcpLoginFile `yaml:"login"` // each user logs in there
	// PlainHTTP allows a credential to be sent to another machine over plain http; default false.
	PlainHTTP bool `yaml:"plain_http"`
}

// mcpBearerFile is a token, or {credential: NAME} for one that comes with the user's message.
// With a credential, Listing is the operator's token for listing the tools; calls never carry
// it.
type mcpBearerFile struct {
	Value      string `yaml:"value,ref"`
	Credential string `yaml:"credential"`
	Listing    string `yaml:"listing,ref"`
}

func (mcpBearerFile) short() string { return "value" }

// mcpOAuthFile are the credentials of a client that acts for itself (RFC 6749, section 4.4).
type mcpOAuthFile struct {
	Issuer       string   `yaml:"issuer,ref"` // the authorization server; default: the one that the MCP server names, at its host or one of hosts
	ClientID     string   `yaml:"client_id,ref"`
	ClientSecret string   `yaml:"client_secret,ref"`
	Scopes       []string `yaml:"scopes"` // default: those that the MCP server asks for
}

// mcpLoginFile is how users log in at the server with OAuth. {} is enough for a server that
// registers clients automatically.
type mcpLoginFile struct {
	Issuer       string   `yaml:"issuer,ref"`        // as in oauth
	ClientID     string   `yaml:"client_id,ref"`     // of a client that the operator has registered there; default: Parley registers one
	ClientSecret string   `yaml:"client_secret,ref"` // of that client, if it has one
	Scopes       []string `yaml:"scopes"`            // as in oauth
}

type mcpToolFile struct {
	Description string          `yaml:"description"` // for the model; default: the server's
	Effect      parley.Effect   `yaml:"effect"`      // default: read if the server says that the tool only reads, else write
	Subject     string          `yaml:"subject"`     // what a call is about, such as "{path}"; default: its input
	Timeout     parley.Duration `yaml:"timeout"`     // default: the server's
	KeyTTL      parley.Duration `yaml:"key_ttl"`     // of an idempotent tool: how long the server recognises a repeated call
	Web         bool            `yaml:"web"`         // its results hold what strangers wrote; default false
	Outward     bool            `yaml:"outward"`     // calls tell somebody outside something, see policy.outward_after_web; default false
}

// MCPServer is an MCP server whose tools are the app's. Either Run or URL is set.
type MCPServer struct {
	Name    string
	Run     []string
	Dir     string // of the app
	Env     map[string]string
	Refs    []string // what Run, Env and Headers have from files and variables: secrets, addresses, paths
	Memory  int64    // bytes; 0: the default
	URL     string
	Headers map[string]string
	Auth    MCPAuth
	Hosts   []string
	Private []string
	Allow   []string
	Tools   map[string]MCPTool
	Timeout parley.Duration
	Idle    parley.Duration // 0: the default
	AtOnce  int             // 0: the default

	Sampling bool // it may ask for replies of the app's model
}

// MCPAuth lets calls in, by at most one of its ways.
type MCPAuth struct {
	Bearer  Secret
	Listing string // with a credential: the operator's token for listing the tools; empty: they are listed without one
	// PlainHTTP allows the caller's token to leave the machine over plain http.
	PlainHTTP bool
	OAuth     struct {
		Issuer, ClientID, ClientSecret string
		Scopes                         []string
	}
	Login *MCPLogin // each user logs in; nil: nobody does
}

// MCPLogin is how users log in at a server. Every field is optional.
type MCPLogin struct {
	Issuer, ClientID, ClientSecret string
	Scopes                         []string
}

// MCPTool replaces what a server says of a tool. Zero values keep that.
type MCPTool struct {
	Description string
	Effect      parley.Effect
	Subject     string
	Timeout     parley.Duration
	KeyTTL      parley.Duration
	Web         bool
	Outward     bool
}

const maxMCPFile = 1 << 20

// mcpName is the form of an MCP server's name.
var mcpName = pattern.New(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)

// servers reads tools.mcp.
func (a *App) servers(files some[mcpFile]) {
	byName := map[string]*Toolset{}
	add := func(at string, m *MCPServer) {
		if byName[m.Name] != nil {
			a.d.at(at, "there are two MCP servers named %q; leave one out, or give it another name", m.Name)
			return
		}
		byName[m.Name] = &Toolset{Kind: "mcp", At: at, MCP: m}
	}
	for i, f := range files {
		at := files.at(a.d, "tools.mcp", i)
		if f.File != "" {
			a.mcpServers(at, f, add)
		}
	}
	for i, f := range files {
		at := files.at(a.d, "tools.mcp", i)
		if f.File != "" {
			if f.Name != "" || len(f.Run) > 0 || f.URL != "" {
				a.d.at(at+".file", "names servers of its own; write this server in an entry of its own")
			}
			continue
		}
		if !mcpName.MatchString(f.Name) {
			a.d.lacks(at, "name", "needs a name of letters, digits, _ and -, at most 32; its tools are named mcp__NAME__...")
			continue
		}
		more := len(f.Run) == 0 && f.URL == ""
		if t := byName[f.Name]; more && t != nil {
			a.refine(at, t.MCP, f)
			t.At = at // where its tools are spoken of
			continue
		}
		if more {
			a.d.lacks(at, "run", "names no server; write run with the program and its arguments, [npx, -y, some-server], or its url")
			continue
		}
		if t := byName[f.Name]; t != nil && strings.Contains(t.At, "#") {
			delete(byName, f.Name) // the app's own file is nearer
		}
		m := &MCPServer{Name: f.Name, Run: f.Run, Dir: a.Dir, Env: f.Env, URL: f.URL, Headers: f.Headers}
		if len(f.Run) > 0 && f.URL != "" {
			a.d.at(at+".url", "names the server a second time; remove run or url")
		}
		if len(f.Run) > 0 && a.Dir == "" {
			a.d.at(at, "an app inside the program has no folder to run programs in")
		}
		m.Refs = append(m.Refs, a.d.refs[at+".run"]...)
		for i := range f.Run {
			m.Refs = append(m.Refs, a.d.refs[fmt.Sprintf("%s.run[%d]", at, i)]...)
		}
		for _, name := range slices.Sorted(maps.Keys(f.Env)) {
			a.variable(at+".env."+name, name, f.Env[name])
			m.Refs = append(m.Refs, a.d.refs[at+".env."+name]...)
		}
		for _, name := range slices.Sorted(maps.Keys(f.Headers)) {
			if !headerName(name) {
				a.d.at(at+".headers."+name, "%q is not a valid header name", name)
			}
			m.Refs = append(m.Refs, a.d.refs[at+".headers."+name]...)
		}
		a.refine(at, m, f)
		add(at, m)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		t := *byName[name]
		t.At, _, _ = strings.Cut(t.At, "#")
		a.Toolsets = append(a.Toolsets, t)
	}
}

// refine adds what the app says about a server besides how it is reached.
func (a *App) refine(at string, m *MCPServer, f mcpFile) {
	m.Memory, m.Hosts, m.Private, m.Allow, m.Idle, m.AtOnce = int64(f.Memory), f.Hosts, f.Private, f.Allow, f.Idle, f.AtOnce
	m.Sampling = m.Sampling || f.Sampling
	if f.Timeout != 0 {
		m.Timeout = f.Timeout
	}
	bearer := f.Auth.Bearer
	m.Auth.Bearer, m.Auth.Listing = a.secret(at+".auth.bearer", secretFile{bearer.Value, bearer.Credential}), bearer.Listing
	m.Auth.PlainHTTP = f.Auth.PlainHTTP
	if bearer.Listing != "" && bearer.Credential == "" {
		a.d.at(at+".auth.bearer.listing", "is only for a bearer with a credential")
	}
	m.Auth.OAuth.Issuer, m.Auth.OAuth.ClientID, m.Auth.OAuth.ClientSecret, m.Auth.OAuth.Scopes = f.Auth.OAuth.Issuer, f.Auth.OAuth.ClientID, f.Auth.OAuth.ClientSecret, f.Auth.OAuth.Scopes
	oauth := f.Auth.OAuth.Issuer != "" || f.Auth.OAuth.ClientID != "" || f.Auth.OAuth.ClientSecret != ""
	ways := []string{}
	for way, is := range map[string]bool{"bearer": bearer != (mcpBearerFile{}), "login": f.Auth.Login != nil, "oauth": oauth} {
		if is {
			ways = append(ways, way)
		}
	}
	if slices.Sort(ways); len(ways) > 1 {
		a.d.at(at+".auth", "has %s; leave one of them out", strings.Join(ways, " and "))
	}
	if in := f.Auth.Login; in != nil {
		login := MCPLogin(*in)
		m.Auth.Login = &login
		if in.ClientSecret != "" && in.ClientID == "" {
			a.d.at(at+".auth.login.client_secret", "needs a client_id, which is missing")
		}
		for name := range m.Headers {
			if strings.EqualFold(name, "Authorization") {
				a.d.at(at+".headers."+name, "is set by the login; remove the header or the login")
			}
		}
	}
	if m.URL == "" && len(ways) > 0 {
		a.d.at(at+".auth", "is for servers with a url; a program gets credentials by env")
	}
	for i, pattern := range f.Allow {
		if _, err := path.Match(pattern, ""); err != nil {
			a.d.at(fmt.Sprintf("%s.allow[%d]", at, i), "%q is not a pattern; write a tool's name, which may have *", pattern)
		}
	}
	a.timeout(at+".timeout", f.Timeout)
	if f.Idle < 0 {
		a.d.at(at+".idle", "has to be more than 0")
	}
	if f.AtOnce < 0 || f.AtOnce > maxAtOnce {
		a.d.at(at+".at_once", "has to be from 1 to %d", maxAtOnce)
	}
	m.Tools = map[string]MCPTool{}
	for _, name := range slices.Sorted(maps.Keys(f.Tools)) {
		t, at := f.Tools[name], at+".tools."+name
		if t.Effect != "" {
			a.choice(at+".effect", string(t.Effect), string(parley.EffectRead), string(parley.EffectIdempotent), string(parley.EffectWrite))
		}
		a.keyTTL(at, t.Effect, t.KeyTTL)
		a.timeout(at+".timeout", t.Timeout)
		m.Tools[name] = MCPTool(t)
	}
}

// MCPEntry is a server in a file in the format of .mcp.json. Variables in it are not expanded.
type MCPEntry struct {
	Type    string            `json:"type"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Timeout float64           `json:"timeout"` // of a call, in ms

	// Sampling lets it ask for replies of the app's model. It is left out of what is approved
	// where it is false, so that older approvals stand.
	Sampling bool `json:"sampling,omitempty"`
}

// mcpServers reads a file of the form of .mcp.json. Other programs read such files, too,
// so keys that are not known here are ignored.
func (a *App) mcpServers(at string, f mcpFile, add func(at string, m *MCPServer)) {
	raw, err := readFile(a.Files, f.File, maxMCPFile)
	if err != nil {
		a.d.at(at+".file", "%s", err)
		return
	}
	servers, err := MCPEntries(raw)
	if err != nil {
		a.d.at(at+".file", "%s %s", f.File, err)
		return
	}
	if len(servers) == 0 {
		a.d.at(at+".file", "%s has no mcpServers", f.File)
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		a.mcpServer(at, f, name, servers[name], add)
	}
}

// MCPEntries reads a file in the format of .mcp.json. Unknown keys are ignored.
func MCPEntries(raw []byte) (map[string]MCPEntry, error) {
	var doc struct {
		MCPServers map[string]MCPEntry `json:"mcpServers"`
		Servers    map[string]MCPEntry `json:"servers"` // as VS Code has it
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("is not JSON of the form {\"mcpServers\": {NAME: {\"command\", \"args\"}}}: %w", err)
	}
	if doc.MCPServers == nil {
		doc.MCPServers = doc.Servers
	}
	return doc.MCPServers, nil
}

// Wrong returns what is wrong with an entry called name in a file of a platform, a user or a
// workspace, or nil.
func (e MCPEntry) Wrong(name string) error {
	kind := orString(e.Type, "stdio")
	http := kind == "http" || kind == "streamable-http"
	switch {
	case !mcpName.MatchString(name):
		return errors.New("needs a name of letters, digits, _ and -, at most 32")
	case kind != "stdio" && !http:
		return fmt.Errorf("has the type %q; Parley speaks stdio and http", parley.Cut(kind, 60))
	case kind == "stdio" && e.URL != "" || http && e.Command != "":
		return errors.New("has a url and a command or no type; write \"type\": \"http\" with a url, or a command")
	case kind == "stdio" && e.Command == "":
		return errors.New("has no command")
	case http && e.URL == "":
		return errors.New("has no url")
	case e.Timeout < 0 || e.Timeout > float64(maxCallTimeout.Milliseconds()):
		return fmt.Errorf("timeout has to be more than 0 ms, and at most %s", maxCallTimeout)
	}
	for _, h := range slices.Sorted(maps.Keys(e.Headers)) {
		if !headerName(h) {
			return fmt.Errorf("%q is not a valid header name", parley.Cut(h, 60))
		}
	}
	return nil
}

func (a *App) mcpServer(at string, f mcpFile, name string, s MCPEntry, add func(at string, m *MCPServer)) {
	wrong := func(format string, args ...any) {
		a.d.at(at+".file", "%s: mcpServers.%s: %s", f.File, name, fmt.Sprintf(format, args...))
	}
	if !mcpName.MatchString(name) {
		wrong("needs a name of letters, digits, _ and -, at most 32")
		return
	}
	m := &MCPServer{Name: name, Dir: a.Dir, Sampling: s.Sampling}
	expand := func(where, text string) string {
		return fileVariable.ReplaceAllStringFunc(text, func(found string) string {
			parts := fileVariable.FindStringSubmatch(found)
			if v, ok := f.Vars[parts[1]]; ok {
				m.Refs = append(m.Refs, a.d.refs[at+".vars."+parts[1]]...)
				return v
			}
			if parts[2] == "" {
				wrong("%s refers to ${%s}; write what it stands for under vars", where, parts[1])
			}
			return parts[3]
		})
	}
	switch kind := orString(s.Type, "stdio"); {
	case kind == "stdio" && s.Command != "":
		if s.URL != "" {
			wrong("has a command and a url; leave one of them out")
		}
		if a.Dir == "" {
			wrong("an app inside the program has no folder to run programs in")
		}
		m.Run = []string{expand("command", s.Command)}
		for _, arg := range s.Args {
			m.Run = append(m.Run, expand("args", arg))
		}
		m.Env = map[string]string{}
		for _, v := range slices.Sorted(maps.Keys(s.Env)) {
			m.Env[v] = expand("env."+v, s.Env[v])
			a.variable(at+".file", v, m.Env[v])
		}
	case (kind == "http" || kind == "streamable-http") && s.URL != "":
		m.URL, m.Headers = expand("url", s.URL), map[string]string{}
		for _, h := range slices.Sorted(maps.Keys(s.Headers)) {
			if !headerName(h) {
				wrong("%q is not a valid header name", h)
			}
			m.Headers[h] = expand("headers."+h, s.Headers[h])
		}
	case kind == "stdio" && s.URL != "":
		wrong(`has a url and no type; write "type": "http"`)
		return
	case kind == "stdio":
		wrong("has no command")
		return
	case kind == "http" || kind == "streamable-http":
		wrong("has no url")
		return
	default:
		wrong("has the type %q; Parley speaks stdio and http", kind)
		return
	}
	if s.Timeout < 0 || s.Timeout > float64(maxCallTimeout.Milliseconds()) {
		wrong("timeout has to be more than 0 ms, and at most %s", maxCallTimeout)
	} else {
		m.Timeout = parley.Duration(s.Timeout * 1e6)
	}
	add(at+"#"+name, m)
}

// fileVariable is ${NAME} or ${NAME:-otherwise}.
var fileVariable = pattern.New(`\$\{([^}:]*)(:-([^}]*))?\}`)
