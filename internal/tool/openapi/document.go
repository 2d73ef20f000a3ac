package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/nearest"
)

const (
	// maxParts is the most parts of a description that the chosen operations may refer to,
	// directly or indirectly: the library's time grows with the square of a chain of references.
	// All requests of Kubernetes together need 535.
	maxParts = 1_000
	// maxNesting is how deeply values may be nested: the library's time grows with its square.
	// Descriptions written for people reach 30.
	maxNesting = 200
)

// document is a description of which only the positions of its parts are known. A server uses a
// few of hundreds of operations, and only the parts these need are given to the library, which
// takes 10 s for all of GitHub's.
type document struct {
	name  string // for error messages
	root  map[string]json.RawMessage
	paths map[string]map[string]json.RawMessage
	ops   []entry // sorted by path and method

	walked map[string]map[string]json.RawMessage // by path
}

// entry is one operation of a description.
type entry struct{ id, method, path string }

func (e entry) String() string { return strings.ToUpper(e.method) + " " + e.path }

// called returns the name by which an operator refers to the operation.
func (e entry) called() string {
	if e.id != "" {
		return e.id
	}
	return e.String()
}

var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace", "query"}

// read parses a description in JSON or YAML.
func read(name string, raw []byte) (*document, error) {
	if len(raw) > parley.MaxDescription {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, len(raw), parley.MaxDescription)
	}
	d := &document{name: name, paths: map[string]map[string]json.RawMessage{}, walked: map[string]map[string]json.RawMessage{}}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	if t := bytes.TrimSpace(raw); len(t) == 0 || t[0] != '{' {
		var err error
		if raw, err = fromYAML(raw); err != nil {
			return nil, fmt.Errorf("%s is no YAML: %w", name, err)
		}
	}
	if err := json.Unmarshal(raw, &d.root); err != nil {
		return nil, fmt.Errorf("%s is not an API description: %s", name, where(raw, err))
	}
	var version string
	_ = json.Unmarshal(d.root["openapi"], &version)
	switch {
	case d.root["swagger"] != nil:
		return nil, fmt.Errorf("%s is a Swagger 2.0 description; convert it to OpenAPI 3 first, for example with npx swagger2openapi", name)
	case !strings.HasPrefix(version, "3."):
		return nil, fmt.Errorf(`%s is not an OpenAPI description: it has no openapi: "3.0.x" or "3.1.x"`, name)
	}
	var paths map[string]json.RawMessage
	if err := json.Unmarshal(d.root["paths"], &paths); err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("%s has no paths", name)
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		item, err := d.item(paths[path])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, path, err)
		}
		d.paths[path] = item
		for _, m := range methods {
			if item[m] == nil {
				continue
			}
			var op struct {
				ID string `json:"operationId"`
			}
			if err := json.Unmarshal(item[m], &op); err != nil {
				return nil, fmt.Errorf("%s: %s %s is not an operation", name, strings.ToUpper(m), path)
			}
			d.ops = append(d.ops, entry{op.ID, m, path})
		}
	}
	return d, nil
}

// item returns a path's operations, which may be defined elsewhere in the description.
func (d *document) item(raw json.RawMessage) (item map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(raw, &item); err != nil {
		return nil, errors.New("is not a path with operations")
	}
	var ref string
	if json.Unmarshal(item["$ref"], &ref) != nil {
		return item, nil
	}
	target, err := d.at(ref)
	if err != nil {
		return nil, err
	}
	item = nil
	if err := json.Unmarshal(target, &item); err != nil || item["$ref"] != nil {
		return nil, fmt.Errorf("%s is not a path with operations", ref)
	}
	return item, nil
}

// fromYAML converts YAML to JSON. The parser bounds the growth of aliases.
func fromYAML(raw []byte) ([]byte, error) {
	var tree any
	if err := yaml.Load(raw, &tree); err != nil {
		return nil, err
	}
	return json.Marshal(named(tree))
}

// named gives maps string keys as in JSON: a status is a number in YAML.
func named(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = named(e)
		}
	case map[any]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[fmt.Sprint(k)] = named(e)
		}
		return out
	case []any:
		for i, e := range v {
			v[i] = named(e)
		}
	}
	return v
}

