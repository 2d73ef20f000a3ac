package homeassistant

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// command is one type of WebSocket message. Only its keys are allowed; those with a ! are
// required.
type command struct {
	keys  string
	admin bool
	// does runs with the house locked. It returns the result, unless it has answered itself.
	does func(c *conn, id int, m attrs) (result any, answered bool, no *refusal)
}

func plain(f func(h *House, m attrs) (any, *refusal)) func(*conn, int, attrs) (any, bool, *refusal) {
	return func(c *conn, _ int, m attrs) (any, bool, *refusal) {
		v, no := f(c.h, m)
		return v, false, no
	}
}

func just(f func(h *House) any) func(*conn, int, attrs) (any, bool, *refusal) {
	return plain(func(h *House, _ attrs) (any, *refusal) { return f(h), nil })
}

// command answers one message of a client.
func (c *conn) command(m attrs) {
	h := c.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	h.advance()
	num, isNumber := m["id"].(float64)
	id := int(num)
	kind, isText := m["type"].(string)
	fail := func(no *refusal) {
		e := attrs{"code": no.code, "message": no.message}
		if no.code == codeValidation || no.code == codeFailed {
			e["translation_key"], e["translation_domain"], e["translation_placeholders"] = nil, nil, nil
		}
		c.send(attrs{"id": id, "type": "result", "success": false, "error": e})
	}
	if !isNumber || !isText || id <= 0 || float64(id) != num {
		fail(refuse(codeFormat, "Message incorrectly formatted."))
		return
	}
	if id <= c.last {
		fail(refuse("id_reuse", "Identifier values have to increase."))
		return
	}
	c.last = id
	cmd, ok := commands[kind]
	if !ok {
		fail(refuse("unknown_command", "Unknown command."))
		return
	}
	if no := cmd.check(m); no != nil {
		fail(no)
		return
	}
	if cmd.admin && (!c.who.admin || h.faults.Denied) {
		fail(refuse("unauthorized", "Unauthorized"))
		return
	}
	result, answered, no := cmd.does(c, id, m)
	switch {
	case no != nil:
		fail(no)
	case !answered:
		c.result(id, result)
	}
}

func (c *conn) result(id int, v any) {
	c.send(attrs{"id": id, "type": "result", "success": true, "result": v})
}

