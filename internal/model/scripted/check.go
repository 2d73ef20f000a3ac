package scripted

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley/internal/nearest"
	"github.com/parley-server/parley/internal/pattern"
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

// Name is a tool or an agent that a rule names.
type Name struct {
	Line        int
	At          string // the path in the file, such as "agents.lead[0].handoff.to"
	By          string // the agent whose rule it is; "" for a name under agents
	Tool, Agent string // one of the two
}

// Names returns the tools and agents that the rules of a script.yaml name, in the order of lines.
func Names(raw []byte) (list []Name) {
	s, _ := read(raw)
	add := func(n Name) {
		for at := n.At; n.Line == 0 && at != ""; at = at[:max(strings.LastIndexByte(at, '.'), 0)] {
			n.Line = s.lines[at] // or of what it stands in, such as an alias
		}
		list = append(list, n)
	}
	for agent, rules := range s.Agents {
		at := "agents." + agent
		add(Name{At: at, Agent: agent})
		for i, r := range rules {
			if r == nil {
				continue
			}
			for j, c := range r.Call {
				if c.Tool != "" {
					add(Name{At: fmt.Sprintf("%s[%d].call[%d].tool", at, i, j), By: agent, Tool: c.Tool})
				}
			}
			if r.Handoff.To != "" {
				add(Name{At: fmt.Sprintf("%s[%d].handoff.to", at, i), By: agent, Agent: r.Handoff.To})
			}
		}
	}
	slices.SortFunc(list, func(a, b Name) int { return cmp.Or(a.Line-b.Line, strings.Compare(a.At, b.At)) })
	return list
}

// recent are the scripts that were read last. A start reads each script three times: to check it, for
// the names in it, and for the model. A script does not change once it was read.
var recent struct {
	sync.Mutex
	scripts []*reading // at most 8, the newest last
}

// reading is a script with the text that it is of.
type reading struct {
	text   [sha256.Size]byte
	once   sync.Once
	script *script
	wrong  []error
}

// read returns the script in raw. Its error contains every mistake as a [Mistake].
func read(raw []byte) (*script, []error) {
	text := sha256.Sum256(raw)
	recent.Lock()
	i := slices.IndexFunc(recent.scripts, func(r *reading) bool { return r.text == text })
	if i < 0 {
		recent.scripts = append(recent.scripts[max(0, len(recent.scripts)-7):], &reading{text: text})
		i = len(recent.scripts) - 1
	}
	r := recent.scripts[i]
	recent.Unlock()
	r.once.Do(func() { r.script, r.wrong = readAnew(raw) })
	return r.script, r.wrong
}

// readAnew is read for a text that is new.
func readAnew(raw []byte) (*script, []error) {
	s := &script{}
	var wrong []Mistake
	var doc yaml.Node
	if err := yaml.Load(raw, &doc); err != nil {
		return s, []error{placed(err)}
	}
	lines := map[string]int{}
	s.lines = lines
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
var yamlPlace = pattern.New(`(?:\bline |\bL)(\d+)(?:\.C\d+)?:? ?`)

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
var unknownField = pattern.New(`(?s)^field (\S+) not found in type (.+)$`)

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
