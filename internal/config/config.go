// Package config reads the settings of a server and the folders of its apps into
// typed values.
//
// Settings come from four places, the nearest first: flags, the environment
// (PARLEY_ADDR for addr, PARLEY_LOG_LEVEL for log.level), the file parley.yaml,
// and the defaults, with which everything runs. An app is a folder with an
// app.yaml: some are built in, others lie in the folder that --apps names and
// may replace a built-in one of the same name.
//
// Mistakes are found before anything starts, all of them at once, each with its
// file and line: unknown keys with the nearest known one, wrong types, names
// that lead nowhere. Secrets are never in a file: a value may be ${NAME}, from
// the environment, or file:path. No message holds what they refer to.
//
// [Load] gives [Settings], [Settings.LoadApps] the apps, and [App.Resolve] what
// the engine runs, once the tools are known.
package config

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
)

// DevOrigin is where the development server of the pages is.
const DevOrigin = "http://localhost:5173"

// File is the name of the settings file.
const File = "parley.yaml"

// Settings are those of one server.
type Settings struct {
	// Addr is where the server listens. Default 127.0.0.1:8000.
	Addr string `yaml:"addr,ref"`
	// Data is the data folder. Default: parley in the platform's place for user data,
	// such as ~/.local/share/parley.
	Data string `yaml:"data,ref"`
	// Store is where logs are kept: sqlite, in the data folder; mem, in memory only; or
	// the URL of a PostgreSQL database, postgres://user:password@host/database. In a
	// file, refer to the URL with ${NAME} or file:path. Default sqlite.
	Store string `yaml:"store,ref"`
	// Apps is a folder of apps, one sub-folder each, in addition to the built-in ones.
	// Default: none.
	Apps string `yaml:"apps,ref"`
	// WorkspacesDir has a folder for each user, and in it one for each of the user's
	// workspaces, for apps that have workspaces and name no folder of their own. Default:
	// workspaces in the data folder.
	WorkspacesDir string `yaml:"workspaces_dir,ref"`
	// PlatformDir is the folder with the skills, instructions, slash commands and hooks that
	// the operator adds to apps with extensions. Default: platform in the data folder.
	PlatformDir string `yaml:"platform_dir,ref"`
	// Enabled names the apps that are on. Default: all there are.
	Enabled []string `yaml:"enabled"`
	// Model replaces the model of every app and of its agents. Default: each app's own.
	Model string `yaml:"model,ref"`
	// Scripts makes apps with a script answer from it, whatever model they name. Tests set it.
	Scripts bool `yaml:"-"`
	// PublicURL is the URL at which people's browsers reach the server, such as
	// https://parley.example.com. Logins at other services redirect browsers to it. Default:
	// the address that the server listens at, if only this machine can reach it.
	PublicURL string `yaml:"public_url,ref"`
	// Hosts are host names, without port, that requests may use in addition to the
	// server's address and loopback, such as the name under which a proxy on this machine
	// is known. Default: no others on loopback without a login, so that no page can reach
	// the server through a name of its own (DNS rebinding); any name elsewhere.
	Hosts []string `yaml:"hosts"`
	// Pages says, for each app with its own page (page: in an app.yaml), where the page is
	// served. HOST:PORT is an address to listen at. A URL such as https://desk.example.com is a
	// name under which a proxy reaches this server. Default: http://NAME.localhost at the
	// server's port, which only this machine can open.
	Pages map[string]string `yaml:"pages"`
	// CORSOrigins are the pages of other origins that may call the server.
	// Default: none; DevOrigin under the command demo.
	CORSOrigins []string `yaml:"cors_origins"`

	Log       Log       `yaml:"log"`
	Limits    Limits    `yaml:"limits"`
	Models    Models    `yaml:"models"`
	Scripted  Scripted  `yaml:"scripted"`
	Telemetry Telemetry `yaml:"telemetry"`
	MCP       MCP       `yaml:"mcp"`
	Vault     Vault     `yaml:"vault"`
	Push      Push      `yaml:"push"`
	Schedules Schedules `yaml:"schedules"`
	Events    Events    `yaml:"events"`
	Claude    Claude    `yaml:"claude"`
	Bash      Bashing   `yaml:"bash"`

	Auth Auth `yaml:"auth"`
	// Keys are API keys by name, in addition to those that `parley keys` makes.
	// PARLEY_API_KEYS adds more: name=key, or name@user=key, separated by commas.
	// Default: none.
	Keys map[string]Key `yaml:"keys"`

	// App are settings of single apps, by name.
	App map[string]AppSettings `yaml:"app"`

	env func(string) (string, bool)
}

