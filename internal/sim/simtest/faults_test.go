package simtest_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/sim/simtest"
)

const answer = "One two three four five six seven eight nine ten."

// fault is a way in which a provider fails, and the expected result of the turn.
type fault struct {
	name   string
	faults []simtest.Fault
	// code and says describe the turn's failure; if both are empty, it completes.
	code parley.Code
	says string
	// calls is how many calls reach the provider; 0: more than one. most is an upper
	// bound, for cases that depend on time.
	calls, most int
	// failed has the codes of the failed calls in the log; nil: any.
	failed []parley.Code
	// least is the minimum time between the first call and the second.
	least   time.Duration
	options loop.Options
	budgets parley.Budgets
	reach   func(t *testing.T, p simtest.Provider) (url string, c *http.Client)
	// partial: the text from before the failure is in the log.
	partial bool
}

var unavailable = []parley.Code{parley.CodeUnavailable}

// times repeats a fault for n calls.
func times(n int, f simtest.Fault) []simtest.Fault { return slices.Repeat([]simtest.Fault{f}, n) }

func hint(h string) http.Header { return http.Header{"Retry-After": {h}} }

// Waits are real, but short, and all cases of a provider wait at the same time. No case
// depends on speed.
var faults = []fault{
	{name: "429 with a hint", faults: times(1, simtest.Fault{Status: 429, Header: hint("0.9")}), calls: 2, failed: []parley.Code{parley.CodeRateLimited}, least: 890 * time.Millisecond},
	{name: "429 without a hint", faults: times(2, simtest.Fault{Status: 429}), calls: 3, failed: []parley.Code{parley.CodeRateLimited, parley.CodeRateLimited}},
	{name: "429 with a hint that is too long", faults: times(1, simtest.Fault{Status: 429, Header: hint("3600")}), calls: 1, code: parley.CodeRateLimited, says: "is receiving too many requests"},
	{name: "529", faults: times(1, simtest.Fault{Status: 529}), calls: 2, failed: unavailable},
	{name: "503", faults: times(1, simtest.Fault{Status: 503}), calls: 2, failed: unavailable},
	{name: "500", faults: times(1, simtest.Fault{Status: 500}), calls: 2, failed: unavailable},
	{name: "500 again and again", faults: times(9, simtest.Fault{Status: 500}), calls: 4, code: parley.CodeUnavailable, says: "is not available: no, with status 500"},
	{name: "401", faults: times(9, simtest.Fault{Status: 401}), calls: 1, code: parley.CodeUnauthenticated, says: "does not accept the key"},
	{name: "cut in mid-stream", faults: times(1, simtest.Fault{After: 6, Then: simtest.Cut}), calls: 2, failed: unavailable, partial: true},
	{name: "cut at the first frame", faults: times(1, simtest.Fault{Then: simtest.Cut}), calls: 2, failed: unavailable},
	{name: "an end in mid-stream", faults: times(1, simtest.Fault{After: 6, Then: simtest.End}), calls: 2, failed: unavailable, partial: true},
	{name: "a malformed chunk", faults: times(1, simtest.Fault{After: 6, Then: simtest.Malformed}), calls: 2, failed: unavailable, partial: true},
	{name: "a wrong content type", faults: times(1, simtest.Fault{Type: "text/html"}), calls: 2, failed: unavailable},
	{
		name: "silence before the first token", faults: times(1, simtest.Fault{Then: simtest.Hang}),
		options: loop.Options{FirstToken: 3 * time.Second},
	},
	{
		name: "silence in mid-stream", faults: times(1, simtest.Fault{After: 6, Then: simtest.Hang}), partial: true,
		options: loop.Options{Silence: 3 * time.Second},
	},
	{
		name: "a certificate that nobody trusts", code: parley.CodeModel, says: "is not trusted", failed: []parley.Code{parley.CodeModel},
		reach: func(t *testing.T, p simtest.Provider) (string, *http.Client) {
			return p.StartTLS(t, simtest.Says(answer)).URL, nil
		},
	},
	{
		name: "no TLS where it is wanted", code: parley.CodeModel, says: "does not speak TLS", failed: []parley.Code{parley.CodeModel},
		reach: func(t *testing.T, p simtest.Provider) (string, *http.Client) {
			return "https" + strings.TrimPrefix(p.Start(t, simtest.Says(answer), nil).URL, "http"), nil
		},
	},
	{
		name: "a name that is not found", code: parley.CodeUnavailable, says: "was not found", failed: slices.Repeat(unavailable, 4),
		reach: func(*testing.T, simtest.Provider) (string, *http.Client) {
			// The real resolver, with no server at the address of its name server.
			nobody := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("there is no name server")
			}}
			dial := net.Dialer{Resolver: nobody}
			return "http://provider.invalid", &http.Client{Transport: &http.Transport{DialContext: dial.DialContext}}
		},
	},
	{
		name: "nobody at the address", code: parley.CodeUnavailable, says: "no connection to", failed: slices.Repeat(unavailable, 4),
		// Port 1 is never assigned by chance, unlike a port that was just closed.
		reach: func(*testing.T, simtest.Provider) (string, *http.Client) { return "http://127.0.0.1:1", nil },
	},
	{
		name: "a wait that is longer than the turn", faults: times(9, simtest.Fault{Status: 429, Header: hint("25")}), most: 1,
		code: "budget_duration", budgets: parley.Budgets{MaxDurationMS: 3000},
	},
	{
		name: "no tokens left for another call", faults: times(9, simtest.Fault{After: 6, Then: simtest.Cut}), calls: 1,
		code: "budget_tokens", budgets: parley.Budgets{MaxTotalTokens: 8700}, partial: true,
	},
	{
		name: "no money left for another call", faults: times(9, simtest.Fault{After: 6, Then: simtest.Cut}), calls: 1,
		code: "budget_usd", budgets: parley.Budgets{MaxUSD: 0.083}, partial: true,
	},
}

