// Package records reads a JSON file that people write by hand: an object with one list of
// records, each with some text fields. Errors give file, line and column, because those
// people have to fix them.
//
// A [Tool] searches such a file, and an [Export] of the service that the records imitate.
// Everything is read again for each call; nothing is kept.
package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// MaxFile is how large a file may be.
const MaxFile = 16 << 20

// Folder is where a toolset finds its files. The zero Folder is empty.
type Folder struct {
	FS   fs.FS
	Name string // its name in messages: a path, or something else that people recognise
}

// Path is the name of a file in messages.
func (f Folder) Path(name string) string {
	if f.Name == "" {
		return name
	}
	return path.Join(strings.ReplaceAll(f.Name, `\`, "/"), name)
}

// Has reports whether the folder has something of this name.
func (f Folder) Has(name string) bool {
	if f.FS == nil {
		return false
	}
	_, err := fs.Stat(f.FS, name)
	return err == nil
}

// File returns the bytes of a regular file of at most max bytes.
func (f Folder) File(name string, max int64) ([]byte, error) {
	at := f.Path(name)
	if f.FS == nil {
		return nil, bad(at, "no data folder is set")
	}
	info, err := fs.Stat(f.FS, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, bad(at, "the file is missing")
	case err != nil:
		return nil, bad(at, "the file cannot be read: %s", reason(err))
	case !info.Mode().IsRegular():
		return nil, bad(at, "is not a file")
	case info.Size() > max:
		return nil, bad(at, "has %d bytes, more than the %d that are read", info.Size(), max)
	}
	r, err := f.FS.Open(name)
	if err != nil {
		return nil, bad(at, "the file cannot be read: %s", reason(err))
	}
	defer r.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(io.LimitReader(r, max+1))
	if err != nil {
		return nil, bad(at, "the file cannot be read: %s", reason(err))
	}
	if int64(len(b)) > max {
		return nil, bad(at, "has more than the %d bytes that are read", max)
	}
	return b, nil
}

// reason is the system's error without the path; the message has the path in the form that
// people know.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

func bad(at, format string, args ...any) error {
	return parley.Errorf(parley.CodeTool, "%s: %s", at, fmt.Sprintf(format, args...)).
		WithHint("fix the file; it is read again at the next call")
}

// Read returns the records of the list under key, each with the given fields.
// Other fields are ignored. Every field must be there and be text.
func Read(f Folder, name, key string, fields ...string) ([]map[string]string, error) {
	raw, err := f.File(name, MaxFile)
	if err != nil {
		return nil, err
	}
	raw = bytes.TrimPrefix(raw, []byte("\uFEFF"))
	r := reader{at: f.Path(name), raw: raw}
	var whole json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		if se, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, r.bad(max(0, se.Offset-1), "not JSON: %s", se.Error())
		}
		return nil, bad(r.at, "not JSON: %s", err)
	}
	if !utf8.Valid(raw) {
		return nil, r.bad(int64(invalidAt(raw)), "not UTF-8 text")
	}
	return r.read(key, fields)
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// reader walks over JSON that is known to be well formed, so its decoder returns no
// errors.
type reader struct {
	at  string
	raw []byte
}

func (r reader) bad(offset int64, format string, args ...any) error {
	line, col := position(r.raw, offset)
	return bad(fmt.Sprintf("%s:%d:%d", r.at, line, col), format, args...)
}

func position(b []byte, offset int64) (line, col int) {
	b = b[:min(int(offset), len(b))]
	line = 1 + bytes.Count(b, []byte("\n"))
	return line, 1 + utf8.RuneCount(b[bytes.LastIndexByte(b, '\n')+1:])
}

// value is a member of an object or of a list, with its offset.
type value struct {
	key string
	at  int64
	raw json.RawMessage
}

// members splits an object or a list that begins at offset base.
func members(raw []byte, base int64) []value {
	d := json.NewDecoder(bytes.NewReader(raw))
	open, _ := d.Token()
	var out []value
	for d.More() {
		var v value
		if open == json.Delim('{') {
			key, _ := d.Token()
			v.key, _ = key.(string)
		}
		if d.Decode(&v.raw) != nil {
			return out
		}
		v.at = base + d.InputOffset() - int64(len(v.raw))
		out = append(out, v)
	}
	return out
}

func kind(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

func (r reader) read(key string, fields []string) ([]map[string]string, error) {
	start := int64(len(r.raw) - len(bytes.TrimLeft(r.raw, " \t\r\n")))
	if got := kind(r.raw[start:]); got != "an object" {
		return nil, r.bad(start, "is %s, and has to be an object with a list %q", got, key)
	}
	for _, v := range members(r.raw[start:], start) {
		if v.key != key {
			continue
		}
		if got := kind(v.raw); got != "a list" {
			return nil, r.bad(v.at, "%q is %s, and has to be a list", key, got)
		}
		var out []map[string]string
		for i, m := range members(v.raw, v.at) {
			rec, err := r.record(fmt.Sprintf("%s[%d]", key, i), m, fields)
			if err != nil {
				return nil, err
			}
			out = append(out, rec)
		}
		return out, nil
	}
	return nil, r.bad(start, "has no list %q", key)
}

func (r reader) record(name string, m value, fields []string) (map[string]string, error) {
	if got := kind(m.raw); got != "an object" {
		return nil, r.bad(m.at, "%s is %s, and has to be an object", name, got)
	}
	rec := map[string]string{}
	for _, v := range members(m.raw, m.at) {
		for _, f := range fields {
			if v.key != f {
				continue
			}
			if got := kind(v.raw); got != "text" {
				return nil, r.bad(v.at, "%s.%s is %s, and has to be text", name, f, got)
			}
			var s string
			_ = json.Unmarshal(v.raw, &s) // it is a string
			rec[f] = s
		}
	}
	for _, f := range fields {
		if _, ok := rec[f]; !ok {
			return nil, r.bad(m.at, "%s has no %q", name, f)
		}
	}
	return rec, nil
}

// Time reads a date in one of the forms that people write; zero if it is none.
func Time(s string) time.Time {
	s = strings.TrimSpace(s)
	for _, layout := range []string{
		time.DateOnly, time.RFC3339, "2006-01-02T15:04:05", time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04", "2006/01/02", "2006-01",
		"January 2, 2006 3:04 PM", "January 2, 2006", "Jan 2, 2006 3:04 PM", "Jan 2, 2006", "2 January 2006", "2 Jan 2006",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	return time.Time{}
}
