//go:build unix

package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

const (
	maxFields  = 20 // of a form
	maxOptions = 50 // of a field
	maxLabel   = 200
)

// form is a server's form, as questions to a person.
type form struct {
	message string
	fields  []field
}

type field struct {
	property
	name     string
	label    string // the question
	required bool
	secret   bool
	labels   []string // of the options
	values   []string // that the options stand for
}

// property is the part of a field's schema that the protocol permits.
type property struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Format      string          `json:"format"`
	WriteOnly   bool            `json:"writeOnly"`
	MinLength   *int            `json:"minLength"`
	MaxLength   *int            `json:"maxLength"`
	Minimum     *float64        `json:"minimum"`
	Maximum     *float64        `json:"maximum"`
	MinItems    *int            `json:"minItems"`
	MaxItems    *int            `json:"maxItems"`
	Enum        []string        `json:"enum"`
	EnumNames   []string        `json:"enumNames"`
	OneOf       []titled        `json:"oneOf"`
	Default     json.RawMessage `json:"default"`
	Items       *struct {
		Enum  []string `json:"enum"`
		AnyOf []titled `json:"anyOf"`
	} `json:"items"`
}

type titled struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// leaveOut is the option of a field that need not be filled in.
const leaveOut = "Leave it out"

// form reads a form. Its errors are for the server.
func (o Options) form(p *sdk.ElicitParams) (*form, error) {
	raw, err := json.Marshal(p.RequestedSchema)
	if err != nil || len(raw) > maxSchema {
		return nil, errors.New("the form is too large")
	}
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, errors.New("the form's schema is not one of an object")
	}
	if len(s.Properties) > maxFields {
		return nil, fmt.Errorf("a form may have %d fields", maxFields)
	}
	f := &form{message: p.Message}
	taken := map[string]bool{}
	for _, name := range sorted(s.Properties) {
		d := field{name: name, required: slices.Contains(s.Required, name)}
		if err := json.Unmarshal(s.Properties[name], &d.property); err != nil || !slices.Contains([]string{"string", "number", "integer", "boolean", "array"}, d.Type) {
			return nil, fmt.Errorf("the field %q is not a text, number, boolean or choice", parley.Cut(name, 60))
		}
		d.secret = d.Type == "string" && (d.Format == "password" || d.WriteOnly)
		d.label = oneLine(o.clean(d.Title, maxLabel))
		if d.label == "" {
			d.label = oneLine(o.clean(name, maxLabel))
		}
		if about := oneLine(o.clean(d.Description, maxShown)); about != "" {
			d.label += ": " + about
		}
		if d.label = parley.Cut(d.label, 2*maxLabel); taken[d.label] || d.label == "" {
			d.label = fmt.Sprintf("%s (%d)", d.label, len(f.fields)+1)
		}
		taken[d.label] = true
		if err := d.options(o); err != nil {
			return nil, err
		}
		f.fields = append(f.fields, d)
	}
	return f, nil
}

// options sets the field's choices.
func (d *field) options(o Options) error {
	add := func(label, value string) {
		label = oneLine(o.clean(label, maxLabel))
		if label == "" || slices.Contains(d.labels, label) || label == leaveOut {
			label = fmt.Sprintf("%s (%d)", label, len(d.labels)+1)
		}
		d.labels, d.values = append(d.labels, label), append(d.values, value)
	}
	enum, of := d.Enum, d.OneOf
	if d.Type == "array" {
		if d.Items == nil {
			return fmt.Errorf("the field %q is a list without items", parley.Cut(d.name, 60))
		}
		enum, of = d.Items.Enum, d.Items.AnyOf
	}
	for i, v := range enum {
		label := v
		if i < len(d.EnumNames) {
			label = d.EnumNames[i]
		}
		add(label, v)
	}
	for _, t := range of {
		label := t.Title
		if label == "" {
			label = t.Const
		}
		add(label, t.Const)
	}
	if d.Type == "boolean" {
		add("Yes", "true")
		add("No", "false")
	}
	if len(d.labels) > maxOptions {
		return fmt.Errorf("the field %q has more than %d choices", parley.Cut(d.name, 60), maxOptions)
	}
	if d.Type == "array" && len(d.labels) == 0 {
		return fmt.Errorf("the field %q has no choices", parley.Cut(d.name, 60))
	}
	return nil
}

// questions are the questions for the fields that are not secret.
func (f *form) questions() (list []parley.Question) {
	for _, d := range f.fields {
		if d.secret {
			continue
		}
		q := parley.Question{Question: d.label, Header: parley.Cut(d.label, 20), MultiSelect: d.Type == "array"}
		if head, _, ok := strings.Cut(d.label, ": "); ok {
			q.Header = parley.Cut(head, 20)
		}
		usual := d.usual()
		for i, label := range d.labels {
			about := ""
			if slices.Contains(usual, d.values[i]) {
				about = "the default"
			}
			q.Options = append(q.Options, parley.Option{Label: label, Description: about})
		}
		if len(d.labels) == 0 && len(usual) == 1 && usual[0] != "" && len(usual[0]) <= maxLabel {
			q.Options = append(q.Options, parley.Option{Label: usual[0], Description: "the default"})
		}
		if !d.required {
			q.Options = append(q.Options, parley.Option{Label: leaveOut})
		}
		list = append(list, q)
	}
	return list
}

