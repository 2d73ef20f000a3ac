package config

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/nearest"
	"github.com/parley-server/parley/internal/pattern"
)

// maxNodes limits how many values one file may expand to through aliases.
const maxNodes = 100_000

// decoder reads a YAML tree into typed values. It continues after a mistake, so that an
// owner sees all of them at once, each with its line. Keys come from the yaml tags, or
// from the json tags of types that have no others; a file may write them in camelCase. A
// field whose tag says ref may refer to a secret. A type with a method short may be
// written as the value of the one key that it names.
type decoder struct {
	file  string
	dir   string // the folder of what file:path names; empty: the working folder
	env   func(string) (string, bool)
	wrong Mistakes
	lines map[string]int // dotted path → line
	nodes int

	spoiled map[string]bool     // paths whose value could not be read
	refs    map[string][]string // what files and variables gave to the value at a path
	strange map[string][]string // unknown keys, by the path of the value that contains them
}

// Mistake is one mistake in a file.
type Mistake struct {
	File string `json:"file"`           // as shown to people
	Line int    `json:"line,omitempty"` // 0: it is about the whole file, or about something missing
	Text string `json:"text"`
}

func (m Mistake) String() string {
	switch {
	case m.File == "":
		return m.Text
	case m.Line == 0:
		return m.File + ": " + m.Text
	}
	return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Text)
}

// Mistakes are all mistakes, as an error with a line for each.
type Mistakes []Mistake

func (m Mistakes) Error() string {
	lines := make([]string, 0, len(m))
	for _, one := range m {
		lines = append(lines, one.String())
	}
	return strings.Join(lines, "\n")
}

func (d *decoder) bad(line int, path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}
	d.wrong = append(d.wrong, Mistake{d.file, line, text})
}

// lacks reports that holder has no key. It reports nothing if a mistake was already
// reported: the key is there but could not be read, or it is misspelt.
func (d *decoder) lacks(holder, key, format string, args ...any) {
	if d.spoiled[holder] || d.spoiled[join(holder, key)] {
		return
	}
	for _, other := range d.strange[holder] {
		if nearest.Distance(strings.ToLower(other), key) < 3 {
			return
		}
	}
	d.at(holder, format, args...)
}

// at reports a mistake in the value at path; without such a value, in the one that
// contains it.
func (d *decoder) at(path, format string, args ...any) {
	for p := path; ; {
		if line, ok := d.lines[p]; ok {
			d.bad(line, path, format, args...)
			return
		}
		dot := strings.LastIndexByte(p, '.')
		if dot < 0 {
			d.bad(1, path, format, args...)
			return
		}
		p = p[:dot]
	}
}

// err returns all mistakes, sorted by line.
func (d *decoder) err() error {
	if len(d.wrong) == 0 {
		return nil
	}
	slices.SortStableFunc(d.wrong, func(a, b Mistake) int { return a.Line - b.Line })
	return parley.Errorf(parley.CodeInvalid, "%w", slices.Compact(d.wrong))
}

// yamlPlace matches the position in the parser's errors, which may be a range. The first
// group is the kind of a block that the parser was in.
var yamlPlace = pattern.New(`^.*?(a block \w+\))? at L(\d+)\.C\d+(?:-(?:L(\d+)\.)?C\d+)?: `)

// likely returns the probable mistake at the place where the parser gave up, as a hint to add
// to its error; "" if it is unclear.
func likely(raw []byte, line int, text string) string {
	lines := strings.Split(string(raw), "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	here, above := lines[line-1], ""
	for _, before := range slices.Backward(lines[:line-1]) {
		if t := strings.TrimSpace(before); t != "" && t[0] != '#' {
			above = before
			break
		}
	}
	indent := func(s string) string { return s[:len(s)-len(strings.TrimLeft(s, " \t"))] }
	misplaced := strings.Contains(text, "mapping values are not allowed") || strings.Contains(text, "did not find expected")
	switch {
	case strings.Contains(indent(here), "\t"):
		return "; the line is indented with a tab, use spaces"
	case strings.Contains(text, "unexpected end of stream"):
		return "; a text that begins here has no closing quote"
	case misplaced && strings.Count(here, ": ") > 1 && !strings.ContainsAny(here, "{\"'"):
		return "; a text that contains a colon needs quotes"
	case misplaced && indent(here) != indent(above):
		return "; compare its indentation with the line above"
	}
	return ""
}

// parse reads one document into v, a pointer to a struct. What could not be read keeps its
// zero value. It reports whether there was a document at all.
func (d *decoder) parse(raw []byte, v any) (read bool) {
	d.lines, d.spoiled, d.strange = map[string]int{}, map[string]bool{}, map[string][]string{}
	d.refs = nil
	if len(strings.TrimSpace(string(raw))) == 0 {
		return true
	}
	var doc yaml.Node
	if err := yaml.Load(raw, &doc); err != nil {
		line, text := 1, err.Error()
		if m := yamlPlace.FindStringSubmatch(text); m != nil {
			place := m[2]
			if m[1] != "" { // for a block, use the end of the range: it begins long before the mistake
				place = cmp.Or(m[3], place)
			}
			line, _ = strconv.Atoi(place)
			text = text[len(m[0]):]
		}
		d.bad(line, "", "not YAML: %s%s", text, likely(raw, line, text))
		return false
	}
	node := &doc
	if node.Kind == yaml.DocumentNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	d.value(node, reflect.ValueOf(v).Elem(), "", false)
	return node.Kind == yaml.MappingNode && d.nodes <= maxNodes
}

// value reads n, or marks its path as unreadable.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, ref bool) {
	before := len(d.wrong)
	d.into(n, v, path, ref)
	if len(d.wrong) > before && !container(v.Kind()) {
		d.spoiled[path] = true
	}
}

