package gemini

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// request is the body of a request for content.
type request struct {
	Contents []message       `json:"contents"`
	System   *message        `json:"systemInstruction"`
	Tools    []tool          `json:"tools"`
	Choice   *choice         `json:"toolConfig"`
	Config   config          `json:"generationConfig"`
	Safety   json.RawMessage `json:"safetySettings"`
	Cached   string          `json:"cachedContent"`
	Model    string          `json:"model"`
}

type message struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

// part is a part of any kind.
type part struct {
	Text      *string         `json:"text"`
	Thought   bool            `json:"thought"`
	Signature string          `json:"thoughtSignature"`
	Inline    *blob           `json:"inlineData"`
	File      json.RawMessage `json:"fileData"`
	Call      *functionCall   `json:"functionCall"`
	Response  *response       `json:"functionResponse"`
	Code      json.RawMessage `json:"executableCode"`
	Result    json.RawMessage `json:"codeExecutionResult"`
	ToolCall  json.RawMessage `json:"toolCall"`
	ToolReply json.RawMessage `json:"toolResponse"`
	Video     json.RawMessage `json:"videoMetadata"`
	raw       json.RawMessage
}

func (p *part) UnmarshalJSON(b []byte) error {
	type plain part
	if err := strictly(b, (*plain)(p)); err != nil {
		return err
	}
	p.raw = bytes.Clone(b)
	return nil
}

type blob struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"`
	Name     string `json:"displayName"`
	body     []byte
}

type functionCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type response struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
}

type tool struct {
	Functions []function      `json:"functionDeclarations"`
	Search    json.RawMessage `json:"googleSearch"`
	URL       json.RawMessage `json:"urlContext"`
	Code      json.RawMessage `json:"codeExecution"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"parametersJsonSchema"`
	Parameters  json.RawMessage `json:"parameters"`
	Response    json.RawMessage `json:"response"`
	Behavior    string          `json:"behavior"`
}

type choice struct {
	Calling *struct {
		Mode    string   `json:"mode"`
		Allowed []string `json:"allowedFunctionNames"`
	} `json:"functionCallingConfig"`
	ServerSide bool            `json:"includeServerSideToolInvocations"`
	Retrieval  json.RawMessage `json:"retrievalConfig"`
}

type config struct {
	MaxOutputTokens *int64   `json:"maxOutputTokens"`
	Temperature     *float64 `json:"temperature"`
	TopP            *float64 `json:"topP"`
	TopK            *float64 `json:"topK"`
	Candidates      *int     `json:"candidateCount"`
	Stop            []string `json:"stopSequences"`
	Seed            *int64   `json:"seed"`
	Thinking        *struct {
		Include bool   `json:"includeThoughts"`
		Budget  *int64 `json:"thinkingBudget"`
		Level   string `json:"thinkingLevel"`
	} `json:"thinkingConfig"`
	// Fields that are accepted and ignored.
	MIMEType   string          `json:"responseMimeType"`
	Schema     json.RawMessage `json:"responseJsonSchema"`
	OpenAPI    json.RawMessage `json:"responseSchema"`
	Modality   []string        `json:"responseModalities"`
	Presence   *float64        `json:"presencePenalty"`
	Frequency  *float64        `json:"frequencyPenalty"`
	Resolution string          `json:"mediaResolution"`
}

// strictly decodes JSON and rejects unknown fields, as protocol buffers do.
func strictly(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// Validate checks the body of a request for content against the provider's rules for its newest
// model. The error is an *[Error] in the provider's words.
func Validate(body []byte) error {
	if len(body) > maxBody {
		return invalid("Request payload size exceeds the limit: %d bytes.", maxBody)
	}
	if _, e := parse(body, &Known()[0]); e != nil {
		return e
	}
	return nil
}

// parse parses a body and checks all of it.
func parse(body []byte, m *Model) (*request, *Error) {
	var r request
	if err := strictly(body, &r); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return nil, invalid("Invalid JSON payload received. Unknown name %s: Cannot find field.", name)
		}
		return nil, invalid("Invalid JSON payload received. %v", err)
	}
	if len(r.Contents) == 0 {
		return nil, invalid("* GenerateContentRequest.contents: contents is not specified")
	}
	for _, check := range []func(*request, *Model) *Error{checkContents, checkTurns, checkSystem, checkTools, checkConfig, checkSignatures} {
		if e := check(&r, m); e != nil {
			return nil, e
		}
	}
	return &r, nil
}

func checkSystem(r *request, _ *Model) *Error {
	if r.System == nil {
		return nil
	}
	if len(r.System.Parts) == 0 {
		return invalid("* GenerateContentRequest.system_instruction.parts: must not be empty.")
	}
	for _, p := range r.System.Parts {
		if p.Text == nil || *p.Text == "" {
			return invalid("Developer instruction must be text.")
		}
	}
	return nil
}

