package chaos

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/records"
	"github.com/parley-server/parley/internal/tool/notion"
	"github.com/parley-server/parley/internal/tool/slack"
)

// App is what this app brings: the stand-ins of Notion and Slack, and its wire.
func App() app.App {
	return app.App{
		Name: "chaos",
		Tools: map[string]app.Open{
			"notion": func(d app.ToolDeps) (app.Service, error) {
				return app.Service{Toolset: notion.New(records.Folder(d.Toolset.Data))}, nil
			},
			"slack": func(d app.ToolDeps) (app.Service, error) {
				return app.Service{Toolset: slack.New(records.Folder(d.Toolset.Data))}, nil
			},
		},
		Wires: map[string]app.Mount{wireName: mount},
	}
}

func mount(m app.Mux, d app.Deps) {
	m.Handle(http.MethodPost+" "+Path, Chat(Options{
		App: d.App, Engine: d.Engine, Follow: d.Reader.Follow, Principal: d.Principal, Fail: d.Fail, Open: d.Open,
		Limits: d.Limits,
	}))
	describe(m)
}

func describe(m app.Mux) {
	text := func(doc string) *huma.Schema {
		one := 1
		return &huma.Schema{Type: huma.TypeString, Description: doc, MinLength: &one}
	}
	name, most := text("The caller's own id for the conversation."), parley.MaxOutsideID
	name.MaxLength = &most
	frames := app.Stream("The frames of the turn", &huma.Schema{AnyOf: []*huma.Schema{
		app.Frame("agent_start", "agent"),
		app.Frame("tool_call", "agent", "tool", "query"),
		app.Frame("tool_result", "agent", "tool", "result"),
		app.Frame("handoff", "from", "to"),
		app.Frame("token", "text"),
		app.Frame("done"),
		app.Frame("error", "message"),
	}})
	header := func(doc string) *huma.Param {
		return &huma.Param{Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	frames.Headers = map[string]*huma.Param{
		"Parley-Session":  header("The id of the session."),
		"Parley-Turn":     header("The id of the turn."),
		"Parley-Scripted": header("true if a script answers, and no language model; else absent."),
	}
	m.Describe(&huma.Operation{
		OperationID: "chat", Method: http.MethodPost, Path: Path, Summary: "Ask the app's agents, and follow the answer",
		Description: "The session is made when its id is first used. A second message is refused while a turn runs or waits for a person, who answers elsewhere. " +
			"The last frame is either done or error. With cursor=1 frames have the number of their event as id, from which /v1/sessions/{id}/events continues.",
		Parameters: []*huma.Param{
			app.Flag("cursor", "1 gives frames an id."),
			app.Flag("ping", "1 sends a comment while the stream is silent."),
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
			Type: huma.TypeObject, Required: []string{"session_id", "message"}, AdditionalProperties: false,
			Properties: map[string]*huma.Schema{
				"session_id": name,
				"message":    text("The question."),
			},
		}}}},
		Responses: map[string]*huma.Response{"200": frames},
	}, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge)
}
