package notes

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/strict"
)

// mediaError refuses a body because of its Content-Type.
type mediaError struct{ err error }

func (e mediaError) Error() string { return e.err.Error() }
func (e mediaError) Unwrap() error { return e.err }

// HTTPStatus returns the status for a door that writes the error as an answer.
func (mediaError) HTTPStatus() int { return http.StatusUnsupportedMediaType }

// read reads the texts of a body, which is a form or a JSON object, with no other fields than
// these. A field that is missing or null is "".
func (h *Handlers) read(w http.ResponseWriter, r *http.Request, fields ...string) (map[string]string, error) {
	raw, err := h.o.ReadBody(w, r)
	if err != nil {
		return nil, err
	}
	form := "send " + strings.Join(fields, " and ") + " as a form, or as a JSON object"
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	var in map[string]string
	switch kind {
	case "application/json":
		in, err = ofJSON(raw)
	case "application/x-www-form-urlencoded":
		in, err = ofForm(raw)
	case "multipart/form-data":
		in, err = ofParts(raw, params["boundary"], fields)
	default:
		return nil, mediaError{parley.Errorf(parley.CodeInvalid, "the body's Content-Type is not one that this request takes").
			WithHint("send application/json, application/x-www-form-urlencoded or multipart/form-data")}
	}
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return nil, e.WithHint("%s", form)
	}
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "the body cannot be read: %w", err).WithHint("%s", form)
	}
	for name, text := range in {
		if !slices.Contains(fields, name) {
			return nil, parley.Errorf(parley.CodeInvalid, "the field %q is not known here", parley.Cut(name, 60)).WithField(parley.Cut(name, 60)).WithHint("%s", form)
		}
		if !utf8.ValidString(text) {
			return nil, parley.Errorf(parley.CodeInvalid, "the field %q is not text in UTF-8", name).WithField(name).WithHint("%s", form)
		}
	}
	return in, nil
}

// ofJSON returns the texts of a JSON object.
func ofJSON(raw []byte) (map[string]string, error) {
	if wrong := strict.JSON(raw); wrong != nil {
		return nil, wrong
	}
	var in map[string]*json.RawMessage
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&in); err != nil {
		if _, other := errors.AsType[*json.UnmarshalTypeError](err); other {
			return nil, errors.New("it is not an object")
		}
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the object")
	}
	if in == nil {
		return nil, errors.New("it is not an object")
	}
	out := map[string]string{}
	for name, value := range in {
		if value == nil {
			continue // null
		}
		var text string
		if err := json.Unmarshal(*value, &text); err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "the field %q must be text", parley.Cut(name, 60)).WithField(parley.Cut(name, 60))
		}
		out[name] = text
	}
	return out, nil
}

func ofForm(raw []byte) (map[string]string, error) {
	values, err := url.ParseQuery(string(raw))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, list := range values {
		if len(list) > 1 {
			return nil, parley.Errorf(parley.CodeInvalid, "the field %q is given twice", parley.Cut(name, 60)).WithField(parley.Cut(name, 60))
		}
		out[name] = list[0]
	}
	return out, nil
}

// ofParts returns the texts of a form in parts. The body is in memory already, within its limit.
func ofParts(raw []byte, boundary string, fields []string) (map[string]string, error) {
	if boundary == "" {
		return nil, errors.New("its Content-Type has no boundary")
	}
	parts, out := multipart.NewReader(bytes.NewReader(raw), boundary), map[string]string{}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		name := part.FormName()
		if _, twice := out[name]; twice {
			return nil, parley.Errorf(parley.CodeInvalid, "the field %q is given twice", parley.Cut(name, 60)).WithField(parley.Cut(name, 60))
		}
		if part.FileName() != "" && slices.Contains(fields, name) {
			return nil, parley.Errorf(parley.CodeInvalid, "the field %q is a file; it must be text", name).WithField(name)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		out[name] = string(text)
	}
}
