package customers

import (
	"fmt"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// Changes that say what is to be in terms of what is, or of what was said.
var (
	stepping = form(`(?:bump|raise|increase|lower|decrease|reduce|cut|drop)(?: up| down)?(?: the| his| her| its| their)?(?: (score|value|active users|target))?(?: (?:of|for) (.+?))? by (?:€|eur )?(\d[\d.,]*)\s*(k|m|thousand|million|%|percent|points?)?(?: ?(?:€|euros?|eur))?`)
	steppish = form(`(?:bump|raise|increase|lower|decrease|reduce|cut|drop)(?: up| down)? (.+?)(?:'s|s') (score|value|active users|target) by (?:€|eur )?(\d[\d.,]*)\s*(k|m|thousand|million|%|percent|points?)?(?: ?(?:€|euros?|eur))?`)
	doubling = form(`(double|triple|halve)(?: the| his| her| its| their)? (score|value|active users|target)(?: (?:of|for) (.+?))?`)
	makeIt   = form(`(?:(?:make|set|change|put|let) (?:it|that)(?: be)?(?: to| into)? ?|no, |rather )(.+)`)
	lowers   = pattern.New(`(?i)^(?:lower|decrease|reduce|cut|drop)\b`)
	wasSet   = pattern.New("^Changed \\*\\*.+?\\*\\* \\(`([a-z]+-\\d+)`\\): set the ([a-z ]+?) to “")
	wasTold  = pattern.New("^The ([a-z ]+) of \\*\\*.+?\\*\\* \\(`([a-z]+-\\d+)`\\): ")
	whatDone = form(`what (?:did you|have you|was|has been|were)(?: just)? (?:do|done|changed?|changes?|made)(?: (?:just )?(?:now|so far|here|today|in this (?:chat|conversation|session)))?|(?:which|what|list|show)(?: me)?(?: the| your| all)* changes(?: (?:did you|have you|you))?(?: (?:make|made))?(?: so far)?|what did we (?:change|do)(?: so far)?`)
	didSo    = pattern.New("(?m)^(?:Changed|Created the|Added the note|Deleted|It was done|\\*\\*.+gets no more mails)\\b?.*$")
)

// amended is a change of one field that depends on its value. ok is false while the record is looked
// for, or if there is none.
func (u *turn) amended(text string) (name, field, value string, ok bool) {
	what, by, unit := "", "", ""
	switch m, n, d := stepping.FindStringSubmatch(text), steppish.FindStringSubmatch(text), doubling.FindStringSubmatch(text); {
	case n != nil:
		name, what, by, unit = n[1], n[2], n[3], n[4]
	case m != nil:
		name, what, by, unit = m[2], m[1], m[3], m[4]
	case d != nil:
		name, what, unit = d[3], d[2], d[1]
	}
	if what == "" && by == "" {
		return "", "", "", true
	}
	if what == "" {
		if _, what = u.lastField(); what == "" {
			return "", "", "", true
		}
	}
	field = strings.ReplaceAll(fieldName(what), " ", "_")
	f, ok := u.entity(name)
	if !ok {
		return "", "", "", false
	}
	now, has := f.record[field].(float64)
	if !has {
		u.failed = fmt.Sprintf("A %s has no %s that could be changed.", noun(f.resource, 1), strings.ReplaceAll(field, "_", " "))
		return "", "", "", false
	}
	step := float64(amount(by, strings.TrimSuffix(unit, "s")))
	switch strings.ToLower(unit) {
	case "double":
		step = now
	case "triple":
		step = 2 * now
	case "halve":
		step = -now / 2
	case "%", "percent":
		step = now * step / 100
	}
	if lowers.MatchString(text) {
		step = -step
	}
	return "`" + f.id() + "`", field, fmt.Sprint(int(now + step)), true
}

// lastField is the field of a record that the last answer was about.
func (u *turn) lastField() (id, field string) {
	if n := len(u.Earlier); n > 0 {
		if m := wasSet.FindStringSubmatch(u.Earlier[n-1].Answer); m != nil {
			return m[1], m[2]
		}
		if m := wasTold.FindStringSubmatch(u.Earlier[n-1].Answer); m != nil {
			return m[2], m[1]
		}
	}
	return "", ""
}

// done lists what was changed in this conversation.
func (u *turn) done() string {
	var list []string
	for _, x := range u.Earlier {
		for _, line := range didSo.FindAllString(x.Answer, -1) {
			list = append(list, "- "+oneLine(line))
		}
	}
	switch {
	case len(list) == 0:
		return "I have changed nothing in this conversation as far as I remember it, only looked things up."
	case len(list) == 1:
		return "This was changed, after you had confirmed it:\n\n" + list[0]
	}
	return fmt.Sprintf("These %d things were changed, each after you had confirmed it; the last one is at the end:\n\n%s", len(list), strings.Join(list, "\n"))
}
