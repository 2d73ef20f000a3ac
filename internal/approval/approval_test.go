package approval_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/approval"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

var ana, bob = parley.Principal{User: "ana"}, parley.Principal{User: "bob"}

func hook(line string, folder fstest.MapFS) approval.Subject {
	return approval.Of(approval.Subject{Kind: parley.ApprovalHook, Level: "workspace", File: ".claude/settings.json", Name: "guard", Runs: line},
		map[string]string{"matcher": "Bash"}, folder, "/srv/w")
}

func open(p parley.Principal, w parley.Workspace, o approval.Options) *approval.Gate {
	return approval.For(seam.Scope{Principal: p, App: "notes", Workspace: w}, o)
}

// TestDigest: everything that decides about what runs is part of what is approved.
func TestDigest(t *testing.T) {
	t.Parallel()
	files := func(script string) fstest.MapFS {
		return fstest.MapFS{"guard.sh": {Data: []byte(script)}, "dir/x": {Data: []byte("x")}, "other.sh": {Data: []byte("other")}}
	}
	was := hook("sh guard.sh --strict", files("one"))
	if was.Wrong != nil || fmt.Sprint(was.Files) != "[guard.sh]" {
		t.Fatalf("got %v, %v", was.Files, was.Wrong)
	}
	if again := hook("sh guard.sh --strict", files("one")); again.Digest != was.Digest {
		t.Error("the same has another digest")
	}
	gone := files("one")
	delete(gone, "guard.sh")
	for name, s := range map[string]approval.Subject{
		"the script has changed": hook("sh guard.sh --strict", files("two")), "the script is gone": hook("sh guard.sh --strict", gone),
		"another argument": hook("sh guard.sh --lax", files("one")), "another script": hook("sh other.sh --strict", files("one")),
		"another entry": approval.Of(approval.Subject{Kind: parley.ApprovalHook, Level: "workspace", File: ".claude/settings.json", Name: "guard", Runs: "sh guard.sh --strict"}, "x", files("one"), ""),
		"a nearer file": approval.Of(approval.Subject{Kind: parley.ApprovalHook, Level: "workspace", File: ".claude/settings.local.json", Name: "guard", Runs: "sh guard.sh --strict"}, map[string]string{"matcher": "Bash"}, files("one"), ""),
		"another level": approval.Of(approval.Subject{Kind: parley.ApprovalHook, Level: "user", File: ".claude/settings.json", Name: "guard", Runs: "sh guard.sh --strict"}, map[string]string{"matcher": "Bash"}, files("one"), ""),
		"another kind":  approval.Of(approval.Subject{Kind: parley.ApprovalMCP, Level: "workspace", File: ".claude/settings.json", Name: "guard", Runs: "sh guard.sh --strict"}, map[string]string{"matcher": "Bash"}, files("one"), ""),
	} {
		if s.Digest == was.Digest {
			t.Errorf("%s: the same digest", name)
		}
	}
	for line, want := range map[string]string{
		`"$CLAUDE_PROJECT_DIR"/guard.sh`: "[guard.sh]", `${CLAUDE_PROJECT_DIR}/guard.sh`: "[guard.sh]", "/srv/w/guard.sh": "[guard.sh]",
		"cat ./dir/../guard.sh|sh": "[guard.sh]", "A=dir/x sh -c 'sh guard.sh'": "[dir/x guard.sh]", "sh ../guard.sh /etc/passwd dir": "[]",
	} {
		if got := fmt.Sprint(hook(line, files("")).Files); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
	large := fstest.MapFS{"guard.sh": {Data: make([]byte, 9<<20)}}
	if s := hook("sh guard.sh", large); s.Wrong == nil {
		t.Error("a file that is too large can be approved")
	}
	if s := hook(strings.Repeat("x", 9<<10), nil); s.Wrong == nil {
		t.Error("a command line that nobody can read can be approved")
	}
}

// TestAllowed: nothing runs without the operator and a person, a yes is for one user, app
// and workspace, and it outlives the process.
func TestAllowed(t *testing.T) {
	t.Parallel()
	store, ctx := mem.New(), t.Context()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	on := func() approval.Options {
		return approval.Options{Exec: true, Book: approval.New(store, func() time.Time { now = now.Add(time.Second); return now })}
	}
	s := hook("sh guard.sh", nil)
	says := func(g *approval.Gate, want string) {
		t.Helper()
		err := g.Allowed(ctx, s)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	var none *approval.Gate
	says(none, "runs nothing from files")
	off := open(ana, "w", approval.Options{Book: approval.New(store, nil)})
	says(off, "runs nothing from files")
	if _, err := off.Decide(ctx, s, parley.DecideApproval{State: parley.ApprovalAllowed, By: "ana"}); parley.CodeOf(err) != parley.CodeForbidden {
		t.Errorf("decided while it is off: %v", err)
	}
	g := open(ana, "w", on())
	says(g, "nobody has approved it")
	a, err := g.Decide(ctx, s, parley.DecideApproval{State: parley.ApprovalAllowed, By: "ana"})
	if err != nil || a.State != parley.ApprovalAllowed || a.By != "ana" || a.At.IsZero() {
		t.Errorf("got %+v, %v", a, err)
	}
	says(open(ana, "w", on()), "")
	says(off, "runs nothing from files") // the operator has changed their mind
	says(open(ana, "v", on()), "nobody")
	says(open(bob, "w", on()), "nobody")
	says(approval.For(seam.Scope{Principal: ana, App: "other", Workspace: "w"}, on()), "nobody")
	if _, err := g.Decide(ctx, s, parley.DecideApproval{State: parley.ApprovalDenied, By: "ana"}); err != nil {
		t.Error(err)
	}
	says(g, "has denied it")
	for was, want := range map[parley.ApprovalState]parley.Code{parley.ApprovalOpen: parley.CodeConflict, parley.ApprovalAllowed: parley.CodeConflict, parley.ApprovalDenied: ""} {
		a, err := g.Decide(ctx, s, parley.DecideApproval{State: parley.ApprovalDenied, Was: was, By: "ana"})
		if parley.CodeOf(err) != want || a.State != parley.ApprovalDenied || err != nil && !strings.Contains(err.Error(), "was denied meanwhile") {
			t.Errorf("seen as %s: %+v, %v", was, a, err)
		}
	}
	says(g, "has denied it")
	if _, err := g.Decide(ctx, s, parley.DecideApproval{State: parley.ApprovalOpen, By: "ana"}); err != nil {
		t.Error(err)
	}
	says(g, "nobody has approved it")
	if _, err := g.Decide(ctx, s, parley.DecideApproval{State: "maybe", By: "ana"}); parley.CodeOf(err) != parley.CodeInvalid {
		t.Error(err)
	}
	wrong := hook(strings.Repeat("x", 9<<10), nil)
	if _, err := g.Decide(ctx, wrong, parley.DecideApproval{State: parley.ApprovalAllowed, By: "ana"}); err == nil {
		t.Error("what cannot be approved was")
	}

	// What is in a user's own folder is the same in each workspace.
	own := approval.Of(approval.Subject{Kind: parley.ApprovalHook, Level: "user", Name: "n", Runs: "x"}, nil, nil, "")
	if _, err := g.Decide(ctx, own, parley.DecideApproval{State: parley.ApprovalAllowed, By: "ana"}); err != nil {
		t.Fatal(err)
	}
	if err := open(ana, "v", on()).Allowed(ctx, own); err != nil {
		t.Error(err)
	}
	if err := open(bob, "v", on()).Allowed(ctx, own); err == nil {
		t.Error("another user's yes counts")
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Allowed(ctx, own); err == nil {
		t.Error("without the store, everything is approved")
	}
}

// TestMany: the oldest decision makes room.
func TestMany(t *testing.T) {
	t.Parallel()
	store, now := mem.New(), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	g := open(ana, "w", approval.Options{Exec: true, Book: approval.New(store, func() time.Time { now = now.Add(time.Second); return now })})
	for i := range approval.MaxKept + 1 {
		if _, err := g.Decide(t.Context(), hook(fmt.Sprint(i), nil), parley.DecideApproval{State: parley.ApprovalAllowed, By: "ana"}); err != nil {
			t.Fatal(err)
		}
	}
	if rows, err := store.Approvals(t.Context(), ana); err != nil || len(rows) != approval.MaxKept {
		t.Errorf("got %d, %v", len(rows), err)
	}
	if g.Allowed(t.Context(), hook("0", nil)) == nil || g.Allowed(t.Context(), hook(fmt.Sprint(approval.MaxKept), nil)) != nil {
		t.Error("it was not the oldest that went")
	}
}

// TestExpand: only what the operator has listed is expanded, and only listed hosts are named.
func TestExpand(t *testing.T) {
	t.Parallel()
	g := open(ana, "w", approval.Options{Env: []string{"TEAM", "EMPTY"}, Hosts: []string{"Hooks.Example.com"}, Value: func(name string) (string, bool) {
		v, ok := map[string]string{"TEAM": "blue", "ANTHROPIC_API_KEY": "sk-secret"}[name]
		return v, ok
	}})
	own := map[string]string{"WORKSPACE_PATH": "/srv/w"}
	for text, want := range map[string]string{
		"${TEAM}/x": "blue/x", "${WORKSPACE_PATH}": "/srv/w", "$TEAM ${": "$TEAM ${", "${EMPTY:-d}": "d", "${OTHER:-d}": "d",
		"${ANTHROPIC_API_KEY:-none}": "none",
	} {
		if got, err := g.Expand(text, own); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"${ANTHROPIC_API_KEY}", "a ${EMPTY} b"} {
		if got, err := g.Expand(text, own); err == nil || got != "" || strings.Contains(err.Error(), "sk-secret") {
			t.Errorf("%s: got %q, %v", text, got, err)
		}
	}
	var none *approval.Gate
	if _, err := none.Expand("${TEAM}", nil); parley.CodeOf(err) != parley.CodeForbidden {
		t.Error(err)
	}
	for raw, want := range map[string]bool{
		"https://hooks.example.com/x": true, "http://hooks.example.com:8080/": true, "https://evil.example.com/": false,
		"http://169.254.169.254/latest/meta-data/": false, "http://localhost/": false, "file:///etc/passwd": false, "https://u:p@hooks.example.com/": false, "": false,
	} {
		if err := g.Address(raw); (err == nil) != want {
			t.Errorf("%q: %v", raw, err)
		}
	}
	if err := none.Address("https://hooks.example.com/x"); err == nil {
		t.Error(err)
	}
}

// TestCommandLine: a person sees everything that decides about what runs, and files that only the
// environment names, or whose names have spaces, are part of what is approved.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	env := map[string]string{"NODE_OPTIONS": "--require ./x.js", "LOG": "${LEVEL}"}
	words := []string{"node", "a b", "it's", ""}
	const want = `LOG=${LEVEL} NODE_OPTIONS='--require ./x.js' node 'a b' 'it'\''s' ''`
	line := approval.CommandLine(env, words)
	if line != want {
		t.Errorf("got %s, want %s", line, want)
	}
	of := func(x, spaced string) approval.Subject {
		folder := fstest.MapFS{"x.js": {Data: []byte(x)}, "a b": {Data: []byte(spaced)}}
		return approval.Of(approval.Subject{Kind: parley.ApprovalMCP, Level: "workspace", File: ".mcp.json", Name: "n", Runs: line, Words: append(words, env["NODE_OPTIONS"])}, nil, folder, "")
	}
	first := of("one", "one")
	if !slices.Equal(first.Files, []string{"a b", "x.js"}) {
		t.Errorf("it covers %q", first.Files)
	}
	if of("two", "one").Digest == first.Digest || of("one", "two").Digest == first.Digest {
		t.Error("another file has the same digest")
	}
}
