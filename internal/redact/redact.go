// Package redact takes secrets out of everything that is kept or sent.
//
// One [Redactor] stands before the log, the index, the blobs and the wires. It
// knows two kinds of secrets: values it was told ([New], [Redactor.Add]), in
// the spellings they take on the way (plain, JSON-escaped, URL-escaped,
// base64), and shapes that no ordinary text has: keys with a maker's prefix,
// JSON web tokens, private keys, bearer tokens, passwords in URLs and in
// assignments such as password=... Every found byte goes; each unbroken stretch
// becomes one "[redacted]". Of a shape only the secret goes: its public prefix,
// "sk-ant-" or "password=", stays and says what was there. What is assigned goes
// whole, up to the closing quote or the next blank: in a query up to the next
// parameter, and in a list such as "password=a1b2c3d,host=db" up to the next name.
//
// [Redactor.String] works on text, [Redactor.JSON] inside the strings of a
// document, and [Stream] on text that comes in fragments. However a text is cut
// into fragments, the stream's output put together equals String of the whole,
// unless a value was added or removed in the middle.
//
// What it cannot do: find a secret that has no shape and that nobody told it, one
// written backwards or in another encoding, or one spelt out over several
// strings. A known value made of digits is not looked for in JSON numbers.
// ULIDs, UUIDs and hashes pass, except behind a name such as api_key=.
//
// A Redactor is safe for concurrent use. A Stream belongs to one goroutine.
package redact

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Mark stands where a secret was.
const Mark = "[redacted]"

const (
	// MinValue is the length in bytes of the shortest known value. Shorter
	// ones would be found in ordinary words, and blank out half of a text.
	MinValue = 6

	// MaxValue bounds a known value, because a stream may have to hold back
	// as many bytes.
	MaxValue = 64 << 10

	// keptPerName is how many values of one name are known at a time: the
	// present one and the one it replaced, which may still be in flight.
	keptPerName = 2
)

// Redactor finds secrets. Make one with [New].
type Redactor struct {
	table atomic.Pointer[table]
	of    *Redactor // see With

	mu    sync.Mutex
	named map[string][]known
	parts map[*Redactor]bool // made by With and not ended
}

type known struct {
	value string
	forms []string
}

// New returns a Redactor that knows all shapes, and the given values. Values
// that [Redactor.Add] would refuse are left out.
func New(values ...string) *Redactor {
	r := &Redactor{named: map[string][]known{}}
	for _, v := range values {
		r.put(v, v) // each is its own name: none pushes another out
	}
	r.rebuild()
	return r
}

// With returns a Redactor that knows the values that r knows now, and the given ones. Values
// that [Redactor.Add] would refuse are left out. Until [Redactor.End] is called, a
// [Redactor.Writer] of r also redacts these values. Its memory use is little more than its
// values.
func (r *Redactor) With(values ...string) *Redactor {
	p := &Redactor{of: r, named: map[string][]known{}}
	for _, v := range values {
		p.put(v, v)
	}
	forms := slices.Clone(r.table.Load().lits)
	for _, ks := range p.named {
		for _, k := range ks {
			forms = append(forms, k.forms...)
		}
	}
	p.table.Store(newTable(forms))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts = map[*Redactor]bool{}
	}
	r.parts[p] = true
	return p
}

// End says that a Redactor made by [Redactor.With] is no longer needed: writers stop redacting
// its values. The Redactor itself can still be used.
func (r *Redactor) End() {
	if r.of == nil {
		return
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	delete(r.of.parts, r)
}

// Add makes a value known under a name, beside the name's previous value; what
// was known before that is forgotten. White space around it is not part of it.
// It reports false, and changes nothing, for a value shorter than [MinValue] or
// longer than [MaxValue]. Texts and fragments that come later are searched for it.
func (r *Redactor) Add(name, value string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.put("name:"+name, value) {
		return false
	}
	r.rebuild()
	return true
}

// Remove forgets the values of a name. A name that is not there is no mistake.
func (r *Redactor) Remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.named, "name:"+name)
	r.rebuild()
}

func (r *Redactor) put(name, value string) bool {
	value = strings.TrimSpace(value)
	if len(value) < MinValue || len(value) > MaxValue {
		return false
	}
	have := slices.DeleteFunc(r.named[name], func(k known) bool { return k.value == value })
	have = append(have, known{value, spellings(value)})
	r.named[name] = have[max(0, len(have)-keptPerName):]
	return true
}

func (r *Redactor) rebuild() {
	var forms []string
	for _, ks := range r.named {
		for _, k := range ks {
			forms = append(forms, k.forms...)
		}
	}
	r.table.Store(newTable(forms))
}

// String returns s without secrets, and whether it had any. When it had none,
// it returns s itself and allocates nothing.
func (r *Redactor) String(s string) (string, bool) {
	spans, _, _ := r.table.Load().scan(s, 0, true, true, nil)
	if len(spans) == 0 {
		return s, false
	}
	w := writer{out: make([]byte, 0, len(s)+len(Mark))}
	w.write(s, 0, len(s), spans)
	return string(w.out), true
}

// view reads b as a string without copying it. The result is valid only during the call,
// and only while b is unchanged.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// writer joins the parts of a text that are not secret.
type writer struct {
	out []byte
	red bool // the last byte written stands for a secret
}

// write goes on from byte j, up to lim and beyond it as far as spans reach
// without a gap: what is secret by one reason stays so whatever else is found.
// It returns where it stopped, and sorts spans.
func (w *writer) write(b string, j, lim int, spans []span) int {
	slices.SortFunc(spans, func(a, c span) int { return a.s - c.s })
	for _, sp := range spans {
		if sp.e <= j {
			continue
		}
		s := max(sp.s, j)
		if s > j {
			if s > lim {
				break
			}
			w.out = append(w.out, b[j:s]...)
			w.red = false
		}
		if !w.red {
			w.out = append(w.out, Mark...)
			w.red = true
		}
		j = sp.e
	}
	if j < lim {
		w.out = append(w.out, b[j:lim]...)
		w.red = false
		j = lim
	}
	return j
}
