package main

import (
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/home"
	"github.com/parley-server/parley/internal/api"
)

// document adds to /openapi.json what other doors than the native API serve. The schema
// of a stream is that of the data of each event, as there.
func document(list []parley.App, d wireDeps) {
	for _, name := range names(wires) {
		if slices.ContainsFunc(list, func(a parley.App) bool { return slices.Contains(a.Wires, name) }) {
			wires[name].describe(d.api)
		}
	}
	describeMCP(d.api)
	if len(d.houses) > 0 {
		describeEntities(d.api)
	}
}

func describeChat(s *api.Server) {
	text := func(doc string) *huma.Schema {
		one := 1
		return &huma.Schema{Type: huma.TypeString, Description: doc, MinLength: &one}
	}
	name, most := text("The caller's own id for the conversation."), parley.MaxOutsideID
	name.MaxLength = &most
	s.Describe(&huma.Operation{
		OperationID: "chat", Method: http.MethodPost, Path: "/chat", Summary: "Ask the app's agents, and follow the answer",
		Description: "The session is made when its id is first used. A second message is refused while a turn runs or waits for a person, who answers elsewhere. " +
			"The last frame is either done or error. With cursor=1 frames have the number of their event as id, from which /v1/sessions/{id}/events continues.",
		Parameters: []*huma.Param{
			flag("cursor", "1 gives frames an id."),
			flag("ping", "1 sends a comment while the stream is silent."),
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
			Type: huma.TypeObject, Required: []string{"session_id", "message"}, AdditionalProperties: false,
			Properties: map[string]*huma.Schema{
				"session_id": name,
				"message":    text("The question."),
			},
		}}}},
		Responses: map[string]*huma.Response{"200": stream("The frames of the turn", &huma.Schema{AnyOf: []*huma.Schema{
			frame("agent_start", "agent"),
			frame("tool_call", "agent", "tool", "query"),
			frame("tool_result", "agent", "tool", "result"),
			frame("handoff", "from", "to"),
			frame("token", "text"),
			frame("done"),
			frame("error", "message"),
		}})},
	}, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge)
}

func describeEvents(s *api.Server) {
	object := func(doc string, required []string, properties map[string]*huma.Schema) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Description: doc, Required: required, Properties: properties, AdditionalProperties: false}
	}
	text := func(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: doc} }
	s.Describe(&huma.Operation{
		OperationID: "watch-session", Method: http.MethodGet, Path: home.Path, Summary: "Follow what an agent does in a session",
		Description: "Any session of yours, over all its turns. Without a cursor it begins with the open turn, or else with the last one. The events have no name.",
		Parameters: []*huma.Param{
			{Name: "session_id", In: "path", Required: true, Description: "The session.", Schema: text("")},
			{Name: "after", In: "query", Description: "The id of the last frame you have.", Schema: text("")},
			{Name: "Last-Event-ID", In: "header", Description: "Sent by a browser that reconnects; it takes precedence over after.", Schema: text("")},
			flag("cursor", "0 omits the ids."),
			flag("ping", "1 sends a comment while the stream is silent."),
		},
		Responses: map[string]*huma.Response{"200": stream("The frames of the session", object("", []string{"type", "session_id", "continuation_id", "payload"}, map[string]*huma.Schema{
			"type":            {Type: huma.TypeString, Enum: []any{"progress", "step", "partial", "final"}},
			"session_id":      text("The session."),
			"continuation_id": text("The turn."),
			"payload": object("Its fields depend on the type; it may have a message.", nil, map[string]*huma.Schema{
				"message":          text("What happens, in words."),
				"partial_response": text("New text."),
				"step": object("One step.", []string{"ts", "type", "detail"}, map[string]*huma.Schema{
					"ts": {Type: huma.TypeInteger, Format: "int64", Description: "When, in ms since 1970."}, "type": text("Its kind."), "detail": {Description: "What belongs to its kind."},
				}),
				"final_response": object("The answer.", []string{"finalMessage"}, map[string]*huma.Schema{
					"finalMessage": text("In Markdown."), "reasoningSummary": text("How it came to it."),
					"citations": {Type: huma.TypeArray, Items: s.Schema(parley.Citation{})},
					"followUps": {Type: huma.TypeArray, Items: text("")},
				}),
			}),
		}))},
	}, http.StatusNotFound)
}

