package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/seam"
)

// AppInfo is an app as clients may see it: no prompts, no policy.
type AppInfo struct {
	Name        string         `json:"name"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	Entry       string         `json:"entry"`
	Agents      []AppAgent     `json:"agents" nullable:"false"`
	Tools       []AppTool      `json:"tools" nullable:"false"`
	Model       seam.ModelInfo `json:"model"`
	Budgets     parley.Budgets `json:"budgets"`
	Examples    []string       `json:"examples" nullable:"false"`
	FollowUps   []string       `json:"follow_ups" nullable:"false"`
	Wires       []string       `json:"wires" nullable:"false"`
	Modes       []string       `json:"modes" nullable:"false" doc:"The permission modes that a session of the app may have."`
	Mode        string         `json:"mode" doc:"The permission mode of sessions that name none."`
	FixedModel  bool           `json:"fixed_model" doc:"Callers cannot choose a model."`
	Runtime     string         `json:"runtime" doc:"What carries out its turns, unless a session chooses another: loop or claude."`
	Runtimes    []string       `json:"runtimes" nullable:"false" doc:"What sessions may choose besides."`
	// RuntimesMissing are those that cannot carry out turns now.
	RuntimesMissing map[string]string `json:"runtimes_missing,omitempty" doc:"Of these, which cannot carry out turns now, and why, such as that a program is not installed."`
	Page            AppPage           `json:"page"`
	Notices         []string          `json:"notices" nullable:"false" doc:"What a page should show, such as that the model is a demo or that no login is asked for."`
}

// AppPage is how an app looks on its page, which is at /apps/{name}/.
type AppPage struct {
	Accent string `json:"accent,omitempty" doc:"A colour, such as #1f6feb."`
	Logo   bool   `json:"logo" doc:"There is a picture at /apps/{name}/logo."`
	URL    string `json:"url,omitempty" doc:"Where the app's own page is, if the app brings one."`
	// Approvals tells the page whether to ask for approvals.
	Approvals bool `json:"approvals" doc:"Files of its users and workspaces may name programs and URLs, which are used after a person has approved them."`
}

// AppAgent is one agent of an app.
type AppAgent struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Model       string   `json:"model,omitempty"`
	Tools       []string `json:"tools" nullable:"false"`
	Handoffs    []string `json:"handoffs" nullable:"false"`
}

// AppTool is one tool of an app.
type AppTool struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Effect      parley.Effect `json:"effect"`
	Edits       bool          `json:"edits" doc:"It changes only files of the session's workspace, and is not asked about in the mode acceptEdits."`
}

// AppParam is exported for the same reason as SessionParam.
type AppParam struct {
	App string `path:"app" maxLength:"64" doc:"The app's name."`
}

type appList struct {
	Apps []AppInfo `json:"apps" nullable:"false"`
}

type modelList struct {
	Models []seam.ModelInfo `json:"models" nullable:"false"`
}

// ProviderInfo is what a model provider just answered.
type ProviderInfo struct {
	Name   string            `json:"name"`
	Kind   string            `json:"kind" doc:"How it speaks: anthropic, openai, gemini or mistral."`
	OK     bool              `json:"ok" doc:"It was reached, and takes the key."`
	Error  *parley.ErrorInfo `json:"error,omitempty"`
	TookMS int64             `json:"took_ms"`
	Models []seam.ModelInfo  `json:"models" nullable:"false" doc:"The models that the account has."`
}

type providerList struct {
	Providers []ProviderInfo `json:"providers" nullable:"false"`
}

type serverInfo struct {
	Version string   `json:"version"`
	Notices []string `json:"notices" nullable:"false"`
	Off     []AppOff `json:"off" nullable:"false" doc:"Apps that this server knows and does not serve."`

	Killable bool `json:"killable,omitempty" doc:"The server is a demo on this machine. Its page may kill it, and it restarts automatically."`
}

// AppOff is an app that is not served.
type AppOff struct {
	App string `json:"app"`
	Why string `json:"why"`
}

type health struct {
	Status string `json:"status"`
}

func (s *Server) serverRoutes() {
	e := s.o.Engine
	tags := []string{"server"}
	route(s, huma.Operation{
		OperationID: "list-apps", Method: http.MethodGet, Path: "/v1/apps", Tags: tags, Summary: "List the apps that are switched on",
		Description: "Apps that are off or could not be started are not included.",
	}, func(_ context.Context, _ parley.Principal, _ *struct{}) (*body[appList], error) {
		out := appList{Apps: []AppInfo{}}
		for _, a := range e.Apps() {
			out.Apps = append(out.Apps, s.appInfo(a))
		}
		return ok(out, nil)
	})
	route(s, huma.Operation{
		OperationID: "get-app", Method: http.MethodGet, Path: "/v1/apps/{app}", Tags: tags, Summary: "Read an app",
		Description: "Its agents and tools by name, its model, budgets and examples. Prompts and policy are not shown.",
	}, func(_ context.Context, _ parley.Principal, in *AppParam) (*body[AppInfo], error) {
		a, err := e.App(in.App)
		if err != nil {
			return nil, err
		}
		return ok(s.appInfo(a), nil)
	})
	route(s, huma.Operation{
		OperationID: "list-app-commands", Method: http.MethodGet, Path: "/v1/apps/{app}/commands", Tags: tags, Summary: "List the slash commands of a new session of an app",
		Description: "Those that a session would have if it were created now in the workspace. No session is made.",
	}, func(ctx context.Context, p parley.Principal, in *struct {
		AppParam
		Workspace parley.Workspace `query:"workspace" maxLength:"80" doc:"The workspace; that of new sessions when not given."`
	},
	) (*body[commandList], error) {
		list, err := e.AppCommands(ctx, p, in.App, in.Workspace)
		return ok(commandList{some(list)}, err)
	})
	route(s, huma.Operation{
		OperationID: "list-app-resources", Method: http.MethodGet, Path: "/v1/apps/{app}/resources", Tags: tags, Summary: "List what messages of a new session of an app may have attached",
		Description: "Those that a session would have if it were created now without naming a workspace. No session is made. Servers are started for the list.",
	}, func(ctx context.Context, p parley.Principal, in *appResourcesInput) (*body[parley.ResourceList], error) {
		return listResources(in.ResourcePage, func(after parley.ResourceRef, limit int) (parley.ResourceList, parley.ResourceRef, error) {
			return e.AppResources(ctx, p, in.App, after, limit)
		})
	})
	route(s, huma.Operation{
		OperationID: "list-models", Method: http.MethodGet, Path: "/v1/models", Tags: tags, Summary: "List the models that are set up",
		Description: "The models of the settings and of the apps, each with its context, its price and its abilities, as far as known.",
	}, func(context.Context, parley.Principal, *struct{}) (*body[modelList], error) {
		return ok(modelList{some(e.Models())}, nil)
	})
	if s.o.Providers != nil {
		route(s, huma.Operation{
			OperationID: "list-providers", Method: http.MethodGet, Path: "/v1/providers", Tags: tags, Summary: "Ask the model providers whether they would answer",
			Description: "Each is asked for its list of models, which costs nothing, and has a few seconds to answer.",
		}, func(ctx context.Context, _ parley.Principal, _ *struct{}) (*body[providerList], error) {
			return ok(providerList{some(s.o.Providers(ctx))}, nil)
		})
	}
	route(s, huma.Operation{
		OperationID: "get-usage", Method: http.MethodGet, Path: "/v1/usage", Tags: tags, Summary: "What your model calls cost, by day and model",
		Description: "Days are in UTC. Until a call has ended, the most it may cost is counted.",
	}, func(ctx context.Context, p parley.Principal, in *struct {
		From string `query:"from" format:"date" doc:"The first day, such as 2026-11-01. Default: today."`
		To   string `query:"to" format:"date" doc:"The last day. Default: today."`
	},
	) (*body[engine.UserUsage], error) {
		return ok(e.Usage(ctx, p, in.From, in.To))
	})
	route(s, huma.Operation{
		OperationID: "get-server", Method: http.MethodGet, Path: "/v1/server", Tags: tags, Summary: "What this server is",
		Description: "Its version, and notices that every client should show.",
	}, func(context.Context, parley.Principal, *struct{}) (*body[serverInfo], error) {
		info := serverInfo{Version: s.o.Version, Notices: some(s.o.Notices), Off: []AppOff{}, Killable: s.o.Kill != nil}
		for _, name := range slices.Sorted(maps.Keys(s.o.Off)) {
			info.Off = append(info.Off, AppOff{name, s.o.Off[name]})
		}
		wrong := s.mistakes()
		for _, name := range slices.Sorted(maps.Keys(wrong)) {
			if _, err := e.App(name); err != nil {
				info.Off = append(info.Off, AppOff{name, strings.Join(wrong[name], "; ")})
			}
		}
		return ok(info, nil)
	})
	if s.o.Kill != nil {
		route(s, huma.Operation{
			OperationID: "kill-server", Method: http.MethodPost, Path: "/v1/server/kill", Tags: tags, Summary: "Kill this demo server, to see how its turns recover",
			Description: "The process ends without warning, as in a power cut, and starts again. Only a demo that listens on this machine alone has this operation.",
			Responses:   map[string]*huma.Response{"202": {Description: "The process ends now"}},
		}, func(_ context.Context, _ parley.Principal, _ *struct{ Body struct{} }) (*huma.StreamResponse, error) {
			return &huma.StreamResponse{Body: func(hc huma.Context) {
				_, w := humago.Unwrap(hc)
				w.Header().Set("Content-Length", "0")
				w.WriteHeader(http.StatusAccepted)
				_ = http.NewResponseController(w).Flush() // a client that misses the answer sees the connection break
				s.o.Kill()
			}}, nil
		})
	}
	// Health checks have no identity, so they bypass route.
	alive := huma.Operation{
		OperationID: "healthz", Method: http.MethodGet, Path: "/healthz", Tags: tags, Summary: "Is the process alive",
		Description: "Answers as long as the process runs. It checks nothing else.",
	}
	s.declareHealth(&alive)
	huma.Register(s.huma, alive, func(context.Context, *struct{}) (*body[health], error) { return ok(health{"ok"}, nil) })
	ready := huma.Operation{
		OperationID: "readyz", Method: http.MethodGet, Path: "/readyz", Tags: tags, Summary: "Would a command be accepted now",
		Description: "Answers 503 while the store is unavailable or full, and while the server is shutting down.",
	}
	s.declareHealth(&ready)
	huma.Register(s.huma, ready, func(ctx context.Context, _ *struct{}) (*body[health], error) {
		if err := e.Ready(ctx); err != nil {
			return nil, s.fail(ctx, ready, err)
		}
		return ok(health{"ok"}, nil)
	})
	if s.o.Metrics != nil {
		s.mux.Handle("GET /metrics", s.o.Metrics)
	}
}

func (s *Server) mistakes() map[string][]string {
	if s.o.Mistakes == nil {
		return nil
	}
	return s.o.Mistakes()
}

func (s *Server) appInfo(a parley.App) AppInfo {
	info := AppInfo{
		Name: a.Name, Title: a.Title, Description: a.Description, Entry: a.Entry, Budgets: a.Budgets,
		Agents: []AppAgent{}, Tools: []AppTool{}, Examples: some(a.Examples), FollowUps: some(a.FollowUps), Wires: some(a.Wires), Notices: some(slices.Clone(s.o.Notices)),
		Mode: cmp.Or(string(a.Mode), string(parley.ModeDefault)), FixedModel: a.Policy.FixedModel, Runtime: a.Runtime, Runtimes: some(a.Runtimes),
	}
	if s.o.Page != nil {
		info.Page = s.o.Page(a.Name)
	}
	if s.o.Missing != nil {
		for _, name := range append([]string{a.Runtime}, a.Runtimes...) {
			if err := s.o.Missing(name); err != nil {
				if info.RuntimesMissing == nil {
					info.RuntimesMissing = map[string]string{}
				}
				info.RuntimesMissing[name] = parley.Info(err).Message
			}
		}
	}
	for _, m := range []parley.PermissionMode{parley.ModeDefault, parley.ModeAcceptEdits, parley.ModePlan, parley.ModeBypassPermissions} {
		if a.Policy.Offers(m) {
			info.Modes = append(info.Modes, string(m))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Agents)) {
		d := a.Agents[name]
		info.Agents = append(info.Agents, AppAgent{
			Name: name, Description: d.Description, Model: d.Model, Tools: some(d.Tools), Handoffs: some(d.Handoffs),
		})
	}
	for _, t := range a.Tools {
		effect := t.Effect
		if effect == "" {
			effect = parley.EffectWrite
		}
		info.Tools = append(info.Tools, AppTool{Name: t.Name, Description: t.Description, Effect: effect, Edits: t.Edits})
	}
	if wrong := s.mistakes()[a.Name]; len(wrong) > 0 {
		info.Notices = append(info.Notices, "This app has mistakes, so its last correct version is served: "+strings.Join(wrong, "; "))
	}
	if s.o.Outages != nil {
		for _, text := range s.o.Outages()[a.Name] {
			info.Notices = append(info.Notices, "Some tools of this app are missing for now: "+text)
		}
	}
	if s.o.AppNotices != nil {
		info.Notices = append(info.Notices, s.o.AppNotices(a.Name)...)
	}
	m, err := s.o.Engine.Model(a.Model)
	if err != nil {
		m = seam.ModelInfo{Name: a.Model}
		info.Notices = append(info.Notices, "The model "+a.Model+" of this app is not set up: "+err.Error())
	}
	if info.Model = m; m.Scripted {
		info.Notices = append(info.Notices, "Demo: a script answers, not a language model.")
	}
	return info
}
