package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// table measures the built program from outside, beside two floors: a reverse proxy that flushes, which
// keeps nothing, and the bare relay, which keeps what Parley does. All ratios are to the proxy. A column of its own
// is the program of another commit. All are measured in the same rounds.
func table(ctx context.Context, b *bench) (err error) {
	if b.parley == "" {
		b.note("table: not measured, there is no bin/parley")
		return nil
	}
	if _, err := memoryOf(os.Getpid()); errors.Is(err, fs.ErrNotExist) {
		b.note("table: not measured, this system has no /proc")
		return nil
	}
	up, err := spawn(ctx, "upstream")
	if err != nil {
		return err
	}
	defer func() { err = first(err, up.stop()) }()
	t := &outsideTable{b: b, up: up}
	t.head()
	for _, group := range tableRows {
		if b.rows == "" || slices.Contains(strings.Split(b.rows, ","), group.name) {
			if err := group.fill(t, ctx); err != nil {
				return fmt.Errorf("%s: %w", group.name, err)
			}
		}
	}
	return nil
}

// tableRows are the choices of -rows.
var tableRows = []struct {
	name string
	fill func(*outsideTable, context.Context) error
}{
	{"tokens", (*outsideTable).relayed},
	{"turns", (*outsideTable).turns},
	{"memory", (*outsideTable).units},
	{"start", (*outsideTable).starts},
}

// outsideTable is the table while it is made.
type outsideTable struct {
	b  *bench
	up *child
}

// column is a server beside the others.
type column struct {
	name  string
	start func(context.Context) (*child, error)
}

// columns are the servers, the floor first.
func (t *outsideTable) columns() []column {
	list := []column{
		{"proxy", func(ctx context.Context) (*child, error) { return spawn(ctx, "proxy", t.up.url) }},
		{"bare", func(ctx context.Context) (*child, error) {
			dir, err := t.b.folder("bare")
			if err != nil {
				return nil, err
			}
			return spawn(ctx, "bare", t.up.url, dir)
		}},
		{"parley", t.program(t.b.parley)},
	}
	if t.b.then != "" {
		list = append(list, column{"then", t.program(t.b.then)})
	}
	return list
}

func (t *outsideTable) program(path string) func(context.Context) (*child, error) {
	return func(ctx context.Context) (*child, error) { return t.b.started(ctx, path, t.up.url, "") }
}

// target is how a client reaches a server of a column.
func (c column) target(server *child) target {
	return target{name: c.name, url: server.url, session: c.name != "proxy", chat: c.name == "proxy", server: server}
}

// lanes starts all columns, for as long as do runs.
func (t *outsideTable) lanes(ctx context.Context, do func([]lane) error) (err error) {
	var lanes []lane
	for _, c := range t.columns() {
		server, err := c.start(ctx)
		if err != nil {
			return err
		}
		defer func() { err = first(err, server.stop()) }()
		lanes = append(lanes, lane{c.target(server), &relayed{}})
	}
	return do(lanes)
}

