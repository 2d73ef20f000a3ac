package loop

import (
	"fmt"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxSteps ends a turn that has no budget of steps. The state of a turn grows with each
// step, and no legitimate turn we know of comes near.
const maxSteps = 1000

// reachedSteps returns the budget when the turn may not call a model again.
func reachedSteps(t *parley.Turn) *parley.BudgetReached {
	limit := t.Request.Budgets.MaxSteps
	if limit <= 0 || limit > maxSteps {
		limit = maxSteps
	}
	if t.Spent.Steps < limit {
		return nil
	}
	return &parley.BudgetReached{Name: "steps", Limit: float64(limit), Used: float64(t.Spent.Steps)}
}

func reachedDepth(t *parley.Turn) *parley.BudgetReached {
	if limit := t.Request.Budgets.MaxDepth; limit > 0 && t.Spent.Depth >= limit {
		return &parley.BudgetReached{Name: "depth", Limit: float64(limit), Used: float64(t.Spent.Depth)}
	}
	return nil
}

// overToolCalls reports whether the turn's i-th call, from 0, exceeds the budget. The
// calls before it were within the budget and stay.
func overToolCalls(t *parley.Turn, i int) bool {
	limit := t.Request.Budgets.MaxToolCalls
	return limit > 0 && i >= limit
}

func overBudget(t *parley.Turn, b *parley.BudgetReached) []action {
	return []action{fail{Error: budgetError(b), Response: answered(t), Budget: b}}
}

func budgetError(b *parley.BudgetReached) *parley.Error {
	text := fmt.Sprintf("the turn reached its budget of %s: %.6g of %.6g are used", unit[b.Name], b.Used, b.Limit)
	if b.Needs > 0 {
		text += fmt.Sprintf(", and the next call may take %.6g", b.Needs)
	}
	return parley.Errorf(parley.Code("budget_"+b.Name), "%s", text).WithHint("ask for less at once, or raise the app's budgets")
}

var unit = map[string]string{
	"steps": "steps", "tool_calls": "tool calls", "tokens": "tokens", "usd": "US dollars", "depth": "handoffs",
}

// affords reports whether a call may begin that reserves u, beside those that began since
// its request was made.
func affords(t *parley.Turn, u parley.Usage) bool {
	b, all := t.Request.Budgets, t.Spent.Usage.Add(t.Reserved()).Add(u)
	switch {
	case reachedSteps(t) != nil:
		return false
	case len(t.Calls) == 0:
		return true // the request was made for what is left now
	}
	return (b.MaxTotalTokens <= 0 || all.Tokens() <= b.MaxTotalTokens) && (b.MaxUSD <= 0 || all.USD <= b.MaxUSD)
}

// fit lowers output, the tokens that a reply may have, to what the turn may still spend
// after an input of the given size. It returns the budget that limited it, and whether
// less than least would be left.
func fit(t *parley.Turn, m seam.ModelInfo, input, output, least int64) (int64, *parley.BudgetReached, bool) {
	b, spent := t.Request.Budgets, t.Spent.Usage.Add(t.Reserved())
	var bound *parley.BudgetReached
	if b.MaxTotalTokens > 0 {
		if left := b.MaxTotalTokens - spent.Tokens() - input; left < output {
			output = left
			bound = &parley.BudgetReached{
				Name: "tokens", Limit: float64(b.MaxTotalTokens), Used: float64(spent.Tokens()), Needs: float64(input + least),
			}
		}
	}
	if b.MaxUSD > 0 && (m.InputUSD > 0 || m.OutputUSD > 0) {
		left := b.MaxUSD - spent.USD - atMost(m, parley.Usage{InputTokens: input})
		if left < atMost(m, parley.Usage{OutputTokens: output}) || left < 0 {
			output = 0
			if left > 0 && m.OutputUSD > 0 {
				output = int64(left / m.OutputUSD * 1e6)
			}
			bound = &parley.BudgetReached{
				Name: "usd", Limit: b.MaxUSD, Used: spent.USD, Needs: atMost(m, parley.Usage{InputTokens: input, OutputTokens: least}),
			}
		}
	}
	return output, bound, bound != nil && output < least
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
	return (float64(u.InputTokens)*m.InputUSD + float64(u.OutputTokens)*m.OutputUSD +
		float64(u.CacheReadTokens)*read + float64(u.CacheWriteTokens)*write) / 1e6
}

// atMost is the most that a call of size u may cost: its whole input may be written to
// the provider's cache, which some charge more for than for input.
func atMost(m seam.ModelInfo, u parley.Usage) float64 {
	m.InputUSD = max(m.InputUSD, m.CacheWriteUSD)
	return price(m, u)
}

func msec(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
