package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/seam"
)

// Who searches.
const (
	Brave   = "brave"
	Tavily  = "tavily"
	SearXNG = "searxng"
	ByModel = "model" // the model's provider, with its own tool, where the model has it
	Nobody  = "none"
)

// Providers are all values of [SearchOptions.Provider] but the empty one.
var Providers = []string{Brave, Tavily, SearXNG, ByModel, Nobody}

// SearchOptions say who searches.
type SearchOptions struct {
	Provider string // one of Providers; empty: nobody
	Key      string // of Brave or Tavily
	URL      string // of a SearXNG, or where Brave or Tavily are; default: their own addresses
}

const (
	maxHits    = 10
	maxSnippet = 600
	maxAnswer  = 4 << 20 // bytes of a search service's answer
	searchTime = 20 * time.Second
)

// query is what a model searches for.
type query struct {
	Text    string   `json:"query"`
	Allowed []string `json:"allowed_domains"`
	Blocked []string `json:"blocked_domains"`
}

// hit is a page that was found.
type hit struct {
	Title, URL, Text, Date string
}

// engine is a search service.
type engine interface {
	find(ctx context.Context, q query) ([]hit, error)
}

// service is the part that all engines share.
type service struct {
	name   string // for people
	base   string
	key    string
	client *http.Client
}

func (s service) close() { s.client.CloseIdleConnections() }

// engine returns the search service, or nil if there is none.
func (o SearchOptions) engine() (engine, error) {
	wrong := func(field, format string, args ...any) error {
		return parley.Errorf(parley.CodeInvalid, format, args...).WithField("search." + field)
	}
	s := service{key: o.Key}
	switch o.Provider {
	case Brave:
		s.name, s.base = "Brave", cmp.Or(o.URL, "https://api.search.brave.com")
	case Tavily:
		s.name, s.base = "Tavily", cmp.Or(o.URL, "https://api.tavily.com")
	case SearXNG:
		if s.name, s.base = "SearXNG", o.URL; s.base == "" {
			return nil, wrong("url", "searxng has no url; write the address of your SearXNG, or set SEARXNG_URL")
		}
	case "", ByModel, Nobody:
		return nil, nil //nolint:nilnil // nothing is wrong
	default:
		return nil, wrong("provider", "%q is not one of %s", parley.Cut(o.Provider, 40), strings.Join(Providers, ", "))
	}
	if o.Provider != SearXNG && o.Key == "" {
		return nil, wrong("key", "%s needs a key; write key, or set %s_API_KEY", o.Provider, strings.ToUpper(o.Provider))
	}
	u, err := url.Parse(s.base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, wrong("url", "%q is not the address of a search service, such as https://search.example.com", parley.Cut(s.base, 100))
	}
	ip := net.ParseIP(u.Hostname())
	if s.key != "" && u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, wrong("url", "is http, which would show the key to everybody in between; write https")
	}
	s.base = strings.TrimSuffix(s.base, "/")
	// The operator names this host, so it may be in a private network.
	guard, err := dial.New([]string{u.Hostname()}, []string{u.Hostname()})
	if err != nil {
		return nil, wrong("url", "%s", err)
	}
	s.client = guard.Client(false)
	switch o.Provider {
	case Brave:
		return brave{s}, nil
	case Tavily:
		return tavily{s}, nil
	}
	return searxng{s}, nil
}

