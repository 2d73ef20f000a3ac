package homeassistant_test

import (
	"bytes"
	"image/png"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text, data := r.ok("ha_history", with(lastNight, m{"entities": []string{"sensor.mains_voltage_l1", "light.bedroom_ceiling", "binary_sensor.heat_pump_compressor"}}))
	has(t, text,
		"min 196.3 V at 2026-11-20 23:17:05Z", "unusual values:", "2026-11-20 22:34:10Z 201.8 V", "2026-11-21 00:26:48Z 197.7 V",
		"light.bedroom_ceiling (Bedroom ceiling)", "unavailable 0.0%", "without a value:", "for 3s (unavailable)", "is kept as the image ha_history-")
	first := data["entities"].([]any)[0].(map[string]any)
	if first["min"] != 196.3 || first["mean"].(float64) < 229 || first["mean"].(float64) > 233 || first["changes"].(float64) < 600 {
		t.Errorf("got %v", first)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.files) != 2 || r.files[0].MediaType != "image/png" || r.files[0].Name != data["plot"] {
		t.Fatalf("got %d files, want the plot that the answer names", len(r.files))
	}
	img, err := png.Decode(bytes.NewReader(r.files[0].Body))
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != 1440 || b.Dy() < 450 {
		t.Errorf("got a plot of %v", b)
	}
}

func TestHistoryWithoutAPlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, data := r.ok("ha_history", m{"entities": []string{"sensor.living_room_co2"}, "plot": false, "hours": 2})
	if data["plot"] != nil || len(r.files) != 0 {
		t.Errorf("got a plot that was not asked for")
	}
	text, _ := r.ok("ha_history", m{"entities": []string{"sensor.living_room_co2"}, "start": "2026-10-01", "hours": 3})
	has(t, text, "nothing is recorded in this time")
	r.refused("ha_history", m{"entities": []string{"sensor.nope"}}, parley.CodeNotFound, "no entity")
	r.refused("ha_history", m{"entities": []string{"light.*"}}, parley.CodeTooLarge, "at most 8")
	r.refused("ha_history", m{"entities": []string{"light.garden"}, "start": "-1000h"}, parley.CodeInvalid, "longer than 31 days")
}

func TestAnalyze(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		sql  string
		more m
		says string
	}{
		{"SELECT count(*) AS n FROM areas", nil, "n\n10"},
		{"SELECT d.manufacturer, count(*) FROM devices d GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1", nil, "IKEA of Sweden | 11"},
		{"SELECT entity_id, at, value FROM history WHERE entity_id = 'sensor.mains_voltage_l1' AND value < 207 ORDER BY at", lastNight, "sensor.mains_voltage_l1 | 2026-11-20 23:17:05.000 | 196.3"},
		{
			"SELECT h.entity_id, h.state, count(*) AS times FROM history h JOIN history v ON v.entity_id = 'sensor.mains_voltage_l1' AND v.value < 207 AND h.ts BETWEEN v.ts - 5 AND v.ts + 5 WHERE h.entity_id <> v.entity_id GROUP BY 1, 2 ORDER BY 3 DESC, 1",
			with(lastNight, m{"entities": []string{"sensor.mains_voltage_l1", "light.*", "binary_sensor.*"}}), "binary_sensor.heat_pump_compressor | on | 5",
		},
		{"WITH x AS (SELECT round(sum(value*seconds)/sum(seconds), 0) AS mean FROM history WHERE entity_id LIKE 'sensor.mains_voltage_l_') SELECT mean FROM x", lastNight, "mean\n231"},
		{"SELECT name, message FROM logbook WHERE entity_id = 'automation.mains_voltage_alert' LIMIT 1", lastNight, "Mains voltage alert | triggered by"},
		{"SELECT integration, sum(count) FROM errors GROUP BY 1 ORDER BY 2 DESC LIMIT 1", nil, "tuya | 27"},
		{"SELECT json_extract(attributes, '$.temperature') FROM states WHERE entity_id = 'climate.bedroom_radiator';", nil, "18"},
		{"SELECT 9e999, NULL, x'00ff'", nil, "+Inf | NULL | (2 bytes)"},
		{"SELECT group_concat(type) FROM sqlite_schema", nil, "table,table"},
	} {
		text, _ := r.ok("ha_analyze", with(m{"sql": c.sql}, c.more))
		has(t, text, c.says)
	}
	text, data := r.ok("ha_analyze", m{"sql": "SELECT entity_id FROM states", "limit": 5})
	has(t, text, "5 rows (there are more")
	if data["truncated"] != true {
		t.Error("nothing says that it was cut")
	}
	res := r.run("ha_analyze", m{"sql": "SELECT * FROM states s, areas", "limit": 2000})
	if res.Artifact == nil || !strings.Contains(res.Output, "artifact") {
		t.Errorf("a large answer is no artifact: %.200s", res.Output)
	}
}

// TestAnalyzeOnlyReads: nothing but one SELECT runs, and not for ever.
func TestAnalyzeOnlyReads(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, sql := range []string{
		"DELETE FROM states", "INSERT INTO areas VALUES('a','b','c')", "UPDATE states SET state='x'", "DROP TABLE states", "CREATE TABLE t(x)", "CREATE TEMP TABLE t(x)",
		"ATTACH '/etc/passwd' AS p", "ATTACH ':memory:' AS p", "DETACH main", "PRAGMA table_info(states)", "PRAGMA journal_mode=WAL", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s",
		"REINDEX", "ANALYZE", "CREATE VIRTUAL TABLE v USING fts5(x)", "WITH x AS (SELECT 1) DELETE FROM states", "ALTER TABLE states RENAME TO s",
		"SELECT * FROM pragma_database_list",
	} {
		r.refused("ha_analyze", m{"sql": sql}, parley.CodeForbidden, "only one SELECT is allowed")
	}
	for _, sql := range []string{
		"SELECT 1; SELECT 2", "VACUUM INTO 'x'", "VACUUM", "SELECT 1; DELETE FROM states", "SELECT ?", "SELECT nosuch FROM states", "SELEC 1", "-- nothing", "SELECT load_extension('x')", "SELECT readfile('/etc/passwd')", "SELECT * FROM nosuch",
	} {
		r.refused("ha_analyze", m{"sql": sql}, parley.CodeInvalid)
	}
	r.refused("ha_analyze", m{"sql": "SELECT length(zeroblob(100000000))"}, parley.CodeTooLarge)
	_, data := r.ok("ha_analyze", m{"sql": "SELECT count(*) FROM states"})
	if n := data["rows"].([]any)[0].([]any)[0].(float64); n < 100 {
		t.Errorf("got %v states, want all of them", n)
	}
}

func TestAnalyzeEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *sim.Options, o *homeassistant.Options) { homeassistant.SetQueryTime(o, 0) })
	r.refused("ha_analyze", m{"sql": "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM x) SELECT count(*) FROM x"}, parley.CodeTimeout, "was stopped")
}
