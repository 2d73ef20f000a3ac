package openapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

const shop = `openapi: 3.1.0
servers: [{url: "https://api.example.com/v1"}]
components:
  parameters:
    trace: {name: X-Trace, in: header, schema: {type: string}}
  schemas:
    Item:
      type: object
      required: [name, id]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string}
        parent: {$ref: "#/components/schemas/Item"}
        labels: {type: object, additionalProperties: {type: string}}
        note: {type: [string, "null"]}
    Sized: {allOf: [{$ref: "#/components/schemas/Item"}, {type: object, required: [size], properties: {size: {enum: [s, m]}}}]}
paths:
  /items/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string}}
      - {$ref: "#/components/parameters/trace"}
    get:
      operationId: items.get
      summary: Gets an item.
      parameters:
        - {name: Authorization, in: header, schema: {type: string}}
        - {name: x-http-method-override, in: header, schema: {type: string}}
        - {name: session, in: cookie, schema: {type: string}}
        - {name: tags, in: query, schema: {type: array, items: {type: string}}}
        - {name: csv, in: query, explode: false, schema: {type: array, items: {type: string}}}
        - {name: pipe, in: query, style: pipeDelimited, schema: {type: array, items: {type: string}}}
        - {name: filter, in: query, style: deepObject, schema: {type: object, properties: {a: {type: integer}, b: {type: array, items: {type: string}}}}}
        - {name: flat, in: query, schema: {type: object, properties: {x: {type: integer}, y: {type: boolean}}}}
        - {name: "page[size]", in: query, schema: {type: integer}}
        - {name: json, in: query, content: {application/json: {schema: {type: object, properties: {z: {type: integer}}}}}}
    put:
      operationId: items.put
      requestBody:
        required: true
        content: {application/json: {schema: {allOf: [{$ref: "#/components/schemas/Sized"}, {properties: {id: {type: string}}}]}}}
    delete: {operationId: items.delete}
  /items:
    post:
      operationId: items.add
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: {type: object, properties: {name: {type: string}, meta: {type: object, additionalProperties: {type: string}}, list: {type: array, items: {type: string}}, free: {type: object, properties: {q: {type: number}}}}}
            encoding: {meta: {style: deepObject, explode: true}}
  /bulk:
    post:
      operationId: bulk
      requestBody: {content: {application/json: {schema: {type: array, items: {$ref: "#/components/schemas/Item"}}}}}
  /any:
    post:
      operationId: any
      requestBody: {required: true, content: {application/json: {schema: {oneOf: [{type: object, required: [a], properties: {a: {type: string}}}, {type: object, required: [a], properties: {a: {type: array, items: {type: string}}, b: {}}}]}}}}
  /text:
    post: {operationId: text, requestBody: {content: {text/plain: {schema: {type: string}}}}}
  /files:
    post: {operationId: files, requestBody: {content: {multipart/form-data: {schema: {type: object, properties: {file: {type: string, format: binary}, n: {type: integer}}}}}}}
  /label/{a}/{b}:
    get:
      parameters:
        - {name: a, in: path, required: true, style: label, schema: {type: array, items: {type: string}}}
        - {name: b, in: path, required: true, style: matrix, explode: true, schema: {type: array, items: {type: string}}}
`

func ops(names ...string) (list []Operation) {
	for _, n := range names {
		list = append(list, Operation{Operation: n})
	}
	return list
}

