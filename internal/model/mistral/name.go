package mistral

import (
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strconv"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// handoffPrefix starts the name of a tool that stands for a handoff.
const handoffPrefix = "transfer_to_"

// maxName is the maximum length of a tool's name.
const maxName = 64

// names maps our names of tools and agents to names that Mistral accepts, and back. The same
// tools always get the same names.
type names struct {
	wire    map[target]string
	targets map[string]target
}

// target is what a name on the wire stands for.
type target struct {
	handoff bool
	name    string
}

func newNames(r seam.Request) *names {
	n := &names{wire: map[target]string{}, targets: map[string]target{}}
	for _, d := range r.Tools {
		n.of(target{name: d.Name})
	}
	for _, h := range r.Handoffs {
		n.of(target{handoff: true, name: h.Agent})
	}
	return n
}

// of returns the name of t on the wire. A target that the request does not offer, as in an old
// call, gets a name too.
func (n *names) of(t target) string {
	if w, ok := n.wire[t]; ok {
		return w
	}
	w := t.name
	if t.handoff {
		w = handoffPrefix + w
	}
	if _, taken := n.targets[w]; taken || !fits(w) {
		sum := sha256.Sum256([]byte(strconv.FormatBool(t.handoff) + w))
		w = clean(w)
		w = w[:min(len(w), maxName-9)] + "_" + hex.EncodeToString(sum[:4])
	}
	n.wire[t], n.targets[w] = w, t
	return w
}

// target returns what the model meant. An unknown name is taken for a tool's: the engine answers
// that there is none.
func (n *names) target(w string) target {
	if t, ok := n.targets[w]; ok {
		return t
	}
	return target{name: w}
}

func fits(s string) bool { return s != "" && len(s) <= maxName && clean(s) == s }

// clean replaces characters that a name may not have.
func clean(s string) string {
	b := []byte(s)
	for i, c := range b {
		if !alphanumeric(c) && c != '_' && c != '-' {
			b[i] = '_'
		}
	}
	return string(b)
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// ids gives each call of a history its id on the wire: nine letters or digits, all distinct.
// Mistral's own id is kept if it qualifies.
type ids struct {
	of   map[parley.CallID]string
	used map[string]bool
}

func newIDs() *ids { return &ids{of: map[parley.CallID]string{}, used: map[string]bool{}} }

func (x *ids) id(p parley.Part) string {
	if id, ok := x.of[p.Call]; ok && p.Call != "" {
		return id
	}
	id := p.ProviderID
	for n := 0; !isCallID(id) || x.used[id]; n++ {
		sum := sha256.Sum256([]byte(string(p.Call) + "#" + strconv.Itoa(n)))
		text := new(big.Int).SetBytes(sum[:16]).Text(62)
		id = (text + "000000000")[:9]
	}
	x.of[p.Call], x.used[id] = id, true
	return id
}

func isCallID(s string) bool {
	if len(s) != 9 {
		return false
	}
	for i := range len(s) {
		if !alphanumeric(s[i]) {
			return false
		}
	}
	return true
}
