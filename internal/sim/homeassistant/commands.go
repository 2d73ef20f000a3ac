package homeassistant

import (
	"maps"
	"slices"
	"strings"
	"time"
)

const historyKeys = "start_time! end_time entity_ids! include_start_time_state significant_changes_only minimal_response no_attributes"

// commands lists everything that the house understands. It is filled when the package starts,
// because some of its functions refer to it.
var commands = map[string]command{
	"supported_features": {keys: "features!", does: func(c *conn, _ int, m attrs) (any, bool, *refusal) {
		f, no := object(m, "features")
		n, _ := number(f["coalesce_messages"])
		c.many = n > 0
		return nil, false, no
	}},
	"ping": {does: func(c *conn, id int, _ attrs) (any, bool, *refusal) {
		c.send(attrs{"id": id, "type": "pong"})
		return nil, true, nil
	}},
	"auth/current_user": {does: func(c *conn, _ int, _ attrs) (any, bool, *refusal) {
		return attrs{"id": c.who.id, "name": c.who.name, "is_owner": c.who.owner, "is_admin": c.who.admin, "credentials": []any{}, "mfa_modules": []any{}}, false, nil
	}},
	"auth/long_lived_access_token": {keys: "client_name! lifespan client_icon", does: func(c *conn, _ int, _ attrs) (any, bool, *refusal) {
		if len(c.h.tokens) >= maxExtra {
			return nil, false, refuse("unknown_error", "Unknown error")
		}
		token := "eyJ." + c.h.newID(c.h.now()) + "." + c.h.newID(c.h.now())
		c.h.tokens[token] = c.who.id
		return token, false, nil
	}},
	"get_states": {does: just(func(h *House) any {
		out := make([]any, 0, len(h.order))
		for _, id := range h.order {
			out = append(out, h.entities[id].now().json(id))
		}
		return out
	})},
	"get_config":   {does: just(func(h *House) any { return h.config() })},
	"get_services": {does: just(func(h *House) any { return h.serviceList() })},
	"get_panels": {does: just(func(*House) any {
		return attrs{"lovelace": attrs{"component_name": "lovelace", "url_path": "lovelace"}}
	})},
	"subscribe_events":   {keys: "event_type", does: subscribeEvents},
	"subscribe_entities": {keys: "entity_ids include exclude", does: subscribeEntities},
	"unsubscribe_events": {keys: "subscription!", does: unsubscribe},
	"call_service":       {keys: "domain! service! service_data target return_response", does: callService},
	"fire_event": {keys: "event_type! event_data", admin: true, does: func(c *conn, _ int, m attrs) (any, bool, *refusal) {
		data, no := object(m, "event_data")
		if no != nil {
			return nil, false, no
		}
		ctx := origin{id: c.h.newID(c.h.now()), user: c.who.id}
		c.h.emit(event{kind: text(m, "event_type"), at: c.h.now(), ctx: ctx, data: data})
		return attrs{"context": ctx.json()}, false, nil
	}},
	"render_template": {keys: "template! variables entity_ids timeout strict report_errors", does: renderTemplate},
	"extract_from_target": {keys: "target! expand_group", does: plain(func(h *House, m attrs) (any, *refusal) {
		t, no := object(m, "target")
		if no != nil {
			return nil, no
		}
		found, no := h.find("homeassistant", t)
		if no != nil {
			return nil, no
		}
		ents, devs, areas := []any{}, []any{}, []any{}
		for _, e := range found {
			ents = append(ents, e.id)
			if e.device != nil && !slices.Contains(devs, any(e.device.id)) {
				devs = append(devs, e.device.id)
			}
			if a := e.areaID(); a != "" && !slices.Contains(areas, any(a)) {
				areas = append(areas, a)
			}
		}
		none := []any{}
		return attrs{"referenced_entities": ents, "referenced_devices": devs, "referenced_areas": areas, "missing_devices": none, "missing_areas": none, "missing_floors": none, "missing_labels": none}, nil
	})},
	"manifest/list": {keys: "integrations", does: just(func(h *House) any {
		var out []any
		for _, c := range h.components() {
			out = append(out, attrs{"domain": c, "name": strings.ToUpper(c[:1]) + strings.ReplaceAll(c[1:], "_", " "), "is_built_in": true, "integration_type": "integration"})
		}
		return out
	})},
	"entity/source": {keys: "entity_id", does: just(func(h *House) any {
		out := attrs{}
		for _, id := range h.order {
			out[id] = attrs{"domain": h.entities[id].platform}
		}
		return out
	})},

	// Zones created by a user; zone.home belongs to the core configuration.
	"zone/list": {does: just(func(*House) any { return []any{} })},

	"config/area_registry/list":   {does: just(func(h *House) any { return h.areaList() })},
	"config/device_registry/list": {does: just(func(h *House) any { return h.deviceList() })},
	"config/entity_registry/list": {does: just(func(h *House) any { return h.entityList() })},
	"config/floor_registry/list": {does: just(func(h *House) any {
		out := []any{}
		for i, f := range floors {
			out = append(out, attrs{"floor_id": f.id, "name": f.name, "level": i, "icon": nil, "aliases": []any{}, "created_at": 0.0, "modified_at": 0.0})
		}
		return out
	})},
	"config/label_registry/list": {does: just(func(h *House) any {
		out := []any{}
		for _, id := range slices.Sorted(maps.Keys(h.labels)) {
			out = append(out, attrs{"label_id": id, "name": id, "color": nil, "icon": nil, "description": nil, "created_at": 0.0, "modified_at": 0.0})
		}
		return out
	})},
	"config/category_registry/list":           {keys: "scope!", does: just(func(*House) any { return []any{} })},
	"config/entity_registry/list_for_display": {does: just(func(h *House) any { return h.display() })},
	"config/entity_registry/get": {keys: "entity_id!", does: plain(func(h *House, m attrs) (any, *refusal) {
		e := h.entities[text(m, "entity_id")]
		if e == nil || e.uid == "" {
			return nil, refuse(codeNotFound, "Entity not found")
		}
		return e.registry(), nil
	})},
	"config/entity_registry/update": {keys: "entity_id! name area_id", admin: true, does: plain(func(h *House, m attrs) (any, *refusal) {
		e := h.entities[text(m, "entity_id")]
		if e == nil || e.uid == "" {
			return nil, refuse(codeNotFound, "Entity not found")
		}
		if _, ok := m["name"]; ok {
			h.rename(e.id, text(m, "name"))
		}
		if _, ok := m["area_id"]; ok {
			h.move(e.id, text(m, "area_id"))
		}
		return attrs{"entity_entry": e.registry()}, nil
	})},
	"search/related": {keys: "item_type! item_id!", does: plain(func(h *House, m attrs) (any, *refusal) {
		kinds := []string{"area", "automation", "automation_blueprint", "config_entry", "device", "entity", "floor", "group", "integration", "label", "person", "scene", "script", "script_blueprint"}
		if !slices.Contains(kinds, text(m, "item_type")) {
			return nil, refuse(codeFormat, "value must be one of %s for dictionary value @ data['item_type']. Got %q", kinds, text(m, "item_type"))
		}
		return h.related(text(m, "item_type"), text(m, "item_id")), nil
	})},
	"system_log/list": {admin: true, does: just(func(h *House) any { return h.systemLog() })},
	"config/automation/config": {keys: "entity_id!", does: plain(func(h *House, m attrs) (any, *refusal) {
		e := h.entities[text(m, "entity_id")]
		if e == nil || e.domain != "automation" {
			return nil, refuse(codeNotFound, "Entity not found")
		}
		return attrs{"config": e.routine.config()}, nil
	})},
	"trace/list": {keys: "domain! item_id", admin: true, does: plain(func(h *House, m attrs) (any, *refusal) {
		out := []any{}
		for _, mo := range h.moments {
			e := h.entities[mo.entity]
			if e == nil || mo.domain != text(m, "domain") || m["item_id"] != nil && e.now().attrs["id"] != m["item_id"] {
				continue
			}
			out = append(out, attrs{"run_id": hex32(mo.ctx.id), "domain": mo.domain, "item_id": e.now().attrs["id"], "state": "stopped", "script_execution": "finished", "trigger": mo.message, "timestamp": attrs{"start": stamp(mo.at), "finish": stamp(mo.at.Add(80 * time.Millisecond))}})
		}
		return out[max(0, len(out)-5):], nil // the last five, as in the real one
	})},
	"config_entries/get": {keys: "type_filter domain", admin: true, does: plain(func(h *House, m attrs) (any, *refusal) {
		seen := map[string]bool{}
		out := []any{}
		for _, id := range h.order {
			p := h.entities[id].platform
			if p == "" || seen[p] || m["domain"] != nil && text(m, "domain") != p {
				continue
			}
			seen[p] = true
			out = append(out, attrs{"entry_id": entryOf(p), "domain": p, "title": p, "source": "user", "state": "loaded", "supports_options": false, "supports_unload": true, "disabled_by": nil, "reason": nil})
		}
		return out, nil
	})},
	"frontend/get_themes": {does: just(func(*House) any {
		return attrs{"themes": attrs{}, "default_theme": "default", "default_dark_theme": nil}
	})},
	// Assist's own agent, which every installation has.
	"conversation/agent/list": {keys: "language country", does: just(func(*House) any {
		return attrs{"agents": []any{attrs{"id": "conversation.home_assistant", "name": "Home Assistant", "supported_languages": []any{"en"}}}}
	})},
	// Every Core supports backups. Nobody has made one here.
	"backup/info": {admin: true, does: just(func(*House) any {
		return attrs{
			"agent_errors": attrs{}, "backups": []any{}, "last_action_event": nil, "last_attempted_automatic_backup": nil, "last_completed_automatic_backup": nil,
			"next_automatic_backup": nil, "next_automatic_backup_additional": false, "state": "idle",
		}
	})},
	"repairs/list_issues":              {does: just(func(*House) any { return attrs{"issues": []any{}} })},
	"homeassistant/expose_entity/list": {admin: true, does: just(func(*House) any { return attrs{"exposed_entities": attrs{}} })},

	"history/history_during_period": {keys: historyKeys, does: plain(func(h *House, m attrs) (any, *refusal) {
		w, no := h.historySpan(m)
		if no != nil {
			return nil, no
		}
		if w.from.After(h.now()) {
			return attrs{}, nil
		}
		return h.historyWS(w), nil
	})},
	"history/stream": {keys: historyKeys, does: historyStream},
	"logbook/get_events": {keys: "start_time! end_time entity_ids device_ids context_id", does: plain(func(h *House, m attrs) (any, *refusal) {
		w, no := h.span(m)
		if no != nil {
			return nil, no
		}
		return rows(h.logbook(w), false), nil
	})},
	"logbook/event_stream": {keys: "start_time! end_time entity_ids device_ids", does: logbookStream},
	"recorder/statistics_during_period": {keys: "start_time! end_time statistic_ids! period! units types", does: plain(func(h *House, m attrs) (any, *refusal) {
		w, no := h.span(m)
		if no != nil {
			return nil, no
		}
		step := map[string]time.Duration{"5minute": m5, "hour": h1, "day": 24 * h1}[text(m, "period")]
		ids, _ := texts(m["statistic_ids"])
		if step == 0 || w.to.Sub(w.from)/step > maxRecords {
			return nil, refuse(codeFormat, "value must be one of ['5minute', 'day', 'hour'] for dictionary value @ data['period']")
		}
		out := attrs{}
		for _, id := range ids {
			if s := h.statistics(id, w.from, w.to, step); s != nil {
				out[id] = s
			}
		}
		return out, nil
	})},
}
