package notes

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/tool/linkedin"
)

// describe adds the wire to /openapi.json.
func describe(m app.Mux) {
	text := func(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: doc} }
	object := func(properties map[string]*huma.Schema, required ...string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Required: required, Properties: properties, AdditionalProperties: false}
	}
	is := func(value string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Enum: []any{value}} }
	yes := &huma.Schema{Type: huma.TypeBoolean}
	said := &huma.Schema{Type: huma.TypeArray, Items: object(map[string]*huma.Schema{
		"role":    {Type: huma.TypeString, Enum: []any{"user", "assistant"}},
		"content": text("In Markdown."),
	}, "role", "content")}
	id := text("The session, as this API knows it.")
	person := &huma.Param{Name: PersonHeader, In: "header", Required: true, Description: "The person whose notes it is about: a folder of the vault that the caller may use.", Schema: text("")}
	body := func(schema *huma.Schema) *huma.RequestBody {
		b := &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
		for _, kind := range []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data"} {
			b.Content[kind] = &huma.MediaType{Schema: schema}
		}
		return b
	}
	one := 1
	asks := body(object(map[string]*huma.Schema{
		"message":    {Type: huma.TypeString, MinLength: &one, Description: "The message."},
		"session_id": {Type: huma.TypeString, Nullable: true, Description: "The session to continue. An unknown one, or that of another person, begins a new one."},
	}, "message"))
	header := func(doc string) *huma.Param {
		return &huma.Param{Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	headers := map[string]*huma.Param{
		"Parley-Session":  header("The id of the session at /v1."),
		"Parley-Turn":     header("The id of the turn."),
		"Parley-Scripted": header("true if a script answers, and no language model; else absent."),
	}
	jsonOf := func(doc string, schema *huma.Schema, headers map[string]*huma.Param) map[string]*huma.Response {
		return map[string]*huma.Response{"200": {Description: doc, Headers: headers, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}}
	}
	reply := object(map[string]*huma.Schema{"success": yes, "session_id": id, "response": text("The answer, in Markdown."), "history": said}, "success", "session_id", "response", "history")
	unanswered := []int{http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusBadGateway}
	m.Describe(&huma.Operation{
		OperationID: "claude-chat", Method: http.MethodPost, Path: ChatPath, Summary: "Ask about a person's notes, and wait for the answer",
		Description: "A message to a session that is busy waits for its turn; when too many wait it is refused. What the turn asks a person is denied after a minute; it can be answered at /v1/interactions.",
		Parameters:  []*huma.Param{person}, RequestBody: asks, Responses: jsonOf("The answer", reply, headers),
	}, unanswered...)
	m.Describe(&huma.Operation{
		OperationID: "claude-chat-stream", Method: http.MethodPost, Path: StreamPath, Summary: "Ask about a person's notes, and follow the answer",
		Description: "One JSON object a line. The last one is either done or error.",
		Parameters:  []*huma.Param{person, app.Flag("ping", `1 sends {"type":"ping"} while the stream is silent.`)}, RequestBody: asks,
		Responses: map[string]*huma.Response{"200": {Description: "The lines of the turn", Headers: headers, Content: map[string]*huma.MediaType{"application/x-ndjson": {Schema: &huma.Schema{AnyOf: []*huma.Schema{
			object(map[string]*huma.Schema{"type": is("text"), "delta": text("New text.")}, "type", "delta"),
			object(map[string]*huma.Schema{"type": is("status"), "message": text("What happens, in words.")}, "type", "message"),
			object(map[string]*huma.Schema{"type": is("tool"), "name": text("The tool."), "input": {Description: "As the model gave it."}}, "type", "name", "input"),
			object(map[string]*huma.Schema{"type": is("done"), "session_id": id}, "type", "session_id"),
			object(map[string]*huma.Schema{"type": is("error"), "message": text("Why there is no answer.")}, "type", "message"),
			object(map[string]*huma.Schema{"type": is("ping")}, "type"),
		}}}}}},
	}, unanswered...)
	m.Describe(&huma.Operation{
		OperationID: "claude-clear", Method: http.MethodPost, Path: ClearPath, Summary: "End a session",
		Description: "Its history is empty at once, and a turn that runs is stopped.",
		Parameters:  []*huma.Param{person}, RequestBody: body(object(map[string]*huma.Schema{"session_id": id}, "session_id")),
		Responses: jsonOf("Whether there was such a session", object(map[string]*huma.Schema{"success": yes, "message": text("In words.")}, "success", "message"), nil),
	}, http.StatusNotFound, http.StatusRequestEntityTooLarge)
	m.Describe(&huma.Operation{
		OperationID: "claude-history", Method: http.MethodGet, Path: HistoryPath, Summary: "What was said in a session",
		Description: "Of a long one, the newest MiB.",
		Parameters:  []*huma.Param{person, {Name: "session_id", In: "query", Required: true, Description: "The session.", Schema: id}},
		Responses:   jsonOf("What the user and the assistant said, or nothing", object(map[string]*huma.Schema{"success": yes, "history": said}, "success", "history"), nil),
	}, http.StatusNotFound)
	describeLinkedIn(m, person, object, text)
}

// describeLinkedIn adds the logins at LinkedIn.
func describeLinkedIn(m app.Mux, person *huma.Param, object func(map[string]*huma.Schema, ...string) *huma.Schema, text func(string) *huma.Schema) {
	yes := &huma.Schema{Type: huma.TypeBoolean}
	moment := func(doc string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Format: "date-time", Description: doc}
	}
	jsonOf := func(doc string, schema *huma.Schema) map[string]*huma.Response {
		return map[string]*huma.Response{"200": {Description: doc, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}}
	}
	state := object(map[string]*huma.Schema{"success": yes, "logged_in": yes, "since": moment("When the person logged in."), "expires": moment("When the login ends, if that is known.")}, "success", "logged_in")
	unanswered := []int{http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable}
	m.Describe(&huma.Operation{
		OperationID: "linkedin-account", Method: http.MethodGet, Path: AccountPath, Summary: "Whether a person is logged in at LinkedIn",
		Parameters: []*huma.Param{person}, Responses: jsonOf("Whether there is a login", state),
	}, unanswered...)
	m.Describe(&huma.Operation{
		OperationID: "linkedin-login", Method: http.MethodPost, Path: AccountPath, Summary: "Begin a login of a person at LinkedIn",
		Description: "The link is for the browser of the caller, who alone can finish the login, within an hour. It stays the same for a while.",
		Parameters:  []*huma.Param{person}, Responses: jsonOf("The link to open", object(map[string]*huma.Schema{"success": yes, "url": text("Where the person logs in and allows the access.")}, "success", "url")),
	}, unanswered...)
	m.Describe(&huma.Operation{
		OperationID: "linkedin-logout", Method: http.MethodDelete, Path: AccountPath, Summary: "Forget the login of a person at LinkedIn",
		Description: "LinkedIn cannot be asked to revoke it; the person does that in LinkedIn's settings.",
		Parameters:  []*huma.Param{person}, Responses: jsonOf("There is no login now", state),
	}, unanswered...)
	in := func(name, doc string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: doc, Schema: text("")}
	}
	m.Describe(&huma.Operation{
		OperationID: "linkedin-callback", Method: http.MethodGet, Path: linkedin.CallbackPath, Summary: "Where LinkedIn sends a browser after a login",
		Description: "What waits for the login goes on. A browser without a key, where one is needed, is sent on to the page login.html, which asks here with the key of its user.",
		Parameters:  []*huma.Param{in("state", "Of the login; it counts once."), in("code", "What LinkedIn gives out."), in("error", "Why there is no code."), in("error_description", "The same in words.")},
		Responses:   jsonOf("The person is logged in", object(map[string]*huma.Schema{"success": yes, "expires_in": {Type: huma.TypeInteger, Description: "For how many seconds; 0 if that is not known."}}, "success", "expires_in")),
	}, http.StatusForbidden, http.StatusNotFound, http.StatusServiceUnavailable)
}