func container(k reflect.Kind) bool {
	return k == reflect.Struct || k == reflect.Map || k == reflect.Slice
}

func (d *decoder) into(n *yaml.Node, v reflect.Value, path string, ref bool) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.bad(n.Line, path, "the file expands to more than %d values", maxNodes)
		}
		return
	}
	d.lines[path] = n.Line
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return // the default
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		d.json(n, v, path)
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, ref)
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if d.scalar(n, path, "text") {
			if err := u.UnmarshalText([]byte(n.Value)); err != nil {
				d.bad(n.Line, path, "%s", says(err))
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if short, ok := v.Interface().(interface{ short() string }); ok && n.Kind == yaml.ScalarNode {
			f, ref, _ := field(v, short.short())
			d.value(n, f, path, ref)
			return
		}
		d.object(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path, ref)
	case reflect.Slice:
		if _, ok := v.Interface().(interface{ one() }); ok && (n.Kind == yaml.MappingNode || n.Kind == yaml.ScalarNode && n.Tag == "!!str" && v.Type().Elem().Kind() == reflect.String) {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			d.value(n, v.Index(0), path, ref)
			return
		}
		if n.Kind != yaml.SequenceNode {
			d.spoiled[path] = true
			d.bad(n.Line, path, "is %s, expected a list", kindOf(n))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, c := range n.Content {
			d.value(c, v.Index(i), fmt.Sprintf("%s[%d]", path, i), ref)
		}
	case reflect.String:
		if d.scalar(n, path, "text") {
			s := n.Value
			if ref {
				s = d.resolve(n.Line, path, s)
			}
			v.SetString(s)
		}
	default:
		d.plain(n, v, path)
	}
}

// some is a list that a file may also write as a single element.
type some[T any] []T

func (some[T]) one() {}

// at is the path of an element as it was written in the file.
func (s some[T]) at(d *decoder, path string, i int) string {
	if _, listed := d.lines[fmt.Sprintf("%s[%d]", path, i)]; listed {
		return fmt.Sprintf("%s[%d]", path, i)
	}
	return path
}

// json reads YAML into a field that holds JSON, such as a schema.
func (d *decoder) json(n *yaml.Node, v reflect.Value, path string) {
	tree := d.tree(n, path)
	raw, err := json.Marshal(tree)
	if err != nil {
		d.bad(n.Line, path, "cannot be written as JSON: %s", err)
		return
	}
	v.SetBytes(raw)
}

func (d *decoder) tree(n *yaml.Node, path string) any {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.bad(n.Line, path, "the file expands to more than %d values", maxNodes)
		}
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		out, seen := map[string]any{}, map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if d.repeated(seen, k, k.Value, path) {
				continue
			}
			out[k.Value] = d.tree(n.Content[i+1], join(path, k.Value))
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for i, c := range n.Content {
			out = append(out, d.tree(c, fmt.Sprintf("%s[%d]", path, i)))
		}
		return out
	}
	var plain any
	if err := n.Decode(&plain); err != nil {
		d.bad(n.Line, path, "cannot be read: %s", says(err))
	}
	return plain
}

// plain reads numbers and booleans.
func (d *decoder) plain(n *yaml.Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Bool:
		if n.ShortTag() != "!!bool" {
			d.bad(n.Line, path, "is %s, expected true or false", kindOf(n))
			return
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int64:
		i, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 10, 64)
		if n.Kind != yaml.ScalarNode || err != nil || v.OverflowInt(i) {
			d.bad(n.Line, path, "is %s, expected a whole number", kindOf(n))
			return
		}
		v.SetInt(i)
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			d.bad(n.Line, path, "is %s, expected a number", kindOf(n))
			return
		}
		v.SetFloat(f)
	default:
		panic("config: no settings of type " + v.Type().String())
	}
}

func (d *decoder) scalar(n *yaml.Node, path, want string) bool {
	if n.Kind != yaml.ScalarNode {
		d.bad(n.Line, path, "is %s, expected %s", kindOf(n), want)
		return false
	}
	return true
}

