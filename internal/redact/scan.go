package redact

import (
	"slices"
	"strings"
	"sync"
)

// table is what a scan looks up. It is never changed once made.
type table struct {
	*shapes
	begins

	lits []string    // known values in all spellings, sorted
	at   [257]uint32 // lits[at[c]:at[c+1]] begin with byte c
}

// begins has a bit for each hash of the three bytes with which a rule or a known value begins.
// With one lookup here nearly all positions in a text can be skipped. pairs and first do the
// same for the last two bytes and the last byte of a text.
type begins struct {
	threes [1 << 15 / 64]uint64
	pairs  [1 << 16 / 64]uint64
	first  [256]bool
}

// shapes is the part of a table that all tables share.
type shapes struct {
	starts begins // for the rules only

	rules [256][]*rule // by first byte
	inner [256]bool    // one of them may follow a letter or digit
	// innerPairs has a bit for each two bytes with which such a one begins.
	innerPairs [1 << 16 / 64]uint64
	// begun has for each (hash of) three bytes the rules that may begin so, as an
	// index into lists: of many makers' keys only one or two are looked at.
	begun [1 << 15]uint16
	lists [][]*rule

	names [256][]*rule // of kind assign, by last byte in lower case
}

func newTable(lits []string) *table {
	slices.Sort(lits)
	t := &table{shapes: allShapes(), lits: slices.Compact(lits)}
	t.begins = t.starts
	n := 0
	for c := range 256 {
		t.at[c] = uint32(n)
		for n < len(t.lits) && t.lits[n][0] == byte(c) {
			t.begin(t.lits[n][:3])
			n++
		}
	}
	t.at[256] = uint32(n)
	return t
}

// allShapes makes the shapes once, because they take 80 KB.
var allShapes = sync.OnceValue(newShapes)

func newShapes() *shapes {
	t := &shapes{lists: make([][]*rule, 1)}
	for i := range rules {
		r := &rules[i]
		a := r.prefix[0]
		if r.kind == assign {
			z := r.prefix[len(r.prefix)-1]
			t.names[z] = append(t.names[z], r)
		}
		t.rules[a] = append(t.rules[a], r)
		if r.fold && upper(a) != a {
			t.rules[upper(a)] = append(t.rules[upper(a)], r)
		}
		t.inner[a] = t.inner[a] || r.inner
		if r.fold {
			t.inner[upper(a)] = t.inner[upper(a)] || r.inner
		}
		r.beginnings(func(b string) {
			t.starts.begin(b)
			if r.inner {
				k := uint32(b[0])<<8 | uint32(b[1])
				t.innerPairs[k>>6] |= 1 << (k & 63)
			}
			k := three(b, 0)
			if t.begun[k] == 0 {
				t.begun[k] = uint16(len(t.lists))
				t.lists = append(t.lists, nil)
			}
			if l := &t.lists[t.begun[k]]; len(*l) == 0 || (*l)[len(*l)-1] != r {
				*l = append(*l, r)
			}
		})
	}
	return t
}

