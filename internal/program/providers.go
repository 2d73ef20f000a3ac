package program

import (
	"context"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/catalog"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/model/anthropic"
	"github.com/parley-server/parley/internal/model/gemini"
	"github.com/parley-server/parley/internal/model/mistral"
	"github.com/parley-server/parley/internal/model/openai"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/seam"
)

// account is a configured provider.
type account interface {
	Model(info seam.ModelInfo) seam.Model
	// List asks what models the account has.
	List(ctx context.Context) ([]seam.ModelInfo, error)
}

// kinds of providers, by protocol.
var kinds = map[string]func(name string, p config.Provider, log *slog.Logger) (account, error){
	"anthropic": func(_ string, p config.Provider, log *slog.Logger) (account, error) {
		return anthropic.New(anthropic.Options{Key: p.Key, BaseURL: p.BaseURL, CacheHour: p.CacheHour, Logger: log})
	},
	"openai": func(name string, p config.Provider, log *slog.Logger) (account, error) {
		head := http.Header{}
		for k, v := range p.Headers {
			head.Set(k, v)
		}
		return openai.New(openai.Options{Name: name, Key: p.Key, BaseURL: p.BaseURL, Dialect: openai.Dialect(p.Dialect), Header: head, Logger: log})
	},
	"gemini": func(_ string, p config.Provider, log *slog.Logger) (account, error) {
		return gemini.New(gemini.Options{Key: p.Key, BaseURL: p.BaseURL, Logger: log})
	},
	"mistral": func(_ string, p config.Provider, log *slog.Logger) (account, error) {
		return mistral.New(mistral.Options{Key: p.Key, BaseURL: p.BaseURL, Logger: log})
	},
}

// hostedSuffix marks the models whose agents a provider keeps: its name with
// this, the app, and the provider's id of the model.
const hostedSuffix = "-agents"

// models are all that can be called, by name: scripted ones, those of the providers,
// whether the catalog knows them or not, and hosted agents. Safe for concurrent use once
// the plan is made.
type models struct {
	settings config.Models
	catalog  *catalog.Catalog
	accounts map[string]account
	fixed    map[string]seam.Model
	hosted   []*mistral.Hosted

	mu   sync.Mutex
	made map[string]seam.Model
}

// maxMade limits the models made for names that callers gave.
const maxMade = 1000

func newAnswerers(s config.Settings, log *slog.Logger) (*models, error) {
	m := &models{settings: s.Models, accounts: map[string]account{}, fixed: map[string]seam.Model{}, made: map[string]seam.Model{}}
	own := map[string]catalog.Entry{}
	for name, k := range s.Models.Known {
		own[name] = catalog.Entry{
			ContextTokens: k.ContextTokens, MaxOutputTokens: k.MaxOutputTokens, InputUSD: k.InputUSD, OutputUSD: k.OutputUSD,
			CacheReadUSD: k.CacheReadUSD, CacheWriteUSD: k.CacheWriteUSD, TokenBytes: k.TokenBytes,
			Images: k.Images, Files: k.Files, ServerTools: k.ServerTools,
		}
	}
	var err error
	if m.catalog, err = catalog.New(own); err != nil {
		return nil, err
	}
	for _, name := range names(s.Models.Providers) {
		p := s.Models.Providers[name]
		if m.accounts[name], err = kinds[p.Kind](name, p, log); err != nil {
			return nil, parley.Errorf(parley.CodeOf(err), "models.providers.%s: %w", name, err)
		}
	}
	return m, nil
}

// unaided are models that need no account, by prefix. Each function is called once, for
// all apps.
var unaided = map[string]func(s config.Settings, apps []*config.App) ([]seam.Model, error){
	"scripted": func(s config.Settings, apps []*config.App) ([]seam.Model, error) {
		var list []seam.Model
		for _, a := range apps {
			if a.Script == "" {
				continue
			}
			raw, err := fs.ReadFile(a.Files, a.Script)
			if err != nil {
				return nil, parley.Errorf(parley.CodeInvalid, "%s: %w", a.Where, err)
			}
			m, err := scripted.New("scripted/"+a.Name, raw, scripted.Options{Pace: time.Duration(s.Scripted.Pace)})
			if err != nil {
				return nil, err
			}
			list = append(list, m)
		}
		return list, nil
	},
}

