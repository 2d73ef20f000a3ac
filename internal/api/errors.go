package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/nearest"
	"github.com/parley-server/parley/internal/strict"
)

// Status is the one mapping of error codes to HTTP.
func Status(c parley.Code) int {
	switch c {
	case parley.CodeInvalid:
		return http.StatusBadRequest
	case parley.CodeNotFound:
		return http.StatusNotFound
	case parley.CodeUnauthenticated:
		return http.StatusUnauthorized
	case parley.CodeForbidden:
		return http.StatusForbidden
	case parley.CodeBusy, parley.CodeConflict, parley.CodeUpgradeRequired:
		// not 426: that status asks for another version of HTTP.
		return http.StatusConflict
	case parley.CodeKeyReused:
		return http.StatusUnprocessableEntity
	case parley.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case parley.CodeRateLimited, parley.CodeQuota:
		return http.StatusTooManyRequests
	case parley.CodeUnavailable, parley.CodeFenced, parley.CodeCancelled:
		// cancelled: the server gave up the request; the client may retry.
		return http.StatusServiceUnavailable
	case parley.CodeCondensed, parley.CodeDeleted:
		return http.StatusGone
	case parley.CodeTimeout:
		return http.StatusGatewayTimeout
	case parley.CodeModel, parley.CodeTool:
		return http.StatusBadGateway
	}
	return http.StatusInternalServerError
}

// Problem is the one error shape, as a body.
type Problem struct {
	Error parley.ErrorInfo `json:"error"`
	// Detail is the message once more, on wires whose clients look for it there.
	Detail string `json:"detail,omitempty"`
}

// statusError carries a Problem through huma. Error is for huma; MarshalJSON gives the
// body.
type statusError struct {
	status int
	info   parley.ErrorInfo
	detail string
}

func (e *statusError) Error() string  { return e.info.Message }
func (e *statusError) GetStatus() int { return e.status }

func (e *statusError) MarshalJSON() ([]byte, error) { return json.Marshal(Problem{e.info, e.detail}) }

// Schema gives the OpenAPI document the schema of the body.
func (e *statusError) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, problemType)
}

var problemType = reflect.TypeFor[Problem]()

func (e *statusError) GetHeaders() http.Header {
	h := http.Header{}
	if s := retryAfter(e.status, e.info); s != "" {
		h.Set("Retry-After", s)
	}
	return h
}

// retryAfter is the value of the Retry-After header: the error's own advice, and at least
// a second for temporary errors.
func retryAfter(status int, info parley.ErrorInfo) string {
	s := int64(math.Ceil(float64(info.RetryAfterMS) / 1000))
	if s == 0 && (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) {
		s = 1
	}
	if s == 0 {
		return ""
	}
	return strconv.FormatInt(s, 10)
}

// problem turns any error into the form that a client may see.
func problem(err error) *statusError {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e
	}
	if _, ok := errors.AsType[*parley.Error](err); !ok {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			err = parley.Errorf(parley.CodeTimeout, "the server did not answer in time")
		case errors.Is(err, context.Canceled):
			err = parley.Errorf(parley.CodeUnavailable, "the request was cancelled")
		}
	}
	info := parley.Info(err)
	e := &statusError{status: Status(info.Code), info: info}
	if own, ok := errors.AsType[withStatus](err); ok {
		e.status = own.HTTPStatus()
	}
	if _, ok := errors.AsType[withDetail](err); ok {
		e.detail = info.Message
	}
	return e.hinted()
}

// hinted gives a refusal that says nothing of what to do the general advice.
func (e *statusError) hinted() *statusError {
	if e.info.Hint == "" && e.status < http.StatusInternalServerError {
		e.info.Hint = advice[e.info.Code]
	}
	return e
}

var advice = map[parley.Code]string{
	parley.CodeInvalid:     "what each request takes is described at /docs",
	parley.CodeNotFound:    "check the id; what is listed is what you may see, and what was deleted is gone",
	parley.CodeForbidden:   "whoever runs this server can allow it",
	parley.CodeConflict:    "read the session again, and decide by what it is now",
	parley.CodeBusy:        "wait until the turn has ended, or cancel it",
	parley.CodeKeyReused:   "use a new key for another request",
	parley.CodeTooLarge:    "send less at once",
	parley.CodeRateLimited: "wait a little, and ask again",
	parley.CodeQuota:       "delete what you need no more, or ask whoever runs this server",
	parley.CodeCondensed:   "the ends of turns can still be used",
}

