package home

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
)

func describeEvents(m app.Mux) {
	object := func(doc string, required []string, properties map[string]*huma.Schema) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Description: doc, Required: required, Properties: properties, AdditionalProperties: false}
	}
	text := func(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: doc} }
	m.Describe(&huma.Operation{
		OperationID: "watch-session", Method: http.MethodGet, Path: Path, Summary: "Follow what an agent does in a session",
		Description: "Any session of yours, over all its turns. Without a cursor it begins with the open turn, or else with the last one. The events have no name.",
		Parameters: []*huma.Param{
			{Name: "session_id", In: "path", Required: true, Description: "The session.", Schema: text("")},
			{Name: "after", In: "query", Description: "The id of the last frame you have.", Schema: text("")},
			{Name: "Last-Event-ID", In: "header", Description: "Sent by a browser that reconnects; it takes precedence over after.", Schema: text("")},
			app.Flag("cursor", "0 omits the ids."),
			app.Flag("ping", "1 sends a comment while the stream is silent."),
		},
		Responses: map[string]*huma.Response{"200": app.Stream("The frames of the session", object("", []string{"type", "session_id", "continuation_id", "payload"}, map[string]*huma.Schema{
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
					"citations": {Type: huma.TypeArray, Items: m.Schema(parley.Citation{})},
					"followUps": {Type: huma.TypeArray, Items: text("")},
					"scripted":  {Type: huma.TypeBoolean, Description: "true if a script wrote it, and no language model."},
				}),
			}),
		}))},
	}, http.StatusNotFound)
}

func describeEntities(m app.Mux) {
	text := &huma.Schema{Type: huma.TypeString}
	whole := &huma.Schema{Type: huma.TypeInteger, Description: "In ms since 1970."}
	moment := &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	which := &huma.Param{Name: "app", In: "path", Required: true, Description: "The app's name.", Schema: text}
	pairs := func(second *huma.Schema) *huma.Schema {
		two := 2
		return &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{
			Type: huma.TypeArray, MinItems: &two, MaxItems: &two, Items: &huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeInteger}, second}},
			Description: "When it began, in ms since 1970, and what it was.",
		}}
	}
	describe := func(id, path, summary, doc string, params []*huma.Param, ok *huma.Response) {
		m.Describe(&huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: "/apps/{app}/entities" + path, Summary: summary, Description: doc,
			Parameters: append([]*huma.Param{which}, params...), Responses: map[string]*huma.Response{"200": ok},
		}, http.StatusNotFound)
	}
	describe("list-entities", "", "Read the house by area", "What is known of it now.", nil,
		&huma.Response{Description: "The house", Content: map[string]*huma.MediaType{"application/json": {Schema: m.Schema(Listing{})}}})
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
			"marks":   {Type: huma.TypeArray, Description: "Moments that stand out.", Items: m.Schema(Mark{})},
			"thinned": {Type: huma.TypeBoolean, Description: "Values were left out."},
		},
	}}}})
	describe("follow-entities", "/stream", "Follow what changes in the house", "Each event is one change, from now on.", nil,
		app.Stream("Changes", &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}))
}
