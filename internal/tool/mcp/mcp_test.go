//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/toolbox"
)

// within bounds every wait: far more than it takes, even on a busy machine.
const within = 60 * time.Second

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// rig is a toolset in a toolbox, as an app has it.
type rig struct {
	t   *testing.T
	set *mcp.Toolset
	box *toolbox.Box
	n   atomic.Int64

	shown    func() // called at each progress
	mu       sync.Mutex
	progress []string
}

func over(t *testing.T, set *mcp.Toolset) *rig {
	t.Helper()
	t.Cleanup(set.Close)
	box, err := toolbox.New([]seam.Toolset{set}, toolbox.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, set: set, box: box}
}

// program is the test server as a program.
func program(t *testing.T, change ...func(*mcp.Options)) *rig {
	t.Helper()
	return over(t, made(t, change...))
}

func made(t *testing.T, change ...func(*mcp.Options)) *mcp.Toolset {
	t.Helper()
	o := mcp.Options{Name: "test", Run: []string{os.Args[0]}, Dir: t.TempDir(), Env: map[string]string{"MCP_TEST_SERVER": "all"}, Logger: quiet}
	for _, c := range change {
		c(&o)
	}
	set, err := mcp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// service is the test server over HTTP, in both eras as package mcpserver has it.
func service(t *testing.T, wrap func(http.Handler) http.Handler, change ...func(*mcp.Options)) *rig {
	t.Helper()
	end := make(chan struct{})
	at := httptest.NewServer(wrap(handler(newTestServer(end))))
	t.Cleanup(func() {
		close(end) // a server of the older era may not notice that its client is gone
		at.Close()
	})
	o := mcp.Options{Name: "test", URL: at.URL + "/mcp", Logger: quiet}
	for _, c := range change {
		c(&o)
	}
	set, err := mcp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return over(t, set)
}

func handler(s *sdk.Server) http.Handler {
	get := func(*http.Request) *sdk.Server { return s }
	legacy := sdk.NewStreamableHTTPHandler(get, nil)
	modern := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") >= "2026-07-28" {
			modern.ServeHTTP(w, r)
			return
		}
		legacy.ServeHTTP(w, r)
	})
}

// older refuses the newer era, as a server without it does.
func older(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") >= "2026-07-28" {
			http.Error(w, "unknown version", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func asItIs(h http.Handler) http.Handler { return h }

func (r *rig) call(tool string, input any, change ...func(*seam.Run)) toolbox.Result {
	return r.callBy(r.t.Context(), tool, input, time.Now().Add(within), change...)
}

func (r *rig) callBy(ctx context.Context, tool string, input any, deadline time.Time, change ...func(*seam.Run)) toolbox.Result {
	raw, err := json.Marshal(input)
	if err != nil {
		r.t.Error(err)
	}
	n := r.n.Add(1)
	run := seam.Run{
		Call: parley.CallID(fmt.Sprintf("call%d", n)), Name: "mcp__test__" + tool, Input: raw, Attempt: 1,
		Principal: parley.Principal{User: fmt.Sprintf("user%d", n%7)},
		Progress: func(text string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.progress = append(r.progress, text)
			if r.shown != nil {
				r.shown()
			}
		},
	}
	for _, f := range change {
		f(&run)
	}
	return r.box.Run(ctx, run, deadline)
}

func (r *rig) want(res toolbox.Result, outcome parley.Outcome, says string) {
	r.t.Helper()
	if res.Outcome != outcome || !strings.Contains(res.Output, says) {
		r.t.Errorf("got %s: %.400s; want %s with %q", res.Outcome, res.Output, outcome, says)
	}
}

// everyWay runs a test over each way to a server.
func everyWay(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Parallel()
	for name, way := range map[string]func(t *testing.T) *rig{
		"stdio":        func(t *testing.T) *rig { return program(t) },
		"HTTP":         func(t *testing.T) *rig { return service(t, asItIs) },
		"HTTP, legacy": func(t *testing.T) *rig { return service(t, older) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, way(t))
		})
	}
}

