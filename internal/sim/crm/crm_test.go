package crm_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/api/apitest"
	"github.com/parley-server/parley/internal/sim/crm"
)

// clock is a time that a test moves.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

var start = time.Date(2026, 5, 20, 9, 0, 0, 0, time.UTC)

// rig is a server whose answers are compared with its description.
type rig struct {
	*testing.T
	*crm.Server
	clock   *clock
	checker *apitest.Checker
}

func newRig(t *testing.T, o crm.Options) *rig {
	t.Helper()
	r := &rig{T: t, clock: &clock{start}}
	o.Now = r.clock.Now
	r.Server = crm.New(o)
	t.Cleanup(func() { _ = r.Server.Close() })
	r.checker = apitest.Of(t, r.Server)
	return r
}

// as is a user in an organisation.
type as struct {
	*rig
	token, org string
}

func (r *rig) as(name, org string) as {
	r.Helper()
	for _, u := range crm.Users() {
		if strings.HasPrefix(u.Email, name+"@") {
			token, err := r.Token(u.Email)
			if err != nil {
				r.Fatal(err)
			}
			return as{r, token, org}
		}
	}
	r.Fatalf("there is no %s", name)
	return as{}
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (a reply) json(t *testing.T) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

func (a as) do(method, path, body string, header ...string) reply {
	a.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "http://crm.test"+path, in)
	r.Header.Set("Authorization", "Bearer "+a.token)
	if a.org != "" {
		r.Header.Set("X-Org-Id", a.org)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	asked := r
	if o := r.Header.Get("X-HTTP-Method-Override"); o != "" {
		asked = r.Clone(r.Context())
		asked.Method = o
	}
	if err := a.checker.Answer(asked, w.Code, w.Header(), w.Body.Bytes()); err != nil {
		a.Errorf("%s %s: the description does not say so: %v", method, path, err)
	}
	return reply{w.Code, w.Header(), w.Body.String()}
}

// want does a request, and fails if the answer has another status.
func (a as) want(status int, method, path, body string, header ...string) reply {
	a.Helper()
	got := a.do(method, path, body, header...)
	if got.status != status {
		a.Fatalf("%s %s %s: got %d, want %d: %s", method, path, body, got.status, status, got.body)
	}
	return got
}

func (a as) items(path string) (list []map[string]any) {
	a.Helper()
	for _, v := range a.want(200, "GET", path, "").json(a.T)["items"].([]any) {
		list = append(list, v.(map[string]any))
	}
	return list
}

func (a as) total(path string) int {
	a.Helper()
	return int(a.want(200, "GET", path, "").json(a.T)["total"].(float64))
}

func TestDemoData(t *testing.T) {
	t.Parallel()
	r := newRig(t, crm.Options{})
	got := map[string]int{}
	for _, org := range []string{crm.Fieldnote, crm.Cargolane} {
		for _, k := range []string{"leads", "companies", "projects", "notes"} {
			got[k] += r.as("mara", org).total("/api/" + k)
		}
	}
	if got["leads"] < 110 || got["leads"] > 130 || got["companies"] != 40 || got["projects"] != 10 || got["notes"] < 50 {
		t.Error(got)
	}
	for _, l := range r.as("mara", crm.Fieldnote).items("/api/leads?page_size=100") {
		if l["company"] == nil || l["status"] != "new" && l["owner"] == nil {
			t.Errorf("%v", l)
		}
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	r := newRig(t, crm.Options{})
	mara := r.as("mara", crm.Fieldnote)
	all := mara.items("/api/leads?page_size=100")
	count := func(match func(l map[string]any) bool) (n int) {
		for _, l := range all {
			if match(l) {
				n++
			}
		}
		return n
	}
	if mara.total("/api/leads") != len(all) || len(all) < 70 {
		t.Fatalf("%d leads", len(all))
	}
	for query, match := range map[string]func(map[string]any) bool{
		"status=won":               func(l map[string]any) bool { return l["status"] == "won" },
		"status=new,contacted":     func(l map[string]any) bool { return l["status"] == "new" || l["status"] == "contacted" },
		"city=berlin":              func(l map[string]any) bool { return l["city"] == "Berlin" },
		"city=Tromso":              func(l map[string]any) bool { return l["city"] == "Tromsø" },
		"owner_id=none":            func(l map[string]any) bool { return l["owner_id"] == nil },
		"owner_id=user_mara,none":  func(l map[string]any) bool { return l["owner_id"] == nil || l["owner_id"] == "user_mara" },
		"min_score=60&status=lost": func(map[string]any) bool { return false },
		"min_value=20000":          func(l map[string]any) bool { return l["value"].(float64) >= 20000 },
		"max_score=30":             func(l map[string]any) bool { return l["score"].(float64) <= 30 },
		"created_from=2026-05-01":  func(l map[string]any) bool { return l["created_at"].(string) >= "2026-05-01" },
		"created_until=2026-04-30": func(l map[string]any) bool { return l["created_at"].(string) < "2026-05-01" },
		"last_contact_until=2026-04-30": func(l map[string]any) bool {
			day, ok := l["last_contact_on"].(string)
			return ok && day <= "2026-04-30"
		},
		"q=spreewerk":          func(l map[string]any) bool { return l["company"] == "Spreewerk Maschinenbau" },
		"q=SPREEWERK+berlin":   func(l map[string]any) bool { return l["company"] == "Spreewerk Maschinenbau" },
		"q=zurisee":            func(l map[string]any) bool { return l["company"] == "Zürisee Gebäudetechnik" },
		"country=norway,spain": func(l map[string]any) bool { return l["country"] == "Norway" || l["country"] == "Spain" },
		"unsubscribed=true":    func(map[string]any) bool { return false },
	} {
		want := count(match)
		if got := mara.total("/api/leads?page_size=1&" + query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	// Pages follow one another without gaps, whatever the order.
	for _, sort := range []string{"-value", "name", "status,-score", "last_contact_on"} {
		seen := map[any]bool{}
		for page := 1; page <= (len(all)+6)/7; page++ {
			for _, l := range mara.items(fmt.Sprintf("/api/leads?page_size=7&page=%d&sort=%s", page, url.QueryEscape(sort))) {
				seen[l["id"]] = true
			}
		}
		if len(seen) != len(all) {
			t.Errorf("%s: %d of %d", sort, len(seen), len(all))
		}
	}
	top := mara.items("/api/leads?sort=-value&page_size=3&fields=name,value")
	for i, l := range top {
		if len(l) != 3 || l["id"] == nil || i > 0 && l["value"].(float64) > top[i-1]["value"].(float64) {
			t.Errorf("%v", top)
		}
	}
	sum := mara.want(200, "GET", "/api/leads/summary?group_by=status&min_score=50", "").json(t)
	if int(sum["total"].(float64)) != mara.total("/api/leads?min_score=50") {
		t.Errorf("%v", sum)
	}
	for _, g := range mara.want(200, "GET", "/api/leads/summary?group_by=owner_id", "").json(t)["items"].([]any) {
		if g := g.(map[string]any); g["key"] == "user_jonas" && g["name"] != "Jonas Weber" {
			t.Errorf("%v", g)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	r := newRig(t, crm.Options{})
	mara := r.as("mara", crm.Fieldnote)
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/api/leads?stauts=won", "", 422, "stauts"},
		{"GET", "/api/leads?status=open", "", 422, "is none of"},
		{"GET", "/api/leads?page_size=101", "", 422, "from 1 to 100"},
		{"GET", "/api/leads?sort=phone", "", 422, "Give one of"},
		{"GET", "/api/leads?fields=secret", "", 422, "is none of"},
		{"GET", "/api/leads?q=a&q=b", "", 422, "one value"},
		{"GET", "/api/leads?created_from=yesterday", "", 422, "2026-05-31"},
		{"GET", "/api/leads/summary?group_by=email", "", 422, "Give one of"},
		{"GET", "/api/leads/lead-9999", "", 404, "no such lead"},
		{"GET", "/api/nothing", "", 404, "nothing here"},
		{"PATCH", "/api/leads/lead-1", `{}`, 405, "GET, PUT, DELETE"},
		{"POST", "/api/leads", `{"email":"a"}`, 422, `"name"`},
		{"POST", "/api/leads", `{"name":"A","email":"a@b"}`, 422, `"email"`},
		{"POST", "/api/leads", `{"name":"A","status":"open"}`, 422, "qualified"},
		{"POST", "/api/leads", `{"name":"A","score":101}`, 422, "from 0 to 100"},
		{"POST", "/api/leads", `{"name":"A","id":"lead-1"}`, 422, "no such field"},
		{"POST", "/api/leads", `{"name":"A","created_at":"2026-01-01"}`, 422, "fills this in"},
		{"POST", "/api/leads", `{"name":"A","company_id":"company-999"}`, 422, "no company-999"},
		{"POST", "/api/leads", `{"name":"A","owner_id":"user_priya"}`, 422, "no user_priya"},
		{"POST", "/api/leads", `{"name":"A"} {}`, 422, "nothing behind"},
		{"POST", "/api/leads", `["a"]`, 422, "object"},
		{"POST", "/api/leads", `{"name":null}`, 422, "cannot be empty"},
		{"PUT", "/api/leads/lead-1", `{}`, 422, "are to change"},
		{"POST", "/api/notes", `{"text":"hello"}`, 422, "one of lead_id"},
		{"POST", "/api/notes", `{"text":"hello","lead_id":"lead-1","company_id":"company-1"}`, 422, "one of lead_id"},
		{"DELETE", "/api/companies/company-1", "", 409, "leads"},
		{"POST", "/api/leads", `{"name":"` + strings.Repeat("x", 70_000) + `"}`, 413, "65536"},
	} {
		got := mara.do(c.method, c.path, c.body)
		if got.status != c.status || !strings.Contains(got.body, c.says) {
			t.Errorf("%s %s %.60s: %d %s", c.method, c.path, c.body, got.status, got.body)
		}
	}
	if n := len(r.Writes()); n != 0 {
		t.Errorf("%d writes", n)
	}
	mara.want(415, "POST", "/api/leads", `{"name":"A"}`, "Content-Type", "text/plain")
	if got := mara.want(308, "GET", "/api/leads/?q=a", ""); got.header.Get("Location") != "/api/leads?q=a" {
		t.Error(got.header)
	}
}

func TestWrites(t *testing.T) {
	t.Parallel()
	r := newRig(t, crm.Options{})
	jonas := r.as("jonas", "") // who has one organisation
	lead := jonas.want(201, "POST", "/api/leads", `{"name":"Ana Ruiz","email":"ana@ruiz.example","city":"Berlin"}`).json(t)
	if lead["status"] != "new" || lead["score"] != 0.0 || lead["created_at"] != "2026-05-20T09:00:00Z" || lead["owner"] != nil {
		t.Errorf("%v", lead)
	}
	at := "/api/leads/" + lead["id"].(string)
	jonas.want(409, "POST", "/api/leads", `{"name":"Ana","email":"ANA@ruiz.example"}`)
	r.clock.now = r.clock.now.Add(time.Hour)
	lead = jonas.want(200, "PUT", at, `{"status":"qualified","owner_id":"user_jonas","city":null}`).json(t)
	if lead["status"] != "qualified" || lead["owner"] != "Jonas Weber" || lead["city"] != nil || lead["name"] != "Ana Ruiz" || lead["updated_at"] != "2026-05-20T10:00:00Z" {
		t.Errorf("%v", lead)
	}
	note := jonas.want(201, "POST", "/api/notes", `{"text":"Called.\nWill call back.","lead_id":"`+lead["id"].(string)+`"}`).json(t)
	if note["lead"] != "Ana Ruiz" || note["author"] != "Jonas Weber" || note["pinned"] != false {
		t.Errorf("%v", note)
	}
	if got := jonas.want(200, "GET", at+"/unsubscribe", "").json(t); got["unsubscribed"] != true {
		t.Errorf("%v", got)
	}
	jonas.want(200, "HEAD", at+"/unsubscribe", "")
	jonas.want(204, "POST", at, "", "X-HTTP-Method-Override", "DELETE")
	jonas.want(404, "GET", at, "")
	jonas.want(404, "GET", "/api/notes/"+note["id"].(string), "")
	jonas.want(204, "DELETE", "/api/projects/project-1", "")
	if n := jonas.total("/api/leads?project_id=project-1"); n != 0 {
		t.Errorf("%d leads of a project that is gone", n)
	}
	var did []string
	for _, w := range r.Writes() {
		did = append(did, w.Method+" "+w.Path)
	}
	if got := strings.Join(did, "\n"); len(did) != 6 || did[4] != "DELETE "+at || r.Counts().Writes != 6 {
		t.Errorf("%s", got)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, crm.Options{})
	mara := r.as("mara", crm.Fieldnote)
	first := mara.want(201, "POST", "/api/leads", `{"name":"Ana Ruiz"}`, "Idempotency-Key", `"k1"`)
	again := mara.want(201, "POST", "/api/leads", `{"name":"Ana Ruiz"}`, "Idempotency-Key", "k1")
	if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s\n%s", first.body, again.body)
	}
	mara.want(422, "POST", "/api/leads", `{"name":"Ana  Ruiz"}`, "Idempotency-Key", "k1")
	r.as("jonas", "").want(201, "POST", "/api/leads", `{"name":"Ana Ruiz"}`, "Idempotency-Key", "k1") // a key is its user's
	r.clock.now = r.clock.now.Add(25 * time.Hour)
	mara.token = r.as("mara", "").token
	mara.want(201, "POST", "/api/leads", `{"name":"Ana Ruiz"}`, "Idempotency-Key", "k1")
	for range 2 { // companies take none
		mara.want(201, "POST", "/api/companies", `{"name":"Ruiz"}`, "Idempotency-Key", "k2")
	}
	if c := r.Counts(); c.Writes != 5 || c.Replays != 1 {
		t.Errorf("%+v", c)
	}
}

func TestOrganisations(t *testing.T) {
	t.Parallel()
	r := newRig(t, crm.Options{})
	mara, ruben := r.as("mara", crm.Fieldnote), r.as("ruben", crm.Cargolane)
	for _, k := range []string{"leads", "companies", "projects", "notes"} {
		id := mara.items("/api/" + k + "?page_size=1")[0]["id"].(string)
		at := "/api/" + k + "/" + id
		ruben.want(404, "GET", at, "")
		ruben.want(404, "PUT", at, `{"name":"mine"}`)
		ruben.want(404, "DELETE", at, "")
		if n := ruben.total("/api/" + k + "?q=" + id); n != 0 {
			t.Errorf("%s: %d", k, n)
		}
		mara.want(200, "GET", at, "")
	}
	lead := mara.items("/api/leads?page_size=1")[0]["id"].(string)
	ruben.want(404, "GET", "/api/leads/"+lead+"/unsubscribe", "")
	ruben.want(422, "POST", "/api/notes", `{"text":"x","lead_id":"`+lead+`"}`)
	ruben.org = crm.Fieldnote
	ruben.want(403, "GET", "/api/leads", "")
	ruben.want(403, "POST", "/api/leads", `{"name":"A"}`)
	mara.org = ""
	mara.want(422, "GET", "/api/leads", "") // she has two
	mara.org = "org_none"
	mara.want(403, "GET", "/api/leads", "")
	aiko := r.as("aiko", "")
	aiko.want(200, "GET", "/api/leads", "")
	aiko.want(403, "POST", "/api/leads", `{"name":"A"}`)
	aiko.want(403, "GET", "/api/leads/"+lead+"/unsubscribe", "")
	if len(r.Writes()) != 0 {
		t.Error(r.Writes())
	}
}

func TestLogins(t *testing.T) {
	t.Parallel()
	r := newRig(t, crm.Options{TokenTTL: time.Hour})
	nobody := as{rig: r}
	nobody.want(401, "GET", "/api/leads", "")
	nobody.want(401, "POST", "/api/login", `{"email":"mara@fieldnote.example","password":"wrong"}`)
	in := nobody.want(200, "POST", "/api/login", `{"email":"Mara@fieldnote.example","password":"demo"}`).json(t)
	if in["expires_at"] != "2026-05-20T10:00:00Z" {
		t.Error(in)
	}
	mara := as{r, in["token"].(string), crm.Fieldnote}
	me := mara.want(200, "GET", "/api/me", "").json(t)
	if me["id"] != "user_mara" || len(me["orgs"].([]any)) != 2 || me["expires_at"] != "2026-05-20T10:00:00Z" {
		t.Error(me)
	}
	if n := mara.total("/api/users"); n != 3 {
		t.Errorf("%d users", n)
	}
	other := r.as("mara", crm.Fieldnote)
	other.want(204, "POST", "/api/logout", "")
	other.want(401, "GET", "/api/me", "")
	r.clock.now = r.clock.now.Add(time.Hour)
	mara.want(401, "GET", "/api/me", "")
	for range 10 {
		nobody.want(401, "POST", "/api/login", `{"email":"mara@fieldnote.example","password":"guess"}`)
	}
	if got := nobody.want(429, "POST", "/api/login", `{"email":"mara@fieldnote.example","password":"demo"}`); got.header.Get("Retry-After") != "60" {
		t.Error(got.header)
	}
}

func TestLimitsAndFaults(t *testing.T) {
	t.Parallel()
	r := newRig(t, crm.Options{Settings: crm.Settings{PerMinute: 3}})
	mara := r.as("mara", crm.Fieldnote)
	for range 3 {
		mara.want(200, "GET", "/api/users", "")
	}
	r.clock.now = r.clock.now.Add(20 * time.Second)
	if got := mara.want(429, "GET", "/api/users", ""); got.header.Get("Retry-After") != "40" {
		t.Error(got.header)
	}
	r.as("jonas", "").want(200, "GET", "/api/users", "")
	r.clock.now = r.clock.now.Add(40 * time.Second)
	mara.want(200, "GET", "/api/users", "")
	r.Set(func(s *crm.Settings) { s.Down = true })
	mara.want(503, "GET", "/api/users", "")
	r.Set(func(s *crm.Settings) { s.Down = false })
	r.Fail(crm.Fault{Method: "POST", Lost: true})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an answer that was to be lost came")
			}
		}()
		mara.do("POST", "/api/companies", `{"name":"Ruiz"}`)
	}()
	if n := mara.total("/api/companies?name=ruiz"); n != 1 {
		t.Errorf("%d", n)
	}
	r.Fail(crm.Fault{Path: "/users", Status: 503})
	r.clock.now = r.clock.now.Add(time.Minute)
	mara.want(503, "GET", "/api/users", "")
	mara.want(200, "GET", "/api/users", "")
}

// TestKept: a database has what the last server wrote.
func TestKept(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/crm.db"
	first := newRig(t, crm.Options{File: file})
	mara := first.as("mara", crm.Fieldnote)
	id := mara.want(201, "POST", "/api/leads", `{"name":"Ana Ruiz"}`, "Idempotency-Key", "k1").json(t)["id"].(string)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := newRig(t, crm.Options{File: file})
	mara.rig = second
	if got := mara.want(200, "GET", "/api/leads/"+id, "").json(t); got["name"] != "Ana Ruiz" {
		t.Error(got)
	}
	mara.want(201, "POST", "/api/leads", `{"name":"Ana Ruiz"}`, "Idempotency-Key", "k1")
	if c := second.Counts(); c.Writes != 0 || c.Replays != 1 {
		t.Errorf("%+v", c)
	}
}
