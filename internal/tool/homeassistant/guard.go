package homeassistant

import (
	"strings"
	"unicode/utf8"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
)

// Queries run within limits. SQLite checks for an interrupt between its operations, not within
// one, so no single operation may take long. Operations whose cost is the product of two lengths
// are forbidden, or replaced by our own, whose cost is the sum.

const (
	maxText    = 256 << 10 // bytes of one value
	maxSQL     = 16 << 10  // bytes of the query, which bounds the values that it can hold at once
	maxPattern = 100       // bytes of the pattern of LIKE and GLOB, which is compared at each byte of the text
	maxColumns = 100       // of the answer and of each table in between
	maxSelects = 100       // each may hold a table of 2 MB in memory before it spills to a temporary file
)

// guard lets only reads pass. SQLite asks it while a statement is compiled, so a forbidden
// statement never runs.
type guard struct {
	selects int
	many    bool // set when the query has too many SELECTs
}

// Authorize implements zombie.Authorizer.
func (g *guard) Authorize(a zombie.Action) zombie.AuthResult {
	switch a.Type() {
	case zombie.OpRead, zombie.OpRecursive, zombie.OpFunction:
		return zombie.AuthResultOK
	case zombie.OpSelect:
		if g.selects++; g.selects > maxSelects {
			g.many = true
			return zombie.AuthResultDeny
		}
		return zombie.AuthResultOK
	}
	return zombie.AuthResultDeny
}

// allowed lists the functions that a query may call. The others look at the machine, are useless
// over these tables, or take unbounded time (unhex with a set of characters, json_patch).
const allowed = `
	abs avg cast ceil ceiling char coalesce concat concat_ws count cume_dist date datetime degrees dense_rank exp
	first_value floor format glob group_concat hex ifnull iif if instr julianday lag last_value lead length like likelihood
	likely ln log log10 log2 lower ltrim max min mod ntile nth_value nullif octet_length percent_rank pi pow power printf
	quote radians random randomblob rank replace round row_number rtrim sign soundex sqlite_version sqrt current_timestamp current_date current_time json_pretty strftime string_agg
	substr substring sum time timediff total trim trunc typeof unicode unixepoch unlikely upper zeroblob
	acos acosh asin asinh atan atan2 atanh cos cosh sin sinh tan tanh
	json json_array json_array_length json_extract json_group_array json_group_object json_object json_quote json_type
	json_valid json_set json_insert json_replace json_remove -> ->>`

var functions = func() map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Fields(allowed) {
		set[name] = true
	}
	return set
}()

// without removes all functions that are not listed, because a new version of SQLite may add
// some.
func (m *memory) without() error {
	s, _, err := m.conn.PrepareTransient("PRAGMA function_list")
	if err != nil {
		return err
	}
	defer s.Finalize() //nolint:errcheck // nothing was written
	type function struct {
		name  string
		nargs int
	}
	var list []function
	for {
		row, err := s.Step()
		if err != nil {
			return err
		}
		if !row {
			break
		}
		if f := (function{s.GetText("name"), int(s.GetInt64("narg"))}); !functions[f.name] {
			list = append(list, f)
		}
	}
	for _, f := range list {
		err := m.conn.CreateFunction(f.name, &zombie.FunctionImpl{NArgs: f.nargs, Deterministic: true, Scalar: func(zombie.Context, []zombie.Value) (zombie.Value, error) {
			m.failed = parley.Errorf(parley.CodeInvalid, "SQL: there is no function %s here", f.name).WithField("sql").WithHint("use SQLite's functions for text, numbers, dates, windows and JSON")
			return zombie.Value{}, nil
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

func tooBig() error {
	return parley.Errorf(parley.CodeTooLarge, "a value in the query has more than %d bytes", maxText).WithField("sql")
}

// own replaces SQLite functions whose cost is the product of their arguments' lengths by ones
// whose cost is the sum. Their results are the same as SQLite's.
func (m *memory) own() error {
	for _, f := range []struct {
		name  string
		nargs int
		of    func(args []zombie.Value) (_ zombie.Value, fits bool)
	}{
		{"instr", 2, instr},
		{"replace", 3, replace},
		{"trim", 2, trimmer(strings.TrimFunc)},
		{"ltrim", 2, trimmer(strings.TrimLeftFunc)},
		{"rtrim", 2, trimmer(strings.TrimRightFunc)},
	} {
		err := m.conn.CreateFunction(f.name, &zombie.FunctionImpl{NArgs: f.nargs, Deterministic: true, Scalar: func(_ zombie.Context, args []zombie.Value) (zombie.Value, error) {
			for i, a := range args {
				if a.Type() == zombie.TypeNull && (i < 2 || args[1].Text() != "") {
					return zombie.Value{}, nil
				}
			}
			v, ok := f.of(args)
			if !ok {
				m.failed = tooBig()
			}
			return v, nil
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

func instr(args []zombie.Value) (zombie.Value, bool) {
	in, what := args[0].Text(), args[1].Text()
	i := strings.Index(in, what)
	if i >= 0 && (args[0].Type() != zombie.TypeBlob || args[1].Type() != zombie.TypeBlob) {
		i = utf8.RuneCountInString(in[:i])
	}
	return zombie.IntegerValue(int64(i) + 1), true
}

func replace(args []zombie.Value) (zombie.Value, bool) {
	in, old, by := args[0].Text(), args[1].Text(), args[2].Text()
	if old == "" {
		return zombie.TextValue(in), true
	}
	if len(in)+strings.Count(in, old)*(len(by)-len(old)) > maxText {
		return zombie.Value{}, false
	}
	return zombie.TextValue(strings.ReplaceAll(in, old, by)), true
}

func trimmer(trim func(string, func(rune) bool) string) func(args []zombie.Value) (zombie.Value, bool) {
	return func(args []zombie.Value) (zombie.Value, bool) {
		set := map[rune]bool{}
		for _, r := range args[1].Text() {
			set[r] = true
		}
		return zombie.TextValue(trim(args[0].Text(), func(r rune) bool { return set[r] })), true
	}
}
