package website_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/sim/website"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestSearch: a search finds the pages by what they are about, and each page can be opened.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := website.New()
	srv := httptest.NewServer(s)
	defer srv.Close()
	for query, want := range map[string]string{
		"when to plant tomatoes":             "/almanac/tomatoes",
		"slugs nematodes":                    "/almanac/slugs",
		"how much water for sourdough bread": "/bakery/hydration",
		"City Gardens Day":                   "/events/city-gardens-day",
		"bike stations near trains":          "/cycling/stations",
		"LinkedIn reach":                     "/growth/more-reach",
		"quantum chromodynamics":             "",
	} {
		status, body := get(t, srv.URL+"/search?format=json&q="+strings.ReplaceAll(query, " ", "+"))
		var in struct {
			Results []struct{ URL, Title, Content string }
		}
		if err := json.Unmarshal([]byte(body), &in); err != nil || status != 200 {
			t.Fatal(status, err)
		}
		got := ""
		if len(in.Results) > 0 {
			got = strings.TrimPrefix(in.Results[0].URL, srv.URL)
			if in.Results[0].Title == "" || in.Results[0].Content == "" {
				t.Errorf("%s has no title or no text", got)
			}
		}
		if got != want {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
	if status, _ := get(t, srv.URL+"/search?q=x"); status != http.StatusForbidden {
		t.Errorf("a search without format=json gets %d", status)
	}
	for _, p := range append(s.Paths(), "/") {
		if status, body := get(t, srv.URL+p); status != 200 || !strings.Contains(body, "<h1>") || !strings.Contains(body, "made up") {
			t.Errorf("%s: %d", p, status)
		}
	}
	if status, _ := get(t, srv.URL+"/none"); status != http.StatusNotFound {
		t.Errorf("a page that is not there gets %d", status)
	}
}
