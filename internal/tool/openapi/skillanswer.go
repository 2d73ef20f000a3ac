package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

var (
	pageSizes = []string{"page_size", "per_page", "pageSize", "perPage", "limit", "maxResults", "max_results", "page[size]", "$top", "top"}
	selects   = []string{"fields", "select", "$select"}
	lists     = []string{"items", "data", "results", "values", "records", "entries"}
	// telling are the fields that say most about a record, the best first.
	telling = []string{"id", "name", "title", "full_name", "login", "number", "email", "status", "state", "type", "company", "owner", "city", "amount", "value", "score", "text", "due_on", "created_at", "created", "updated_at", "url", "html_url"}
)

const maxAsked = 10 // fields that a skill proposes

// result is what an operation answers when it succeeds.
func (o *outliner) result(op rawOperation) *sketch {
	for _, status := range []string{"200", "201", "202", "2XX", "default"} {
		raw := op.Responses[status]
		if raw == nil {
			continue
		}
		var in struct {
			Content map[string]struct{ Schema json.RawMessage }
		}
		_ = json.Unmarshal(o.part(raw), &in)
		for _, media := range slices.Sorted(maps.Keys(in.Content)) {
			if c := in.Content[media]; isJSON(media) && c.Schema != nil {
				return o.schema(c.Schema, 1)
			}
		}
	}
	return nil
}

// records are the entries of a list, and where they are in an answer.
func (s *sketch) records() (at string, entries *sketch) {
	if s.items != nil {
		return "[]", s.items
	}
	var only *property
	for i, p := range s.props {
		if p.items == nil {
			continue
		}
		if slices.Contains(lists, p.name) {
			return p.name + "[]", p.items
		}
		if only != nil {
			return "", nil
		}
		only = &s.props[i]
	}
	if only == nil {
		return "", nil
	}
	return only.name + "[]", only.items
}

// answer says what comes back, and what of it to ask for.
func (r *request) answer(t *strings.Builder, s *sketch, params []param) {
	if s == nil || len(s.props) == 0 && s.items == nil {
		return
	}
	at, entries := s.records()
	if r.write || entries == nil || len(entries.props) == 0 {
		at, entries = "", s
	}
	if len(entries.props) == 0 {
		return
	}
	names := shownNames(entries, 40)
	if at == "" {
		fmt.Fprintf(t, "Answer: an object with %s.\n", strings.Join(names, ", "))
	} else {
		where, ok := code(at)
		if !ok {
			return
		}
		fmt.Fprintf(t, "Answer: the list %s with %s.", where, strings.Join(names, ", "))
		beside := &sketch{props: slices.DeleteFunc(slices.Clone(s.props), func(p property) bool { return p.name+"[]" == at })}
		if more := shownNames(beside, 10); len(more) > 0 {
			fmt.Fprintf(t, " Beside it: %s.", strings.Join(more, ", "))
		}
		t.WriteString("\n")
	}
	if r.write {
		return
	}
	asked := chosen(entries)
	var how []string
	selected := false
	for _, p := range params {
		name, ok := code(p.name)
		if p.in != "query" || !ok {
			continue
		}
		switch {
		case slices.Contains(pageSizes, p.name) && at != "" && strings.Contains(p.kind, "integer"):
			how = append(how, fmt.Sprintf("%s %s, or less", name, pageOf(p)))
		case slices.Contains(selects, p.name) && len(asked) > 0 && (strings.HasPrefix(p.kind, "text") || p.items != nil):
			selected = true
			how = append(how, fmt.Sprintf("%s `%s` or what the question needs", name, strings.Join(asked, ",")))
		}
	}
	if !selected && len(asked) > 1 && len(asked) < len(entries.props) {
		var paths []string
		for _, name := range asked {
			prefix := at
			if prefix != "" {
				prefix += "."
			}
			if text, ok := code(prefix + name); ok {
				paths = append(paths, text)
			}
		}
		how = append(how, "`fields` of `api_request` "+strings.Join(paths, ", ")+" or what the question needs")
	}
	if len(how) > 0 {
		fmt.Fprintf(t, "Ask for: %s.\n", strings.Join(how, "; "))
	}
}

// pageOf is the page size to ask for.
func pageOf(p param) string {
	n := 20
	for _, part := range strings.Split(p.limits, ", ") {
		for _, prefix := range []string{"at most ", "1 to ", "0 to "} {
			if text, ok := strings.CutPrefix(part, prefix); ok {
				if most, err := strconv.Atoi(text); err == nil && most > 0 {
					n = min(n, most)
				}
			}
		}
	}
	return "`" + strconv.Itoa(n) + "`"
}

