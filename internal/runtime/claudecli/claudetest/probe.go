package claudetest

import "testing"

func Probe(t *testing.T, c CLI) {
	t.Run("agents", func(t *testing.T) {
		r := c.start(t)
		defer r.Stop()
		s := r.Session()
		got := r.say(t, s, Step{Use: []Use{delegate(false, Step{Use: []Use{bash("echo sub > sub.txt")}}, Step{Text: "It is done."}, Step{Text: "Better."})}}, Step{Text: "Done."})
		t.Log(got, Told(r.check(t, s)))
	})
	t.Run("background", func(t *testing.T) {
		stops := r0
		_ = stops
		r := c.start(t)
		defer r.Stop()
		s := r.Session()
		got := r.say(t, s, Step{Use: []Use{delegate(true, Step{Text: "It is done."}, Step{Text: "Better."})}}, Step{Text: "I wait."}, Step{Text: "It has been done."})
		t.Log(got, Told(r.check(t, s)))
	})
	t.Run("compact", func(t *testing.T) {
		r := c.start(t)
		defer r.Stop()
		s := r.Session()
		got := r.say(t, s, Step{Tokens: 965_000, Use: []Use{bash("echo one >> log.txt")}}, Step{Tokens: 975_000, Use: []Use{bash("echo two >> log.txt")}}, Step{Text: "Done."})
		t.Log(got, Told(r.check(t, s)))
	})
}

const r0 = 0