// relayed fills the rows of tokens.
func (t *outsideTable) relayed(ctx context.Context) error {
	return t.lanes(ctx, func(lanes []lane) error {
		b := t.b
		direct := lane{target{name: "direct", url: t.up.url, chat: true}, &relayed{}}
		all := append([]lane{direct}, lanes...)
		if err := warm(ctx, all); err != nil {
			return err
		}
		bare, err := b.lone()
		if err != nil {
			return err
		}
		defer bare.close()
		among := busy(all)
		var commits, busyCommits []float64
		for round := range pick(b, 3, 7) {
			if err := paced(ctx, all, t.up.url, round, pick(b, 100, 200)); err != nil {
				return err
			}
			took, err := firsts(ctx, all, bare, round, pick(b, 20, 50))
			if err != nil {
				return err
			}
			commits = append(commits, took...)
			if took, err = firstsAmong(ctx, busy(all), among, bare, t.up.url, round, pick(b, 15, 40)); err != nil {
				return err
			}
			busyCommits = append(busyCommits, took...)
			for i := range lanes { // a different one begins each time
				if err := fast(ctx, lanes[(i+round)%len(lanes)], 8, round, pick(b, 2000, 4000)); err != nil {
					return err
				}
			}
		}
		of := func(pickOut func(*relayed) []float64) (list [][]float64) {
			for _, l := range lanes {
				list = append(list, pickOut(l.r))
			}
			return list
		}
		added := func(pickOut func(*relayed) []float64) [][]float64 {
			list := of(pickOut)
			for i := range list {
				list[i] = minus(list[i], pickOut(direct.r))
			}
			return list
		}
		t.row("added latency per token, 16 paced streams, p50", added(func(r *relayed) []float64 { return r.p50 }), millis, atMost(1.25))
		t.row("the same, p99", added(func(r *relayed) []float64 { return r.p99 }), millis, atMost(1.45))
		t.row("added first token, alone (floor: proxy and a commit)", firstTokens(all, commits), millis, atMost(1.3))
		t.row("the same, among 16 paced", firstTokens(among, busyCommits), millis, atMost(1.3))
		t.row("CPU per million paced tokens", of(func(r *relayed) []float64 { return r.cpu }), seconds, atMost(1.7))
		t.row("tokens/s, 8 streams without pace", of(func(r *relayed) []float64 { return r.fast }), rate, atLeast(0.5))
		return nil
	})
}

// busy is the same lanes with other results.
func busy(lanes []lane) (list []lane) {
	for _, l := range lanes {
		list = append(list, lane{l.target, &relayed{}})
	}
	return list
}

// firstsAmong requests short answers in among while 16 streams are paced through each of lanes.
func firstsAmong(ctx context.Context, lanes, among []lane, bare *lone, upstream string, round, n int) (commits []float64, err error) {
	// Each request takes some milliseconds; the streams run a little longer than all of them.
	const each = 8 * time.Millisecond
	tokens := int(time.Duration(n*len(lanes)) * each / pacedEvery)
	streams := make(chan error, 1)
	go func() { streams <- paced(ctx, lanes, upstream, 1000+round, max(tokens, 50)) }()
	if err := pause(ctx, 10*pacedEvery); err != nil {
		return nil, first(err, <-streams)
	}
	commits, err = firsts(ctx, among, bare, 1000+round, n)
	return commits, first(err, <-streams)
}

// firstTokens is what the lanes after the first, which is the direct way, add to its time. The first of them keeps nothing, so a
// commit is added to its time: a server that must keep the message first cannot take less.
func firstTokens(lanes []lane, commits []float64) (list [][]float64) {
	straight := median(lanes[0].r.first)
	for _, l := range lanes[1:] {
		list = append(list, []float64{median(l.r.first) - straight})
	}
	list[0][0] += median(commits)
	return list
}

// turns fills the rows of turns.
func (t *outsideTable) turns(ctx context.Context) error {
	return t.lanes(ctx, func(lanes []lane) error {
		b := t.b
		rates, withTools := make([][]float64, len(lanes)), make([][]float64, len(lanes))
		cpu, written := make([][]float64, len(lanes)), make([][]float64, len(lanes))
		for round := range pick(b, 3, 7) + 1 {
			for i := range lanes {
				i = (i + round) % len(lanes)
				hello, err := t.rounds(ctx, lanes[i].target, "hello", pick(b, 40, 100))
				if err != nil {
					return err
				}
				tools, err := t.rounds(ctx, lanes[i].target, "tools", pick(b, 15, 30))
				if err != nil {
					return err
				}
				if round == 0 {
					continue // caches fill
				}
				rates[i], withTools[i] = append(rates[i], hello.rate), append(withTools[i], tools.rate)
				cpu[i], written[i] = append(cpu[i], hello.cpu), append(written[i], hello.written)
			}
		}
		t.row("turns/s, 16 sessions of short turns", rates, rate, atLeast(0.45))
		t.row("turns/s with three tool rounds", withTools, rate, atLeast(0.65))
		t.row("CPU per 1,000 turns", cpu, seconds, atMost(3.5))
		t.amounts("written per turn", written, kilo, 12<<10)
		return nil
	})
}

