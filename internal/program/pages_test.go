package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// TestSessionListReadsAllPages: a list has as many sessions as requested, although the server
// returns at most 500 at once.
func TestSessionListReadsAllPages(t *testing.T) {
	t.Parallel()
	const have = 1203
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.FormValue("cursor"))
		limit, err := strconv.Atoi(r.FormValue("limit"))
		if err != nil || limit < 1 || limit > 500 {
			t.Errorf("a limit of %q", r.FormValue("limit"))
		}
		var page struct {
			Sessions []parley.SessionInfo `json:"sessions"`
			Next     string               `json:"next,omitempty"`
		}
		for i := from; i < min(from+limit, have); i++ {
			page.Sessions = append(page.Sessions, parley.SessionInfo{ID: parley.SessionID(fmt.Sprint(i))})
		}
		if from+limit < have {
			page.Next = strconv.Itoa(from + limit)
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer server.Close()
	l := &link{Client: client.New(client.Options{BaseURL: server.URL})}
	for limit, want := range map[int]int{0: have, 1: 1, 499: 499, 500: 500, 501: 501, 1000: 1000, 5000: have} {
		list, err := l.sessions(t.Context(), client.SessionFilter{}, limit)
		if err != nil || len(list) != want {
			t.Fatalf("--limit %d: got %d, %v", limit, len(list), err)
		}
		for i, s := range list {
			if string(s.ID) != strconv.Itoa(i) {
				t.Fatalf("--limit %d: %s at place %d", limit, s.ID, i)
			}
		}
	}
}
