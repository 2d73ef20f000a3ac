package homeassistant

import (
	"maps"
	"slices"
	"strings"
)

func (h *House) areaList() []any {
	out := []any{}
	for _, a := range h.areas {
		out = append(out, attrs{
			"area_id": a.id, "name": a.name, "floor_id": orNull(a.floor), "icon": orNull(a.icon), "picture": nil, "aliases": list(a.aliases), "labels": h.labelsOf(a.id),
			"humidity_entity_id": nil, "temperature_entity_id": nil, "created_at": epoch(h.began.Add(-9000 * h1)), "modified_at": epoch(h.began.Add(-8000 * h1)),
		})
	}
	return out
}

func (h *House) deviceList() []any {
	out := []any{}
	for _, d := range h.devices {
		via := any(nil)
		if d.via != "" {
			via = hex32("device " + d.via)
		}
		kind := any(nil)
		if d.service {
			kind = "service"
		}
		entry := entryOf(d.platform)
		out = append(out, attrs{
			"id": d.id, "name": d.name, "name_by_user": nil, "area_id": orNull(d.area), "manufacturer": d.maker, "model": d.model, "model_id": nil,
			"sw_version": orNull(d.sw), "hw_version": nil, "serial_number": nil, "via_device_id": via, "config_entries": []any{entry},
			"config_entries_subentries": attrs{entry: []any{nil}}, "primary_config_entry": entry, "connections": []any{}, "identifiers": []any{[]any{d.platform, d.key}},
			"configuration_url": nil, "entry_type": kind, "disabled_by": nil, "labels": h.labelsOf(d.id), "created_at": epoch(h.began.Add(-9000 * h1)), "modified_at": epoch(h.began.Add(-8000 * h1)),
		})
	}
	return out
}

func entryOf(platform string) string { return "01J" + strings.ToUpper(hex32("entry " + platform)[:23]) }

func (e *entity) registry() attrs {
	device := any(nil)
	if e.device != nil {
		device = e.device.id
	}
	return attrs{
		"entity_id": e.id, "id": e.uid, "unique_id": e.unique, "platform": e.platform, "name": orNull(e.given), "original_name": orNull(e.name), "icon": nil,
		"area_id": orNull(e.area), "device_id": device, "config_entry_id": entryOf(e.platform), "config_subentry_id": nil, "disabled_by": nil, "hidden_by": nil,
		"entity_category": orNull(e.category), "has_entity_name": e.device != nil, "translation_key": nil, "labels": []any{}, "categories": attrs{}, "options": attrs{},
		"created_at": epoch(e.created), "modified_at": epoch(e.modified),
	}
}

func (h *House) entityList() []any {
	out := []any{}
	for _, id := range h.order {
		if e := h.entities[id]; e.uid != "" {
			row := e.registry()
			row["labels"] = h.labelsOf(e.id)
			out = append(out, row)
		}
	}
	// Some are only in the registry: integrations create more entities than people want.
	for _, key := range []string{"mains_apparent_power", "heat_pump_operating_hours", "router_uptime"} {
		e := &entity{plan: plan{id: "sensor." + key, name: strings.ReplaceAll(key, "_", " "), category: "diagnostic"}, uid: hex32("entity sensor." + key), unique: hex32(key)[:16], platform: "shelly"}
		row := e.registry()
		row["disabled_by"] = "integration"
		out = append(out, row)
	}
	return out
}

func (h *House) display() attrs {
	rows := []any{}
	for _, id := range h.order {
		e := h.entities[id]
		if e.uid == "" {
			continue
		}
		r := attrs{"ei": e.id, "pl": e.platform, "lb": h.labelsOf(e.id), "hn": e.device != nil}
		if e.area != "" {
			r["ai"] = e.area
		}
		if e.device != nil {
			r["di"] = e.device.id
		}
		if e.given != "" || e.name != "" {
			r["en"] = e.title()
		}
		switch e.category {
		case "config":
			r["ec"] = 0
		case "diagnostic":
			r["ec"] = 1
		}
		rows = append(rows, r)
	}
	return attrs{"entity_categories": attrs{"0": "config", "1": "diagnostic"}, "entities": rows}
}

