package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// TestFollowTurn_over_interruptions: following a turn ends at a lasting interruption. It does not
// end at one that is older than the turn that the caller has, because the turn has been resumed
// since.
func TestFollowTurn_over_interruptions(t *testing.T) {
	t.Parallel()
	lasts, passes, ends := parley.TurnInterrupted{}, parley.TurnInterrupted{Resumes: true}, parley.TurnCompleted{}
	for name, c := range map[string]struct {
		log  []parley.Payload // after turn.started
		last int64            // of the turn that the caller has
		want int              // events
	}{
		"it lasts":               {[]parley.Payload{lasts, ends}, 1, 2},
		"it goes on by itself":   {[]parley.Payload{passes, ends}, 1, 3},
		"it was resumed":         {[]parley.Payload{lasts, ends}, 2, 3},
		"and interrupted again":  {[]parley.Payload{lasts, lasts, ends}, 2, 3},
		"and then goes on":       {[]parley.Payload{passes, passes, ends}, 2, 4},
		"it never was":           {[]parley.Payload{ends}, 1, 2},
		"the last one lasts":     {[]parley.Payload{passes, lasts, ends}, 1, 3},
		"all were before it all": {[]parley.Payload{lasts, passes, ends}, 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			for i, p := range append([]parley.Payload{parley.TurnStarted{}}, c.log...) {
				e := parley.NewEvent("t", "", p)
				e.Session, e.Seq = "s", int64(i+1)
				fmt.Fprintf(&log, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, e.AppendJSON(nil))
			}
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write([]byte(log.String()))
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}))
			defer web.Close()
			n := 0
			for f, err := range client.New(client.Options{BaseURL: web.URL, Retry: time.Millisecond}).FollowTurn(t.Context(), parley.TurnInfo{ID: "t", SessionID: "s", FirstSeq: 1, LastSeq: c.last}) {
				if err != nil {
					t.Fatal(err)
				}
				if f.Event != nil {
					n++
				}
			}
			if n != c.want {
				t.Errorf("it ends after %d events, want %d", n, c.want)
			}
		})
	}
}
