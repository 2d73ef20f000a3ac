package anthropic

import (
	"strconv"
	"strings"
)

// target is what a tool's name on the wire stands for.
type target struct {
	name    string
	handoff bool // to the agent of that name
}

// names maps our tool names to names that the provider accepts, and back. Ours have dots and may
// be long; the provider's match ^[a-zA-Z0-9_-]{1,64}$.
type names struct {
	theirs map[target]string
	ours   map[string]target
}

func newNames(reserved []string) *names {
	n := &names{theirs: map[target]string{}, ours: map[string]target{}}
	for _, name := range reserved {
		n.ours[name] = target{name: name}
	}
	return n
}

const maxName = 64

// wire returns the name on the wire, always the same for the same target. If two targets would
// have the same name, the first to ask gets it.
func (n *names) wire(t target) string {
	if s, ok := n.theirs[t]; ok {
		return s
	}
	want := t.name
	if t.handoff {
		want = "transfer_to_" + t.name
	}
	want = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, want)
	if want == "" {
		want = "tool"
	}
	s := want[:min(len(want), maxName)]
	for i := 2; ; i++ {
		if _, taken := n.ours[s]; !taken {
			break
		}
		tail := "_" + strconv.Itoa(i)
		s = want[:min(len(want), maxName-len(tail))] + tail
	}
	n.theirs[t], n.ours[s] = s, t
	return s
}

// target returns what a name on the wire stands for. An unknown name stands for itself, and the
// runtime reports that there is no such tool.
func (n *names) target(s string) target {
	if t, ok := n.ours[s]; ok {
		return t
	}
	return target{name: s}
}