// TestTools: names, effects and results of a server's tools.
func TestTools(t *testing.T) {
	everyWay(t, func(t *testing.T, r *rig) {
		effects := map[string]parley.Effect{}
		for _, d := range r.box.Decls() {
			effects[d.Name] = d.Effect
		}
		want := map[string]parley.Effect{}
		for _, name := range []string{"echo", "whoami", "hang", "files", "flood"} {
			want["mcp__test__"+name] = parley.EffectRead
		}
		for _, name := range []string{"fail", "huge", "big", "note", "change", "deaf"} {
			want["mcp__test__"+name] = parley.EffectWrite
		}
		if diff := cmp.Diff(want, effects); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		d, _ := r.box.Decl("mcp__test__echo")
		if d.Description != "Tool echo of the MCP server test, which describes it as follows: Does echo." {
			t.Errorf("described as %q", d.Description)
		}
		r.want(r.call("echo", in{"text": "hello"}), parley.OutcomeOK, "hello")
		r.want(r.call("fail", in{}), parley.OutcomeError, "no such customer")
		res := r.call("files", in{})
		r.want(res, parley.OutcomeOK, "a picture\nimage2.png, 70 bytes of image/png, was kept as an artifact.\ntest://a: a\ntest://b.txt\nwords\nc.pdf, 4 bytes of application/pdf")
		if len(res.Files) != 2 || !res.Files[0].Show || res.Files[1].Show || string(res.Files[1].Body) != "%PDF" {
			t.Errorf("kept %+v", res.Files)
		}
		r.want(r.call("flood", in{"n": 3}), parley.OutcomeOK, "flooded")
	})
}

// TestManyFiles: of an answer with many files a few are kept, and the model is not told of each of the
// others.
func TestManyFiles(t *testing.T) {
	everyWay(t, func(t *testing.T, r *rig) {
		res := r.call("files", in{"n": 5000})
		r.want(res, parley.OutcomeOK, "image9.png, 3 bytes of image/png, was not kept: a call may keep 8 files\n4991 more files were not kept.")
		if len(res.Files) != 8 || len(res.Output) > 1500 {
			t.Errorf("%d files, and %d bytes about them", len(res.Files), len(res.Output))
		}
	})
}

// TestFlood: a server that sends too many messages is read only as fast as they can be handled, and
// its answer still arrives.
func TestFlood(t *testing.T) {
	everyWay(t, func(t *testing.T, r *rig) {
		r.want(r.call("flood", in{"n": 4000}), parley.OutcomeOK, "flooded")
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.progress) > 4000 {
			t.Errorf("%d lines of progress", len(r.progress))
		}
	})
}

// TestHuge: an answer of 100 MB is not read. It is then unknown whether the call took effect, and
// the next call works.
func TestHuge(t *testing.T) {
	t.Parallel()
	answered := func(kind, before string) func(http.Handler) http.Handler {
		return func(h http.Handler) http.Handler {
			return atCall(h, func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", kind)
				fmt.Fprint(w, before)
				hundredMB(w)
				return true
			})
		}
	}
	const begins = `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"`
	for name, way := range map[string]func(t *testing.T) (*rig, string){
		"stdio": func(t *testing.T) (*rig, string) { return program(t), "huge" },
		"HTTP":  func(t *testing.T) (*rig, string) { return service(t, answered("application/json", begins)), "note" },
		"HTTP, a stream": func(t *testing.T) (*rig, string) {
			return service(t, answered("text/event-stream", "data: "+begins)), "note"
		},
		"HTTP, a stream of the older era": func(t *testing.T) (*rig, string) {
			return service(t, func(h http.Handler) http.Handler { return answered("text/event-stream", "data: "+begins)(older(h)) }), "note"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, tool := way(t)
			r.want(r.call(tool, in{}), parley.OutcomeUnknown, "")
			r.want(r.call("echo", in{"text": "hello"}), parley.OutcomeOK, "hello")
		})
	}
}

// TestHang: a call ends at its timeout, or when it is cancelled, and the next one works.
func TestHang(t *testing.T) {
	everyWay(t, func(t *testing.T, r *rig) {
		r.want(r.callBy(t.Context(), "hang", in{}, time.Now().Add(50*time.Millisecond)), parley.OutcomeError, "")
		ctx, cancel := context.WithCancel(t.Context())
		r.shown = cancel
		r.want(r.callBy(ctx, "hang", in{}, time.Now().Add(within)), parley.OutcomeCancelled, "")
		r.want(r.call("echo", in{"text": "hello"}), parley.OutcomeOK, "hello")
	})
}

