package homeassistant_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

// Pieces of questions that want to run for ever.
const (
	forever = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM x) "
	large   = "hex(zeroblob(131000))" // nearly the largest value
	half    = "hex(zeroblob(65000))"
)

// TestAnalyzeAttacked: whatever is asked, the answer or the refusal is there soon
// after the limit of time.
func TestAnalyzeAttacked(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	r := newRig(t, func(_ *sim.Options, o *homeassistant.Options) { homeassistant.SetQueryTime(o, limit) })
	in := make([]string, 1200)
	for i := range in {
		in[i] = fmt.Sprintf("'light.no_%d'", i)
	}
	doubled := "WITH a0 AS (SELECT 1 x)"
	for i := range 30 {
		doubled += fmt.Sprintf(", a%d AS (SELECT p.x FROM a%d p, a%d q)", i+1, i, i)
	}
	for name, c := range map[string]struct {
		sql  string
		code parley.Code // "": it is answered
	}{
		"like, many wildcards":      {"SELECT " + large + " LIKE '" + strings.Repeat("%0", 48) + "1'", ""},
		"like, backtracking":        {"SELECT " + large + " LIKE '" + strings.Repeat("%0_", 32) + "1'", ""},
		"like, a long pattern":      {"SELECT " + large + " LIKE '" + strings.Repeat("%0", 2000) + "1'", parley.CodeInvalid},
		"like, a made pattern":      {"SELECT " + large + " LIKE replace(" + half + ", '00', '%0')", parley.CodeInvalid},
		"glob, sets":                {"SELECT " + large + " GLOB '" + strings.Repeat("*[0-9]", 16) + "x'", ""},
		"glob, many rows":           {forever + "SELECT count(*) FROM x WHERE " + large + "||n GLOB '" + strings.Repeat("*0", 48) + "1'", parley.CodeTimeout},
		"instr":                     {"SELECT instr(" + large + ", " + half + "||'1')", ""},
		"replace, no match":         {"SELECT length(replace(" + large + ", " + half + "||'1', ''))", ""},
		"replace, growing":          {"SELECT length(replace(" + half + ", '0', " + half + "))", parley.CodeTooLarge},
		"trim":                      {"SELECT length(trim(" + large + ", replace(" + half + ", '00', '12')||'0'))", ""},
		"unhex":                     {"SELECT unhex(" + large + ", " + half + ")", parley.CodeInvalid},
		"json_patch":                {"SELECT json_patch('{}', '{}')", parley.CodeInvalid},
		"json, nested":              {"SELECT json_extract(replace(" + half + ", '0', '['), '$[0]')", parley.CodeInvalid},
		"json, a row of each":       {forever + "SELECT count(*) FROM x, json_tree('[' || replace(" + half + ", '0', '0,') || '0]')", parley.CodeTimeout},
		"json_group_array":          {forever + "SELECT json_group_array(n) FROM x", parley.CodeTimeout},
		"group_concat":              {forever + "SELECT group_concat(n) FROM x", parley.CodeTimeout},
		"recursion":                 {forever + "SELECT count(*) FROM x", parley.CodeTimeout},
		"recursion, growing":        {"WITH RECURSIVE x(s) AS (SELECT 'ab' UNION ALL SELECT s||s FROM x) SELECT max(length(s)) FROM x", parley.CodeTooLarge},
		"recursion, all different":  {"WITH RECURSIVE x(n,s) AS (SELECT 1," + large + " UNION SELECT n+1, n||s FROM x LIMIT 100000) SELECT n FROM x", parley.CodeTooLarge},
		"names doubled":             {doubled + " SELECT count(*) FROM a30", parley.CodeInvalid},
		"printf":                    {"SELECT printf('%.*c', 1000000000, 'x')", parley.CodeTooLarge},
		"printf, wide":              {"SELECT printf('%1000000000d', 1)", parley.CodeTooLarge},
		"zeroblob":                  {"SELECT length(zeroblob(1000000000))", parley.CodeTooLarge},
		"randomblob":                {"SELECT length(randomblob(1000000000))", parley.CodeTooLarge},
		"cross join":                {"SELECT count(*) FROM states a, states b, states c, states d", parley.CodeTimeout},
		"sort, small rows":          {forever + "SELECT n FROM x ORDER BY random()", parley.CodeTimeout},
		"sort, large rows":          {"WITH RECURSIVE c AS MATERIALIZED (SELECT " + large + " h), x(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM x) SELECT n, h||n FROM x, c ORDER BY n DESC", parley.CodeTooLarge},
		"window":                    {forever + "SELECT sum(n) OVER (ORDER BY n DESC ROWS BETWEEN 1000 PRECEDING AND UNBOUNDED FOLLOWING) FROM x", parley.CodeTimeout},
		"deep":                      {"SELECT " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000), ""},
		"deep, a sum":               {"SELECT 1" + strings.Repeat("+1", 1000), parley.CodeInvalid},
		"many columns":              {"SELECT " + strings.Repeat(large+",", 500) + "1", parley.CodeInvalid},
		"many arguments":            {"SELECT coalesce(" + strings.Repeat("NULL,", 500) + "1)", parley.CodeInvalid},
		"many selects":              {"SELECT 1 WHERE 1" + strings.Repeat(" IN (SELECT 1)", 150), parley.CodeInvalid},
		"many compounds":            {"SELECT 1" + strings.Repeat(" UNION SELECT 1", 100), parley.CodeInvalid},
		"a long list":               {"SELECT count(*) FROM states WHERE entity_id IN (" + strings.Join(in[:700], ",") + ")", ""},
		"a longer list":             {"SELECT count(*) FROM states WHERE entity_id IN (" + strings.Join(in, ",") + ")", parley.CodeInvalid},
		"many joins":                {"SELECT count(*) FROM states a0" + joins(60), ""},
		"a file by fts5":            {"SELECT fts5_source_id()", parley.CodeInvalid},
		"load_extension":            {"SELECT load_extension('/tmp/x.so')", parley.CodeInvalid},
		"a function of the machine": {"SELECT sqlite_compileoption_get(1)", parley.CodeInvalid},
	} {
		began := time.Now()
		res := r.run("ha_analyze", m{"sql": c.sql})
		took := time.Since(began)
		switch {
		case res.Error != nil && res.Error.Code == parley.CodeTimeout: // it may be that slow a machine
		case c.code == parley.CodeTimeout && res.Error != nil && res.Error.Code == parley.CodeTooLarge: // or so fast that what it needs reaches its limit first
		case c.code == "" && res.Error != nil, c.code != "" && (res.Error == nil || res.Error.Code != c.code):
			t.Errorf("%s: got %+v, want %q", name, res.Error, c.code)
		}
		// A single operation takes a tenth of the limit; the rest allows for a busy machine.
		// Without limits they took thirty times as long.
		if took > 5*limit {
			t.Errorf("%s took %s, with a limit of %s", name, took, limit)
		}
	}
}