func toolset(t *testing.T, o Options) *Toolset {
	t.Helper()
	o.Name = "shop.yaml"
	if o.Description == nil {
		o.Description = []byte(shop)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, err := toolbox.New([]seam.Toolset{s}, toolbox.Options{}); err != nil {
		t.Fatal(err)
	}
	return s
}

func run(tool, input string) seam.Run {
	return seam.Run{Call: "01J", Name: tool, Input: json.RawMessage(input), Effect: parley.EffectWrite, Attempt: 1, Keep: func(seam.File) error { return nil }}
}

// TestRequests: how each kind of input is written.
func TestRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ operation, input, want string }{
		{"items.get", `{"id":"a/b c","X-Trace":"t","session":"s;1"}`, "GET /v1/items/a%2Fb%20c X-Trace=t Cookie=session=s%3B1"},
		{"items.get", `{"id":"1","tags":["a","b&c"],"csv":["x","y,z"],"pipe":["p","q"]}`, "GET /v1/items/1?tags=a&tags=b%26c&csv=x,y%2Cz&pipe=p%7Cq"},
		{
			"items.get", `{"id":"1","filter":{"a":1,"b":["x"]},"flat":{"x":12345678901234567890,"y":true},"page_size":5,"json":{"z":1}}`,
			"GET /v1/items/1?filter%5Ba%5D=1&filter%5Bb%5D%5B0%5D=x&x=12345678901234567890&y=true&page%5Bsize%5D=5&json=%7B%22z%22%3A1%7D",
		},
		{"items.get", `{"id":"1","tags":[],"csv":[]}`, "GET /v1/items/1"},
		{
			"items.put", `{"id__path":"1","id":"2","name":"<b>","size":"s","labels":[{"key":"k","value":"v"}],"parent":{"name":"p"}}`,
			`PUT /v1/items/1 application/json {"id":"2","labels":{"k":"v"},"name":"<b>","parent":{"name":"p"},"size":"s"}`,
		},
		{"items.delete", `{"id":"1"}`, "DELETE /v1/items/1"},
		{
			"items.add", `{"name":"a b","meta":[{"key":"k","value":"v"}],"list":["1","2"],"free":{"q":1.50}}`,
			"POST /v1/items application/x-www-form-urlencoded free=%7B%22q%22%3A1.50%7D&list=1&list=2&meta%5Bk%5D=v&name=a%20b",
		},
		{"items.add", `{}`, "POST /v1/items"},
		{"bulk", `{"body":[{"name":"a"}]}`, `POST /v1/bulk application/json [{"name":"a"}]`},
		{"any", `{"a":["x"],"b":"{\"deep\":[1]}"}`, `POST /v1/any application/json {"a":["x"],"b":{"deep":[1]}}`},
		{"any", `{"a":"x","b":"{no json"}`, `POST /v1/any application/json {"a":"x","b":"{no json"}`},
		{"any", `{"a":"x","b":"[1]]"}`, `POST /v1/any application/json {"a":"x","b":"[1]]"}`},
		{"text", `{"body":"hello"}`, "POST /v1/text text/plain hello"},
		{"GET /label/{a}/{b}", `{"a":["x","y"],"b":["1","2"]}`, "GET /v1/label/.x,y/;b=1;b=2"},
	} {
		var got string
		web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = r.Method + " " + r.RequestURI
			for _, h := range []string{"X-Trace", "Cookie", "Authorization"} {
				if v := r.Header.Get(h); v != "" {
					got += " " + h + "=" + v
				}
			}
			if len(body) > 0 {
				got += " " + r.Header.Get("Content-Type") + " " + string(body)
			}
		}))
		s := toolset(t, Options{BaseURL: web.URL + "/v1/", Operations: ops(c.operation)})
		box, err := toolbox.New([]seam.Toolset{s}, toolbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := box.Check(s.list[0].Name, json.RawMessage(c.input)); err != nil {
			t.Errorf("%s: %v\n%s", c.operation, err, s.list[0].InputSchema)
		}
		if _, err := s.Run(t.Context(), run(s.list[0].Name, c.input)); err != nil {
			t.Errorf("%s: %v", c.operation, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s with %s (-want +got):\n%s", c.operation, c.input, diff)
		}
		web.Close()
	}
}

