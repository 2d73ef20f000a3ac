package lake

import (
	"bytes"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
	"github.com/parley-server/parley/internal/wiki"
)

// Limits of an entity. What is beyond them is a fault, and is not read.
const (
	MaxEntity = 1 << 20  // bytes of a file
	maxFront  = 64 << 10 // bytes of front matter
	maxDepth  = 8        // lists and maps in each other
	maxNodes  = 2000     // keys and values
	maxTags   = 100
	maxField  = 300 // bytes of a title, tag, owner, status or kind
	maxFaults = 200
)

// parsed is an entity with what the index needs besides.
type parsed struct {
	Entity
	links    []wiki.Link
	headings []string
	text     string // without the front matter, for the search
}

// Parse reads an entity of a file's content. Its links are not resolved, since that needs the other files. Whatever is wrong is in
// Faults; there is no content that cannot be read.
func Parse(name string, body []byte) Entity { return parse(name, body).Entity }

func parse(name string, body []byte) parsed {
	p := parsed{Entity: Entity{Path: name, Version: VersionOf(body), Size: int64(len(body)), Tags: []string{}}}
	p.Title = strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".markdown"), ".md")
	p.Kind = kindOf(name)
	switch {
	case len(body) > MaxEntity:
		p.fault(1, "too-large", "it has %d KB; entities have at most %d KB", len(body)>>10, MaxEntity>>10)
		return p
	case !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0:
		p.fault(1, "not-text", "it is not text in UTF-8")
		return p
	}
	raw, rest, line := splitFront(body)
	titled := false
	if raw != nil {
		titled = p.front(raw)
	} else if rest == nil {
		p.fault(1, "front-matter", "the front matter has no end; end it with a line ---")
	}
	if rest == nil {
		rest, line = body, 1
	}
	n := wiki.Parse(rest, line, len(body)-len(rest))
	if !titled && n.Title != "" {
		p.Title = n.Title
	}
	if len(n.Links) == wiki.MaxLinks {
		p.fault(1, "too-many-links", "it has more than %d links; the others are not looked at", wiki.MaxLinks)
	}
	p.links, p.headings, p.text = n.Links, n.Headings, string(rest)
	return p
}

// kindOf is the kind of an entity whose front matter has none.
func kindOf(name string) string {
	switch folder, _, in := strings.Cut(name, "/"); {
	case !in:
		return "page"
	case folder == "roles":
		return "role"
	case folder == "docs":
		return "doc"
	}
	return "note"
}

func (p *parsed) fault(line int, rule, format string, args ...any) {
	if len(p.Faults) < maxFaults {
		p.Faults = append(p.Faults, Fault{Path: p.Path, Line: line, Rule: rule, Message: fmt.Sprintf(format, args...)})
	}
}

var fence = pattern.New(`^\x{feff}?---[ \t]*\r?\n`)

// first is the whole of a match, or nil.
func first(m [][]byte) []byte {
	if m == nil {
		return nil
	}
	return m[0]
}

// splitFront splits a file. front is nil if there is none; rest is nil if it has no end. line is that of the first of rest.
func splitFront(body []byte) (front, rest []byte, line int) {
	begin := first(fence.FindSubmatch(body))
	if begin == nil {
		return nil, body, 1
	}
	at, line := len(begin), 2
	for at < len(body) {
		end := bytes.IndexByte(body[at:], '\n')
		next := len(body)
		if end >= 0 {
			next = at + end + 1
		}
		line++
		if l := strings.TrimRight(string(body[at:min(next, at+10)]), " \t\r\n"); next-at < 10 && (l == "---" || l == "...") {
			return body[len(begin):at:at], body[next:], line
		}
		at = next
	}
	return nil, nil, 0
}

// front reads the front matter. It reports whether that has a title.
func (p *parsed) front(raw []byte) (titled bool) {
	if len(raw) > maxFront {
		p.fault(1, "front-matter", "the front matter has %d KB; at most %d KB are read", len(raw)>>10, maxFront>>10)
		return false
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return false
	}
	var doc yaml.Node
	if err := yaml.Load(raw, &doc); err != nil {
		line, says := yamlError(err)
		p.fault(line, "front-matter", "the front matter is not valid YAML: %s", says)
		return false
	}
	if len(doc.Content) == 0 {
		return false // empty
	}
	top := doc.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return false
	}
	if top.Kind != yaml.MappingNode {
		p.fault(top.Line+1, "front-matter", "the front matter has no names with values")
		return false
	}
	c := converter{p: p}
	value, ok := c.value(top, 0)
	if !ok {
		return false
	}
	p.Front, _ = value.(map[string]any)
	for i := 0; i+1 < len(top.Content); i += 2 {
		titled = p.field(top.Content[i], top.Content[i+1]) || titled
	}
	slices.Sort(p.Tags)
	p.Tags = slices.Compact(p.Tags)
	return titled
}

