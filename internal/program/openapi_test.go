package program_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
)

const postKey = "a-key-of-the-post-office"

// postOffice is an API that sends mails and outlives the server.
type postOffice struct {
	*httptest.Server
	hang int // this many calls get no answer before their client disconnects

	mu      sync.Mutex
	calls   int
	mailed  map[string]string // text by key
	arrived chan struct{}     // closed at the first call
}

const postDescription = `openapi: 3.1.0
servers: [{url: /v1}]
paths:
  /mail:
    post:
      operationId: sendMail
      summary: Mails a text.
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: "#/components/schemas/Mail"}}}
components: {schemas: {Mail: {type: object, required: [text], properties: {text: {type: string}}}}}
`

func newPostOffice(t *testing.T, hang int) *postOffice {
	p := &postOffice{hang: hang, mailed: map[string]string{}, arrived: make(chan struct{})}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.yaml" {
			if r.Header.Get("Authorization") != "" {
				t.Error("the description is fetched with credentials")
			}
			fmt.Fprint(w, postDescription)
			return
		}
		var mail struct{ Text string }
		if err := json.NewDecoder(r.Body).Decode(&mail); err != nil || r.URL.Path != "/v1/mail" || r.Header.Get("Authorization") != "Bearer "+postKey {
			t.Errorf("%s with %v: %v", r.URL.Path, r.Header, err)
		}
		p.mu.Lock()
		p.calls++
		n := p.calls
		p.mailed[r.Header.Get("X-Key")] = mail.Text
		p.mu.Unlock()
		if n == 1 {
			close(p.arrived)
		}
		if n <= p.hang {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"state":"mailed %s","key":%q,"stamp":"1"}`, mail.Text, postKey)
	}))
	t.Cleanup(p.Close)
	return p
}

// withPost gives the program an app whose tool is an operation of the API.
func (p *place) withPost(from, operation string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, "apps", "post")
	p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
	p.write(filepath.Join(dir, "api.yaml"), postDescription)
	p.write(filepath.Join(dir, "app.yaml"), `model: test/clerk
agents:
  clerk: {prompt: clerk.md, tools: [mail]}
tools:
  openapi:
`+from+`    auth: {bearer: "${POST_KEY}"}
    operations:
