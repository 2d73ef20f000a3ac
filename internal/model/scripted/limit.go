package scripted

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// amountOf is a figure with what it counts: 12 kg, 130 euros, or 17:00, which counts minutes.
type amountOf struct {
	n    float64
	unit string
}

const aFigure = `(?:(\d{1,2}):(\d\d)\b|(\d{1,2}) ?([ap])m\b|(\d+(?:[.,]\d+)*) ?([a-z%€$£]+))`

var (
	figures = regexp.MustCompile(`(?i)\b` + aFigure)
	// limiting matches a figure up to which, or from which on, something is so.
	limiting = regexp.MustCompile(`(?i)\b(up to|at most|under|below|less than|lighter than|until|before|over|above|more than|heavier than|at least|after) ` + aFigure)
	costing  = regexp.MustCompile(`(?i)\b(?:cost|costs|price|prices|fee|fees|charge|charged)\b`)
	noLimit  = regexp.MustCompile(`(?i)\b(?:not|never|nobody|no|n't)\b|n't\b`)
	below    = regexp.MustCompile(`(?i)^(?:up to|at most|under|below|less than|lighter than|until|before)$`)
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
	return amountOf{number(m[4]), stem(strings.ToLower(m[5]))}
}

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
			return f.text == sen.text || i+1 < len(w.Best.sentences) && f.text == w.Best.sentences[i+1].text
		})
		if at == nil || !about || costing.MatchString(w.Subject.question) && !costing.MatchString(sen.text) {
			continue
		}
		m := limiting.FindStringSubmatch(sen.text)
		limit := amountIn(m[2:])
		clause := sen.text[strings.LastIndexAny(sen.text[:at[0]], ",;")+1 : at[0]]
		for _, asked := range amounts(w.Subject.question) {
			if asked.unit != limit.unit {
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
