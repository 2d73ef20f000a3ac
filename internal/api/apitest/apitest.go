// Package apitest checks what a server answers against its own OpenAPI document.
//
// A [Checker] is made of the document alone. [Checker.Answer] says what is wrong
// with one answer: a status or a media type that the operation does not declare
// by itself (default stands for what only a proxy would answer), or a body that
// its schema does not allow, down to the data of each event of a stream.
// [Checker.Handler] does so for all that passes through a server.
//
// Checkers are safe for concurrent use.
package apitest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	gopath "path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-server/parley/internal/sse"
)

// kept limits how many bytes of an answer are kept. Longer answers are not checked.
const kept = 1 << 20

// Checker knows a document.
type Checker struct {
	mux   *http.ServeMux
	paths map[string]map[string]operation // by path and lower-case method
	comp  map[string]response

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

type operation struct {
	ID        string              `json:"operationId"`
	Responses map[string]response `json:"responses"`
}

type response struct {
	Ref     string                     `json:"$ref"`
	Content map[string]json.RawMessage `json:"content"`
}

const docURL = "http://document/openapi.json"

// checkers holds the checkers of the process, by document. Most of the servers that tests start
// have the same document, and its schemas take megabytes.
var checkers sync.Map

// New reads a document.
func New(doc []byte) (*Checker, error) {
	sum := sha256.Sum256(doc)
	if c, ok := checkers.Load(sum); ok {
		return c.(*Checker), nil
	}
	c, err := read(doc)
	if err != nil {
		return nil, err
	}
	one, _ := checkers.LoadOrStore(sum, c)
	return one.(*Checker), nil
}

func read(doc []byte) (*Checker, error) {
	var d struct {
		Paths      map[string]map[string]operation `json:"paths"`
		Components struct {
			Responses map[string]response `json:"responses"`
		} `json:"components"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, err
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return nil, err
	}
	c := &Checker{
		mux: http.NewServeMux(), paths: d.Paths, comp: d.Components.Responses,
		compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{},
	}
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(docURL, tree); err != nil {
		return nil, err
	}
	for path := range d.Paths {
		c.mux.HandleFunc(path, func(http.ResponseWriter, *http.Request) {})
	}
	return c, nil
}

// Of returns the checker of the document that h serves.
func Of(t testing.TB, h http.Handler) *Checker {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/openapi.json", nil))
	c, err := New(w.Body.Bytes())
	if w.Code != http.StatusOK || err != nil {
		t.Fatalf("the document: %d, %v", w.Code, err)
	}
	return c
}

// Answer reports errors in an answer to r. Requests for operations that the document does not
// have are not checked.
func (c *Checker) Answer(r *http.Request, status int, h http.Header, body []byte) error {
	path, method := c.pathOf(r), strings.ToLower(r.Method)
	if r.Method == http.MethodHead {
		method = "get"
	}
	op, ok := c.paths[path][method]
	switch {
	case !ok || r.Method == method: // methods are upper case
		return nil
	case r.Method == http.MethodHead && status == http.StatusMethodNotAllowed:
		return nil
	case status == http.StatusTemporaryRedirect && h.Get("Location") != r.URL.Path: // a redirect to the path without its dots and double slashes
		return nil
	case status == http.StatusNotFound && odd(r.URL.EscapedPath()): // not a path of the document: only what the mux made of it is one
		return nil
	}
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	if h.Get("Content-Encoding") == "gzip" && len(body) > 0 {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			body, err = io.ReadAll(z)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
		}
	}
	if len(body) == 0 && r.Method != http.MethodHead {
		media = ""
	}
	// A stream that the Accept header asks for is documented as an operation of its own.
	side := path + map[string]string{"text/event-stream": "/stream", "application/x-ndjson": "/lines"}[media]
	if beside, ok := c.paths[side][method]; ok && status == http.StatusOK {
		path, op = side, beside
	}
	where := fmt.Sprintf("%s (%s %s) %d %s", op.ID, r.Method, path, status, media)
	resp, ok := op.Responses[strconv.Itoa(status)]
	if !ok {
		return fmt.Errorf("%s: the status is not declared: %.300s", where, body)
	}
	at := docURL + "#/paths/" + pointer(path) + "/" + method + "/responses/" + strconv.Itoa(status)
	if name, ok := strings.CutPrefix(resp.Ref, "#/components/responses/"); ok {
		resp, at = c.comp[name], docURL+"#/components/responses/"+pointer(name)
	}
	if len(resp.Content) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("%s: there is a body, and none is declared", where)
		}
		return nil
	}
	if r.Method == http.MethodHead || status == http.StatusNotModified {
		return nil
	}
	if _, any := resp.Content["*/*"]; any && media != "" {
		return nil
	}
	if _, ok := resp.Content[media]; !ok {
		return fmt.Errorf("%s: the media type is not declared: %.300s", where, body)
	}
	at += "/content/" + pointer(media) + "/schema"
	for n, doc := range documents(media, body) {
		if err := c.fits(at, doc); err != nil {
			return fmt.Errorf("%s, document %d: %w in %.600s", where, n+1, err, doc)
		}
	}
	return nil
}

func (c *Checker) pathOf(r *http.Request) string {
	_, pattern := c.mux.Handler(&http.Request{Method: http.MethodGet, URL: r.URL, Host: r.Host})
	return pattern
}

// odd reports whether a path has dots or double slashes.
func odd(p string) bool { return gopath.Clean(p) != strings.TrimSuffix(p, "/") && p != "/" }

// documents are the JSON texts of a body; a stream may be cut anywhere.
func documents(media string, body []byte) [][]byte {
	switch {
	case media == "text/event-stream":
		var all [][]byte
		for f, err := range sse.Decode(bytes.NewReader(body), kept) {
			if err == nil && len(f.Data) > 0 {
				all = append(all, bytes.Clone(f.Data))
			}
		}
		return all
	case media == "application/x-ndjson":
		lines := bytes.Split(body, []byte("\n"))
		lines = lines[:len(lines)-1] // after the last line break there is nothing, or half a line
		return slices.DeleteFunc(lines, func(l []byte) bool { return len(bytes.TrimSpace(l)) == 0 })
	case media == "application/json":
		return [][]byte{body}
	}
	return nil
}

func (c *Checker) fits(at string, doc []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock() // the compiler is not for concurrent use
	s := c.schemas[at]
	if s == nil {
		if s, err = c.compiler.Compile(at); err != nil {
			return err
		}
		c.schemas[at] = s
	}
	if err := s.Validate(v); err != nil {
		if wrong, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
			return fmt.Errorf("%#v", wrong)
		}
		return err
	}
	return nil
}

func pointer(s string) string {
	s = strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
	return strings.NewReplacer("{", "%7B", "}", "%7D", "*", "%2A").Replace(s)
}

// Handler checks every answer of next and reports what is wrong with it.
func (c *Checker) Handler(t testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		asked := r.Clone(r.Context()) // doors may rewrite it
		defer func() {
			v := recover()
			if v == nil && len(rec.body) < kept {
				if err := c.Answer(asked, rec.code(), w.Header(), rec.body); err != nil {
					t.Errorf("not as the document says: %v", err)
				}
			}
			if v != nil {
				panic(v)
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

type recorder struct {
	http.ResponseWriter
	status int
	body   []byte
}

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	r.body = append(r.body, b[:min(len(b), kept-len(r.body))]...)
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush is for handlers that look for http.Flusher by assertion.
func (r *recorder) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() }
