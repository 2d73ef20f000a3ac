package claudecli

import (
	"fmt"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// maxSteps ends a turn that has no budget of steps.
	maxSteps = 1000
	// defaultOutput is how many tokens a reply may have where the app says nothing. The CLI asks
	// for four times as many, which would lock up the turn's budget.
	defaultOutput = 32_000
	// leastOutput is the room below which calling a model is pointless.
	leastOutput = 256
)

// reserve is what a call with an input of n bytes may cost: at most, with output tokens in its
// reply. bound says which budget of the turn it would exceed; output is lowered to fit before that.
func reserve(t *parley.Turn, m seam.ModelInfo, bytes int, output int64) (u parley.Usage, bound *parley.BudgetReached) {
	b, spent := t.Request.Budgets, t.Spent.Usage.Add(t.Reserved())
	per := m.TokenBytes
	if per <= 0 {
		per = 3
	}
	u.InputTokens = int64(float64(bytes)/per) + 1
	limit := b.MaxSteps
	if limit <= 0 || limit > maxSteps {
		limit = maxSteps
	}
	if t.Spent.Steps >= limit {
		return u, &parley.BudgetReached{Name: "steps", Limit: float64(limit), Used: float64(t.Spent.Steps)}
	}
	least := min(output, leastOutput)
	if b.MaxTotalTokens > 0 {
		output = min(output, b.MaxTotalTokens-spent.Tokens()-u.InputTokens)
		if output < least {
			return u, &parley.BudgetReached{Name: "tokens", Limit: float64(b.MaxTotalTokens), Used: float64(spent.Tokens()), Needs: float64(u.InputTokens + least)}
		}
	}
	if b.MaxUSD > 0 && (m.InputUSD > 0 || m.OutputUSD > 0) {
		left := b.MaxUSD - spent.USD - atMost(m, u)
		if m.OutputUSD > 0 {
			output = min(output, int64(max(left, 0)/m.OutputUSD*1e6))
		}
		if left < 0 || output < least {
			return u, &parley.BudgetReached{Name: "usd", Limit: b.MaxUSD, Used: spent.USD, Needs: atMost(m, parley.Usage{InputTokens: u.InputTokens, OutputTokens: least})}
		}
	}
	u.OutputTokens = output
	u.USD = atMost(m, u)
	return u, nil
}

// price is what u costs by the model's list.
func price(m seam.ModelInfo, u parley.Usage) float64 {
	read, write := m.CacheReadUSD, m.CacheWriteUSD
	if read == 0 {
		read = m.InputUSD
	}
	if write == 0 {
		write = m.InputUSD
	}
	return (float64(u.InputTokens)*m.InputUSD + float64(u.OutputTokens)*m.OutputUSD + float64(u.CacheReadTokens)*read + float64(u.CacheWriteTokens)*write) / 1e6
}

// atMost is the most that a call of size u may cost: its whole input may be written to the
// provider's cache.
func atMost(m seam.ModelInfo, u parley.Usage) float64 {
	m.InputUSD = max(m.InputUSD, m.CacheWriteUSD)
	return price(m, u)
}

func budgetError(b *parley.BudgetReached) *parley.Error {
	unit := map[string]string{"steps": "steps", "tool_calls": "tool calls", "tokens": "tokens", "usd": "US dollars"}[b.Name]
	text := fmt.Sprintf("the turn reached its budget of %s: %.6g of %.6g are used", unit, b.Used, b.Limit)
	if b.Needs > 0 {
		text += fmt.Sprintf(", and the next call may take %.6g", b.Needs)
	}
	return parley.Errorf(parley.Code("budget_"+b.Name), "%s", text).WithHint("ask for less at once, or raise the app's budgets")
}

// models returns the model that the agent calls now, and its fallback, "" if there is none. It skips
// models that the agent has given up and those that are not configured.
func (rt *Runtime) modelsOf(app *parley.App, s *parley.Session, a *parley.Agent) (name, fallback string) {
	def := app.Agents[a.Name]
	first := app.Model
	for _, wish := range []string{s.Turn.Request.Model, s.Model, def.Model} {
		if wish != "" {
			first = wish
			break
		}
	}
	more := app.Fallbacks
	if len(def.Fallbacks) > 0 {
		more = def.Fallbacks
	}
	var able []string
	for _, n := range append([]string{first}, more...) {
		if slices.Contains(a.GivenUp, n) || slices.Contains(able, n) {
			continue
		}
		if _, err := rt.models.Model(n); err == nil {
			able = append(able, n)
		}
	}
	switch len(able) {
	case 0:
		return first, ""
	case 1:
		return able[0], ""
	}
	return able[0], able[1]
}