func (t *Toolset) search(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	var q query
	if err := json.Unmarshal(r.Input, &q); err != nil {
		return parley.ToolResult{}, parley.Errorf(parley.CodeInvalid, "the input is not as the schema says: %w", err)
	}
	if t.engine == nil {
		err := parley.Errorf(parley.CodeUnavailable, "this server has no web search").
			WithHint("tell the user so. Whoever runs the server can set BRAVE_API_KEY, TAVILY_API_KEY or SEARXNG_URL, or choose a model whose provider searches")
		if t.o.Search.Provider == Nobody {
			err = parley.Errorf(parley.CodeUnavailable, "web search is switched off in this app").WithHint("tell the user so")
		}
		return parley.ToolResult{}, err
	}
	q.Text = oneLine(q.Text)
	q.Allowed, q.Blocked = domains(q.Allowed), domains(q.Blocked)
	ctx, cancel := context.WithTimeoutCause(ctx, searchTime, parley.Errorf(parley.CodeTimeout, "the search service did not answer within %s", searchTime))
	defer cancel()
	found, err := t.engine.find(ctx, q)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return parley.ToolResult{}, err
	}
	found = slices.DeleteFunc(found, func(h hit) bool { return !wanted(q, h.URL) })
	head := fmt.Sprintf("Found on the web for %q at %s.", parley.Cut(q.Text, 200), t.o.Now().UTC().Format("2006-01-02 15:04:05 UTC"))
	if len(found) == 0 {
		return parley.ToolResult{Output: head + " Nothing was found."}, nil
	}
	var b strings.Builder
	for i, h := range found[:min(len(found), maxHits)] {
		fmt.Fprintf(&b, "%d. %s\n   %s\n", i+1, cmp.Or(words(h.Title, 200), "(no title)"), parley.Cut(clean(h.URL), 1000))
		if text := words(h.Text, maxSnippet); text != "" {
			b.WriteString("   " + text + "\n")
		}
		if h.Date != "" {
			b.WriteString("   " + words(h.Date, 40) + "\n")
		}
	}
	return parley.ToolResult{Output: fence(head, strings.TrimSuffix(b.String(), "\n"), "")}, nil
}

var tag = regexp.MustCompile(`</?[A-Za-z][^<>]{0,100}>`)

// words makes one line of plain text of what a search service says, which may have markup.
func words(text string, most int) string {
	return parley.Cut(oneLine(clean(html.UnescapeString(tag.ReplaceAllString(text, "")))), most)
}

// domains brings what models write as domains into one form.
func domains(list []string) (out []string) {
	for _, d := range list {
		d = strings.ToLower(strings.TrimSpace(d))
		if _, rest, ok := strings.Cut(d, "://"); ok {
			d = rest
		}
		d, _, _ = strings.Cut(d, "/")
		d = strings.Trim(strings.TrimPrefix(strings.TrimPrefix(d, "*."), "www."), ".")
		if d != "" && !strings.ContainsAny(d, " \t\n:()\"") {
			out = append(out, d)
		}
	}
	return out
}

// wanted reports whether a page is of a site that was asked for. Services may not keep to it.
func wanted(q query, page string) bool {
	u, err := url.Parse(page)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	of := func(domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }
	return (len(q.Allowed) == 0 || slices.ContainsFunc(q.Allowed, of)) && !slices.ContainsFunc(q.Blocked, of)
}

// operators adds the sites to the words that are searched for, as far as most bytes allow, for
// services that have no fields for them.
func (q query) operators(most int) string {
	text := q.Text
	var sites []string
	for _, d := range q.Allowed {
		sites = append(sites, "site:"+d)
	}
	add := " " + strings.Join(sites, " OR ")
	if len(sites) > 1 {
		add = " (" + strings.Join(sites, " OR ") + ")"
	}
	if len(sites) > 0 && len(text)+len(add) <= most {
		text += add
	}
	for _, d := range q.Blocked {
		if add := " -site:" + d; len(text)+len(add) <= most {
			text += add
		}
	}
	return text
}

// ask sends a request and reads the answer, which is JSON, into v.
func (s service) ask(ctx context.Context, method, path string, header http.Header, body, v any) error {
	var r io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, r)
	if err != nil {
		return err
	}
	req.Header = header
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "parley")
	resp, err := s.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the URL has the query
		}
		return parley.Errorf(parley.CodeUnavailable, "%s did not answer: %s", s.name, parley.Cut(err.Error(), 200)).WithHint("try again later")
	}
	defer resp.Body.Close()
	if err := s.refused(resp.StatusCode); err != nil {
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return parley.Errorf(parley.CodeUnavailable, "%s stopped in the middle of its answer: %s", s.name, parley.Cut(err.Error(), 200)).WithHint("try again later")
	case len(raw) > maxAnswer:
		return parley.Errorf(parley.CodeTooLarge, "%s answered with more than %d MiB", s.name, maxAnswer>>20)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return parley.Errorf(parley.CodeUnavailable, "%s answered with something that is not the JSON of search results", s.name)
	}
	return nil
}

