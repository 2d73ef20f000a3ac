package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// quantity is a figure with the unit it counts.
var quantity = pattern.New(`(?i)(?P<day>\b(?:` + months + `) \d{1,2}\b|\b\d{1,2}(?:th|st|nd|rd)? (?:of )?(?:` + months + `)\b|\b\d{4}-\d\d-\d\d\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:every (?:week)?day|weekdays|weekends|daily)\b)|` +
	`(?P<sign>[$€£])\s?(?P<amount>\d+(?:[.,]\d+)*)|(?:\b(?P<before>[a-z]+) )?\b(?P<number>\d+(?:[.,:]\d+)*)(?:\s?(?P<after>%|[a-z$€£]+))?`)

// compare reports whether two texts share a figure, or else have different figures of the same
// unit.
func compare(newer, older []sentence) (same, other bool) {
	a, b := quantities(joined(newer)), quantities(joined(older))
	for unit, values := range a {
		theirs, ok := b[unit]
		if !ok {
			continue
		}
		if slices.ContainsFunc(values, func(v string) bool { return slices.Contains(theirs, v) }) {
			same = true
		} else {
			other = true
		}
	}
	return same && !other, other
}

var aMonth = pattern.New(`(?i)^(?:` + months + `)$`)

// fillers are words before a number that are not what it counts.
var fillers = strings.Fields("the to at for of in on from within over is are be by about than least most only after before until with a an and or we charge costs cost pays pay kept stays stay now")

func quantities(text string) map[string][]string {
	out := map[string][]string{}
	for _, at := range quantity.FindAllStringSubmatchIndex(text, -1) {
		if !isFor(text, at[0], at[1]) { // "we drop iOS 16"
			continue
		}
		get := func(name string) string {
			if i := 2 * quantity.SubexpIndex(name); at[i] >= 0 {
				return strings.ToLower(text[at[i]:at[i+1]])
			}
			return ""
		}
		switch after, before := get("after"), get("before"); {
		case get("day") != "":
			out["day"] = append(out["day"], get("day"))
		case aMonth.MatchString(after): // "until 31 December", of which the first word is taken for what is counted
			out["day"] = append(out["day"], get("number")+" "+after)
		case get("sign") != "":
			out["money"] = append(out["money"], get("amount"))
		case slices.Contains([]string{"€", "$", "£", "euro", "euros", "eur", "dollars", "usd", "pounds"}, after):
			out["money"] = append(out["money"], get("number"))
		case before != "" && !slices.Contains(fillers, before):
			out[stem(before)] = append(out[stem(before)], get("number"))
		case after != "":
			out[stem(after)] = append(out[stem(after)], get("number"))
		}
	}
	return out
}
