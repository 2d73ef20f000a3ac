package apitest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/api/apitest"
)

// TestAnswer tests the checker itself: it must find the fault in each answer.
func TestAnswer(t *testing.T) {
	t.Parallel()
	c := apitest.Of(t, api.New(api.Options{}))
	const turn = `{"id":"t","session_id":"s","status":"running","first_seq":1,"last_seq":2}`
	const refusal = `{"error":{"code":"not_found","message":"no"}}`
	for name, tt := range map[string]struct {
		method, path string
		status       int
		media, body  string
		want         string // part of the error; empty: no error
	}{
		"right":                     {"GET", "/healthz", 200, "application/json", `{"status":"ok"}`, ""},
		"a_list_that_is_null":       {"GET", "/v1/apps", 200, "application/json", `{"apps":null}`, "/apps"},
		"a_field_of_nobody":         {"GET", "/healthz", 200, "application/json", `{"status":"ok","more":1}`, "more"},
		"a_field_that_is_missing":   {"GET", "/healthz", 200, "application/json", `{}`, "status"},
		"not_json":                  {"GET", "/healthz", 200, "application/json", `{`, "EOF"},
		"another_media_type":        {"GET", "/healthz", 200, "text/plain", "hello", "media type"},
		"another_status":            {"GET", "/healthz", 418, "application/json", refusal, "not declared"},
		"a_refusal":                 {"GET", "/v1/sessions/a", 404, "application/json", refusal, ""},
		"a_refusal_in_another_form": {"GET", "/v1/sessions/a", 404, "application/json", `{"detail":"no"}`, "error"},
		"of_a_session_named_import": {"POST", "/v1/sessions/import", 404, "application/json", refusal, ""},
		"a_stream":                  {"GET", "/v1/sessions/a/events/stream", 200, "text/event-stream", "event: error\ndata: " + refusal + "\n\n", ""},
		"a_frame_of_nobody":         {"GET", "/v1/sessions/a/events/stream", 200, "text/event-stream", "data: " + refusal + "\n\ndata: {\"a\":1}\n\n", "document 2"},
		"a_stream_by_accept":        {"GET", "/v1/sessions/a/events", 200, "text/event-stream", "data: " + refusal + "\n\n", ""},
		"a_turn_by_accept":          {"POST", "/v1/sessions/a/turns", 200, "text/event-stream", "data: {}\n\n", "document 1"},
		"a_line":                    {"GET", "/v1/sessions/a/events/lines", 200, "application/x-ndjson", "{\"type\":\"reset\"}\n{\"cut", ""},
		"a_line_without_type":       {"GET", "/v1/sessions/a/events/lines", 200, "application/x-ndjson", "{\"a\":1}\n", "type"},
		"a_body_where_none_is":      {"DELETE", "/v1/sessions/a", 204, "application/json", turn, "none is declared"},
		"no_operation":              {"GET", "/assets/a.js", 200, "text/javascript", "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(tt.method, tt.path, nil)
			err := c.Answer(r, tt.status, http.Header{"Content-Type": {tt.media}}, []byte(tt.body))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