// describeMCP describes what OpenAPI can express of MCP: which requests exist.
func describeMCP(s *api.Server) {
	rpc := func(doc string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Description: doc, AdditionalProperties: true}
	}
	problem := s.Schema(api.Problem{})
	refused := func(what string) *huma.Response { // by the protocol, or by a door before it
		return &huma.Response{Description: what, Content: map[string]*huma.MediaType{"application/json": {
			Schema: &huma.Schema{AnyOf: []*huma.Schema{problem, {
				Type: huma.TypeObject, Description: "An error of JSON-RPC 2.0.", Required: []string{"jsonrpc", "error"}, AdditionalProperties: true,
				Properties: map[string]*huma.Schema{"jsonrpc": {Type: huma.TypeString, Enum: []any{"2.0"}}, "error": {Type: huma.TypeObject, AdditionalProperties: true}},
			}}},
		}}}
	}
	for id, path := range map[string]string{"mcp": "/mcp", "app-mcp": "/apps/{app}/mcp"} {
		of, params := "the app "+mcpHome, []*huma.Param(nil)
		if id != "mcp" {
			of = "an app"
			params = []*huma.Param{{Name: "app", In: "path", Required: true, Description: "The app's name.", Schema: &huma.Schema{Type: huma.TypeString}}}
		}
		s.Describe(&huma.Operation{
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
}

func describeEntities(s *api.Server) {
	text := &huma.Schema{Type: huma.TypeString}
	whole := &huma.Schema{Type: huma.TypeInteger, Description: "In ms since 1970."}
	moment := &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	app := &huma.Param{Name: "app", In: "path", Required: true, Description: "The app's name.", Schema: text}
	pairs := func(second *huma.Schema) *huma.Schema {
		two := 2
		return &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{
			Type: huma.TypeArray, MinItems: &two, MaxItems: &two, Items: &huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeInteger}, second}},
			Description: "When it began, in ms since 1970, and what it was.",
		}}
	}
	describe := func(id, path, summary, doc string, params []*huma.Param, ok *huma.Response) {
		s.Describe(&huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: "/apps/{app}/entities" + path, Summary: summary, Description: doc,
			Parameters: append([]*huma.Param{app}, params...), Responses: map[string]*huma.Response{"200": ok},
		}, http.StatusNotFound)
	}
	describe("list-entities", "", "Read the house by area", "What is known of it now.", nil,
		&huma.Response{Description: "The house", Content: map[string]*huma.MediaType{"application/json": {Schema: s.Schema(home.Listing{})}}})
	describe("entity-history", "/{entity_id}/history", "Read an entity's history", "For a number its values, thinned to what a chart shows, else its states.", []*huma.Param{
		{Name: "entity_id", In: "path", Required: true, Description: "The entity.", Schema: text},
		{Name: "hours", In: "query", Description: "How many hours up to now, at most 744; default 24.", Schema: &huma.Schema{Type: huma.TypeNumber}},
		{Name: "from", In: "query", Description: "Start of the period, instead of hours.", Schema: moment},
		{Name: "to", In: "query", Description: "End of the period, at most 744 hours after from.", Schema: moment},
	}, &huma.Response{Description: "Its history", Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: false,
		Required: []string{"entity_id", "name", "from", "to", "zone", "points", "states", "marks"},
		Properties: map[string]*huma.Schema{
			"entity_id": text, "name": text, "unit": text, "device_class": text,
			"from": whole, "to": whole, "zone": {Type: huma.TypeString, Description: "The house's."},
			"points":  pairs(&huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeNumber}, {Type: "null"}}}),
			"states":  pairs(text),
			"marks":   {Type: huma.TypeArray, Description: "Moments that stand out.", Items: s.Schema(home.Mark{})},
			"thinned": {Type: huma.TypeBoolean, Description: "Values were left out."},
		},
	}}}})
	describe("follow-entities", "/stream", "Follow what changes in the house", "Each event is one change, from now on.", nil,
		stream("Changes", &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}))
}

// flag is a parameter that is 0 or 1.
func flag(name, doc string) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"0", "1"}}}
}

// frame is the schema of the data of a named event whose fields are text.
func frame(event string, fields ...string) *huma.Schema {
	f := &huma.Schema{Type: huma.TypeObject, Title: event, AdditionalProperties: false, Required: fields, Properties: map[string]*huma.Schema{}}
	for _, name := range fields {
		f.Properties[name] = &huma.Schema{Type: huma.TypeString}
	}
	return f
}

func stream(what string, data *huma.Schema) *huma.Response {
	return &huma.Response{Description: what, Content: map[string]*huma.MediaType{"text/event-stream": {Schema: data}}}
}
