package claudecli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// reply collects what a model says in the form of Anthropic's API.
type reply struct {
	show func(kind parley.DeltaKind, text string) // nil: nobody looks

	model  string
	stop   string
	usage  usage
	parts  []*piece
	failed *parley.Error
	began  time.Time
	ttft   time.Duration
	size   int
	whole  bool // the reply is complete
}

// piece is a content block.
type piece struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	Sig      string          `json:"signature"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	raw      json.RawMessage
	json     strings.Builder // of the input, in pieces
}

type usage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	Details    *struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// over overwrites the numbers of u with those that v has: the numbers in a stream are totals.
func (u *usage) over(v usage) {
	for _, f := range []struct{ to, from **int64 }{{&u.Input, &v.Input}, {&u.Output, &v.Output}, {&u.CacheRead, &v.CacheRead}, {&u.CacheWrite, &v.CacheWrite}} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	if v.Details != nil {
		u.Details = v.Details
	}
}

func (u usage) tokens() parley.Usage {
	of := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return max(*n, 0)
	}
	p := parley.Usage{InputTokens: of(u.Input), OutputTokens: of(u.Output), CacheReadTokens: of(u.CacheRead), CacheWriteTokens: of(u.CacheWrite)}
	if u.Details != nil {
		p.ReasoningTokens = max(u.Details.Thinking, 0)
	}
	return p
}

const (
	maxFrame = 8 << 20
	// maxReply limits one reply, in bytes: no model says more, and a broken one must not fill
	// the memory.
	maxReply = 16 << 20
)

var errTooLong = errors.New("the reply is too long")

// relay passes a stream on while it collects the reply. before is called once with the complete
// reply, before its last frame is passed on.
func (a *reply) relay(w http.ResponseWriter, body io.Reader, before func()) error {
	out := http.NewResponseController(w)
	r := bufio.NewReaderSize(body, 32<<10)
	var frame, data bytes.Buffer
	for {
		line, err := r.ReadSlice('\n')
		frame.Write(line)
		if frame.Len() > maxFrame {
			return errTooLong
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue // the rest of the line follows; data lines are found in the whole frame
		}
		if err != nil {
			if frame.Len() > 0 {
				_, _ = w.Write(frame.Bytes())
			}
			if errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		if b := frame.Bytes(); !bytes.HasSuffix(b, []byte("\n\n")) && !bytes.HasSuffix(b, []byte("\n\r\n")) {
			continue
		}
		data.Reset()
		for l := range bytes.Lines(frame.Bytes()) {
			if v, ok := bytes.CutPrefix(l, []byte("data:")); ok {
				data.Write(bytes.TrimSpace(v))
			}
		}
		if err := a.event(data.Bytes()); err != nil {
			return err
		}
		if a.whole {
			before()
		}
		if _, err := w.Write(frame.Bytes()); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		frame.Reset()
		if a.whole || a.failed != nil {
			return nil
		}
	}
}

// event takes the data of a frame.
func (a *reply) event(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	var e struct {
		Type    string `json:"type"`
		Index   int    `json:"index"`
		Message struct {
			Model string `json:"model"`
			Usage usage  `json:"usage"`
		} `json:"message"`
		Block json.RawMessage `json:"content_block"`
		Delta struct {
			Type       string `json:"type"`
			Text       string `json:"text"`
			Thinking   string `json:"thinking"`
			Partial    string `json:"partial_json"`
			Signature  string `json:"signature"`
			StopReason string `json:"stop_reason"`
		} `json:"delta"`
		Usage usage `json:"usage"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	if a.size += len(data); a.size > maxReply {
		return errTooLong
	}
	if a.ttft == 0 && strings.HasPrefix(e.Type, "content_block") {
		a.ttft = max(time.Since(a.began), time.Nanosecond)
	}
	switch e.Type {
	case "message_start":
		a.model = e.Message.Model
		a.usage.over(e.Message.Usage)
	case "content_block_start":
		p := &piece{raw: bytes.Clone(e.Block)}
		if err := json.Unmarshal(e.Block, p); err != nil {
			return err
		}
		a.parts = append(a.parts, p)
	case "content_block_delta":
		if e.Index < 0 || e.Index >= len(a.parts) {
			return errors.New("a delta for a block that is not open")
		}
		p := a.parts[e.Index]
		switch e.Delta.Type {
		case "text_delta":
			p.Text += e.Delta.Text
			a.shown("", e.Delta.Text)
		case "thinking_delta":
			p.Thinking += e.Delta.Thinking
			a.shown(parley.DeltaThinking, e.Delta.Thinking)
		case "input_json_delta":
			p.json.WriteString(e.Delta.Partial)
		case "signature_delta":
			p.Sig += e.Delta.Signature
		}
	case "content_block_stop":
		if e.Index >= 0 && e.Index < len(a.parts) {
			if p := a.parts[e.Index]; p.json.Len() > 0 {
				p.Input = json.RawMessage(p.json.String())
			}
		}
	case "message_delta":
		if e.Delta.StopReason != "" {
			a.stop = e.Delta.StopReason
		}
		a.usage.over(e.Usage)
	case "message_stop":
		a.whole = a.stop != ""
		if !a.whole {
			return io.ErrUnexpectedEOF
		}
	case "error":
		a.failed = parley.Errorf(codeOf(e.Error.Type, 0), "the model's stream broke off: %s", parley.Cut(e.Error.Message, 300)).WithHint("try again")
	}
	return nil
}