`+operation+`policy: {rules: [{verdict: allow}]}
resume: auto
`)
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(dir), "PARLEY_ENABLED=post", "PARLEY_TEST_DESK=http://127.0.0.1:1", "POST_KEY="+postKey)
}

const mailOperation = "      - {operation: sendMail, name: mail, fields: [state, key]}\n"

// TestAPI_by_its_description: a tool is an operation of an API. The API's description is a file
// or is fetched. The API's answer is cut, stored, and free of secrets.
func TestAPI_by_its_description(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]string{"a file": "    file: api.yaml\n    base_url: %s/v1\n", "a url": "    url: %s/openapi.yaml\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newPostOffice(t, 0)
			p := newPlace(t)
			p.withPost(fmt.Sprintf(from, l.URL), mailOperation)
			if code, out, errs := p.run("app", "check"); code != 0 || !strings.Contains(out, "post: 1 agent, 1 tool") {
				t.Fatalf("app check: exit %d\n%s%s", code, out, errs)
			}
			s := p.serve()
			id := s.session("post")
			turn := s.settle(s.send(id, "mail hello").ID)
			if turn.Status != parley.StatusCompleted || !strings.Contains(turn.Response.Message, "mailed hello") || l.calls != 1 {
				t.Errorf("%+v after %d calls", turn, l.calls)
			}
			log := strings.Join(s.log(id), "\n")
			if strings.Contains(log, postKey) || !strings.Contains(log, "artifact.stored") || strings.Contains(log, "stamp") {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
}

// TestAPI_killed_in_a_write: the server dies while the API works. A call is repeated only with
// the key by which the API recognises it.
func TestAPI_killed_in_a_write(t *testing.T) {
	t.Parallel()
	for name, keyed := range map[string]bool{"an API that takes a key": true, "one that takes none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newPostOffice(t, 1)
			p := newPlace(t)
			operation := mailOperation
			if keyed {
				operation = "      - {operation: POST /mail, name: mail, effect: idempotent, key_header: X-Key, key_ttl: 1h}\n"
			}
			p.withPost("    url: "+l.URL+"/openapi.yaml\n", operation)
			s := p.serve()
			turn := s.send(s.session("post"), "mail hello").ID
			select {
			case <-l.arrived:
			case <-time.After(within):
				t.Fatal("the API was not called")
			}
			s.kill()
			s = p.serve()
			if !keyed {
				if in := s.interaction(s.waiting(turn).Interactions[0]); in.Kind != parley.KindUnknown {
					t.Errorf("a person is asked %+v", in)
				}
			}
			end := s.settle(turn)
			if end.Status != parley.StatusCompleted || strings.Contains(end.Response.Message, "mailed hello") != keyed {
				t.Errorf("%+v with %+v", end, end.Response)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if want := map[bool]int{true: 2, false: 1}[keyed]; l.calls != want || len(l.mailed) != 1 {
				t.Errorf("the API was called %d times, for %d mails", l.calls, len(l.mailed))
			}
		})
	}
}

// TestAPI_that_is_wrong: each mistake is reported with its line.
func TestAPI_that_is_wrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, operation string
		says            []string
	}{
		{
			"    file: api.yaml\n    timeout: -1s\n", "      - sendMial\n      - {operation: sendMail, name: a b, effect: raed, key_header: 'X Key'}\n      - name: x\n",
			[]string{
				`app.yaml:7: tools.openapi.timeout: has to be more than 0`,
				`app.yaml:10: tools.openapi.operations[0]: api.yaml has no operation "sendMial"; it has sendMail`,
				`app.yaml:11: tools.openapi.operations[1].name: "a b" cannot be a tool's name`,
				`app.yaml:11: tools.openapi.operations[1].effect: "raed" is not one of`,
				`app.yaml:11: tools.openapi.operations[1].key_header: "X Key" is not a valid header name`,
				`app.yaml:11: tools.openapi.operations[1]: sendMail has its server at /v1`,
				`app.yaml:12: tools.openapi.operations[2]: names no operation`,
			},
		},
		{"    file: api.yaml\n", mailOperation, []string{`app.yaml:9: tools.openapi.operations[0]: sendMail has its server at /v1, and the description does not decide where calls go; set base_url`}},
		{"    file: none.yaml\n", mailOperation, []string{`app.yaml:6: tools.openapi.file: none.yaml is missing`}},
		{"    base_url: http://x\n", mailOperation, []string{`app.yaml:5: tools.openapi: has no description; name a file with it, or its url`}},
		{"    file: app.yaml\n", mailOperation, []string{`app.yaml:6: tools.openapi.file: app.yaml is not an OpenAPI description`}},
		{"    url: http://127.0.0.1:1/openapi.json\n", mailOperation, []string{`app.yaml:6: tools.openapi.url: the description could not be fetched`}},
		{"    file: api.yaml\n    base_url: http://x\n", "      []\n", []string{`app.yaml:9: tools.openapi.operations: lists no operation; each listed operation becomes a tool; api.yaml has sendMail`}},
		{"    file: api.yaml\n    base_url: http://x\n    operation: [a]\n", mailOperation, []string{`app.yaml:8: tools.openapi.operation: unknown key`}},
	} {
		p := newPlace(t)
		p.withPost(c.from, c.operation)
		code, out, _ := p.run("app", "check")
		for _, says := range c.says {
			if code != 1 || !strings.Contains(out, says) {
				t.Errorf("%s%sexit %d without %q:\n%s", c.from, c.operation, code, says, out)
			}
		}
		if n := strings.Count(out, "app.yaml:"); n != len(c.says) {
			t.Errorf("%s%s%d mistakes:\n%s", c.from, c.operation, n, out)
		}
	}
	p := newPlace(t)
	p.withPost("    file: api.yaml\n    base_url: http://x\n", mailOperation+"    headers: 1\n")
	app := filepath.Join(p.dir, "apps", "post", "app.yaml")
	raw, err := os.ReadFile(app)
	if err != nil {
		t.Fatal(err)
	}
	p.write(app, strings.Replace(string(raw), `{bearer: "${POST_KEY}"}`, `{basic: {user: u}, header: {name: "X Y", value: ""}}`, 1))
	code, out, _ := p.run("app", "check")
	for _, says := range []string{
		`app.yaml:8: tools.openapi.auth: has basic and header; leave all but one of them out`, `app.yaml:8: tools.openapi.auth.basic: has no password`,
		`app.yaml:8: tools.openapi.auth.header: has no value`, `app.yaml:8: tools.openapi.auth.header.name: "X Y" is not a valid header name`,
	} {
		if code != 1 || !strings.Contains(out, says) {
			t.Errorf("exit %d without %q:\n%s", code, says, out)
		}
	}
}

// TestAPI_that_is_away: an app whose description cannot be fetched does not stop other apps
// from being served.
func TestAPI_that_is_away(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.withPost("    url: http://127.0.0.1:1/openapi.json\n", mailOperation)
	p.env = append(p.env, "PARLEY_ENABLED=post,chaos")
	s := p.serve()
	s.session("chaos")
}