// update implements config/entity_registry/update, and changes made in the house's own settings.
func (h *House) update(id string, change func(*entity) attrs) *entity {
	e := h.entities[id]
	if e == nil || e.uid == "" {
		return nil
	}
	before := change(e)
	if len(before) == 0 {
		return e
	}
	e.modified = h.now()
	h.emit(event{kind: "entity_registry_updated", at: h.now(), ctx: origin{id: h.newID(h.now())}, data: attrs{"action": "update", "entity_id": id, "changes": before}})
	if _, named := before["name"]; named {
		a := maps.Clone(e.now().attrs)
		a["friendly_name"] = e.title()
		h.set(e, e.now().state, a, origin{id: h.newID(h.now())}, h.now())
	}
	return e
}

// Rename renames an entity, as its owner does in the settings.
func (h *House) Rename(entity, name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rename(entity, name) != nil
}

func (h *House) rename(id, name string) *entity {
	return h.update(id, func(e *entity) attrs {
		was := e.given
		if was == name {
			return nil
		}
		e.given = name
		return attrs{"name": orNull(was)}
	})
}

// Move moves an entity to another area.
func (h *House) Move(entity, area string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.move(entity, area) != nil
}

func (h *House) move(id, area string) *entity {
	return h.update(id, func(e *entity) attrs {
		was := e.area
		if was == area {
			return nil
		}
		e.area = area
		return attrs{"area_id": orNull(was)}
	})
}

// RenameArea renames an area.
func (h *House) RenameArea(id, name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.areas {
		if a.id == id {
			a.name = name
			h.emit(event{kind: "area_registry_updated", at: h.now(), ctx: origin{id: h.newID(h.now())}, data: attrs{"action": "update", "area_id": id}})
			return true
		}
	}
	return false
}

// uses lists the entities of an automation, a script or a scene, including the members of
// groups.
func (h *House) uses(r *routine) []string {
	var out []string
	for _, id := range r.uses {
		out = append(out, id)
		if e := h.entities[id]; e != nil && e.platform == "group" {
			m, _ := texts(e.now().attrs["entity_id"])
			out = append(out, m...)
		}
	}
	return out
}

// related returns the items related to an item.
func (h *House) related(kind, id string) attrs {
	out := map[string][]string{}
	add := func(kind, id string) {
		if id != "" && !slices.Contains(out[kind], id) {
			out[kind] = append(out[kind], id)
		}
	}
	around := func(e *entity) {
		add("area", e.areaID())
		add("floor", h.floorOf(e.areaID()))
		if e.device != nil {
			add("device", e.device.id)
		}
		if e.uid != "" {
			add("integration", e.platform)
			add("config_entry", entryOf(e.platform))
		}
	}
	using := func(entity string) {
		for _, x := range h.order {
			e := h.entities[x]
			if e.routine != nil && slices.Contains(h.uses(e.routine), entity) {
				add(e.domain, x)
			}
			if members, _ := texts(e.now().attrs["entity_id"]); e.platform == "group" && slices.Contains(members, entity) {
				add("group", x)
			}
		}
	}
	switch kind {
	case "entity", "automation", "script", "scene", "group":
		e := h.entities[id]
		if e == nil {
			return attrs{}
		}
		around(e)
		using(id)
		if e.routine != nil {
			for _, u := range e.routine.uses {
				add("entity", u)
				if x := h.entities[u]; x != nil {
					around(x)
				}
			}
		}
		if members, _ := texts(e.now().attrs["entity_id"]); e.platform == "group" {
			for _, m := range members {
				add("entity", m)
			}
		}
	default:
		for _, x := range h.order {
			e := h.entities[x]
			if kind == "area" && e.areaID() == id || kind == "device" && e.device != nil && e.device.id == id ||
				kind == "floor" && h.floorOf(e.areaID()) == id || kind == "integration" && e.platform == id || kind == "config_entry" && e.uid != "" && entryOf(e.platform) == id {
				add("entity", x)
				around(e)
				using(x)
			}
		}
	}
	res := attrs{}
	for k, ids := range out {
		ids = slices.DeleteFunc(ids, func(x string) bool { return k == kind && x == id })
		if len(ids) > 0 {
			slices.Sort(ids)
			res[k] = list(ids)
		}
	}
	return res
}

