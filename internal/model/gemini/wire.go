package gemini

import "encoding/json"

// The request of generateContent: https://ai.google.dev/api/generate-content. The types are our own, and only what
// is sent: those of the official SDK come with its clients for Google's cloud, 168 packages.
type request struct {
	Contents []content         `json:"contents"`
	System   *content          `json:"systemInstruction,omitempty"`
	Tools    []tool            `json:"tools,omitempty"`
	Choice   *toolConfig       `json:"toolConfig,omitempty"`
	Config   *generationConfig `json:"generationConfig,omitempty"`
}

// content is a message. A part is a wirePart, or one of the provider's own as it came.
type content struct {
	Role  string `json:"role,omitempty"`
	Parts []any  `json:"parts"`
}

type wirePart struct {
	Text      *string           `json:"text,omitempty"`
	Thought   bool              `json:"thought,omitempty"`
	Call      *functionCall     `json:"functionCall,omitempty"`
	Result    *functionResponse `json:"functionResponse,omitempty"`
	Inline    *blob             `json:"inlineData,omitempty"`
	Signature string            `json:"thoughtSignature,omitempty"`
}

func textPart(s string) wirePart { return wirePart{Text: &s} }

type functionResponse struct {
	ID       string         `json:"id,omitempty"`
	Name     string         `json:"name,omitempty"`
	Response map[string]any `json:"response"`
}

type blob struct {
	MediaType string `json:"mimeType"`
	Data      []byte `json:"data"`
}

// tool is either functions, or what the provider runs by itself.
type tool struct {
	Functions    []functionDeclaration `json:"functionDeclarations,omitempty"`
	GoogleSearch *struct{}             `json:"googleSearch,omitempty"`
	URLContext   *struct{}             `json:"urlContext,omitempty"`
}

type functionDeclaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfig struct {
	// Invocations has the parts of the provider's own tools come in the answer.
	Invocations bool `json:"includeServerSideToolInvocations,omitempty"`
}

type generationConfig struct {
	MaxTokens   int32           `json:"maxOutputTokens,omitempty"`
	Temperature *float32        `json:"temperature,omitempty"`
	Thinking    *thinkingConfig `json:"thinkingConfig,omitempty"`
}

type thinkingConfig struct {
	Thoughts bool   `json:"includeThoughts,omitempty"`
	Budget   *int32 `json:"thinkingBudget,omitempty"`
	Level    string `json:"thinkingLevel,omitempty"`
}

const (
	levelLow    = "LOW"
	levelMedium = "MEDIUM"
	levelHigh   = "HIGH"
)
