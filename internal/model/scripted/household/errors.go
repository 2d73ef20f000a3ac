package household

import (
	"fmt"
	"strings"
)

func lowerSentence(s string) string { return strings.TrimSuffix(s, ".") }

// faultText is a log message without the parts that repeat the thing's name.
func (u *turn) faultText(f fault) string {
	s := u.known(f.text)
	return strings.TrimPrefix(s, f.about+": ")
}

// errors says what the error log has, by thing.
func (u *turn) errors(q *ask, a *answered) []Call {
	in := map[string]any{}
	if s := u.span(q.when, ""); s != "" {
		in["since"] = s
	}
	if len(q.names) > 0 {
		if es := u.main(u.things(q), q); len(es) > 0 {
			in["entity"] = es[0].id
		}
	}
	c := Call{Tool: failures, Input: in}
	r, ok := u.got(c)
	if !ok {
		return []Call{c}
	}
	if r.Failed {
		a.say("I cannot read the log of errors.")
		return nil
	}
	fs := faultsOf(r.Output)
	if len(fs) == 0 {
		a.say("None: the log of Home Assistant has no warning and no error %s.", orText(q.when.said, "since it started"))
		return nil
	}
	sum := 0
	var lines []string
	for _, f := range fs {
		sum += f.count
		kind := map[string]string{"WARNING": "warning", "ERROR": "error", "CRITICAL": "critical error"}[f.level]
		about := f.about
		if about == "no thing of the house" {
			about = "Home Assistant itself"
		}
		lines = append(lines, fmt.Sprintf("- **%s**: %s %s, last %s: %s", about, count(f.count), plural(f.count, kind, kind+"s"), u.know.when(f.last), u.faultText(f)))
		a.cites = append(a.cites[:min(len(a.cites), maxCites-1)], cite{"Home Assistant log", f.about, cut(f.text, 300)})
	}
	a.say("Yes: %s %s about %s %s.", count(sum), plural(sum, "entry", "entries"), count(len(fs)), plural(len(fs), "thing", "things"))
	a.parts = append(a.parts, strings.Join(lines[:min(len(lines), 12)], "\n"))
	return nil
}

func article(word string) string {
	if strings.ContainsRune("aeiou", rune(word[0])) {
		return "an"
	}
	return "a"
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
