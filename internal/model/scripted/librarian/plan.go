package librarian

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const exitPlan = "ExitPlanMode"

// planned takes the changes that were refused in plan mode out of the results. Once the plan is approved they are made
// anew; before that they are what is planned.
func (u *turn) planned() (Reply, bool) {
	var refused []Call
	u.Results = slices.DeleteFunc(slices.Clone(u.Results), func(r Result) bool {
		is := r.Failed && r.Tool != exitPlan && strings.Contains(r.Output, "plan mode")
		if is {
			refused = append(refused, Call{Tool: r.Tool, Input: r.Input})
		}
		return is
	})
	i := slices.IndexFunc(u.Results, func(r Result) bool { return r.Tool == exitPlan })
	if len(refused) == 0 || i >= 0 && !u.Results[i].Failed {
		return Reply{}, false
	}
	u.wants = refused
	return u.plan()
}

// plan asks for approval of the changes that are wanted, in plan mode, in which the tools for them are not there.
// After it was approved they are.
func (u *turn) plan() (Reply, bool) {
	if i := slices.IndexFunc(u.Results, func(r Result) bool { return r.Tool == exitPlan }); i >= 0 {
		return Reply{Say: "Nothing was changed: " + firstLine(u.Results[i].Output)}, true
	}
	if !slices.Contains(u.Tools, exitPlan) {
		return Reply{}, false
	}
	var b strings.Builder
	b.WriteString("What I want to do in the lake:\n")
	for i, c := range u.wants {
		fmt.Fprintf(&b, "\n%d. `%s`\n", i+1, c.Tool)
		for _, name := range slices.Sorted(maps.Keys(c.Input)) {
			if text := asWritten(c.Input[name]); strings.Contains(text, "\n") {
				fmt.Fprintf(&b, "   - %s:\n\n     ```\n     %s\n     ```\n", name, strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n     "))
			} else {
				fmt.Fprintf(&b, "   - %s: %s\n", name, text)
			}
		}
	}
	return Reply{Say: "This is a change, and the session is in plan mode.", Calls: []Call{{Tool: exitPlan, Input: map[string]any{"plan": b.String()}}}}, true
}

// asWritten is a value of a call for people: a text as it is, anything else as JSON.
func asWritten(v any) string {
	if text, is := v.(string); is {
		return text
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(b.String())
}
