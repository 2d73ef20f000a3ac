package api_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestImports_are_few: archives that arrive slowly block other users only for a while, and take
// little memory. One import too many of a user, or of all users, is refused before it is read.
func TestImports_are_few(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	patient := &http.Transport{ExpectContinueTimeout: time.Hour}
	t.Cleanup(patient.CloseIdleConnections)
	status := func(user string) (int, string) {
		resp := w.ask("POST", "/v1/sessions/import", "no zip file", "Test-User", user, "Content-Type", "application/zip")
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	// slow begins an import that does not continue. It returns when the server has asked for the
	// body, from when on the import counts, or has refused it.
	slow := func(user string) (end func()) {
		out, in := io.Pipe()
		begun := make(chan struct{}, 2)
		trace := &httptrace.ClientTrace{Got100Continue: func() { begun <- struct{}{} }}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", w.url+"/v1/sessions/import", out)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Test-User", user)
		r.Header.Set("Content-Type", "application/zip")
		r.Header.Set("Expect", "100-continue")
		done := make(chan struct{})
		go func() {
			defer close(done)
			resp, err := patient.RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			begun <- struct{}{}
		}()
		<-begun
		return func() { _ = in.Close(); <-done }
	}
	is := func(user string, want int) (retry string) {
		t.Helper()
		got, retry := status(user)
		if got != want {
			t.Errorf("an import of %s is answered with %d, want %d", user, got, want)
		}
		return retry
	}
	// over waits until an import no longer counts. Its answer may come before that.
	over := func(user string) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		got := 0
		for ctx.Err() == nil && got != http.StatusBadRequest {
			got, _ = status(user)
		}
		if got != http.StatusBadRequest {
			t.Errorf("when there is a place, an import of %s is answered with %d", user, got)
		}
	}
	var ends []func()
	for _, user := range []string{"ana", "ben", "cem", "dee"} {
		ends = append(ends, slow(user))
		is(user, http.StatusTooManyRequests)
	}
	if is("eva", http.StatusServiceUnavailable) == "" {
		t.Error("no Retry-After")
	}
	ends[0]()
	over("eva")
	for _, end := range ends[1:] {
		end()
	}
	over("dee")
}

// TestImport_unpacks_one_at_a_time: an archive is unpacked only when the import before it is over.
func TestImport_unpacks_one_at_a_time(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rig := enginetest.New(t, enginetest.Echo, enginetest.App())
		defer rig.Close()
		unpacked, may := make(chan string, 3), make(chan struct{})
		s := api.New(api.Options{
			Engine: rig.Engine, Reader: rig.Reader, Blobs: rig.Store,
			Principal: func(ctx context.Context) (parley.Principal, error) {
				user, _ := ctx.Value(userKey{}).(string)
				return parley.Principal{User: user}, nil
			},
			Import: func(ctx context.Context, p parley.Principal, a archive.Session) (parley.SessionInfo, error) {
				unpacked <- p.User
				<-may
				return rig.Engine.Import(ctx, p, engine.Imported(a))
			},
		})
		ask := func(user, method, path string, body []byte) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(context.WithValue(t.Context(), userKey{}, user), method, path, bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/zip")
			s.ServeHTTP(w, r)
			return w
		}
		own, _, err := rig.Engine.Create(t.Context(), parley.Principal{User: "ana"}, parley.CreateSession{App: "test"})
		if err != nil {
			t.Fatal(err)
		}
		zip := ask("ana", "GET", "/v1/sessions/"+string(own.ID)+"/export", nil).Body.Bytes()
		var all sync.WaitGroup
		users := []string{"ana", "ben", "cem"}
		for _, user := range users {
			all.Go(func() {
				if w := ask(user, "POST", "/v1/sessions/import", zip); w.Code != http.StatusCreated {
					t.Errorf("the import of %s: %d %s", user, w.Code, w.Body)
				}
			})
		}
		for n := range users {
			synctest.Wait()
			if len(unpacked) != n+1 {
				t.Errorf("%d archives are unpacked when %d imports are over", len(unpacked), n)
			}
			may <- struct{}{}
		}
		all.Wait()
	})
}

// TestImport_into_an_app_that_is_not_here: the error names the parameter and lists the apps.
func TestImport_into_an_app_that_is_not_here(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	s := w.session(`{"app":"test"}`)
	resp := w.ask("GET", "/v1/sessions/"+string(s.ID)+"/export", "")
	zip, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for app, want := range map[string]int{"nothing": http.StatusNotFound, "TEST": http.StatusNotFound, "": http.StatusCreated, "test": http.StatusCreated} {
		var p api.Problem
		w.call(want, &p, "POST", "/v1/sessions/import?app="+app, string(zip), "Content-Type", "application/zip")
		if want == http.StatusNotFound && (p.Error.Field != "app" || p.Error.Hint == "" || !strings.Contains(p.Error.Message, app)) {
			t.Errorf("%q: %+v", app, p.Error)
		}
	}
	var list struct{ Sessions []parley.SessionInfo }
	if w.call(200, &list, "GET", "/v1/sessions", ""); len(list.Sessions) != 3 {
		t.Errorf("%d sessions are there, want the one and two imports", len(list.Sessions))
	}
}

// TestImport_of_nothing: the error for an import without a body says what to send.
func TestImport_of_nothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	resp := w.ask("POST", "/v1/sessions/import", "")
	if got := problem(t, resp); resp.StatusCode != http.StatusBadRequest || !strings.Contains(got.Hint, "zip file") {
		t.Errorf("got %d %+v", resp.StatusCode, got)
	}
}
