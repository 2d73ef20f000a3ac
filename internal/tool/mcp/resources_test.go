//go:build unix

package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
)

func (r *rig) reads(ctx context.Context, uri string) ([]seam.ResourceContent, error) {
	n := r.n.Add(1)
	return r.set.ResourceServers()[0].Read(ctx, seam.Reading{
		URI: uri, Principal: parley.Principal{User: fmt.Sprintf("user%d", n%7)},
		Credential: func(name, host string) (string, error) { return "token-of-the-caller", nil },
	})
}

func (r *rig) listed() (uris []string, cut bool) {
	r.t.Helper()
	list, cut, err := r.set.ResourceServers()[0].Resources(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, res := range list {
		if res.Server != "test" {
			r.t.Errorf("got %+v", res)
		}
		uris = append(uris, strings.TrimPrefix(res.URI, "test://"))
	}
	return uris, cut
}

// TestReadResources: a server's resources and templates are listed and read, over each transport
// and in both eras. Their content is files, or text without invisible characters.
func TestReadResources(t *testing.T) {
	everyWay(t, func(t *testing.T, r *rig) {
		got, cut := r.listed()
		want := []string{"broken", "count", "die", "hang", "issue/{number}", "large", "many", "pieces", "text"}
		if diff := cmp.Diff(want, got); diff != "" || cut {
			t.Error(diff, cut)
		}
		list, _, _ := r.set.ResourceServers()[0].Resources(t.Context())
		if diff := cmp.Diff(parley.Resource{Server: "test", URI: "test://text", Name: "test://text", Description: "A text.", MediaType: "text/plain"}, list[8]); diff != "" || !list[4].Template {
			t.Error(diff)
		}
		for uri, want := range map[string][]seam.ResourceContent{
			"test://text":    {{Text: "one\ntwo", MediaType: "text/plain"}},
			"test://issue/7": {{Text: "the issue"}},
			"test://pieces": {
				{Text: "test://a\nA", MediaType: "text/plain"},
				{File: &seam.File{Name: "b.png", MediaType: "image/png", Body: []byte("PNG")}},
				{Text: "test://c\nC", MediaType: "application/json"},
			},
		} {
			got, err := r.reads(t.Context(), uri)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v %s", uri, err, diff)
			}
		}
		for _, want := range []string{"1", "2"} { // whatever the server says about caching
			if got, err := r.reads(t.Context(), "test://count"); err != nil || got[0].Text != want {
				t.Errorf("got %+v, %v, want %s", got, err, want)
			}
		}
		for uri, c := range map[string]struct {
			code parley.Code
			says string
		}{
			"test://none":   {parley.CodeInvalid, "has no resource test://none"},
			"test://many":   {parley.CodeTooLarge, "has 21 pieces"},
			"test://broken": {parley.CodeTool, "the resource test://broken: out of order"},
		} {
			if _, err := r.reads(t.Context(), uri); parley.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", uri, err)
			}
		}
		brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := r.reads(brief, "test://hang"); parley.CodeOf(err) != parley.CodeTimeout {
			t.Errorf("a hanging one: %v", err)
		}
		// Calls go on, and a change of the list is seen.
		r.want(r.call("change", in{}), parley.OutcomeOK, "done")
		for end := time.Now().Add(within); ; <-time.After(time.Millisecond) {
			if got, _ := r.listed(); len(got) == 8 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the list has not changed")
			}
		}
	})
}

// TestReadResources_of_hostile_servers: a resource that is too large is an error. A server that
// dies is started again, and the next request gets an answer.
func TestReadResources_of_hostile_servers(t *testing.T) {
	t.Run("a program", func(t *testing.T) {
		t.Parallel()
		r := program(t)
		for _, uri := range []string{"test://large", "test://die"} {
			if _, err := r.reads(t.Context(), uri); err == nil || !strings.Contains(err.Error(), "test") {
				t.Errorf("%s: %v", uri, err)
			}
			for end := time.Now().Add(within); ; <-time.After(10 * time.Millisecond) { // it is started again after a pause
				got, err := r.reads(t.Context(), "test://text")
				if err == nil && got[0].Text == "one\ntwo" {
					break
				}
				if time.Now().After(end) {
					t.Fatal(err)
				}
			}
		}
		var work sync.WaitGroup
		for i := range 20 {
			work.Go(func() {
				if i%4 == 0 {
					_, _ = r.reads(t.Context(), "test://die")
				} else {
					_, _ = r.reads(t.Context(), "test://text")
				}
			})
		}
		work.Wait()
	})
	t.Run("a service", func(t *testing.T) {
		t.Parallel()
		r := service(t, asItIs)
		if _, err := r.reads(t.Context(), "test://large"); err == nil {
			t.Error("it was read")
		}
		if got, err := r.reads(t.Context(), "test://text"); err != nil || got[0].Text != "one\ntwo" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// TestResources_are_bounded: a part of an endless list is shown, and marked as cut. URIs that
// nobody could write are left out.
func TestResources_are_bounded(t *testing.T) {
	t.Parallel()
	r := service(t, func(http.Handler) http.Handler {
		s := sdk.NewServer(&sdk.Implementation{Name: "endless", Version: "1"}, nil)
		never := func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return nil, errors.New("never")
		}
		for i := range 700 {
			s.AddResource(&sdk.Resource{URI: fmt.Sprintf("test://%03d", i), Name: strings.Repeat("n", 500), Description: strings.Repeat("d", 1000)}, never)
		}
		s.AddResource(&sdk.Resource{URI: "test://0" + strings.Repeat("0", 3000), Name: "long"}, never)
		s.AddResource(&sdk.Resource{URI: "test://0\u202e", Name: "turned"}, never)
		return handler(s)
	})
	got, cut := r.listed()
	if len(got) != 500 || !cut || got[499] != "499" {
		t.Errorf("%d are listed, cut %v", len(got), cut)
	}
	list, _, _ := r.set.ResourceServers()[0].Resources(t.Context())
	if len(list[0].Name) > 103 || len(list[0].Description) > 303 {
		t.Errorf("got %d and %d bytes", len(list[0].Name), len(list[0].Description))
	}
}

// TestReadResources_of_callers: a resource is read with the caller's token, over a connection of
// its own.
func TestReadResources_of_callers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	r := service(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			mu.Lock()
			seen[q.Header.Get("Authorization")]++
			mu.Unlock()
			next.ServeHTTP(w, q)
		})
	}, func(o *mcp.Options) { o.Bearer.Credential, o.PlainHTTP, o.Listing = "key", true, "token-for-lists" })
	r.listed()
	mu.Lock()
	clear(seen)
	mu.Unlock()
	if _, err := r.reads(t.Context(), "test://text"); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if seen["Bearer token-of-the-caller"] == 0 || seen["Bearer token-for-lists"] > 0 {
		t.Errorf("the server saw %v", seen)
	}
}