// where adds the line to a JSON error.
func where(raw []byte, err error) string {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("line %d: %s", bytes.Count(raw[:min(int(e.Offset), len(raw))], []byte("\n"))+1, e)
	}
	return "it is not an object"
}

// find returns the operation that an operator names, by its id or as METHOD /path.
func (d *document) find(name string) (entry, error) {
	if name == "" {
		return entry{}, errors.New("names no operation; write its operationId, or METHOD /path")
	}
	var found []entry
	method, path, _ := strings.Cut(strings.TrimSpace(name), " ")
	for _, e := range d.ops {
		if e.id == name || strings.EqualFold(e.method, method) && e.path == strings.TrimSpace(path) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return entry{}, fmt.Errorf("%s has no operation %q; it has %s", d.name, name, d.list(name, maxSimilar))
	}
	return entry{}, fmt.Errorf("%s has several operations %q; write %s or %s", d.name, name, found[0], found[1])
}

// An error message lists so many operations.
const (
	maxListed  = 60 // where none is named
	maxSimilar = 8  // where one is misspelt
)

// list returns at most n operations of a description, those most like the given name first.
func (d *document) list(like string, n int) string {
	words := strings.FieldsFunc(strings.ToLower(like), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	score := func(e entry) (n int) {
		text := strings.ToLower(e.id + " " + e.String())
		for _, w := range words {
			if strings.Contains(text, w) {
				n++
			}
		}
		return n
	}
	far := func(e entry) int { return nearest.Distance(strings.ToLower(like), strings.ToLower(e.called())) }
	slip := func(e entry) bool { return like != "" && far(e) <= len(like)/4 } // a slip or two
	ops := slices.Clone(d.ops)
	slices.SortStableFunc(ops, func(a, b entry) int {
		switch {
		case slip(a) && slip(b):
			return far(a) - far(b)
		case slip(a):
			return -1
		case slip(b):
			return 1
		}
		return score(b) - score(a)
	})
	var names []string
	for _, e := range ops[:min(len(ops), n)] {
		names = append(names, e.called())
	}
	text := strings.Join(names, ", ")
	if more := len(ops) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// load has the library parse the chosen operations and everything they refer to. Parts that
// requests do not need are left out.
func (d *document) load(chosen []entry) (*openapi3.T, error) {
	p := &part{d: d, out: map[string]any{}, seen: map[string]bool{}, done: map[string]bool{}}
	paths := map[string]any{}
	p.out["openapi"], p.out["info"], p.out["paths"] = d.root["openapi"], map[string]any{"title": "a", "version": "1"}, paths
	if d.root["servers"] != nil {
		p.out["servers"] = d.root["servers"]
	}
	for _, e := range chosen {
		item, _ := paths[e.path].(map[string]any)
		if item == nil {
			item = map[string]any{}
			paths[e.path] = item
		}
		for _, key := range []string{"parameters", "servers", e.method} {
			if raw := d.paths[e.path][key]; raw != nil {
				item[key] = p.take(raw)
			}
		}
	}
	for len(p.refs) > 0 {
		ref := p.refs[0]
		p.refs = p.refs[1:]
		if err := p.follow(ref); err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
	}
	if p.deep {
		return nil, fmt.Errorf("%s: a value is nested more than %d deep", d.name, maxNesting)
	}
	raw, err := json.Marshal(p.out)
	if err != nil {
		return nil, err
	}
	t, err := openapi3.NewLoader().LoadFromData(raw) // which fetches nothing
	if err != nil {
		// The library tries YAML after JSON, and adds that error too.
		_, text, ok := strings.Cut(err.Error(), "json error: ")
		if text, _, _ = strings.Cut(text, ", yaml error: "); !ok {
			text = err.Error()
		}
		return nil, fmt.Errorf("%s: %s", d.name, parley.Cut(text, 500))
	}
	return t, nil
}

// part is an excerpt of a description.
type part struct {
	d    *document
	out  map[string]any
	seen map[string]bool
	refs []string // to follow
	done map[string]bool
	deep bool // a value is nested too deeply
}

// take copies a value without what is not needed, and records its references.
func (p *part) take(raw json.RawMessage) any {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil
	}
	return p.strip(v, false, maxNesting)
}

// The values of these keys are objects with freely chosen names.
var namesBelow = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "content", "encoding", "schemas", "requestBodies", "headers", "variables"}

