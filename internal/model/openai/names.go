package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	maxName  = 64 // maximum length of a tool's name
	maxID    = 40 // maximum length of a call's id at OpenAI
	transfer = "transfer_to_"
)

// names holds the names of tools on the wire, which have up to 64 letters, digits, underscores
// and dashes. Other names are changed and get a digest, so that they are the same in each
// request.
type names struct {
	tools, handoffs map[string]string // from our names to the wire's
	back            map[string]target
}

type target struct {
	name    string
	handoff bool
}

func newNames(r *seam.Request) *names {
	n := &names{tools: map[string]string{}, handoffs: map[string]string{}, back: map[string]target{}}
	for _, t := range r.Tools {
		n.tool(t.Name)
	}
	for _, h := range r.Handoffs {
		n.handoff(h.Agent)
	}
	return n
}

func (n *names) tool(name string) string { return n.take(n.tools, name, name, target{name, false}) }

func (n *names) handoff(agent string) string {
	return n.take(n.handoffs, agent, transfer+agent, target{agent, true})
}

func (n *names) take(of map[string]string, key, name string, t target) string {
	if w, ok := of[key]; ok {
		return w
	}
	w := fit(name, "")
	for salt := "x"; ; salt += "x" {
		if _, taken := n.back[w]; !taken {
			break
		}
		w = fit(name, salt)
	}
	of[key], n.back[w] = w, t
	return w
}

// fit returns name in a form that the wire accepts. Different salts give different names.
func fit(name, salt string) string {
	clean := strings.Map(func(r rune) rune {
		if wordly(r) {
			return r
		}
		return '_'
	}, name)
	// Gemini requires a letter or an underscore at the beginning.
	if c := clean + "0"; c[0] == '-' || c[0] >= '0' && c[0] <= '9' {
		clean = "_" + clean
	}
	if clean == name && len(clean) <= maxName && salt == "" {
		return clean
	}
	sum := sha256.Sum256([]byte(name + "\x00" + salt))
	tail := "_" + hex.EncodeToString(sum[:4])
	return clean[:min(len(clean), maxName-len(tail))] + tail
}

func wordly(r rune) bool {
	return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// ids gives each call of a request its id on the wire: the server's own id if it is valid and
// unique, otherwise one that we make. Either is the same in the next request, so that a cached
// prefix stays valid.
type ids struct {
	of   map[parley.CallID]string
	used map[string]bool
}

func newIDs() *ids { return &ids{of: map[parley.CallID]string{}, used: map[string]bool{}} }

func (s *ids) call(p parley.Part) string {
	id := p.ProviderID
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return !wordly(r) }) || s.used[id] {
		id = derived(string(p.Call))
	}
	for n := ""; s.used[id]; n += "x" { // two calls with the same id: no log has them, but they are not rejected here
		id = derived(string(p.Call) + n + "\x00")
	}
	s.of[p.Call], s.used[id] = id, true
	return id
}

func derived(call string) string {
	const prefix = "call_"
	if call != "" && len(prefix)+len(call) <= maxID && !strings.ContainsFunc(call, func(r rune) bool { return !wordly(r) }) {
		return prefix + call
	}
	sum := sha256.Sum256([]byte(call))
	return prefix + hex.EncodeToString(sum[:12])
}
