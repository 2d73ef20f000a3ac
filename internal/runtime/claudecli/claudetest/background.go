package claudetest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

func delegate(background bool, steps ...Step) Use {
	return Use{"Agent", map[string]any{"description": "a task", "prompt": Script(steps...), "subagent_type": "general-purpose", "run_in_background": background}}
}

// ofAgents lists events of sub-agents: type, and name or outcome.
func ofAgents(t testing.TB, log []parley.Event) (list []string) {
	t.Helper()
	for _, e := range log {
		if e.Agent.Depth() == 0 {
			continue
		}
		p, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		switch p := p.(type) {
		case parley.AgentStarted:
			list = append(list, "started "+string(e.Agent))
		case parley.AgentEnded:
			list = append(list, "ended "+string(p.Outcome))
		case parley.ModelReplied:
			list = append(list, "replied")
		case parley.ToolEnded:
			list = append(list, p.Name+" "+string(p.Outcome))
		}
	}
	return list
}

// agents: an agent of the CLI does a task. What it does is in the log as its own.
func agents(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	s := r.Session()
	got := r.say(t, s, Step{Use: []Use{delegate(false, Step{Use: []Use{bash("echo sub > sub.txt")}}, Step{Text: "It is done."})}}, Step{Text: "Done."})
	log := r.check(t, s)
	if got != "Done." || r.File("sub.txt") != "sub\n" {
		t.Errorf("%q %q\n%s", got, r.File("sub.txt"), Told(log))
	}
	if diff := cmp.Diff([]string{"started main/helper", "replied", "Bash ok", "replied", "ended ok"}, ofAgents(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
}

// backgroundAgents: the turn goes on until the agent's result is there and was told to the model.
func backgroundAgents(t *testing.T, c CLI) {
	r := c.start(t)
	defer r.Stop()
	s := r.Session()
	got := r.say(t, s,
		Step{Use: []Use{delegate(true, Step{Use: []Use{bash("sleep 1; echo sub > sub.txt")}}, Step{Text: "It is done."})}},
		Step{Text: "I wait."}, Step{Text: "It has been done."})
	log := r.check(t, s)
	if got != "It has been done." || r.File("sub.txt") != "sub\n" {
		t.Errorf("%q %q\n%s", got, r.File("sub.txt"), Told(log))
	}
	if diff := cmp.Diff([]string{"started main/helper", "replied", "Bash ok", "replied", "ended ok"}, ofAgents(t, log)); diff != "" {
		t.Errorf("%s\n%s", diff, Told(log))
	}
}

// backgroundShells: a command runs on after its turn, and its end begins a turn of the runtime. Another
// one ends with the process.
func backgroundShells(t *testing.T, c CLI) {
	r := c.start(t)
	s := r.Session()
	command := Use{"Bash", map[string]any{"command": "while [ ! -e go ]; do sleep 0.05; done; echo bg > bg.txt", "description": "waits", "run_in_background": true}}
	if got := r.say(t, s, Step{Use: []Use{command}}, Step{Text: "It runs."}, Step{Text: "It has ended."}); got != "It runs." {
		t.Errorf("%q", got)
	}
	r.put(t, "go")
	within(t, "a turn of the runtime", func() bool { return Count(r.Log(s.ID), "turn.completed") == 2 })
	log := r.check(t, s)
	var own parley.TurnStarted
	for _, e := range log {
		if p, err := e.Payload(); err == nil {
			if p, ok := p.(parley.TurnStarted); ok {
				own = p
			}
		}
	}
	if own.Origin != parley.OriginRuntime || !strings.Contains(own.Message.Text(), "waits") || r.File("bg.txt") != "bg\n" {
		t.Errorf("%+v\n%s", own.TurnRequest, Told(log))
	}
	endless := Use{"Bash", map[string]any{"command": "touch endless; while true; do echo x >> endless; sleep 0.05; done", "description": "never ends", "run_in_background": true}}
	r.say(t, s, Step{Use: []Use{endless}}, Step{Text: "It runs."})
	within(t, "the command", func() bool { return len(r.File("endless")) > 4 })
	r.Stop()
	if before := r.File("endless"); strings.Repeat("x\n", len(before)/2) != before {
		t.Errorf("%q", before)
	}
	size := len(r.File("endless"))
	r.pause()
	if now := len(r.File("endless")); now != size {
		t.Error("a command goes on after its process")
	}
}
