package program

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSession_replay: a replay of a demo session has the same events, offline, and so has the test
// that is made of it. With another prompt or policy, the first difference is shown. A file that is
// not a recording is refused.
func TestSession_replay(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	at := func(name string) string { return filepath.Join(p.dir, name) }
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	p.must("run", "--app", "chaos", "What is the final spec for the login system? My key is sk-ant-api03-"+strings.Repeat("x7Kq", 24))
	p.must("session", "export", "last", "-o", at("s.zip"))

	if out := p.must("session", "replay", at("s.zip")); !strings.Contains(out, "1 turn, ") || !strings.Contains(out, "There is no difference.") {
		t.Errorf("it says %q", out)
	}
	// An app that the recording does not use may be in the middle of an edit.
	for name, text := range map[string]string{"broken": "a: [", "whole": "model: scripted/demo\nagents: {a: {prompt: p.md}}\n"} {
		if err := os.MkdirAll(filepath.Join(at("apps"), name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(filepath.Join("apps", name, "p.md"), "Be kind.")
		write(filepath.Join("apps", name, "app.yaml"), text)
	}
	if out := p.must("session", "replay", at("s.zip"), "--apps", at("apps")); !strings.Contains(out, "There is no difference.") {
		t.Errorf("beside a broken app it says %q", out)
	}
	out := p.must("session", "to-test", at("s.zip"), at("tests"), "--name", "spec", "--about", "The first question.")
	scenario := filepath.Join(at("tests"), "spec.txtar")
	file, err := os.ReadFile(scenario)
	if err != nil || !strings.HasPrefix(string(file), "The first question.\n") || strings.Contains(string(file), "sk-ant-api03-x7Kq") || !strings.Contains(out, "spec.txtar") {
		t.Errorf("%v: it says %q and wrote %.200s", err, out, file)
	}
	p.must("session", "replay", scenario)
	if code, _, errs := p.run("session", "to-test", at("s.zip"), at("tests"), "--name", "spec"); code != exitFailed || !strings.Contains(errs, "--name") {
		t.Errorf("over a test that is there: exit %d, %s", code, errs)
	}
	if again, err := os.ReadFile(scenario); err != nil || !bytes.Equal(again, file) {
		t.Errorf("the test that was there is %.100s, %v", again, err)
	}

	code, out, _ := p.run("session", "replay", at("s.zip"), "--prompt", "interface="+write("p.md", "Be terse."))
	if code != exitFailed || !strings.Contains(out, "model call 1, of agent interface, has a different prompt") || !strings.Contains(out, "+ system: Be terse.") {
		t.Errorf("with another prompt: exit %d, %s", code, out)
	}
	code, out, _ = p.run("session", "replay", at("s.zip"), "--json", "--policy", write("policy.yaml", "rules: [{verdict: deny, tool: read_slack_mock}]\n"))
	var got struct {
		Same       bool
		Divergence struct{ What string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitFailed || got.Same || !strings.Contains(got.Divergence.What, "tool.ended in turn 1") {
		t.Errorf("with another policy: exit %d, %v, %s", code, err, out)
	}
	if code, out, errs := p.run("session", "replay", at("s.zip"), "--model", "scripted/chaos"); code != 0 {
		t.Errorf("with the same model: exit %d\n%s%s", code, out, errs)
	}

	for want, args := range map[string][]string{
		"--prompt: open":      {at("s.zip"), "--prompt", "interface=" + at("nope.md")},
		"--policy: open":      {at("s.zip"), "--policy", at("nope.yaml")},
		"no such file":        {at("none.zip")},
		"not a zip":           {write("x.zip", "hello")},
		"there is no model":   {at("s.zip"), "--model", "nobody/x"},
		"assistant=prompt.md": {at("s.zip"), "--prompt", "x"},
		"has no agent":        {at("s.zip"), "--prompt", "nobody=" + at("p.md")},
		"bad.yaml:1: rulez: unknown key; did you mean rules?":                              {at("s.zip"), "--policy", write("bad.yaml", "rulez: []\n")},
		"deep.yaml:3: rules[0].tol: unknown key; did you mean tool?":                       {at("s.zip"), "--policy", write("deep.yaml", "rules:\n  - verdict: deny\n    tol: x\n")},
		`verdict.yaml:1: rules[0].verdict: "dney" is not one of allow, ask, confirm, deny`: {at("s.zip"), "--policy", write("verdict.yaml", "rules: [{verdict: dney}]\n")},
		"text.yaml:2: not YAML": {at("s.zip"), "--policy", write("text.yaml", "rules: [\n")},
	} {
		code, _, errs := p.run(append([]string{"session", "replay"}, args...)...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, %q, want %q", args, code, errs, want)
		}
	}
}
