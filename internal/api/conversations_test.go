package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// talk is an API whose model says half of an answer, and the rest when it is told to.
type talk struct {
	*world
	half, rest chan struct{}
}

func newTalk(t *testing.T) *talk {
	k := &talk{half: make(chan struct{}), rest: make(chan struct{})}
	model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		switch last := enginetest.Last(r); {
		case strings.Contains(last, "fail"):
			return seam.Reply{}, parley.Errorf(parley.CodeInvalid, "the model takes no such thing")
		case strings.Contains(last, "slow"):
			say("The first half ")
			k.half <- struct{}{}
			select {
			case <-k.rest:
			case <-ctx.Done():
				return seam.Reply{}, context.Cause(ctx)
			}
			say("and the second.")
			return seam.Reply{Usage: parley.Usage{InputTokens: 7, OutputTokens: 5, USD: 0.25}}, nil
		}
		return enginetest.Echo(ctx, r, say)
	}
	var partial func(parley.SessionID, parley.CallID) (string, int64, bool)
	k.world = newWorld(t, model, enginetest.App(func(a *parley.App) {
		a.Wires = []string{"conversations"}
		a.Busy, a.MaxOpenTurns = parley.BusyEnqueue, 8
	}), func(o *api.Options) {
		o.Partial = func(id parley.SessionID, call parley.CallID) (string, int64, bool) { return partial(id, call) }
	})
	partial = k.rig.Writer.Partial
	return k
}

const conversations = "/v1/conversations"