// Setenv gives a variable a value where the environment has none, for what is simulated.
func (s *Settings) Setenv(name, value string) {
	env := s.env
	s.env = func(n string) (string, bool) {
		if env != nil {
			if v, ok := env(n); ok && v != "" || n != name {
				return v, ok
			}
		}
		return value, n == name
	}
}

// Auth is how the server identifies callers.
type Auth struct {
	// Mode is none, on loopback only: everybody is the user local; keys: everybody shows
	// a key, a token or a login; ingress: a Home Assistant's Supervisor names the user,
	// everybody else shows one of those. Default: none on loopback without Issuers, keys
	// elsewhere.
	Mode string `yaml:"mode"`
	// Supervisor is the address that is trusted to name users in the mode ingress.
	// Default 172.30.32.2, as in every Home Assistant.
	Supervisor string `yaml:"supervisor"`
	// Issuers are OIDC providers whose tokens identify users. A provider's name here begins
	// the names of its users and organisations, as in acme:user-1. Default: none.
	Issuers map[string]Issuer `yaml:"issuers"`
	// SignIns is how long browsers stay signed in.
	SignIns SignIns `yaml:"signins"`
}

// SignIns limits how long a browser stays signed in.
type SignIns struct {
	// Idle is how long without a request. Default 168h, a week.
	Idle parley.Duration `yaml:"idle"`
	// Max is how long at most. Default 720h, 30 days.
	Max parley.Duration `yaml:"max"`
}

// Key is an API key.
type Key struct {
	// Key is its value, ${NAME} or file:path, of at least 20 characters.
	Key string `yaml:"key,ref"`
	// User and Org are the identity that the key acts as. Default: a user of the key's
	// name.
	User string `yaml:"user"`
	Org  string `yaml:"org"`
	// Metrics makes it a key for /metrics, which are of all users, and for nothing else; it
	// then has no user and no org. Default: false.
	Metrics bool `yaml:"metrics"`
	// App limits the key to the page that this app brings. Default: none, the key is valid
	// everywhere.
	App string `yaml:"app"`
	// Scopes are what it may do: read, send and manage. Default: everything.
	Scopes []string `yaml:"scopes"`
	// Expires is when it ends, such as 2027-01-31. Default: never.
	Expires string `yaml:"expires"`
}

// Log configures the server's own log.
type Log struct {
	// Level is debug, info, warn or error. Default info.
	Level string `yaml:"level"`
	// Format is text or json. Default text.
	Format string `yaml:"format"`
}

