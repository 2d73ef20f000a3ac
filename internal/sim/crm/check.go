package crm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode"

	"zombiezen.com/go/sqlite"
)

// check reads the body of a request that makes a record, or changes one that was.
func (s *Server) check(k *kind, c *call, was *record) (values map[string]any, wrong []problem, err error) {
	bad := func(name, kind, format string, args ...any) {
		loc := []string{"body"}
		if name != "" {
			loc = append(loc, name)
		}
		wrong = append(wrong, problem{loc, fmt.Sprintf(format, args...), kind})
	}
	var in map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(c.body))
	if d.Decode(&in) != nil || in == nil {
		bad("", "type", "Give a JSON object.")
		return nil, wrong, nil
	}
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // that is what Token returns
		bad("", "type", "Give one JSON object, and nothing behind it.")
		return nil, wrong, nil
	}
	values = map[string]any{}
	for name, raw := range in {
		f, ok := k.field(name)
		switch {
		case !ok:
			bad(name, "unknown", "There is no such field.")
		case f.filledIn():
			bad(name, "read_only", "The server fills this in.")
		case string(raw) == "null" && (f.needed || f.fresh != nil):
			bad(name, "type", "This cannot be empty.")
		case string(raw) == "null":
			values[name] = nil
		default:
			v, why := f.read(raw)
			if why == "" && f.typ == ref && v != nil {
				var found bool
				if found, err = s.refers(f.to, c.org, fmt.Sprint(v)); err != nil {
					return nil, nil, err
				}
				if !found {
					why = fmt.Sprintf("There is no %v.", v)
				}
			}
			if values[name] = v; why != "" {
				bad(name, "value", "%s", why)
			}
		}
	}
	if was == nil {
		for _, f := range k.fields {
			if _, ok := values[f.name]; ok || in[f.name] != nil {
				continue
			}
			if f.needed {
				bad(f.name, "missing", "This is needed.")
			} else if f.fresh != nil {
				values[f.name] = f.fresh
			}
		}
	} else if len(in) == 0 {
		bad("", "missing", "Give the fields that are to change.")
	}
	if len(k.oneOf) > 0 {
		n := 0
		for _, name := range k.oneOf {
			v, ok := values[name]
			if !ok && was != nil {
				v = was.get(name)
			}
			if v != nil {
				n++
			}
		}
		if n != 1 {
			bad("", "value", "Give one of %s.", strings.Join(k.oneOf, ", "))
		}
	}
	slices.SortFunc(wrong, func(a, b problem) int { return slices.Compare(a.Loc, b.Loc) })
	return values, wrong, nil
}

// read reads a value, or says why it is none of the field's.
func (f field) read(raw json.RawMessage) (v any, why string) {
	switch f.typ {
	case whole:
		n := 0
		if json.Unmarshal(raw, &n) != nil || n < f.min || n > f.max {
			return nil, fmt.Sprintf("Give a whole number from %d to %d.", f.min, f.max)
		}
		return n, ""
	case flag:
		b := false
		if json.Unmarshal(raw, &b) != nil {
			return nil, "Give true or false."
		}
		return b, ""
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, "Give a text."
	}
	text = strings.TrimSpace(text)
	n := len([]rune(text))
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return nil, "Give a text without control characters."
	case n == 0 && f.needed:
		return nil, "This cannot be empty."
	case n == 0:
		return nil, "Give a value, or null to empty the field."
	case f.max > 0 && n > f.max:
		return nil, fmt.Sprintf("Give at most %d characters.", f.max)
	case f.typ == email:
		if a, err := mail.ParseAddress(text); err != nil || a.Address != text || !strings.Contains(text[strings.LastIndex(text, "@"):], ".") {
			return nil, "Give an address such as ana@example.com."
		}
	case f.typ == day:
		if _, err := time.Parse(time.DateOnly, text); err != nil {
			return nil, "Give a day such as 2026-05-31."
		}
	case f.typ == enum && !slices.Contains(f.of, text):
		return nil, "Give one of " + strings.Join(f.of, ", ") + "."
	}
	return text, ""
}

// refers says whether an organisation has what a reference names. The caller holds mu.
func (s *Server) refers(to, org, id string) (found bool, err error) {
	if to == "users" {
		u, ok := userOf(func(u User) bool { return u.ID == id })
		if ok {
			_, found = u.role(org)
		}
		return found, nil
	}
	err = s.rows("SELECT 1 FROM "+to+" WHERE id = ? AND org = ?", func(*sqlite.Stmt) error { found = true; return nil }, id, org)
	return found, err
}

// taken returns the lead other than id that has the email. The caller holds mu.
func (s *Server) taken(k *kind, org, id string, values map[string]any) (other string) {
	if address, ok := values["email"].(string); ok && k.name == "leads" {
		_ = s.rows("SELECT id FROM leads WHERE org = ? AND fold(email) = ? AND id <> ?", func(row *sqlite.Stmt) error { other = row.ColumnText(0); return nil }, org, fold(address), id)
	}
	return other
}
