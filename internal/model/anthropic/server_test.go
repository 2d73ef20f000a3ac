package anthropic_test

import (
	"context"
	"encoding/json"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/anthropic"
)

// searching is a brain that searches, pauses, and then answers.
type searching struct{ asked atomic.Int32 }

func (*searching) Info() seam.ModelInfo { return seam.ModelInfo{Name: "test/searching"} }

func (s *searching) Stream(_ context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		own := func(block string) parley.Part {
			return parley.Part{Type: parley.PartProvider, Signature: json.RawMessage(block)}
		}
		text, reply := "Done.", &seam.Reply{StopReason: "end_turn"}
		switch n := s.asked.Add(1); {
		case !cmp.Equal(r.ServerTools, []string{"web_search"}):
			text = "I was given no search."
		case n == 1:
			text, reply.StopReason = "I look.", "pause_turn"
			reply.Parts = []parley.Part{own(`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"<é> & \"x\""}}`)}
		case n == 2:
			text = " It is so."
			reply.Parts = []parley.Part{own(`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"T","url":"https://example.com/","encrypted_content":"<b64>","page_age":null}]}`)}
		}
		if yield(seam.ModelDelta{Text: text}, nil) {
			yield(seam.ModelDelta{Reply: reply}, nil)
		}
	}
}

// TestSearchesGoBack: the results of the provider's own search tool are sent back with the next
// question, and the provider accepts them.
func TestSearchesGoBack(t *testing.T) {
	t.Parallel()
	var b modeltest.Bodies
	_, srv := provider(t, sim.Options{Brain: &searching{}, Asked: b.Take})
	m := client(t, srv.URL).Model(known("claude-sonnet-5-5"))
	r := modeltest.Ask()
	r.ServerTools = []string{"web_search"}
	text, reply, err := stream(t, m, r)
	if err != nil || text != "I look. It is so." {
		t.Fatalf("got %q, %v", text, err)
	}
	var kinds []string
	for _, p := range reply.Parts {
		kinds = append(kinds, string(p.Type)+" "+p.Name+" "+p.Text)
	}
	want := []string{"text  I look.", `provider server_tool_use web_search: <é> & "x"`, "text   It is so.", "provider web_search_tool_result T"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	// As read from a log.
	raw, err := json.Marshal(reply.Parts)
	if err != nil {
		t.Fatal(err)
	}
	var parts []parley.Part
	if err := json.Unmarshal(raw, &parts); err != nil {
		t.Fatal(err)
	}
	r.Messages = append(r.Messages, parley.Message{Role: parley.RoleAssistant, Parts: parts}, parley.Text(parley.RoleUser, "Sure?"))
	if text, _, err := stream(t, m, r); err != nil || text != "Done." {
		t.Fatalf("got %q, %v", text, err)
	}
	var last struct {
		Messages []struct{ Content []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(b.All()[2]), &last); err != nil {
		t.Fatal(err)
	}
	found := `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"T","url":"https://example.com/","encrypted_content":"<b64>","page_age":null}]}`
	if got := string(last.Messages[1].Content[3]); !sameJSON(t, found, got) {
		t.Errorf("the result went back as\n%s\nwant\n%s", got, found)
	}
}