// Limits limit what clients may ask for.
type Limits struct {
	// MaxBody is the largest request body. Default 1MiB, or four times MaxMessage
	// where that is more, since a message in JSON may be longer than its text.
	MaxBody Size `yaml:"max_body"`
	// MaxMessage is the longest message of a user, up to 4MiB. Default 256KiB.
	MaxMessage Size `yaml:"max_message"`
	// MaxStreams is how many streams may be open at once. Default 1000.
	MaxStreams int `yaml:"max_streams"`
	// MaxConnections is how many connections a listener may have. A further one closes
	// the oldest that is idle or whose user is not identified. Default 0: 4096, or fewer
	// if the process may not have that many descriptors plus 256.
	MaxConnections int `yaml:"max_connections"`
	// MaxConnectionsPerAddress is the same for one address, or one /64 network of IPv6,
	// not counting requests of identified users. Loopback has no such limit, since a
	// proxy there speaks for many. Default 256.
	MaxConnectionsPerAddress int `yaml:"max_connections_per_address"`
	// MinUploadRate is how many bytes of a request's body must arrive per second; pauses
	// of 10 s are allowed. Default 4KiB.
	MinUploadRate Size `yaml:"min_upload_rate"`
	// SessionsPerUser and BytesPerUser limit what a user may store: the number of
	// sessions, including ended ones, and the bytes of their events and artifacts.
	// Without a login there is one user, who has no limit. Default 10000 and 4GiB.
	SessionsPerUser int  `yaml:"sessions_per_user"`
	BytesPerUser    Size `yaml:"bytes_per_user"`
	// USDPerDay is what the model calls of a user may cost in a day, by UTC, and
	// UserUSDPerDay the same for single users. Default: any amount.
	USDPerDay     float64            `yaml:"usd_per_day"`
	UserUSDPerDay map[string]float64 `yaml:"user_usd_per_day"`
	// OrgUSDPerDay, OrgsUSDPerDay and OrgTurnsPerMinute are the same for all users of an
	// organisation together, and for single organisations. Default: any amount.
	OrgUSDPerDay      float64            `yaml:"org_usd_per_day"`
	OrgsUSDPerDay     map[string]float64 `yaml:"orgs_usd_per_day"`
	OrgTurnsPerMinute int                `yaml:"org_turns_per_minute"`
	// TurnsPerMinute is how many turns a user may begin in a minute. Default: any
	// number.
	TurnsPerMinute int `yaml:"turns_per_minute"`
	// Patience is how long a program or a call that waits for a person's answer stays in
	// memory. After that, the call of a tool that asks is denied, and a program that can start
	// again does so when the answer comes. Default 5m.
	Patience parley.Duration `yaml:"patience"`
}

// Scripted is about the models that follow a script.
type Scripted struct {
	// Pace is the time per word. Default 25ms; 0s sends everything at once.
	Pace parley.Duration `yaml:"pace"`
}

// Telemetry sends a trace of every turn to a collector, by OTLP over HTTP.
type Telemetry struct {
	// OTLPEndpoint is where, such as http://localhost:4318, or
	// https://cloud.langfuse.com/api/public/otel. Default: what OpenTelemetry's own
	// variables say (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS and
	// the like), and else nowhere.
	OTLPEndpoint string `yaml:"otlp_endpoint,ref"`
	// Headers go with every request to OTLPEndpoint, such as Authorization: Basic
	// ${LANGFUSE_AUTH}. Default: none.
	Headers map[string]string `yaml:"headers,ref"`
	// Content adds to the traces what was said, what tools were asked and what they
	// answered. Default: false.
	Content bool `yaml:"content"`
}

// MCP is how apps are offered to MCP hosts.
type MCP struct {
	// Underscores writes ha_agent.ask as ha_agent_ask, for hosts that refuse a dot in the
	// name of a tool. Default: false.
	Underscores bool `yaml:"underscores"`
	// Approvals lets a host's model answer permissions, confirmations and unknown writes
	// with the tool answer, and so approve what it requested itself. Default: false; then
	// it answers questions only.
	Approvals bool `yaml:"approvals"`
}

// Vault configures the storage of users' secrets that outlive a turn, such as the tokens of
// their logins.
type Vault struct {
	// Keys encrypt the secrets: 32 bytes in base64 each, one per line, the newest first. Put
	// them into a file outside the data folder and its backup. Default: none, no login is
	// stored, and the secrets of devices are stored as they are.
	Keys string `yaml:"keys,ref"`
}

// Push tells users' devices when a turn ends or waits.
type Push struct {
	// Allow are hosts that users' webhooks may reach although they are not public, with or
	// without a port: hooks.intern, or 127.0.0.1:8080 at that port alone. Default: none.
	Allow []string `yaml:"allow"`
	// Contact is how a push service of browsers reaches the operator: mailto:NAME@HOST or an
	// https URL. Default: PublicURL, if it begins with https.
	Contact string `yaml:"contact,ref"`
	// VAPIDKey is the private key that browsers' subscriptions are bound to, 32 bytes in
	// base64url. Default: one is made at the first start and kept in the store.
	VAPIDKey string `yaml:"vapid_key,ref"`
	// FCM reaches apps on phones.
	FCM FCM `yaml:"fcm"`
}

