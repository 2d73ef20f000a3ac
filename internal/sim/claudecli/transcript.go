package claudecli

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
)

//go:embed testdata/transcripts/*.ndjson testdata/index.json
var captured embed.FS

// Line is one JSON object of the protocol.
type Line = map[string]any

// Entry is a line of a transcript.
type Entry struct {
	In   bool // the host wrote it
	Line Line
	Raw  string // what the host wrote, if it was no object
}

// Transcript is a recorded run of the real program.
type Transcript struct {
	Name  string `json:"name"`
	Args  string `json:"args"`  // of the command line, beyond those that every run had
	Env   string `json:"env"`   // what was added to its environment
	Exit  string `json:"exit"`  // how it ended
	Shows string `json:"shows"` // what it is about

	Entries []Entry `json:"-"`
}

var index = sync.OnceValue(func() []Transcript {
	text, err := captured.ReadFile("testdata/index.json")
	if err != nil {
		panic(err)
	}
	var all []Transcript
	if err := json.Unmarshal(text, &all); err != nil {
		panic(err)
	}
	return all
})

// Transcripts returns all transcripts, without their entries.
func Transcripts() []Transcript { return index() }

// loaded are the transcripts that have been read, by name.
var loaded sync.Map

// Load returns the transcript with a name. It must not be changed.
func Load(name string) (*Transcript, error) {
	if t, ok := loaded.Load(name); ok {
		return t.(*Transcript), nil
	}
	t, err := load(name)
	if err == nil {
		loaded.Store(name, t)
	}
	return t, err
}

func load(name string) (*Transcript, error) {
	text, err := captured.ReadFile("testdata/transcripts/" + name + ".ndjson")
	if err != nil {
		return nil, fmt.Errorf("no transcript %q", name)
	}
	t := &Transcript{Name: name}
	for _, known := range index() {
		if known.Name == name {
			*t = known
		}
	}
	for raw := range bytes.Lines(text) {
		var e struct {
			Dir  string          `json:"dir"`
			Line json.RawMessage `json:"line"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		entry := Entry{In: e.Dir == "in"}
		if entry.Line, err = decode(e.Line); err != nil {
			if err := json.Unmarshal(e.Line, &entry.Raw); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		t.Entries = append(t.Entries, entry)
	}
	return t, nil
}

// Prompts returns the texts of the messages that the transcript's host wrote. Their folder is dir
// in place of the capture's.
func (t *Transcript) Prompts(dir string) []string {
	var all []string
	for _, e := range t.Entries {
		if text, ok := get(e.Line, "message", "content").(string); ok && e.In && text != "" {
			all = append(all, strings.ReplaceAll(text, "/workspace", dir))
		}
	}
	return all
}

// has reports whether the program wrote a line of this type.
func (t *Transcript) has(kind string) bool {
	for _, e := range t.Entries {
		if !e.In && e.Line["type"] == kind {
			return true
		}
	}
	return false
}

// template returns the first line of a transcript that is as wanted. It panics if there is
// none, which is a mistake here.
func template(name string, wanted func(Line) bool) Line {
	t, err := Load(name)
	if err != nil {
		panic(err)
	}
	for _, e := range t.Entries {
		if !e.In && e.Line != nil && wanted(e.Line) {
			return e.Line
		}
	}
	panic("no such line in " + name)
}

func decode(text []byte) (Line, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var l Line
	if err := d.Decode(&l); err != nil {
		return nil, err
	}
	if l == nil {
		return nil, fmt.Errorf("not an object")
	}
	return l, nil
}

// get follows a path of fields and returns what is there, or nil.
func get(v any, path ...string) any {
	for _, name := range path {
		object, ok := v.(Line)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}

func text(v any, path ...string) string { s, _ := get(v, path...).(string); return s }
func list(v any, path ...string) []any  { l, _ := get(v, path...).([]any); return l }
func object(v any, path ...string) Line { o, _ := get(v, path...).(Line); return o }

// with returns l with other fields. Nil takes a field away.
func with(l Line, fields Line) Line {
	l = maps.Clone(l)
	for name, v := range fields {
		if v == nil {
			delete(l, name)
		} else {
			l[name] = v
		}
	}
	return l
}
