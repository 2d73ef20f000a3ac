package gemini_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/gemini"
)

const (
	hello = `{"role":"user","parts":[{"text":"hello"}]}`
	well  = `{"role":"model","parts":[{"text":"well"}]}`
	use   = `{"role":"model","parts":[{"functionCall":{"id":"1","name":"count","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]}`
	done  = `{"role":"user","parts":[{"functionResponse":{"id":"1","name":"count","response":{"output":"1"}}}]}`
	tools = `,"tools":[{"functionDeclarations":[{"name":"count","parametersJsonSchema":{"type":"object"}}]}]`
)

// body is a request with the contents and more fields.
func body(contents, more string) string { return `{"contents":[` + contents + `]` + more + `}` }

func TestValidate(t *testing.T) {
	t.Parallel()
	user := func(parts string) string { return `{"role":"user","parts":[` + parts + `]}` }
	model := func(parts string) string { return `{"role":"model","parts":[` + parts + `]}` }
	call := func(id string) string {
		return `{"functionCall":{"id":"` + id + `","name":"count"},"thoughtSignature":"AA=="}`
	}
	skip := func(s string) string { return strings.ReplaceAll(s, "AA==", "skip_thought_signature_validator") }
	told := func(id string) string { return `{"functionResponse":{"id":"` + id + `","name":"count","response":{}}}` }
	for name, c := range map[string]struct{ body, no string }{
		"a question":                    {body(hello, ""), ""},
		"neighbours":                    {body(hello+","+hello, ""), ""},
		"no role":                       {body(`{"parts":[{"text":"hello"}]}`, ""), ""},
		"a call and a result":           {body(hello+","+use+","+done, tools), ""},
		"calls that nobody declares":    {body(hello+","+use+","+done, ""), ""},
		"text after a result":           {body(hello+","+use+","+done+","+hello, tools), ""},
		"results in another order":      {body(hello+","+skip(model(call("a")+","+call("b")))+","+user(told("b")+","+told("a")), tools), ""},
		"calls without ids":             {body(hello+","+skip(model(call("")+","+call("")))+","+user(told("")+","+told("")), tools), ""},
		"an old call without a seal":    {body(hello+","+strings.Replace(use, `,"thoughtSignature":"skip_thought_signature_validator"`, "", 1)+","+done+","+well+","+hello, tools), ""},
		"an empty text among others":    {body(hello+","+model(`{"text":"a"},{"text":""}`)+","+hello, ""), ""},
		"any keyword in the new field":  {body(hello, strings.Replace(tools, `"type":"object"`, `"$schema":"x","type":"object","properties":{"n":{"exclusiveMinimum":0}}`, 1)), ""},
		"a search with calls":           {body(hello, `,"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"a"}]}],"toolConfig":{"includeServerSideToolInvocations":true}`), ""},
		"a picture":                     {body(user(`{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}`), ""), ""},
		"base64 of the other alphabet":  {body(user(`{"inlineData":{"mimeType":"image/png","data":"_-8"}}`), ""), ""},
		"no JSON":                       {`{`, "Invalid JSON payload"},
		"a field that nobody knows":     {body(hello, `,"foo":1`), `Unknown name "foo"`},
		"a part that nobody knows":      {body(user(`{"txt":"a"}`), ""), `Unknown name "txt"`},
		"no contents":                   {body("", ""), "contents is not specified"},
		"a content of the system":       {body(hello+`,{"role":"system","parts":[{"text":"a"}]}`, ""), "valid role"},
		"the model first":               {body(well+","+hello, ""), "begin with a user turn"},
		"the model last":                {body(hello+","+well, ""), "end with a user role"},
		"an empty content":              {body(user(""), ""), "must not be empty"},
		"nothing but an empty text":     {body(user(`{"text":""}`), ""), "must have a text parameter"},
		"an empty part":                 {body(user(`{}`), ""), "required oneof field"},
		"two things in a part":          {body(user(`{"text":"a","inlineData":{"mimeType":"image/png","data":"AA=="}}`), ""), "already set"},
		"a call by the user":            {body(hello+","+strings.Replace(use, "model", "user", 1)+","+done, tools), "the model's"},
		"a call without a result":       {body(hello+","+use+","+hello, tools), "number of function response parts"},
		"a call at the end":             {body(hello+","+use, tools), "end with a user role"},
		"a result without a call":       {body(done, tools), "immediately after a function call turn"},
		"a result too late":             {body(hello+","+use+","+done+","+hello+","+done, tools), "immediately after a function call turn"},
		"half of the results":           {body(hello+","+skip(model(call("a")+","+call("b")))+","+user(told("a")), tools), "number of function response parts"},
		"results in two contents":       {body(hello+","+skip(model(call("a")+","+call("b")))+","+user(told("a"))+","+user(told("b")), tools), "number of function response parts"},
		"a result of another call":      {body(hello+","+use+","+strings.Replace(done, `"1"`, `"2"`, 1), tools), "answers no call"},
		"a result of another name":      {body(hello+","+use+","+strings.Replace(done, "count", "x", 1), tools), "answers no call"},
		"a result that is no object":    {body(hello+","+use+","+strings.Replace(done, `{"output":"1"}`, `"1"`, 1), tools), "protobuf.Struct"},
		"an input that is no object":    {body(hello+","+strings.Replace(use, `"args":{}`, `"args":[]`, 1)+","+done, tools), "protobuf.Struct"},
		"an id twice":                   {body(hello+","+skip(model(call("a")+","+call("a")))+","+user(told("a")+","+told("a")), tools), "Duplicate function call id"},
		"a call without a seal":         {body(hello+","+strings.Replace(use, `,"thoughtSignature":"skip_thought_signature_validator"`, "", 1)+","+done, tools), "missing a thought_signature"},
		"a seal that is forged":         {body(hello+","+strings.Replace(use, "skip_thought_signature_validator", "AA==", 1)+","+done, tools), "Corrupted thought signature"},
		"a seal that is no base64":      {body(hello+","+strings.Replace(use, "skip_thought_signature_validator", "!", 1)+","+done, tools), "Base64 decoding failed"},
		"a forged seal on a text":       {body(hello+","+model(`{"text":"a"},{"text":"","thoughtSignature":"AA=="}`)+","+hello, ""), "Corrupted thought signature"},
		"a tool's name with a space":    {body(hello, strings.Replace(tools, "count", "a b", 1)), "Invalid function name"},
		"a tool's name with a digit":    {body(hello, strings.Replace(tools, "count", "7th", 1)), "Invalid function name"},
		"a tool twice":                  {body(hello, `,"tools":[{"functionDeclarations":[{"name":"a"},{"name":"a"}]}]`), "Duplicate function declaration"},
		"a schema of no object":         {body(hello, strings.Replace(tools, "object", "string", 1)), "must be of type object"},
		"two schemas":                   {body(hello, strings.Replace(tools, `"parametersJsonSchema"`, `"parameters":{},"parametersJsonSchema"`, 1)), "mutually exclusive"},
		"a keyword in the old field":    {body(hello, `,"tools":[{"functionDeclarations":[{"name":"a","parameters":{"type":"OBJECT","properties":{"n":{"exclusiveMinimum":0}}}}]}]`), `Unknown name "exclusiveMinimum"`},
		"a search beside calls":         {body(hello, `,"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"a"}]}]`), "include_server_side_tool_invocations"},
		"a mode that nobody knows":      {body(hello, tools+`,"toolConfig":{"functionCallingConfig":{"mode":"SOME"}}`), "mode"},
		"a must without tools":          {body(hello, `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`), "no function declarations"},
		"too many tokens":               {body(hello, `,"generationConfig":{"maxOutputTokens":70000}`), "supported range"},
		"too warm":                      {body(hello, `,"generationConfig":{"temperature":2.1}`), "temperature"},
		"a level and a budget":          {body(hello, `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW","thinkingBudget":5}}`), "only one of"},
		"a level that nobody knows":     {body(hello, `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"MAX"}}`), "thinking_level"},
		"a budget too large":            {body(hello, `,"generationConfig":{"thinkingConfig":{"thinkingBudget":60000}}`), "is invalid"},
		"a system prompt without words": {body(hello, `,"systemInstruction":{"parts":[]}`), "must not be empty"},
		"a picture of a strange type":   {body(user(`{"inlineData":{"mimeType":"image/gif","data":"AA=="}}`), ""), "Unsupported MIME type"},
		"a picture that is none":        {body(user(`{"inlineData":{"mimeType":"image/png","data":"!"}}`), ""), "Base64 decoding failed"},
		"a picture by the model":        {body(hello+","+model(`{"inlineData":{"mimeType":"image/png","data":"AA=="}}`)+","+hello, ""), "Unable to process"},
		"more than fits":                {body(user(`{"text":"`+strings.Repeat("a", 20<<20)+`"}`), ""), "payload size exceeds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := gemini.Validate([]byte(c.body))
			e, ok := errors.AsType[*gemini.Error](err)
			switch {
			case c.no == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.no != "" && (!ok || !strings.Contains(e.Message, c.no)):
				t.Errorf("got %v, want %q", err, c.no)
			}
		})
	}
}

