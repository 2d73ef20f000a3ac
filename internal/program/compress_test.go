package program

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/auth"
)

// TestAnswers_are_compressed where it helps: complete JSON answers and the documentation, for
// clients that accept gzip.
func TestAnswers_are_compressed(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	o := k.furnish("ana")
	session := "/v1/sessions/" + string(o.session)
	for path, zip := range map[string]bool{
		"/openapi.json":               true,
		"/docs":                       true,
		"/v1/apps":                    true,
		session + "/events":           true,
		session + "/turns":            true,
		session + "/events/stream":    false,
		session + "/export":           false,
		session:                       false, // small
		"/healthz":                    false,
		"/v1/artifacts/" + o.artifact: false,
	} {
		fixed := map[string]int{"/openapi.json": 10, "/docs": 6}[path] // the least ratio of what never changes
		status, packed, h := k.ask("ana", http.MethodGet, path, "", "Accept-Encoding", "gzip, br")
		if got := h.Get("Content-Encoding") == "gzip"; got != zip || status != http.StatusOK {
			t.Errorf("%s: %d, compressed: got %v, want %v (%d bytes)", path, status, got, zip, len(packed))
			continue
		}
		if _, plain, _ := k.ask("ana", http.MethodGet, path, "", "Accept-Encoding", "gzip;q=0"); zip && unzip(t, packed) != plain {
			t.Errorf("%s: %d bytes are others when they were compressed", path, len(plain))
		} else if fixed > 0 && len(packed) > len(plain)/fixed || zip && !slices.Contains(h.Values("Vary"), "Accept-Encoding") {
			// What never changes is compressed once, as small as possible.
			t.Errorf("%s: %d of %d bytes, Vary %q", path, len(packed), len(plain), h.Values("Vary"))
		}
	}
	// The state of the house changes, so two requests get different answers.
	if status, packed, h := k.ask("ana", http.MethodGet, "/apps/home/entities", "", "Accept-Encoding", "gzip"); status != http.StatusOK || h.Get("Content-Encoding") != "gzip" || !json.Valid([]byte(unzip(t, packed))) {
		t.Errorf("entities: %d, Content-Encoding %q", status, h.Get("Content-Encoding"))
	}
	if status, text, h := k.ask("ana", http.MethodGet, session+"/nothing", "", "Accept-Encoding", "gzip"); status != http.StatusNotFound || h.Get("Content-Encoding") != "" {
		t.Errorf("a refusal: %d, Content-Encoding %q, %s", status, h.Get("Content-Encoding"), text)
	}
}

// TestAnswers_to_pages_of_elsewhere: answers to pages of other origins are not compressed,
// unless the settings list the page. The compressed size would reveal something about their
// content.
func TestAnswers_to_pages_of_elsewhere(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	srv := httptest.NewServer(k.house.behind(api.GuardOptions{Origins: []string{"https://listed.example"}}, auth.Options{Mode: auth.ModeNone}))
	t.Cleanup(srv.Close)
	k.url = srv.URL
	for name, c := range map[string]struct {
		header []string
		zip    bool
	}{
		"a program":           {nil, true},
		"our own page":        {[]string{"Sec-Fetch-Site", "same-origin"}, true},
		"an address bar":      {[]string{"Sec-Fetch-Site", "none"}, true},
		"a listed page":       {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://listed.example"}, true},
		"a page of elsewhere": {[]string{"Sec-Fetch-Site", "cross-site"}, false},
		"of another port":     {[]string{"Sec-Fetch-Site", "same-site"}, false},
		"of an older browser": {[]string{"Origin", "https://elsewhere.example"}, false},
		"of no server":        {[]string{"Origin", "null"}, false},
	} {
		status, _, h := k.ask("", http.MethodGet, "/v1/apps", "", append(c.header, "Accept-Encoding", "gzip")...)
		if got := h.Get("Content-Encoding") == "gzip"; got != c.zip || status != http.StatusOK {
			t.Errorf("%s: %d, compressed: got %v, want %v", name, status, got, c.zip)
		}
	}
}

func unzip(t *testing.T, packed string) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader([]byte(packed)))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
