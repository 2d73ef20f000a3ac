package api

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/sdkview"
)

// eventPage is what the pages of a log are, which are written without it.
type eventPage struct {
	Events []parley.Event `json:"events" nullable:"false"`
	Next   int64          `json:"next" doc:"The cursor for the next page."`
	More   bool           `json:"more" doc:"Whether there is more now."`
}

// streamError is the last frame of a stream that failed.
type streamError struct {
	Session parley.SessionID `json:"session,omitempty" doc:"The one that failed, in a stream of several, which goes on without it."`
	Error   parley.ErrorInfo `json:"error"`
}

// frames is the content of a stream. No version of OpenAPI before 3.2 knows
// streams; in earlier ones, generators take the schema of text/event-stream for
// that of the data of each of its events.
func (s *Server) frames(media string) map[string]*huma.MediaType {
	all := s.huma.OpenAPI().Components.Schemas.Map()
	if all["Frame"] == nil {
		as := func(v any, doc string) *huma.Schema {
			return &huma.Schema{Ref: s.schema(v).Ref, Description: doc}
		}
		all["Frame"] = &huma.Schema{
			Description: "The data of one server-sent event. Only frames of the log have an id, which is their number and the cursor.",
			AnyOf: []*huma.Schema{
				as(parley.Event{}, "Of the log: the event's name is its type."),
				as(parley.Delta{}, "model.delta, model.thinking and tool.progress: a fragment of text. model.partial: the whole text of a call so far, which takes the place of what was shown."),
				as(eventlog.ResetInfo{}, "reset: fragments were dropped because this reader was slow; events and partials follow."),
				as(streamError{}, "error, the last frame."),
				{Ref: "#/components/schemas/ViewMessage", Description: "With view: a message of that view. Its id is the cursor."},
			},
		}
		types := []any{}
		for _, name := range sdkview.MessageTypes() {
			types = append(types, name)
		}
		all["ViewMessage"] = &huma.Schema{
			Type: huma.TypeObject, Required: []string{"type"}, AdditionalProperties: true,
			Description: "A message of the view sdk, as the Claude Agent SDK declares it (SDKMessage), or of the view simple: " +
				"TextDelta{text}, ToolUse{name, input, id}, ToolResult{tool_use_id, output}, Done{usage{input_tokens, output_tokens}, cost, is_error, result}, Error{message}.",
			Properties: map[string]*huma.Schema{"type": {Type: huma.TypeString, Enum: types}},
		}
		// An event's JSON is written by hand, see [parley.Event.AppendJSON].
		all["Event"].Properties["condensed"] = &huma.Schema{Type: huma.TypeBoolean, Description: "true if the data was condensed, and is null."}
		all["Line"] = &huma.Schema{
			Type: huma.TypeObject, Required: []string{"type"}, AdditionalProperties: true,
			Description: "A line of NDJSON: a Frame, whose type is the name that it has as a server-sent event.",
			Properties:  map[string]*huma.Schema{"type": {Type: huma.TypeString}},
		}
	}
	name := "Frame"
	if media != "text/event-stream" {
		name = "Line"
	}
	return map[string]*huma.MediaType{media: {Schema: &huma.Schema{Ref: "#/components/schemas/" + name}}}
}