// add adds the models that need no account.
func (m *models) add(s config.Settings, apps []*config.App) error {
	list, err := scripts(s, apps)
	m.put(list)
	return err
}

// scripts are the models of apps that need no account.
func scripts(s config.Settings, apps []*config.App) ([]seam.Model, error) {
	var all []seam.Model
	for _, name := range names(unaided) {
		list, err := unaided[name](s, apps)
		if err != nil {
			return all, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// put adds models, in the place of those of their names.
func (m *models) put(list []seam.Model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range list {
		m.fixed[f.Info().Name] = f
	}
}

// listWithin limits how long a start waits for a local server to list its models.
const listWithin = 5 * time.Second

// defaultModel is the model of apps that name none: that of the first configured
// provider, or "". hosted is the same for apps that ask for hosted agents; its name
// contains {app}.
func (m *models) defaultModel() (name, hosted string, err error) {
	id, err := m.defaultID()
	if err != nil || id == "" {
		return "", "", err
	}
	account := m.settings.First()
	p := m.settings.Providers[account]
	name, hosted = account+"/"+id, account+hostedSuffix+"/{app}/"+id
	switch {
	case p.Kind != "mistral", p.Hosted != nil && !*p.Hosted:
		return name, "", nil
	case p.Hosted != nil:
		return hosted, hosted, nil
	}
	return name, hosted, nil
}

// defaultID is the first provider's name for that model.
func (m *models) defaultID() (string, error) {
	name := m.settings.First()
	if name == "" {
		return "", nil
	}
	p := m.settings.Providers[name]
	id := p.Model
	if id == "" && m.official(name) {
		id = m.catalog.Default(p.Kind)
	}
	if id == "" {
		ctx, cancel := context.WithTimeout(context.Background(), listWithin)
		defer cancel()
		list, err := m.accounts[name].List(ctx)
		if err != nil || len(list) == 0 {
			e := parley.Errorf(parley.CodeUnavailable, "the provider %s is configured, but no model is named", name).
				WithHint("name one with PARLEY_MODEL=%s/..., or with models.providers.%s.model; its list of models could not be read", name, name)
			e.Err = err
			return "", e
		}
		_, id, _ = strings.Cut(list[0].Name, "/")
	}
	return id, nil
}

// official reports whether a provider is the one whose models and prices are built in,
// possibly behind a gateway, and not another server with the same protocol.
func (m *models) official(name string) bool {
	p := m.settings.Providers[name]
	return name == p.Kind && (p.Kind != "openai" || p.BaseURL == "" || strings.HasPrefix(p.BaseURL, "https://api.openai.com/"))
}

func (m *models) info(provider, id string) seam.ModelInfo {
	p := m.settings.Providers[provider]
	info := m.catalog.Info(provider, p.Kind, m.tagged(provider, id), m.official(provider))
	info.FirstTokenMS = m.firstToken(p, info.Name).Milliseconds()
	info.Name = provider + "/" + id
	if p.CacheHour && m.settings.Known[info.Name].CacheWriteUSD == nil {
		info.CacheWriteUSD = hourWrite * info.InputUSD
	}
	return info
}

// tagged is how the settings name a model of a local server: for Ollama qwen3 and
// qwen3:latest are the same.
func (m *models) tagged(provider, id string) string {
	if m.official(provider) || m.settings.Providers[provider].Kind != "openai" {
		return id
	}
	other, has := strings.CutSuffix(id, latest)
	if !has {
		other = id + latest
	}
	_, own := m.settings.Known[provider+"/"+id]
	if _, known := m.settings.Known[provider+"/"+other]; known && !own {
		return other
	}
	return id
}

// nearFirst is how long a local server may take to begin: loading a large model from disk
// takes minutes.
const nearFirst = 5 * time.Minute

// firstToken is how long a model may take to begin; 0: the default.
func (m *models) firstToken(p config.Provider, model string) time.Duration {
	switch own := m.settings.Known[model].FirstToken; {
	case own != nil:
		return time.Duration(*own)
	case p.FirstToken > 0:
		return time.Duration(p.FirstToken)
	case openai.Near(p.BaseURL) || p.Kind == "openai" && p.BaseURL == "" && openai.Near(openai.BaseURL(openai.Dialect(p.Dialect))):
		return nearFirst
	}
	return 0
}

// hourWrite is Anthropic's price for caching for an hour, as a multiple of the input
// price; the built-in price is for five minutes. The end of a prompt is still cached for
// five minutes, so a cost may be estimated too high, but never too low.
const hourWrite = 2

// Model implements seam.Models.
func (m *models) Model(name string) (seam.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.fixed[name]; ok {
		return f, nil
	}
	if f, ok := m.made[name]; ok {
		return f, nil
	}
	provider, id, _ := strings.Cut(name, "/")
	a, ok := m.accounts[provider]
	if !ok || id == "" || len(name) > 200 || strings.ContainsFunc(name, unicode.IsControl) {
		return nil, parley.Errorf(parley.CodeInvalid, "there is no model %q", parley.Cut(name, 200)).WithField("model").WithHint("%s", m.hint())
	}
	if len(m.made) >= maxMade {
		clear(m.made)
	}
	f := m.paced(a.Model(m.info(provider, id)))
	m.made[name] = f
	return f, nil
}

func (m *models) hint() string {
	here := m.names()
	for _, name := range names(m.accounts) {
		here = append(here, name+"/...")
	}
	if len(here) == 0 {
		return "no provider is set up; the variables of the providers' keys are in the README"
	}
	return "models here: " + strings.Join(here, ", ")
}

// Names implements seam.Models: the models known in advance.
func (m *models) Names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names()
}

func (m *models) names() []string {
	list := names(m.fixed)
	for name := range m.accounts {
		p := m.settings.Providers[name]
		if m.official(name) {
			for _, id := range m.catalog.Names(p.Kind) {
				list = append(list, name+"/"+id)
			}
		}
		if p.Model != "" {
			list = append(list, name+"/"+p.Model)
		}
	}
	for _, name := range m.catalog.Own() {
		if provider, _, _ := strings.Cut(name, "/"); m.accounts[provider] != nil {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// host makes the hosted agents of an app, if its model asks for them.
func (m *models) host(app *parley.App, dir string, there func() error) error {
	for _, name := range append(agentModels(*app), app.Model) {
		provider, rest, _ := strings.Cut(name, "/")
		provider, hosted := strings.CutSuffix(provider, hostedSuffix)
		at, id, ok := strings.Cut(rest, "/")
		account, able := m.accounts[provider].(*mistral.Client)
		if !hosted || !able || m.fixed[name] != nil {
			continue
		}
		if !ok || at != app.Name {
			return parley.Errorf(parley.CodeInvalid, "app %s: %q names the hosted agents of another app", app.Name, name).
				WithHint("write it like %s%s/%s/mistral-medium-latest", provider, hostedSuffix, app.Name)
		}
		info := m.info(provider, id)
		info.Name = name
		h, err := account.Hosted(info, mistral.HostedOptions{App: app, Model: id, Dir: dir, There: there})
		if err != nil {
			return err
		}
		m.fixed[name] = m.paced(h)
		m.hosted = append(m.hosted, h)
	}
	return nil
}

// has reports a model that an app names but no provider has.
func (m *models) has(a parley.App) error {
	for _, name := range append(append([]string{a.Model}, agentModels(a)...), fallbacks(a)...) {
		if name == "" {
			continue
		}
		if _, err := m.Model(name); err != nil {
			return parley.Errorf(parley.CodeInvalid, "app %s: %w", a.Name, err).WithHint("%s", m.hint())
		}
	}
	return nil
}

func agentModels(a parley.App) []string {
	var list []string
	for _, d := range a.Agents {
		if d.Model != "" {
			list = append(list, d.Model)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func fallbacks(a parley.App) []string {
	list := slices.Clone(a.Fallbacks)
	for _, d := range a.Agents {
		list = append(list, d.Fallbacks...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// paced limits how often a model is called, if the settings say so. A call too many is
// refused like by its provider, so the turn waits or uses another model.
func (m *models) paced(f seam.Model) seam.Model {
	n := m.settings.CallsPerMinute[f.Info().Name]
	if n <= 0 {
		return f
	}
	p := pacedModel{f, rate.NewLimiter(rate.Every(time.Minute/time.Duration(n)), n), n}
	if f, ok := f.(seam.Passer); ok {
		return pacedPasser{p, f}
	}
	return p
}

// pacedPasser is a pacedModel that can also pass requests on.
type pacedPasser struct {
	pacedModel
	passer seam.Passer
}

// Pass implements seam.Passer.
func (p pacedPasser) Pass(ctx context.Context, body []byte, beta []string) (*http.Response, error) {
	if err := p.full(p.Info().Name); err != nil {
		return nil, err
	}
	return p.passer.Pass(ctx, body, beta)
}

type pacedModel struct {
	seam.Model
	limit *rate.Limiter
	n     int
}

// Stream implements seam.Model.
func (p pacedModel) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	if err := p.full(r.Model); err != nil {
		return func(yield func(seam.ModelDelta, error) bool) { yield(seam.ModelDelta{}, err) }
	}
	return p.Model.Stream(ctx, r)
}

// full counts a call, and refuses it if there are too many.
func (p pacedModel) full(model string) error {
	now := time.Now()
	turn := p.limit.ReserveN(now, 1)
	if wait := turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
		return parley.Errorf(parley.CodeRateLimited, "%s is called more than %d times a minute, which is this server's limit", model, p.n).
			WithHint("try again in a moment").WithRetry(wait)
	}
	return nil
}

// CountTokens implements seam.TokenCounter if the model does; counting is not a call. 0
// means that it cannot count.
func (p pacedModel) CountTokens(ctx context.Context, r seam.Request) (int64, error) {
	if c, ok := p.Model.(seam.TokenCounter); ok {
		return c.CountTokens(ctx, r)
	}
	return 0, nil
}

// of is the model itself, for uses other than streaming.
func of(f seam.Model) seam.Model {
	switch p := f.(type) {
	case pacedModel:
		return p.Model
	case pacedPasser:
		return p.Model
	}
	return f
}

// prepare makes the hosted agents at their providers. Failures are retried when an agent
// is needed.
func (m *models) prepare(ctx context.Context, log *slog.Logger) {
	for _, h := range m.hosted {
		if err := h.Prepare(ctx); err != nil && ctx.Err() == nil {
			log.Warn("hosted agents could not be prepared", "model", h.Info().Name, "err", err, "hint", parley.Info(err).Hint)
		}
	}
}

// askWithin limits how long a provider may take to say whether it would answer.
const askWithin = 8 * time.Second

// ask asks all providers at once for their models.
func (m *models) ask(ctx context.Context) []api.ProviderInfo {
	all := make([]api.ProviderInfo, len(m.accounts))
	var wg sync.WaitGroup
	for i, name := range names(m.accounts) {
		wg.Go(func() { all[i] = m.askOne(ctx, name) })
	}
	wg.Wait()
	return all
}

// measure asks a provider how many tokens the models in use accept.
func (m *models) measure(ctx context.Context, provider string) {
	m.mu.Lock()
	list := slices.Collect(maps.Values(m.made))
	m.mu.Unlock()
	for _, f := range list {
		if at, _, _ := strings.Cut(f.Info().Name, "/"); at != provider {
			continue
		}
		if f, ok := of(f).(seam.Measurer); ok {
			_ = f.Measure(ctx) // on failure the old value stays
		}
	}
}

func (m *models) askOne(ctx context.Context, name string) api.ProviderInfo {
	in := api.ProviderInfo{Name: name, Kind: m.settings.Providers[name].Kind, Models: []seam.ModelInfo{}}
	ctx, cancel := context.WithTimeoutCause(ctx, askWithin, parley.Errorf(parley.CodeTimeout, "%s did not answer within %s", name, askWithin).
		WithHint("check the network, the proxy, and the base URL in the settings"))
	defer cancel()
	began := time.Now()
	list, err := m.accounts[name].List(ctx)
	in.TookMS = time.Since(began).Milliseconds()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		info := parley.Info(err)
		in.Error = &info
		return in
	}
	in.OK = true
	m.measure(ctx, name)
	for _, l := range list[:min(len(list), maxMade)] {
		_, id, _ := strings.Cut(l.Name, "/")
		known := m.info(name, id)
		if l.ContextTokens > 0 {
			known.ContextTokens = l.ContextTokens
		}
		if l.MaxOutputTokens > 0 {
			known.MaxOutputTokens = l.MaxOutputTokens
		}
		in.Models = append(in.Models, known)
	}
	return in
}
