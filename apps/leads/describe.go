package leads

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley/internal/app"
)

func describe(m app.Mux) {
	m.Describe(&huma.Operation{
		OperationID: "codex", Method: http.MethodGet, Path: Path, Summary: "Chat over a WebSocket",
		Description: "The client says {\"type\": \"chat\", \"message\", \"token\", \"orgId\"?, \"apiBaseUrl\"?, \"sessionId\"?} and {\"type\": \"reset\", \"sessionId\"}. " +
			"Each chat is authenticated by its own token, and answered by session.id {sessionId}, turn.started, agent.action {action, command or tool, status}, " +
			"agent.text {text, status} with the whole text so far, and turn.completed {text, usage} or error {message}. " +
			"A write waits for the user: the text is then {\"type\": \"confirm\", \"id\", \"title\", \"summary\", \"method\", \"path\", \"body\"}, and the chat \"CONFIRM_ACTION: ID\" sends exactly that, once. " +
			"Any other chat declines it. A connection without a valid chat is closed after 30 seconds.",
		Responses: map[string]*huma.Response{"101": {Description: "The connection is a WebSocket now."}},
	}, http.StatusNotFound, http.StatusServiceUnavailable, http.StatusUpgradeRequired)

	text := func(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: doc} }
	at := func(doc string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Format: "date-time", Description: doc}
	}
	messages := &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{}, Description: "The client's own, kept byte for byte."}
	object := func(required []string, more map[string]*huma.Schema) *huma.Schema {
		props := map[string]*huma.Schema{"id": text("A UUID."), "title": text(""), "created_at": at(""), "updated_at": at("")}
		for k, v := range more {
			props[k] = v
		}
		return &huma.Schema{Type: huma.TypeObject, Required: required, Properties: props}
	}
	short := object([]string{"id", "title", "created_at", "updated_at"}, nil)
	whole := object([]string{"id", "title", "messages", "created_at", "updated_at"}, map[string]*huma.Schema{"messages": messages})
	is := func(what string, s *huma.Schema) *huma.Response {
		return &huma.Response{Description: what, Content: map[string]*huma.MediaType{"application/json": {Schema: s}}}
	}
	// Which organisation it is about is said by a header that the login reads.
	org := &huma.Param{Name: "X-Org-Id", In: "header", Description: "One of the organisations of the token. Default: the one that the token is for.", Schema: text("")}
	id := &huma.Param{Name: "id", In: "path", Required: true, Schema: text("A UUID.")}
	body := &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
		Type: huma.TypeObject, Properties: map[string]*huma.Schema{"title": text("Default: New conversation."), "messages": messages},
	}}}}
	query := func(name, doc string, s *huma.Schema) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: doc, Schema: s}
	}
	one, most := 1.0, 500.0
	list := is("A page, the newest change first", &huma.Schema{Type: huma.TypeArray, Items: short})
	list.Headers = map[string]*huma.Param{nextHeader: {Description: "The cursor of the next page; absent: this is the last.", Schema: text("")}}
	const path = ConversationsPath + "/{id}"
	m.Describe(&huma.Operation{
		OperationID: "list-conversations", Method: http.MethodGet, Path: ConversationsPath, Summary: "List the conversations that a client has kept",
		Description: "Those of the caller in this organisation, without their messages.", Parameters: []*huma.Param{
			org, query("q", "Words in the title or the messages.", text("")), query("cursor", "From "+nextHeader+" of the previous page.", text("")),
			query("limit", "Default 50.", &huma.Schema{Type: huma.TypeInteger, Minimum: &one, Maximum: &most}),
		}, Responses: map[string]*huma.Response{"200": list},
	}, http.StatusNotFound)
	m.Describe(&huma.Operation{
		OperationID: "create-conversation", Method: http.MethodPost, Path: ConversationsPath, Summary: "Keep a conversation",
		Description: "It is a client's own copy for showing. The session of the agent is kept apart from it.", Parameters: []*huma.Param{org}, RequestBody: body,
		Responses: map[string]*huma.Response{"201": is("The conversation", whole)},
	}, http.StatusNotFound, http.StatusRequestEntityTooLarge)
	m.Describe(&huma.Operation{
		OperationID: "get-conversation", Method: http.MethodGet, Path: path, Summary: "Get a conversation",
		Description: "The messages are as the client has sent them.", Parameters: []*huma.Param{org, id},
		Responses: map[string]*huma.Response{"200": is("The conversation", whole)},
	}, http.StatusNotFound)
	m.Describe(&huma.Operation{
		OperationID: "update-conversation", Method: http.MethodPut, Path: path, Summary: "Change a conversation",
		Description: "What is left out stays as it is.", Parameters: []*huma.Param{org, id}, RequestBody: body,
		Responses: map[string]*huma.Response{"200": is("The conversation", whole)},
	}, http.StatusNotFound, http.StatusRequestEntityTooLarge)
	m.Describe(&huma.Operation{
		OperationID: "delete-conversation", Method: http.MethodDelete, Path: path, Summary: "Delete a conversation",
		Description: "The session of the agent stays.", Parameters: []*huma.Param{org, id},
		Responses: map[string]*huma.Response{"204": {Description: "It is gone"}},
	}, http.StatusNotFound)
}
