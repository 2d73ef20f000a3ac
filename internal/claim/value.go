package claim

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// value is what a statement says of something: a number, a range of numbers, or words.
type value struct {
	kind   string
	lo, hi float64  // equal, unless it is a range
	text   []string // in place of numbers; names, days
	either bool     // a time that may be of the morning or of the evening
	bound  byte     // '<' at most, '>' at least, '~' about; 0: exactly
	rate   string   // per what
	loose  bool     // a duration in months, which have no fixed length
	word   string   // of which a number is one, such as port
}

func (v value) key() string { return v.kind + v.rate }

// named reports whether a value is a name, a number of a thing, or such, of which each thing has one.
func (v value) named() bool { return v.kind == "person" || v.kind == "phone" || v.word != "" }

// denies reports whether of two values of one kind both cannot be true.
func (v value) denies(o value) bool {
	if v.bound == '~' || o.bound == '~' {
		return false
	}
	if v.text != nil || o.text != nil {
		return !meet(v, o)
	}
	if v.either || o.either {
		return !same(math.Mod(v.lo, 12*60), math.Mod(o.lo, 12*60), 0) || !same(math.Mod(v.hi, 12*60), math.Mod(o.hi, 12*60), 0)
	}
	slack := 1e-6
	if v.loose != o.loose {
		slack = 0.1
	}
	switch {
	case v.bound == o.bound:
		return !v.inside(o, slack) && !o.inside(v, slack)
	case v.bound == 0:
		return o.excludes(v, slack)
	case o.bound == 0:
		return v.excludes(o, slack)
	}
	// At most and at least: both can be true if there is something between.
	least, most := v, o
	if v.bound == '<' {
		least, most = o, v
	}
	return least.lo > most.hi
}

// inside reports whether a single value is in the range of another, or both are the same.
func (v value) inside(o value, slack float64) bool {
	if same(v.lo, o.lo, slack) && same(v.hi, o.hi, slack) {
		return true
	}
	return v.lo == v.hi && o.lo != o.hi && v.lo >= o.lo && v.hi <= o.hi && v.kind != "time"
}

// excludes reports whether a value is beyond a bound.
func (v value) excludes(o value, slack float64) bool {
	if v.bound == '<' {
		return o.hi > v.hi && !same(o.hi, v.hi, slack)
	}
	return o.lo < v.lo && !same(o.lo, v.lo, slack)
}

func same(a, b, slack float64) bool {
	return math.Abs(a-b) <= slack*math.Max(math.Abs(a), math.Abs(b))+1e-9
}

// meet reports whether two values of words have one in common. Of a person's names one is enough.
func meet(v, o value) bool {
	return slices.ContainsFunc(v.text, func(a string) bool {
		return slices.ContainsFunc(o.text, func(b string) bool {
			if v.kind == "phone" {
				return a == b || len(min(a, b)) > 3 && (strings.HasSuffix(a, strings.TrimLeft(b, "0")) || strings.HasSuffix(b, strings.TrimLeft(a, "0")))
			}
			if v.kind == "date" && len(a) != len(b) { // one without a year
				return strings.HasSuffix(a, b) || strings.HasSuffix(b, a)
			}
			if v.kind != "person" {
				return a == b
			}
			return slices.ContainsFunc(strings.Fields(a), func(n string) bool { return slices.Contains(strings.Fields(b), n) })
		})
	})
}

func exact(kind, text string) *value { return &value{kind: kind, text: []string{text}} }

func quantity(kind string, n float64) *value { return &value{kind: kind, lo: n, hi: n} }

// number is that which is written so, with points or commas for thousands and decimals.
func number(s string) float64 {
	s = strings.TrimRight(s, ".,")
	if i := strings.LastIndexAny(s, ".,"); i >= 0 {
		rest := s[i+1:]
		whole := strings.NewReplacer(".", "", ",", "").Replace(s[:i])
		if s[i] == ',' && len(rest) == 3 || strings.ContainsAny(s[:i], ".,") && len(rest) == 3 {
			s = whole + rest
		} else {
			s = whole + "." + rest
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

func money(low, digits string) *value {
	n, currency := number(digits), ""
	for sign, name := range map[string]string{"€": "eur", "eur": "eur", "euro": "eur", "$": "usd", "usd": "usd", "dollar": "usd", "£": "gbp", "gbp": "gbp", "pound": "gbp", "chf": "chf", "franc": "chf", "crown": "crown"} {
		if strings.Contains(low, sign) {
			currency = name
		}
	}
	if strings.Contains(low, "cent") {
		n, currency = n/100, "" // of which currency, it does not say
	}
	if strings.Contains(low, "pence") {
		n, currency = n/100, "gbp"
	}
	return quantity(strings.TrimSpace("money "+currency), n)
}

// day is a date, without a year if none is said.
func day(d, m, y string) *value {
	n, err := strconv.Atoi(d)
	if err != nil || n < 1 || n > 31 {
		return nil
	}
	text := fmt.Sprintf("%02d-%02d", monthNames[strings.ToLower(m)], n)
	if y != "" {
		text = y + "-" + text
	}
	return exact("date", text)
}

// clock is a time in minutes. half: a or p, for the halves of the day; "": by 24 hours, if it is written so.
func clock(h, m float64, half string) *value {
	switch strings.ToLower(half) {
	case "p":
		if h < 12 {
			h += 12
		}
	case "a":
		if h == 12 {
			h = 0
		}
	}
	if math.IsNaN(m) { // 6 pm
		m = 0
	}
	if h > 24 || m > 59 {
		return nil
	}
	return quantity("time", h*60+m)
}

// spoken is a time such as half past six. It may be of the morning or of the evening.
func spoken(how, hour string) *value {
	h, ok := numbers[hour]
	if !ok {
		if h = number(hour); math.IsNaN(h) {
			return nil
		}
	}
	if h > 12 {
		return nil
	}
	at := h * 60
	switch how {
	case "half past":
		at += 30
	case "quarter past":
		at += 15
	case "quarter to":
		at -= 15
	}
	v := quantity("time", at)
	v.either = true
	return v
}

func measure(digits, sign, per string) *value {
	sign = strings.ReplaceAll(sign, " ", "")
	n := number(digits)
	switch {
	case per != "":
		return quantity(strings.ToLower(sign)+per, n)
	case sign == "°" || sign == "°C":
		return quantity("temperature", n)
	case sign == "°F":
		return quantity("temperature", (n-32)/1.8)
	}
	u, ok := units[strings.ToLower(sign)]
	if !ok {
		return nil
	}
	return inUnit(n, u)
}

func inUnit(n float64, u unit) *value {
	v := quantity(u.kind, n*u.factor)
	v.loose = u.kind == "duration" && u.factor >= month
	return v
}

// weekdays is a set of days of the week, from Monday; 0: none is named.
type weekdays uint8

const (
	workdays weekdays = 1<<5 - 1
	weekend  weekdays = 1<<5 | 1<<6
)

// usual reports whether they are most days, so that what is not said of any is said of these.
func (w weekdays) usual() bool { return bits.OnesCount8(uint8(w)) >= 5 }

var dayNames = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

func (w weekdays) names() (list []string) {
	for i, n := range dayNames {
		if w&(1<<i) != 0 {
			list = append(list, n)
		}
	}
	return list
}
