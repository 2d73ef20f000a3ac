package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// target is a way to the upstream's tokens.
type target struct {
	name    string
	url     string
	session bool   // tokens come as frames of a session's turn
	chat    bool   // tokens come on OpenAI's wire
	server  *child // between client and upstream; nil: none
}

// heard is a stream as received by a client.
type heard struct {
	plan  plan
	asked time.Time // before the request was written
	at    []int64   // when each token had arrived; sent has when it was produced
	last  int64     // number of the last event
}

// prepare does the unmeasured work: it creates the session. It returns the address to send the
// plan to.
func (t target) prepare(ctx context.Context) (string, error) {
	switch {
	case t.chat:
		return t.url + chatPath, nil
	case !t.session:
		return t.url + "/tokens", nil
	}
	id, err := newSession(ctx, t.url)
	return t.url + "/v1/sessions/" + id + "/turns", err
}

func newSession(ctx context.Context, url string) (string, error) {
	var made struct{ ID string }
	err := post(ctx, url+"/v1/sessions", `{"app":"bench"}`, &made)
	return made.ID, err
}

// post sends JSON and reads the answer into v, which may be nil.
func post(ctx context.Context, url, body string, v any) error {
	resp, err := open(ctx, http.MethodPost, url, body, "application/json")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || v == nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// open sends a request and requires a 2xx status.
func open(ctx context.Context, method, url, body, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return nil, fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, raw)
	}
	return resp, nil
}

// hear requests a plan and records when its tokens arrive. heardOf is told of those
// that each frame brings, unless it is nil. The stream is read to its end. If ctx ends first, that is an error.
func (t target) hear(ctx context.Context, address string, p plan, heardOf func(n int)) (*heard, error) {
	h := &heard{plan: p, asked: time.Now(), at: make([]int64, 0, p.tokens)}
	body := p.String()
	switch {
	case t.session:
		body = `{"message":` + strconv.Quote(body) + `}`
	case t.chat:
		body = string(chatRequest(chatText("user", body)))
	}
	resp, err := open(ctx, http.MethodPost, address, body, "text/event-stream")
	if err != nil {
		return h, err
	}
	defer resp.Body.Close()
	err = h.read(resp.Body, heardOf)
	if err == nil && len(h.at) < p.tokens {
		err = fmt.Errorf("%s: %d of %d tokens of %s came", t.name, len(h.at), p.tokens, p.id)
	}
	return h, err
}

// counting adds to a counter.
func counting(seen *atomic.Int64) func(int) { return func(n int) { seen.Add(int64(n)) } }

// read goes by the length of the text: token i has arrived when all its bytes have, however many
// tokens a frame carries or holds back.
func (h *heard) read(from io.Reader, heardOf func(n int)) error {
	lines := bufio.NewReaderSize(from, 64<<10) // a reply of 4,000 tokens is a line of 20 KB
	shown, due := 0, len(word(0))
	partial, event := false, false
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case bytes.HasPrefix(line, []byte("event: ")):
			// After a fast model, the reply event may bring the text.
			partial, event = kindOf(string(bytes.TrimSpace(line[7:])))
		case bytes.HasPrefix(line, []byte("id: ")):
			h.last, _ = strconv.ParseInt(string(bytes.TrimSpace(line[4:])), 10, 64)
		case bytes.HasPrefix(line, []byte("data: ")) && !event:
			shown, due = h.more(line[6:], partial, shown, due, heardOf)
		}
	}
}

// kindOf says whether a kind of frame has a call's whole text, and whether it has no text to count.
func kindOf(kind string) (whole, none bool) {
	whole = kind == "model.partial" || kind == "model.replied"
	return whole, !whole && kind != "model.delta"
}

// more counts the tokens that a frame brings, when shown bytes have been shown and the next token
// needs due.
func (h *heard) more(data []byte, whole bool, shown, due int, heardOf func(n int)) (int, int) {
	now, n, before := time.Now().UnixNano(), textIn(data), len(h.at)
	if whole {
		n = max(0, n-shown)
	}
	for shown += n; shown >= due && len(h.at) < h.plan.tokens; due += len(word(len(h.at))) {
		h.at = append(h.at, now)
	}
	if n := len(h.at) - before; heardOf != nil && n > 0 {
		heardOf(n)
	}
	return shown, due
}

// textIn returns the length of the text in a frame: a JSON string, or the text field of a delta.
// The words need no JSON escapes.
func textIn(data []byte) int {
	data = bytes.TrimSpace(data)
	if rest, ok := bytes.CutPrefix(data, []byte(`"`)); ok {
		return len(rest) - 1
	}
	field := []byte(`"text":"`)
	at := bytes.LastIndex(data, field)
	if at < 0 {
		field = []byte(`"content":"`) // on OpenAI's wire
		at = bytes.LastIndex(data, field)
	}
	if at < 0 {
		return 0
	}
	text := data[at+len(field):]
	return max(0, bytes.IndexByte(text, '"'))
}

// sent asks the upstream when the tokens of a plan were produced.
func sent(ctx context.Context, upstream, id string) (at []int64, err error) {
	resp, err := open(ctx, http.MethodGet, upstream+"/sent?id="+id, "", "application/json")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return at, json.NewDecoder(resp.Body).Decode(&at)
}

// delays returns the milliseconds from upstream to client for each token.
func (h *heard) delays(sent []int64) (list []float64) {
	for i := range min(len(sent), len(h.at)) {
		list = append(list, float64(h.at[i]-sent[i])/1e6)
	}
	return list
}
