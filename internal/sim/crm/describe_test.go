package crm_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/parley-server/parley/internal/sim/crm"
)

// described is the description as others read it.
func described(t *testing.T) (*openapi3.T, routers.Router) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(crm.Description())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return doc, router
}

// permits says whether the description allows a request.
func permits(t *testing.T, router routers.Router, method, path, body string, header http.Header) error {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header = header
	route, params, err := router.FindRoute(r)
	if err != nil {
		return err
	}
	return openapi3filter.ValidateRequest(t.Context(), &openapi3filter.RequestValidationInput{
		Request: r, Route: route, PathParams: params,
		Options: &openapi3filter.Options{AuthenticationFunc: func(context.Context, *openapi3filter.AuthenticationInput) error { return nil }},
	})
}

// TestDescription: what the description allows is accepted, and what it does not allow is refused.
// The answers of all other tests are compared with it, too.
func TestDescription(t *testing.T) {
	t.Parallel()
	doc, router := described(t)
	r := newRig(t, crm.Options{Settings: crm.Settings{PerMinute: 100_000}})
	mara := r.as("mara", crm.Fieldnote)
	header := http.Header{"Content-Type": {"application/json"}}
	values := map[string]string{
		"q": "a", "id": "lead-1", "name": "Ana", "page": "2", "page_size": "3", "fields": "id", "sort": "created_at", "group_by": "city", "unsubscribed": "true", "pinned": "false",
	}
	// Every parameter is one, alone.
	seen := 0
	for path, item := range doc.Paths.Map() {
		if item.Get == nil || item.Get.Extensions["x-effect"] != nil {
			continue
		}
		for _, ref := range item.Get.Parameters {
			p := ref.Value
			if p.In != "query" {
				continue
			}
			seen++
			value := values[p.Name]
			schema := p.Schema.Value
			if schema.Items != nil {
				schema = schema.Items.Value
			}
			switch {
			case value != "" && len(schema.Enum) == 0:
			case len(schema.Enum) > 0:
				value = schema.Enum[0].(string)
			case schema.Type.Is("integer"):
				value = "5"
			case schema.Format == "date":
				value = "2026-05-01"
			default:
				value = "Berlin"
			}
			at := strings.NewReplacer("/leads/{id}", "/leads/lead-1", "/companies/{id}", "/companies/company-1", "/projects/{id}", "/projects/project-1", "/notes/{id}", "/notes/note-1").Replace(path) +
				"?" + p.Name + "=" + value
			if strings.HasSuffix(path, "/summary") && p.Name != "group_by" {
				at += "&group_by=" + summaryOf(doc, path)
			}
			if err := permits(t, router, "GET", at, "", header); err != nil {
				t.Errorf("%s: %v", at, err)
			}
			mara.want(200, "GET", at, "")
		}
	}
	if seen < 90 {
		t.Errorf("%d parameters", seen)
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/api/leads", `{"name":"Ana Ruiz","email":"ana@ruiz.example","phone":"+49 30 1","title":"COO","company_id":"company-1","project_id":null,"owner_id":"user_mara","city":"Berlin","country":"Germany","status":"new","source":null,"score":100,"value":0,"last_contact_on":"2026-05-01","unsubscribed":false}`},
		{"POST", "/api/companies", `{"name":"Ruiz","industry":"energy","size":"1-10","plan":"free","active_users":3,"description":null}`},
		{"POST", "/api/projects", `{"name":"Spring","starts_on":"2026-05-01","due_on":null,"target":5}`},
		{"POST", "/api/notes", `{"text":"Called.","project_id":"project-1","pinned":true}`},
		{"PUT", "/api/leads/lead-1", `{"status":"won"}`},
		{"POST", "/api/leads", `{}`},
		{"POST", "/api/leads", `{"name":"Ana","email":7}`},
		{"POST", "/api/leads", `{"name":"","score":5}`},
		{"POST", "/api/leads", `{"name":"Ana","score":"5"}`},
		{"POST", "/api/leads", `{"name":"Ana","score":-1}`},
		{"POST", "/api/leads", `{"name":"Ana","score":1.5}`},
		{"POST", "/api/leads", `{"name":"Ana","status":null}`},
		{"POST", "/api/leads", `{"name":"Ana","status":"open"}`},
		{"POST", "/api/leads", `{"name":"Ana","company":"Ruiz"}`},
		{"POST", "/api/leads", `{"name":"Ana","city":"` + strings.Repeat("x", 81) + `"}`},
		{"POST", "/api/companies", `{"name":"Ruiz","size":"12"}`},
		{"POST", "/api/notes", `{"text":"","lead_id":"lead-1"}`},
		{"PUT", "/api/leads/lead-1", `{}`},
		{"PUT", "/api/leads/lead-1", `{"name":null}`},
		{"PUT", "/api/leads/lead-1", `{"created_at":"2026-05-01T00:00:00Z"}`},
		{"GET", "/api/leads?page_size=0", ""},
		{"GET", "/api/leads?status=open", ""},
		{"GET", "/api/leads?sort=phone", ""},
		{"GET", "/api/leads?min_score=high", ""},
		{"GET", "/api/leads/summary", ""},
	} {
		allowed := permits(t, router, c.method, c.path, c.body, header)
		got := mara.do(c.method, c.path, c.body)
		if (allowed == nil) != (got.status < 300) {
			t.Errorf("%s %s %.80s: %d %s; by the description: %v", c.method, c.path, c.body, got.status, got.body, allowed)
		}
	}
	// Only what the description names takes a key.
	for path, item := range doc.Paths.Map() {
		if item.Post == nil || strings.Contains(path, "log") {
			continue
		}
		keyed := item.Post.Parameters.GetByInAndName("header", "Idempotency-Key") != nil
		if want := path == "/api/leads" || path == "/api/projects"; keyed != want {
			t.Errorf("%s: %v", path, keyed)
		}
	}
}

func summaryOf(doc *openapi3.T, path string) string {
	return doc.Paths.Value(path).Get.Parameters.GetByInAndName("query", "group_by").Schema.Value.Enum[0].(string)
}
