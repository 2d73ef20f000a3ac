package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// post is a service outside the server, which outlives it. It sends and counts mails. It cuts
// the connection after a letter with the word drop, and never answers one with the word hang.
type post struct {
	*httptest.Server
	mu    sync.Mutex
	mails map[string]int
	first map[string]chan struct{} // closed at the first mail of a text
}

func newPost(t *testing.T) *post {
	p := &post{mails: map[string]int{}, first: map[string]chan struct{}{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Text string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Errorf("mail: %v", err)
		}
		p.mu.Lock()
		if p.mails[in.Text]++; p.mails[in.Text] == 1 {
			close(p.waiting(in.Text))
		}
		p.mu.Unlock()
		switch {
		case strings.Contains(in.Text, "drop"):
			panic(http.ErrAbortHandler)
		case strings.Contains(in.Text, "hang"):
			<-r.Context().Done()
		}
		select { // a service takes time, and the server can die meanwhile
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
		_, _ = io.WriteString(w, "mailed "+in.Text)
	}))
	t.Cleanup(p.Server.Close)
	return p
}

// waiting returns the channel of a text. The caller holds p.mu.
func (p *post) waiting(text string) chan struct{} {
	if p.first[text] == nil {
		p.first[text] = make(chan struct{})
	}
	return p.first[text]
}

// sent is closed once a text was mailed. The server does not know it yet.
func (p *post) sent(text string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting(text)
}

func (p *post) count(text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mails[text]
}

const (
	spec = "I'm starting on the login system. What's the final spec?"
)

// TestKill ends the server as the kernel does, at random moments of three turns, each with
// three clients, and starts it again on the same store. Everything acknowledged or shown is
// there, the outcomes equal those of undisturbed turns, and each mail was sent once, or its
// outcome is unknown.
func TestKill(t *testing.T) {
	t.Parallel()
	service := newPost(t)
	var unknown, cut, lost atomic.Int64
	lanes := []struct {
		store string
		kills int // each of the five moments equally often
	}{{"sqlite", 10}, {"sqlite", 10}, {"postgres", 5}}
	t.Cleanup(func() {
		t.Logf("in lanes %v %d calls were cut, %d writes reported unknown, at most %s of text lost", lanes, cut.Load(), unknown.Load(), time.Duration(lost.Load()))
	})
	for lane, with := range lanes {
		t.Run(fmt.Sprint(with.store, lane), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, "PARLEY_SCRIPTED_PACE=4ms").on(keepers[with.store](t))
			p.withDesk(service.URL, "8ms")
			// The point where a turn is cut depends on timing: a seed repeats the moments but
			// not the run.
			random := rand.New(rand.NewPCG(2, uint64(lane)))
			l := &killing{t: t, p: p, s: p.serve(), calm: map[string][]string{}}
			begun := time.Now()
			l.round(fmt.Sprint(lane, " calm"), nil, nil)
			long := int64(time.Since(begun))
			after := func() func() {
				d := time.Duration(random.Int64N(long))
				return func() { <-time.After(d) }
			}
			for round := range with.kills {
				name, moment, again := fmt.Sprint(lane, " ", round), after(), (func())(nil)
				switch round % 5 {
				case 2: // and again while it recovers
					again = after()
				case 4: // a mail is sent, and its sender does not know
					text := letter(name, "desk-manual")
					moment = func() {
						select {
						case <-service.sent(text):
						case <-time.After(within):
							t.Errorf("%s was never mailed", text)
						}
					}
				}
				l.round(name, moment, again)
			}
			for _, turn := range l.turns {
				l.judge(turn, service)
				for of := lost.Load(); int64(turn.lost) > of && !lost.CompareAndSwap(of, int64(turn.lost)); of = lost.Load() {
				}
				cut.Add(int64(strings.Count(enginetest.Types(turn.log), "model.failed\n")))
				if slices.Contains(turn.outcome, "mail unknown") {
					unknown.Add(1)
				}
			}
		})
	}
}

