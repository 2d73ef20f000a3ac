package mistral

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sse"
)

type yieldFunc = func(seam.ModelDelta, error) bool

// A chunk of a chat completion's stream, or an error in its place.
type chatChunk struct {
	failure
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content   json.RawMessage `json:"content"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string          `json:"name"`
					Arguments json.RawMessage `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
}

// chat reads the stream of a chat completion to its end.
func (a *assembly) chat(ctx context.Context, body io.Reader, yield yieldFunc) {
	fail := func(err error) { yield(seam.ModelDelta{}, err) }
	finish := ""
	for f, err := range sse.Decode(body, maxFrame) {
		if err != nil {
			fail(a.broken(ctx, err))
			return
		}
		if text, ok := plainDelta(f.Data, a.buf[:0]); ok && finish == "" {
			a.buf = text
			if !a.pass(parley.PartText, text, yield) {
				return
			}
			continue
		}
		if string(bytes.TrimSpace(f.Data)) == "[DONE]" {
			break
		}
		var c chatChunk
		if err := json.Unmarshal(f.Data, &c); err != nil {
			fail(a.c.p.Malformed("a chunk", err))
			return
		}
		if c.Choices == nil && c.words() != "" || f.Event == "error" {
			fail(a.failed(c.failure))
			return
		}
		if c.Model != "" {
			a.model = c.Model
		}
		if c.Usage != nil {
			a.usage = c.Usage
		}
		for _, ch := range c.Choices {
			if ch.Index != 0 {
				continue // only one choice was requested
			}
			if !a.content(ch.Delta.Content, yield) {
				return
			}
			for _, tc := range ch.Delta.ToolCalls {
				if err := a.call(tc.ID, tc.Function.Name, tc.Function.Arguments); err != nil {
					fail(err)
					return
				}
			}
			if ch.FinishReason != nil && *ch.FinishReason != "" {
				finish = *ch.FinishReason
			}
		}
	}
	if ctx.Err() != nil {
		fail(ctx.Err())
		return
	}
	stop := ""
	switch finish {
	case "":
		fail(a.c.p.Ended())
		return
	case "stop", "tool_calls":
	case "length", "model_length":
		stop = "max_tokens"
	case "content_filter", "safety", "refusal":
		stop = "refusal"
	case "error":
		fail(parley.Errorf(parley.CodeUnavailable, "Mistral failed in the middle of a reply").WithHint("try again, or choose another model"))
		return
	default:
		stop = finish
	}
	a.end(stop, nil, yield)
}

// end shows what was held back, then the reply. change may modify the reply.
func (a *assembly) end(stop string, change func(*seam.Reply), yield yieldFunc) {
	d, err := a.rest()
	if err != nil {
		yield(seam.ModelDelta{}, err)
		return
	}
	if (d.Text != "" || d.Thinking != "") && !yield(d, nil) {
		return
	}
	r := a.reply(stop)
	if change != nil {
		change(r)
	}
	yield(seam.ModelDelta{Reply: r}, nil)
}

// pass stores a fragment and shows it. It returns false when the stream is over.
func (a *assembly) pass(kind parley.PartType, b []byte, yield yieldFunc) bool {
	text, err := a.say(kind, b)
	if err != nil {
		yield(seam.ModelDelta{}, err)
		return false
	}
	if text == "" {
		return true
	}
	if kind == parley.PartThinking {
		return yield(seam.ModelDelta{Thinking: text}, nil)
	}
	return yield(seam.ModelDelta{Text: text}, nil)
}

// replyChunk is a chunk of content: text, thinking or a reference, in any of their forms.
type replyChunk struct {
	Type      string          `json:"type"`
	Text      jsonText        `json:"text"`
	Thinking  json.RawMessage `json:"thinking"`
	Signature json.RawMessage `json:"signature"`
	Tool      string          `json:"tool"`
	Title     string          `json:"title"`
	URL       string          `json:"url"`
}