func shownNames(s *sketch, most int) (list []string) {
	for _, p := range s.props {
		if name, ok := code(p.name); ok && !p.secret {
			list = append(list, name)
		}
	}
	if len(list) > most {
		return append(list[:most:most], fmt.Sprintf("%d more", len(list)-most+s.more))
	}
	return list
}

// chosen are the names of the fields that say most.
func chosen(s *sketch) (list []string) {
	add := func(name string) {
		if _, ok := code(name); ok && len(list) < maxAsked && !slices.Contains(list, name) && !strings.ContainsAny(name, ", ") {
			list = append(list, name)
		}
	}
	for _, name := range telling {
		if p := s.prop(name); p != nil && p.items == nil && p.kind != "object" {
			add(name)
		}
	}
	for _, p := range s.props {
		if len(list) >= 6 {
			break
		}
		if p.items == nil && p.kind != "object" && !p.secret {
			add(p.name)
		}
	}
	return list
}

// lost says how to find out what became of a write whose answer is lost, as far as the description
// tells.
func (b *skillBook) lost(t *strings.Builder, r *request, body *sketch) {
	beside := b.d.paths[r.path]
	has := func(method string) bool { return beside[method] != nil }
	text := ""
	switch {
	case r.keyed:
		text = "it takes an `Idempotency-Key`, and sent again with its key it makes nothing twice."
	case r.method == "put" || r.method == "patch":
		if has("get") {
			text = fmt.Sprintf("`GET %s` and compare the fields that were sent.", r.path)
		}
	case r.method == "delete":
		if has("get") {
			text = fmt.Sprintf("`GET %s`: if there is nothing, it is deleted.", r.path)
		}
	}
	if r.method == "post" && has("get") && !strings.HasSuffix(r.path, "}") {
		if how := b.lookFor(r.path, body); how != "" {
			if text != "" {
				text += " Otherwise "
			}
			text += "look for it: " + how
		}
	}
	if r.method == "get" {
		if at := r.path[:strings.LastIndex(r.path, "/")]; b.d.paths[at]["get"] != nil {
			text = fmt.Sprintf("`GET %s` and look whether it has changed.", at)
		}
	}
	if text == "" {
		text = "the description does not say how to find out. Say that it is not known whether it happened."
	}
	fmt.Fprintf(t, "If its answer is lost: %s\n", text)
}

// lookFor says how to find what a POST to a collection has made.
func (b *skillBook) lookFor(path string, body *sketch) string {
	if body == nil {
		return ""
	}
	e := entry{method: "get", path: path}
	var op rawOperation
	_ = json.Unmarshal(b.d.paths[path]["get"], &op)
	var by []string
	newest, paged := "", ""
	for _, p := range b.o.params(e, op) {
		name, ok := code(p.name)
		if p.in != "query" || !ok {
			continue
		}
		if prop := body.prop(p.name); prop != nil && !prop.filled && prop.kind != "object" {
			by = append(by, p.name)
		}
		if p.name == "sort" {
			for _, v := range []string{"-created_at", "-created", "-createdAt"} {
				if slices.Contains(p.values, v) {
					newest = fmt.Sprintf(", %s `%s`", name, v)
				}
			}
		}
		if slices.Contains(pageSizes, p.name) {
			paged = p.name
		}
	}
	rank := func(name string) int {
		p := body.prop(name)
		switch {
		case p.needed && len(p.values) == 0:
			return 0
		case name == "email" || name == "name" || name == "title":
			return 1
		case strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "Id"):
			return 2
		case len(p.values) > 0 || p.kind == "true or false":
			return 4
		}
		return 3
	}
	slices.SortStableFunc(by, func(a, c string) int { return rank(a) - rank(c) })
	switch {
	case len(by) > 0 && rank(by[0]) < 4:
		var names []string
		for _, name := range by {
			if rank(name) == rank(by[0]) && len(names) < 3 {
				names = append(names, "`"+name+"`")
			}
		}
		return fmt.Sprintf("`GET %s` with %s as it was sent%s, and compare the rest.", path, strings.Join(names, " or "), newest)
	case newest != "" || paged != "":
		return fmt.Sprintf("`GET %s`%s, and compare the newest with what was sent.", path, newest)
	}
	return ""
}