// killing is a server that is killed again and again.
type killing struct {
	t     *testing.T
	p     *place
	s     *process
	turns []*killed
	calm  map[string][]string // outcomes of undisturbed turns, by app
}

// killed is one turn whose server was killed.
type killed struct {
	app, message, name string

	id           parley.SessionID
	acknowledged chan parley.TurnID
	clients      []*watcher

	log     []parley.Event
	outcome []string
	lost    time.Duration
}

func letter(round, app string) string { return "letter " + round + " of " + app }

// round runs three turns. It kills the server when moment returns, and again when again
// returns. A nil function means no kill.
func (l *killing) round(name string, moment, again func()) {
	t := l.t
	ctx, stop := context.WithCancel(t.Context())
	var base atomic.Pointer[string]
	base.Store(&l.s.url)
	var hands sync.WaitGroup
	defer func() { stop(); hands.Wait() }()
	key := []string{"Idempotency-Key", "the turn"}
	var turns []*killed
	for _, app := range []string{"desk-auto", "desk-manual", "chaos"} {
		turn := &killed{app: app, name: "round " + name, message: "mail " + letter(name, app), acknowledged: make(chan parley.TurnID, 1)}
		if app == "chaos" {
			turn.message = spec
		}
		turn.id = l.s.session(app)
		for _, wire := range resumable {
			w := newWatcher(wire, turn.id)
			turn.clients = append(turn.clients, w)
			hands.Go(func() { w.keep(ctx, func() string { return *base.Load() }) })
		}
		turns = append(turns, turn)
	}
	for _, turn := range turns {
		s := l.s
		hands.Go(func() {
			var got parley.TurnInfo
			a, err := s.try(ctx, "POST", "/v1/sessions/"+string(turn.id)+"/turns", object("message", turn.message), key...)
			if err == nil && a.status == 202 {
				_ = json.Unmarshal(a.body, &got)
			}
			turn.acknowledged <- got.ID
		})
	}
	dead := time.Now()
	if moment != nil {
		moment()
		l.s.kill()
		dead = l.s.killed
		l.s = l.p.serve()
	}
	if again != nil {
		again()
		l.s.kill()
		l.s = l.p.serve()
	}
	base.Store(&l.s.url)
	for _, turn := range turns {
		id, acknowledged := l.s.send(turn.id, turn.message, key...).ID, <-turn.acknowledged
		if acknowledged != "" && id != acknowledged {
			t.Errorf("the turn %s was acknowledged, and its key now names %s", acknowledged, id)
		}
		if end := l.s.settle(id); end.Status != parley.StatusCompleted {
			t.Errorf("%s: the turn of %s is %s: %+v", turn.name, turn.app, end.Status, end.Error)
		}
		raw := l.s.log(turn.id)
		turn.log = decode(t, raw)
		turn.outcome = enginetest.Outcomes(turn.log)
		for i, o := range turn.outcome { // without the names of the letters, which differ
			turn.outcome[i] = strings.ReplaceAll(o, strings.TrimPrefix(turn.message, "mail "), "LETTER")
		}
		if moment == nil {
			l.calm[turn.app] = turn.outcome
		}
		for _, w := range turn.clients { // it has the same bytes, so everything shown once is stored
			if err := w.has(ctx, raw); err != nil {
				t.Errorf("%s: %v", turn.name, err)
			}
			turn.lost = max(turn.lost, w.lost(turn.log, dead))
		}
		l.turns = append(l.turns, turn)
	}
}

