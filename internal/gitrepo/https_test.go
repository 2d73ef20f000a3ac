package gitrepo_test

import (
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parley-server/parley/internal/gitrepo"
)

// TestHTTPS: a remote over https, with a certificate of the operator's own, is pulled from and pushed to
// with the token. The token is in no error and no file of the repository, in neither of its forms.
func TestHTTPS(t *testing.T) {
	backend := strings.TrimSpace(git(t, t.TempDir(), "--exec-path")) + "/git-http-backend"
	if _, err := os.Stat(backend); err != nil {
		t.Fatal(err)
	}
	const token = "s3cret-token-of-the-operator"
	g := newRig(t)
	var mu sync.Mutex
	var seen []string
	right := token
	handler := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(g.remote), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=parley", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, ok := r.BasicAuth()
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Method+" "+r.URL.Path)
		if !ok || password != right {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, g.vault, "config", "remote.origin.url", server.URL+"/remote.git")
	write(t, g.vault, "sebastian/a.md", "one, over https\n")

	// Nobody vouches for the certificate.
	g.open(func(o *gitrepo.Options) { o.Token = token })
	g.commit("over https", "sebastian")
	if s, err := g.repo.Push(t.Context()); err == nil {
		t.Errorf("an unknown certificate was accepted: %+v", s)
	}
	mu.Lock()
	if len(seen) > 0 {
		t.Errorf("a server with an unknown certificate was asked %q", seen)
	}
	mu.Unlock()

	t.Setenv("SSL_CERT_FILE", ca)
	g.open(func(o *gitrepo.Options) { o.Token = "wrong-" + token })
	_, err := g.repo.Push(t.Context())
	if err == nil || strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "Basic ") {
		t.Errorf("a wrong token: %v", err)
	}

	g.open(func(o *gitrepo.Options) { o.Token = token })
	if s := g.push(); !s.Pushed {
		t.Fatalf("nothing was pushed: %+v", s)
	}
	if got := log(t, g.remote, "main"); got[len(got)-1] != "over https" {
		t.Errorf("the remote has %q", got)
	}
	git(t, g.person, "pull", "-q", "--rebase")
	g.elsewhere("from elsewhere", "petra/p.md", "p, from elsewhere\n")
	g.pull()
	if got := read(t, g.vault, "petra/p.md"); got != "p, from elsewhere\n" {
		t.Errorf("pulled %q", got)
	}
	sent := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
	out, err := exec.Command("grep", "-r", "-e", token, "-e", sent, g.vault).CombinedOutput()
	if err == nil || len(out) > 0 {
		t.Errorf("the token is in the repository: %s", out)
	}
}
