package leads_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/leads"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/conversations"
	"github.com/parley-server/parley/internal/wire"
)

type userKey struct{}

// TestConversations: each user in each organisation has own ones, and what another has is not found.
func TestConversations(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	c := leads.Conversations{
		Store: conversations.New(nil, func() time.Time { now = now.Add(time.Second); return now }), Fail: api.WriteError, Limits: wire.Limits{}.Defaults(),
		Principal: func(ctx context.Context) (parley.Principal, error) {
			return ctx.Value(userKey{}).(parley.Principal), nil
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/chat/conversations", c.List)
	mux.HandleFunc("POST /api/chat/conversations", c.Create)
	mux.HandleFunc("GET /api/chat/conversations/{id}", c.Get)
	mux.HandleFunc("PUT /api/chat/conversations/{id}", c.Update)
	mux.HandleFunc("DELETE /api/chat/conversations/{id}", c.Delete)
	mara := parley.Principal{User: "mara", Org: "a"}
	do := func(p parley.Principal, method, path, body string, status int) (http.Header, string) {
		t.Helper()
		r := httptest.NewRequest(method, "/api/chat/conversations"+path, strings.NewReader(body))
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, p)))
		raw, _ := io.ReadAll(w.Result().Body)
		if w.Code != status {
			t.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, w.Code, raw, status)
		}
		return w.Header(), strings.TrimSpace(string(raw))
	}
	type kept struct {
		ID, Title string
		Messages  json.RawMessage
	}
	parse := func(raw string) (k kept) {
		t.Helper()
		if err := json.Unmarshal([]byte(raw), &k); err != nil {
			t.Fatal(err)
		}
		return k
	}
	if _, got := do(mara, "GET", "", "", 200); got != "[]" {
		t.Errorf("got %s", got)
	}
	_, raw := do(mara, "POST", "", "", 201)
	first := parse(raw)
	if first.Title != "New conversation" || string(first.Messages) != "[]" || len(first.ID) != 36 {
		t.Errorf("got %s", raw)
	}
	const messages = `[{"role":"user","content":"Grüße <b>\u003c","n":1.50}]`
	_, raw = do(mara, "POST", "", `{"title":"Second","messages":`+messages+`,"other":1}`, 201)
	second := parse(raw)
	if string(second.Messages) != messages {
		t.Errorf("got %s", second.Messages)
	}
	if _, raw = do(mara, "PUT", "/"+second.ID, `{"title":"Renamed","messages":null}`, 200); parse(raw).Title != "Renamed" || string(parse(raw).Messages) != messages {
		t.Errorf("got %s", raw)
	}
	head, raw := do(mara, "GET", "?limit=1", "", 200)
	if strings.Contains(raw, "messages") || !strings.Contains(raw, second.ID) || head.Get("X-Next-Cursor") == "" {
		t.Errorf("got %s, %v", raw, head)
	}
	head, raw = do(mara, "GET", "?limit=1&cursor="+head.Get("X-Next-Cursor"), "", 200)
	if !strings.Contains(raw, first.ID) || head.Get("X-Next-Cursor") != "" {
		t.Errorf("got %s, %v", raw, head)
	}
	if _, raw = do(mara, "GET", "?q=grüße", "", 200); !strings.Contains(raw, second.ID) || strings.Contains(raw, first.ID) {
		t.Errorf("got %s", raw)
	}
	for _, other := range []parley.Principal{{User: "mara", Org: "b"}, {User: "mara"}, {User: "jonas", Org: "a"}} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			_, theirs := do(other, method, "/"+second.ID, "{}", 404)
			_, none := do(other, method, "/00000000-0000-4000-8000-000000000000", "{}", 404)
			if diff := cmp.Diff(strings.ReplaceAll(none, "00000000-0000-4000-8000-000000000000", "X"), strings.ReplaceAll(theirs, second.ID, "X")); diff != "" || !strings.Contains(theirs, `"detail":"`) {
				t.Errorf("%s: %s", method, diff)
			}
		}
		if _, raw := do(other, "GET", "", "", 200); raw != "[]" {
			t.Errorf("%v sees %s", other, raw)
		}
	}
	for _, bad := range []string{`[]`, `x`, `{"title":7}`, `{"messages":{}}`, `{"messages":"[]"}`, `{"title":"a","title":"b"}`, `{} {}`} {
		do(mara, "POST", "", bad, 400)
	}
	for _, bad := range []string{"?limit=0", "?limit=x", "?cursor=x", "?limit=501"} {
		do(mara, "GET", bad, "", 400)
	}
	do(mara, "DELETE", "/"+second.ID, "", 204)
	do(mara, "GET", "/"+second.ID, "", 404)
}