// FCM is Firebase Cloud Messaging.
type FCM struct {
	// Credentials is the JSON of a service account: file:path. Default: none, and there is no
	// FCM.
	Credentials string `yaml:"credentials,ref"`
	// URL replaces FCM's own. Default https://fcm.googleapis.com.
	URL string `yaml:"url,ref"`
}

// Schedules begin turns at times.
type Schedules struct {
	// PerUser is how many a user may have. Default 50.
	PerUser int `yaml:"per_user"`
	// Shortest is the shortest time between two runs of one, at least a minute. Default 5m.
	Shortest parley.Duration `yaml:"shortest"`
	// User and Org are who the turns of apps' schedules (schedules: in an app.yaml) belong to.
	// Default: local where nobody has to log in; elsewhere nobody, and these schedules do not run.
	User string `yaml:"user"`
	Org  string `yaml:"org"`
}

// Events is the wire /events/{session_id}.
type Events struct {
	// PartialEvery is how long new text is collected before it is sent. Default: the
	// app's setting, which is 500ms if absent.
	PartialEvery parley.Duration `yaml:"partial_every"`
}

// Claude is the Claude CLI, for the runtime claude. It is not part of Parley: whoever runs the server
// installs it.
type Claude struct {
	// Path is the executable. Default: claude in the folders of $PATH, else the one below
	// NodeModules.
	Path string `yaml:"path,ref"`
	// NodeModules is a node_modules folder in which npm has installed the package of this
	// platform, such as @anthropic-ai/claude-code-linux-x64. Default: none.
	NodeModules string `yaml:"node_modules,ref"`
	// Processes is how many run at once. Each serves one session and takes about 250 MB. Default 8.
	Processes int `yaml:"processes"`
	// Idle is how long a process waits for the next turn of its session. Default 5m.
	Idle parley.Duration `yaml:"idle"`
	// Wait is how long a turn waits when all processes are busy. Default 1m.
	Wait parley.Duration `yaml:"wait"`
	// Shell is whose Bash the CLI's model uses: app, that of the app, which is confined; or cli,
	// the CLI's own, which has the rights of the server. Default app.
	Shell string `yaml:"shell"`
	// Memory is how much memory each process, and each program that it starts, may allocate.
	// Default 4GiB; 0 is no limit.
	Memory Size `yaml:"memory"`
}

// Bashing is about the commands of apps with tools.bash.
type Bashing struct {
	// Unconfined runs commands without a sandbox, with all that the server may do: for a server
	// that is itself in a container of its own. Default: false, and where commands cannot be
	// confined apps do without them.
	Unconfined bool `yaml:"unconfined"`
}

// AppSettings change one app.
type AppSettings struct {
	// Data replaces the app's data folder. PARLEY_<APP>_DATA does the same and takes
	// precedence.
	Data string `yaml:"data,ref"`
	// Model replaces the app's model; it wins over Settings.Model.
	Model string `yaml:"model,ref"`
	// Runtime replaces what carries out the app's turns: loop or claude. Default: what the app
	// says.
	Runtime string `yaml:"runtime"`
	// URL and Token are those of the service that the app's tools use, such as a Home
	// Assistant. Default: what the app says, or else the service's own variables
	// (HOME_ASSISTANT_URL and HOME_ASSISTANT_TOKEN).
	URL   string `yaml:"url,ref"`
	Token string `yaml:"token,ref"`
	// IdentityURL is where the app's API says whose token it is, and Private are addresses of
	// private networks in which the API may be, both for tools.rest. Default: what the app says.
	IdentityURL string   `yaml:"identity_url,ref"`
	Private     []string `yaml:"private"`
	// AllowActuation lets tools act on the physical world, and
	// AllowlistedServices names what they may do there, such as switch.turn_off or
	// light.*. Default: what the app says, which is false for those that come with
	// Parley.
	AllowActuation      *bool    `yaml:"allow_actuation"`
	AllowlistedServices []string `yaml:"allowlisted_services"`
	// Modes are the permission modes that callers may choose, besides default: of
	// acceptEdits, plan and bypassPermissions. Default: what the app says, or else
	// all but bypassPermissions.
	Modes []parley.PermissionMode `yaml:"modes"`
	// LiveFiles keeps the app's sessions as files too, in the folders sessions,
	// artifacts and index of the data folder. Default: what the app says, which is
	// true for home.
	LiveFiles *bool `yaml:"live_files"`
	// WebAllow are hosts that the app's WebFetch may reach although they are not public, in
	// addition to those that the app allows: docs.intern, or 127.0.0.1:8080 at that port alone.
	// Default: none.
	WebAllow []string `yaml:"web_allow"`
	// Granted replaces what the app says under workspaces.granted: dir is the folder of the
	// workspaces, such as ~/notes, and to names the users of each.
	Granted GrantedFile `yaml:"granted"`
}

