package customers

import (
	"fmt"
	"maps"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// share asks how many of many, as a percentage.
var (
	share = pattern.New(`(?i)\b(?:(?:win|close|closing|success|conversion) rates?|conversions?|(?:what|which|how many|how much)? ?(?:percent(?:age)?|share|fraction|proportion)(?: of)?)\b`)
	wins  = pattern.New(`(?i)\b(?:(?:win|close|closing|success|conversion) rates?|conversions?)\b`)
)

// shares answers which part of the records has what a question asks for. The rate of wins is that of
// the leads that were decided, won or lost.
func (u *turn) shares(a *asked, text string) (string, bool) {
	r := u.known[a.resource]
	all := maps.Clone(a.filters)
	part := ""
	if wins.MatchString(text) && r.takes(r.list(), "status") {
		part = "status"
		a.filters["status"], all["status"] = "won", "won,lost"
	} else {
		for _, name := range []string{"status", "source", "plan", "industry", "min_score", "max_score", "min_value", "max_value", "owner_id", "country", "city"} {
			if _, ok := a.filters[name]; ok {
				part = name
				delete(all, name)
				break
			}
		}
	}
	if part == "" {
		return "A share of what? For example: “What percentage of leads is qualified?”, “What is our win rate by source?”", true
	}
	if a.by != "" {
		return u.sharesBy(a, all, part)
	}
	one := func(filters map[string]any) Call {
		q := maps.Clone(filters)
		q["page_size"], q["fields"] = 1, "id"
		return get(r.path(), q)
	}
	answers, ok := u.fetch(one(a.filters), one(all))
	if !ok {
		return "", false
	}
	n, of := answers[0].number("total"), answers[1].number("total")
	whole, some := *a.query, *a.query
	whole.said, some.said = nil, nil
	for _, p := range a.said {
		if p.key != keyOf(part) {
			whole.said = append(whole.said, p)
		} else {
			some.said = append(some.said, p)
		}
	}
	if part == "status" && all["status"] != nil {
		return fmt.Sprintf("**%s** of the %s decided %s were won: %s.", grouped(n), grouped(of), whole.noun(of), percent(n, of)), true
	}
	return fmt.Sprintf("**%s** of %s %s are %s: %s.", grouped(n), grouped(of), whole.noun(of), some.noun(n), percent(n, of)), true
}

func (u *turn) sharesBy(a *asked, all map[string]any, part string) (string, bool) {
	r := u.known[a.resource]
	if !r.can(r.summary()) {
		return "The CRM has no figures by " + strings.TrimSuffix(a.by, "_id") + " for " + noun(a.resource, 2) + ".", true
	}
	by := func(filters map[string]any) Call {
		q := maps.Clone(filters)
		q["group_by"] = a.by
		return get(r.path()+"/summary", q)
	}
	answers, ok := u.fetch(by(a.filters), by(all))
	if !ok {
		return "", false
	}
	some := map[string]int{}
	for _, i := range answers[0].items() {
		some[i.text("key")] = i.number("count")
	}
	label, head, of := strings.TrimSuffix(a.by, "_id"), upper(a.noun(2)), noun(a.resource, 2)
	if part == "status" && all["status"] != nil {
		head, of = "Won", "decided "+of
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Of the %s %s, by %s:\n\n| %s | %s | Of | Share |\n|---|---:|---:|---:|\n", grouped(answers[1].number("total")), of, label, upper(label), cell(head))
	items := answers[1].items()
	for _, i := range items[:min(len(items), 20)] {
		name := i.text("name")
		if name == "" {
			name = "none"
		}
		n, all := some[i.text("key")], i.number("count")
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(name), grouped(n), grouped(all), percent(n, all))
	}
	if more := len(items) - 20; more > 0 {
		fmt.Fprintf(&b, "\nand %d more.", more)
	}
	return strings.TrimSpace(b.String()), true
}

func percent(n, of int) string {
	if of == 0 {
		return "there are none"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(of))
}
