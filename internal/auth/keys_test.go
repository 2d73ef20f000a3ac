package auth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, file string, fixed ...auth.Fixed) *auth.Keys {
	t.Helper()
	k, err := auth.OpenKeys(file, fixed)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func create(t *testing.T, k *auth.Keys, name, user string) string {
	t.Helper()
	secret, _, err := k.Create(auth.Key{Name: name, User: user}, noon)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// user returns the key's user, or "" if the key is unknown.
func user(t *testing.T, k *auth.Keys, secret string) string {
	t.Helper()
	who, ok, err := k.Verify(t.Context(), secret)
	if err != nil || ok != (who.User != "") {
		t.Fatalf("%+v, %v, %v", who, ok, err)
	}
	return who.User
}

func TestKeysAreKeptAsHashesOnly(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "data", "keys.json")
	k := open(t, file)
	secret, key, err := k.Create(auth.Key{Name: "laptop", User: "ana", Org: "acme"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(secret, "pk_") || len(secret) < 28 {
		t.Errorf("the key is %q", secret)
	}
	raw, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(raw), secret[:12]) {
		t.Errorf("the file holds the key: %s, %v", raw, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	list, err := open(t, file).List()
	if diff := cmp.Diff([]auth.Key{key}, list); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	if key.Begins != secret[:7] || key.Created != noon || key.User != "ana" || key.Org != "acme" {
		t.Errorf("%+v", key)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".keys.json-*"))
	if len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestKeysAreReadAgain: when one program writes the file, another that has it open knows at its
// next request.
func TestKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	server, command := open(t, file), open(t, file)
	a, b := create(t, command, "a", ""), create(t, command, "b", "ana")
	if user(t, server, a) != "a" || user(t, server, b) != "ana" || user(t, server, "pk_other") != "" {
		t.Error("new keys are not known")
	}
	if err := command.Revoke("a"); err != nil {
		t.Fatal(err)
	}
	if user(t, server, a) != "" || user(t, server, b) != "ana" {
		t.Error("a revoked key is still good, or took another with it")
	}
	again := create(t, command, "a", "")
	if user(t, server, a) != "" || user(t, server, again) != "a" {
		t.Error("a new key of an old name")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if user(t, server, b) != "" {
		t.Error("without a file there are keys")
	}
}

// TestKeysOfAnotherFile: another file of the same size and time takes the place of the one that
// was read, as when two changes fall into one tick of the clock.
func TestKeysOfAnotherFile(t *testing.T) {
	t.Parallel()
	file, other := filepath.Join(t.TempDir(), "keys.json"), filepath.Join(t.TempDir(), "keys.json")
	server := open(t, file)
	old, now := create(t, open(t, file), "laptop", "ana"), create(t, open(t, other), "laptop", "bob")
	var sizes []int64
	for _, f := range []string{file, other} {
		if err := os.Chtimes(f, noon, noon); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
	}
	if user(t, server, old) != "ana" || sizes[0] != sizes[1] {
		t.Fatalf("the first file: %d bytes, the second: %d", sizes[0], sizes[1])
	}
	if err := os.Rename(other, file); err != nil {
		t.Fatal(err)
	}
	if user(t, server, old) != "" || user(t, server, now) != "bob" {
		t.Error("the keys are those of the first file")
	}
}

func TestKeysThatCanNotBeReadLetNobodyIn(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"not JSON":      `{"version":1,"keys":[`,
		"newer":         `{"version":4,"keys":[]}`,
		"no hash":       `{"version":1,"keys":[{"name":"a","user":"a"}]}`,
		"odd hash":      `{"version":1,"keys":[{"name":"a","user":"a","sha256":"` + strings.Repeat("z", 64) + `"}]}`,
		"the server's":  `{"version":1,"keys":[{"name":"a","user":"system","sha256":"` + strings.Repeat("0", 64) + `"}]}`,
		"another thing": `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "keys.json")
			k := open(t, file, auth.Fixed{Name: "fixed", Secret: secret})
			good := create(t, k, "good", "")
			if user(t, k, good) != "good" {
				t.Fatal("the key is not good")
			}
			if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if who, ok, err := k.Verify(t.Context(), good); ok || err == nil || who.User != "" {
					t.Errorf("let in: %+v, %v", who, err)
				}
			}
			if _, err := auth.OpenKeys(file, nil); err == nil {
				t.Error("a start with it is not refused")
			}
			if _, _, err := k.Create(auth.Key{Name: "more"}, noon); err == nil {
				t.Error("the broken file was written over")
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if user(t, k, secret) != "fixed" || user(t, k, good) != "" {
				t.Error("it does not go on when the file is gone")
			}
		})
	}
}

func TestKeysRefusals(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	k := open(t, file, auth.Fixed{Name: "fixed", Secret: secret})
	create(t, k, "a", "")
	for _, c := range []struct {
		name, user, org string
		want            parley.Code
	}{
		{"a", "", "", parley.CodeConflict},
		{"fixed", "", "", parley.CodeConflict},
		{"", "", "", parley.CodeInvalid},
		{"a b", "", "", parley.CodeInvalid},
		{"-a", "", "", parley.CodeInvalid},
		{strings.Repeat("a", 200), "", "", parley.CodeInvalid},
		{"b", "system", "", parley.CodeInvalid},
		{"system", "", "", parley.CodeInvalid},
		{"b", "a\nb", "", parley.CodeInvalid},
		{"b", "ana", "a/b", parley.CodeInvalid},
	} {
		if _, _, err := k.Create(auth.Key{Name: c.name, User: c.user, Org: c.org}, noon); parley.CodeOf(err) != c.want {
			t.Errorf("%q %q %q: got %v, want %s", c.name, c.user, c.org, err, c.want)
		}
	}
	for name, want := range map[string]parley.Code{"fixed": parley.CodeInvalid, "nobody": parley.CodeNotFound} {
		if err := k.Revoke(name); parley.CodeOf(err) != want {
			t.Errorf("revoke %s: got %v, want %s", name, err, want)
		}
	}
	if _, err := auth.OpenKeys(file, []auth.Fixed{{Name: "short", Secret: "pk_short"}}); parley.CodeOf(err) != parley.CodeInvalid || strings.Contains(err.Error(), "pk_short") {
		t.Errorf("a short key: %v", err)
	}
	list, err := k.List()
	if err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestKeysThatAreRefusedMakeNoFolder: a command that changes nothing leaves no files behind.
func TestKeysThatAreRefusedMakeNoFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "typo")
	k := open(t, filepath.Join(dir, "keys.json"), auth.Fixed{Name: "fixed", Secret: secret})
	for _, name := range []string{"nobody", "fixed"} {
		if err := k.Revoke(name); err == nil {
			t.Errorf("revoke %s: no error", name)
		}
	}
	if _, _, err := k.Create(auth.Key{Name: "fixed"}, noon); parley.CodeOf(err) != parley.CodeConflict {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
	create(t, k, "a", "")
	if err := k.Revoke("a"); err != nil {
		t.Error(err)
	}
}

func TestKeysMadeAtOnceAreAllKept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	var all sync.WaitGroup
	const n = 12
	for i := range n {
		all.Go(func() {
			if _, _, err := open(t, file).Create(auth.Key{Name: fmt.Sprint("key", i)}, noon); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := open(t, file).List(); err != nil || len(list) != n {
		t.Errorf("%d keys, %v", len(list), err)
	}
}

// TestRevokedKeyEndsItsStreams: when a key is revoked, its open streams end, and no others.
func TestRevokedKeyEndsItsStreams(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	server, command := open(t, file), open(t, file)
	a, b := create(t, command, "a", ""), create(t, command, "b", "")
	srv := httptest.NewServer(auth.Door(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			_, _ = io.WriteString(w, "open\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}), auth.Options{Mode: auth.ModeKeys, Verifiers: []auth.Verifier{server}, Fail: func(w http.ResponseWriter, _ error) { w.WriteHeader(401) }}))
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	get := func(path, key string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	first, other := get("/stream", a), get("/stream", b)
	line := make([]byte, 5)
	for _, resp := range []*http.Response{first, other} {
		if _, err := io.ReadFull(resp.Body, line); err != nil {
			t.Fatal(err)
		}
	}
	create(t, command, "c", "") // a change to another key
	if got := get("/", b).StatusCode; got != 200 {
		t.Fatal(got)
	}
	if err := command.Revoke("a"); err != nil {
		t.Fatal(err)
	}
	if got := get("/", b).StatusCode; got != 200 { // makes the server read the file again
		t.Fatal(got)
	}
	if _, err := io.ReadAll(first.Body); err != nil {
		t.Errorf("the stream of the revoked key: %v", err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.ReadAll(other.Body) }()
	select {
	case <-done:
		t.Error("the stream of another key ended too")
	default:
	}
	if got := get("/", a).StatusCode; got != 401 {
		t.Errorf("the revoked key: %d", got)
	}
	if err := command.Revoke("b"); err != nil {
		t.Fatal(err)
	}
	get("/", a)
	<-done
}

func TestWatchFindsARevokedKeyByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "keys.json")
		server, command := open(t, file), open(t, file)
		a := create(t, command, "a", "")
		ended := make(chan struct{})
		door := auth.Door(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); close(ended) }),
			auth.Options{Mode: auth.ModeKeys, Verifiers: []auth.Verifier{server}})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go server.Watch(ctx, 2*time.Second)
		go func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
			r.Header.Set("X-API-Key", a)
			door.ServeHTTP(httptest.NewRecorder(), r)
		}()
		synctest.Wait()
		if err := command.Revoke("a"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-ended
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestKeys_with_scopes_and_an_end: such a key opens what it is for, until it ends, and its last use is
// stored to the minute.
func TestKeys_with_scopes_and_an_end(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	keys, err := auth.OpenKeys(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0).UTC()
	keys.Now = func() time.Time { return now }
	secret, _, err := keys.Create(auth.Key{Name: "watch", User: "ana", Scopes: []auth.Scope{auth.ScopeRead}, Expires: now.Add(time.Hour)}, now)
	if err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(file); !strings.Contains(string(raw), `"version": 3`) {
		t.Errorf("an older program would let the key do everything: %s", raw)
	}
	h := behind(t, auth.Options{Mode: auth.ModeKeys, Verifiers: []auth.Verifier{keys}, Now: keys.Now, Scope: func(r *http.Request) auth.Scope {
		return map[string]auth.Scope{"GET": auth.ScopeRead, "POST": auth.ScopeSend}[r.Method]
	}})
	for method, want := range map[string]parley.Code{"GET": "", "POST": parley.CodeForbidden, "DELETE": parley.CodeForbidden} {
		if _, _, s := ask(t, h, "192.0.2.1:1", "X-API-Key", secret, "X-Method", method); s.Code != want {
			t.Errorf("%s: %+v", method, s)
		}
	}
	used := func() time.Time { t.Helper(); return lastUse(t, file) }
	if err := keys.Note(); err != nil || !used().Equal(now) {
		t.Errorf("used at %s, %v", used(), err)
	}
	before := now
	now = now.Add(59 * time.Second)
	ask(t, h, "192.0.2.1:1", "X-API-Key", secret)
	if err := keys.Note(); err != nil || !used().Equal(before) {
		t.Errorf("used again within a minute: %s, %v", used(), err)
	}
	now = now.Add(time.Second)
	ask(t, h, "192.0.2.1:1", "X-API-Key", secret)
	if err := keys.Note(); err != nil || !used().Equal(now) {
		t.Errorf("used after a minute: %s, %v", used(), err)
	}
	now = before.Add(time.Hour)
	for range 30 { // it is not counted as a wrong key
		if _, _, s := ask(t, h, "192.0.2.1:1", "X-API-Key", secret); s.Code != parley.CodeUnauthenticated {
			t.Fatalf("after its end: %+v", s)
		}
	}
	for _, k := range []auth.Key{{Name: "a", Scopes: []auth.Scope{"all"}}, {Name: "a", Metrics: true, Scopes: []auth.Scope{auth.ScopeRead}}} {
		if _, _, err := keys.Create(k, now); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("%+v: %v", k, err)
		}
	}
}

// lastUse is when the only key of a file was last used, as the file says.
func lastUse(t *testing.T, file string) time.Time {
	t.Helper()
	keys, err := auth.OpenKeys(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := keys.List()
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	return list[0].Used
}

// TestKeys_used_is_stored_later: the last use of a key that could not be stored is stored when that is
// possible again, though nobody has used the key since, and one just before the server stops.
func TestKeys_used_is_stored_later(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	synctest.Test(t, func(t *testing.T) {
		keys, err := auth.OpenKeys(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		secret, _, err := keys.Create(auth.Key{Name: "a", User: "ana"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := keys.Verify(t.Context(), secret); !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lock := file + ".lock"
		if err := errors.Join(os.Remove(lock), os.Mkdir(lock, 0o700)); err != nil {
			t.Fatal(err)
		}
		go keys.Watch(ctx, time.Second)
		time.Sleep(2*time.Minute + time.Second/2) // fake
		if !lastUse(t, file).IsZero() {
			t.Error("it was stored")
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if lastUse(t, file).IsZero() {
			t.Error("it was not stored later")
		}
		if _, ok, err := keys.Verify(t.Context(), secret); !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		last := time.Now()
		cancel()
		synctest.Wait()
		if at := lastUse(t, file); !at.Equal(last.Truncate(time.Millisecond)) {
			t.Errorf("the use before the server stopped is stored as %s, want %s", at, last)
		}
	})
}

// TestKeys_of_a_user are seen and revoked by nobody else.
func TestKeys_of_a_user(t *testing.T) {
	t.Parallel()
	keys, err := auth.OpenKeys(filepath.Join(t.TempDir(), "keys.json"), []auth.Fixed{{Name: "fixed", Secret: "pk_abcdefghijklmnopqrstuvwxyz", User: "ana"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []auth.Key{{Name: "a", User: "ana"}, {Name: "b", User: "bea"}, {Name: "c", User: "ana", Org: "north"}, {Name: "d", User: "acme:ana", Org: "acme:north"}, {Name: "m", Metrics: true}} {
		if _, _, err := keys.Create(k, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	names := func(p parley.Principal) (list []string) {
		own, err := keys.Of(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range own {
			list = append(list, k.Name)
		}
		return list
	}
	if got := names(parley.Principal{User: "ana"}); !slices.Equal(got, []string{"a", "fixed"}) {
		t.Errorf("Ana's are %v", got)
	}
	if got := names(parley.Principal{User: "acme:ana", Org: "acme:north"}); !slices.Equal(got, []string{"d"}) {
		t.Errorf("those of Ana at Acme are %v", got)
	}
	for _, name := range []string{"b", "c", "d", "m", "nothing"} {
		if err := keys.RevokeOf(parley.Principal{User: "ana"}, name); parley.CodeOf(err) != parley.CodeNotFound {
			t.Errorf("Ana revokes %s: %v", name, err)
		}
	}
	if err := keys.RevokeOf(parley.Principal{User: "ana"}, "fixed"); parley.CodeOf(err) != parley.CodeInvalid {
		t.Errorf("a key of the settings: %v", err)
	}
	if err := keys.RevokeOf(parley.Principal{User: "ana"}, "a"); err != nil {
		t.Error(err)
	}
}
