package loop

import (
	"slices"
	"testing"

	"github.com/parley-server/parley"
)

// TestInstead: where the model's provider runs a tool, it takes the place of the app's, unless
// somebody would be asked about that one.
func TestInstead(t *testing.T) {
	t.Parallel()
	rule := func(verdict parley.Verdict, tool string) func(*parley.App) {
		return func(app *parley.App) {
			app.Policy.Rules = append(app.Policy.Rules, parley.Rule{Verdict: verdict, Tool: tool})
		}
	}
	for name, c := range map[string]struct {
		has     []string
		change  func(*parley.App)
		theirs  bool
		offered bool
	}{
		"the provider has it":     {has: []string{"web_fetch", "web_search"}, theirs: true},
		"the provider has it not": {has: []string{"web_fetch"}, offered: true},
		"it is listed, too": {has: []string{"web_search"}, change: func(app *parley.App) {
			d := app.Agents["front"]
			d.ServerTools = []string{"web_search"}
			app.Agents["front"] = d
		}, theirs: true},
		"calls are asked for":       {has: []string{"web_search"}, change: rule(parley.Ask, "look"), offered: true},
		"some calls are denied":     {has: []string{"web_search"}, change: rule(parley.Deny, "look(secret*)"), offered: true},
		"all calls are denied":      {has: []string{"web_search"}, change: rule(parley.Deny, "look")},
		"other calls are asked for": {has: []string{"web_search"}, change: rule(parley.Ask, "add"), theirs: true},
	} {
		g := testGiven(func(app *parley.App) {
			app.Tools[0].Instead = "web_search"
			if c.change != nil {
				c.change(app)
			}
		})
		m := testModel
		m.ServerTools = c.has
		s := fold(t, parley.TurnStarted{}, parley.AgentStarted{Name: "front"})
		def := g.app.Agents["front"]
		theirs := g.serverTools(s, m, def)
		if (len(theirs) > 0) != c.theirs || c.theirs && !slices.Equal(theirs, []string{"web_search"}) {
			t.Errorf("%s: the provider runs %q", name, theirs)
		}
		ours := slices.ContainsFunc(g.offered(s, &s.Turn.Agents[0], def, m), func(d parley.ToolDecl) bool { return d.Name == "look" })
		if ours != c.offered {
			t.Errorf("%s: ours is offered: %v", name, ours)
		}
	}
}