// Requests do not need these keys.
var notNeeded = []string{"responses", "callbacks", "links", "example", "examples", "discriminator", "externalDocs", "xml", "security", "tags"}

func (p *part) strip(v any, names bool, room int) any {
	if room == 0 {
		p.deep = true
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			switch {
			case names:
				v[k] = p.strip(e, false, room-1)
			case slices.Contains(notNeeded, k) || strings.HasPrefix(k, "x-"):
				delete(v, k)
			case k == "enum" || k == "default" || k == "const":
			case k == "$ref":
				if ref, ok := e.(string); ok && !p.seen[ref] {
					p.seen[ref] = true
					p.refs = append(p.refs, ref)
				}
			default:
				v[k] = p.strip(e, slices.Contains(namesBelow, k), room-1)
			}
		}
	case []any:
		for i, e := range v {
			v[i] = p.strip(e, false, room-1)
		}
	}
	return v
}

// follow copies the target of a reference to the same path.
func (p *part) follow(ref string) error {
	if len(p.seen) > maxParts {
		return fmt.Errorf("the chosen operations refer to more than %d parts", maxParts)
	}
	keys, err := pointer(ref)
	if err != nil {
		return err
	}
	// A part of a component comes with the whole component, and a part of a path with all its
	// operations.
	n := 1
	switch keys[0] {
	case "components":
		n = 3
	case "paths":
		n = 2
		if len(keys) > 3 && keys[3] == "responses" { // which operations are taken without
			n = len(keys)
		}
	}
	keys = keys[:min(n, len(keys))]
	raw, err := p.d.walk(ref, keys)
	if err != nil {
		return err
	}
	into := p.out
	for _, k := range keys[:len(keys)-1] {
		next, _ := into[k].(map[string]any)
		if next == nil {
			next = map[string]any{}
			into[k] = next
		}
		into = next
	}
	last := keys[len(keys)-1]
	if mark := strings.Join(keys, "\x00"); !p.done[mark] {
		p.done[mark] = true
		into[last] = merged(into[last], p.take(raw))
	}
	return nil
}

// merged adds what b has to a. Both are parts of the same value.
func merged(a, b any) any {
	into, okA := a.(map[string]any)
	from, okB := b.(map[string]any)
	if !okA || !okB {
		return b
	}
	for k, v := range from {
		into[k] = merged(into[k], v)
	}
	return into
}

// pointer returns the keys of a reference within the description.
func pointer(ref string) ([]string, error) {
	rest, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, fmt.Errorf("refers to %s, which is outside the description; bundle the description into one file, for example with npx @redocly/cli bundle", parley.Cut(ref, 200))
	}
	keys := strings.Split(rest, "/")
	for i, k := range keys {
		if plain, err := url.PathUnescape(k); err == nil {
			k = plain
		}
		keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(k)
	}
	return keys, nil
}

func (d *document) at(ref string) (json.RawMessage, error) {
	keys, err := pointer(ref)
	if err != nil {
		return nil, err
	}
	return d.walk(ref, keys)
}

func (d *document) walk(ref string, keys []string) (json.RawMessage, error) {
	at, path := d.root, ""
	for i, k := range keys {
		raw := at[k]
		if raw == nil {
			break
		}
		if i == len(keys)-1 {
			return raw, nil
		}
		// All components are one large value, which is walked once.
		path += "/" + k
		var read bool
		if at, read = d.walked[path]; !read {
			if json.Unmarshal(raw, &at) != nil {
				break
			}
			d.walked[path] = at
		}
	}
	return nil, fmt.Errorf("refers to %s, which does not exist", parley.Cut(ref, 200))
}
