package homeassistant

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

type todoItem struct {
	uid, text string
	done      bool
}

func time24(days int) time.Duration { return time.Duration(days) * 24 * time.Hour }

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case string:
		f, err := strconv.ParseFloat(v, 64)
		return f, err == nil
	}
	return 0, false
}

// texts parses one text or a list of texts.
func texts(v any) ([]string, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case string:
		var out []string
		for s := range strings.SplitSeq(v, ",") {
			out = append(out, strings.TrimSpace(s))
		}
		return out, true
	case []any:
		var out []string
		for _, x := range v {
			s, ok := x.(string)
			if !ok {
				return nil, false
			}
			out = append(out, s)
		}
		return out, true
	}
	return nil, false
}

var targetKeys = []string{"entity_id", "device_id", "area_id", "floor_id", "label_id"}

// find resolves a target to the entities of a domain. As in the real one, unknown entities are
// skipped with an entry in the log.
func (h *House) find(domain string, target attrs) ([]*entity, *refusal) {
	var out []*entity
	var missing []string
	add := func(e *entity, direct bool) {
		if domain != "homeassistant" && e.domain != domain || slices.Contains(out, e) {
			return
		}
		if !direct && (e.category != "" || e.hidden) {
			return
		}
		out = append(out, e)
	}
	for _, key := range targetKeys {
		ids, ok := texts(target[key])
		if !ok {
			return nil, refuse(codeFormat, "expected str for dictionary value @ data['%s']", key)
		}
		for _, id := range ids {
			switch {
			case key == "entity_id" && id == "none":
			case key == "entity_id" && id == "all":
				for _, x := range h.order {
					add(h.entities[x], true)
				}
			case key == "entity_id":
				e := h.entities[id]
				if e == nil {
					missing = append(missing, id)
					continue
				}
				h.expand(e, func(e *entity) { add(e, true) }, 0)
			case key == "label_id":
				for _, x := range h.order {
					e := h.entities[x]
					switch {
					case h.labelled(id, e.id):
						if !e.hidden {
							add(e, true) // including configuration entities
						}
					case e.device != nil && h.labelled(id, e.device.id), h.labelled(id, e.areaID()):
						add(e, false)
					}
				}
			default:
				for _, x := range h.order {
					e := h.entities[x]
					switch {
					case key == "device_id" && e.device != nil && e.device.id == id,
						key == "area_id" && e.areaID() == id,
						key == "floor_id" && h.floorOf(e.areaID()) == id:
						add(e, false)
					}
				}
			}
		}
	}
	if len(missing) > 0 {
		h.warn("WARNING", "homeassistant.helpers.service", "Referenced entities "+strings.Join(missing, ", ")+" are missing or not currently available")
	}
	return out, nil
}

// expand calls f with an entity and, for a group, with all its members, because a group passes
// on what it is told.
func (h *House) expand(e *entity, f func(*entity), deep int) {
	f(e)
	if e.platform != "group" || deep > 8 {
		return
	}
	members, _ := texts(e.now().attrs["entity_id"])
	for _, m := range members {
		if e := h.entities[m]; e != nil {
			h.expand(e, f, deep+1)
		}
	}
}

func (h *House) labelled(label, item string) bool { return slices.Contains(h.labels[label], item) }

// labelsOf returns the labels of an entity, a device or an area.
func (h *House) labelsOf(item string) []any {
	out := []any{}
	for _, label := range slices.Sorted(maps.Keys(h.labels)) {
		if h.labelled(label, item) {
			out = append(out, label)
		}
	}
	return out
}

// Label puts a label on an entity, a device or an area, named by its id.
func (h *House) Label(label, item string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.labelled(label, item) && len(h.labels) < maxExtra {
		h.labels[label] = append(h.labels[label], item)
	}
}

func (h *House) floorOf(areaID string) string {
	for _, a := range h.areas {
		if a.id == areaID {
			return a.floor
		}
	}
	return ""
}

