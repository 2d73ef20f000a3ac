// Package strict finds what the standard decoder silently accepts from a client: a
// duplicate key, of which only the last would count, and text that is not valid Unicode,
// which would be changed.
package strict

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// deepest is how deep a document may be nested before the decoder refuses it.
const deepest = 10_000

type level struct {
	keys map[string]bool // of an object; nil in a list
	key  string          // whose value comes next; empty: a key does
	open bool            // a key was read
}

// JSON returns what is wrong with a document, naming the field, or nil. It does not report
// a document that is not JSON: the decoder does.
func JSON(doc []byte) *parley.Error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var in []level
	for {
		from := d.InputOffset()
		token, err := d.Token()
		if err != nil || len(in) > deepest {
			return nil
		}
		raw := doc[from:d.InputOffset()]
		var at *level
		if len(in) > 0 {
			at = &in[len(in)-1]
		}
		if key, ok := token.(string); ok && at != nil && at.keys != nil && !at.open {
			at.key, at.open = key, true
			if e := text(raw, in); e != nil {
				return e
			}
			if at.keys[key] {
				return parley.Errorf(parley.CodeInvalid, "the field %q is given twice", pathOf(in)).WithField(pathOf(in)).WithHint("give each field once")
			}
			at.keys[key] = true
			continue
		}
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{':
				in = append(in, level{keys: map[string]bool{}})
				continue
			case '[':
				in = append(in, level{})
				continue
			}
			in = in[:len(in)-1]
			if len(in) > 0 {
				at = &in[len(in)-1]
			} else {
				at = nil
			}
		case string:
			if e := text(raw, in); e != nil {
				return e
			}
		}
		if at != nil {
			at.open = false
		}
	}
}

// Keys returns a key of an object that is not among the known ones, compared exactly; if
// there are several, any of them.
func Keys(doc []byte, known ...string) (unknown string, found bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(doc, &all) != nil {
		return "", false
	}
	for _, k := range known {
		delete(all, k)
	}
	for k := range all {
		return k, true
	}
	return "", false
}

// text judges a string as it was sent.
func text(raw []byte, in []level) *parley.Error {
	what := ""
	switch {
	case !utf8.Valid(raw):
		what = "is not text in UTF-8"
	case halved(raw):
		what = `has half of a character, such as \ud83d without what belongs behind it`
	default:
		return nil
	}
	e := parley.Errorf(parley.CodeInvalid, "the body %s", what)
	if field := pathOf(in); field != "" {
		e = parley.Errorf(parley.CodeInvalid, "the field %q %s", field, what).WithField(field)
	}
	return e.WithHint("send JSON in UTF-8, with whole characters")
}

// halved reports whether a string has an escape for a lone surrogate.
func halved(raw []byte) bool {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 >= len(raw) {
			return false
		}
		if raw[i+1] != 'u' {
			raw = raw[i+2:]
			continue
		}
		high, low := half(raw[i:]), byte(0)
		if len(raw) >= i+12 {
			low = half(raw[i+6:])
		}
		switch {
		case high == 0:
			raw = raw[min(i+6, len(raw)):]
		case high == 'h' && low == 'l':
			raw = raw[i+12:]
		default:
			return true
		}
	}
}

// half says of an escape whether it is the high or the low half of a character.
func half(b []byte) byte {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return 0
	}
	switch c := b[3] | 0x20; {
	case '8' <= b[3] && b[3] <= '9' || c == 'a' || c == 'b':
		return 'h'
	case 'c' <= c && c <= 'f':
		return 'l'
	}
	return 0
}

// pathOf is the field that is being read, such as budgets.max_steps. It costs as much as
// the document is deep, so it is for refusals.
func pathOf(in []level) string {
	var names []string
	for _, l := range in {
		if l.open {
			names = append(names, l.key)
		}
	}
	return parley.Cut(strings.ToValidUTF8(strings.Join(names, "."), "\uFFFD"), 100)
}