// withStatus is an error whose door knows a more exact status than that of its code, for
// example for a body that is not JSON.
type withStatus interface {
	error
	HTTPStatus() int
}

// withDetail is an error of a wire whose clients look for its message under detail.
type withDetail interface {
	error
	HasDetail()
}

// WriteError answers a request with err in the one shape. Nothing may have been written
// before.
func WriteError(w http.ResponseWriter, err error) {
	e := problem(err)
	writeStatus(w, e.status, e)
}

func writeStatus(w http.ResponseWriter, status int, e *statusError) {
	if wantsDetail(w) {
		e.detail = e.info.Message
	}
	h := w.Header()
	for k, v := range e.GetHeaders() {
		h[k] = v
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(encode(e))
}

func encode(e *statusError) []byte {
	body, _ := json.Marshal(Problem{e.info, e.detail}) // plain data: cannot fail
	return append(body, '\n')
}

// Unread is the answer, as content type and body, to bytes that could not be read as a
// request. said describes the problem and may be empty.
func Unread(status int, said string) (contentType string, body []byte) {
	e := parley.Errorf(parley.CodeInvalid, "this is not an HTTP request")
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		e = parley.Errorf(parley.CodeTooLarge, "the request's line and headers are larger than this server takes").
			WithHint("send less in the URL, the headers and the cookies")
	case http.StatusNotImplemented:
		e = parley.Errorf(parley.CodeInvalid, "this server does not accept the Transfer-Encoding").WithHint("send chunked, or a Content-Length")
	case http.StatusExpectationFailed:
		e = parley.Errorf(parley.CodeInvalid, "this server does not support what the Expect header asks for").WithHint("leave it out, or send 100-continue")
	case http.StatusHTTPVersionNotSupported:
		e = parley.Errorf(parley.CodeInvalid, "this server does not support this version of HTTP").WithHint("speak HTTP/1.1")
	default:
		if said != "" {
			e = parley.Errorf(parley.CodeInvalid, "this is not an HTTP request: %s", said)
		}
	}
	return "application/json", encode(problem(e))
}

// strictJSON refuses what [strict.JSON] does.
var strictJSON = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(body []byte, v any) error {
		if _, first := v.(*any); first { // huma reads a body twice, at first to validate it
			if e := strict.JSON(body); e != nil {
				return e // see refusal
			}
		}
		return json.Unmarshal(body, v)
	},
}

// hookErrors makes huma speak our error shape, and compare names letter by letter. Its
// hooks are package variables, so they are set once for the process.
var hookErrors = sync.OnceFunc(func() {
	huma.ValidateStrictCasing = true
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return refusal(status, msg, errs, nil)
	}
	huma.NewErrorWithContext = func(hc huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return refusal(status, msg, errs, hc.Operation())
	}
})

