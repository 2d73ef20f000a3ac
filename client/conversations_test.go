package client_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestConversations: what the API says of a conversation, and does to it, the client says and does.
func TestConversations(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, enginetest.Echo, nil, func(a *parley.App) { a.Wires = []string{"conversations"} })
	talks, ctx := c.Conversations(""), t.Context()
	made, created, err := talks.Create(ctx, parley.CreateConversation{ID: "mine/1 ü", Title: "Plans", History: []parley.HistoryMessage{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}}})
	if err != nil || !created || made.ID != "mine/1 ü" || made.Status != parley.ConversationIdle || made.SessionID == "" {
		t.Fatalf("%+v, created %v, %v", made, created, err)
	}
	if again, created, err := talks.Create(ctx, parley.CreateConversation{ID: "mine/1 ü"}); err != nil || created || again.SessionID != made.SessionID {
		t.Errorf("the same id: %+v, created %v, %v", again, created, err)
	}
	if turn, err := c.SendAndWait(ctx, made.SessionID, parley.Send{Message: "hello"}); err != nil || turn.Status != parley.StatusCompleted {
		t.Fatal(turn, err)
	}
	title := "Other plans"
	if got, err := talks.Update(ctx, made.ID, parley.UpdateConversation{Title: &title}); err != nil || got.Title != title {
		t.Errorf("%+v, %v", got, err)
	}
	byApp := c.Conversations("test")
	if got, err := byApp.Read(ctx, string(made.SessionID)); err != nil || got.ID != made.ID || got.Title != title || got.Version <= made.Version {
		t.Errorf("%+v, %v", got, err)
	}
	second, created, err := byApp.Create(ctx, parley.CreateConversation{Key: "k"})
	if err != nil || !created || second.ID != string(second.SessionID) {
		t.Errorf("without an id: %+v, created %v, %v", second, created, err)
	}
	if again, created, err := byApp.Create(ctx, parley.CreateConversation{Key: "k"}); err != nil || created || again.ID != second.ID {
		t.Errorf("the same key: %+v, created %v, %v", again, created, err)
	}
	var ids []string
	for cursor := ""; ; {
		list, next, err := talks.List(ctx, cursor, 1)
		if err != nil || len(list) != 1 || len(ids) > 2 {
			t.Fatal(list, err)
		}
		ids = append(ids, list[0].ID)
		if cursor = next; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{second.ID, made.ID}, ids); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	if err := talks.Delete(ctx, made.ID); err != nil {
		t.Error(err)
	}
	if _, err := talks.Read(ctx, made.ID); parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("after it was deleted: %v", err)
	}
	if _, _, err := c.Conversations("none").List(ctx, "", 0); parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("of an app that is not there: %v", err)
	}
	for _, err := range talks.Follow(ctx, made.ID, 0) {
		if parley.CodeOf(err) != parley.CodeNotFound {
			t.Errorf("following a deleted one: %v", err)
		}
	}
}

// TestConversations_follow: whoever follows a conversation gets each change once and in order, and the answer so far, although
// the connection breaks within the frame behind each change.
func TestConversations_follow(t *testing.T) {
	t.Parallel()
	rest := make(chan struct{})
	model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		switch enginetest.Last(r) {
		case "fail":
			return seam.Reply{}, parley.Errorf(parley.CodeInvalid, "the model takes no such thing")
		case "slow":
			say("The first half")
			<-rest
			say(" and the second.")
			return seam.Reply{}, nil
		}
		return enginetest.Echo(ctx, r, say)
	}
	c, _ := serve(t, model, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/stream") {
				w = &cutLater{ResponseWriter: w}
			}
			h.ServeHTTP(w, r)
		})
	}, func(a *parley.App) {
		a.Wires, a.Busy, a.MaxOpenTurns = []string{"conversations"}, parley.BusyEnqueue, 8
	})
	talks, ctx := c.Conversations(""), t.Context()
	made, _, err := talks.Create(ctx, parley.CreateConversation{ID: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{"slow", "fail", "hello"} {
		if _, err := c.Send(ctx, made.SessionID, parley.Send{Message: message}); err != nil {
			t.Fatal(err)
		}
	}
	var (
		got     []string
		seqs    []int64
		texts   []string
		whole   int
		halfway bool
	)
	for f, err := range talks.Follow(ctx, "mine", made.Version) {
		switch {
		case err != nil:
			t.Fatal(err)
		case f.Conversation != nil:
			whole++
		case f.Text != nil:
			if texts = append(texts, f.Text.StreamingContent); !halfway {
				halfway = true
				close(rest)
			}
		case f.Change != nil:
			got, seqs = append(got, strings.TrimSpace(string(f.Change.Status)+" "+f.Change.Content+f.Change.Error)), append(seqs, f.Change.Seq)
		}
		if len(got) == 6 {
			break
		}
	}
	want := []string{"streaming", "idle The first half and the second.", "streaming", "error the model takes no such thing", "streaming", "idle you said: hello"}
	if diff := cmp.Diff(want, got); diff != "" || whole < 6 {
		t.Errorf("over %d connections (-want +got):\n%s", whole, diff)
	}
	if texts[0] != "The first half" {
		t.Errorf("the answer so far: %q", texts)
	}
	var later []int64
	for f, err := range talks.Follow(ctx, "mine", seqs[2]) { // as a client does that has kept its cursor
		if err != nil {
			t.Fatal(err)
		}
		if f.Change != nil {
			later = append(later, f.Change.Seq)
		}
		if len(later) == 3 {
			break
		}
	}
	if !slices.Equal(later, seqs[3:]) {
		t.Errorf("behind %d: %v, want %v", seqs[2], later, seqs[3:])
	}
}

// cutLater breaks within the frame behind the first change.
type cutLater struct {
	http.ResponseWriter
	changed bool
}

func (w *cutLater) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *cutLater) Write(b []byte) (int, error) {
	if w.changed {
		_, _ = w.ResponseWriter.Write(b[:len(b)/2])
		return 0, errors.New("the connection broke")
	}
	w.changed = bytes.Contains(b, []byte("event: status"))
	return w.ResponseWriter.Write(b)
}
