package scripted

import (
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// amountOf is a figure with what it counts: 12 kg, 130 euros, or 17:00, which counts minutes.
type amountOf struct {
	n    float64
	unit string
}

const aFigure = `(?:(\d{1,2}):(\d\d)\b|(\d{1,2}) ?([ap])m\b|(half an?|\d+(?:[.,]\d+)*|an? (?:quarter of an )?|(?:one|two|three|four|five|six|seven|eight|ten|twelve|fourteen|thirty)\b)[ -]?([a-z%€$£]+))`

// units have their measure and how much of it they are, so that an hour can be compared with minutes.
var units = map[string]struct {
	of    string
	times float64
}{
	"second": {"minute", 1. / 60}, "sec": {"minute", 1. / 60}, "min": {"minute", 1}, "minute": {"minute", 1}, "hour": {"minute", 60}, "h": {"minute", 60},
	"day": {"minute", 1440}, "week": {"minute", 7 * 1440}, "month": {"minute", 30 * 1440}, "year": {"minute", 365 * 1440},
	"g": {"kg", 1e-3}, "gram": {"kg", 1e-3}, "kg": {"kg", 1}, "kilo": {"kg", 1}, "kilogram": {"kg", 1}, "tonne": {"kg", 1000}, "ton": {"kg", 1000},
	"mm": {"m", 1e-3}, "cm": {"m", 1e-2}, "m": {"m", 1}, "metre": {"m", 1}, "meter": {"m", 1}, "km": {"m", 1000}, "kb": {"mb", 1e-3}, "mb": {"mb", 1}, "gb": {"mb", 1000}, "tb": {"mb", 1e6},
}

// spelledOut has the numbers that are written as words.
var spelledOut = map[string]float64{"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "ten": 10, "twelve": 12, "fourteen": 14, "thirty": 30, "a": 1, "an": 1, "half a": 0.5, "half an": 0.5, "a quarter of an": 0.25}

var (
	figures = pattern.New(`(?i)\b` + aFigure)
	// limiting matches a figure up to which, or from which on, something is so.
	limiting = pattern.New(`(?i)\b(up to|at most|(?:limited|restricted) to(?: at most| a maximum of)?|(?:a |the )?maximum (?:of|is)|no (?:more|longer) than|under|below|less than|lighter than|until|before|over|above|more than|heavier than|at least|after) ` + aFigure)
	costing  = pattern.New(`(?i)\b(?:cost|costs|price|prices|fee|fees|charge|charged)\b`)
	noLimit  = pattern.New(`(?i)\b(?:not|never|nobody|no|n't)\b|n't\b`)
	below    = pattern.New(`(?i)^(?:(?:limited|restricted) to.*|.*maximum.*|no (?:more|longer) than|up to|at most|under|below|less than|lighter than|until|before)$`)
)

// amounts returns the figures of a text that count something.
func amounts(text string) []amountOf {
	var out []amountOf
	for _, m := range figures.FindAllStringSubmatch(text, -1) {
		out = append(out, amountIn(m[1:]))
	}
	return out
}

// amountIn is the figure of a match of aFigure.
func amountIn(m []string) amountOf {
	number := func(text string) float64 {
		n, _ := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64) // it has digits
		return n
	}
	switch {
	case m[0] != "":
		return amountOf{number(m[0])*60 + number(m[1]), "clock"}
	case m[2] != "":
		hour := int(number(m[2])) % 12
		if strings.EqualFold(m[3], "p") {
			hour += 12
		}
		return amountOf{float64(hour * 60), "clock"}
	}
	n, spelled := spelledOut[strings.TrimSpace(strings.ToLower(m[4]))]
	if !spelled {
		n = number(m[4])
	}
	unit := strings.ToLower(m[5])
	if u, ok := units[unit]; ok {
		return amountOf{n * u.times, u.of}
	} else if u, ok := units[strings.TrimSuffix(unit, "s")]; ok {
		return amountOf{n * u.times, u.of}
	} else if spelled {
		return amountOf{} // "a visit" is no figure
	}
	return amountOf{n, stem(unit)}
}

// limits reports whether a sentence sets a limit to a measure of which the question names a figure.
func limits(question string, sen sentence) bool {
	m := limiting.FindStringSubmatch(sen.text)
	if m == nil {
		return false
	}
	limit := amountIn(m[2:])
	return measures[limit.unit] && slices.ContainsFunc(amounts(question), func(a amountOf) bool { return a.unit == limit.unit })
}

// measures are what the units measure.
var measures = map[string]bool{"minute": true, "kg": true, "m": true, "mb": true}

// fits returns whether a figure of the question is within the limit that what holds sets: yes, no,
// or "" if it sets none. "UPS for parcels over 10 kg" sets one for what takes a parcel: what the
// same record has for the rest is for the others.
func (s *script) fits(w weight) string {
	if w.Best == nil {
		return ""
	}
	for i, sen := range w.Best.sentences {
		at := limiting.FindStringIndex(sen.text)
		about := slices.ContainsFunc(w.Best.focus, func(f sentence) bool {
			return f.text == sen.text || i+1 < len(w.Best.sentences) && f.text == w.Best.sentences[i+1].text || i > 0 && f.text == w.Best.sentences[i-1].text && limits(w.Subject.question, sen)
		})
		if at == nil || !about || costing.MatchString(w.Subject.question) && !costing.MatchString(sen.text) {
			continue
		}
		m := limiting.FindStringSubmatch(sen.text)
		limit := amountIn(m[2:])
		clause := sen.text[strings.LastIndexAny(sen.text[:at[0]], ",;")+1 : at[0]]
		for _, asked := range amounts(w.Subject.question) {
			if asked.unit != limit.unit || asked.unit == "" {
				continue
			}
			within := asked.n > limit.n
			if below.MatchString(m[1]) != noLimit.MatchString(clause) {
				within = asked.n <= limit.n
			} else if strings.EqualFold(m[1], "at least") {
				within = asked.n >= limit.n
			}
			if i+1 == len(w.Best.sentences) || !rest.MatchString(w.Best.sentences[i+1].text) {
				return map[bool]string{true: "yes", false: "no"}[within]
			}
			mine, others := s.kinds(sen.stems), s.kinds(w.Best.sentences[i+1].stems)
			for kind := range s.kinds(stems(w.Subject.question)) {
				switch {
				case mine[kind] != "":
					return map[bool]string{true: "yes", false: "no"}[within]
				case others[kind] != "":
					return map[bool]string{true: "no", false: "yes"}[within]
				}
			}
		}
	}
	return ""
}

// taker returns which of several things takes the figure of a question: UPS takes a parcel of 12 kg.
func (s *script) taker(w weight) string {
	if w.Best == nil || len(s.kinds(stems(w.Subject.question))) > 0 {
		return ""
	}
	for _, t := range tokens(w.Best.Text) {
		name := w.Best.Text[t.start:t.end]
		asked := w.Subject
		asked.question += " " + name
		if len(s.kinds(stems(name))) > 0 && s.fits(weight{Best: w.Best, Subject: asked}) == "yes" {
			return name
		}
	}
	return ""
}