// sizeText is a limit for people.
func sizeText(bytes int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if bytes >= u.size && bytes%u.size == 0 {
			return fmt.Sprintf("%d %s", bytes/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// refusal rewords the refusals that huma makes before a handler runs. op is the operation, or nil
// where the names of its fields do not matter.
func refusal(status int, msg string, errs []error, op *huma.Operation) *statusError {
	for _, err := range errs {
		if e, ok := errors.AsType[*parley.Error](err); ok {
			return problem(e)
		}
		// Of what the decoder says huma keeps the text only, and the body.
		if d, ok := errors.AsType[*huma.ErrorDetail](err); ok && d.Location == "body" {
			if body, ok := d.Value.(string); ok {
				if e := strict.JSON([]byte(body)); e != nil {
					return problem(e)
				}
			}
		}
	}
	code, hint := parley.CodeInvalid, ""
	out := status
	switch status {
	case http.StatusRequestEntityTooLarge:
		code, msg = parley.CodeTooLarge, "the body is too large for this request"
		hint = "send less at once"
		switch {
		case op != nil && op.Path == attachPath:
			msg, hint = "the file is larger than "+sizeText(parley.MaxAttachment), "attach a part of it, or a smaller file"
		case op != nil && op.MaxBodyBytes > 0:
			msg += ": at most " + sizeText(op.MaxBodyBytes) + " are allowed"
		}
	case http.StatusRequestTimeout:
		code, msg, hint = parley.CodeTimeout, "the body did not arrive in time", "send it again, without a pause"
	case http.StatusUnsupportedMediaType:
		msg, hint = "this request does not accept the body's Content-Type", "send application/json"
	case http.StatusNotAcceptable:
		msg, hint = "none of the accepted content types is available", "accept application/json"
	case http.StatusInternalServerError:
		if msg == "cannot read request body" {
			out, msg, hint = http.StatusBadRequest, "the body could not be read to its end", "send it again"
			errs = nil
			break
		}
		return problem(errors.Join(errs...))
	default:
		out = http.StatusBadRequest
		switch {
		case msg == "request body is required" && op.Path == attachPath:
			return &statusError{status: out, info: parley.ErrorInfo{Code: code, Message: "the file is empty", Field: "body", Hint: "attach a file that has something in it"}}
		case msg == "request body is required":
			msg, hint = "the request has no body", "send a JSON object; to "+importPath+", the zip file that a session's export is"
		}
	}
	info := parley.ErrorInfo{Code: code, Message: msg, Hint: hint}
	if len(errs) > 0 && out == http.StatusBadRequest {
		info.Field, info.Message = sentence(errs, op)
	}
	return (&statusError{status: out, info: info}).hinted()
}

// unexpected is what huma says of an unknown field.
const unexpected = "unexpected property"

// sentence describes the first field at fault, and how many more there are.
func sentence(errs []error, op *huma.Operation) (field, text string) {
	// A misspelt field is unknown, and missing under its own name: the first says more.
	if i := slices.IndexFunc(errs, func(err error) bool {
		d, ok := errors.AsType[*huma.ErrorDetail](err)
		return ok && d.Message == unexpected
	}); i > 0 {
		errs = slices.Concat(errs[i:i+1], errs[:i], errs[i+1:])
	}
	d, ok := errs[0].(huma.ErrorDetailer)
	if !ok {
		return "", "the request is not valid"
	}
	detail := d.ErrorDetail()
	where, field, _ := strings.Cut(detail.Location, ".")
	what, kind := detail.Message, "field"
	switch where {
	case "query":
		kind = "query parameter"
		field, _, _ = strings.Cut(field, "[") // of a list
	case "header":
		kind = "header"
	}
	switch {
	case detail.Location == "body" && !strings.HasPrefix(what, "expected"):
		text = "the body is not valid JSON: " + what
	case what == unexpected:
		text = "the field " + strconv.Quote(field) + " is not known here" + meant(op, where, field)
	case what == "unknown query parameter":
		text = "the query parameter " + strconv.Quote(field) + " is not known here" + meant(op, where, field)
	case strings.HasPrefix(what, "expected required property "):
		name := strings.TrimSuffix(strings.TrimPrefix(what, "expected required property "), " to be present")
		if field != "" {
			name = field + "." + name
		}
		field = name
		text = "the field " + strconv.Quote(name) + " is missing"
	case field != "":
		text = "the " + kind + " " + strconv.Quote(field) + " is not right: " + what
	default:
		text = "the body is not right: " + what
	}
	if n := len(errs) - 1; n == 1 {
		text += " (and one more field)"
	} else if n > 1 {
		text += " (and " + strconv.Itoa(n) + " more)"
	}
	return field, text
}

// meant suggests the field, or the query parameter, whose name is nearest to an unknown one.
func meant(op *huma.Operation, where, field string) string {
	if op == nil {
		return ""
	}
	at := strings.Split(field, ".")
	last := len(at) - 1
	var known []string
	switch body := op.RequestBody; {
	case where == "query":
		for _, p := range op.Parameters {
			if p.In == "query" {
				known = append(known, p.Name)
			}
		}
	case body != nil && body.Content["application/json"] != nil:
		registry, _ := op.Metadata[schemas].(huma.Registry)
		schema := resolved(registry, body.Content["application/json"].Schema)
		for _, key := range at[:last] {
			key, _, list := strings.Cut(key, "[")
			if schema = resolved(registry, schema.Properties[key]); list {
				schema = resolved(registry, schema.Items)
			}
		}
		known = slices.Collect(maps.Keys(schema.Properties))
	}
	slices.Sort(known) // for the same answer each time
	if near := nearest.Name(at[last], known); near != "" {
		return "; did you mean " + strings.Join(append(at[:last], near), ".") + "?"
	}
	return ""
}

// schemas is the key of an operation's metadata whose value is the registry of its schemas.
const schemas = "schemas"

// resolved is a schema, also if it is only referred to. Without one it is empty.
func resolved(r huma.Registry, s *huma.Schema) *huma.Schema {
	if s != nil && s.Ref != "" && r != nil {
		s = r.SchemaFromRef(s.Ref)
	}
	if s == nil {
		return &huma.Schema{}
	}
	return s
}

func invalid(field, format string, args ...any) *parley.Error {
	return parley.Errorf(parley.CodeInvalid, format, args...).WithField(field)
}
