package parley

import (
	"encoding/json"
	"slices"
	"strings"
)

// Role is the speaker of a message.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool" // a message that holds only tool_result parts
)

// PartType says which fields of a Part are set.
type PartType string

const (
	PartText       PartType = "text"        // Text
	PartThinking   PartType = "thinking"    // Text, Signature
	PartToolCall   PartType = "tool_call"   // Call, ProviderID, Name, Input
	PartToolResult PartType = "tool_result" // Call, Name, Text or Input as JSON output, IsError
	PartHandoff    PartType = "handoff"     // Call, ProviderID, Name (the agent), Text (why)
	PartImage      PartType = "image"       // Artifact, MediaType, Size; in a request, Call: it is from the result of that call
	PartFile       PartType = "file"        // Artifact, MediaType, Name
	// PartProvider is a provider's own item that must be returned to it, such as a web
	// search it made: Provider, Name (its kind), Text (for people), Signature (the item
	// itself).
	PartProvider PartType = "provider"
	PartCommand  PartType = "command" // Name (the slash command in the text), Text (the prompt that it stands for)
	// PartResource is the text of a resource of an MCP server that the user attached: Server,
	// URI, Title, MediaType, Text. It is the server's word, and no instruction. A resource that
	// is an image or a file is a PartImage or PartFile with Server, URI and Title.
	PartResource PartType = "resource"
	// PartAttachment is a file that the user attached: Artifact, Name, MediaType, Size, and its Text,
	// of which Whole is the artifact with all. With IsError, Text says why nothing of it is read. An
	// image that the model sees is a PartImage.
	PartAttachment PartType = "attachment"
)

// Part is a piece of a message.
type Part struct {
	Type       PartType        `json:"type"`
	Text       string          `json:"text,omitempty"`
	Call       CallID          `json:"call,omitempty"`
	ProviderID string          `json:"provider_id,omitempty"` // the provider's own id of the call; may repeat or be empty
	Name       string          `json:"name,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Redacted   bool            `json:"redacted,omitempty"` // the secrets of Input were taken out
	IsError    bool            `json:"is_error,omitempty"`
	Cut        bool            `json:"cut,omitempty"` // the text ends early: the call was cut off, or a resource is shortened
	Artifact   ArtifactID      `json:"artifact,omitempty"`
	MediaType  string          `json:"media_type,omitempty"`
	Size       int64           `json:"size,omitempty"`   // of the artifact, in bytes; 0: not known
	Whole      ArtifactID      `json:"whole,omitempty"`  // of an attachment: the artifact with its text
	Server     string          `json:"server,omitempty"` // of a resource: the MCP server that it is from
	URI        string          `json:"uri,omitempty"`    // of a resource
	Title      string          `json:"title,omitempty"`  // of a resource: what people are shown

	// Signature is a provider's seal over this part. It is opaque: it goes back byte for
	// byte, only to the Provider that made it, and is never parsed. Thinking and provider
	// parts are left out of requests to other providers.
	Signature json.RawMessage `json:"signature,omitempty"`
	Provider  string          `json:"provider,omitempty"`
}

// Message is one thing that was said.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Text returns a message with one text part.
func Text(role Role, text string) Message {
	return Message{Role: role, Parts: []Part{{Type: PartText, Text: text}}}
}

// maxSaid is how many bytes of a resource later turns have.
const maxSaid = 4 << 10

// Said returns m as later turns have it: without the prompt that its slash command stands for, and
// with only the beginnings of its resources and attachments.
func (m Message) Said() Message {
	command := func(p Part) bool { return p.Type == PartCommand }
	long := func(p Part) bool {
		return (p.Type == PartResource || p.Type == PartAttachment) && len(p.Text) > maxSaid
	}
	if slices.ContainsFunc(m.Parts, func(p Part) bool { return command(p) || long(p) }) {
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), command)
		for i, p := range m.Parts {
			if long(p) {
				m.Parts[i].Text, m.Parts[i].Cut = clip(p.Text, maxSaid), true
			}
		}
	}
	return m
}

// Resources are those that m has.
func (m Message) Resources() (list []ResourceRef) {
	for _, p := range m.Parts {
		if r := (ResourceRef{p.Server, p.URI, p.Title}); p.Server != "" && !slices.ContainsFunc(list, r.Is) {
			list = append(list, r)
		}
	}
	return list
}

// Attachments are the files that m has, without those of MCP servers.
func (m Message) Attachments() (list []Attachment) {
	for _, p := range m.Parts {
		if p.Artifact == "" || p.Server != "" || p.Type != PartAttachment && p.Type != PartImage && p.Type != PartFile {
			continue
		}
		a := Attachment{ID: p.Artifact, Name: p.Name, MediaType: p.MediaType, Size: p.Size, Image: strings.HasPrefix(p.MediaType, "image/")}
		if p.IsError {
			a.Unread = p.Text
		}
		list = append(list, a)
	}
	return list
}

// Text joins the text parts.
func (m Message) Text() string { return PartsText(m.Parts) }

// PartsText joins the text parts of parts.
func PartsText(parts []Part) string {
	var one string
	n := 0
	for _, p := range parts {
		if p.Type == PartText {
			one = p.Text
			n++
		}
	}
	if n < 2 {
		return one
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Usage is what something cost. Token counts come from the provider, if it gives them.
type Usage struct {
	InputTokens      int64   `json:"input_tokens"`
	OutputTokens     int64   `json:"output_tokens"`
	CacheReadTokens  int64   `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64   `json:"cache_write_tokens,omitempty"`
	ReasoningTokens  int64   `json:"reasoning_tokens,omitempty"`
	USD              float64 `json:"usd,omitempty"`
	Estimated        bool    `json:"estimated,omitempty"` // some call got no reply and counts as reserved
}