// judge compares a turn with an undisturbed one.
func (l *killing) judge(turn *killed, service *post) {
	l.t.Helper()
	if err := enginetest.CheckLog(turn.log); err != nil {
		l.t.Errorf("%s: %v\n%s", turn.name, err, enginetest.Types(turn.log))
	}
	// The promise is 250 ms, which eventlog's tests check on fake time. The rest is for a busy
	// machine, which may be late to run and to write.
	if limit := 3 * time.Second; turn.lost > limit {
		l.t.Errorf("%s: text of %s is lost, more than %s", turn.name, turn.lost, limit)
	}
	text, isMail := strings.CutPrefix(turn.message, "mail ")
	mails := 1
	if isMail {
		mails = service.count(text)
	}
	unknown := slices.Contains(turn.outcome, "mail unknown")
	switch {
	case unknown && (mails > 1 || len(turn.outcome) != 2 || !strings.HasPrefix(turn.outcome[1], "completed: ")),
		!unknown && (mails != 1 || !slices.Equal(turn.outcome, l.calm[turn.app])):
		l.t.Errorf("%s: %s ended with %q and %d mails; undisturbed it ends with %q and 1", turn.name, turn.app, turn.outcome, mails, l.calm[turn.app])
	}
}

// lost returns the age, when the server died, of the oldest text that this client had shown and
// the log does not have.
func (w *watcher) lost(log []parley.Event, dead time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var oldest time.Duration
	for _, e := range log {
		if e.Type != "model.failed" {
			continue
		}
		p, err := e.Payload()
		if err != nil {
			continue // CheckLog has reported it
		}
		f := p.(parley.ModelFailed)
		for _, r := range w.call(f.Call).times {
			if r.upTo > len(f.Partial) && r.at.Before(dead) {
				oldest = max(oldest, dead.Sub(r.at))
			}
		}
	}
	return oldest
}

// waitsForWrites makes the program wait for writes of its previous life, as it does in production.
const waitsForWrites = "PARLEY_TEST_WAIT=1"

// TestWrite_that_is_cut_in_the_middle: a write that is cut is unknown, whether its service, its
// deadline, a cancellation or a stop of the server cuts it. The letter was sent once and is not
// sent again.
func TestWrite_that_is_cut_in_the_middle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		letter string
		cut    func(t *testing.T, p *place, s *process, turn parley.TurnID) *process
		status parley.TurnStatus
	}{
		"dropped": {"drop it", nil, parley.StatusCompleted},
		"timeout": {"hang", nil, parley.StatusCompleted},
		"stopped": {"hang on", func(t *testing.T, _ *place, s *process, turn parley.TurnID) *process {
			stopping := must[parley.TurnInfo](s, "POST", "/v1/turns/"+string(turn)+"/cancel", object("reason", "enough"))
			if !stopping.Stopping || stopping.Status.Ended() {
				t.Errorf("while a letter is under way the turn is %s, stopping %t", stopping.Status, stopping.Stopping)
			}
			return s
		}, parley.StatusCancelled},
		"server stopped": {"hang there", func(t *testing.T, p *place, s *process, _ parley.TurnID) *process {
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			select {
			case <-s.done:
			case <-time.After(within):
				t.Error("the server did not stop")
			}
			return p.serve()
		}, parley.StatusCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onStores(t, func(t *testing.T, store string) {
				service := newPost(t)
				p := newPlace(t, "PARLEY_TEST_POST=5s", waitsForWrites).on(store)
				p.withDesk(service.URL, "1ms")
				s := p.serve()
				id := s.session("desk-auto")
				turn := s.send(id, "mail "+c.letter).ID
				select {
				case <-service.sent(c.letter):
				case <-time.After(within):
					t.Fatal("it was never mailed")
				}
				if c.cut != nil {
					s = c.cut(t, p, s, turn)
				}
				end := s.settle(turn)
				log := decode(t, s.log(id))
				got := enginetest.Outcomes(log)
				if end.Status != c.status || len(got) != 2 || got[0] != "mail unknown" || service.count(c.letter) != 1 {
					t.Errorf("the turn is %s with %q, and %d letters were sent", end.Status, got, service.count(c.letter))
				}
				if err := enginetest.CheckLog(log); err != nil {
					t.Errorf("%v\n%s", err, enginetest.Types(log))
				}
			})
		})
	}
}