func (d *decoder) object(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.spoiled[path] = true
		d.bad(n.Line, path, "is %s, expected keys and values", kindOf(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, c := n.Content[i], n.Content[i+1]
		name := key(v.Type(), k.Value)
		if d.repeated(seen, k, name, path) {
			continue
		}
		f, ref, ok := field(v, name)
		if rest, others := restOf(v); !ok && others {
			e := reflect.New(rest.Type().Elem()).Elem()
			d.value(c, e, join(path, k.Value), false)
			d.lines[join(path, k.Value)] = k.Line
			if rest.IsNil() {
				rest.Set(reflect.MakeMap(rest.Type()))
			}
			rest.SetMapIndex(reflect.ValueOf(k.Value), e)
			continue
		}
		if !ok {
			d.strange[path] = append(d.strange[path], k.Value)
			d.bad(k.Line, join(path, k.Value), "unknown key%s", nearest.Hint(k.Value, keys(v.Type())))
			continue
		}
		d.value(c, f, join(path, name), ref)
		d.lines[join(path, name)] = k.Line
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, ref bool) {
	if n.Kind != yaml.MappingNode {
		d.spoiled[path] = true
		d.bad(n.Line, path, "is %s, expected keys and values", kindOf(n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, c := n.Content[i], n.Content[i+1]
		if d.repeated(seen, k, k.Value, path) {
			continue
		}
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(c, e, join(path, k.Value), ref)
		d.lines[join(path, k.Value)] = k.Line
		v.SetMapIndex(reflect.ValueOf(k.Value), e)
	}
}

func (d *decoder) repeated(seen map[string]int, k *yaml.Node, name, path string) bool {
	if k.Kind != yaml.ScalarNode {
		d.bad(k.Line, path, "a key is %s, expected a name", kindOf(k))
		return true
	}
	if line, ok := seen[name]; ok {
		d.bad(k.Line, join(path, k.Value), "is set twice, first in line %d", line)
		return true
	}
	seen[name] = k.Line
	return false
}

// reference is ${NAME}; $${NAME} stands for itself.
var reference = pattern.New(`\$?\$\{([^}]*)\}`)

// resolve replaces ${NAME} by the variable's value, and a whole "file:path" by the file's
// content. Neither is ever part of a message.
func (d *decoder) resolve(line int, path, s string) string {
	if name, ok := strings.CutPrefix(s, "file:"); ok {
		if name = home(name, d.env); !filepath.IsAbs(name) {
			name = filepath.Join(d.dir, name)
		}
		b, err := os.ReadFile(name) //nolint:gosec // the owner of the settings names it
		if err != nil {
			d.bad(line, path, "the file that it refers to cannot be read: %s", says(err))
			return ""
		}
		text := strings.TrimRight(string(b), "\r\n")
		d.refer(path, text)
		return text
	}
	return reference.ReplaceAllStringFunc(s, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name := m[2 : len(m)-1]
		val, ok := d.env(name)
		if !ok {
			d.bad(line, path, "refers to ${%s}, which is not set in the environment", name)
		}
		d.refer(path, val)
		return val
	})
}

func (d *decoder) refer(path, value string) {
	if d.refs == nil {
		d.refs = map[string][]string{}
	}
	d.refs[path] = append(d.refs[path], value)
}

// key returns the name in t of a key in a file: the key itself, or its form with
// underscores when it is written in camelCase (lastK).
func key(t reflect.Type, written string) string {
	known := keys(t)
	if slices.Contains(known, written) {
		return written
	}
	if other := underscored(written); slices.Contains(known, other) {
		return other
	}
	return written
}

func underscored(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if r >= 'A' && r <= 'Z' {
			if i == 0 {
				return camel
			}
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// field finds the field of a struct by its key.
func field(v reflect.Value, key string) (f reflect.Value, ref, ok bool) {
	for sf := range fields(v.Type()) {
		if name, r := keyOf(sf); name == key && name != "" {
			return v.FieldByIndex(sf.Index), r, true
		}
	}
	return reflect.Value{}, false, false
}

// restOf is the struct's map for keys that are not fields, if it has one.
func restOf(v reflect.Value) (rest reflect.Value, ok bool) {
	for sf := range fields(v.Type()) {
		if sf.Tag.Get("yaml") == ",rest" {
			return v.FieldByIndex(sf.Index), true
		}
	}
	return rest, false
}

func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if sf := t.Field(i); sf.IsExported() && !yield(sf) {
				return
			}
		}
	}
}

func keys(t reflect.Type) []string {
	var out []string
	for sf := range fields(t) {
		if name, _ := keyOf(sf); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func keyOf(sf reflect.StructField) (name string, ref bool) {
	tag, ok := sf.Tag.Lookup("yaml")
	if !ok {
		tag = sf.Tag.Get("json")
	}
	name, opts, _ := strings.Cut(tag, ",")
	if name == "-" {
		name = ""
	}
	return name, opts == "ref"
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!bool":
		return n.Value
	case "!!int", "!!float":
		return "the number " + n.Value
	}
	return "text"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// says is an error's message with its hint.
func says(err error) string {
	s := err.Error()
	if h := parley.Info(err).Hint; h != "" && parley.CodeOf(err) != parley.CodeInternal {
		s += "; " + h
	}
	return s
}