// TestChanged: a tool keeps the definition with which it was accepted.
func TestChanged(t *testing.T) {
	everyWay(t, func(t *testing.T, r *rig) {
		r.want(r.call("change", in{}), parley.OutcomeOK, "done")
		deadline := time.Now().Add(within)
		for r.call("echo", in{"text": "hello"}).Outcome == parley.OutcomeOK && time.Now().Before(deadline) { // the notification arrives after a while
		}
		r.want(r.call("echo", in{"text": "hello"}), parley.OutcomeError, "has changed the definition of its tool echo")
		r.want(r.call("fail", in{}), parley.OutcomeError, "no longer has the tool fail")
		r.want(r.call("whoami", in{}), parley.OutcomeOK, "pid")
	})
}

// TestStrict: a server of the older era that ends when it gets the newer era's first request.
func TestStrict(t *testing.T) {
	t.Parallel()
	r := program(t, func(o *mcp.Options) { o.Env["MCP_TEST_SERVER"] = "strict" })
	r.want(r.call("echo", in{}), parley.OutcomeOK, "strictly")
}

// TestEnvironment: a program gets the variables that the operator names, and no others of Parley's.
func TestEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-secret")
	r := program(t, func(o *mcp.Options) { o.Env["MINE"] = "yes" })
	res := r.call("whoami", in{})
	r.want(res, parley.OutcomeOK, "MINE=yes")
	if strings.Contains(res.Output, "sk-secret") {
		t.Errorf("it got %s", res.Output)
	}
}

// TestClose: nothing is left of a server, even of one that ignores the request to end.
func TestClose(t *testing.T) {
	t.Parallel()
	r := program(t)
	pid := pidOf(t, r.call("whoami", in{}).Output)
	ctx, cancel := context.WithCancel(t.Context())
	r.shown = cancel // it is deaf from then on
	r.want(r.callBy(ctx, "deaf", in{}, time.Now().Add(within)), parley.OutcomeUnknown, "")
	r.set.Close()
	if err := syscall.Kill(-pid, 0); err == nil {
		t.Errorf("the group %d is still there", pid)
	}
	r.want(r.call("echo", in{}), parley.OutcomeError, "because Parley is stopping or")
}

func pidOf(t *testing.T, text string) int {
	t.Helper()
	var pid int
	if _, err := fmt.Sscanf(text, "pid %d", &pid); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return pid
}

// TestThousand makes 1,000 calls with effects, several at once, of servers that kill themselves
// before or after the effect. No call takes effect twice. A call that is reported as done took
// effect, and one that is reported as not done did not. Nothing is left of any server.
func TestThousand(t *testing.T) {
	t.Parallel()
	const calls, users = 1000, 4
	journal := filepath.Join(t.TempDir(), "journal")
	r := program(t, func(o *mcp.Options) { o.Env["JOURNAL"], o.AtOnce = journal, users+1 })
	outcomes := make([]parley.Outcome, calls+1)
	var all sync.WaitGroup
	work := make(chan int)
	for range users {
		all.Go(func() {
			for n := range work {
				res := r.box.Run(t.Context(), seam.Run{
					Call: parley.CallID(fmt.Sprintf("n%d", n)), Name: "mcp__test__note", Input: json.RawMessage(`{"die":2}`), Attempt: 1,
					Principal: parley.Principal{User: fmt.Sprintf("user%d", n%users)},
				}, time.Now().Add(within))
				outcomes[n] = res.Outcome
			}
		})
	}
	for n := range calls {
		work <- n + 1
	}
	close(work)
	all.Wait()
	r.set.Close()
	raw, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	times, pids := map[string]int{}, map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		times[f[0]]++
		pids[f[1]] = true
	}
	count := map[parley.Outcome]int{}
	for n := 1; n <= calls; n++ {
		count[outcomes[n]]++
		switch made := times[fmt.Sprintf("n%d", n)]; {
		case made > 1, outcomes[n] == parley.OutcomeOK && made != 1, outcomes[n] == parley.OutcomeError && made != 0:
			t.Errorf("call %d is %s and was made %d times", n, outcomes[n], made)
		}
	}
	t.Logf("%v over %d servers", count, len(pids))
	if count[parley.OutcomeOK] < calls/2 || count[parley.OutcomeUnknown] == 0 || len(pids) < 5 {
		t.Errorf("the outcomes were %v over %d servers", count, len(pids))
	}
	for pid := range pids {
		var n int
		_, _ = fmt.Sscan(pid, &n)
		if syscall.Kill(-n, 0) == nil {
			t.Errorf("the group %d is still there", n)
		}
	}
}

