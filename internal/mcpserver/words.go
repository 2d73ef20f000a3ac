package mcpserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley/internal/pattern"
)

// rpcError is an error of JSON-RPC: what was wrong, and in its data what to do.
type rpcError struct {
	Code    int64          `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data,omitempty"`
}

// hint is where an error has what to do. The protocol leaves the names in data to the
// server.
const hint = "hint"

const (
	notJSON   = jsonrpc.CodeParseError
	notRight  = jsonrpc.CodeInvalidRequest
	badParams = jsonrpc.CodeInvalidParams
	noMethod  = jsonrpc.CodeMethodNotFound
)

// words are what the SDK says to a message that it does not take, which names its own
// types and lacks some codes, with what a host reads in its place. A rule without words
// is for [misfitting].
var words = []struct {
	said        *pattern.Regexp
	code        int64
	means, hint string // with $1 for what said has found
}{
	{re(`^POST requires a non-empty body$`), notJSON, "the body is not a message of JSON-RPC: it is empty", "send one message"},
	{re(`^malformed payload: .*?(?:json: )?(invalid character .*? (?:looking for|after|in) [a-z ]+|unexpected end of JSON input|unexpected EOF).*$`), notJSON, "the body is not JSON: $1", "send one message of JSON-RPC 2.0"},
	{re(`^malformed payload: .*nesting depth.*$`), notJSON, "the body is nested too deeply", "send one message of JSON-RPC 2.0"},
	{re(`^malformed payload: invalid message version tag .*$`), notRight, `jsonrpc is not "2.0"`, "send messages of JSON-RPC 2.0"},
	{re(`^malformed payload: .*invalid ID type.*$`), notRight, "id is neither text nor a number", "give each request an id"},
	{re(`^malformed payload: .*Go value of type string.*$`), notRight, "method is not text", "send messages of JSON-RPC 2.0"},
	{re(`^malformed payload: .*Go value of type jsonrpc2.*$`), notRight, "the message is not an object", "send messages of JSON-RPC 2.0"},
	{re(`^malformed payload: empty batch$`), notRight, "the message is empty", "send messages of JSON-RPC 2.0"},
	{re(`^malformed payload: .*$`), notRight, "the message is neither a request, a notification nor an answer", "send messages of JSON-RPC 2.0"},
	{re(`^(?:JSON RPC not handled|method not found): "(.*?)"(?: unsupported)?$`), noMethod, `there is no method "$1"`, "what the server does is in its capabilities, which initialize or server/discover returns"},
	{re(`^(?:invalid request: )?missing id for "(.*)"$`), notRight, "$1 is a request, and has no id", "give it an id"},
	{re(`^(?:invalid request: )?unexpected id for "(.*)"$`), notRight, "$1 is a notification, and has an id", "leave the id out"},
	{re(`^(?:invalid request: |handling '.*': (?:invalid request: )?)?missing required "params"$`), badParams, "the params are missing", "send what the method needs"},
	{re(`^method "(.*)" is invalid during session initialization$`), notRight, "$1 comes before the connection is initialized", "send initialize, then notifications/initialized, with the Mcp-Session-Id of the answer from then on"},
	{re(`^duplicate "initialize" received$`), notRight, "the connection is initialized already", "go on with it, or leave out the Mcp-Session-Id to open another"},
	{re(`^invalid params$`), badParams, "the cursor does not belong to this list", "begin without one"},
	{re(`^unknown (tool|prompt) ""$`), badParams, "the name of the $1 is missing", "${1}s/list has the names"},
	{re(`^unknown (tool|prompt) "(.*)"$`), badParams, `there is no $1 "$2"`, "${1}s/list has the names"},
	{re(`^failed to extract name from parameters for method "(.*)"$`), badParams, "the params of $1 do not fit", "the specification has the types of its fields"},
	{re(`(?s)^handling '(.*?)': .*$`), badParams, "", "the specification has the types of its fields"},
}

func re(text string) *pattern.Regexp { return pattern.New(text) }

// worded returns the JSON-RPC error for an error text of the SDK. It returns false if there is
// none, or if the SDK's text is good enough.
func worded(said string) (rpcError, bool) {
	for _, w := range words {
		m := w.said.FindStringSubmatchIndex(said)
		if m == nil {
			continue
		}
		means := string(w.said.ExpandString(nil, w.means, said, m))
		if means == "" {
			means = misfitting(said[m[2]:m[3]], said)
		}
		return rpcError{w.code, means, map[string]any{hint: string(w.said.ExpandString(nil, w.hint, said, m))}}, true
	}
	return rpcError{}, false
}

var wrongType = pattern.New(`into Go (?:value|struct field \w+\.\w+\.(?:\w+V2\.)?(\S+)) of type (\S+)$`)

// misfitting says which field of a method's params has the wrong type.
func misfitting(method, said string) string {
	m := wrongType.FindStringSubmatch(said)
	if m == nil {
		return "the params of " + method + " do not fit"
	}
	field, kind := m[1], "an object"
	switch goType := strings.TrimLeft(m[2], "*"); {
	case field == "":
		return "the params of " + method + " are not an object"
	case goType == "string":
		kind = "text"
	case goType == "bool":
		kind = "true or false"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"), strings.HasPrefix(goType, "float"):
		kind = "a number"
	case strings.HasPrefix(goType, "[]"):
		kind = "a list"
	}
	return "the params of " + method + " do not fit: " + field + " is not " + kind
}

// answersError is the beginning of an event or a body that answers with an error. The
// answer to a notification has no id.
var answersError = pattern.New(`^(?:(?:event|id): [^\n]*\n)*(?:data: )?(\{"jsonrpc":"2\.0",(?:"id":(?:"(?:[^"\\]|\\.)*"|-?[0-9]+|null),)?"error":)\{`)

// reworded is an answer of the SDK with the error in our words, where we have some.
func reworded(b []byte) ([]byte, bool) {
	at := answersError.FindSubmatchIndex(b)
	if at == nil {
		return nil, false
	}
	var message struct{ Error rpcError }
	d := json.NewDecoder(bytes.NewReader(b[at[2]:]))
	if d.Decode(&message) != nil {
		return nil, false
	}
	e, ok := worded(message.Error.Message)
	if !ok {
		if e = message.Error; e.Data[hint] != nil {
			return nil, false
		}
		e.Data = maps.Clone(e.Data)
		if e.Data == nil {
			e.Data = map[string]any{}
		}
		if e.Data[hint] = cmp.Or(remedies[e.Code], elsewhere); e.Data["uri"] != nil { // a resource that there is not
			e.Data[hint] = "resources/list has those that there are"
		}
	}
	raw, _ := json.Marshal(e) // plain data
	return slices.Concat(b[:at[3]], raw, []byte("}"), b[at[2]+int(d.InputOffset()):]), true
}

// remedies has the hint of an error that has none, by its code.
var remedies = map[int64]string{
	notJSON:                   "send one message of JSON-RPC 2.0",
	badParams:                 "the specification has the types of its fields",
	noMethod:                  "what the server does is in its capabilities, which initialize or server/discover returns",
	jsonrpc.CodeInternalError: "try again; the server's log says more",

	mcp.CodeUnsupportedProtocolVersion: "send one of the versions that are supported",
	mcp.CodeHeaderMismatch:             "send the headers that the body calls for, with what it says",
}

// elsewhere is the hint where nothing better is known.
const elsewhere = "the rules are at https://modelcontextprotocol.io/specification"
