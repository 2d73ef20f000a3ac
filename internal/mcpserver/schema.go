package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// inputSchema is the schema of a tool's input in a form that every host can pass to its
// model: each property has one type, and an optional one is absent from required instead
// of a union with null. Gemini does not accept lists of types, and models write null
// where it is offered.
func inputSchema[In any]() *jsonschema.Schema {
	s, err := jsonschema.For[In](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[TimeRange]():   timeRange,
		reflect.TypeFor[Preferences](): preferences,
	}})
	if err != nil {
		panic(err) // one of our own types
	}
	withoutNull(s)
	return s
}

func withoutNull(s *jsonschema.Schema) {
	if len(s.Types) == 2 {
		s.Types = slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" })
	}
	if len(s.Types) == 1 {
		s.Type, s.Types = s.Types[0], nil
	}
	for _, p := range s.Properties {
		withoutNull(p)
	}
	if s.Items != nil {
		withoutNull(s.Items)
	}
}

// TimeRange is a text, or an object with start and end.
type TimeRange any

var timeRange = &jsonschema.Schema{
	Description: "when, as text or as an object with start and end",
	AnyOf: []*jsonschema.Schema{
		{Type: "string"},
		{
			Type: "object", AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
			Properties: map[string]*jsonschema.Schema{"start": moment("when it begins"), "end": moment("when it ends")},
		},
	},
}

func moment(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Description: about + ", as text or in milliseconds since 1970", AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "integer"}}}
}

// Preferences are free, but for being flat. Some are named, because Gemini takes no
// object without properties.
type Preferences map[string]any

var preferences = &jsonschema.Schema{
	Type: "object", Description: "what the agent should know of the user; more than these may be given",
	Properties: map[string]*jsonschema.Schema{
		"units":    {Type: "string", Description: "such as metric"},
		"language": {Type: "string", Description: "in which to answer"},
	},
	AdditionalProperties: &jsonschema.Schema{},
}

// leftOut removes nulls from the arguments of the seed's tools. OpenAI's strict mode
// requires every property, so hosts write null for omitted ones.
func (a *App) leftOut(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if call, ok := req.(*mcp.CallToolRequest); ok && call.Params != nil && a.seed[call.Params.Name] {
			call.Params.Arguments = noNulls(call.Params.Arguments)
		}
		return next(ctx, method, req)
	}
}

// noNulls is an object without the members that are null, at any depth.
func noNulls(raw json.RawMessage) json.RawMessage {
	if !bytes.Contains(raw, []byte("null")) {
		return raw
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return raw // no object: the schema says so
	}
	for name, v := range object {
		switch v = bytes.TrimSpace(v); {
		case string(v) == "null":
			delete(object, name)
		case bytes.HasPrefix(v, []byte("{")):
			object[name] = noNulls(v)
		}
	}
	out, err := json.Marshal(object)
	if err != nil {
		return raw
	}
	return out
}
