package homeassistant

// spec is the declaration of a tool, apart from its description, which is in a Markdown file of
// the same name.
type spec struct{ name, input, output, safety string }

const (
	defsSpan = `
		"start": {"type": "string", "description": "begin of the time looked at: 2026-11-20 22:00 (the house's own time), 2026-11-20T22:00:00Z, yesterday 22:00, or -12h; words for a time, such as last night, tonight, today, this morning, yesterday evening, friday or last week, name its begin and its end"},
		"end": {"type": "string", "description": "its end, in the same forms; default now"},
		"hours": {"type": "number", "minimum": 0.01, "maximum": 744, "description": "its length, when start or end is left out; default 24"}`
	defsFilter = `
		"query": {"type": "string", "description": "words of names, ids, areas, devices or makers; misspelt words are found too"},
		"domain": {"type": "string", "description": "light, switch, sensor, binary_sensor, climate ..."},
		"area": {"type": "string", "description": "name or id of an area or a floor"},
		"device_class": {"type": "string", "description": "temperature, motion, voltage, door ..."},
		"state": {"type": "string", "description": "only what is in this state: on, off, unavailable ..."},
		"device": {"type": "string", "description": "name or id of a device"},
		"integration": {"type": "string", "description": "zha, mqtt, hue ..."}`
	outAge    = `{"type": "object", "properties": {"live": {"type": "boolean"}, "age_s": {"type": "number"}, "entities": {"type": "integer"}, "reason": {"type": "string"}}, "required": ["live", "age_s"]}`
	outItem   = `{"type": "object", "properties": {"entity_id": {"type": "string"}, "name": {"type": "string"}, "state": {"type": "string"}, "unit": {"type": "string"}, "area": {"type": "string"}, "last_changed": {"type": "string"}}, "required": ["entity_id", "name", "state"]}`
	outRow    = `{"type": "object", "properties": {"at": {"type": "string"}, "entity_id": {"type": "string"}, "name": {"type": "string"}, "text": {"type": "string"}, "caused_by": {"type": "string"}, "by_person": {"type": "boolean"}, "person": {"type": "string"}}, "required": ["at", "name", "text"]}`
	outPast   = `{"type": "object", "properties": {"entity_id": {"type": "string"}, "name": {"type": "string"}, "unit": {"type": "string"}, "samples": {"type": "integer"}, "changes": {"type": "integer"}, "min": {"type": "number"}, "max": {"type": "number"}, "mean": {"type": "number"}, "min_at": {"type": "string"}, "max_at": {"type": "string"}, "recorded_from": {"type": "string"}, "share": {"type": "object"}, "unusual": {"type": "array"}, "gaps": {"type": "array"}, "recent_changes": {"type": "array"}}, "required": ["entity_id", "samples", "changes"]}`
	outErrors = `{"type": "object", "properties": {"integration": {"type": "string"}, "level": {"type": "string"}, "message": {"type": "string"}, "count": {"type": "integer"}, "first": {"type": "string"}, "last": {"type": "string"}, "likely_entities": {"type": "array", "items": {"type": "string"}}, "about": {"type": "string"}, "about_integration": {"type": "boolean"}, "examples": {"type": "array", "items": {"type": "string"}}}, "required": ["integration", "level", "count", "first", "last"]}`
)

func object(properties, required string) string {
	s := `{"type": "object", "properties": {` + properties + `}, "additionalProperties": false`
	if required != "" {
		s += `, "required": [` + required + `]`
	}
	return s + `}`
}

func result(properties, required string) string {
	return `{"type": "object", "properties": {` + properties + `}, "required": [` + required + `]}`
}

const safeRead = "reads from Home Assistant, changes nothing"

