package replay

import (
	"context"
	"fmt"

	"github.com/parley-server/parley"
)

// fork goes on in a fork of the session, as the recording did in a fork or an import: without the
// rules that were granted, and active again if the session had ended. before is what the recording
// has up to there. If a turn was open, the run has carried it further, so the run's session is
// forked in the middle of it.
func (r *runner) fork(ctx context.Context, before []parley.Event) error {
	var at int64 // 0: its end
	if running(before) {
		run, err := r.log(ctx)
		if err != nil {
			return err
		}
		at = asFar(before, run)
	}
	info, err := r.engine.Fork(ctx, r.who, r.id, parley.ForkSession{At: at})
	if err == nil {
		r.id, r.granted = info.ID, 0
	}
	return err
}

// asFar is the number of the run's event with which its last turn has come as far as that of the
// recording. It is 0 if the turn has not.
func asFar(recorded, run []parley.Event) int64 {
	a, b := plain(recorded, false), plain(run, false)
	due := map[string]int{}
	last, far := 0, int64(0)
	for _, e := range a {
		last = max(last, e.turn)
	}
	for i, key := range keys(a) {
		if a[i].turn == last {
			due[key]++
		}
	}
	for i, key := range keys(b) {
		if b[i].turn == last && due[key] > 0 {
			due[key]--
			far = max(far, b[i].seq)
		}
	}
	for _, n := range due {
		if n > 0 {
			return 0
		}
	}
	return far
}

// keys say of each entry what it is, of which agent and of which of its calls.
func keys(all []entry) []string {
	var out []string
	calls := map[parley.CallID]string{}
	for _, e := range all {
		key := string(e.of) + " " + e.kind
		var call parley.CallID
		switch p, _ := e.ev.Payload(); p := p.(type) {
		case parley.ToolRequested:
			calls[p.Call] = fmt.Sprint(len(calls))
		case parley.ToolStarted:
			call = p.Call
		case parley.ToolEnded:
			call = p.Call
		}
		out = append(out, key+" "+calls[call])
	}
	return out
}
