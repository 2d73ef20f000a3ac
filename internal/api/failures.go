package api

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// refusals are the statuses that a request may be refused with, by their names in
// the document. Which of them an operation declares is decided by [Server.declareFailures].
var refusals = map[int]struct{ name, what string }{
	http.StatusBadRequest:                   {"BadRequest", "The request is invalid; field says where."},
	http.StatusUnauthorized:                 {"Unauthorized", "The key is missing or wrong."},
	http.StatusForbidden:                    {"Forbidden", "This page, this host name of the server, or the policy does not allow it."},
	http.StatusNotFound:                     {"NotFound", "It does not exist, or belongs to somebody else."},
	http.StatusConflict:                     {"Conflict", "The state does not allow it: busy, ended, already answered, or written by a newer server."},
	http.StatusGone:                         {"Gone", "It was removed by retention; or the session that the Idempotency-Key made was deleted."},
	http.StatusRequestEntityTooLarge:        {"TooLarge", "The request is too large."},
	http.StatusUnsupportedMediaType:         {"UnsupportedMediaType", "This request does not accept the body's Content-Type or Content-Encoding."},
	http.StatusUnprocessableEntity:          {"KeyReused", "The Idempotency-Key was used with another body."},
	http.StatusRequestedRangeNotSatisfiable: {"NoSuchRange", "The file has no such range of bytes."},
	http.StatusUpgradeRequired:              {"UpgradeRequired", "This path is for WebSockets."},
	http.StatusTooManyRequests:              {"TooManyRequests", "A rate, a number of streams or a quota is used up; Retry-After says how long to wait."},
	http.StatusInternalServerError:          {"InternalError", "Something went wrong in the server, whose log has the cause."},
	http.StatusBadGateway:                   {"ServerFailed", "An MCP server that had to be asked failed; the message says which one."},
	http.StatusServiceUnavailable:           {"Unavailable", "The server cannot do it now; Retry-After says how long to wait."},
	http.StatusGatewayTimeout:               {"Timeout", "It took too long."},
}

// failures puts the refusals into the document, each once. default stands for
// what only something between client and server would answer.
func (s *Server) failures() {
	all := s.huma.OpenAPI().Components.Responses
	problem := map[string]*huma.MediaType{"application/json": {Schema: s.schema(Problem{})}}
	for status, r := range refusals {
		all[r.name] = &huma.Response{Description: r.what, Content: problem}
		switch status {
		case http.StatusUnauthorized:
			all[r.name].Headers = headers("WWW-Authenticate")
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			all[r.name].Headers = headers("Retry-After")
		}
	}
	all["Error"] = &huma.Response{Description: "Any other error", Content: problem}
}

// declareFailures adds to op every refusal that it may be answered with.
func (s *Server) declareFailures(op *huma.Operation, in reflect.Type) {
	may := []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		http.StatusUnsupportedMediaType,  // [Guard] looks at the Content-Encoding of whatever has one
		http.StatusRequestEntityTooLarge, // a body that the operation does not read has a length, too
	}
	if has(in, "Sessions") || has(in, "App") { // of the query
		may = append(may, http.StatusNotFound)
	}
	if strings.Contains(op.Path, "{") {
		may = append(may, http.StatusNotFound, http.StatusGone)
	}
	if op.Method != http.MethodGet {
		may = append(may, http.StatusConflict)
	}
	if has(in, "Body") || has(in, "RawBody") {
		may = append(may, http.StatusNotFound) // what the body names may not be there
	}
	if body, ok := in.FieldByName("Body"); ok && has(body.Type, "Resources") {
		may = append(may, http.StatusBadGateway)
	}
	if has(in, "Key") {
		may = append(may, http.StatusUnprocessableEntity, http.StatusGone)
	}
	declare(op, may)
}

// declareHealth is declareFailures for those who have no identity.
func (s *Server) declareHealth(op *huma.Operation) {
	op.Security = []map[string][]string{}
	declare(op, []int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusUnsupportedMediaType,
		http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	})
}

// declare adds refusals to those that op has by itself.
func declare(op *huma.Operation, statuses []int) {
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	for _, status := range statuses {
		if op.Responses[strconv.Itoa(status)] != nil {
			continue
		}
		op.Responses[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + refusals[status].name}
	}
	op.Responses["default"] = &huma.Response{Ref: "#/components/responses/Error"}
}

func has(in reflect.Type, field string) bool {
	if in.Kind() != reflect.Struct {
		return false
	}
	_, ok := in.FieldByName(field)
	return ok
}

// headers describes headers of an answer, whose names say what they are.
func headers(names ...string) map[string]*huma.Param {
	what := map[string]string{
		"Location":         "The path of what was made.",
		"Parley-Session":   "The id of the session.",
		"Parley-Turn":      "The id of the turn.",
		"Retry-After":      "Seconds to wait before the next try.",
		"WWW-Authenticate": "How to show a key.",
	}
	out := map[string]*huma.Param{}
	for _, name := range names {
		out[name] = &huma.Param{Description: what[name], Schema: &huma.Schema{Type: huma.TypeString}}
	}
	return out
}