// call runs a service. It returns the changed states and the response.
func (h *House) call(domain, name string, data, target attrs, ctx origin, depth int) (changed []string, response any, no *refusal) {
	s := h.services[domain][name]
	if s == nil {
		return nil, nil, refuse(codeNotFound, "Service %s.%s not found.", domain, name)
	}
	all := maps.Clone(data)
	if all == nil {
		all = attrs{}
	}
	where := attrs{}
	for _, k := range targetKeys {
		if v, ok := all[k]; ok && s.target {
			where[k] = v
			delete(all, k)
		}
	}
	for k, v := range target {
		if !slices.Contains(targetKeys, k) {
			return nil, nil, refuse(codeFormat, "extra keys not allowed @ data['target']['%s']", k)
		}
		where[k] = v
	}
	if s.target && len(where) == 0 {
		return nil, nil, refuse(codeFormat, "must contain at least one of entity_id, device_id, area_id, floor_id, label_id.")
	}
	for k := range all {
		if s.fields[k] == "" {
			return nil, nil, refuse(codeFormat, "extra keys not allowed @ data['%s']", k)
		}
		if _, ok := number(all[k]); !ok && s.fields[k] == "number" {
			return nil, nil, refuse(codeFormat, "expected float for dictionary value @ data['%s']", k)
		}
	}
	for _, k := range s.needs {
		if all[k] == nil {
			return nil, nil, refuse(codeFormat, "required key not provided @ data['%s']", k)
		}
	}
	targets, no := h.find(domain, where)
	if no != nil {
		return nil, nil, no
	}
	if h.faults.Fail > 0 && depth == 0 {
		h.faults.Fail--
		h.warn("ERROR", "homeassistant.components."+domain, "Error calling "+domain+"."+name+": the device did not answer")
		return nil, nil, refuse(codeFailed, "the device did not answer")
	}
	at := h.now()
	h.emit(event{kind: "call_service", at: at, ctx: ctx, data: attrs{"domain": domain, "service": name, "service_data": data}})
	c := &callCtx{ctx: ctx, domain: domain, name: name, targets: targets, depth: depth}
	if s.once != nil {
		if response, no = s.once(h, all, c); no != nil {
			return nil, nil, no
		}
		h.count(domain+"."+name, "")
		for _, e := range targets {
			h.count(domain+"."+name, e.id)
		}
		return nil, response, nil
	}
	for _, e := range targets {
		if e.now().state == "unavailable" {
			continue
		}
		does := s.does
		if domain == "homeassistant" { // it delegates to the entity's own domain
			if own := h.services[e.domain][name]; own != nil {
				does = own.does
			}
		}
		state, with, no := does(h, e, all, c)
		if no != nil {
			return changed, nil, no
		}
		before := e.now()
		h.set(e, state, h.shown(e, state, before.attrs, with), ctx, at)
		h.count(domain+"."+name, e.id)
		if !e.now().updated.Equal(before.updated) {
			changed = append(changed, e.id)
		}
		changed = append(changed, h.regroup(e, ctx, at)...)
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil, nil
}

// regroup updates the groups of a member.
func (h *House) regroup(member *entity, ctx origin, at time.Time) (changed []string) {
	for _, id := range h.order {
		g := h.entities[id]
		if g.platform != "group" {
			continue
		}
		members, _ := texts(g.now().attrs["entity_id"])
		if !slices.Contains(members, member.id) {
			continue
		}
		state := "off"
		for _, m := range members {
			if e := h.entities[m]; e != nil && e.now().state == "on" {
				state = "on"
			}
		}
		if g.now().state != state {
			h.set(g, state, h.shown(g, state, g.now().attrs, nil), ctx, at)
			changed = append(changed, id)
		}
	}
	return changed
}

func (h *House) count(service, entity string) {
	if c := (Call{service, entity}); h.calls[c] > 0 || len(h.calls) < maxRecords {
		h.calls[c]++
	}
}

func (h *House) moment(m moment) {
	h.moments = append(h.moments, m)
	if len(h.moments) > maxMoments {
		h.moments = slices.Clone(h.moments[maxMoments/10:])
	}
}

// warn adds an entry to the error log; a repeated message is counted.
func (h *House) warn(level, logger, message string) {
	now := h.now()
	for i, l := range h.log {
		if l.name == logger && l.level == level && slices.Contains(l.messages, message) {
			l.count++
			l.last = now
			h.log = append([]*logEntry{l}, slices.Delete(h.log, i, i+1)...)
			return
		}
	}
	file := strings.ReplaceAll(strings.TrimPrefix(logger, "homeassistant."), ".", "/") + "/__init__.py"
	h.log = append([]*logEntry{{name: logger, level: level, file: file, line: 1 + int(hash(message)%900), messages: []string{message}, first: now, last: now, count: 1}}, h.log...)
	if len(h.log) > maxLog {
		h.log = h.log[:maxLog]
	}
}

// report simulates a device or an integration that reports a state.
func (h *House) report(id, state string, a attrs) (made bool) {
	e := h.entities[id]
	if e == nil {
		if len(h.entities) >= maxExtra {
			return false
		}
		now := h.now()
		domain, name, _ := strings.Cut(id, ".")
		e = &entity{plan: plan{id: id, name: strings.ReplaceAll(name, "_", " ")}, domain: domain, created: now, modified: now}
		e.recs = []record{{state: state, attrs: a, changed: now, updated: now, ctx: origin{id: h.newID(now)}}}
		if a == nil {
			e.recs[0].attrs = attrs{}
		}
		h.entities[id] = e
		at, _ := slices.BinarySearch(h.order, id)
		h.order = slices.Insert(h.order, at, id)
		r := e.now()
		h.emitChange(id, nil, &r)
		return true
	}
	if a == nil {
		a = h.shown(e, state, e.now().attrs, nil)
	}
	ctx := origin{id: h.newID(h.now())}
	h.set(e, state, a, ctx, h.now())
	h.regroup(e, ctx, h.now())
	return false
}

func (h *House) remove(id string) bool {
	e := h.entities[id]
	if e == nil {
		return false
	}
	old := e.now()
	delete(h.entities, id)
	h.order = slices.DeleteFunc(h.order, func(x string) bool { return x == id })
	h.emitChange(id, &old, nil)
	if e.uid != "" {
		h.emit(event{kind: "entity_registry_updated", at: h.now(), ctx: origin{id: h.newID(h.now())}, data: attrs{"action": "remove", "entity_id": id}})
	}
	return true
}