// refused says what a status means. The text of the answer is not shown: it may be a stranger's.
func (s service) refused(status int) error {
	switch {
	case status == http.StatusOK:
		return nil
	case status == http.StatusForbidden && s.name == "SearXNG":
		return parley.Errorf(parley.CodeForbidden, "SearXNG refused the search (status 403)").WithHint("whoever runs it has to list json under search.formats in its settings.yml")
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return parley.Errorf(parley.CodeUnauthenticated, "%s refused the key (status %d)", s.name, status).WithHint("tell the user so: whoever runs the server has to set a valid key")
	case status == http.StatusUnprocessableEntity:
		return parley.Errorf(parley.CodeInvalid, "%s refused the search (status 422)", s.name).WithHint("search for fewer words; if that is refused too, the key may be invalid")
	case status == http.StatusPaymentRequired || status == 432 || status == 433: // the last two are Tavily's
		return parley.Errorf(parley.CodeRateLimited, "the plan at %s allows no more searches now (status %d)", s.name, status).WithHint("tell the user so")
	case status == http.StatusTooManyRequests:
		return parley.Errorf(parley.CodeRateLimited, "%s is asked too often (status 429)", s.name).WithHint("try again later")
	}
	return parley.Errorf(parley.CodeUnavailable, "%s answered with status %d", s.name, status).WithHint("try again later")
}

// brave is Brave Search. Source: https://api-dashboard.search.brave.com/api-reference/web/search/get
type brave struct{ service }

func (s brave) find(ctx context.Context, q query) ([]hit, error) {
	var answer struct {
		Web struct {
			Results []struct {
				Title, URL, Description string
				Age                     string `json:"page_age"`
			}
		}
	}
	// A query has at most 400 characters and 50 words.
	few := q
	few.Text = strings.Join(firstWords(q.Text, 40), " ")
	params := url.Values{"q": {parley.Cut(few.operators(400), 400)}, "count": {fmt.Sprint(2 * maxHits)}, "text_decorations": {"false"}}
	if err := s.ask(ctx, http.MethodGet, "/res/v1/web/search?"+params.Encode(), http.Header{"X-Subscription-Token": {s.key}}, nil, &answer); err != nil {
		return nil, err
	}
	var found []hit
	for _, r := range answer.Web.Results {
		found = append(found, hit{r.Title, r.URL, r.Description, r.Age})
	}
	return found, nil
}

func firstWords(text string, most int) []string {
	list := strings.Fields(text)
	return list[:min(len(list), most)]
}

// tavily is Tavily Search. Source: https://docs.tavily.com/api-reference/endpoint/search
type tavily struct{ service }

func (s tavily) find(ctx context.Context, q query) ([]hit, error) {
	var answer struct {
		Results []struct {
			Title, URL, Content string
			Date                string `json:"published_date"`
		}
	}
	body := map[string]any{"query": parley.Cut(q.Text, 400), "max_results": maxHits, "search_depth": "basic"}
	if len(q.Allowed) > 0 {
		body["include_domains"] = q.Allowed
	}
	if len(q.Blocked) > 0 {
		body["exclude_domains"] = q.Blocked
	}
	header := http.Header{"Authorization": {"Bearer " + s.key}, "Content-Type": {"application/json"}}
	if err := s.ask(ctx, http.MethodPost, "/search", header, body, &answer); err != nil {
		return nil, err
	}
	var found []hit
	for _, r := range answer.Results {
		found = append(found, hit{r.Title, r.URL, r.Content, r.Date})
	}
	return found, nil
}

// searxng is a SearXNG, a program that anybody can run. Source:
// https://docs.searxng.org/dev/search_api.html
type searxng struct{ service }

func (s searxng) find(ctx context.Context, q query) ([]hit, error) {
	var answer struct {
		Results []struct {
			Title, URL, Content string
			Date                string `json:"publishedDate"`
		}
	}
	params := url.Values{"q": {q.operators(400)}, "format": {"json"}}
	if err := s.ask(ctx, http.MethodGet, "/search?"+params.Encode(), http.Header{}, nil, &answer); err != nil {
		return nil, err
	}
	var found []hit
	for _, r := range answer.Results {
		found = append(found, hit{r.Title, r.URL, r.Content, r.Date})
	}
	return found, nil
}