// content handles the content of a delta: a text, a chunk, or a list of chunks.
func (a *assembly) content(raw json.RawMessage, yield yieldFunc) bool {
	if len(raw) == 0 {
		return true
	}
	switch raw[0] {
	case '"':
		a.buf = unquote(a.buf[:0], raw[1:len(raw)-1])
		return a.pass(parley.PartText, a.buf, yield)
	case '{':
		return a.chunk(raw, yield)
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return true
		}
		for _, one := range list {
			if !a.content(one, yield) {
				return false
			}
		}
	}
	return true
}

func (a *assembly) chunk(raw json.RawMessage, yield yieldFunc) bool {
	var c replyChunk
	if err := json.Unmarshal(raw, &c); err != nil {
		yield(seam.ModelDelta{}, a.c.p.Malformed("a malformed text", err))
		return false
	}
	switch c.Type {
	case "text":
		return a.pass(parley.PartText, c.Text, yield)
	case "thinking":
		return a.think(c, yield)
	case "tool_reference":
		if len(a.cites) < maxParts {
			a.cites = append(a.cites, parley.Citation{Source: c.Tool, Ref: c.URL, Quote: c.Title})
		}
	}
	return true
}

func (a *assembly) think(c replyChunk, yield yieldFunc) bool {
	var list []replyChunk
	if len(c.Thinking) > 0 && c.Thinking[0] == '"' {
		list = []replyChunk{{Type: "text", Text: unquote(nil, c.Thinking[1:len(c.Thinking)-1])}}
	} else if len(c.Thinking) > 0 && json.Unmarshal(c.Thinking, &list) != nil {
		return true
	}
	for _, t := range list {
		if t.Type == "text" && !a.pass(parley.PartThinking, t.Text, yield) {
			return false
		}
	}
	if p := a.last(); p != nil && p.kind == parley.PartThinking && len(c.Signature) > 0 && string(c.Signature) != "null" {
		p.seal.Signature = bytes.Clone(c.Signature)
	}
	return true
}

// broken explains why reading a stream failed.
func (a *assembly) broken(ctx context.Context, err error) error {
	if errors.Is(err, sse.ErrTooLarge) {
		return a.c.p.Malformed("a chunk that is too large", err)
	}
	return a.c.p.Failure(ctx, err)
}

// failed is the error of a failure within a stream.
func (a *assembly) failed(f failure) error {
	code := parley.CodeUnavailable
	switch {
	case f.Type == "rate_limited" || f.code() == "1300":
		code = parley.CodeRateLimited
	case f.Type == "invalid_request_error" && f.code() != "3000":
		code = parley.CodeInvalid
	}
	return a.c.p.Refused(code, f.words())
}

// The text before and after the text of a common chunk.
var (
	deltaHead = []byte(`"delta":{"content":"`)
	notDone   = []byte(`"finish_reason":null`)
	hasUsage  = []byte(`"usage":{`)
	hasCalls  = []byte(`"tool_calls":[`)
)

// plainDelta is the fast path for a chunk with only text: it appends the text to dst. It returns
// false for any other chunk.
func plainDelta(data, dst []byte) ([]byte, bool) {
	at := bytes.Index(data, deltaHead)
	if at < 0 {
		return nil, false
	}
	s := data[at+len(deltaHead):]
	end, escaped := 0, false
	for {
		n := bytes.IndexByte(s[end:], '"')
		if n < 0 {
			return nil, false
		}
		end += n
		slashes := 0
		for end-slashes > 0 && s[end-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			break
		}
		end++
	}
	rest := s[end+1:]
	if len(rest) == 0 || rest[0] != '}' || !bytes.Contains(rest, notDone) || bytes.Contains(rest, hasUsage) ||
		bytes.Contains(rest, hasCalls) || data[len(data)-1] != '}' {
		return nil, false
	}
	escaped = bytes.IndexByte(s[:end], '\\') >= 0
	if !escaped {
		return append(dst, s[:end]...), true
	}
	return unquote(dst, s[:end]), true
}