// trial is a turn in which a fault happens.
type trial struct {
	fault
	sim  *simtest.Server
	rig  *enginetest.Rig
	at   []time.Time // when each call began
	id   parley.SessionID
	turn parley.TurnInfo
}

func (f fault) try(t *testing.T, p simtest.Provider) *trial {
	t.Helper()
	app := enginetest.App()
	app.Model = nameOf(p, &app)
	tr := &trial{fault: f}
	var url string
	var client *http.Client
	if f.reach != nil {
		url, client = f.reach(t, p)
	} else {
		tr.sim = p.Start(t, simtest.Says(answer), nil)
		tr.sim.Fail(f.faults...)
		url = tr.sim.URL
	}
	tr.rig = over(t, several{app.Model: adapted(t, p, url, &app, client)}, app, f.options)
	tr.id = tr.rig.Session(func(c *parley.CreateSession) { c.Budgets = f.budgets }).ID
	tr.turn = tr.rig.Send(tr.id, "Count to ten.")
	return tr
}

func (tr *trial) check(t *testing.T) {
	end := tr.rig.Await(tr.turn.ID)
	log := tr.rig.Log(tr.id)
	if err := enginetest.CheckLog(log); err != nil {
		t.Errorf("the log: %v", err)
	}
	var codes []parley.Code
	partial := ""
	for _, e := range log {
		pay, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		switch pay := pay.(type) {
		case parley.ModelFailed:
			codes = append(codes, pay.Error.Code)
			partial = max(partial, pay.Partial)
		case parley.ModelStarted:
			tr.at = append(tr.at, e.Time)
		}
	}
	if tr.failed != nil {
		if diff := cmp.Diff(tr.failed, codes); diff != "" {
			t.Errorf("calls that failed (-want +got):\n%s", diff)
		}
	}
	if tr.partial && (partial == "" || !strings.HasPrefix(answer, partial) || partial == answer) {
		t.Errorf("before the failure it said %q", partial)
	}
	if tr.sim != nil {
		n := len(tr.sim.Calls())
		switch {
		case tr.most > 0 && n > tr.most, tr.calls > 0 && n != tr.calls, tr.most+tr.calls == 0 && n < 2:
			t.Errorf("%d calls reached the provider, want %d, or %d at most", n, tr.calls, tr.most)
		}
	}
	if tr.least > 0 && (len(tr.at) < 2 || tr.at[1].Sub(tr.at[0]) < tr.least) {
		t.Errorf("calls began at %s: want %s before the second", tr.at, tr.least)
	}
	if tr.code == "" {
		if end.Status != parley.StatusCompleted || end.Response.Message != answer {
			t.Errorf("the turn is %s: %+v %+v", end.Status, end.Response, end.Error)
		}
		return
	}
	if end.Status != parley.StatusFailed || end.Error == nil || end.Error.Code != tr.code || !strings.Contains(end.Error.Message, tr.says) || end.Error.Hint == "" {
		t.Errorf("the turn is %s: %+v", end.Status, end.Error)
	}
	if end.Error != nil && strings.Contains(end.Error.Message+end.Error.Hint, simtest.Key) {
		t.Errorf("the error has the key in it: %+v", end.Error)
	}
}

// TestFaults: through engine, loop, adapter and a real socket, a turn recovers from a
// passing fault, and fails with a clear reason after a lasting one. The text that a
// provider sent before it failed is kept, and not joined to its next text.
func TestFaults(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, p simtest.Provider) {
		var trials []*trial
		for _, f := range faults {
			trials = append(trials, f.try(t, p))
		}
		for _, tr := range trials {
			t.Run(tr.name, tr.check)
		}
	})
}

// TestFaults_fallback: if a provider stays unavailable, the app's next model takes over the
// turn, whichever provider it is from.
func TestFaults_fallback(t *testing.T) {
	t.Parallel()
	all := simtest.Providers()
	for i, p := range all {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			q := all[(i+1)%len(all)]
			app := enginetest.App()
			app.Model, app.Fallbacks = nameOf(p, &app), []string{nameOf(q, &app)}
			away, other := p.Start(t, simtest.Says("never"), nil), q.Start(t, simtest.Says(answer), nil)
			away.Fail(times(9, simtest.Fault{Status: 503})...)
			rig := over(t, several{app.Model: adapted(t, p, away.URL, &app, nil), app.Fallbacks[0]: adapted(t, q, other.URL, &app, nil)}, app, loop.Options{})
			id := rig.Session().ID
			turn := rig.Send(id, "Count to ten.")
			if end := rig.Await(turn.ID); end.Status != parley.StatusCompleted || end.Response.Message != answer {
				t.Errorf("the turn is %s: %+v %+v", end.Status, end.Response, end.Error)
			}
			log := rig.Log(id)
			if err := enginetest.CheckLog(log); err != nil {
				t.Errorf("the log: %v", err)
			}
			var went []string
			for _, e := range log {
				if pay, err := e.Payload(); err != nil {
					t.Fatal(err)
				} else if f, ok := pay.(parley.ModelFailed); ok {
					went = append(went, f.Fallback)
				}
			}
			if diff := cmp.Diff([]string{"", app.Fallbacks[0]}, went); diff != "" {
				t.Errorf("the models of failed calls (-want +got):\n%s", diff)
			}
			if a, b := len(away.Calls()), len(other.Calls()); a != 2 || b != 1 {
				t.Errorf("%d calls and %d", a, b)
			}
		})
	}
}
