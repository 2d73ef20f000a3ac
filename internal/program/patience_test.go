package program_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestPatience: the server's operator sets how long a call that asks a person is kept.
func TestPatience(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := filepath.Join(p.dir, "apps", "doubter")
	p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
	p.write(filepath.Join(dir, "script.yaml"), `agents:
  clerk:
    - when: .Results
      say: "{{ range .Results }}{{ .Output }}{{ end }}"
    - call: [{tool: doubt, input: {}}]
`)
	p.write(filepath.Join(dir, "app.yaml"), `model: scripted/doubter
agents: {clerk: {prompt: clerk.md, tools: [doubt]}}
script: script.yaml
tools: {doubt: {}}
policy: {rules: [{verdict: allow}]}
`)
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(dir), "PARLEY_ENABLED=doubter")
	turn := func(s *process) parley.TurnInfo {
		sent := s.send(s.session("doubter"), "go").ID
		return must[parley.TurnInfo](s, "POST", "/v1/turns/"+string(sent)+"/await", `{"timeout_ms":20000}`)
	}
	s := p.serve()
	if at := turn(s); at.Status != parley.StatusWaiting {
		t.Errorf("without a setting: %+v", at)
	}
	s.kill()
	p.env = append(p.env, "PARLEY_LIMITS_PATIENCE=1ms")
	s = p.serve()
	sent := s.send(s.session("doubter"), "go").ID
	if at := s.ended(sent); at.Status != parley.StatusCompleted || !strings.Contains(at.Response.Message, "the answer is deny") {
		t.Errorf("with little patience: %+v", at)
	}
	p.env = append(p.env, "PARLEY_LIMITS_PATIENCE=0s")
	if code, _, errs := p.run("serve", "--addr", "127.0.0.1:0"); code != 2 || !strings.Contains(errs, "PARLEY_LIMITS_PATIENCE: has to be more than 0") {
		t.Errorf("with none: exit %d\n%s", code, errs)
	}
}

// ended follows a turn to its end, and answers nothing.
func (s *process) ended(id parley.TurnID) (at parley.TurnInfo) {
	s.t.Helper()
	for s.t.Context().Err() == nil && !at.Status.Ended() {
		at = must[parley.TurnInfo](s, "POST", "/v1/turns/"+string(id)+"/await", `{"timeout_ms":20000}`)
	}
	return at
}
