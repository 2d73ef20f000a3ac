package gemini

import (
	"strconv"
	"strings"
)

// target is what a tool's name on the wire stands for.
type target struct {
	name    string
	handoff bool // to the agent of that name
}

// names maps our tool names to names that the provider accepts, and back. The provider's begin
// with a letter or an underscore. Dots are allowed but not used: models that write a call as
// code take the part before a dot for a module.
type names struct {
	theirs map[target]string
	ours   map[string]target
}

func newNames() *names { return &names{theirs: map[target]string{}, ours: map[string]target{}} }

const maxName = 64

func wordly(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

func fits(name string) bool {
	return name != "" && len(name) <= maxName && name[0] != '-' && (name[0] < '0' || name[0] > '9') &&
		!strings.ContainsFunc(name, func(r rune) bool { return !wordly(r) })
}

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
	if !fits(want) {
		want = strings.Map(func(r rune) rune {
			if wordly(r) {
				return r
			}
			return '_'
		}, want)
		if want == "" || want[0] == '-' || want[0] >= '0' && want[0] <= '9' {
			want = "_" + want
		}
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

// target returns what a name on the wire stands for. Models sometimes put an imagined module in
// front of it. An unknown name stands for itself, and the runtime reports that there is no such
// tool.
func (n *names) target(s string) target {
	if t, ok := n.ours[s]; ok {
		return t
	}
	if t, ok := n.ours[strings.TrimPrefix(s, "default_api.")]; ok {
		return t
	}
	if t, ok := n.ours[strings.TrimPrefix(s, "default_api:")]; ok {
		return t
	}
	return target{name: s}
}