// TestInput_of_enums_and_answers: an enum without a type may hold values of several, and an input may
// be described by the answer of another operation.
func TestInput_of_enums_and_answers(t *testing.T) {
	t.Parallel()
	const api = `openapi: 3.0.3
paths:
  /users:
    get:
      operationId: list
      responses: {200: {description: all, content: {application/json: {schema: {type: array, items: {type: object, properties: {name: {type: string}}}}}}}}
    post:
      operationId: add
      parameters: [{name: level, in: query, schema: {enum: [1, auto]}}]
      requestBody: {content: {application/json: {schema: {type: object, properties: {first: {$ref: "#/paths/~1users/get/responses/200/content/application~1json/schema/items"}, again: {$ref: "#/paths/~1users/post/parameters/0/schema"}}}}}}
`
	s := toolset(t, Options{BaseURL: "https://a", Description: []byte(api), Operations: ops("add")})
	box, err := toolbox.New([]seam.Toolset{s}, toolbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for input, fine := range map[string]bool{
		`{"level":"auto","first":{"name":"Ana"},"again":"auto"}`: true,
		`{"level":1,"again":1}`:                                  true,
		`{"level":"other"}`:                                      false,
		`{"first":{"surname":"Ana"}}`:                            false,
	} {
		if err := box.Check(s.list[0].Name, json.RawMessage(input)); (err == nil) != fine {
			t.Errorf("%s: %v\n%s", input, err, s.list[0].InputSchema)
		}
	}
}

// TestMultipart: a form of many parts is read by the standard library.
func TestMultipart(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.FormValue("file"), r.FormValue("n")) }))
	t.Cleanup(web.Close)
	res, err := toolset(t, Options{BaseURL: web.URL, Operations: ops("files")}).Run(t.Context(), run("files", `{"file":"abc","n":7}`))
	if err != nil || res.Output != "abc7" {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestInput: what a model may write, to the letter.
func TestInput(t *testing.T) {
	t.Parallel()
	s := toolset(t, Options{BaseURL: "https://a", Operations: ops("items.put")})
	var got map[string]any
	if err := json.Unmarshal(s.list[0].InputSchema, &got); err != nil {
		t.Fatal(err)
	}
	props := got["properties"].(map[string]any)
	want := map[string]any{"type": "array", "items": map[string]any{
		"type": "object", "additionalProperties": false, "required": []any{"key", "value"},
		"properties": map[string]any{"key": map[string]any{"type": "string"}, "value": map[string]any{"type": "string"}},
	}}
	if diff := cmp.Diff(want, props["labels"]); diff != "" {
		t.Errorf("an object of any names (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"type": "string", "enum": []any{"s", "m"}}, props["size"]); diff != "" {
		t.Errorf("a property of allOf (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"type": "string"}, props["note"]); diff != "" {
		t.Errorf("one that may be null (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"id__path", "name", "size"}, got["required"]); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
	deepest := props
	for range maxLevels {
		parent, _ := deepest["parent"].(map[string]any)
		if parent["type"] == "string" {
			return
		}
		deepest = parent["properties"].(map[string]any)
	}
	t.Error("an item that has an item has no end")
}

// TestDecls: names, effects and descriptions are the description's, unless the operator
// says otherwise.
func TestDecls(t *testing.T) {
	t.Parallel()
	s := toolset(t, Options{BaseURL: "https://a", Operations: append(ops("items.get", "items.put", "items.delete", "get /label/{a}/{b}"),
		Operation{Operation: "items.add", Name: "add", Description: "Adds.", Effect: parley.EffectIdempotent, KeyHeader: "Idempotency-Key", KeyTTL: 1, Subject: "{name}", Timeout: 2},
		Operation{Operation: "bulk", Effect: parley.EffectRead})})
	var got []string
	for _, d := range s.list {
		got = append(got, fmt.Sprint(d.Name, " ", d.Effect, " ", d.Description, " ", int(d.KeyTTL), d.Subject, int(d.Timeout)))
	}
	want := []string{
		"items_get read Gets an item. 00", "items_put write PUT /items/{id} 00", "items_delete write DELETE /items/{id} 00",
		"get_label_a_b read GET /label/{a}/{b} 00", "add idempotent Adds. 1{name}2", "bulk read POST /bulk 00",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNotSet: a model may set neither the login of a call nor another method, which could make a
// write of a read.
func TestNotSet(t *testing.T) {
	t.Parallel()
	s := toolset(t, Options{BaseURL: "https://a", Operations: ops("items.get")})
	schema := strings.ToLower(string(s.list[0].InputSchema))
	for _, name := range []string{"authorization", "override"} {
		if strings.Contains(schema, name) {
			t.Errorf("%s is in %s", name, schema)
		}
	}
	if !strings.Contains(schema, "x-trace") {
		t.Errorf("no other header is in %s", schema)
	}
}

// TestAnswers: the chosen fields of an answer go to the model, and the whole answer is kept.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const answer = `{"items":[{"id":1,"name":"a","more":{"x":1,"y":2}},{"id":2}],"total":2,"next":null}`
	for _, c := range []struct {
		name    string
		fields  []string
		status  int
		attempt int
		outcome parley.Outcome // empty: it is left open
		output  string
		kept    bool
	}{
		{"all", nil, 200, 1, parley.OutcomeOK, answer, false},
		{"some", []string{"items[].name, total"}, 200, 1, parley.OutcomeOK, `{"items":[{"name":"a"},{}],"total":2}` + "\n[the whole answer, ", true},
		{"deep", []string{"items[].more.y", "items.id"}, 200, 1, parley.OutcomeOK, `{"items":[{"id":1,"more":{"y":2}},{"id":2}]}`, true},
		{"what is all", []string{"items", "total", "next"}, 200, 1, parley.OutcomeOK, `{"items":`, false},
		{"refused", []string{"total"}, 422, 1, parley.OutcomeError, answer, false},
		{"too often", nil, 429, 1, parley.OutcomeError, answer, false},
		{"a key in use", nil, 409, 1, parley.OutcomeError, answer, false},
		{"a key that the attempt before uses", nil, 409, 2, "", "409 Conflict", false},
		{"a time-out", nil, 408, 1, "", "408 Request Timeout", false},
		{"a fault", nil, 500, 1, "", "500 Internal Server Error", false},
		{"another place", nil, 302, 1, "", "302 Found", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Key") != "01J" {
					t.Errorf("the key is %q", r.Header.Get("X-Key"))
				}
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Location", "/")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, answer)
			}))
			t.Cleanup(web.Close)
			s := toolset(t, Options{BaseURL: web.URL, Operations: []Operation{{Operation: "text", Fields: c.fields, KeyHeader: "x-key"}}})
			var kept *seam.File
			r := run("text", `{"body":"a"}`)
			r.Attempt, r.Keep = c.attempt, func(f seam.File) error { kept = &f; return nil }
			res, err := s.Run(t.Context(), r)
			if c.outcome == "" {
				if err == nil || seam.IsNotSent(err) || !strings.Contains(err.Error(), c.output) {
					t.Errorf("%+v, %v", res, err)
				}
				return
			}
			if err != nil || res.Outcome != c.outcome || !strings.HasPrefix(res.Output, c.output) || (kept != nil) != c.kept {
				t.Errorf("%+v, %v; kept %v", res, err, kept)
			}
			if kept != nil && (string(kept.Body) != answer || kept.Name != "text-01J.json") {
				t.Errorf("kept %s: %s", kept.Name, kept.Body)
			}
		})
	}
}

// TestLost: a call that never left is distinguished from one with an unknown outcome, and
// nothing is sent twice.
func TestLost(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1); panic(http.ErrAbortHandler) }))
	t.Cleanup(web.Close)
	secret := httpcall.Auth{Query: httpcall.Pair{Name: "key", Value: httpcall.Secret{Value: "hidden-value"}}}
	s := toolset(t, Options{BaseURL: web.URL, Auth: secret, Operations: ops("text")})
	if _, err := s.Run(t.Context(), run("text", `{}`)); err == nil || seam.IsNotSent(err) || arrived.Load() != 1 || strings.Contains(err.Error(), "hidden") {
		t.Errorf("a connection that was cut: %v after %d requests", err, arrived.Load())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	s = toolset(t, Options{BaseURL: "http://" + l.Addr().String(), Auth: secret, Operations: ops("text", "items.get")})
	if _, err := s.Run(t.Context(), run("text", `{}`)); !seam.IsNotSent(err) || strings.Contains(err.Error(), "hidden") {
		t.Errorf("nobody listens: %v", err)
	}
	for _, id := range []string{"..", ".", ""} {
		if _, err := s.Run(t.Context(), run("items_get", `{"id":"`+id+`"}`)); !seam.IsNotSent(err) || parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("the path %q leads elsewhere: %v", id, err)
		}
	}
}

