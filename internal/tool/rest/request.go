package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/strict"
)

// Request is the input of a call.
type Request struct {
	Method  string
	Path    string
	Query   url.Values
	Body    json.RawMessage // without space between its tokens, as logs and frames have it; nil: none
	Fields  []string
	Entries int
	Title   string
	Summary string
}

const (
	maxPath  = 2048
	maxQuery = 8 << 10
)

// methods are those that a call may have. They are compared exactly: a server may treat "post" like
// POST.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// Parse reads an input. There is one way to write each request: what a server could understand
// differently from this program is refused, and so is everything that this program does not know.
func Parse(input json.RawMessage) (r Request, err error) {
	bad := func(field, format string, args ...any) (Request, error) {
		return Request{}, parley.Errorf(parley.CodeInvalid, format, args...).WithField(field)
	}
	if wrong := strict.JSON(input); wrong != nil {
		return r, wrong
	}
	// A map, because the decoder takes "Method" for "method" in a struct.
	var in map[string]json.RawMessage
	if err := json.Unmarshal(input, &in); err != nil || in == nil {
		return bad("", "the input is not a JSON object")
	}
	var query map[string]any
	for name, into := range map[string]any{
		"method": &r.Method, "path": &r.Path, "query": &query, "fields": &r.Fields, "entries": &r.Entries, "title": &r.Title, "summary": &r.Summary,
	} {
		raw, ok := in[name]
		delete(in, name)
		if !ok || string(raw) == "null" {
			continue
		}
		if name == "query" {
			d := json.NewDecoder(strings.NewReader(string(raw)))
			d.UseNumber()
			err = d.Decode(into)
		} else {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			return bad(name, "%s has the wrong type", name)
		}
	}
	if raw, ok := in["body"]; ok && string(raw) != "null" {
		var b bytes.Buffer
		_ = json.Compact(&b, raw) // it was read above
		r.Body = b.Bytes()
	}
	delete(in, "body")
	for name := range in {
		return bad(parley.Cut(name, 60), "there is no field %q; a call has method, path, query, body, fields, entries, title and summary", parley.Cut(name, 60))
	}
	switch {
	case !slices.Contains(methods, r.Method):
		return bad("method", "the method must be one of %s", strings.Join(methods, ", "))
	case r.Body != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		return bad("body", "a %s has no body; use query", r.Method)
	case r.Body != nil && r.Body[0] != '{':
		return bad("body", "the body must be a JSON object")
	}
	if why := wrongPath(r.Path); why != "" {
		return bad("path", "the path %s", why)
	}
	if r.Query, err = queryOf(query); err != nil {
		return Request{}, err
	}
	return r, nil
}

// wrongPath says what is wrong with a path, or returns "". A path has one form only, so that a rule
// about a path, what a person confirms and what a server or a proxy makes of it are the same.
func wrongPath(p string) string {
	switch {
	case p == "":
		return "is missing"
	case len(p) > maxPath:
		return fmt.Sprintf("has more than %d bytes", maxPath)
	case p[0] != '/':
		return "must begin with a slash; the host cannot be chosen"
	}
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case c == '?' || c == '#':
			return "contains ? or #; parameters go into query"
		case c == '%':
			if i+2 >= len(p) {
				return "ends in the middle of an escape"
			}
			v, err := strconv.ParseUint(p[i+1:i+3], 16, 8)
			b := byte(v)
			switch {
			case err != nil:
				return "has a % that escapes nothing"
			case strings.ToUpper(p[i+1:i+3]) != p[i+1:i+3]:
				return "has an escape in lower case; write it in upper case"
			case b < ' ' || b == 0x7f || strings.IndexByte(`/\%;?#`, b) >= 0 || plain(b):
				return fmt.Sprintf("contains %s, which is not allowed in a path", p[i:i+3])
			}
			i += 2
		case !plain(c) && c != '/':
			char, _ := utf8.DecodeRuneInString(p[i:])
			return fmt.Sprintf("contains %q, which is not allowed in a path", string(char))
		}
	}
	if decoded, err := url.PathUnescape(p); err != nil || !utf8.ValidString(decoded) {
		return "is not text in UTF-8"
	}
	if why := strayed(p, "contains //, . or .., which lead to another path"); why != "" {
		return why
	}
	return lookalike(p)
}

// strayed returns why if a path has segments that lead elsewhere, or "".
func strayed(p, why string) string {
	segments := strings.Split(p[1:], "/")
	for i, s := range segments {
		if s == "." || s == ".." || s == "" && i < len(segments)-1 {
			return why
		}
	}
	return ""
}

// lookalike says whether a path becomes another one in a server that unifies characters which look alike.
func lookalike(p string) string {
	same := unified(p)
	if strings.Count(same, "/") != strings.Count(p, "/") || strings.ContainsAny(same, `\%;?#`) {
		return `contains a character that becomes one of / \ % ; ? # where characters are unified`
	}
	return strayed(same, "becomes another path where characters are unified")
}

// unified is a path without escapes, in which characters that look alike are one (NFKC) and those that are not seen are left out.
func unified(p string) string {
	if text, err := url.PathUnescape(p); err == nil {
		p = text
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) {
			return -1
		}
		return r
	}, norm.NFKC.String(p))
}

