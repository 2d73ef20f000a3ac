// Package tidier is what Tachikoma does without a provider: it looks through a lake with tidy_scan, judges the pairs of statements by
// the rules of package claim, and proposes with tidy_propose. What a reader would need the rest of the pages for it leaves to people.
package tidier

import (
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/claim"
	"github.com/parley-server/parley/internal/model/scripted/dialog"
	"github.com/parley-server/parley/internal/pattern"
)

const (
	scan    = "tidy_scan"
	propose = "tidy_propose"
)

var (
	// headOf is the first line of what tidy_scan lists: of which lake, and the day.
	headOf = pattern.New(`^\d+ pages of ("(?:[^"\\]|\\.)*") were looked at on (\d{4}-\d\d-\d\d)`)
	// pairOf is a pair of statements.
	pairOf = pattern.New(`(?m)^([0-9a-f]{12})\n(  [^\n]+)\n(  [^\n]+)$`)
	// statedOf is a statement with what it stands under.
	statedOf = pattern.New(`^  ([^\n]+?\.md):(\d+) \(([^();,]*)(?:, ([^();]*))?; ([^()]*)\): (.*)$`)
)

// Answer returns the reply for a turn, of which these are the results so far.
func Answer(results []dialog.Result) dialog.Reply {
	if len(results) == 0 {
		return dialog.Reply{Calls: []dialog.Call{{Tool: scan, Input: map[string]any{}}}}
	}
	last := results[len(results)-1]
	if last.Failed || last.Tool != scan {
		return dialog.Reply{Say: last.Output}
	}
	var w claim.World
	if m := headOf.FindStringSubmatch(last.Output); m != nil {
		w.Name, _ = strconv.Unquote(m[1])          // it is only a name
		w.Day, _ = time.Parse(time.DateOnly, m[2]) // without a day, no year is the present one
	}
	input := map[string]any{}
	var judged []any
	for _, m := range pairOf.FindAllStringSubmatch(last.Output, -1) {
		a, ok := statement(m[2])
		b, both := statement(m[3])
		if !ok || !both {
			continue
		}
		one := map[string]any{"id": m[1], "contradicts": false}
		if why, yes := w.Contradict(a, b); yes {
			one["contradicts"], one["here"], one["there"], one["why"] = true, a.Text, b.Text, why
		}
		judged = append(judged, one)
	}
	if judged != nil {
		input["contradictions"] = judged
	}
	return dialog.Reply{Calls: []dialog.Call{{Tool: propose, Input: input}}}
}

// statement reads one as tidy_scan lists it.
func statement(line string) (s claim.Statement, ok bool) {
	m := statedOf.FindStringSubmatch(line)
	if m == nil {
		return s, false
	}
	s = claim.Statement{Path: m[1], Kind: m[3], Status: m[4], Text: m[6]}
	s.Line, _ = strconv.Atoi(m[2])
	if m[5] != "" {
		s.Under = strings.Split(m[5], " › ")
	}
	return s, true
}