func (r *routine) config() attrs {
	var actions []any
	for _, s := range r.does {
		a := attrs{"action": s.service}
		if s.entity != "" {
			a["target"] = attrs{"entity_id": []any{s.entity}}
		}
		if len(s.data) > 0 {
			a["data"] = s.data
		}
		actions = append(actions, a)
	}
	return attrs{"id": hex32(r.id)[:13], "alias": r.name, "description": "", "triggers": r.triggers, "conditions": []any{}, "actions": actions, "mode": "single"}
}

func (h *House) systemLog() []any {
	out := []any{}
	for i, l := range h.log {
		if i == maxLog {
			break
		}
		out = append(out, attrs{
			"name": l.name, "message": list(l.messages), "level": l.level, "source": []any{l.file, l.line},
			"timestamp": epoch(l.last), "exception": l.exception, "count": l.count, "first_occurred": epoch(l.first),
		})
	}
	return out
}

func (h *House) config() attrs {
	return attrs{
		"components": list(h.components()), "config_dir": "/config", "elevation": 94, "latitude": homeLatitude, "longitude": homeLongitude, "radius": 100,
		"location_name": "Casa", "time_zone": h.o.TimeZone, "version": Version, "state": "RUNNING", "safe_mode": false, "recovery_mode": false, "currency": "EUR", "country": "PT",
		"language": "en", "internal_url": nil, "external_url": nil, "allowlist_external_dirs": []any{"/config/www", "/media"}, "allowlist_external_urls": []any{},
		"whitelist_external_dirs": []any{"/config/www", "/media"}, "config_source": "storage", "debug": false,
		"unit_system": attrs{"length": "km", "accumulated_precipitation": "mm", "area": "m²", "mass": "g", "pressure": "Pa", "temperature": "°C", "volume": "L", "wind_speed": "m/s"},
	}
}

func (h *House) components() []string {
	set := map[string]bool{"api": true, "backup": true, "conversation": true, "frontend": true, "history": true, "logbook": true, "recorder": true, "search": true, "system_log": true, "websocket_api": true, "default_config": true}
	for _, id := range h.order {
		e := h.entities[id]
		set[e.domain] = true
		if e.platform != "" {
			set[e.platform] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (h *House) serviceList() attrs {
	out := attrs{}
	for domain, of := range h.services {
		m := attrs{}
		for name, s := range of {
			fields := attrs{}
			for f, kind := range s.fields {
				sel := attrs{"object": nil}
				switch kind {
				case "number":
					sel = attrs{"number": attrs{}}
				case "text":
					sel = attrs{"text": nil}
				case "bool":
					sel = attrs{"boolean": nil}
				}
				fields[f] = attrs{"required": slices.Contains(s.needs, f), "selector": sel}
			}
			one := attrs{"name": strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_", " "), "description": s.about, "fields": fields}
			if s.target {
				of := []any{attrs{"domain": []any{domain}}}
				if domain == "homeassistant" {
					of = []any{attrs{}}
				}
				one["target"] = attrs{"entity": of}
			}
			if s.response != "" {
				one["response"] = attrs{"optional": s.response == "optional"}
			}
			m[name] = one
		}
		out[domain] = m
	}
	return out
}