// TestAuth: each way of being let in, which the model has no say in.
func TestAuth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		auth httpcall.Auth
		want string
	}{
		{httpcall.Auth{}, "/items/1|"},
		{httpcall.Auth{Bearer: httpcall.Secret{Value: "t"}}, "/items/1|Bearer t"},
		{httpcall.Auth{Basic: httpcall.Basic{User: "u", Password: httpcall.Secret{Value: "p"}}}, "/items/1|Basic dTpw"},
		{httpcall.Auth{Header: httpcall.Pair{Name: "Authorization", Value: httpcall.Secret{Value: "Token t"}}}, "/items/1|Token t"},
		{httpcall.Auth{Query: httpcall.Pair{Name: "tags", Value: httpcall.Secret{Value: "a b"}}}, "/items/1?tags=a%20b|"},
	} {
		var got string
		web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI + "|" + r.Header.Get("Authorization") }))
		s := toolset(t, Options{BaseURL: web.URL, Auth: c.auth, Operations: ops("items.get")})
		if _, err := s.Run(t.Context(), run("items_get", `{"id":"1"}`)); err != nil || got != c.want {
			t.Errorf("got %q, want %q; %v", got, c.want, err)
		}
		if strings.Contains(string(s.list[0].InputSchema), `"tags"`) == (c.auth.Query.Name == "tags") {
			t.Errorf("the model is offered the operator's parameter: %s", s.list[0].InputSchema)
		}
		web.Close()
	}
}

