package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	mimemultipart "mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
)

// request builds the HTTP request of a call.
func (o *operation) request(ctx context.Context, input json.RawMessage, key string) (*http.Request, error) {
	given := map[string]any{}
	if len(input) > 0 {
		if err := number(input, &given); err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "the input is not a JSON object: %w", err)
		}
	}
	path, query := o.path, []string(nil)
	header, cookies := http.Header{}, []string(nil)
	for _, a := range o.args {
		v, ok := given[a.name]
		if !ok && a.in != "path" {
			continue
		}
		v, err := a.shape.fit(a.name, v)
		if err != nil {
			return nil, err
		}
		if a.asJSON {
			v = string(marshal(v))
		}
		switch a.in {
		case "path":
			part := a.inPath(v)
			if part == "" {
				return nil, parley.Errorf(parley.CodeInvalid, "%s is empty, but it is part of the path", a.name).WithField(a.name)
			}
			path = strings.ReplaceAll(path, "{"+a.wire+"}", part)
		case "query":
			if v == "" && !a.empty && !a.required {
				continue // models write an empty text for a missing value
			}
			query = append(query, a.pairs(v, a.escape)...)
		case "header":
			header.Set(a.wire, simple(v, a.explode, func(s string) string { return s }))
		case "cookie":
			cookies = append(cookies, a.pairs(v, escape)...)
		}
	}
	for seg := range strings.SplitSeq(path, "/") {
		if plain, err := url.PathUnescape(seg); err != nil || plain == "." || plain == ".." {
			return nil, parley.Errorf(parley.CodeInvalid, "a segment of the path would be %q, which leads to another path", seg)
		}
	}
	address := o.base + path
	if len(query) > 0 {
		address += "?" + strings.Join(query, "&")
	}
	raw, media, err := o.write(given)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, o.method, address, bytes.NewReader(raw))
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "the call makes no valid URL") // the URL is not shown: it may hold secrets
	}
	if raw == nil {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	maps.Copy(req.Header, header)
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	req.Header.Set("Accept", "application/json, */*;q=0.5")
	if len(cookies) > 0 {
		req.Header.Set("Cookie", strings.Join(cookies, "; "))
	}
	if o.keyHeader != "" {
		req.Header.Set(o.keyHeader, key)
	}
	return req, nil
}

// escape escapes a text for a query, where some servers read a plus as a space.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// unreserved restores the reserved characters that a parameter may contain, except those that
// would end it.
var unreserved = strings.NewReplacer("%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$", "%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",", "%3B", ";", "%5B", "[", "%5D", "]")

func (a argument) escape(s string) string {
	if a.reserved {
		return unreserved.Replace(escape(s))
	}
	return escape(s)
}

// simple writes a value in a path or a header: separated by commas, with names for objects.
func simple(v any, explode bool, escape func(string) string) string {
	var parts []string
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			parts = append(parts, escape(text(e)))
		}
	case map[string]any:
		between := ","
		if explode {
			between = "="
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, escape(k)+between+escape(text(v[k])))
		}
	default:
		return escape(text(v))
	}
	return strings.Join(parts, ",")
}

// inPath writes a value in the path, with its slashes escaped.
func (a argument) inPath(v any) string {
	switch a.style {
	case "label":
		s := simple(v, a.explode, url.PathEscape)
		if a.explode {
			s = strings.ReplaceAll(s, ",", ".")
		}
		return "." + s
	case "matrix":
		if !a.explode {
			return ";" + url.PathEscape(a.wire) + "=" + simple(v, false, url.PathEscape)
		}
		return ";" + strings.Join(styled(a.wire, "form", true, v, url.PathEscape), ";")
	}
	return simple(v, a.explode, url.PathEscape)
}

func (a argument) pairs(v any, escape func(string) string) []string {
	return styled(a.wire, a.style, a.explode, v, escape)
}

// styled returns the name=value pairs of one argument in its style.
func styled(name, style string, explode bool, v any, escape func(string) string) []string {
	one := func(name string, v any) string { return escape(name) + "=" + escape(text(v)) }
	if style == "deepObject" {
		return deep(name, v, one)
	}
	between := ","
	switch style {
	case "spaceDelimited":
		between = "%20"
	case "pipeDelimited":
		between = "%7C"
	}
	var out, joined []string
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			out, joined = append(out, one(name, e)), append(joined, escape(text(e)))
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out, joined = append(out, one(k, v[k])), append(joined, escape(k), escape(text(v[k])))
		}
	default:
		return []string{one(name, v)}
	}
	if explode || len(joined) == 0 {
		return out
	}
	return []string{escape(name) + "=" + strings.Join(joined, between)}
}

// deep writes a value with its path in brackets. The specification leaves lists and objects
// within objects open; they are written as Stripe and many others read them.
func deep(name string, v any, one func(name string, v any) string) (out []string) {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			out = append(out, deep(name+"["+strconv.Itoa(i)+"]", e, one)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, deep(name+"["+k+"]", v[k], one)...)
		}
	default:
		return []string{one(name, v)}
	}
	return out
}

// write encodes the body. nil means no body.
func (o *operation) write(given map[string]any) (raw []byte, media string, err error) {
	b := o.body
	if b == nil {
		return nil, "", nil
	}
	var v any
	there := b.required
	if b.whole != nil {
		if v, there = given[b.name]; there {
			if v, err = b.whole.fit(b.name, v); err != nil {
				return nil, "", err
			}
		}
	} else {
		fields := map[string]any{}
		for _, p := range b.props {
			e, ok := given[p.name]
			if !ok {
				continue
			}
			if fields[p.wire], err = p.shape.fit(p.name, e); err != nil {
				return nil, "", err
			}
			there = true
		}
		v = fields
	}
	if !there {
		return nil, "", nil
	}
	switch {
	case isJSON(b.media):
		return marshal(v), b.media, nil
	case strings.HasPrefix(b.media, urlencoded):
		fields, ok := v.(map[string]any)
		if !ok {
			break
		}
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(fields)) {
			parts = append(parts, b.field(k, fields[k])...)
		}
		return []byte(strings.Join(parts, "&")), urlencoded, nil
	case strings.HasPrefix(b.media, multipart):
		fields, ok := v.(map[string]any)
		if !ok {
			break
		}
		return parts(fields)
	}
	return []byte(text(v)), b.media, nil
}

// field encodes one property of a form. An object without a declared encoding is JSON, as the
// specification says.
func (b *body) field(name string, v any) []string {
	e, said := b.encoding[name]
	switch list, isList := v.([]any); {
	case said:
	case isList && !slices.ContainsFunc(list, nested):
		e = encodingOf{"form", true}
	case nested(v):
		v = string(marshal(v))
	}
	if said && e.explode && e.style == "form" && nested(v) {
		if list, ok := v.([]any); !ok || slices.ContainsFunc(list, nested) {
			e.style = "deepObject"
		}
	}
	return styled(name, e.style, e.explode, v, escape)
}

func nested(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// parts writes a multipart form in which each value is text.
func parts(fields map[string]any) (raw []byte, media string, err error) {
	var buf bytes.Buffer
	w := mimemultipart.NewWriter(&buf)
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		values, ok := fields[k].([]any)
		if !ok || slices.ContainsFunc(values, nested) {
			values = []any{fields[k]}
		}
		for _, v := range values {
			if err := w.WriteField(k, text(v)); err != nil {
				return nil, "", fmt.Errorf("the form: %w", err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", fmt.Errorf("the form: %w", err)
	}
	return buf.Bytes(), w.FormDataContentType(), nil
}