// Add returns u + v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:      u.InputTokens + v.InputTokens,
		OutputTokens:     u.OutputTokens + v.OutputTokens,
		CacheReadTokens:  u.CacheReadTokens + v.CacheReadTokens,
		CacheWriteTokens: u.CacheWriteTokens + v.CacheWriteTokens,
		ReasoningTokens:  u.ReasoningTokens + v.ReasoningTokens,
		USD:              u.USD + v.USD,
		Estimated:        u.Estimated || v.Estimated,
	}
}

// Sub returns u - v; fields may be negative. Estimated is u's.
func (u Usage) Sub(v Usage) Usage {
	return Usage{
		InputTokens:      u.InputTokens - v.InputTokens,
		OutputTokens:     u.OutputTokens - v.OutputTokens,
		CacheReadTokens:  u.CacheReadTokens - v.CacheReadTokens,
		CacheWriteTokens: u.CacheWriteTokens - v.CacheWriteTokens,
		ReasoningTokens:  u.ReasoningTokens - v.ReasoningTokens,
		USD:              u.USD - v.USD,
		Estimated:        u.Estimated,
	}
}

// Tokens is what counts against a token budget: input, including tokens read from or
// written to a provider's cache, plus output.
func (u Usage) Tokens() int64 {
	return u.InputTokens + u.OutputTokens + u.CacheReadTokens + u.CacheWriteTokens
}

// Citation says where a statement comes from.
type Citation struct {
	Source string `json:"source"`
	Ref    string `json:"ref"`
	Quote  string `json:"quote,omitempty"`
}

// Response is what a turn answered.
type Response struct {
	Message          string     `json:"message"`
	ReasoningSummary string     `json:"reasoning_summary,omitempty"`
	Citations        []Citation `json:"citations,omitempty"`
	FollowUps        []string   `json:"follow_ups,omitempty"`
	Scripted         bool       `json:"scripted,omitempty"` // all models that wrote it follow a script; a client that shows the message should say so
}

// Delta is a fragment in flight. It is not history and is never stored as an event: the
// model.replied or tool.ended of its call has the final text.
type Delta struct {
	Session SessionID `json:"session"`
	Turn    TurnID    `json:"turn,omitempty"`
	Agent   AgentPath `json:"agent,omitempty"`
	Call    CallID    `json:"call"`
	Kind    DeltaKind `json:"kind,omitempty"` // empty: text
	// N counts the source deltas of this call up to and including this one. It grows by
	// more than one when fragments were joined on the way.
	N    int64  `json:"n"`
	Text string `json:"text"`
}

// DeltaKind says what a Delta carries; the empty kind is text of the answer.
type DeltaKind string

const (
	DeltaText     DeltaKind = ""
	DeltaThinking DeltaKind = "thinking"
	DeltaProgress DeltaKind = "progress" // of a tool
)