func (a *reply) shown(kind parley.DeltaKind, text string) {
	if a.show != nil && text != "" {
		a.show(kind, text)
	}
}

// read takes a reply that is not a stream.
func (a *reply) read(body []byte) error {
	var m struct {
		Model   string            `json:"model"`
		Content []json.RawMessage `json:"content"`
		Stop    string            `json:"stop_reason"`
		Usage   usage             `json:"usage"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	if m.Stop == "" {
		return io.ErrUnexpectedEOF
	}
	a.model, a.stop, a.usage, a.whole, a.ttft = m.Model, m.Stop, m.Usage, true, time.Since(a.began)
	for _, raw := range m.Content {
		p := &piece{raw: raw}
		if err := json.Unmarshal(raw, p); err != nil {
			return err
		}
		a.parts = append(a.parts, p)
		a.shown("", p.Text)
	}
	return nil
}

// text is what the reply says so far.
func (a *reply) text() string {
	var b strings.Builder
	for _, p := range a.parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return strings.ToValidUTF8(b.String(), "\ufffd")
}

// maxParts limits the parts of one reply; each call among them becomes an event.
const maxParts = 256

// provider is the name of the provider whose form the CLI's messages have.
const provider = "anthropic"

// said returns the reply's parts. name gives a tool the name that it has in the log, and call makes
// the id of a call.
func (a *reply) said(name func(string) string, call func(useID string) parley.CallID) []parley.Part {
	parts := make([]parley.Part, 0, len(a.parts))
	for _, p := range a.parts[:min(len(a.parts), maxParts)] {
		switch p.Type {
		case "text":
			if p.Text != "" {
				parts = append(parts, parley.Part{Type: parley.PartText, Text: strings.ToValidUTF8(p.Text, "\ufffd")})
			}
		case "thinking", "redacted_thinking":
			part := parley.Part{Type: parley.PartThinking, Text: strings.ToValidUTF8(p.Thinking, "\ufffd"), Provider: provider, Signature: p.raw}
			if p.Type == "thinking" {
				part.Signature, _ = json.Marshal(map[string]string{"type": "thinking", "thinking": p.Thinking, "signature": p.Sig}) // strings can always be written
			}
			parts = append(parts, part)
		case "tool_use":
			parts = append(parts, parley.Part{Type: parley.PartToolCall, Call: call(p.ID), ProviderID: p.ID, Name: name(p.Name), Input: object(p.Input)})
		default:
			parts = append(parts, parley.Part{Type: parley.PartProvider, Provider: provider, Name: p.Type, Signature: p.raw})
		}
	}
	return parts
}

// object returns a call's input as JSON. Invalid JSON becomes a JSON string, which no schema
// accepts.
func object(raw json.RawMessage) json.RawMessage {
	switch {
	case len(raw) == 0:
		return json.RawMessage("{}")
	case json.Valid(raw):
		return raw
	}
	quoted, _ := json.Marshal(strings.ToValidUTF8(string(raw), "\ufffd")) // a string can always be written
	return quoted
}

// codeOf is our code for an error of the API, by its type or else its status.
func codeOf(kind string, status int) parley.Code {
	switch kind {
	case "invalid_request_error":
		return parley.CodeInvalid
	case "authentication_error":
		return parley.CodeUnauthenticated
	case "billing_error", "permission_error":
		return parley.CodeForbidden
	case "not_found_error":
		return parley.CodeNotFound
	case "request_too_large":
		return parley.CodeTooLarge
	case "rate_limit_error":
		return parley.CodeRateLimited
	case "api_error", "timeout_error", "overloaded_error":
		return parley.CodeUnavailable
	}
	switch {
	case status == http.StatusUnauthorized:
		return parley.CodeUnauthenticated
	case status == http.StatusForbidden || status == http.StatusPaymentRequired:
		return parley.CodeForbidden
	case status == http.StatusNotFound:
		return parley.CodeNotFound
	case status == http.StatusRequestEntityTooLarge:
		return parley.CodeTooLarge
	case status == http.StatusTooManyRequests:
		return parley.CodeRateLimited
	case status/100 == 4:
		return parley.CodeInvalid
	}
	return parley.CodeUnavailable
}