// turned is what some turns took.
type turned struct {
	rate    float64 // turns a second
	cpu     float64 // of the server, in seconds per thousand turns
	written float64 // bytes per turn
}

// rounds takes turns in 16 sessions at once.
func (t *outsideTable) rounds(ctx context.Context, to target, message string, each int) (r turned, err error) {
	addresses := make([]string, turnSessions)
	for i := range addresses {
		if addresses[i], err = to.prepare(ctx); err != nil {
			return r, err
		}
	}
	pid := to.server.cmd.Process.Pid
	cpu, err := to.server.cpuTime()
	if err != nil {
		return r, err
	}
	written, err := writtenBy(pid)
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := together(turnSessions, func(i int) error {
		for range each {
			if err := to.turn(ctx, addresses[i], t.up.url, message); err != nil {
				return fmt.Errorf("%s: %w", to.name, err)
			}
		}
		return nil
	}); err != nil {
		return r, err
	}
	n := float64(turnSessions * each)
	r.rate = n / time.Since(began).Seconds()
	after, err := to.server.cpuTime()
	if err != nil {
		return r, err
	}
	bytes, err := writtenBy(pid)
	r.cpu, r.written = (after-cpu).Seconds()/n*1000, (bytes-written)/n
	return r, err
}

// turn takes one turn, to its end.
func (t target) turn(ctx context.Context, address, upstream, message string) error {
	if t.chat {
		return bareTurn(ctx, address, upstream+"/put", message)
	}
	raw, err := fetchStream(ctx, address, `{"message":"`+message+`"}`)
	if err != nil {
		return err
	}
	text := string(raw)
	calls := 0
	if message == "tools" {
		calls = rounds
	}
	if !strings.Contains(text, "event: turn.completed\n") || strings.Count(text, "event: tool.ended\n") != calls {
		return fmt.Errorf("a turn with %q went another way: %s", message, text)
	}
	return nil
}

// units fills the rows of the memory of a turn and of a stream.
func (t *outsideTable) units(ctx context.Context) error {
	n := pick(t.b, 300, 800)
	columns := t.columns()
	flight, idle := make([][]float64, len(columns)), make([][]float64, len(columns))
	for round := range pick(t.b, 1, 3) {
		for i, c := range columns {
			one, err := t.grown(ctx, c, n, func(ctx context.Context, to target, k int, begun func(), ended func(error)) {
				address, err := to.prepare(ctx)
				if err != nil {
					ended(err)
					return
				}
				// One word a second, far longer than this takes.
				_, err = to.hear(ctx, address, plan{id: fmt.Sprintf("t%d%s%d", round, c.name, k), tokens: 3600, every: time.Second}, func(int) { begun() })
				ended(err)
			})
			if err != nil {
				return err
			}
			flight[i] = append(flight[i], one)
			one, err = t.grown(ctx, c, n, func(ctx context.Context, to target, _ int, begun func(), ended func(error)) {
				url := to.url + "/hold"
				if to.session {
					id, err := newSession(ctx, to.url)
					if err != nil {
						ended(err)
						return
					}
					url = to.url + "/v1/sessions/" + id + "/events"
				}
				ended(hold(ctx, url, begun))
			})
			if err != nil {
				return err
			}
			idle[i] = append(idle[i], one)
		}
	}
	t.amounts("memory per turn in flight", flight, kilo, 65<<10)
	t.amounts("memory per idle stream", idle, kilo, 26<<10)
	return nil
}

