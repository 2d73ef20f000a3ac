package toolbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
	"weak"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/parley-server/parley"
)

const (
	maxSchema = 1 << 20 // 1 MiB: the largest schemas seen at MCP servers are a tenth of it
	maxWrong  = 20      // more than a model mends at once
)

// compiled has the schemas that are in use, by the SHA-256 of their text: a
// weak.Pointer[schema] each. Toolsets of one service often share schemas, all scopes of an
// app have the same, and a compilation costs as much as some thirty checks.
var compiled sync.Map

// schema is safe for concurrent use.
type schema struct {
	s *jsonschema.Schema

	mu    sync.Mutex // held during a check
	steps *steps
}

// maxSteps limits one check. References that double at each step need as many steps as a model
// has time, in a schema of a few hundred bytes; and each step that fails takes memory. An ordinary
// input needs some hundred. Larger values get two for each of their bytes, up to mostSteps.
const (
	maxSteps  = 200_000
	mostSteps = 2_000_000
)

// steps counts down in a check. It ends the check with a panic, because the library offers no
// other way.
type steps struct{ left int }

// tooMany is that panic.
type tooMany struct{}

// meter counts the steps of one part of a schema, which the library takes for a vocabulary.
type meter struct {
	of   *steps
	each int // how many others it refers to, and itself
}

func (m meter) Validate(*jsonschema.ValidatorContext, any) {
	if m.of.left -= m.each; m.of.left < 0 {
		panic(tooMany{})
	}
}

// counted has the compiler put a meter into every part of a schema.
func counted(jc *jsonschema.Compiler) *steps {
	all := &steps{}
	jc.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "parley:steps",
		Compile: func(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
			each := 1
			for _, v := range obj {
				switch v := v.(type) {
				case []any:
					each += len(v)
				case map[string]any:
					each += len(v)
				}
			}
			return meter{all, each}, nil
		},
	})
	jc.AssertVocabs()
	return all
}

// compile reads a schema, as JSON Schema 2020-12 unless it names another draft.
// It never fetches anything: a reference to elsewhere is an error, as schemas
// come from servers that are not trusted.
func compile(raw json.RawMessage) (*schema, error) {
	if len(raw) > maxSchema {
		return nil, parley.Errorf(parley.CodeTooLarge, "has %d bytes, more than %d", len(raw), maxSchema)
	}
	sum := sha256.Sum256(raw)
	if p, ok := compiled.Load(sum); ok {
		if s := p.(weak.Pointer[schema]).Value(); s != nil {
			return s, nil
		}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	const at = "parley:schema"
	jc := jsonschema.NewCompiler()
	jc.DefaultDraft(jsonschema.Draft2020)
	jc.UseLoader(noLoader{})
	count := counted(jc)
	if err := jc.AddResource(at, doc); err != nil {
		return nil, err
	}
	js, err := jc.Compile(at)
	if err != nil {
		return nil, err
	}
	s := &schema{s: js, steps: count}
	p := weak.Make(s)
	compiled.Store(sum, p)
	runtime.AddCleanup(s, func(sum [sha256.Size]byte) { compiled.CompareAndDelete(sum, p) }, sum)
	return s, nil
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("refers to %s, and schemas are not fetched", url)
}

// wrong is one place where a value does not fit.
type wrong struct {
	at   string // JSON pointer; "" is the whole value
	what string // what is there and what was expected
}

func lines(ws []wrong) string {
	var b strings.Builder
	for i, w := range ws {
		if i > 0 {
			b.WriteByte('\n')
		}
		at := w.at
		if at == "" {
			at = "(the whole)"
		}
		fmt.Fprintf(&b, "- %s: %s", at, w.what)
	}
	return b.String()
}

// check returns everything that does not fit, nothing when raw does.
func (s *schema) check(raw []byte) []wrong {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return []wrong{{"", "is not JSON: " + err.Error()}}
	}
	err = s.validate(v, min(maxSteps+2*len(raw), mostSteps))
	if err == nil {
		return nil
	}
	if errors.Is(err, errSteps) {
		return []wrong{{"", errSteps.Error()}}
	}
	ve, ok := err.(*jsonschema.ValidationError) //nolint:errorlint // documented as this very type
	if !ok {
		return []wrong{{"", err.Error()}}
	}
	var ws []wrong
	collect(ve, &ws)
	slices.SortStableFunc(ws, func(a, b wrong) int { return strings.Compare(a.at, b.at) })
	ws = slices.Compact(ws)
	if n := len(ws); n > maxWrong {
		ws = append(ws[:maxWrong:maxWrong], wrong{"", fmt.Sprintf("and %d more", n-maxWrong)})
	}
	return ws
}