// TestServers: a description does not say where calls go by itself.
func TestServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		servers string
		o       Options
		want    string // empty: it is refused
	}{
		{"base_url", "https://evil.example.com", Options{BaseURL: "https://a.example.com/x/"}, "https://a.example.com/x"},
		{"a file's own", "https://api.example.com/v1", Options{}, ""},
		{"a host that is named", "https://api.example.com/v1", Options{Hosts: []string{"API.example.com"}}, "https://api.example.com/v1"},
		{"without its lock", "http://api.example.com/v1", Options{Hosts: []string{"api.example.com"}}, ""},
		{"that of the url", "https://api.example.com/v2/", Options{URL: "https://api.example.com/openapi.json"}, "https://api.example.com/v2"},
		{"from the url", "/v3", Options{URL: "https://api.example.com/openapi.json"}, "https://api.example.com/v3"},
		{"none", "", Options{URL: "https://api.example.com/doc/openapi.json"}, "https://api.example.com"},
		{"another than the url's", "https://evil.example.com", Options{URL: "https://api.example.com/openapi.json"}, ""},
		{"the network's own", "http://169.254.169.254", Options{URL: "http://api.example.com/openapi.json"}, ""},
		{"a template", "https://{host}/v1", Options{Hosts: []string{"api.example.com"}}, "https://api.example.com/v1"},
		{"a template that leads elsewhere", "https://{evil}/v1", Options{Hosts: []string{"api.example.com"}}, ""},
		{"a name in front", "https://api.example.com@evil.example.com", Options{Hosts: []string{"api.example.com"}}, ""},
	} {
		text := strings.Replace(shop, `[{url: "https://api.example.com/v1"}]`, fmt.Sprintf(`[{url: %q, variables: {host: {default: api.example.com}, evil: {default: evil.example.com}}}]`, c.servers), 1)
		if c.servers == "" {
			text = strings.Replace(shop, `servers: [{url: "https://api.example.com/v1"}]`, "", 1)
		}
		c.o.Description, c.o.Operations = []byte(text), ops("text")
		s, err := New(c.o)
		switch {
		case err == nil && s.tools["text"].base != c.want:
			t.Errorf("%s: %s", c.name, s.tools["text"].base)
		case err != nil && (c.want != "" || !strings.Contains(err.Error(), "base_url")):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestMistakes: an error names its place, and no secret appears in it.
func TestMistakes(t *testing.T) {
	t.Parallel()
	with := func(paths string) []byte { return []byte("openapi: 3.0.3\npaths:\n" + paths) }
	body := func(schema string) []byte {
		return with("  /a:\n    post: {operationId: text, requestBody: {content: {application/json: {schema: " + schema + "}}}}\n")
	}
	many := ""
	for i := range 70 {
		many += fmt.Sprintf("  /p%d: {get: {operationId: op%d}}\n", i, i)
	}
	for _, c := range []struct {
		name  string
		o     Options
		field string
		says  string
	}{
		{"nothing listed", Options{}, "operations", "any, bulk, files, items.add, items.get"},
		{"not there", Options{Operations: ops("text", "items.gets")}, "operations[1]", `no operation "items.gets"; it has items.`},
		{"misspelt, among many", Options{Description: with(many + "  /near: {get: {operationId: getInventory}}\n"), Operations: ops("getInventry")}, "operations[0]", `it has getInventory, `},
		{"misspelt, with another close one", Options{Description: with("  /pet: {put: {operationId: updatePett}, post: {operationId: addPet}}\n"), Operations: ops("addPett")}, "operations[0]", `it has addPet, `},
		{"not there, among many", Options{Description: with(many), Operations: ops("text")}, "operations[0]", `no operation "text"; it has op0, op1, op10, op11, op12, op13, op14, op15 and 62 more`},
		{"the same twice", Options{Operations: []Operation{{Operation: "text", Name: "a"}, {Operation: "any", Name: "a"}}}, "operations[1].name", `"a" is the name of another`},
		{"no base", Options{BaseURL: "ftp://x", Operations: ops("text")}, "base_url", "is not the address"},
		{"a password", Options{BaseURL: "http://u:hidden@x", Operations: ops("text")}, "base_url", "is not the address"},
		{"a bad token", Options{Auth: httpcall.Auth{Bearer: httpcall.Secret{Value: "hidden\n"}}, Operations: ops("text")}, "auth", "not allowed in a header"},
		{"a key for a POST", Options{Operations: []Operation{{Operation: "text", Effect: parley.EffectIdempotent}}}, "operations[0].effect", "key_header"},
		{"fields", Options{Operations: []Operation{{Operation: "text", Fields: []string{"a..b"}}}}, "operations[0]", `"a..b" is not a path in an answer`},
		{"not JSON", Options{Description: []byte("{\n\"openapi\": \"3.0.0\",\n]"), Operations: ops("text")}, "file", "line 3"},
		{"not YAML", Options{Description: []byte("openapi: 3.0.0\npaths: [\n"), Operations: ops("text")}, "file", "L"},
		{"Swagger", Options{Description: []byte(`{"swagger":"2.0"}`), Operations: ops("text")}, "file", "convert it"},
		{"something else", Options{Description: []byte(`a: b`), URL: "http://a", Operations: ops("text")}, "url", "not an OpenAPI description"},
		{"too large", Options{Description: make([]byte, parley.MaxDescription+1)}, "file", "more than"},
		{"aliases", Options{Description: []byte(bomb())}, "file", "alias"},
		{"a reference to elsewhere", Options{Description: body(`{$ref: "http://169.254.169.254/x#/a"}`), Operations: ops("text")}, "file", "outside the description"},
		{"a reference to a file", Options{Description: body(`{$ref: "../../etc/passwd"}`), Operations: ops("text")}, "file", "outside the description"},
		{"a reference to nothing", Options{Description: body(`{$ref: "#/components/schemas/No"}`), Operations: ops("text")}, "file", "#/components/schemas/No, which does not exist"},
		{"a path without its parameter", Options{Description: with("  /a/{b}: {get: {operationId: text}}\n"), Operations: ops("text")}, "operations[0]", "{b}"},
		{"a path that is another host", Options{Description: with("  \"@evil.example.com/a\": {get: {operationId: text}}\n"), Operations: ops("text")}, "operations[0]", "does not begin with /"},
		{"a path that is another port", Options{Description: with("  \"81/a\": {get: {operationId: text}}\n"), BaseURL: "https://a.example.com:80", Operations: ops("text")}, "operations[0]", "does not begin with /"},
		{"ids that are not unique", Options{Description: with("  /a: {get: {operationId: text}}\n  /b: {get: {operationId: text}}\n"), Operations: ops("text")}, "operations[0]", "write GET /a or GET /b"},
		{"nested without end", Options{Description: body(strings.Repeat("{type: array, items: ", 300) + "{}" + strings.Repeat("}", 300)), Operations: ops("text")}, "file", "nested more than 200 deep"},
		{"a number that is none", Options{Description: body("{minimum: 1e999}"), Operations: ops("text")}, "file", "shop.yaml"},
		{"a schema that is a list", Options{Description: body("[1]"), Operations: ops("text")}, "file", "shop.yaml: json: cannot unmarshal array"},
		{"too many parts", Options{Description: chain(maxParts + 10), Operations: ops("text")}, "file", "more than 1000 parts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.o.Name = "shop.yaml"
			if c.o.Description == nil {
				c.o.Description = []byte(shop)
			}
			if c.o.BaseURL == "" {
				c.o.BaseURL = "https://a.example.com"
			}
			_, err := New(c.o)
			if err == nil {
				t.Fatal("it is taken")
			}
			var e *parley.Error
			for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
				if e, _ = one.(*parley.Error); e.Field == c.field {
					break
				}
			}
			if e.Field != c.field || !strings.Contains(e.Error(), c.says) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%s: %v", e.Field, err)
			}
		})
	}
}

