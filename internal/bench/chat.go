package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/parley-server/parley"
)

// chatPath is where a server that speaks OpenAI's API is asked for a reply.
const chatPath = "/v1/chat/completions"

// chatForm is how OpenAI's API sends tokens.
var chatForm = form{
	kind:   "text/event-stream",
	before: []byte(chunkHead + `{"content":"`), behind: []byte("\"}" + chunkTail),
	tail: []byte("data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"bench\"," +
		"\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":10,\"total_tokens\":110}}\n\ndata: [DONE]\n\n"),
}

const (
	chunkHead = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench","choices":[{"index":0,"delta":`
	chunkTail = ",\"finish_reason\":null}]}\n\n"
	callsTail = "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"bench\"," +
		"\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":10,\"total_tokens\":110}}\n\ndata: [DONE]\n\n"
)

// chatCall is a reply that calls the tool put, with an input of its own in each round.
func chatCall(round int) []byte {
	return fmt.Appendf(nil, `%s{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_%d","type":"function",`+
		`"function":{"name":"put","arguments":"{\"text\":\"round %[2]d\"}"}}]}%s%s`, chunkHead, round, chunkTail, callsTail)
}

// chatMessage is a message of OpenAI's API, as far as it is needed here.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content,omitempty"`
	ToolCalls json.RawMessage `json:"tool_calls,omitempty"`
	CallID    string          `json:"tool_call_id,omitempty"`
}

// text is the content, which is a string or a list of parts.
func (m chatMessage) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(m.Content, &parts) // anything else has no text
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// chatRequest asks for a reply to messages.
func chatRequest(messages ...chatMessage) []byte {
	raw, err := json.Marshal(struct {
		Model    string        `json:"model"`
		Stream   bool          `json:"stream"`
		Messages []chatMessage `json:"messages"`
	}{"bench", true, messages})
	if err != nil {
		panic(err) // of these types it cannot fail
	}
	return raw
}

func chatText(role, text string) chatMessage {
	raw, _ := json.Marshal(text) // a string is always valid
	return chatMessage{Role: role, Content: raw}
}

// asked finds the last thing that a user asked for in a request, and how many results of tools came
// after it.
func asked(body []byte) (said string, results int, err error) {
	var q struct{ Messages []chatMessage }
	if err := json.Unmarshal(body, &q); err != nil {
		return "", 0, err
	}
	for _, m := range q.Messages {
		switch text := m.text(); {
		case m.Role == string(parley.RoleUser) && !strings.HasPrefix(text, aboutTurn):
			said, results = text, 0
		case m.Role == "tool":
			results++
		}
	}
	return said, results, nil
}

// chat answers as a server that speaks OpenAI's API does: a plan with its tokens, "tools" with three
// rounds of a call, anything else with one word.
func (u *upstream) chat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAsk))
	if err != nil {
		return
	}
	said, results, err := asked(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", chatForm.kind)
	switch {
	case strings.HasPrefix(said, "stream "):
		p, err := readPlan(said)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		u.produce(w, r, p, chatForm)
	case strings.HasPrefix(said, "tools") && results < rounds:
		_, _ = w.Write(chatCall(results))
	default:
		_, _ = w.Write(bytes.Join([][]byte{chatForm.before, []byte("Done."), chatForm.behind, chatForm.tail}, nil))
	}
}

// models tells a client that asks what there is.
func (u *upstream) models(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"bench","object":"model","created":1700000000,"owned_by":"bench"}]}`)
}

// put is the service behind the tool of that name.
func (u *upstream) put(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxAsk))
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `"kept"`)
}

// bareTurn is a turn without a server that keeps it: the client itself makes the calls of tools.
func bareTurn(ctx context.Context, chatURL, toolURL, message string) error {
	messages := []chatMessage{chatText("user", message)}
	for {
		raw, err := fetchStream(ctx, chatURL, string(chatRequest(messages...)))
		if err != nil {
			return err
		}
		call, found := callIn(raw)
		if !found {
			return nil
		}
		if err := post(ctx, toolURL, `{"text":"kept"}`, nil); err != nil {
			return err
		}
		messages = append(messages, callMessage(call), resultMessage(call))
	}
}

// callIn finds the call in a stream.
func callIn(stream []byte) (id string, found bool) {
	_, rest, found := bytes.Cut(stream, []byte(`"tool_calls":[{"index":0,"id":"`))
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(name), found
}

func callMessage(id string) chatMessage {
	return chatMessage{
		Role:      "assistant",
		ToolCalls: json.RawMessage(`[{"id":"` + id + `","type":"function","function":{"name":"put","arguments":"{\"text\":\"kept\"}"}}]`),
	}
}

func resultMessage(id string) chatMessage {
	m := chatText("tool", "kept")
	m.CallID = id
	return m
}

// fetchStream sends a request and reads a stream to its end.
func fetchStream(ctx context.Context, url, body string) ([]byte, error) {
	resp, err := open(ctx, http.MethodPost, url, body, "text/event-stream")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
