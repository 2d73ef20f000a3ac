package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/web"
)

// standIns answer as the services document it, about the same three pages.
var standIns = map[string]http.HandlerFunc{
	web.Brave: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/res/v1/web/search" || r.Header.Get("X-Subscription-Token") != "key" || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		answer(w, `{"type":"search","query":{"original":%q},"web":{"type":"search","results":[
			{"title":"The <strong>Go</strong> language","url":"https://go.dev/doc?a=1&b=2","description":"It&#x27;s &lt;simple&gt;","page_age":"2026-01-02T00:00:00"},
			{"title":"Spam","url":"https://spam.example/go","description":"Buy"},
			{"title":"Blog","url":"https://blog.go.dev/x","description":""}]}}`, r.URL.Query().Get("q"))
	},
	web.Tavily: func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var q struct {
			Query   string
			Include []string `json:"include_domains"`
			Exclude []string `json:"exclude_domains"`
		}
		if r.URL.Path != "/search" || r.Header.Get("Authorization") != "Bearer key" || r.Method != http.MethodPost || json.Unmarshal(raw, &q) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer(w, `{"query":%q,"answer":null,"images":[],"results":[
			{"title":"The Go language","url":"https://go.dev/doc?a=1&b=2","content":"It's <simple>","score":0.8,"raw_content":null,"published_date":"2026-01-02T00:00:00"},
			{"title":"Spam","url":"https://spam.example/go","content":"Buy","score":0.1},
			{"title":"Blog","url":"https://blog.go.dev/x","content":"","score":0.1}],"response_time":"1.67"}`, strings.Join(append(append([]string{q.Query}, q.Include...), q.Exclude...), " "))
	},
	web.SearXNG: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/sub/search" || r.URL.Query().Get("format") != "json" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		answer(w, `{"query":%q,"number_of_results":0,"results":[
			{"url":"https://go.dev/doc?a=1&b=2","title":"The Go language","content":"It's <simple>","engine":"x","publishedDate":"2026-01-02T00:00:00"},
			{"url":"https://spam.example/go","title":"Spam","content":"Buy"},
			{"url":"https://blog.go.dev/x","title":"Blog","content":null}],"answers":[],"unresponsive_engines":[]}`, r.URL.Query().Get("q"))
	},
}

func answer(w http.ResponseWriter, format, query string) {
	w.Header().Set("X-Query", query)
	_, _ = fmt.Fprintf(w, format, query)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	asked := map[string]string{
		web.Brave: "go docs site:go.dev -site:blog.go.dev", web.Tavily: "go docs go.dev blog.go.dev", web.SearXNG: "go docs site:go.dev -site:blog.go.dev",
	}
	for provider, h := range standIns {
		got := ""
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h(w, r)
			got = w.Header().Get("X-Query")
		}))
		defer s.Close()
		o := web.SearchOptions{Provider: provider, Key: "key", URL: s.URL + "/"}
		if provider == web.SearXNG {
			o.Key, o.URL = "", s.URL+"/sub/"
		}
		tools, err := web.New(web.Options{Search: o, Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		defer tools.Close()
		search := func(input map[string]any) string {
			t.Helper()
			res, err := tools.Run(t.Context(), newCall(t, web.Search, input).Run)
			if err != nil {
				t.Fatalf("%s: %v", provider, err)
			}
			return res.Output
		}
		text, head, _ := inside(t, search(map[string]any{"query": "go  docs"}))
		want := "1. The Go language\n   https://go.dev/doc?a=1&b=2\n   It's <simple>\n   2026-01-02T00:00:00\n2. Spam\n   https://spam.example/go\n   Buy\n3. Blog\n   https://blog.go.dev/x"
		if provider != web.Brave {
			want = strings.Replace(want, "It's <simple>", "It's", 1) // which is markup as far as anybody knows
		}
		if diff := cmp.Diff(want, text); diff != "" || !strings.HasPrefix(head, `Found on the web for "go docs" at 2026-01-18 12:00:00 UTC.`) {
			t.Errorf("%s: %s (-want +got):\n%s", provider, head, diff)
		}
		text, _, _ = inside(t, search(map[string]any{"query": "go docs", "allowed_domains": []string{"https://www.GO.dev/doc", ""}, "blocked_domains": []string{"blog.go.dev"}}))
		if strings.Contains(text, "Spam") || strings.Contains(text, "Blog") || !strings.Contains(text, "go.dev/doc") || got != asked[provider] {
			t.Errorf("%s with domains: asked for %q, got\n%s", provider, got, text)
		}
		if out := search(map[string]any{"query": "go docs", "allowed_domains": []string{"nothing.example"}}); !strings.HasSuffix(out, "Nothing was found.") {
			t.Errorf("%s: %s", provider, out)
		}
	}
}

// TestSearchRefused: what a service says of itself reaches the model in our words alone.
func TestSearchRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		provider string
		status   int
		body     string
		code     parley.Code
		want     string
	}{
		{web.Brave, 401, "evil", parley.CodeUnauthenticated, "Brave refused the key"},
		{web.Brave, 422, "evil", parley.CodeInvalid, "422"},
		{web.Tavily, 432, "evil", parley.CodeRateLimited, "no more searches"},
		{web.Tavily, 429, "evil", parley.CodeRateLimited, "too often"},
		{web.SearXNG, 403, "evil", parley.CodeForbidden, "SearXNG refused the search"},
		{web.SearXNG, 500, "evil", parley.CodeUnavailable, "500"},
		{web.SearXNG, 302, "evil", parley.CodeUnavailable, "302"},
		{web.SearXNG, 200, "<html>evil", parley.CodeUnavailable, "not the JSON"},
		{web.SearXNG, 200, strings.Repeat(" ", 5<<20) + "evil", parley.CodeTooLarge, "4 MiB"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		defer s.Close()
		tools, err := web.New(web.Options{Search: web.SearchOptions{Provider: c.provider, Key: "key", URL: s.URL}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = tools.Run(t.Context(), newCall(t, web.Search, map[string]string{"query": "private words"}).Run)
		if err == nil || parley.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "evil") || strings.Contains(err.Error(), "private") {
			t.Errorf("%s %d: %v", c.provider, c.status, err)
		}
	}
}

// TestNoSearch: without a service the tool is there and says what to set.
func TestNoSearch(t *testing.T) {
	t.Parallel()
	for provider, want := range map[string]string{"": "this server has no web search", web.ByModel: "this server has no web search", web.Nobody: "switched off"} {
		tools, err := web.New(web.Options{Search: web.SearchOptions{Provider: provider}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = tools.Run(t.Context(), newCall(t, web.Search, map[string]string{"query": "x y"}).Run)
		if err == nil || !strings.Contains(err.Error(), want) || provider != web.Nobody && !strings.Contains(parley.Info(err).Hint, "BRAVE_API_KEY, TAVILY_API_KEY or SEARXNG_URL") {
			t.Errorf("%q: %v", provider, err)
		}
		decls, err := tools.Tools(t.Context())
		if err != nil || len(decls) != 2 || (decls[1].Instead == "web_search") != (provider == web.ByModel) || !decls[0].Web || !decls[1].Web {
			t.Errorf("%q: %+v %v", provider, decls, err)
		}
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]web.Options{
		"allow":           {Allow: []string{"http://x"}},
		"search.provider": {Search: web.SearchOptions{Provider: "gogle"}},
		"search.key":      {Search: web.SearchOptions{Provider: web.Tavily}},
		"search.url":      {Search: web.SearchOptions{Provider: web.SearXNG}},
	} {
		_, err := web.New(o)
		if err == nil || parley.Info(err).Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, url := range []string{"ftp://x", "http://search.example", "https://a:b@x", "nonsense", "https://x?q=1"} {
		if _, err := web.New(web.Options{Search: web.SearchOptions{Provider: web.Brave, Key: "k", URL: url}}); err == nil || parley.Info(err).Field != "search.url" {
			t.Errorf("%s: %v", url, err)
		}
	}
}