// bomb is YAML that aliases make a billion times as large.
func bomb() string {
	var b strings.Builder
	b.WriteString("openapi: 3.0.0\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return b.String()
}

// chain is a description in which each part refers to the next.
func chain(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"openapi":"3.0.0","paths":{"/a":{"post":{"operationId":"text","requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/s0"}}}}}}},"components":{"schemas":{`)
	for i := range n {
		fmt.Fprintf(&b, `"s%d":{"$ref":"#/components/schemas/s%d"},`, i, i+1)
	}
	fmt.Fprintf(&b, `"s%d":{"type":"string"}}}}`, n)
	return []byte(b.String())
}

// TestHostile: descriptions that are made to take all there is give a tool of ordinary
// size, or a mistake.
func TestHostile(t *testing.T) {
	t.Parallel()
	one := func(schemas string) []byte {
		return []byte(`{"openapi":"3.1.0","paths":{"/a":{"post":{"operationId":"text","requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}}}}},"components":{"schemas":{` + schemas + `}}}`)
	}
	var wide, fan strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&wide, `"p%d":{"type":"string","description":"%s"},`, i, strings.Repeat("x", 50))
	}
	for i := range 12 {
		fmt.Fprintf(&fan, `"p%d":{"$ref":"#/components/schemas/A"},`, i)
	}
	for name, raw := range map[string][]byte{
		"in itself":           one(`"A":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/A"},"b":{"type":"array","items":{"$ref":"#/components/schemas/A"}}}}`),
		"allOf in itself":     one(`"A":{"allOf":[{"$ref":"#/components/schemas/A"},{"$ref":"#/components/schemas/A"}]}`),
		"oneOf in itself":     one(`"A":{"oneOf":[{"$ref":"#/components/schemas/A"},{"$ref":"#/components/schemas/A"},{"type":"object","properties":{"a":{"$ref":"#/components/schemas/A"}}}]}`),
		"a reference":         one(`"A":{"$ref":"#/components/schemas/A"}`),
		"two references":      one(`"A":{"$ref":"#/components/schemas/B"},"B":{"$ref":"#/components/schemas/A"}`),
		"twelve ways":         one(`"A":{"type":"object","properties":{` + strings.TrimSuffix(fan.String(), ",") + `}}`),
		"three thousand":      one(`"A":{"type":"object","properties":{` + strings.TrimSuffix(wide.String(), ",") + `}}`),
		"nested":              one(`"A":` + strings.Repeat(`{"type":"array","items":`, 150) + `{}` + strings.Repeat("}", 150)),
		"a chain":             chain(300),
		"odd names":           one(`"A":{"type":"object","properties":{"":{"type":"string"},"a b":{},"a.b":{},"$ref":{"type":"string"},"properties":{"type":"object","properties":{"example":{"type":"string"}}},"ü":{}}}`),
		"patterns":            one(`"A":{"type":"string","pattern":"(?=a)b"}`),
		"types that are none": one(`"A":{"type":["object","string","file"],"properties":{"x":{"type":"file"},"y":true,"z":false}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := New(Options{Name: "a.json", Description: raw, BaseURL: "https://a", Operations: ops("text")})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(s.list[0].InputSchema); n > maxWidest {
				t.Errorf("the input has %d bytes", n)
			}
			if _, err := toolbox.New([]seam.Toolset{s}, toolbox.Options{}); err != nil {
				t.Error(err)
			}
			checkPortable(t, s.list[0])
		})
	}
}

// TestFetch: a description is fetched from the operator's address, and from nowhere else.
func TestFetch(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/flood":
			piece := make([]byte, 1<<20)
			for range 100 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		default:
			_, _ = io.WriteString(w, "openapi: 3.0.0")
		}
	}))
	t.Cleanup(web.Close)
	if raw, err := Fetch(t.Context(), web.URL, nil); err != nil || string(raw) != "openapi: 3.0.0" {
		t.Errorf("%s, %v", raw, err)
	}
	if raw, err := Fetch(t.Context(), web.URL+"/flood", nil); err != nil || len(raw) != parley.MaxDescription+1 {
		t.Errorf("100 MB: %d, %v", len(raw), err)
	}
	for url, code := range map[string]parley.Code{web.URL + "/moved": parley.CodeUnavailable, "crm": parley.CodeInvalid, "http://u:hidden@x": parley.CodeInvalid} {
		if _, err := Fetch(t.Context(), url, nil); parley.CodeOf(err) != code || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
