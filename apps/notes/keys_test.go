package notes_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/parley-server/parley/apps/notes"
	"github.com/parley-server/parley/internal/tool/linkedin"
)

const (
	anaKey = "pk_of-ana-0123456789-abcdef"
	bobKey = "pk_of-bob-0123456789-abcdef"
)

// startKeyed starts a demo that asks for keys. ana and bob may use petra; only bob may use sebastian.
func startKeyed(t *testing.T) *demo {
	t.Helper()
	return startDemo(t, "sqlite", "app: {notes: {granted: {to: {petra: [ana, bob], sebastian: [bob]}}}}\n", "PARLEY_AUTH_MODE=keys", "PARLEY_API_KEYS=ana="+anaKey+",bob="+bobKey)
}

// asks makes a request with a key, or without one, and does not follow where it is sent.
func (d *demo) asks(key, method, path, body string, header ...string) (status int, text string, h http.Header) {
	d.t.Helper()
	req, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(raw), resp.Header
}

// TestNotesProcess_login_with_keys: where a server asks for keys, the browser that LinkedIn sends
// back is led to the page that hands the answer in. The answer counts once, and only for the user
// who began the login.
func TestNotesProcess_login_with_keys(t *testing.T) {
	t.Parallel()
	d := startKeyed(t)
	begin := func(key, person string) (callback string) {
		t.Helper()
		status, text, _ := d.asks(key, http.MethodPost, notes.AccountPath, "", notes.PersonHeader, person)
		var in struct{ URL string }
		if err := json.Unmarshal([]byte(text), &in); err != nil || in.URL == "" {
			t.Fatalf("%d %s", status, text)
		}
		browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := browser.PostForm(in.URL, url.Values{"answer": {"allow"}, "member": {person}})
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		at, ok := strings.CutPrefix(resp.Header.Get("Location"), d.url)
		if !ok || !strings.HasPrefix(at, linkedin.CallbackPath+"?") {
			t.Fatalf("LinkedIn leads to %s", resp.Header.Get("Location"))
		}
		return at
	}
	loggedIn := func(key, person string) bool {
		t.Helper()
		status, text, _ := d.asks(key, http.MethodGet, notes.AccountPath, "", notes.PersonHeader, person)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return strings.Contains(text, `"logged_in":true`)
	}
	callback := begin(anaKey, "petra")

	// The browser's own request has no key. It changes nothing, and leads to the page.
	status, _, h := d.asks("", http.MethodGet, callback, "", "Accept", "text/html", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "cross-site")
	to, err := url.Parse(d.url + callback)
	if err == nil {
		to, err = to.Parse(h.Get("Location"))
	}
	if err != nil || status != http.StatusSeeOther || to.Path != "/login.html" || to.Query().Get("at") != linkedin.CallbackPath || to.Query().Get("state") == "" || to.Query().Get("code") == "" {
		t.Fatalf("%d, %v: the browser is sent to %s", status, err, h.Get("Location"))
	}
	if status, text, h := d.asks("", http.MethodGet, to.RequestURI(), ""); status != http.StatusOK || !strings.HasPrefix(h.Get("Content-Type"), "text/html") || h.Get("Referrer-Policy") != "no-referrer" && !strings.Contains(h.Get("Referrer-Policy"), "origin") {
		t.Fatalf("the page: %d %v %.200s", status, h, text)
	}
	// The page asks without a key at first, so that its user is asked for one.
	if status, text, h := d.asks("", http.MethodGet, callback, "", "Accept", "application/json", "Sec-Fetch-Mode", "cors"); status != http.StatusUnauthorized || h.Get("WWW-Authenticate") == "" || !strings.Contains(text, `"detail":`) {
		t.Errorf("without a key: %d %s", status, text)
	}
	// bob may use petra, too, but has not begun this login.
	if status, text, _ := d.asks(bobKey, http.MethodGet, callback, "", "Accept", "application/json"); status != http.StatusNotFound || !strings.Contains(text, `"detail":`) {
		t.Errorf("as bob: %d %s", status, text)
	}
	if loggedIn(anaKey, "petra") {
		t.Fatal("petra is logged in before ana's browser has handed the answer in")
	}
	if status, text, _ := d.asks(anaKey, http.MethodGet, callback, "", "Accept", "application/json"); status != http.StatusOK || strings.TrimSpace(text) != `{"success":true,"expires_in":5184000}` {
		t.Fatalf("as ana: %d %s", status, text)
	}
	if status, text, _ := d.asks(anaKey, http.MethodGet, callback, "", "Accept", "application/json"); status != http.StatusNotFound {
		t.Errorf("once more: %d %s", status, text)
	}
	if !loggedIn(bobKey, "petra") || loggedIn(bobKey, "sebastian") {
		t.Error("the login is not that of petra, or sebastian has one")
	}
	// Both at once, each for another person: neither can hand in the other's.
	ours, theirs := begin(anaKey, "petra"), begin(bobKey, "sebastian")
	for key, other := range map[string]string{anaKey: theirs, bobKey: ours} {
		if status, text, _ := d.asks(key, http.MethodGet, other, ""); status != http.StatusNotFound {
			t.Errorf("somebody else's answer: %d %s", status, text)
		}
	}
	if status, text, _ := d.asks(bobKey, http.MethodGet, theirs, ""); status != http.StatusOK || !loggedIn(bobKey, "sebastian") {
		t.Errorf("bob's own: %d %s", status, text)
	}
	for _, secret := range []string{callback, theirs, to.Query().Get("code"), to.Query().Get("state")} {
		if strings.Contains(d.logged(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}
