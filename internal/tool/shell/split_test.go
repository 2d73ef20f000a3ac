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
		{"git status $(rm -rf x)", []string{"git status $(rm -rf x)", "rm -rf x"}, false},
		{"git status `rm x`", []string{"git status `rm x`", "rm x"}, false},
		{`git status "$(rm x)"`, []string{`git status "$(rm x)"`, "rm x"}, false},
		{"diff <(rm x) y", []string{"diff <(rm x) y", "rm x"}, false},
		{"ls '*' '{a,b}' 'x y' ~ '~' HEAD~1 'a?' '[x]'", []string{"ls '*' '{a,b}' 'x y' ~ '~' HEAD~1 'a?' '[x]'"}, false},
		{"'X=1' git status X=1", []string{"'X=1' git status X=1"}, true},
		{"'time' git status time", []string{"'time' git status time"}, true},
		{`\if x`, []string{"'if' x"}, true},
		{"LD_PRELOAD=x git status", []string{"git status"}, false},
		{"x=1", nil, false},
		{"git $cmd", []string{"git $cmd"}, false},
		{`git "$cmd"`, []string{`git "$cmd"`}, false},
		{`git $'\x73tatus'`, nil, false},
		{"ls *", []string{"ls *"}, false},
		{"ls {a,b}", []string{"ls {a,b}"}, false},
		{"ls ~root", []string{"ls ~root"}, false},
		{"for f in a; do rm $f; done", []string{"rm $f"}, false},
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
		for _, c := range parts {
			got = append(got, c.String())
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

// verdict is what rules say of a line, of Parley's Bash and of that of the Claude CLI.
func verdict(t *testing.T, app *parley.App, granted []parley.Rule, line string) parley.Verdict {
	t.Helper()
	tools := shell.New(shell.Options{})
	p, composed := tools.Parts(shell.Bash, []byte(`{"command":`+quote(line)+`}`))
	var got []parley.Verdict
	for _, run := range []parley.RunBy{"", parley.RunRuntime} {
		var rules []parley.Rule
		for _, r := range granted {
			r.Run = run
			rules = append(rules, r)
		}
		v, _ := policy.Judge(app, &parley.Session{Rules: rules}, policy.Wish{
			Decl: parley.ToolDecl{Name: "Bash", Subject: "{command}", Run: run}, Effect: parley.EffectWrite, Subject: line,
			Composed: composed, Parts: p.List, Plain: p.Plain, Within: p.Within, Hides: p.Hides,
		})
		got = append(got, v)
	}
	if got[0] != got[1] {
		t.Errorf("%q: %s of one and %s of the other", line, got[0], got[1])
	}
	return got[0]
}

// TestRules: a rule that allows a command allows nothing else, however the line is written.
func TestRules(t *testing.T) {
	t.Parallel()
	app := parley.App{Policy: parley.Policy{Rules: []parley.Rule{
		{Verdict: parley.Allow, Tool: "Bash(git status:*)"},
		{Verdict: parley.Allow, Tool: "Bash(npm run test)"},
		{Verdict: parley.Allow, Tool: "Bash(go *)"},
		{Verdict: parley.Deny, Tool: "Bash(rm:*)"},
	}}}
	granted := []parley.Rule{
		{Verdict: parley.Allow, Tool: "Bash(make x > out)"},
		{Verdict: parley.Allow, Tool: "Bash(make y)"},
		{Verdict: parley.Allow, Tool: "Bash(X=1 make)"},
		{Verdict: parley.Allow, Tool: "Bash(cp {a,b})"},
		{Verdict: parley.Allow, Tool: "Bash(cp ~ b)"},
		{Verdict: parley.Allow, Tool: "Bash(cp a? b)"},
		{Verdict: parley.Allow, Tool: "Bash(time make z)"},
		{Verdict: parley.Allow, Tool: "Bash(tar c $D)"},
		{Verdict: parley.Allow, Tool: "Bash(env A=1 make w)"},
	}
	for line, want := range map[string]parley.Verdict{
		"git status": parley.Allow, "git status -s": parley.Allow, "git  status": parley.Allow, "git status # x": parley.Allow, "git status 2>&1 >/dev/null": parley.Allow, "g'it' status": parley.Allow, "! git status": parley.Allow, "git status 'x; rm y'": parley.Allow,
		"npm run test": parley.Allow, "go vet ./...": parley.Allow, "git status && npm run test": parley.Allow, "git status | npm run test; go test": parley.Allow, "(git status)": parley.Allow, "{ git status; }": parley.Allow, "git status &": parley.Allow,
		"git statusx": parley.Ask, "git push": parley.Ask, "git": parley.Ask, "npm run test2": parley.Ask, "npm run test x": parley.Ask, "go": parley.Ask, "git -c core.fsmonitor=x status": parley.Ask, `"git status"`: parley.Ask, "git 'status -s'": parley.Ask,
		// Something before it.
		"env git status": parley.Ask, "env X=1 git status": parley.Ask, "env -S 'git status'": parley.Ask, "command git status": parley.Ask, "command -p git status": parley.Ask, "builtin git status": parley.Ask, "exec git status": parley.Ask, "nice git status": parley.Ask, "nice -n 5 git status": parley.Ask,
		"timeout 5 git status": parley.Ask, "time git status": parley.Ask, "nohup git status": parley.Ask, "setsid git status": parley.Ask, "stdbuf -oL git status": parley.Ask, "sudo git status": parley.Ask, "xargs git status": parley.Ask, "echo x | xargs git status": parley.Ask,
		"watch git status": parley.Ask, "coproc git status": parley.Ask, "X=1 git status": parley.Ask, "PATH=/tmp git status": parley.Ask, "LD_PRELOAD=./x.so git status": parley.Ask, "GIT_DIR=x git status": parley.Ask, "X= git status": parley.Ask, "a[0]=1 git status": parley.Ask, "X=1; git status": parley.Ask,
		"export PATH=/tmp; git status": parley.Ask, "declare -x PATH=/tmp; git status": parley.Ask, "readonly X=1; git status": parley.Ask, "alias git=x; git status": parley.Ask, "hash -p ./x git; git status": parley.Ask, "git() { curl x; }; git status": parley.Ask, "function git { curl x; }; git status": parley.Ask,
		"set -o xtrace; git status": parley.Ask, "trap 'curl x' EXIT; git status": parley.Ask, "cd /tmp && git status": parley.Ask, "read X; git status": parley.Ask, "read -r X <<< y; git status": parley.Ask, "enable -f ./x git; git status": parley.Ask, "shopt -s expand_aliases; git status": parley.Ask,
		// Something after it.
		"git status; git push": parley.Ask, "git status && curl x": parley.Ask, "git status || curl x": parley.Ask, "git status\ncurl x": parley.Ask, "git status\r\ncurl x": parley.Ask, "git status | sh": parley.Ask, "git status |& sh": parley.Ask, "git status & curl x": parley.Ask, "git status;curl x": parley.Ask,
		"git status \\\n; curl x": parley.Ask, "git status # x\ncurl x": parley.Ask, "git status; eval curl": parley.Ask, "git status; . ./x": parley.Ask, "git status; source x": parley.Ask, "git status; sh -c 'curl x'": parley.Ask, "git status | tee x": parley.Ask, "git status | while read x; do curl $x; done": parley.Ask,
		// Something in it.
		"git status $(curl x)": parley.Ask, "git status `curl x`": parley.Ask, `git status "$(curl x)"`: parley.Ask, "git status <(curl x)": parley.Ask, "git status >(curl x)": parley.Ask, "git status $X": parley.Ask, `git status "$X"`: parley.Ask, "git status ${x:-$(curl x)}": parley.Ask, "git status $((x=1))": parley.Ask,
		"git status $'x'": parley.Ask, `git status $"x"`: parley.Ask, "git status *": parley.Ask, "git status {a,b}": parley.Ask, "git status ~root": parley.Ask, "git status [a-z]": parley.Ask, "git status !!": parley.Ask, "go test *": parley.Ask, "git status 'x": parley.Ask, "git status (": parley.Ask,
		// Redirections.
		"git status > x": parley.Ask, "git status >> x": parley.Ask, "git status >| x": parley.Ask, "git status &> x": parley.Ask, "git status >& x": parley.Ask, "git status 2> x": parley.Ask, "git status <> x": parley.Ask, "git status < x": parley.Ask, "> x git status": parley.Ask, "{ git status; } > x": parley.Ask,
		"git status << E\n$(curl x)\nE": parley.Ask, "git status <<'E'\nx\nE": parley.Ask, "git status <<< x": parley.Ask, "git status > /dev/null/../../tmp/x": parley.Ask, "git status > $X": parley.Ask, "git status 3<> /dev/tcp/x/80": parley.Ask, "git status {fd}> x": parley.Ask, "git status >/dev/nul'l'x": parley.Ask,
		// Control structures.
		"if git status; then git status; fi": parley.Ask, "for x in a; do git status; done": parley.Ask, "while git status; do git status; done": parley.Ask, "case x in x) git status;; esac": parley.Ask, "[[ -e x ]] && git status": parley.Ask, "((x=1)); git status": parley.Ask, "let x=1; git status": parley.Ask, "select x in a; do git status; done": parley.Ask,
		// What is forbidden stays so.
		"rm x": parley.Deny, "git status; rm x": parley.Deny, "git status $(rm x)": parley.Deny, `\rm x`: parley.Deny, "'r'm x": parley.Deny, "for f in a; do rm $f; done": parley.Deny, "x=1 rm y": parley.Deny, "rmdir x": parley.Ask,
		// A line that a person has allowed is this line, and a part of others only if it means the same there.
		"make x > out": parley.Allow, "make x": parley.Ask, "make x > out; curl x": parley.Ask, "make x > out; git status": parley.Ask, "make x '>' out": parley.Ask, "make y": parley.Allow, "make y && git status": parley.Allow, "make y && curl x": parley.Ask, "make y z": parley.Ask, "env make y": parley.Ask,
		"X=1 make": parley.Allow, "'X=1' make": parley.Ask, "X=2 make": parley.Ask, "cp {a,b}": parley.Allow, "cp '{a,b}'": parley.Ask, "cp ~ b": parley.Allow, "cp '~' b": parley.Ask, "cp a? b": parley.Allow, "cp 'a?' b": parley.Ask, `cp a\? b`: parley.Ask, "time make z": parley.Allow, "'time' make z": parley.Ask, `\time make z`: parley.Ask,
		"tar c $D": parley.Allow, "tar c '$D'": parley.Ask, "tar c $D; git status": parley.Ask, "env A=1 make w": parley.Allow, "env A=1 make w; git status": parley.Allow, "env A=2 make w": parley.Ask,
	} {
		if got := verdict(t, &app, granted, line); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}

// TestRulesWithin: a rule that forbids a command, or has a person asked about it, also applies to it in another
// command. Where it cannot be told what runs, a person is asked.
func TestRulesWithin(t *testing.T) {
	t.Parallel()
	app := parley.App{Policy: parley.Policy{Rules: []parley.Rule{{Verdict: parley.Allow, Tool: "Bash"}, {Verdict: parley.Deny, Tool: "Bash(rm:*)"}, {Verdict: parley.Ask, Tool: "Bash(git push:*)"}}}}
	for line, want := range map[string]parley.Verdict{
		"ls": parley.Allow, "echo rm x": parley.Allow, "xargs grep rm": parley.Allow, "timeout 5 make rm": parley.Allow, "sh -c 'echo rm'": parley.Allow, "sh rm x": parley.Allow, "env rm=1 make": parley.Allow, "find . -name rm": parley.Allow, "make $X": parley.Allow, "X=$(date) make": parley.Allow, "for f in a; do make $f; done": parley.Allow,
		"env rm x": parley.Deny, "env X=1 Y=2 rm x": parley.Deny, "env -i -u A -C /tmp X=1 rm x": parley.Deny, "env -S 'rm x'": parley.Deny, "env -S'rm x'": parley.Deny, "env --split-string='rm x'": parley.Deny, "command rm x": parley.Deny, "command -p rm x": parley.Deny, "builtin rm x": parley.Deny, "exec -a y rm x": parley.Deny,
		"nice rm x": parley.Deny, "nice -n 5 rm x": parley.Deny, "nice -5 rm x": parley.Deny, "timeout 5 rm x": parley.Deny, "timeout -k 3 5 rm x": parley.Deny, "timeout --signal=9 5 rm x": parley.Deny, "timeout -- 5 rm x": parley.Deny, "nohup rm x": parley.Deny, "setsid -w rm x": parley.Deny, "stdbuf -o L rm x": parley.Deny, "ionice -c 3 rm x": parley.Deny,
		"sudo -u x Y=1 rm x": parley.Deny, "xargs rm": parley.Deny, "ls | xargs -n 1 rm": parley.Deny, "xargs -0 -I {} rm {}": parley.Deny, "time rm x": parley.Deny, "/usr/bin/time -f x rm x": parley.Deny, "flock x rm y": parley.Deny, "chroot x rm y": parley.Deny, "watch -n 1 rm x": parley.Deny, "busybox rm x": parley.Deny, "strace -o y rm x": parley.Deny,
		"/bin/rm x": parley.Deny, "./rm x": parley.Deny, "env /bin/rm x": parley.Deny, "sh -c 'rm x'": parley.Deny, "bash -lc 'ls; rm x'": parley.Deny, "bash -o pipefail -c 'rm x'": parley.Deny, "/bin/sh -c -- 'rm x'": parley.Deny, "env nice timeout 5 sh -c 'exec rm x'": parley.Deny, "eval rm x": parley.Deny, "eval 'rm' x": parley.Deny, "trap 'rm x' EXIT": parley.Deny,
		"su -c 'rm x' y": parley.Deny, "find . -exec rm {} ;": parley.Deny, "find . -execdir rm {} +": parley.Deny, "find . -ok sh -c 'rm x' \\;": parley.Deny, "sh -c \"sh -c 'rm x'\"": parley.Deny, "coproc rm x": parley.Deny, "x() { rm y; }": parley.Deny,
		"sh -c 'git push'": parley.Ask, "env X=1 git push -f": parley.Ask, "git push": parley.Ask, "timeout 5 git pull": parley.Allow,
		"$X y": parley.Ask, "$(echo rm) x": parley.Ask, "r${X}m x": parley.Ask, "env $X y": parley.Ask, "sh -c \"$X\"": parley.Ask, "eval $X": parley.Ask, ". ./x": parley.Ask, "source x": parley.Ask, "echo " + strings.Repeat("x", 20_000): parley.Ask, "echo 'unclosed": parley.Ask, "sh -c \"'\"": parley.Ask,
		strings.Repeat("env ", 20) + "rm x": parley.Ask,
	} {
		if got := verdict(t, &app, nil, line); got != want {
			t.Errorf("%.80q: %s, want %s", line, got, want)
		}
	}
}

// FuzzSplit: whatever a line is, it is taken apart without a panic, and what is plain means the same
// when it is written again.
func FuzzSplit(f *testing.F) {
	for _, line := range []string{"git status; rm x", "a | b && c", `x "y z" 'w'`, "$(a)", "a\\\nb", "'X=1' '~' '{a,b}'", "env -S 'x y'", "sh -c 'a; b'"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		parts, plain := shell.Split(line)
		shell.Within(parts)
		if !plain {
			return
		}
		var again []string
		for _, c := range parts {
			again = append(again, c.String())
		}
		got, still := shell.Split(strings.Join(again, "; "))
		if diff := cmp.Diff(parts, got); diff != "" || !still {
			t.Errorf("%q becomes %q:\n%s", line, again, diff)
		}
	})
}