// Size is a number of bytes that reads as 4096, 256KiB or 1MiB.
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(b []byte) error {
	text, unit := strings.ReplaceAll(string(b), " ", ""), int64(1)
	for suffix, n := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if t, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = t, n
		}
	}
	n, err := strconv.ParseInt(text, 10, 40)
	if err != nil || n < 0 {
		return parley.Errorf(parley.CodeInvalid, "%q is not a size", b).WithHint("write it like 4096, 256KiB or 1MiB")
	}
	*s = Size(n * unit)
	return nil
}

// From says where settings are read from.
type From struct {
	// File is the settings file, which then must exist. Empty: parley.yaml in the working
	// folder, if there is one.
	File string
	// Flags are the values from the command line, by the setting's path ("log.level").
	Flags map[string]string
	// Env looks up a variable. nil: os.LookupEnv.
	Env func(string) (string, bool)
	// Addon is the file with an add-on's options, AddonOptions in a real one. It selects
	// the defaults of an add-on, and its options win over the settings file. Empty: this
	// is no add-on.
	Addon string
}

func defaults(env func(string) (string, bool)) Settings {
	return Settings{
		Addr:      "127.0.0.1:8000",
		Data:      dataFolder(env),
		Store:     "sqlite",
		Log:       Log{Level: "info", Format: "text"},
		Limits:    Limits{MaxBody: 1 << 20, MaxMessage: parley.MaxMessage, MaxStreams: 1000, MaxConnectionsPerAddress: 256, MinUploadRate: 4 << 10, SessionsPerUser: 10_000, BytesPerUser: 4 << 30, Patience: 300e9},
		Scripted:  Scripted{Pace: 25e6},
		Auth:      Auth{Supervisor: "172.30.32.2"},
		Schedules: Schedules{PerUser: 50, Shortest: 300e9},
		Claude:    Claude{Shell: "app", Processes: 8, Idle: 300e9, Wait: 60e9, Memory: 4 << 30},
		env:       env,
	}
}

