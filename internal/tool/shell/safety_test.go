package shell_test

import (
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/shell"
)

// TestGrantedWithoutNetwork: what a person has allowed for a session with a Bash that has no network is not
// about one that has it.
func TestGrantedWithoutNetwork(t *testing.T) {
	t.Parallel()
	bash := func(ports ...int) parley.ToolDecl {
		s := shell.New(shell.Options{Ports: ports})
		defer s.Close()
		list, err := s.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	without := bash()
	granted := parley.Rule{Tool: without.Name, Run: without.Run, Safety: without.Safety}
	if !granted.GrantedFor(bash()) {
		t.Error("it is not about the same tool")
	}
	if granted.GrantedFor(bash(443)) {
		t.Error("it is about one with a network")
	}
}