var errSteps = errors.New("cannot be checked: the tool's schema takes too many steps")

// validate checks a value in at most that many steps.
func (s *schema) validate(v any, most int) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case tooMany:
			err = errSteps
		default:
			panic(r)
		}
	}()
	s.steps.left = most
	return s.s.Validate(v)
}

// collect descends to the errors that say something about the value. For alternatives, it
// first says that one of them has to fit.
func collect(e *jsonschema.ValidationError, ws *[]wrong) {
	at := pointer(e.InstanceLocation)
	switch e.ErrorKind.(type) {
	case *kind.AnyOf:
		*ws = append(*ws, wrong{at, "fits none of the allowed forms; what each of them lacks is listed too"})
	case *kind.OneOf:
		if len(e.Causes) == 0 {
			*ws = append(*ws, wrong{at, "fits more than one of the allowed forms, expected exactly one"})
			return
		}
		*ws = append(*ws, wrong{at, "fits none of the allowed forms; what each of them lacks is listed too"})
	}
	if len(e.Causes) == 0 {
		*ws = append(*ws, say(at, e.ErrorKind)...)
		return
	}
	for _, c := range e.Causes {
		collect(c, ws)
	}
}

// say words the frequent kinds in plain English; the library words the rest.
func say(at string, k jsonschema.ErrorKind) []wrong {
	one := func(format string, args ...any) []wrong { return []wrong{{at, fmt.Sprintf(format, args...)}} }
	switch k := k.(type) {
	case *kind.Type:
		return one("is %s, expected %s", article(k.Got), articles(k.Want))
	case *kind.Required:
		var ws []wrong
		for _, m := range k.Missing {
			ws = append(ws, wrong{at + pointer([]string{m}), "is missing, and is required"})
		}
		return ws
	case *kind.AdditionalProperties:
		var ws []wrong
		for _, p := range k.Properties {
			ws = append(ws, wrong{at + pointer([]string{p}), "is not a known property; leave it out"})
		}
		return ws
	case *kind.FalseSchema:
		return one("is not allowed here; leave it out")
	case *kind.Enum:
		return one("is %s, expected one of %s", value(k.Got), values(k.Want))
	case *kind.Const:
		return one("is %s, expected %s", value(k.Got), value(k.Want))
	case *kind.MinLength:
		return one("has %d characters, expected at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return one("has %d characters, expected at most %d", k.Got, k.Want)
	case *kind.MinItems:
		return one("has %d items, expected at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return one("has %d items, expected at most %d", k.Got, k.Want)
	case *kind.Pattern:
		return one("is %s, expected a match of %s", value(k.Got), k.Want)
	}
	return one("%s", clip(k.LocalizedString(message.NewPrinter(language.English)), 300))
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteByte('/')
		b.WriteString(escape.Replace(clip(p, 100)))
	}
	return b.String()
}

func article(typ string) string {
	switch typ {
	case "array", "integer", "object":
		return "an " + typ
	case "null":
		return typ
	}
	return "a " + typ
}

func articles(types []string) string {
	out := make([]string, len(types))
	for i, t := range types {
		out[i] = article(t)
	}
	return strings.Join(out, " or ")
}

func value(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return clip(string(raw), 100)
}

func values(vs []any) string {
	out := make([]string, 0, len(vs))
	for _, v := range vs {
		out = append(out, value(v))
	}
	return clip(strings.Join(out, ", "), 500)
}

func joinAnd(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// clip shortens s to about n bytes at a rune boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