var positionOf = pattern.New(`L(\d+)\.C\d+: (.*)$`)

// yamlError is where and what an error of the parser is about. The front matter begins on the second line of the file.
func yamlError(err error) (line int, says string) {
	text := strings.Join(strings.Fields(err.Error()), " ")
	m := positionOf.FindStringSubmatch(text)
	if m == nil {
		return 1, parley.Cut(text, 200)
	}
	line, _ = strconv.Atoi(m[1])
	return line + 1, parley.Cut(m[2], 200)
}

// converter makes values for JSON of front matter.
type converter struct {
	p *parsed
	n int
}

// value converts a node. Anchors are refused: a few lines of them may stand for more than fits into memory.
func (c *converter) value(n *yaml.Node, depth int) (any, bool) {
	if c.n++; c.n > maxNodes || depth > maxDepth {
		c.p.fault(n.Line+1, "front-matter", "the front matter has more than %d values, or more than %d in each other", maxNodes, maxDepth)
		return nil, false
	}
	switch n.Kind {
	case yaml.AliasNode:
		c.p.fault(n.Line+1, "front-matter", "the front matter uses an anchor, which is not supported")
		return nil, false
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.Value == "<<" && key.Tag == "!!merge" {
				c.p.fault(key.Line+1, "front-matter", "a name in the front matter is not a text")
				return nil, false
			}
			if _, twice := m[key.Value]; twice {
				c.p.fault(key.Line+1, "front-matter", "%q is there twice", parley.Cut(key.Value, 60))
			}
			v, ok := c.value(n.Content[i+1], depth+1)
			if !ok {
				return nil, false
			}
			m[key.Value] = v
		}
		return m, true
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, e := range n.Content {
			v, ok := c.value(e, depth+1)
			if !ok {
				return nil, false
			}
			list = append(list, v)
		}
		return list, true
	}
	switch n.Tag {
	case "!!null":
		return nil, true
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b, true
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return i, true
		}
	case "!!float":
		var f float64
		if n.Decode(&f) == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f, true
		}
	}
	return n.Value, true
}

// field takes a value that entities have. It reports whether it is a title.
func (p *parsed) field(key, value *yaml.Node) bool {
	line := value.Line + 1
	single := func(to *string) bool {
		v := strings.TrimSpace(value.Value)
		switch {
		case value.Kind != yaml.ScalarNode:
			p.fault(line, "front-matter", "%s is not a single value", key.Value)
		case v == "" || value.Tag == "!!null":
		case len(v) > maxField:
			p.fault(line, "front-matter", "%s has more than %d bytes", key.Value, maxField)
		default:
			*to = v
			return true
		}
		return false
	}
	switch key.Value {
	case "title":
		return single(&p.Title)
	case "kind", "type":
		single(&p.Kind)
	case "owner":
		single(&p.Owner)
	case "status":
		single(&p.Status)
	case "tags", "tag":
		p.tags(key, value)
	case "created", "date":
		p.date(key, value, &p.Created)
	case "updated", "modified":
		p.date(key, value, &p.Updated)
	}
	return false
}

func (p *parsed) tags(key, value *yaml.Node) {
	var list []string
	switch value.Kind {
	case yaml.ScalarNode:
		if value.Tag != "!!null" {
			list = strings.FieldsFunc(value.Value, func(r rune) bool { return r == ',' || r == ' ' })
		}
	case yaml.SequenceNode:
		for _, e := range value.Content {
			if e.Kind != yaml.ScalarNode {
				p.fault(e.Line+1, "front-matter", "a tag is not a text")
				continue
			}
			list = append(list, e.Value)
		}
	default:
		p.fault(value.Line+1, "front-matter", "%s is not a list", key.Value)
	}
	for _, t := range list {
		t = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(t), "#"))
		switch {
		case t == "":
		case len(t) > maxField || len(p.Tags) >= maxTags:
			p.fault(value.Line+1, "front-matter", "there are more than %d tags, or one has more than %d bytes", maxTags, maxField)
			return
		default:
			p.Tags = append(p.Tags, t)
		}
	}
}

// date takes a day or a time.
func (p *parsed) date(key, value *yaml.Node, to *string) {
	v := strings.TrimSpace(value.Value)
	if value.Kind == yaml.ScalarNode && (v == "" || value.Tag == "!!null") {
		return
	}
	if value.Kind == yaml.ScalarNode {
		if t, err := time.Parse(time.DateOnly, v); err == nil {
			*to = t.Format(time.DateOnly)
			return
		}
		for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04"} {
			if t, err := time.Parse(form, v); err == nil {
				*to = t.UTC().Format(time.RFC3339)
				return
			}
		}
	}
	p.fault(value.Line+1, "date", "%s is %q; write a day as 2026-11-27, or a time as 2026-11-27T15:04:05Z", key.Value, parley.Cut(v, 60))
}
