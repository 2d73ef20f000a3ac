package scripted

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley/internal/nearest"
)

// Mistake is an error in a script.
type Mistake struct {
	Line int // 0: not known
	Text string
}

func (m Mistake) Error() string {
	if m.Line == 0 {
		return m.Text
	}
	return fmt.Sprintf("line %d: %s", m.Line, m.Text)
}

// Check returns every mistake in a script.yaml, in the order of lines.
func Check(raw []byte) []Mistake {
	_, wrong := read(raw)
	list := make([]Mistake, 0, len(wrong))
	for _, err := range wrong {
		m, ok := errors.AsType[Mistake](err)
		if !ok {
			m = Mistake{Text: err.Error()}
		}
		list = append(list, m)
	}
	return list
}

// read parses the script. Its error contains every mistake as a [Mistake].
func read(raw []byte) (*script, []error) {
	s := &script{}
	var wrong []Mistake
	var doc yaml.Node
	if err := yaml.Load(raw, &doc); err != nil {
		return s, []error{placed(err)}
	}
	lines := map[string]int{}
	if len(doc.Content) > 0 && doc.Kind == yaml.DocumentNode {
		places(doc.Content[0], "", lines)
	} else {
		places(&doc, "", lines)
	}
	if err := yaml.Load(raw, s, yaml.WithKnownFields()); err != nil {
		// The readable parts are compiled nevertheless.
		var all *yaml.LoadErrors
		if !errors.As(err, &all) {
			return s, []error{placed(err)}
		}
		for _, e := range all.Errors {
			wrong = append(wrong, placed(e))
		}
	}
	s.compile(func(path string, err error) {
		m := Mistake{lines[path], path + ": " + err.Error()}
		if !slices.Contains(wrong, m) {
			wrong = append(wrong, m)
		}
	})
	slices.SortStableFunc(wrong, func(a, b Mistake) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return strings.Compare(a.Text, b.Text)
	})
	var errs []error
	for _, m := range wrong {
		errs = append(errs, m)
	}
	return s, errs
}

// places records the line of each value, by its path.
func places(n *yaml.Node, path string, lines map[string]int) {
	lines[path] = n.Line
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			at := strings.TrimPrefix(path+"."+n.Content[i].Value, ".")
			places(n.Content[i+1], at, lines)
			lines[at] = n.Content[i].Line
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			places(c, fmt.Sprintf("%s[%d]", path, i), lines)
		}
	}
}

// yamlPlace matches a location as the YAML library writes it.
var yamlPlace = regexp.MustCompile(`(?:\bline |\bL)(\d+)(?:\.C\d+)?:? ?`)

// placed is an error of the YAML library.
func placed(err error) Mistake {
	text := err.Error()
	at := yamlPlace.FindStringSubmatchIndex(text)
	if at == nil {
		return Mistake{Text: text}
	}
	line, _ := strconv.Atoi(text[at[2]:at[3]])
	text = strings.TrimSpace(text[at[1]:])
	if m := unknownField.FindStringSubmatch(text); m != nil {
		text = m[1] + ": unknown key" + nearest.Hint(m[1], keysOf(reflect.TypeFor[script](), m[2]))
	}
	return Mistake{line, text}
}

// unknownField matches what the YAML library says about a key without a field.
var unknownField = regexp.MustCompile(`(?s)^field (\S+) not found in type (.+)$`)

// keysOf returns the keys of the struct type called name that is in t, nil if there is none.
func keysOf(t reflect.Type, name string) (keys []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return keysOf(t.Elem(), name)
	case reflect.Struct:
	default:
		return nil
	}
	for f := range t.Fields() {
		key := f.Tag.Get("yaml")
		if key == "" {
			continue // not read from the file
		}
		if t.String() == name {
			keys = append(keys, key)
		} else if inside := keysOf(f.Type, name); inside != nil {
			return inside
		}
	}
	return keys
}
