package household

import (
	"strconv"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// A number in a request is a level, a time, or part of a name. A level has a unit or
// follows "to". A verb that sets something needs neither.
var (
	levelWithUnit = pattern.New(`(-?\d+(?:[.,]\d+)?) ?(?:%|percent\b|per cent\b|degrees?\b|°c?|celsius\b)`)
	levelBehind   = pattern.New(`\b(?:to|at) (-?\d+(?:[.,]\d+)?)(?:\s|$)`)
	halfLevel     = pattern.New(`\b(?:half|halfway|half way|midway)\b`)
	degreeHalf    = pattern.New(`\bhalf an? (?:degree|hour)|\bhalf (?:hour|past)`)
)

// levelOf returns the level that a request names, or nil. bare means that any number is
// a level.
func levelOf(rest string, bare bool) *float64 {
	rest = re(`\bl\d\b|\bco2\b`).ReplaceAllString(rest, "")
	m := levelWithUnit.FindStringSubmatch(rest)
	if m == nil {
		m = levelBehind.FindStringSubmatch(rest)
	}
	if m == nil && bare {
		m = number.FindStringSubmatch(rest)
	}
	if m == nil {
		if half := 50.0; halfLevel.MatchString(degreeHalf.ReplaceAllString(rest, "")) {
			return &half
		}
		return nil
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", "."), 64)
	if err != nil {
		return nil
	}
	return &v
}

const (
	someTime = `(?:a|an|\d+(?:[.,]\d+)?|half an?|one|two|three|four|five|six|seven|eight|nine|ten|fifteen|twenty|thirty|forty five|forty|sixty|some|several|a few|a couple of|few|the next \S+|the next|another|another \S+)`
	timeUnit = `(?:s|sec|secs|seconds?|min|mins|minutes?|h|hrs?|hours?|days?|weeks?|nights?|evenings?|mornings?|while|bit|moment|half hour|time)`
	clock    = `(?:\d{1,2}(?:[. ]\d\d)?(?: ?(?:am|pm|a\.m|p\.m|o'clock|uhr|h))?|(?:half|quarter) (?:past|to) \S+|noon|midday|midnight|sunset|sunrise|dusk|dawn|night|bedtime|lunch\S*|dinner\S*|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?: o'clock)?)`
)

// Words for a change that is to happen later, for a while, or repeatedly.
var timings = []*pattern.Regexp{
	pattern.New(`\b(?:for|in|after|within|every) (?:about |around |only |just |exactly |at least )?` + someTime + `(?: (?:more|and a half))? ?` + timeUnit + `\b(?: and a half)?(?: from now)?`),
	pattern.New(`\b` + someTime + ` ` + timeUnit + ` (?:from now|later)\b`),
	pattern.New(`\b(?:at|by|before|after|around|about|from|until|till|til) (?:about |around )?` + clock + `(?:\s|$)`),
	pattern.New(`\b\d{1,2}(?:[. ]\d\d)? ?(?:am|pm|a\.m|p\.m|o'clock)\b`),
	pattern.New(`\b(?:until|till|til|when|whenever|once|as soon as|if|unless|while|after|before) (?:\S+ ?)+$`),
	pattern.New(`\b(?:every|each) (?:single )?(?:day|night|morning|afternoon|evening|hour|week|weekend|time|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b`),
	pattern.New(`\b(?:tomorrow|later|tonight|temporarily|briefly|daily|nightly|overnight)\b(?: \S+)?$`),
	pattern.New(`\b(?:(?:this|in the|next) (?:morning|afternoon|evening|night|week|weekend)|(?:next|on) (?:monday|tuesday|wednesday|thursday|friday|saturday|sunday))\b`),
	pattern.New(`\bfor (?:the|this|all) (?:night|evening|morning|day|afternoon|weekend|rest of \S+(?: \S+)?)\b`),
}

var plainAt = pattern.New(`^(?:at|by|from|to|around|about) (?:about |around )?(\d+|one|two|three|four|five)$`)

// timingIn returns the words of a request that set a time, or "" for a change now that
// is to stay. A level such as "at 50 %" is no time.
func timingIn(rest string) string {
	if re(`^arm\b`).MatchString(rest) { // "arm the alarm for the night" names a mode
		rest = re(`\bfor (?:the )?night\b`).ReplaceAllString(rest, "")
	}
	rest = levelWithUnit.ReplaceAllString(rest, "this much")
	bare := re(`^(?:set|dim|brighten|raise|lower|heat|cool|warm|increase|decrease|reduce|make)\b|\b(?:up|down|warmer|colder|cooler|higher|lower|brighter)\b`).MatchString(rest)
	rest = re(`\bif (?:possible|you (?:can|could|please|would|like|don't mind))\b`).ReplaceAllString(rest, "")
	for _, t := range timings {
		m := strings.TrimSpace(t.FindString(rest))
		if at := plainAt.FindStringSubmatch(m); at != nil { // "set it at 21", "up by two"
			if n, _ := strconv.Atoi(at[1]); bare || n > 24 {
				continue
			}
		}
		if m != "" {
			return m
		}
	}
	return ""
}

// timed reports whether one of the requests is for another time than now. None of them
// is then carried out: a door that should be open for five minutes must not stay open.
func (u *turn) timed() bool {
	for _, q := range u.asks {
		if q.intent == isAct && q.deed.timing != "" {
			return true
		}
	}
	return false
}

// notNow says that a request is not carried out because of its time.
func (u *turn) notNow(q *ask, a *answered) {
	if q.deed.timing == "" {
		return // the one with a time says it of all of them
	}
	none := map[int]string{1: "", 2: " So I did neither."}[len(u.asks)]
	if len(u.asks) > 2 {
		none = " So I did none of it."
	}
	a.say("**Nothing was changed:** I can only act at once, and what I change stays so until it is changed again; I cannot keep to \"%s\"."+none+" Ask without the time, or let an automation of Home Assistant do it.", q.deed.timing)
}
