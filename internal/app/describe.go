package app

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// DescribeMCP describes what OpenAPI can express of MCP at a path, with the tools of an app: which
// requests exist.
func DescribeMCP(m Mux, id, path, of string, params ...*huma.Param) {
	rpc := func(doc string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Description: doc, AdditionalProperties: true}
	}
	problem := &huma.Schema{Ref: "#/components/schemas/Problem"}
	refused := func(what string) *huma.Response { // by the protocol, or by a door before it
		return &huma.Response{Description: what, Content: map[string]*huma.MediaType{"application/json": {
			Schema: &huma.Schema{AnyOf: []*huma.Schema{problem, {
				Type: huma.TypeObject, Description: "An error of JSON-RPC 2.0.", Required: []string{"jsonrpc", "error"}, AdditionalProperties: true,
				Properties: map[string]*huma.Schema{"jsonrpc": {Type: huma.TypeString, Enum: []any{"2.0"}}, "error": {Type: huma.TypeObject, AdditionalProperties: true}},
			}}},
		}}}
	}
	m.Describe(&huma.Operation{
		OperationID: id, Method: http.MethodPost, Path: path, Parameters: params, Summary: "Speak MCP with " + of,
		Description: "A message of the Model Context Protocol, over Streamable HTTP in the revisions up to 2026-07-28. Use a client of that protocol; the contents of its messages are not described here.",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: rpc("A message of JSON-RPC 2.0.")}}},
		Responses: map[string]*huma.Response{
			"200": {Description: "The answer, or a stream that ends with it", Content: map[string]*huma.MediaType{
				"application/json": {Schema: rpc("JSON-RPC 2.0.")}, "text/event-stream": {Schema: rpc("JSON-RPC 2.0.")},
			}},
			"202": {Description: "A notification or a response was accepted"},
			"400": refused("The message is invalid, or of an unsupported revision"),
			"404": refused("There is no such app or connection"),
			"413": refused("The message is too large"),
			"415": refused("The Content-Type is not application/json"),
		},
	})
}

// Flag is a parameter that is 0 or 1.
func Flag(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"0", "1"}}}
}

// Frame is the schema of the data of a named event whose fields are text.
func Frame(event string, fields ...string) *huma.Schema {
	f := &huma.Schema{Type: huma.TypeObject, Title: event, AdditionalProperties: false, Required: fields, Properties: map[string]*huma.Schema{}}
	for _, name := range fields {
		f.Properties[name] = &huma.Schema{Type: huma.TypeString}
	}
	return f
}

// Stream is the answer that is a stream: data is the schema of the data of each event.
func Stream(what string, data *huma.Schema) *huma.Response {
	return &huma.Response{Description: what, Content: map[string]*huma.MediaType{"text/event-stream": {Schema: data}}}
}
