package anthropic_test

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
	"github.com/parley-server/parley/internal/sim/anthropic"
)

// body is a request with the messages and more fields.
func body(messages, more string) string {
	return `{"model":"claude-haiku-4-5","max_tokens":4096,"messages":[` + messages + `]` + more + `}`
}

const (
	hello = `{"role":"user","content":"hello"}`
	use   = `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"count","input":{}}]}`
	done  = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"1"}]}`
	tools = `,"tools":[{"name":"count","input_schema":{"type":"object"}}]`
)

func TestValidate(t *testing.T) {
	t.Parallel()
	user := func(blocks string) string { return `{"role":"user","content":[` + blocks + `]}` }
	assistant := func(blocks string) string { return `{"role":"assistant","content":[` + blocks + `]}` }
	cached := `{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}`
	for name, c := range map[string]struct{ body, no string }{
		"a question":          {body(hello, ""), ""},
		"neighbours":          {body(hello+","+hello, ""), ""},
		"a call and a result": {body(hello+","+use+","+done, tools), ""},
		"text after a result": {body(hello+","+use+","+user(`{"type":"tool_result","tool_use_id":"toolu_1"},{"type":"text","text":"go"}`), tools), ""},
		"results in two messages that are one": {body(hello+","+
			assistant(`{"type":"tool_use","id":"a","name":"count","input":{}},{"type":"tool_use","id":"b","name":"count","input":{}}`)+","+
			user(`{"type":"tool_result","tool_use_id":"b"}`)+","+user(`{"type":"tool_result","tool_use_id":"a"}`), tools), ""},
		"a prefill for an old model": {body(hello+","+assistant(`{"type":"text","text":"So"}`), ""), ""},
		"a search that goes on":      {strings.Replace(body(hello+","+assistant(`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`), ""), "haiku-4-5", "sonnet-5-5", 1), ""},

		"no JSON":                    {`{`, "not valid JSON"},
		"a field that nobody knows":  {body(hello, `,"foo":1`), "foo: Extra inputs"},
		"no model":                   {`{"max_tokens":1,"messages":[` + hello + `]}`, "model: Field required"},
		"a model that nobody knows":  {`{"model":"claude-x","max_tokens":1,"messages":[` + hello + `]}`, "model: claude-x"},
		"no max_tokens":              {`{"model":"claude-haiku-4-5","messages":[` + hello + `]}`, "max_tokens: Field required"},
		"too many tokens":            {body(hello, `,"max_tokens":9000000`), "maximum allowed number"},
		"no messages":                {body("", ""), "at least one message"},
		"a message of the system":    {body(hello+`,{"role":"system","content":"x"}`, ""), "Unexpected role"},
		"an assistant first":         {body(assistant(`{"type":"text","text":"a"}`)+","+hello, ""), "first message"},
		"an empty message":           {body(`{"role":"user","content":[]}`, ""), "non-empty content"},
		"a blank text":               {body(user(`{"type":"text","text":" \n"}`), ""), "non-whitespace"},
		"an unknown block":           {body(user(`{"type":"video"}`), ""), "does not match any"},
		"a call by the user":         {body(user(`{"type":"tool_use","id":"a","name":"count","input":{}}`), tools), "can only be in `assistant`"},
		"a call without a result":    {body(hello+","+use+","+hello, tools), "without `tool_result` blocks"},
		"a call at the end":          {body(hello+","+use, tools), "without `tool_result` blocks"},
		"a result without a call":    {body(done, tools), "unexpected `tool_use_id`"},
		"a result too late":          {body(hello+","+use+","+done+","+assistant(`{"type":"text","text":"a"}`)+","+done, tools), "unexpected `tool_use_id`"},
		"two results":                {body(hello+","+use+","+user(`{"type":"tool_result","tool_use_id":"toolu_1"},{"type":"tool_result","tool_use_id":"toolu_1"}`), tools), "single result"},
		"text before a result":       {body(hello+","+use+","+user(`{"type":"text","text":"go"},{"type":"tool_result","tool_use_id":"toolu_1"}`), tools), "must come first"},
		"a failure without words":    {body(hello+","+use+","+user(`{"type":"tool_result","tool_use_id":"toolu_1","is_error":true}`), tools), "cannot be empty"},
		"an id twice":                {body(hello+","+use+","+done+","+use+","+done, tools), "must be unique"},
		"an id of a strange form":    {body(hello+","+strings.Replace(use+","+done, "toolu_1", "call.1", 2), tools), "should match pattern"},
		"an input that is no object": {body(hello+","+strings.Replace(use, `"input":{}`, `"input":"x"`, 1)+","+done, tools), "valid dictionary"},
		"calls without tools":        {body(hello+","+use+","+done, ""), "must define tools"},
		"a tool's name with a dot":   {body(hello, strings.Replace(tools, "count", "a.b", 1)), "should match pattern"},
		"a tool twice":               {body(hello, `,"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]`), "must be unique"},
		"a schema without a type":    {body(hello, `,"tools":[{"name":"a","input_schema":{}}]`), "Input should be 'object'"},
		"a choice without tools":     {body(hello, `,"tool_choice":{"type":"auto"}`), "while providing tools"},
		"a choice of nothing":        {body(hello, tools+`,"tool_choice":{"type":"tool","name":"x"}`), "not found in provided tools"},
		"thinking that is forged":    {body(hello+","+assistant(`{"type":"thinking","thinking":"a","signature":"x"},{"type":"text","text":"a"}`)+","+hello, ""), "Invalid `signature`"},
		"thinking without signature": {body(hello+","+assistant(`{"type":"thinking","thinking":"a"},{"type":"text","text":"a"}`)+","+hello, ""), "signature: Field required"},
		"a budget too small":         {body(hello, `,"thinking":{"type":"enabled","budget_tokens":10}`), "greater than or equal to 1024"},
		"a budget too large":         {body(hello, `,"thinking":{"type":"enabled","budget_tokens":5000}`), "must be greater than"},
		"thinking when warm":         {body(hello, `,"temperature":0.5,"thinking":{"type":"enabled","budget_tokens":2000}`), "may only be set to 1"},
		"thinking as newer ones do":  {body(hello, `,"thinking":{"type":"adaptive"}`), "adaptive thinking is not supported"},
		"thinking as older ones did": {strings.Replace(body(hello, `,"thinking":{"type":"enabled","budget_tokens":2000}`), "haiku-4-5", "sonnet-5-5", 1), "is not supported for this model"},
		"thinking that starts late":  {body(hello+","+use+","+done, tools+`,"thinking":{"type":"enabled","budget_tokens":2000}`), "must start with a thinking block"},
		"an effort":                  {body(hello, `,"output_config":{"effort":"high"}`), "does not support the effort"},
		"an effort of no kind":       {body(hello, `,"output_config":{"effort":"huge"}`), "output_config.effort"},
		"a temperature":              {strings.Replace(body(hello, `,"temperature":0.5`), "haiku-4-5", "sonnet-5-5", 1), "`temperature` is not supported"},
		"a temperature too hot":      {body(hello, `,"temperature":1.5`), "temperature: range"},
		"a prefill":                  {strings.Replace(body(hello+","+assistant(`{"type":"text","text":"So"}`), ""), "haiku-4-5", "sonnet-5-5", 1), "prefill"},
		"a prefill with a space":     {body(hello+","+assistant(`{"type":"text","text":"So "}`), ""), "trailing whitespace"},
		"five breakpoints":           {body(user(strings.Repeat(cached+",", 4)+cached), ""), "A maximum of 4"},
		"a breakpoint of no kind":    {body(user(`{"type":"text","text":"a","cache_control":{"type":"eternal"}}`), ""), "cache_control"},
		"a picture that is none":     {body(user(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%%"}}`), ""), "valid image"},
		"a picture of a strange type": {
			body(user(`{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"AAAA"}}`), ""),
			"valid image",
		},
		"a picture too large": {
			body(user(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+base64.StdEncoding.EncodeToString(make([]byte, 4<<20))+`"}}`), ""),
			"exceeds 5 MB",
		},
		"a result of a search that was not made": {body(hello+","+assistant(`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]},{"type":"text","text":"a"}`)+","+hello, ""), "unexpected `tool_use_id`"},
	} {
		err := anthropic.Validate([]byte(c.body))
		switch e, _ := errors.AsType[*anthropic.Error](err); {
		case c.no == "" && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case c.no != "" && (e == nil || !strings.Contains(e.Message, c.no)):
			t.Errorf("%s: got %v, want %q", name, err, c.no)
		}
	}
}

func TestWhoMayAsk(t *testing.T) {
	t.Parallel()
	s := anthropic.New(anthropic.Options{Key: "right", Brain: modeltest.Brain(modeltest.Behaviour{Reply: seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: "a"}}}})})
	for name, c := range map[string]struct {
		method, path, body string
		header             map[string]string
		status             int
		kind               string
	}{
		"nobody":                {"POST", "/v1/messages", body(hello, ""), map[string]string{"X-Api-Key": ""}, 401, "authentication_error"},
		"a wrong key":           {"GET", "/v1/models", "", map[string]string{"X-Api-Key": "wrong"}, 401, "authentication_error"},
		"a bearer":              {"GET", "/v1/models", "", map[string]string{"X-Api-Key": "", "Authorization": "Bearer right"}, 200, ""},
		"no version":            {"POST", "/v1/messages", body(hello, ""), map[string]string{"Anthropic-Version": ""}, 400, "invalid_request_error"},
		"another version":       {"POST", "/v1/messages", body(hello, ""), map[string]string{"Anthropic-Version": "2022-01-01"}, 400, "invalid_request_error"},
		"another type":          {"POST", "/v1/messages", body(hello, ""), map[string]string{"Content-Type": "text/plain"}, 400, "invalid_request_error"},
		"another path":          {"POST", "/v1/completions", "{}", nil, 404, "not_found_error"},
		"another method":        {"GET", "/v1/messages", "", nil, 404, "not_found_error"},
		"no such model":         {"GET", "/v1/models/claude-x", "", nil, 404, "not_found_error"},
		"a wrong page":          {"GET", "/v1/models?limit=0", "", nil, 400, "invalid_request_error"},
		"too much":              {"POST", "/v1/messages", strings.Repeat(" ", 33<<20), nil, 413, "request_too_large"},
		"counting with a limit": {"POST", "/v1/messages/count_tokens", body(hello, ""), nil, 400, "invalid_request_error"},
		"well":                  {"POST", "/v1/messages", body(hello, ""), nil, 200, ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
		for k, v := range map[string]string{"X-Api-Key": "right", "Anthropic-Version": "2023-06-01", "Content-Type": "application/json"} {
			r.Header.Set(k, v)
		}
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		raw, _ := io.ReadAll(w.Result().Body)
		var got struct {
			Error     struct{ Type, Message string }
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Errorf("%s: %v: %s", name, err, raw)
		}
		if w.Code != c.status || got.Error.Type != c.kind || c.status != http.StatusOK && (got.Error.Message == "" || got.RequestID != w.Header().Get("Request-Id")) {
			t.Errorf("%s: got %d %s, want %d %s", name, w.Code, raw, c.status, c.kind)
		}
	}
}