// watch follows a conversation, and returns the next frame of a name.
func (k *talk) watch(id string, header ...string) (next func(name string) (string, string)) {
	k.t.Helper()
	r, err := http.NewRequestWithContext(k.t.Context(), "GET", k.url+conversations+"/"+id+"/stream", nil)
	if err != nil {
		k.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != 200 {
		k.t.Fatalf("%v %v", err, resp)
	}
	k.t.Cleanup(func() { _ = resp.Body.Close() })
	in := bufio.NewScanner(resp.Body)
	return func(name string) (id, data string) {
		k.t.Helper()
		event := ""
		for in.Scan() {
			switch line := in.Text(); {
			case line == "":
				event, id = "", ""
			case strings.HasPrefix(line, "id: "):
				id = line[4:]
			case strings.HasPrefix(line, "event: "):
				event = line[7:]
			case strings.HasPrefix(line, "data: ") && event == name:
				return id, line[6:]
			}
		}
		k.t.Fatalf("the stream ended before %s: %v", name, in.Err())
		return "", ""
	}
}

// TestConversations: a conversation is a session under the client's id. Its status, its answer so far, its cost and why it failed
// are those of the session's turns, and a list has them, too.
func TestConversations(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	jsonType := []string{"Content-Type", "application/json"}
	var c, again parley.Conversation
	k.call(201, &c, "POST", conversations, `{"id":"conv-1","title":"Plans","history":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"max_turns":3}`, jsonType...)
	k.call(200, &again, "POST", conversations, `{"id":"conv-1"}`, jsonType...)
	want := parley.Conversation{
		ID: "conv-1", SessionID: c.SessionID, App: "test", Title: "Plans", AttachedEntities: []parley.EntityRef{}, Status: parley.ConversationIdle,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, Version: 2,
	}
	if diff := cmp.Diff(want, c); diff != "" || again.SessionID != c.SessionID {
		t.Errorf("created, and again %s (-want +got):\n%s", again.SessionID, diff)
	}
	one, two := k.watch("conv-1"), k.watch(string(c.SessionID))
	if _, data := one("conversation"); !strings.Contains(data, `"status":"idle"`) {
		t.Errorf("the stream begins with %s", data)
	}
	send := func(message string) {
		t.Helper()
		k.call(202, nil, "POST", "/v1/sessions/"+string(c.SessionID)+"/turns", `{"message":"`+message+`"}`, jsonType...)
	}
	send("slow")
	<-k.half
	send("fail") // behind it
	k.call(200, &c, "GET", conversations+"/conv-1", "")
	if c.Status != parley.ConversationStreaming || c.StreamingContent != "The first half " {
		t.Errorf("while it streams: %+v", c)
	}
	if _, data := one("status"); !strings.Contains(data, `"status":"streaming"`) {
		t.Errorf("the first change is %s", data)
	}
	if _, data := one("content"); !strings.Contains(data, `"streaming_content":"The first half "`) {
		t.Errorf("the answer so far is %s", data)
	}
	close(k.rest)
	changes := func(next func(string) (string, string), n int) (list []string, ids []string) {
		for range n {
			id, data := next("status")
			var ch parley.ConversationChange
			if err := json.Unmarshal([]byte(data), &ch); err != nil || fmt.Sprint(ch.Seq) != id {
				t.Errorf("%v: %s is %s", err, id, data)
			}
			list, ids = append(list, strings.TrimSpace(string(ch.Status)+" "+ch.Content+ch.Error)), append(ids, id)
		}
		return list, ids
	}
	got, _ := changes(one, 3)
	if diff := cmp.Diff([]string{"idle The first half and the second.", "streaming", "error the model takes no such thing"}, got); diff != "" {
		t.Errorf("the changes (-want +got):\n%s", diff)
	}
	all, ids := changes(two, 4)
	if diff := cmp.Diff(append([]string{"streaming"}, got...), all); diff != "" {
		t.Errorf("another client's changes (-want +got):\n%s", diff)
	}
	for i := range ids[:3] { // cut after each
		if rest, _ := changes(k.watch("conv-1", "Last-Event-ID", ids[i]), 3-i); !cmp.Equal(rest, all[i+1:]) {
			t.Errorf("after %s: %q, want %q", ids[i], rest, all[i+1:])
		}
	}
	k.call(200, &c, "GET", conversations+"/"+string(c.SessionID), "")
	if c.Status != parley.ConversationError || c.Error != "the model takes no such thing" || c.Cost != 0.25 || c.Usage.InputTokens < 7 || c.StreamingContent != "" {
		t.Errorf("after the failure: %+v", c)
	}
	k.call(200, &c, "PATCH", conversations+"/conv-1", `{"title":"Other plans"}`, jsonType...)
	if c.Title != "Other plans" {
		t.Errorf("renamed: %+v", c)
	}
	for i := range 3 {
		k.call(201, nil, "POST", conversations, fmt.Sprintf(`{"id":"more-%d"}`, i), jsonType...)
	}
	var titles []string
	for cursor := ""; ; {
		var page struct {
			Conversations []parley.Conversation
			Next          string
		}
		k.call(200, &page, "GET", conversations+"?limit=2&cursor="+cursor, "")
		for _, c := range page.Conversations {
			titles = append(titles, c.ID+" "+string(c.Status))
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"more-2 idle", "more-1 idle", "more-0 idle", "conv-1 error"}, titles); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	for _, path := range []string{"/conv-1", "/" + string(c.SessionID), "/conv-1/stream", "/none"} { // another's is as unknown as none
		resp := k.ask("GET", conversations+path, "", "Test-User", "bob")
		if e := problem(t, resp); resp.StatusCode != 404 || e.Code != parley.CodeNotFound {
			t.Errorf("bob reads %s: %d", path, resp.StatusCode)
		}
	}
	k.call(201, &again, "POST", conversations, `{"id":"conv-1"}`, "Content-Type", "application/json", "Test-User", "bob")
	if again.SessionID == c.SessionID {
		t.Error("two users share a conversation")
	}
	k.call(204, nil, "DELETE", conversations+"/conv-1", "")
	if resp := k.ask("GET", conversations+"/conv-1", ""); resp.StatusCode != 404 {
		t.Errorf("after it was deleted: %d", resp.StatusCode)
	}
	for body, field := range map[string]string{
		`{"workspace_path":"lake"}`: "workspace_path", `{"id":"` + strings.Repeat("x", 129) + `"}`: "id", `{"attached_entities":[{"path":"a.md"}]}`: "attached_entities", `{"app":"none"}`: "app",
	} {
		resp := k.ask("POST", conversations, body, jsonType...)
		if e := problem(t, resp); resp.StatusCode < 400 || e.Field != field {
			t.Errorf("%s: %d %+v", body, resp.StatusCode, e)
		}
	}
}