// TestRefusals: a request is refused with the provider's own error.
func TestRefusals(t *testing.T) {
	t.Parallel()
	brain := modeltest.Brain(modeltest.Behaviour{Reply: seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: "Well."}}, StopReason: "end_turn"}})
	s := gemini.New(gemini.Options{Key: "right", Brain: brain})
	const at = "/v1beta/models/gemini-3.8-flash"
	for name, c := range map[string]struct {
		method, path, body, key, kind string
		status                        int
		rpc                           string
	}{
		"well":                {"POST", at + ":generateContent", body(hello, ""), "right", "application/json", 200, ""},
		"the key in the URL":  {"POST", at + ":generateContent?key=right", body(hello, ""), "", "application/json", 200, ""},
		"a model":             {"GET", at, "", "right", "", 200, ""},
		"no key":              {"POST", at + ":generateContent", body(hello, ""), "", "application/json", 403, "PERMISSION_DENIED"},
		"a wrong key":         {"POST", at + ":generateContent", body(hello, ""), "wrong", "application/json", 400, "INVALID_ARGUMENT"},
		"no JSON":             {"POST", at + ":generateContent", body(hello, ""), "right", "text/plain", 400, "INVALID_ARGUMENT"},
		"a body that is none": {"POST", at + ":generateContent", "{", "right", "application/json", 400, "INVALID_ARGUMENT"},
		"too large":           {"POST", at + ":generateContent", strings.Repeat(" ", 21<<20), "right", "application/json", 400, "INVALID_ARGUMENT"},
		"no such model":       {"POST", "/v1beta/models/gemini-x:generateContent", body(hello, ""), "right", "application/json", 404, "NOT_FOUND"},
		"no such method":      {"POST", at + ":dream", body(hello, ""), "right", "application/json", 404, "NOT_FOUND"},
		"a stream as a list":  {"POST", at + ":streamGenerateContent", body(hello, ""), "right", "application/json", 404, "NOT_FOUND"},
		"no such path":        {"GET", "/v2/models", "", "right", "", 404, "NOT_FOUND"},
		"no such page":        {"GET", "/v1beta/models?pageToken=99", "", "right", "", 400, "INVALID_ARGUMENT"},
		"a page of none":      {"GET", "/v1beta/models?pageSize=-1", "", "right", "", 400, "INVALID_ARGUMENT"},
		"to count nothing":    {"POST", at + ":countTokens", "{}", "right", "application/json", 400, "INVALID_ARGUMENT"},
		"to count another's":  {"POST", at + ":countTokens", `{"generateContentRequest":{"model":"models/x","contents":[` + hello + `]}}`, "right", "application/json", 400, "INVALID_ARGUMENT"},
		"to count twice":      {"POST", at + ":countTokens", `{"contents":[` + hello + `],"generateContentRequest":{"model":"models/x"}}`, "right", "application/json", 400, "INVALID_ARGUMENT"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
		r.Header.Set("X-Goog-Api-Key", c.key)
		r.Header.Set("Content-Type", c.kind)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		raw, _ := io.ReadAll(w.Result().Body)
		var got struct {
			Error struct {
				Code            int
				Status, Message string
			}
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Errorf("%s: %v: %s", name, err, raw)
		}
		if w.Code != c.status || got.Error.Status != c.rpc || c.status != http.StatusOK && (got.Error.Message == "" || got.Error.Code != c.status) {
			t.Errorf("%s: got %d %s, want %d %s", name, w.Code, raw, c.status, c.rpc)
		}
	}
}

