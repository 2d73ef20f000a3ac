package household

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var effectLine = pattern.New(`(?m)^- (\S+) \((.*?)\): (.+?) → ([^{,.]+?)(?: (\{.*\}))?(?:, since (\d{4}-\S+ \S+?))?(\. It .*)?$`)

// targetsOf returns the ids of the things a call was to change.
func targetsOf(r Result) []string {
	target, _ := r.Input["target"].(map[string]any)
	switch ids := target["entity_id"].(type) {
	case string:
		return []string{ids}
	case []any:
		var out []string
		for _, id := range ids {
			out = append(out, textOf(id))
		}
		return out
	}
	return nil
}

// report says what the calls for a request did.
func (u *turn) report(q *ask, done []Result, a *answered) {
	before := len(a.parts)
	es, _ := u.targets(q)
	for _, r := range done {
		var of []entity
		for _, id := range targetsOf(r) {
			for _, e := range append(slices.Clone(es), u.know.hits...) {
				if e.id == id && !slices.ContainsFunc(of, func(o entity) bool { return o.id == id }) && (len(u.asks) == 1 || slices.ContainsFunc(es, func(o entity) bool { return o.id == id })) {
					of = append(of, e)
				}
			}
		}
		if len(of) == 0 && len(u.asks) > 1 {
			continue // it was for another request
		}
		if r.Failed {
			u.failed(q, r, of, a)
			continue
		}
		for _, m := range effectLine.FindAllStringSubmatch(r.Output, -1) {
			e := entity{id: m[1], name: m[2], state: m[4]}
			if m[5] != "" {
				_ = json.Unmarshal([]byte(m[5]), &e.attrs)
			}
			was := e
			was.state, was.attrs = m[3], u.attrsBefore(e.id)
			said := e.leveled(" now")
			a.cite(e.id, fmt.Sprintf("%s → %s", m[3], m[4]))
			switch {
			case strings.Contains(m[7], "does NOT"):
				a.say("%s does not show what was asked for: it is %s%s.", upper(e.the()), strings.TrimSuffix(said, " now"), map[bool]string{true: ", because it cannot be reached", false: ""}[strings.Contains(m[7], "reached")])
			case strings.Contains(m[7], "was so before") && was.leveled("") == e.leveled(""):
				a.say("%s was %s before already.", upper(e.the()), e.told())
			default:
				a.say("%s%s %s %s (%s %s).", Done, e.the(), e.verb(), said, map[bool]string{true: "they were", false: "it was"}[e.many()], was.leveled(""))
			}
		}
		if !strings.Contains(r.Output, " → ") {
			a.say("%s%s", Done, lowerStart(firstLine(r.Output)))
		}
	}
	if len(a.parts) == before && len(es) > 0 { // no call was made, as nothing had to change
		a.say("Nothing to do: %s %s already %s.", theNames(es), are(es), q.deed.result(es[0]))
	}
}

// attrsBefore returns the attributes that a thing had before the change, if they were
// looked up.
func (u *turn) attrsBefore(id string) map[string]any {
	for _, r := range slices.Backward(u.results(query)) {
		for _, e := range entities(r.Output, u.know.areas) {
			if e.id == id && e.attrs != nil {
				return e.attrs
			}
		}
	}
	return nil
}

// leveled describes a state with its level: "on now, at 40 %".
func (e entity) leveled(now string) string {
	said := e.told() + now
	if target, ok := e.number("temperature"); ok && now == "" && e.domain() == "climate" && e.state != "off" {
		return "set to " + amount(target, "°C") // what it measured before the change does not matter now
	}
	if b, ok := e.number("brightness"); ok && e.state == "on" {
		said += ", at " + amount(b/2.55, "%")
	}
	if p, ok := e.number("percentage"); ok && e.domain() == "fan" && e.state == "on" && p > 0 {
		said += ", at " + amount(p, "%")
	}
	if p, ok := e.number("humidity"); ok && e.domain() == "humidifier" {
		said += ", set to " + amount(p, "%")
	}
	if p, ok := e.number("current_position"); ok && e.domain() == "cover" && p > 0 && p < 100 {
		said += ", at " + amount(p, "%")
	}
	if v, ok := e.number("volume_level"); ok && e.domain() == "media_player" && e.state != "off" {
		said += ", at a volume of " + amount(100*v, "%")
	}
	return said
}

// barred says that an act is not allowed here. The reason, and the settings that would
// allow it, are for whoever runs Parley, so they go into the evidence.
func (a *answered) barred(act, why string) {
	a.say("**Nothing was changed.** I am not allowed to %s from here. Whoever runs Parley can allow it.", act)
	why = strings.TrimSuffix(settingName.ReplaceAllString(why, ""), ".")
	if first, _, _ := strings.Cut(why, " "); !strings.ContainsAny(first, "._") { // an id is written as it is
		why = upper(why)
	}
	a.prove("%s", why)
	a.prove("The settings are allow_actuation and allowlisted_services, in the policy of the app")
}

// settingName matches the name of the setting behind a reason.
var settingName = pattern.New(` \(policy\.[a-z_]+\)`)

// What the tool says if the app's settings, or a person, do not allow a call.
const (
	deniedBySettings = "Denied: This call is not allowed"
	deniedByPerson   = "Denied: The user did not allow this call"
)

// failed says that a call did not happen, or that its outcome is unknown.
func (u *turn) failed(q *ask, r Result, of []entity, a *answered) {
	what, to := "that", ""
	if len(of) > 0 {
		what, to = theNames(of), q.deed.to(of[0])
	}
	if strings.HasPrefix(r.Output, "It is unknown") || strings.HasPrefix(r.Output, "The answer of this call was lost") {
		a.say("**It is not known whether this happened:** to %s %s%s. The answer was:\n\n%s", q.wish(), what, to, quote(u.known(r.Output)))
		return
	}
	act := q.wish() + " " + what + to
	if why, ok := strings.CutPrefix(r.Output, deniedBySettings); ok {
		a.barred(act, strings.TrimPrefix(why, ": "))
		return
	}
	if said, ok := strings.CutPrefix(r.Output, deniedByPerson); ok {
		a.say("**Nothing was changed.** You did not allow me to %s.", act)
		if said = strings.TrimPrefix(said, ": "); len(said) > 1 { // without a text, only a full stop remains
			a.say("You said:\n\n%s", quote(said))
		}
		return
	}
	a.say("**Nothing was changed.** I was to %s, which did not happen. The answer was:\n\n%s", act, quote(u.known(r.Output)))
}
