package home_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/home"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// served is the wire over an engine in memory. Its model says each word that it receives from
// words, and an empty word ends the reply.
type served struct {
	*enginetest.Rig
	url   string
	words chan string
}

func serve(t *testing.T, every time.Duration) *served {
	t.Helper()
	s := &served{words: make(chan string)}
	s.Rig = enginetest.New(t, func(ctx context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		for {
			select {
			case w := <-s.words:
				if w == "" {
					return seam.Reply{}, nil
				}
				say(w)
			case <-ctx.Done():
				return seam.Reply{}, ctx.Err()
			}
		}
	}, enginetest.App())
	mux := http.NewServeMux()
	mux.Handle(home.Path, home.Events(home.Options{
		Engine: s.Engine, Reader: s.Reader, PartialEvery: every,
		Principal: func(ctx context.Context) (parley.Principal, error) { return ctx.Value(who{}).(parley.Principal), nil },
		Fail: func(w http.ResponseWriter, err error) {
			status := map[parley.Code]int{parley.CodeNotFound: 404, parley.CodeInvalid: 400}[parley.CodeOf(err)]
			http.Error(w, err.Error(), status)
		},
	}))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := enginetest.User
		if name := r.Header.Get("User"); name != "" {
			p = parley.Principal{User: name}
		}
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), who{}, p)))
	}))
	s.url = srv.URL
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		s.Close()
	})
	return s
}

type who struct{}

// stream is an open connection; next returns its next frame.
type stream struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
}

func (s *served) open(t *testing.T, path string, header ...string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &stream{t, resp, bufio.NewReader(resp.Body)}
}

func (s *stream) next() got {
	s.t.Helper()
	var raw strings.Builder
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if raw.WriteString(line); line == "\n" {
			return split(raw.String())[0]
		}
	}
}

func (s *stream) until(kind string) []got {
	s.t.Helper()
	for list := []got(nil); ; {
		g := s.next()
		if list = append(list, g); strings.HasPrefix(g.data, `{"type":"`+kind+`"`) {
			return list
		}
	}
}