// grown starts a server and returns how much memory one more stream takes, as the process has it: with
// what the collector has not come to. do calls begun when its stream has begun, and ended if it ends.
func (t *outsideTable) grown(ctx context.Context, c column, n int, do func(ctx context.Context, to target, k int, begun func(), ended func(error))) (_ float64, err error) {
	server, err := c.start(ctx)
	if err != nil {
		return 0, err
	}
	defer server.kill() // it would wait for its turns
	ctx, hangUp := context.WithCancel(ctx)
	var streams sync.WaitGroup
	defer func() { hangUp(); streams.Wait() }()
	to := c.target(server)
	open := func(from, n int) error {
		return batches(n, func(i int) error {
			begun, failed := make(chan struct{}), make(chan error, 1)
			streams.Go(func() {
				do(ctx, to, from+i, sync.OnceFunc(func() { close(begun) }), func(err error) { failed <- err })
			})
			select {
			case <-begun:
				return nil
			case err := <-failed:
				return errors.Join(fmt.Errorf("%s: a stream has ended before it began", c.name), err)
			}
		})
	}
	const few = 100
	if err := open(0, few); err != nil {
		return 0, err
	}
	before, err := calm(ctx, server)
	if err != nil {
		return 0, err
	}
	if err := open(few, n); err != nil {
		return 0, err
	}
	after, err := calm(ctx, server)
	return (after - before) / float64(n), err
}

// calm is a server's own memory a while after its last work.
func calm(ctx context.Context, c *child) (float64, error) {
	if err := pause(ctx, 2*time.Second); err != nil {
		return 0, err
	}
	u, err := memoryOf(c.cmd.Process.Pid)
	return u.anonymous, err
}

// starts fills the rows of a start.
func (t *outsideTable) starts(ctx context.Context) error {
	columns := t.columns()
	took, memory := make([][]float64, len(columns)), make([][]float64, len(columns))
	for round := range pick(t.b, 3, 9) {
		for i, c := range columns {
			one, resident, err := t.startOf(ctx, c, fmt.Sprintf("s%d%s", round, c.name))
			if err != nil {
				return err
			}
			took[i], memory[i] = append(took[i], one), append(memory[i], resident)
		}
	}
	t.amounts("memory after start and a turn", memory, mega, 32<<20)
	t.amounts("cold start to the first turn's first token", took, millis, 50)
	return nil
}

// startOf is the time in milliseconds from the start of a server on an empty folder to its first token,
// and its memory some seconds later.
func (t *outsideTable) startOf(ctx context.Context, c column, id string) (took, resident float64, err error) {
	server, err := c.start(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = first(err, server.stop()) }()
	to := c.target(server)
	address, err := to.prepare(ctx)
	if err != nil {
		return 0, 0, err
	}
	h, err := to.hear(ctx, address, plan{id: id, tokens: 3}, nil)
	if err != nil {
		return 0, 0, err
	}
	if err := pause(ctx, 3*time.Second); err != nil {
		return 0, 0, err
	}
	u, err := memoryOf(server.cmd.Process.Pid)
	return float64(h.at[0]-server.began.UnixNano()) / 1e6, u.resident, err
}

const tableRow = "%-54s %10s %18s %18s %18s %7s  %s\n"

func (t *outsideTable) head() {
	then := ""
	if t.b.then != "" {
		then = "then"
	}
	fmt.Fprintf(t.b.w, tableRow, "from outside", "proxy", "bare relay", then, "parley", "aim", "")
}

// row prints a figure whose aim is a ratio to the proxy: one list of rounds per column.
func (t *outsideTable) row(name string, rounds [][]float64, unit func(float64) string, a aim) {
	of := ratioOf(rounds[0], rounds[2])
	t.print(name, rounds, unit, fmt.Sprintf("%gx", a.ratio), of <= a.ratio && !a.more || of >= a.ratio && a.more)
}

// amounts prints a figure whose aim is an amount.
func (t *outsideTable) amounts(name string, rounds [][]float64, unit func(float64) string, aim float64) {
	t.print(name, rounds, unit, unit(aim), median(rounds[2]) <= aim)
}

func (t *outsideTable) print(name string, rounds [][]float64, unit func(float64) string, aim string, good bool) {
	cells := make([]string, 4)
	for i, r := range rounds {
		cells[i] = unit(median(r))
		if i > 0 {
			cells[i] += " " + ratio(ratioOf(rounds[0], r))
		}
	}
	verdict := "ok"
	if !good {
		verdict = "short"
		t.b.short++
	}
	fmt.Fprintf(t.b.w, tableRow, name, cells[0], cells[1], cells[3], cells[2], aim, verdict)
}
