package home_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
		if got := s.open(t, c.path, c.header...).resp.StatusCode; got != c.want {
			t.Errorf("%s %v: status %d, want %d", c.path, c.header, got, c.want)
		}
	}
}