func (cmd command) check(m attrs) *refusal {
	allowed := map[string]bool{"id": true, "type": true}
	for k := range strings.FieldsSeq(cmd.keys) {
		name, needed := strings.CutSuffix(k, "!")
		allowed[name] = true
		v, there := m[name]
		if needed && !there {
			return refuse(codeFormat, "required key not provided @ data['%s']. Got None", name)
		}
		if there && v == nil {
			return refuse(codeFormat, "value should not be None for dictionary value @ data['%s']. Got None", name)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !allowed[k] {
			return refuse(codeFormat, "extra keys not allowed @ data['%s']. Got %v", k, m[k])
		}
	}
	return nil
}

func (c *conn) subscribe(id int, f func(ev event) any) {
	c.subs[id] = &sub{id, f}
	c.result(id, nil)
}

func (c *conn) event(id int, v any) { c.send(attrs{"id": id, "type": "event", "event": v}) }

func text(m attrs, key string) string { s, _ := m[key].(string); return s }

func object(m attrs, key string) (attrs, *refusal) {
	if m[key] == nil {
		return attrs{}, nil
	}
	v, ok := m[key].(attrs)
	if !ok {
		return nil, refuse(codeFormat, "expected a dictionary for dictionary value @ data['%s']. Got %v", key, m[key])
	}
	return v, nil
}

// span reads start_time and end_time.
func (h *House) span(m attrs) (w window, no *refusal) {
	var err error
	if w.from, err = parseTime(text(m, "start_time")); err != nil {
		return w, refuse("invalid_start_time", "Invalid start_time")
	}
	w.to = h.now()
	if m["end_time"] != nil {
		if w.to, err = parseTime(text(m, "end_time")); err != nil {
			return w, refuse("invalid_end_time", "Invalid end_time")
		}
	}
	ids, ok := texts(m["entity_ids"])
	if !ok {
		return w, refuse(codeFormat, "expected a list for dictionary value @ data['entity_ids']")
	}
	w.entities = ids
	return w, nil
}

func parseTime(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time", s)
}

func flag(m attrs, key string, otherwise bool) bool {
	if v, ok := m[key].(bool); ok {
		return v
	}
	return otherwise
}

func (h *House) historySpan(m attrs) (window, *refusal) {
	w, no := h.span(m)
	if no != nil {
		return w, no
	}
	if len(w.entities) == 0 {
		return w, refuse("invalid_entity_ids", "Invalid entity_ids")
	}
	w.noStart = !flag(m, "include_start_time_state", true)
	w.all = !flag(m, "significant_changes_only", true)
	w.minimal, w.noAttribute = flag(m, "minimal_response", false), flag(m, "no_attributes", false)
	return w, nil
}

func callService(c *conn, id int, m attrs) (any, bool, *refusal) {
	h := c.h
	data, no := object(m, "service_data")
	if no != nil {
		return nil, false, no
	}
	target, no := object(m, "target")
	if no != nil {
		return nil, false, no
	}
	domain, name := text(m, "domain"), text(m, "service")
	s := h.services[domain][name]
	wants := flag(m, "return_response", false)
	if s != nil && wants && s.response == "" {
		return nil, false, refuse(codeValidation, "Validation error: An action which does not return responses can't be called with return_response=True")
	}
	if s != nil && !wants && s.response == "only" {
		return nil, false, refuse(codeValidation, "Validation error: The action requires responses and must be called with return_response=True")
	}
	if h.faults.DropBefore > 0 {
		h.faults.DropBefore--
		c.cut()
		return nil, true, nil
	}
	ctx := origin{id: h.newID(h.now()), user: c.who.id}
	_, response, no := h.call(domain, name, data, target, ctx, 0)
	if no == nil && h.faults.DropAfter > 0 {
		h.faults.DropAfter--
		c.cut()
		return nil, true, nil
	}
	out := attrs{"context": ctx.json()}
	if wants {
		out["response"] = response
	}
	return out, false, no
}

func subscribeEvents(c *conn, id int, m attrs) (any, bool, *refusal) {
	kind := text(m, "event_type")
	guests := []string{"state_changed", "area_registry_updated", "device_registry_updated", "entity_registry_updated", "component_loaded", "core_config_updated", "service_registered", "service_removed", "themes_updated", "panels_updated"}
	if !c.who.admin && !slices.Contains(guests, kind) {
		return nil, false, refuse("unauthorized", "Unauthorized")
	}
	c.subscribe(id, func(ev event) any {
		if kind != "" && kind != "*" && kind != ev.kind {
			return nil
		}
		return ev.json()
	})
	return nil, true, nil
}

// subscribeEntities sends states in the short form, starting with all of them.
func subscribeEntities(c *conn, id int, m attrs) (any, bool, *refusal) {
	only, ok := texts(m["entity_ids"])
	if !ok {
		return nil, false, refuse(codeFormat, "expected a list for dictionary value @ data['entity_ids']")
	}
	want := func(id string) bool { return only == nil || slices.Contains(only, id) }
	c.subscribe(id, func(ev event) any {
		if ev.kind != "state_changed" || !want(ev.entity) {
			return nil
		}
		switch {
		case ev.new == nil:
			return attrs{"r": []any{ev.entity}}
		case ev.old == nil:
			return attrs{"a": attrs{ev.entity: short(*ev.new)}}
		}
		return attrs{"c": attrs{ev.entity: diff(*ev.old, *ev.new)}}
	})
	all := attrs{}
	for _, x := range c.h.order {
		if want(x) {
			all[x] = short(c.h.entities[x].now())
		}
	}
	c.event(id, attrs{"a": all})
	return nil, true, nil
}

func (c origin) short() any {
	if c.parent == "" && c.user == "" {
		return c.id
	}
	return c.json()
}

func short(r record) attrs {
	out := attrs{"s": r.state, "a": r.attrs, "c": r.ctx.short(), "lc": epoch(r.changed)}
	if !r.changed.Equal(r.updated) {
		out["lu"] = epoch(r.updated)
	}
	return out
}

func diff(old, new record) attrs {
	plus := attrs{}
	if old.state != new.state {
		plus["s"] = new.state
		plus["lc"] = epoch(new.changed)
	} else {
		plus["lu"] = epoch(new.updated)
	}
	if old.ctx.id != new.ctx.id {
		plus["c"] = new.ctx.short()
	}
	changed := attrs{}
	var gone []any
	for k, v := range new.attrs {
		if was, ok := old.attrs[k]; !ok || fmt.Sprint(was) != fmt.Sprint(v) {
			changed[k] = v
		}
	}
	for _, k := range slices.Sorted(maps.Keys(old.attrs)) {
		if _, ok := new.attrs[k]; !ok {
			gone = append(gone, k)
		}
	}
	if len(changed) > 0 {
		plus["a"] = changed
	}
	out := attrs{"+": plus}
	if len(gone) > 0 {
		out["-"] = attrs{"a": gone}
	}
	return out
}

func historyStream(c *conn, id int, m attrs) (any, bool, *refusal) {
	w, no := c.h.historySpan(m)
	if no != nil {
		return nil, false, no
	}
	live := func(ev event) any {
		if ev.kind != "state_changed" || ev.new == nil || !slices.Contains(w.entities, ev.entity) || m["end_time"] != nil {
			return nil
		}
		return attrs{"states": attrs{ev.entity: []any{compressed(*ev.new, !w.noAttribute)}}}
	}
	c.subscribe(id, live)
	c.event(id, attrs{"states": c.h.historyWS(w), "start_time": epoch(w.from), "end_time": epoch(w.to)})
	return nil, true, nil
}

func logbookStream(c *conn, id int, m attrs) (any, bool, *refusal) {
	w, no := c.h.span(m)
	if no != nil {
		return nil, false, no
	}
	c.subscribe(id, func(ev event) any {
		e := c.h.entities[ev.entity]
		if ev.kind != "state_changed" || e == nil || ev.old == nil || ev.new == nil || ev.old.state == ev.new.state || e.continuous() {
			return nil
		}
		if len(w.entities) > 0 && !slices.Contains(w.entities, ev.entity) {
			return nil
		}
		return attrs{"events": []any{c.h.rowOf(e, *ev.new).json(false)}}
	})
	c.event(id, attrs{"events": rows(c.h.logbook(w), false), "start_time": epoch(w.from), "end_time": epoch(w.to)})
	return nil, true, nil
}

func rows(in []row, rest bool) []any {
	out := make([]any, len(in))
	for i, r := range in {
		out[i] = r.json(rest)
	}
	return out
}

func unsubscribe(c *conn, _ int, m attrs) (any, bool, *refusal) {
	n, _ := m["subscription"].(float64)
	if c.subs[int(n)] == nil {
		return nil, false, refuse(codeNotFound, "Subscription not found.")
	}
	delete(c.subs, int(n))
	return nil, false, nil
}

func renderTemplate(c *conn, id int, m attrs) (any, bool, *refusal) {
	out, about, err := c.h.render(text(m, "template"))
	if err != nil {
		return nil, false, refuse("template_error", "%s", err)
	}
	c.subscribe(id, func(ev event) any {
		if ev.kind != "state_changed" || !slices.Contains(about, ev.entity) {
			return nil
		}
		again, _, _ := c.h.render(text(m, "template"))
		return attrs{"result": again, "listeners": listeners(about)}
	})
	c.event(id, attrs{"result": out, "listeners": listeners(about)})
	return nil, true, nil
}

func listeners(about []string) attrs {
	return attrs{"all": false, "entities": list(about), "domains": []any{}, "time": false}
}
