package notebook

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	totals  = pattern.New(`(?i)\b(?:total|sum|altogether|all in all|in all|overall)\b`)
	average = pattern.New(`(?i)\b(?:average|mean|on average)\b`)
	most    = pattern.New(`(?i)\b(?:most|highest|maximum|max|longest|largest|biggest|greatest|slowest)\b`)
	least   = pattern.New(`(?i)\b(?:least|lowest|minimum|min|shortest|smallest|fewest|fastest)\b`)
)

// table is a CSV file.
type table struct {
	file    string
	columns []string
	rows    [][]string
}

func tableOf(t text) (out table, ok bool) {
	if t.wrong != "" || len(t.lines) < 2 || !t.whole {
		return table{}, false
	}
	out = table{file: t.file, columns: strings.Split(t.lines[0], ",")}
	for _, l := range t.lines[1:] {
		cells := strings.Split(l, ",")
		if strings.Contains(l, `"`) {
			return table{}, false // a field with commas in it
		}
		if len(cells) == len(out.columns) {
			out.rows = append(out.rows, cells)
		}
	}
	return out, len(out.rows) > 0
}

// value is a cell as a number.
func value(cell string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
	return v, err == nil
}

// figures are the columns of numbers.
func (t table) figures() (list []int) {
	for c := range t.columns {
		if !slices.ContainsFunc(t.rows, func(r []string) bool { _, ok := value(r[c]); return !ok }) {
			list = append(list, c)
		}
	}
	return list
}

// ofTable answers a question about sums and extremes of a CSV file; "": it is none.
func (u *turn) ofTable(q string) (string, bool) {
	kind := ""
	for k, re := range map[string]*pattern.Regexp{"sum": totals, "average": average, "most": most, "least": least} {
		if re.MatchString(q) {
			kind = k
		}
	}
	if kind == "" || strings.Contains(strings.ToLower(q), "at least") || strings.Contains(strings.ToLower(q), "at most") {
		return "", true
	}
	r, ok := u.one(glob("**/*.csv"))
	if !ok {
		return "", false
	}
	var files []string
	for _, f := range listing(r).list {
		if !strings.HasPrefix(f, "linkedin/") {
			files = append(files, f)
		}
	}
	files = files[:min(len(files), 8)]
	if len(files) == 0 {
		return "", true
	}
	list, ok := u.read(files...)
	if !ok {
		return "", false
	}
	best, at := 0.0, table{}
	recent := u.mentioned()
	for _, x := range list {
		t, is := tableOf(x)
		if !is || len(t.figures()) == 0 {
			continue
		}
		score := 0.0
		for _, w := range topics(q) {
			if has(wordsOf(strings.Join(t.columns, " ")), w) || has(wordsOf(base(t.file)), w) || has(wordsOf(folder(t.file)), w) {
				score += 2
			} else if slices.ContainsFunc(t.rows, func(r []string) bool { return has(wordsOf(strings.Join(r, " ")), w) }) {
				score++
			}
		}
		if len(recent) > 0 && recent[0] == t.file {
			score += 1.5
		}
		if score > best {
			best, at = score, t
		}
	}
	if best < 1.5 {
		return "", true
	}
	return at.answer(q, kind), true
}

// answer computes what a question asks for.
func (t table) answer(q, kind string) string {
	words := wordsOf(q)
	figures := t.figures()
	c := figures[0]
	for _, f := range figures {
		if has(words, wordsOf(t.columns[f] + " x")[0]) {
			c = f
			break
		}
	}
	rows, which := t.rows, ""
	for _, w := range words { // only the rows with a word of the question
		some := slices.DeleteFunc(slices.Clone(t.rows), func(r []string) bool {
			return !slices.ContainsFunc(r, func(cell string) bool { return stem(strings.TrimSpace(cell)) == stem(w) })
		})
		if len(some) > 0 && len(some) < len(rows) {
			rows, which = some, w
		}
	}
	name := t.columns[c]
	about := ""
	if which != "" {
		about = fmt.Sprintf(" of the %s with %q", counted(len(rows), "row"), which)
	}
	sum := 0.0
	for _, r := range rows {
		v, _ := value(r[c])
		sum += v
	}
	switch kind {
	case "sum":
		return fmt.Sprintf("The sum of %s%s is **%s** (%s in `%s`).", name, about, figure(sum), counted(len(rows), "row"), t.file)
	case "average":
		return fmt.Sprintf("The average of %s%s is **%s** (%s in `%s`).", name, about, figure(sum/float64(len(rows))), counted(len(rows), "row"), t.file)
	}
	slices.SortStableFunc(rows, func(a, b []string) int {
		x, _ := value(a[c])
		y, _ := value(b[c])
		if kind == "most" {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	})
	return fmt.Sprintf("%s: **%s** (the %s %s%s, in `%s`).", capital(rows[0][0]), row(t.columns[1:], rows[0][1:]), map[string]string{"most": "highest", "least": "lowest"}[kind], name, about, t.file)
}

func figure(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	whole, part, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if part != "" {
		whole += "." + part
	}
	return whole
}
