package shell_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/tool/shell"
)

// TestSplit: a command line is plain only if its commands are all that it does.
func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line  string
		parts []string
		plain bool
	}{
		{"git status", []string{"git status"}, true},
		{`git  "status"  -s`, []string{"git status -s"}, true},
		{`g\it 'sta'tus`, []string{"git status"}, true},
		{`"git status"`, []string{"'git status'"}, true},
		{"cd web && npm test 2>&1 | tail -5", []string{"cd web", "npm test", "tail -5"}, true},
		{"a; b\nc & d || e", []string{"a", "b", "c", "d", "e"}, true},
		{"(a; { b; })", []string{"a", "b"}, true},
		{"ls >/dev/null 2>/dev/null </dev/null", []string{"ls"}, true},
		{"git status > out", []string{"git status"}, false},
		{"git status >> .git/config", []string{"git status"}, false},
		{"git status $(rm -rf x)", []string{"git status '$(rm -rf x)'", "rm -rf x"}, false},
		{"git status `rm x`", []string{"git status '`rm x`'", "rm x"}, false},
		{`git status "$(rm x)"`, []string{`git status '"$(rm x)"'`, "rm x"}, false},
		{"diff <(rm x) y", []string{"diff '<(rm x)' y", "rm x"}, false},
		{"LD_PRELOAD=x git status", []string{"git status"}, false},
		{"x=1", nil, false},
		{"git $cmd", []string{"git '$cmd'"}, false},
		{`git "$cmd"`, []string{`git '"$cmd"'`}, false},
		{`git $'\x73tatus'`, nil, false},
		{"ls *", []string{"ls *"}, false},
		{"ls {a,b}", []string{"ls {a,b}"}, false},
		{"ls ~root", []string{"ls ~root"}, false},
		{"for f in a; do rm $f; done", []string{"rm '$f'"}, false},
		{"if a; then b; fi", []string{"a", "b"}, false},
		{"git() { rm x; }; git status", []string{"rm x", "git status"}, false},
		{"cat <<E\nx\nE", []string{"cat"}, false},
		{"a <<< b", []string{"a"}, false},
		{"time rm x", nil, false},
		{"coproc rm x", nil, false},
		{"[[ -e x ]]", nil, false},
		{"((x=1))", nil, false},
		{"! a", []string{"a"}, true},
		{"git status # rm", []string{"git status"}, true},
		{"git status \\\n; rm x", []string{"git status", "rm x"}, true},
		{"", nil, false},
		{"git status 'unclosed", nil, false},
		{"echo " + strings.Repeat("x", 20_000), nil, false},
		{strings.Repeat("(", 10_000), nil, false},
	} {
		parts, plain := shell.Split(c.line)
		var got []string
		for _, argv := range parts {
			got = append(got, shell.Join(argv))
		}
		if plain != c.plain || c.parts != nil && !cmp.Equal(got, c.parts) {
			t.Errorf("%.60q: %q, plain %v", c.line, got, plain)
		}
	}
}

// TestLooks: what changes something, or may run another program, is no command that only looks.
func TestLooks(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"ls -la", "cat a | grep -n b | head -5", "git status", "git log --oneline -5 && git diff HEAD~1", "find . -name '*.go' | wc -l", "pwd; whoami", "node --version", "sort a", "cd web && ls", "sleep 1",
	} {
		if !shell.Looks(line) {
			t.Errorf("%q does not look", line)
		}
	}
	for _, line := range []string{
		"rm x", "ls > x", "cat a | tee b", "find . -delete", "find . -exec rm {} ;", "find . -fprintf x y", "sort -o a b", "sort -oa b", "sort --output=a b", "git commit -m x", "git diff --output=x",
		"git -c core.pager=x log", "git grep -Ovi x", "git", "xargs ls", "env ls", "sh -c ls", "sed -i s/a/b/ x", "python3 x.py", "curl x", "LS=1 ls", "ls $(rm x)", "ls; rm x", "ls | sh", "rg --pre x y", "eval ls", "command ls", "mkdir x", "",
	} {
		if shell.Looks(line) {
			t.Errorf("%q looks", line)
		}
	}
}

// TestRules: a rule for a command is not a rule for what is chained to it.
func TestRules(t *testing.T) {
	t.Parallel()
	app := parley.App{Policy: parley.Policy{Rules: []parley.Rule{
		{Verdict: parley.Allow, Tool: "Bash(git status:*)"},
		{Verdict: parley.Allow, Tool: "Bash(npm run test)"},
		{Verdict: parley.Allow, Tool: "Bash(go *)"},
		{Verdict: parley.Deny, Tool: "Bash(rm:*)"},
	}}}
	granted := []parley.Rule{{Verdict: parley.Allow, Tool: "Bash(make x > out)"}, {Verdict: parley.Allow, Tool: "Bash(make y)"}}
	tools := shell.New(shell.Options{})
	for line, want := range map[string]parley.Verdict{
		"git status": parley.Allow, "git status -s": parley.Allow, "git statusx": parley.Ask, "git  status": parley.Allow, "git push": parley.Ask,
		"npm run test": parley.Allow, "npm run test2": parley.Ask, "npm run test x": parley.Ask, "go vet ./...": parley.Allow, "go": parley.Ask,
		"git status && npm run test": parley.Allow, "git status | npm run test; go test": parley.Allow, "(git status)": parley.Allow,
		"git status; git push": parley.Ask, "git status && curl x": parley.Ask, "git status\ncurl x": parley.Ask, "git status | sh": parley.Ask, "git status & curl x": parley.Ask,
		"git status $(curl x)": parley.Ask, "git status `curl x`": parley.Ask, "git status > x": parley.Ask, "git status <(curl x)": parley.Ask, "X=1 git status": parley.Ask, "git status $X": parley.Ask,
		"git status 'x": parley.Ask, `"git status"`: parley.Ask, "git status ${x:-$(curl x)}": parley.Ask, "git status; eval curl": parley.Ask, "go test *": parley.Ask,
		"rm x": parley.Deny, "git status; rm x": parley.Deny, "git status $(rm x)": parley.Deny, `\rm x`: parley.Deny, "'r'm x": parley.Deny, "for f in a; do rm $f; done": parley.Deny, "x=1 rm y": parley.Deny, "rmdir x": parley.Ask,
		"make x > out": parley.Allow, "make x": parley.Ask, "make x > out; curl x": parley.Ask, "make y": parley.Allow, "make y && git status": parley.Allow, "make y && curl x": parley.Ask,
	} {
		raw := []byte(`{"command":` + quote(line) + `}`)
		w := policy.Wish{Decl: parley.ToolDecl{Name: "Bash", Subject: "{command}"}, Effect: parley.EffectWrite, Subject: line}
		w.Parts, w.Plain, w.Composed = tools.Parts(shell.Bash, raw)
		if got, _ := policy.Judge(&app, &parley.Session{Rules: granted}, w); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}

// FuzzSplit: whatever a line is, it is taken apart without a panic, and what is plain means the same
// when it is written again.
func FuzzSplit(f *testing.F) {
	for _, line := range []string{"git status; rm x", "a | b && c", `x "y z" 'w'`, "$(a)", "a\\\nb"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		parts, plain := shell.Split(line)
		if !plain {
			return
		}
		var again []string
		for _, argv := range parts {
			again = append(again, shell.Join(argv))
		}
		got, _ := shell.Split(strings.Join(again, "; "))
		if diff := cmp.Diff(parts, got); diff != "" && !strings.ContainsAny(line, "*?[]{}~!$`%^+") {
			t.Errorf("%q becomes %q:\n%s", line, again, diff)
		}
	})
}
