package shell_test

import (
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/shell"
)

// TestGrantedWithoutNetwork: what a person has allowed for a session with one Bash is not about one with a network,
// with other files to read, or with other variables.
func TestGrantedWithoutNetwork(t *testing.T) {
	t.Parallel()
	bash := func(o shell.Options) parley.ToolDecl {
		s := shell.New(o)
		defer s.Close()
		list, err := s.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	same := func(i int) shell.Options {
		return []shell.Options{
			{},
			{Ports: []int{443}},
			{Readable: []string{"/opt/a"}},
			{Readable: []string{"/opt/a", "/opt/b"}},
			{Env: map[string]string{"A": "1"}},
			{Env: map[string]string{"A": "secret", "B": "1"}},
			{Env: map[string]string{"A": "secret", "B": "2"}},
			{Unconfined: true},
			{Unconfined: true, Env: map[string]string{"A": "1"}},
		}[i]
	}
	for i := range 9 {
		was := bash(same(i))
		if strings.Contains(was.Safety, "secret") {
			t.Errorf("it tells a value: %q", was.Safety)
		}
		granted := parley.Rule{Tool: was.Name, Run: was.Run, Safety: was.Safety}
		for j := range 9 {
			if now := bash(same(j)); granted.GrantedFor(now) != (i == j) {
				t.Errorf("granted for %q: %v for %q", was.Safety, i != j, now.Safety)
			}
		}
	}
	ordered := bash(shell.Options{Readable: []string{"/opt/b", "/opt/a"}})
	if ordered.Safety != bash(same(3)).Safety {
		t.Error("the order of files counts")
	}
}