var (
	toolName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$`)
	mimeType = regexp.MustCompile(`^(image/(png|jpeg|webp|heic|heif)|application/pdf|text/(plain|html|css|csv|xml|rtf|markdown|javascript|md|x-python)|(audio|video)/[a-z0-9.+-]+)$`)
)

func checkContents(r *request, _ *Model) *Error {
	for i, c := range r.Contents {
		if c.Role != "" && c.Role != "user" && c.Role != "model" {
			return invalid("Please use a valid role: user, model.")
		}
		if len(c.Parts) == 0 {
			return invalid("* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.", i)
		}
		// The provider's own client sends back the empty text that ends a stream.
		if !slices.ContainsFunc(c.Parts, func(p part) bool { return p.Text == nil || *p.Text != "" || p.Signature != "" }) {
			return invalid("Unable to submit request because it must have a text parameter. Add a text parameter and try again.")
		}
		for j, p := range c.Parts {
			if e := checkPart(fmt.Sprintf("GenerateContentRequest.contents[%d].parts[%d]", i, j), c.Role, p); e != nil {
				return e
			}
		}
	}
	return nil
}

func checkPart(at, role string, p part) *Error {
	n := 0
	for _, is := range []bool{
		p.Text != nil, p.Inline != nil, p.File != nil, p.Call != nil, p.Response != nil, p.Code != nil, p.Result != nil, p.ToolCall != nil, p.ToolReply != nil,
	} {
		if is {
			n++
		}
	}
	_, err := decode64(p.Signature)
	switch {
	case n > 1:
		return invalid("Invalid value at '%s' (oneof), oneof field 'data' is already set.", at)
	case n == 0 && p.Signature == "":
		return invalid("* %s.data: required oneof field 'data' must have one initialized field", at)
	case err != nil:
		return invalid("Invalid value at '%s.thought_signature' (TYPE_BYTES), Base64 decoding failed", at)
	case p.Signature != "" && role != "model":
		return invalid("%s: thought signatures are the model's", at)
	case p.Call != nil && role != "model", p.Response != nil && role == "model":
		return invalid("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
	case p.Call != nil && !toolName.MatchString(p.Call.Name):
		return badName(at + ".function_call.name")
	case p.Call != nil && len(p.Call.Args) > 0 && !isObject(p.Call.Args):
		return invalid("Invalid value at '%s.function_call.args' (type.googleapis.com/google.protobuf.Struct)", at)
	case p.Response != nil && p.Response.Name == "":
		return invalid("* %s.function_response.name: Name cannot be empty.", at)
	case p.Response != nil && !isObject(p.Response.Response):
		return invalid("Invalid value at '%s.function_response.response' (type.googleapis.com/google.protobuf.Struct)", at)
	}
	if p.Inline != nil {
		body, err := decode64(p.Inline.Data)
		switch {
		case err != nil:
			return invalid("Invalid value at '%s.inline_data.data' (TYPE_BYTES), Base64 decoding failed", at)
		case !mimeType.MatchString(p.Inline.MIMEType):
			return invalid("Unsupported MIME type: %s", p.Inline.MIMEType)
		case len(body) == 0, role == "model":
			return invalid("Unable to process input image. Please retry or report in https://developers.generativeai.google/guide/troubleshooting")
		}
		p.Inline.body = body
	}
	return nil
}

// decode64 accepts both alphabets, with or without padding, as protocol buffers do.
func decode64(s string) ([]byte, error) {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	return base64.RawStdEncoding.DecodeString(s)
}

func isObject(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && m != nil
}

func badName(at string) *Error {
	return invalid("* %s: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 128.", at)
}

// checkTurns checks the order of the roles: calls are answered by the very next content, each
// once, and by nothing else.
func checkTurns(r *request, _ *Model) *Error {
	var open []functionCall
	for i, c := range r.Contents {
		var calls []functionCall
		var told []response
		for _, p := range c.Parts {
			if p.Call != nil {
				calls = append(calls, *p.Call)
			}
			if p.Response != nil {
				told = append(told, *p.Response)
			}
		}
		switch {
		case i == 0 && c.Role == "model":
			return invalid("Please ensure that multiturn requests begin with a user turn.")
		case c.Role == "model" && i > 0 && r.Contents[i-1].Role == "model" && calls != nil:
			return invalid("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
		case len(told) > 0 && len(open) == 0:
			return invalid("Please ensure that function response turn comes immediately after a function call turn.")
		case len(told) != len(open):
			return invalid("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
		for _, t := range told {
			n := slices.IndexFunc(open, func(f functionCall) bool { return f.ID == t.ID && f.Name == t.Name })
			if n < 0 {
				return invalid("Please ensure that function response turn comes immediately after a function call turn. The function response %q (id %q) answers no call.", t.Name, t.ID)
			}
			open = slices.Delete(open, n, n+1)
		}
		ids := map[string]bool{}
		for _, f := range calls {
			if f.ID != "" && ids[f.ID] {
				return invalid("Duplicate function call id: %s.", f.ID)
			}
			ids[f.ID] = true
		}
		open = calls
	}
	if len(open) > 0 || r.Contents[len(r.Contents)-1].Role == "model" {
		return invalid("Please ensure that multiturn requests end with a user role or a function response.")
	}
	return nil
}

func checkTools(r *request, m *Model) *Error {
	names := map[string]bool{}
	own := false
	for i, t := range r.Tools {
		own = own || t.Search != nil || t.URL != nil || t.Code != nil
		for j, f := range t.Functions {
			at := fmt.Sprintf("GenerateContentRequest.tools[%d].function_declarations[%d]", i, j)
			var schema struct{ Type any }
			switch {
			case !toolName.MatchString(f.Name):
				return badName(at + ".name")
			case names[f.Name]:
				return invalid("Duplicate function declaration found: %s", f.Name)
			case f.Schema != nil && f.Parameters != nil:
				return invalid("* %s: parameters and parameters_json_schema are mutually exclusive.", at)
			case f.Schema != nil && (json.Unmarshal(f.Schema, &schema) != nil || schema.Type != "object"):
				return invalid("* %s.parameters_json_schema: schema must be of type object", at)
			case f.Parameters != nil:
				if key := beyondOpenAPI(f.Parameters); key != "" {
					return invalid("Invalid JSON payload received. Unknown name %q at 'tools[%d].function_declarations[%d].parameters': Cannot find field.", key, i, j)
				}
			}
			names[f.Name] = true
		}
	}
	switch {
	case own && len(names) > 0 && !m.Seals:
		return invalid("Tool use with function calling is unsupported")
	case own && len(names) > 0 && (r.Choice == nil || !r.Choice.ServerSide):
		return invalid("Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling.")
	}
	if r.Choice != nil && r.Choice.Calling != nil {
		mode := r.Choice.Calling.Mode
		if !slices.Contains([]string{"", "AUTO", "ANY", "NONE", "VALIDATED"}, mode) {
			return invalid("Invalid value at 'tool_config.function_calling_config.mode' (type.googleapis.com/google.ai.generativelanguage.v1beta.FunctionCallingConfig.Mode), %q", mode)
		}
		if mode == "ANY" && len(names) == 0 {
			return invalid("Function calling mode is ANY but no function declarations are given.")
		}
	}
	return nil
}

// beyondOpenAPI returns a JSON Schema keyword that the older field does not support.
func beyondOpenAPI(raw json.RawMessage) string {
	for _, key := range []string{"$schema", "$ref", "$defs", "const", "exclusiveMinimum", "exclusiveMaximum", "patternProperties", "propertyNames", "oneOf", "allOf", "not"} {
		if bytes.Contains(raw, []byte(`"`+key+`":`)) {
			return key
		}
	}
	return ""
}

func checkConfig(r *request, m *Model) *Error {
	c := r.Config
	switch {
	case c.MaxOutputTokens != nil && (*c.MaxOutputTokens < 1 || *c.MaxOutputTokens > m.MaxOutput):
		return invalid("Unable to submit request because it has a maxOutputTokens value of %d but the supported range is from 1 (inclusive) to %d (exclusive). Update the value and try again.", *c.MaxOutputTokens, m.MaxOutput+1)
	case c.Temperature != nil && (*c.Temperature < 0 || *c.Temperature > 2):
		return invalid("* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, 2.0].")
	case c.Candidates != nil && *c.Candidates != 1:
		return invalid("Multiple candidates is not enabled for this model")
	}
	t := c.Thinking
	switch {
	case t == nil:
	case !m.Level && !m.Budget:
		return invalid("Thinking is not supported for this model.")
	case t.Level != "" && t.Budget != nil:
		return invalid("You can only set only one of thinking budget and thinking level.")
	case t.Level != "" && !m.Level:
		return invalid("Thinking level is not supported for this model.")
	case !slices.Contains([]string{"", "THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH"}, t.Level):
		return invalid("Invalid value at 'generation_config.thinking_config.thinking_level' (type.googleapis.com/google.ai.generativelanguage.v1beta.ThinkingConfig.ThinkingLevel), %q", t.Level)
	case m.NoMedium && t.Level != "" && t.Level != "LOW" && t.Level != "HIGH":
		return invalid("Thinking level %s is not supported for this model. Please retry with other thinking level.", t.Level)
	case t.Budget != nil && !m.Budget:
		return invalid("Thinking budget is not supported for this model.")
	case t.Budget != nil && (*t.Budget < -1 || *t.Budget > 24_576):
		return invalid("The thinking budget %d is invalid. Please choose a value between 0 and 24576.", *t.Budget)
	}
	return nil
}
