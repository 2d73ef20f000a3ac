package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// chunk is one frame of a stream, or a whole answer that is not streamed.
type chunk struct {
	Model   text            `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`

	Object text `json:"object"` // "error", of older vLLM, whose error is the frame itself
}

type choice struct {
	Delta   delta  `json:"delta"`
	Message *delta `json:"message"` // instead of a delta, when the answer is not streamed
	Finish  text   `json:"finish_reason"`
}

type delta struct {
	Content          text            `json:"content"`
	Refusal          text            `json:"refusal"`
	Reasoning        text            `json:"reasoning"`
	ReasoningContent text            `json:"reasoning_content"`
	Details          []detail        `json:"reasoning_details"`
	Calls            []fragment      `json:"tool_calls"`
	Extra            json.RawMessage `json:"extra_content"`
	Annotations      []annotation    `json:"annotations"`
}

// fragment is a piece of a call.
type fragment struct {
	Index    json.RawMessage `json:"index"`
	ID       text            `json:"id"`
	Function struct {
		Name      text            `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
	Extra json.RawMessage `json:"extra_content"`
}

// at returns the fragment's index; ok is false if it has none.
func (f fragment) at() (n int, ok bool) {
	n, err := strconv.Atoi(string(bytes.Trim(f.Index, `"`)))
	return n, err == nil
}

type annotation struct {
	Type string `json:"type"`
	URL  struct {
		URL     string `json:"url"`
		Title   string `json:"title"`
		Content string `json:"content"`
	} `json:"url_citation"`
}

// usage treats optional fields leniently: null means absent.
type usage struct {
	Prompt     float64 `json:"prompt_tokens"`
	Completion float64 `json:"completion_tokens"`
	Total      float64 `json:"total_tokens"`
	CacheHit   float64 `json:"prompt_cache_hit_tokens"`
	PromptOf   struct {
		Cached     float64 `json:"cached_tokens"`
		CacheWrite float64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionOf struct {
		Reasoning float64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Cost   float64 `json:"cost"` // US dollars
	BYOK   bool    `json:"is_byok"`
	CostOf struct {
		Upstream float64 `json:"upstream_inference_cost"`
	} `json:"cost_details"`
}

// text is a JSON string as bytes. It may begin or end inside a character, and half of a
// surrogate pair is stored as three bytes. Values that are not strings are empty, except that an
// array of parts becomes the texts in it.
type text []byte

func (t *text) UnmarshalJSON(raw []byte) error {
	*t = nil
	switch raw[0] {
	case '"':
		*t = unquote(nil, raw[1:len(raw)-1])
	case '[':
		var parts []struct {
			Text text `json:"text"`
		}
		if json.Unmarshal(raw, &parts) == nil {
			for _, p := range parts {
				*t = append(*t, p.Text...)
			}
		}
	}
	return nil
}

// unquote appends the decoded inside of a JSON string. Invalid escapes stay as they are.
func unquote(dst, s []byte) []byte {
	for {
		n := bytes.IndexByte(s, '\\')
		if n < 0 || n+1 >= len(s) {
			return append(dst, s...)
		}
		dst = append(dst, s[:n]...)
		c := s[n+1]
		s = s[n+2:]
		switch c {
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'u':
			r, ok := hex4(s)
			if !ok {
				dst = append(dst, '\\', 'u')
				continue
			}
			s = s[4:]
			dst = appendUnit(dst, r)
		default:
			dst = append(dst, c)
		}
	}
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[:4]), 16, 32)
	return rune(n), err == nil
}

// appendUnit appends a UTF-16 code unit. The second half of a pair is combined with a first half
// at the end of dst; a half alone becomes three bytes.
func appendUnit(dst []byte, r rune) []byte {
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r)
	}
	if n := len(dst); n >= 3 && dst[n-3] == 0xED {
		if hi, ok := half(dst[n-3:]); ok {
			if whole := utf16.DecodeRune(hi, r); whole != utf8.RuneError {
				return utf8.AppendRune(dst[:n-3], whole)
			}
		}
	}
	return append(dst, 0xED, 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
}

// half decodes half of a pair from its three bytes.
func half(b []byte) (rune, bool) {
	if len(b) < 3 || b[0] != 0xED || b[1] < 0xA0 || b[1] > 0xBF || b[2] < 0x80 || b[2] > 0xBF {
		return 0, false
	}
	return 0xD000 | rune(b[1]&0x3F)<<6 | rune(b[2]&0x3F), true
}

// A joiner makes whole characters from text that is split anywhere.
type joiner struct{ tail []byte }

// add returns the complete characters so far and keeps the rest.
func (j *joiner) add(b []byte) string {
	if len(j.tail) == 0 && utf8.Valid(b) {
		return string(b)
	}
	b = pairs(append(j.tail, b...))
	n := len(b) - unfinished(b)
	j.tail = bytes.Clone(b[n:])
	return string(bytes.ToValidUTF8(b[:n], []byte("\ufffd")))
}

// end returns the rest, which never became a character.
func (j *joiner) end() string {
	if len(j.tail) == 0 {
		return ""
	}
	j.tail = nil
	return "\ufffd"
}

// pairs combines separated halves of pairs.
func pairs(b []byte) []byte {
	if !bytes.Contains(b, []byte{0xED}) {
		return b
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		if r, ok := half(b); ok {
			out, b = appendUnit(out, r), b[3:]
			continue
		}
		out, b = append(out, b[0]), b[1:]
	}
	return out
}

// unfinished returns how many bytes at the end of b may be the beginning of a character.
func unfinished(b []byte) int {
	if n := len(b); n >= 3 {
		if r, ok := half(b[n-3:]); ok && r < 0xDC00 {
			return 3
		}
	}
	for n := 1; n <= min(3, len(b)); n++ {
		c := b[len(b)-n]
		if utf8.RuneStart(c) {
			if c >= 0xC2 && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			// Half of a pair starts with two bytes that do not begin a valid character.
			if n == 2 && c == 0xED && b[len(b)-1] >= 0xA0 && b[len(b)-1] <= 0xAF {
				return 2
			}
			return 0
		}
	}
	return 0
}