// plain reports whether a byte stands for itself in a path: it is unreserved (RFC 3986, 2.3), or one
// of the delimiters that no server gives a meaning to.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~!$&'()*+,=:@", c) >= 0
}

// queryOf makes the query of a request.
func queryOf(in map[string]any) (url.Values, error) {
	q := url.Values{}
	for name, v := range in {
		bad := func(format string, args ...any) (url.Values, error) {
			return nil, parley.Errorf(parley.CodeInvalid, format, args...).WithField("query")
		}
		if name == "" || overrides(name) {
			return bad("the parameter %q is not allowed", parley.Cut(name, 60))
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, e := range list {
			switch e := e.(type) {
			case string:
				q.Add(name, e)
			case json.Number:
				q.Add(name, e.String())
			case bool:
				q.Add(name, strconv.FormatBool(e))
			default:
				return bad("the parameter %q must be a text, a number, a boolean, or a list of these", parley.Cut(name, 60))
			}
		}
	}
	if len(q.Encode()) > maxQuery {
		return nil, parley.Errorf(parley.CodeInvalid, "the query has more than %d bytes", maxQuery).WithField("query")
	}
	return q, nil
}

// overrides reports whether a server may take a parameter for the request's method, as Rails,
// Laravel, Express and others do.
func overrides(name string) bool {
	n := strings.ToLower(name)
	flat := strings.NewReplacer("-", "", "_", "", ".", "").Replace(n)
	return n == "_method" || n == "__method" || n == "http_method" || n == "$method" || strings.Contains(flat, "methodoverride") || strings.Contains(flat, "httpmethod")
}

// target is the path with its query, as it is sent and shown.
func (r Request) target() string {
	if len(r.Query) == 0 {
		return r.Path
	}
	return r.Path + "?" + strings.ReplaceAll(r.Query.Encode(), "+", "%20")
}

// changes reports whether the method is one that changes something.
func (r Request) changes() bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// Proposal is a request as a person confirms it.
type Proposal struct {
	Title   string
	Summary string
	Method  string
	Path    string          // with the query
	Body    json.RawMessage // nil: none
}

// Propose returns the request of an input as it will be sent.
func Propose(input json.RawMessage) (Proposal, error) {
	r, err := Parse(input)
	if err != nil {
		return Proposal{}, err
	}
	return Proposal{Title: r.title(), Summary: r.Summary, Method: r.Method, Path: r.target(), Body: r.Body}, nil
}

// verbs name what methods do in a write. A GET is one where the app says so.
var verbs = map[string]string{http.MethodPost: "Send to", http.MethodPut: "Replace", http.MethodPatch: "Change", http.MethodDelete: "Delete", http.MethodGet: "Carry out GET", http.MethodHead: "Carry out HEAD"}

// title is a line about the request for a person.
func (r Request) title() string {
	if t := strings.Join(strings.Fields(r.Title), " "); t != "" {
		return t
	}
	return verbs[r.Method] + " " + r.Path
}

// Pattern is a method and a path in which "*" stands for one segment, such as "GET /api/leads/*/merge".
type Pattern struct {
	method   string
	segments []string
}

// ParsePattern reads a pattern. "*" as the method stands for all.
func ParsePattern(text string) (Pattern, error) {
	method, path, ok := strings.Cut(text, " ")
	if !ok || method != "*" && !slices.Contains(methods, method) || wrongPath(path) != "" {
		return Pattern{}, parley.Errorf(parley.CodeInvalid, "%q is not a method and a path, such as GET /api/leads/*/merge", parley.Cut(text, 100))
	}
	return Pattern{method, segmentsOf(path)}, nil
}

// segmentsOf are a path's segments in the form in which servers compare them: some ignore case, and
// a slash at the end.
func segmentsOf(path string) []string {
	return strings.Split(strings.ToLower(strings.Trim(path, "/")), "/")
}

// Matches reports whether a request fits the pattern. A HEAD fits what a GET does.
func (p Pattern) Matches(r Request) bool {
	if p.method != "*" && p.method != r.Method && !(p.method == http.MethodGet && r.Method == http.MethodHead) {
		return false
	}
	have := segmentsOf(r.Path)
	if len(have) != len(p.segments) {
		return false
	}
	for i, s := range p.segments {
		if s != "*" && s != have[i] {
			return false
		}
	}
	return true
}

// May reports whether some server may take a request for one that fits the pattern: one that unifies characters,
// ignores dots and spaces at the end of a segment, or takes a suffix such as .json for a format.
func (p Pattern) May(r Request) bool {
	last := -1
	parts := strings.Split(unified(r.Path), "/")
	for i, s := range parts {
		s = strings.TrimRight(s, ". \u00a0")
		if s != "" {
			last = i
		}
		parts[i] = s
	}
	r.Path = strings.Join(parts, "/")
	if p.Matches(r) {
		return true
	}
	if last < 0 {
		return false
	}
	parts[last], _, _ = strings.Cut(parts[last], ".")
	r.Path = strings.Join(parts, "/")
	return p.Matches(r)
}