var specs = []spec{
	{
		DiagnoseEntity,
		object(`"entity": {"type": "string", "minLength": 1, "description": "entity id, or its full name"},`+defsSpan, `"entity"`),
		result(`"index": `+outAge+`, "from": {"type": "string"}, "to": {"type": "string"}, "entity": `+outItem+`, "findings": {"type": "array", "items": {"type": "string"}},
			"availability": {"type": "object"}, "history": `+outPast+`, "episodes": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "string"}, "what": {"type": "string"}}, "required": ["at", "what"]}},
			"changed_together": {"type": "array", "items": {"type": "object"}}, "caused_by": {"type": "object"}, "device_siblings": {"type": "array", "items": `+outItem+`}, "members": {"type": "array", "items": {"type": "object"}}, "related": {"type": "object"},
			"logbook": {"type": "array", "items": `+outRow+`}, "errors": {"type": "array", "items": `+outErrors+`}, "missing": {"type": "array", "items": {"type": "string"}}`,
			`"from", "to", "entity", "findings", "availability", "history", "episodes"`),
		safeRead,
	},
	{
		AnalyzeErrors,
		object(`"query": {"type": "string", "description": "words to look for"}, "entity": {"type": "string", "description": "only what is likely about this entity"},
			"level": {"type": "string", "enum": ["WARNING", "ERROR", "CRITICAL"]}, "since": {"type": "string", "description": "only what happened after: -12h, yesterday 22:00, last night, 2026-11-20 22:00"},
			"limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "groups; default 20"}`, ``),
		result(`"read_from": {"type": "string"}, "total": {"type": "integer"}, "by_level": {"type": "object"}, "by_thing": {"type": "object"}, "by_integration": {"type": "object"}, "groups": {"type": "array", "items": `+outErrors+`}`, `"total", "groups"`),
		safeRead,
	},
	{
		IndexSearch,
		object(defsFilter+`, "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "default 20"}`, ``),
		result(`"index": `+outAge+`, "total": {"type": "integer"}, "entities": {"type": "array", "items": `+outItem+`}, "areas": {"type": "array", "items": {"type": "string"}}`, `"index", "total", "entities"`),
		safeRead,
	},
	{
		StateQuery,
		object(`"entities": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 100, "description": "ids, full names, or patterns such as sensor.mains_*"},`+defsFilter+`,
			"attributes": {"type": "boolean", "description": "with attributes; default when five entities or fewer are meant"}, "limit": {"type": "integer", "minimum": 1, "maximum": 100}`, ``),
		result(`"index": `+outAge+`, "read": {"type": "string", "enum": ["live", "index"]}, "total": {"type": "integer"}, "by_state": {"type": "object"}, "entities": {"type": "array", "items": `+outItem+`}`, `"index", "read", "total", "entities"`),
		safeRead,
	},
	{
		History,
		object(`"entities": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": 8, "description": "ids, full names, or patterns; at most eight entities"},`+defsSpan+`,
			"plot": {"type": "boolean", "description": "keep an image of it beside the answer; default true"}`, `"entities"`),
		result(`"from": {"type": "string"}, "to": {"type": "string"}, "entities": {"type": "array", "items": `+outPast+`}, "plot": {"type": "string"}, "chart": {"type": "string"}`, `"from", "to", "entities"`),
		safeRead,
	},
	{
		Logbook,
		object(`"entities": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 50, "description": "ids, full names, or patterns; all when left out"},
			"area": {"type": "string", "description": "only what is in this area"}, "query": {"type": "string", "description": "only lines with one of these words"},`+defsSpan+`,
			"limit": {"type": "integer", "minimum": 1, "maximum": 200, "description": "the last so many; default 60"}`, ``),
		result(`"from": {"type": "string"}, "to": {"type": "string"}, "total": {"type": "integer"}, "rows": {"type": "array", "items": `+outRow+`}`, `"from", "to", "total", "rows"`),
		safeRead,
	},
	{
		CallService,
		object(`"service": {"type": "string", "pattern": "^[a-z0-9_]+\\.[a-z0-9_]+$", "description": "domain.service, such as light.turn_on"},
			"target": {"type": "object", "properties": {
				"entity_id": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": 50}]},
				"device_id": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": 20}]},
				"area_id": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "maxItems": 20}]}}, "additionalProperties": false, "description": "what it acts on; ids only"},
			"data": {"type": "object", "properties": {"brightness_pct": {"type": "number", "description": "of lights, 0 to 100"}, "temperature": {"type": "number", "description": "of climate devices"}},
				"description": "the service's own fields, those named here and any other"},
			"return_response": {"type": "boolean", "description": "true only for services that answer with data, such as weather.get_forecasts"}`, `"service"`),
		result(`"service": {"type": "string"}, "context_id": {"type": "string"}, "entities": {"type": "array", "items": {"type": "object", "properties": {"entity_id": {"type": "string"}, "before": {"type": "string"}, "after": {"type": "string"}, "as_asked": {"type": "boolean"}}, "required": ["entity_id", "before", "after"]}}, "response": {}`, `"service", "entities"`),
		"changes the house; only services on the list of allowed ones",
	},
	{
		Analyze,
		object(`"sql": {"type": "string", "minLength": 1, "description": "one SELECT of SQLite; WITH is fine"},
			"entities": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 500, "description": "whose history is loaded: ids or patterns; default those named in the SQL, else all when they are at most 150"},
			"area": {"type": "string", "description": "load the history of this area"}, "domain": {"type": "string", "description": "load the history of this domain"},`+defsSpan+`,
			"limit": {"type": "integer", "minimum": 1, "maximum": 10000, "description": "rows; default 200"}`, `"sql"`),
		result(`"from": {"type": "string"}, "to": {"type": "string"}, "columns": {"type": "array", "items": {"type": "string"}}, "rows": {"type": "array", "items": {"type": "array"}}, "truncated": {"type": "boolean"}, "loaded": {"type": "object"}`, `"columns", "rows", "truncated"`),
		"reads from Home Assistant into memory; nothing but SELECT runs",
	},
}