// TestBackoff: a failing server is started again after growing delays, and a call does not wait for
// a start that is far away.
func TestBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		begin := time.Now()
		broken := true
		server := newTestServer(nil)
		set := mcp.NewOver(mcp.Options{Name: "test", Logger: quiet, Idle: time.Hour}, func(ctx context.Context) (sdk.Transport, func(), error) {
			starts = append(starts, time.Since(begin))
			if broken {
				return nil, nil, fmt.Errorf("no such program")
			}
			return inMemory(ctx, server)
		})
		defer set.Close()
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if _, err := set.Tools(ctx); err == nil || !strings.Contains(err.Error(), "no such program") {
				t.Errorf("got %v", err)
			}
			cancel()
			time.Sleep(time.Second) // of the bubble's clock
		}
		gaps := []time.Duration{}
		for i := 1; i < len(starts); i++ {
			gaps = append(gaps, (starts[i] - starts[i-1]).Round(time.Second))
		}
		if len(gaps) < 5 || !slices.IsSorted(gaps[:min(len(gaps), 6)]) || slices.Max(gaps) > mcp.MaxBackoff+2*time.Second || slices.Max(gaps) < 30*time.Second {
			t.Errorf("started with gaps of %v", gaps)
		}
		broken = false
		time.Sleep(mcp.MaxBackoff)
		if decls, err := set.Tools(t.Context()); err != nil || len(decls) == 0 {
			t.Errorf("%d tools, %v", len(decls), err)
		}
	})
}

// TestIdle: a server is ended when nobody uses it for a while, and started when it is used.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var starts, ends atomic.Int64
		server := newTestServer(nil)
		set := mcp.NewOver(mcp.Options{Name: "test", Logger: quiet, Idle: time.Minute}, func(ctx context.Context) (sdk.Transport, func(), error) {
			starts.Add(1)
			tr, end, err := inMemory(ctx, server)
			return tr, func() { ends.Add(1); end() }, err
		})
		r := over(t, set)
		r.want(r.call("echo", in{"text": "a"}), parley.OutcomeOK, "a")
		time.Sleep(59 * time.Second)
		r.want(r.call("echo", in{"text": "b"}), parley.OutcomeOK, "b")
		time.Sleep(59 * time.Second)
		if starts.Load() != 1 || ends.Load() != 0 {
			t.Errorf("%d starts, %d ends of one that is used", starts.Load(), ends.Load())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if ends.Load() != 1 {
			t.Errorf("%d ends", ends.Load())
		}
		r.want(r.call("echo", in{"text": "c"}), parley.OutcomeOK, "c")
		if starts.Load() != 2 {
			t.Errorf("%d starts", starts.Load())
		}
		set.Close()
		if ends.Load() != 2 {
			t.Errorf("%d ends", ends.Load())
		}
	})
}

func inMemory(ctx context.Context, server *sdk.Server) (sdk.Transport, func(), error) {
	ours, theirs := sdk.NewInMemoryTransports()
	ss, err := server.Connect(context.WithoutCancel(ctx), theirs, nil)
	if err != nil {
		return nil, nil, err
	}
	return ours, func() { _ = ss.Close() }, nil
}

// TestClosedWhileStarting: nothing of a connection is left when the toolset is closed while the
// connection is being opened, at any moment of the opening.
func TestClosedWhileStarting(t *testing.T) {
	t.Parallel()
	for i := range 300 {
		var starts, ends atomic.Int64
		server := newTestServer(nil)
		started := make(chan struct{}, 10)
		set := mcp.NewOver(mcp.Options{Name: "test", Logger: quiet}, func(ctx context.Context) (sdk.Transport, func(), error) {
			tr, end, err := inMemory(ctx, server)
			if err == nil {
				starts.Add(1)
			}
			started <- struct{}{}
			return tr, func() { ends.Add(1); end() }, err
		})
		listed := make(chan struct{})
		go func() {
			defer close(listed)
			_, _ = set.Tools(t.Context())
		}()
		<-started
		for range i { // another moment each time
			runtime.Gosched()
		}
		set.Close()
		if starts.Load() != ends.Load() {
			t.Fatalf("%d connections were begun, %d ended", starts.Load(), ends.Load())
		}
		<-listed
	}
}