// TestSealsAreOfOneModel: a seal belongs to one model; another one rejects it.
func TestSealsAreOfOneModel(t *testing.T) {
	t.Parallel()
	brain := modeltest.Brain(modeltest.Behaviour{Reply: seam.Reply{Parts: []parley.Part{{Type: parley.PartToolCall, Name: "count", Input: json.RawMessage(`{"b":1,"a":"<"}`)}}, StopReason: "tool_use"}})
	s := gemini.New(gemini.Options{Brain: brain})
	post := func(model, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1beta/models/"+model+":generateContent?key=k", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	_, first := post("gemini-3.8-flash", body(hello, tools))
	var got struct {
		Candidates []struct {
			Content struct {
				Parts []struct {
					FunctionCall     json.RawMessage
					ThoughtSignature string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(first), &got); err != nil {
		t.Fatal(err)
	}
	p := got.Candidates[0].Content.Parts[0]
	if raw, err := base64.StdEncoding.DecodeString(p.ThoughtSignature); err != nil || len(raw) == 0 {
		t.Errorf("the signature %q: %v", p.ThoughtSignature, err)
	}
	var call struct{ ID string }
	if err := json.Unmarshal(p.FunctionCall, &call); err != nil {
		t.Fatal(err)
	}
	back := body(hello+`,{"role":"model","parts":[{"functionCall":`+string(p.FunctionCall)+`,"thoughtSignature":"`+p.ThoughtSignature+`"}]},`+strings.Replace(done, `"id":"1"`, `"id":"`+call.ID+`"`, 1), tools)
	for model, want := range map[string]int{"gemini-3.8-flash": 200, "gemini-3.1-pro-preview": 400, "gemini-2.5-flash": 200} {
		if status, said := post(model, back); status != want {
			t.Errorf("%s: got %d %s, want %d", model, status, said, want)
		}
	}
	if status, said := post("gemini-3.8-flash", strings.Replace(back, `"b":1`, `"b":2`, 1)); status != 400 {
		t.Errorf("a call that was changed: got %d %s", status, said)
	}
}