// beginnings calls f with each three bytes that a text matching r can begin with.
func (r *rule) beginnings(f func(string)) {
	switch {
	case r.fold:
		for set := range 8 {
			b := []byte(r.prefix[:3])
			for i := range b {
				if set>>i&1 == 1 {
					b[i] = upper(b[i])
				}
			}
			f(string(b))
		}
	case r.kind == dotted:
		for i := range len(thirdOfDigits) {
			f(r.prefix + thirdOfDigits[i:i+1])
		}
	case len(r.prefix) < 3:
		for c := range 256 {
			if classes[c]&r.class != 0 {
				f(r.prefix + string([]byte{byte(c)}))
			}
		}
	default:
		f(r.prefix[:3])
	}
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

func (t *begins) begin(b string) {
	k := three(b, 0)
	t.threes[k>>6] |= 1 << (k & 63)
	k = uint32(b[0])<<8 | uint32(b[1])
	t.pairs[k>>6] |= 1 << (k & 63)
	t.first[b[0]] = true
}

// three hashes b[i:i+3] to 15 bits.
func three(b string, i int) uint32 {
	_ = b[i+2]
	return (uint32(b[i])<<16 | uint32(b[i+1])<<8 | uint32(b[i+2])) * 0x9E3779B1 >> 17
}

// span is a stretch of secret bytes, found by looking at pos.
type span struct {
	pos, s, e int
	open      bool // it reached the end of what is there, and may go on:
	class     class
	pem       pemState // for inPEM
}

// extend lets an open span grow over b, from its end on.
func (sp *span) extend(b string, final bool) {
	for sp.e < len(b) {
		if sp.class == inPEM {
			sp.pem = sp.pem.next(b[sp.e])
			sp.e++
			if sp.pem == pemDone {
				sp.open = false
				return
			}
			continue
		}
		if classes[b[sp.e]]&sp.class == 0 {
			sp.open = false
			return
		}
		sp.e++
	}
	sp.open = !final
}

type verdict uint8

const (
	no   verdict = iota
	yes          // whatever follows
	wait         // what follows decides
)

// scan checks each position of b beginning at from; what comes before is only used as
// context. It appends what it found to spans, overlapping and in no order. Each position
// and rule is judged by itself, so it does not matter in how many pieces a text arrived.
// Unless final is set, more text will follow. Then keep is the first position not yet
// judged, and hold the first byte that may turn out to be secret; both are len(b) if there
// is none.
func (t *table) scan(b string, from int, shapes, final bool, spans []span) (_ []span, keep, hold int) {
	n := len(b)
	keep, hold = n, n
	for i := from; i < n; i++ {
		var begun []*rule
		if i+2 < n {
			k := three(b, i)
			if t.threes[k>>6]&(1<<(k&63)) == 0 {
				continue
			}
			begun = t.lists[t.begun[k]]
		} else if !t.first[b[i]] {
			continue
		} else if i+1 < n {
			if k := uint32(b[i])<<8 | uint32(b[i+1]); t.pairs[k>>6]&(1<<(k&63)) == 0 {
				continue
			}
		}
		for _, lit := range t.lits[t.at[b[i]]:t.at[int(b[i])+1]] {
			if rest := b[i:]; len(rest) >= len(lit) {
				if rest[:len(lit)] == lit {
					spans = append(spans, span{pos: i, s: i, e: i + len(lit)})
				}
			} else if !final && strings.HasPrefix(lit, rest) {
				keep, hold = min(keep, i), min(hold, i)
			}
		}
		if !shapes {
			continue
		}
		within := i > 0 && has[b[i-1]] != 0 && !escape(b, i-1) // a word
		if within && !t.inner[b[i]] {
			continue
		}
		switch {
		case i+1 == n: // each prefix is longer: whether one begins here is still to come
			if !final && len(t.rules[b[i]]) > 0 {
				keep = min(keep, i)
			}
			continue
		case i+2 == n:
			if k := uint32(b[i])<<8 | uint32(b[i+1]); !within || t.innerPairs[k>>6]&(1<<(k&63)) != 0 {
				begun = t.rules[b[i]]
			}
		}
		for _, r := range begun {
			if within && !r.inner || r.prefix[1]|0x20 != b[i+1]|0x20 {
				continue
			}
			sp, v, h := r.look(b, i, final)
			switch v {
			case yes:
				sp.pos = i
				if sp.open {
					if covered(spans, sp) {
						continue
					}
					sp.extend(b, final)
				}
				spans = append(spans, sp)
			case wait:
				keep, hold = min(keep, i), min(hold, h)
			}
		}
	}
	return spans, keep, hold
}

// covered reports whether sp, not yet extended, lies in an earlier span of the same class,
// and so would end with it. Without this check, one long secret with many possible
// beginnings would be scanned to its end for each of them.
func covered(spans []span, sp span) bool {
	for i := len(spans) - 1; i >= 0; i-- {
		if have := &spans[i]; have.class == sp.class {
			return have.s <= sp.s && sp.e <= have.e
		}
	}
	return false
}

// sensitive reports whether a key of an object names a secret.
func (t *table) sensitive(key string) bool {
	if key == "" {
		return false
	}
	for _, r := range t.names[key[len(key)-1]|0x20] {
		if n := len(key) - len(r.prefix); n >= 0 && strings.EqualFold(key[n:], r.prefix) {
			return true
		}
	}
	return false
}