// TestKill_in_a_Go_tool: a write that does nothing outside its process ends with it, as the lock of
// the data folder proves. So nobody waits for its deadline, which is an hour away.
func TestKill_in_a_Go_tool(t *testing.T) {
	t.Parallel()
	service := newPost(t)
	p := newPlace(t, "PARLEY_TEST_POST=1h", waitsForWrites, "PARLEY_TEST_GO=1")
	p.withDesk(service.URL, "1ms")
	s := p.serve()
	id := s.session("desk-auto")
	turn := s.send(id, "mail hang").ID
	select {
	case <-service.sent("hang"):
	case <-time.After(within):
		t.Fatal("it was never mailed")
	}
	s.kill()
	s = p.serve()
	end := s.settle(turn)
	if got := enginetest.Outcomes(decode(t, s.log(id))); end.Status != parley.StatusCompleted || len(got) != 2 || got[0] != "mail unknown" || service.count("hang") != 1 {
		t.Errorf("the turn is %s with %q, and %d letters were sent", end.Status, got, service.count("hang"))
	}
}

// TestKill_of_a_long_turn kills the server ten times in one turn, each time at a random moment
// after some progress. The turn resumes by itself each time, and no letter is sent twice.
func TestKill_of_a_long_turn(t *testing.T) {
	t.Parallel()
	const kills = 10
	service := newPost(t)
	p := newPlace(t)
	p.withDesk(service.URL, "2ms")
	random := rand.New(rand.NewPCG(5, 0))
	s := p.serve()
	id := s.session("desk-auto")
	turn := s.send(id, fmt.Sprintf("mails %d", 3*kills)).ID
	// await waits a moment for the turn, and leaves unknown letters unanswered.
	await := func() parley.TurnInfo {
		got := must[parley.TurnInfo](s, "POST", "/v1/turns/"+string(turn)+"/await", `{"timeout_ms":100}`)
		for _, in := range got.Interactions {
			_ = s.ask("POST", "/v1/interactions/"+string(in)+"/answer", object("choice", parley.ChoiceLeave))
		}
		return got
	}
	mailed := func() (n int) {
		for i := range 3 * kills {
			n += min(1, service.count(fmt.Sprint("letter ", i)))
		}
		return n
	}
	for kill := range kills {
		// With the second new letter, the call of the first one has ended: the turn got further.
		for until, before := time.Now().Add(within), mailed(); mailed() < before+2; {
			if got := await(); got.Status.Ended() || got.Status == parley.StatusInterrupted && !got.Resumes || time.Now().After(until) {
				t.Fatalf("after %d kills and %d letters the turn is %s: %s", kill, mailed(), got.Status, got.Reason)
			}
		}
		<-time.After(time.Duration(random.Int64N(int64(150 * time.Millisecond))))
		s.kill()
		s = p.serve()
	}
	for until := time.Now().Add(within); ; {
		got := await()
		if got.Status == parley.StatusCompleted && got.Attempts == kills {
			break
		}
		if got.Status.Ended() || got.Status == parley.StatusInterrupted && !got.Resumes || time.Now().After(until) {
			t.Fatalf("the turn is %s after %d attempts: %s", got.Status, got.Attempts, got.Reason)
		}
	}
	log := decode(t, s.log(id))
	if err := enginetest.CheckLog(log); err != nil {
		t.Errorf("%v\n%s", err, enginetest.Types(log))
	}
	unknown, letters := 0, map[parley.CallID]string{}
	for _, e := range log {
		payload, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		switch e := payload.(type) {
		case parley.ToolStarted:
			var in struct{ Text string }
			if err := json.Unmarshal(e.Input, &in); err != nil {
				t.Fatal(err)
			}
			letters[e.Call] = in.Text
		case parley.ToolEnded:
			sent := service.count(letters[e.Call])
			if e.Outcome == parley.OutcomeUnknown {
				unknown++
			}
			if sent > 1 || sent == 0 && e.Outcome != parley.OutcomeUnknown {
				t.Errorf("%s was sent %d times: %s", letters[e.Call], sent, e.Outcome)
			}
		}
	}
	if len(letters) != 3*kills {
		t.Errorf("there are %d letters", len(letters))
	}
	t.Logf("%d letters, %d of them unknown", 3*kills, unknown)
}