func TestEventsLive(t *testing.T) {
	t.Parallel()
	s := serve(t, time.Millisecond)
	id := s.Session().ID
	turn := s.Send(id, "hello")
	s.words <- "Hello"
	one := s.open(t, "/events/"+string(id))
	list := one.until("partial")
	if ct := one.resp.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("type %q", ct)
	}
	if want := `{"type":"progress","session_id":"` + string(id) + `","continuation_id":"` + string(turn.ID) + `","payload":{"message":"Gathering what the question is about"}}`; list[0].data != want {
		t.Errorf("got %s, want %s", list[0].data, want)
	}
	s.words <- " there"
	list = append(list, one.until("partial")...)
	// Another client connects in the middle, with the first one's cursor.
	two := s.open(t, "/events/"+string(id), "Last-Event-ID", list[len(list)-1].id)
	s.words <- ", Ana."
	s.words <- ""
	rest := one.until("final")
	if diff := cmp.Diff(folded(t, append(list[:len(list):len(list)], rest...)), folded(t, append(list, two.until("final")...))); diff != "" {
		t.Error(diff)
	}
	// The stream stays open over several turns. A new client gets the last turn.
	s.Send(id, "again")
	s.words <- "Yes."
	s.words <- ""
	want := folded(t, one.until("final"))
	if diff := cmp.Diff(want, folded(t, s.open(t, "/events/"+string(id)).until("final"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, folded(t, two.until("final"))); diff != "" {
		t.Error(diff)
	}
}

// TestEventsFromFarBack resumes from each frame's cursor of an old turn. More turns followed it
// than one page of their list holds.
func TestEventsFromFarBack(t *testing.T) {
	t.Parallel()
	s := serve(t, time.Millisecond)
	id := s.Session().ID
	say := func(client string, words ...string) {
		turn, err := s.Engine.Send(t.Context(), enginetest.User, id, parley.Send{Message: "hello", Client: client})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range append(words, "") {
			s.words <- w
		}
		s.Await(turn.ID)
	}
	var turns [][]got
	for _, client := range []string{"", home.QuietClient} {
		say(client, "Hello", " there", ", Ana.")
		turns = append(turns, s.open(t, "/events/"+string(id)).until("final"))
	}
	for range 60 {
		say("", "Yes.")
	}
	for _, all := range turns {
		for i, g := range all[:len(all)-1] {
			rest := s.open(t, "/events/"+string(id), "Last-Event-ID", g.id).until("final")
			if diff := cmp.Diff(all[i+1:], rest, cmp.AllowUnexported(got{})); diff != "" {
				t.Errorf("after frame %d, %s (-uncut +cut):\n%s", i, g.id, diff)
			}
		}
	}
}

// rowsEngine counts the rows of turns that are read. With begun set it waits before each
// reading until the test lets it go on.
type rowsEngine struct {
	home.Engine
	rows  atomic.Int64
	begun chan string // gets the user
	may   chan struct{}
}

func (e *rowsEngine) Turns(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, error) {
	if e.begun != nil {
		e.begun <- p.User
		<-e.may
	}
	list, err := e.Engine.Turns(ctx, p, q)
	e.rows.Add(int64(len(list)))
	return list, err
}

// TestStreamsBeginWithFewRows: a row holds a whole message and answer, so a stream that begins at the
// start or at the end of a long session does not read them all.
func TestStreamsBeginWithFewRows(t *testing.T) {
	t.Parallel()
	rig := enginetest.New(t, enginetest.Echo, enginetest.App())
	defer rig.Close()
	id := rig.Session().ID
	for range 20 {
		rig.Await(rig.Send(id, "hello").ID)
	}
	e := &rowsEngine{Engine: rig.Engine}
	events := home.Events(home.Options{
		Engine: e, Reader: rig.Reader,
		Principal: func(context.Context) (parley.Principal, error) { return enginetest.User, nil },
		Fail:      func(_ http.ResponseWriter, err error) { t.Error(err) },
	})
	mux := http.NewServeMux()
	mux.Handle(home.Path, events)
	for after, want := range map[string]int64{"": 1, "?after=0": 0} {
		e.rows.Store(0)
		ctx, cancel := context.WithCancel(t.Context())
		w := &untilWritten{httptest.NewRecorder(), cancel}
		mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events/"+string(id)+after, http.NoBody))
		cancel()
		if rows := e.rows.Load(); rows != want || !strings.Contains(w.Body.String(), `"type":"`) {
			t.Errorf("%q reads %d rows of 20, want %d; it begins with %.100q", after, rows, want, w.Body)
		}
	}
}

// untilWritten is a client that leaves once it got something.
type untilWritten struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (w *untilWritten) Write(b []byte) (int, error) {
	n, err := w.ResponseRecorder.Write(b)
	w.leave()
	return n, err
}

// TestStreamsBeginByTurnsOfUsers: 40 streams that one user opens at once do not look for their
// beginnings at once, and another user's stream is next.
func TestStreamsBeginByTurnsOfUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rig := enginetest.New(t, enginetest.Echo, enginetest.App())
		defer rig.Close()
		e := &rowsEngine{Engine: rig.Engine, begun: make(chan string, 100), may: make(chan struct{})}
		events := home.Events(home.Options{
			Engine: e, Reader: rig.Reader,
			Principal: func(ctx context.Context) (parley.Principal, error) { return ctx.Value(who{}).(parley.Principal), nil },
			Fail:      func(_ http.ResponseWriter, err error) { t.Error(err) },
		})
		mux := http.NewServeMux()
		mux.Handle(home.Path, events)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		open := func(user string) {
			p := parley.Principal{User: user}
			info, _, err := rig.Engine.Create(ctx, p, parley.CreateSession{App: "test"})
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				r := httptest.NewRequestWithContext(context.WithValue(ctx, who{}, p), http.MethodGet, "/events/"+string(info.ID), http.NoBody)
				mux.ServeHTTP(httptest.NewRecorder(), r)
			})
			synctest.Wait()
		}
		for range 40 {
			open("ana")
		}
		open("ben")
		if len(e.begun) > 2 { // ben's, too, if there is a second processor to use
			t.Errorf("of ana's 40 streams and ben's, %d begin at once", len(e.begun))
		}
		<-e.begun
		e.may <- struct{}{}
		synctest.Wait()
		if got := <-e.begun; got != "ben" {
			t.Errorf("the second stream to begin is that of %s", got)
		}
		close(e.may)
		synctest.Wait()
		cancel()
		all.Wait()
	})
}

func TestPartialsAreGathered(t *testing.T) {
	t.Parallel()
	s := serve(t, time.Second)
	id := s.Session().ID
	s.Send(id, "hello")
	one := s.open(t, "/events/"+string(id))
	for range 500 {
		s.words <- "word "
	}
	s.words <- ""
	list := one.until("final")
	text, partials := "", 0
	for _, g := range list {
		var m struct {
			Type    string
			Payload struct {
				Partial string `json:"partial_response"`
			}
		}
		if err := json.Unmarshal([]byte(g.data), &m); err != nil {
			t.Fatal(err)
		}
		if m.Type == "partial" {
			partials++
			text += m.Payload.Partial
		}
	}
	if want := strings.Repeat("word ", 500); text != want {
		t.Errorf("the partials are %d bytes of text, want %d", len(text), len(want))
	}
	if partials > 100 {
		t.Errorf("500 fragments came as %d partials", partials)
	}
}

func TestEventsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, 0)
	id := string(s.Session().ID)
	for _, c := range []struct {
		path   string
		header []string
		want   int
	}{
		{"/events/" + id, []string{"User", "ben"}, 404},
		{"/events/01J00000000000000000000000", nil, 404},
		{"/events/" + id, []string{"Last-Event-ID", "x"}, 400},
		{"/events/" + id + "?after=99", nil, 400},
	} {
		got := 0
		for range 100 {
			resp := s.open(t, c.path, c.header...).resp
			if got = resp.StatusCode; got != http.StatusOK {
				break
			}
			// A busy server sends its head before it has looked at the cursor. Then it ends the
			// stream without a frame, and the client asks again.
			if b, err := io.ReadAll(resp.Body); err != nil || len(b) > 0 {
				t.Fatalf("%s %v: a stream with %q, %v", c.path, c.header, b, err)
			}
		}
		if got != c.want {
			t.Errorf("%s %v: status %d, want %d", c.path, c.header, got, c.want)
		}
	}
}