// usual returns the field's defaults as texts.
func (d *field) usual() []string {
	var v any
	if len(d.Default) == 0 || json.Unmarshal(d.Default, &v) != nil {
		return nil
	}
	var list []string
	if many, ok := v.([]any); ok {
		for _, one := range many {
			list = append(list, fmt.Sprint(one))
		}
		return list
	}
	return []string{fmt.Sprint(v)}
}

// value returns the value that an answer stands for; ok is false if the field is left out.
func (d *field) value(said string) (v any, ok bool) {
	said = strings.TrimSpace(said)
	meant := func(one string) string {
		if i := slices.Index(d.labels, one); i >= 0 {
			return d.values[i]
		}
		return one
	}
	switch {
	case said == "" || said == leaveOut && !d.required:
		return nil, false
	case d.Type == "array":
		return d.chosen(said), true
	case d.Type == "boolean":
		if b, err := strconv.ParseBool(strings.ToLower(meant(said))); err == nil {
			return b, true
		}
	case d.Type == "integer":
		if n, err := strconv.ParseInt(said, 10, 64); err == nil {
			return n, true
		}
	case d.Type == "number":
		if n, err := strconv.ParseFloat(said, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
			return n, true
		}
	}
	return meant(said), true
}

// chosen returns the values of labels that are joined by commas. A label may contain a comma.
func (d *field) chosen(said string) []any {
	list := []any{}
	for said != "" {
		at, found := -1, ""
		for i, label := range d.labels {
			if rest, ok := strings.CutPrefix(said, label); ok && (rest == "" || strings.HasPrefix(rest, ",")) && len(label) > len(found) {
				at, found = i, label
			}
		}
		if at >= 0 {
			list = append(list, d.values[at])
			said = strings.TrimLeft(strings.TrimPrefix(said, found), ", ")
			continue
		}
		one, rest, _ := strings.Cut(said, ",")
		if one = strings.TrimSpace(one); one != "" && one != leaveOut {
			list = append(list, one)
		}
		said = strings.TrimSpace(rest)
	}
	return list
}

// check says what is wrong with an answer, in words for the person; "" if it is right.
func (f *form) check(content map[string]any) string {
	for _, d := range f.fields {
		v, there := content[d.name]
		if !there {
			continue // every question has an answer, so the person left this field out
		}
		if why := d.wrong(v); why != "" {
			if d.secret {
				return fmt.Sprintf("%q %s.", d.label, why)
			}
			return fmt.Sprintf("the answer %q to %q %s.", parley.Cut(fmt.Sprint(v), 100), d.label, why)
		}
	}
	return ""
}

func (d *field) wrong(v any) string {
	switch d.Type {
	case "boolean":
		if _, ok := v.(bool); !ok {
			return "is not yes or no"
		}
	case "integer", "number":
		var n float64
		switch x := v.(type) {
		case int64:
			n = float64(x)
		case float64:
			n = x
		default:
			if d.Type == "integer" {
				return "is not a whole number"
			}
			return "is not a number"
		}
		if d.Minimum != nil && n < *d.Minimum {
			return fmt.Sprintf("is less than %g", *d.Minimum)
		}
		if d.Maximum != nil && n > *d.Maximum {
			return fmt.Sprintf("is more than %g", *d.Maximum)
		}
	case "array":
		list, _ := v.([]any)
		for _, one := range list {
			if !slices.Contains(d.values, fmt.Sprint(one)) {
				return "is not among the choices"
			}
		}
		if d.MinItems != nil && len(list) < *d.MinItems {
			return fmt.Sprintf("has fewer than %d choices", *d.MinItems)
		}
		if d.MaxItems != nil && len(list) > *d.MaxItems {
			return fmt.Sprintf("has more than %d choices", *d.MaxItems)
		}
	default:
		return d.wrongText(fmt.Sprint(v))
	}
	return ""
}

func (d *field) wrongText(s string) string {
	n := utf8.RuneCountInString(s)
	switch {
	case len(d.values) > 0 && !slices.Contains(d.values, s):
		return "is not among the choices"
	case d.MinLength != nil && n < *d.MinLength:
		return fmt.Sprintf("has fewer than %d characters", *d.MinLength)
	case d.MaxLength != nil && n > *d.MaxLength:
		return fmt.Sprintf("has more than %d characters", *d.MaxLength)
	}
	switch d.Format {
	case "email":
		if a, err := mail.ParseAddress(s); err != nil || a.Address != s {
			return "is not an email address"
		}
	case "uri":
		if u, err := url.Parse(s); err != nil || u.Scheme == "" {
			return "is not a full address such as https://example.com"
		}
	case "date":
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			return "is not a date like 2026-11-22"
		}
	case "date-time":
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			return "is not a time like 2026-11-22T15:00:00Z"
		}
	}
	return ""
}