// Load reads the settings. The error names every mistake.
func Load(from From) (Settings, error) {
	env := from.Env
	if env == nil {
		env = os.LookupEnv
	}
	s := defaults(env)
	if from.Addon != "" {
		s.addon()
	}
	name, must := from.File, from.File != ""
	if !must {
		name = File
	}
	d := &decoder{file: name, env: env, lines: map[string]int{}}
	raw, err := os.ReadFile(name) //nolint:gosec // the owner names it
	switch {
	case err == nil:
		d.parse(raw, &s)
		s.rebase(filepath.Dir(name))
	case must || !errors.Is(err, fs.ErrNotExist):
		return s, parley.Errorf(parley.CodeInvalid, "read settings: %w", err)
	}
	o := &overrides{d: d, s: &s, from: map[string]string{}}
	options := &decoder{file: from.Addon, env: env, lines: map[string]int{}}
	if from.Addon != "" {
		for _, path := range s.addonOptions(options) {
			o.from[path] = from.Addon
		}
	}
	for _, path := range paths(reflect.TypeFor[Settings](), "") {
		if v, ok := env(Variable(path)); ok && v != "" {
			o.set(path, v, Variable(path))
		}
	}
	for path, v := range from.Flags {
		o.set(path, v, "--"+strings.ReplaceAll(path, "_", "-"))
	}
	if v, ok := env("PARLEY_API_KEYS"); ok && v != "" {
		o.apiKeys(v)
	}
	maps.Copy(o.from, s.Models.complete(s.env))
	o.check()
	errs := []error{d.err(), options.err()}
	slices.Sort(o.wrong)
	for _, w := range o.wrong {
		errs = append(errs, errors.New(w))
	}
	if err := errors.Join(errs...); err != nil {
		return s, parley.Errorf(parley.CodeInvalid, "%w", err).WithHint("docs/settings.md describes every setting")
	}
	s.Data, s.Apps, s.WorkspacesDir, s.PlatformDir = home(s.Data, env), home(s.Apps, env), home(s.WorkspacesDir, env), home(s.PlatformDir, env)
	for name, a := range s.App {
		a.Data = home(a.Data, env)
		s.App[name] = a
	}
	return s, nil
}

// Env looks up a variable that is not a setting, in the environment that the settings came
// from.
func (s Settings) Env(name string) string {
	if s.env == nil {
		return ""
	}
	if v, ok := s.env(name); ok {
		return v
	}
	return ""
}

// Variable is the name of a setting's environment variable.
func Variable(path string) string {
	return "PARLEY_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}

// rebase makes relative paths in the settings file relative to its folder.
func (s *Settings) rebase(dir string) {
	fix := func(p string) string {
		if p == "" || filepath.IsAbs(p) || strings.HasPrefix(p, "~") {
			return p
		}
		return filepath.Join(dir, p)
	}
	s.Data, s.Apps, s.WorkspacesDir, s.PlatformDir = fix(s.Data), fix(s.Apps), fix(s.WorkspacesDir), fix(s.PlatformDir)
	s.Claude.NodeModules = fix(s.Claude.NodeModules)
	if strings.ContainsRune(s.Claude.Path, filepath.Separator) { // else it is a name, for $PATH
		s.Claude.Path = fix(s.Claude.Path)
	}
	for name, a := range s.App {
		a.Data = fix(a.Data)
		s.App[name] = a
	}
}

// paths lists the settings that a variable or flag may set.
func paths(t reflect.Type, prefix string) []string {
	var out []string
	for sf := range fields(t) {
		name, _ := keyOf(sf)
		switch {
		case name == "" || sf.Type.Kind() == reflect.Map:
		case sf.Type.Kind() == reflect.Struct:
			out = append(out, paths(sf.Type, join(prefix, name))...)
		default:
			out = append(out, join(prefix, name))
		}
	}
	return out
}

// dataFolder is the platform's folder for a user's data.
func dataFolder(env func(string) (string, bool)) string {
	if dir, _ := env("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "parley")
	}
	at, _ := env("HOME")
	switch runtime.GOOS {
	case "windows":
		if dir, _ := env("LOCALAPPDATA"); dir != "" {
			return filepath.Join(dir, "parley")
		}
		at, _ = env("USERPROFILE")
		if at == "" {
			return ""
		}
		return filepath.Join(at, "AppData", "Local", "parley")
	case "darwin", "ios":
		if at == "" {
			return ""
		}
		return filepath.Join(at, "Library", "Application Support", "parley")
	}
	if at == "" {
		return ""
	}
	return filepath.Join(at, ".local", "share", "parley")
}

// home replaces a leading ~ by the user's home folder.
func home(p string, env func(string) (string, bool)) string {
	rest, ok := strings.CutPrefix(p, "~")
	if !ok || rest != "" && rest[0] != '/' && rest[0] != filepath.Separator {
		return p
	}
	name := "HOME"
	if runtime.GOOS == "windows" {
		name = "USERPROFILE"
	}
	dir, _ := env(name)
	return filepath.Join(dir, rest)
}