// TestAnalyzeKeepsLittleAside: with all the time there is, what does not fit into
// memory is refused, and what it took is given back.
func TestAnalyzeKeepsLittleAside(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *sim.Options, o *homeassistant.Options) { homeassistant.SetQueryTime(o, within) })
	r.refused("ha_analyze", m{"sql": "WITH RECURSIVE c AS MATERIALIZED (SELECT " + large + " h), x(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM x) SELECT n, h||n FROM x, c ORDER BY n DESC"}, parley.CodeTooLarge, "temporary storage")
	_, data := r.ok("ha_analyze", m{"sql": "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM x LIMIT 60000) SELECT sum(n), count(*) FROM (SELECT n, printf('%0100d', n) p FROM x ORDER BY p DESC LIMIT 60000)"})
	if got := fmt.Sprint(data["rows"]); got != "[[1.80003e+09 60000]]" {
		t.Errorf("got %s: what was kept aside is not what came back", got)
	}
}

func joins(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " JOIN states a%d ON a%d.entity_id = a%d.entity_id", i+1, i+1, i)
	}
	return b.String()
}

// TestAnalyzeFunctions: our replacements answer like SQLite's own functions, and every function
// of this SQLite has been reviewed.
func TestAnalyzeFunctions(t *testing.T) {
	t.Parallel()
	ours, theirs := homeassistant.Ask(t.Context(), true), homeassistant.Ask(t.Context(), false)
	values := []string{"NULL", "''", "'a'", "'aa'", "'banana'", "'über-ü'", "'ü'", "12.5", "-3", "x'616e'", "x'c3bc'", "x'ff61'", "'ana'"}
	var exprs []string
	for _, a := range values {
		for _, b := range values {
			exprs = append(exprs, fmt.Sprintf("instr(%s,%s)", a, b))
			for _, f := range []string{"trim", "ltrim", "rtrim"} {
				exprs = append(exprs, fmt.Sprintf("%s(%s,%s)", f, a, b))
			}
			for _, c := range []string{"NULL", "''", "'xyz'", "a"} {
				exprs = append(exprs, fmt.Sprintf("replace(%s,%s,%s)", a, b, strings.Replace(c, "a", a, 1)))
			}
		}
	}
	for _, e := range exprs {
		q := "SELECT typeof(" + e + "), hex(" + e + ")"
		if got, want := ours(q), theirs(q); got != want {
			t.Errorf("%s: got %s, want %s", e, got, want)
		}
	}
	var names []string
	if err := json.Unmarshal([]byte(theirs("SELECT json_group_array(DISTINCT name) FROM pragma_function_list")), &names); err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(homeassistant.Functions + `
		bm25 changes fts5 fts5_get_locale fts5_insttoken fts5_locale fts5_source_id geopoly_area geopoly_bbox geopoly_blob geopoly_ccw
		geopoly_contains_point geopoly_debug geopoly_group_bbox geopoly_json geopoly_overlap geopoly_regular geopoly_svg geopoly_within
		geopoly_xform highlight json_array_insert json_error_position json_patch jsonb jsonb_array jsonb_array_insert jsonb_extract
		jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set last_insert_rowid
		load_extension match rtreecheck rtreedepth rtreenode snippet sqlite_compileoption_get sqlite_compileoption_used sqlite_log
		sqlite_offset sqlite_source_id subtype total_changes unhex unistr unistr_quote`)
	seen := map[string]bool{}
	for _, n := range known {
		seen[n] = true
	}
	for _, n := range names {
		if !seen[n] {
			t.Errorf("SQLite has a function %s: does its time grow with the sum of its arguments' lengths?", n)
		}
	}
	if len(names) < 100 {
		t.Errorf("SQLite names %d functions", len(names))
	}
}
