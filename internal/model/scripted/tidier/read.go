package tidier

import (
	"path"
	"strings"

	"github.com/kljensen/snowball/english"

	"github.com/parley-server/parley/internal/pattern"
)

// said is what a statement says.
type said struct {
	values map[string][]string // by what they are of
	shown  map[string]string   // the values as they are written
	words  map[string]bool     // stems of what it says besides
	name   map[string]bool     // of its page
	mood   string              // "" for what is so
	begins string              // what it holds for, if it begins with that: a stem, or "#" for a value
	year   string
}

// Moods of a statement.
const (
	wish = "wish"
	past = "past"
	task = "task"
)

var (
	tokens  = pattern.New(`[€$£]\s?\d[\d.,]*|\d{4}-\d\d-\d\d|\d{1,2}:\d\d|\d+(?:[.,]\d+)*|\pL[\pL\d]*`)
	isYear  = pattern.New(`^(?:19|20)\d\d$`)
	isDay   = pattern.New(`^\d{4}-\d\d-\d\d$`)
	isClock = pattern.New(`^\d{1,2}:\d\d$`)
	isTask  = pattern.New(`^[-*]?\s*\[[ xX]\]`)
	pointer = pattern.New(`(?i)[,;(]?\s*\bsee\b.*$`) // to where more is said
)

// set is words as they are looked up.
func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

var (
	// empty are words that say nothing of what a statement is about, and verbs that only join a thing and its value.
	empty = set(`a an the this that these those its their our your his her it they we you he she is are be been being am and or but as so than then also only just
		of to for from by in on at with within per each every any all both most more less least up over about there here which who whom whose what
		not no nobody none never nothing always has have having do does can will shall must should cost costs costing comes come get gets run runs running last lasts take takes
		make makes use uses need needs stand stands lie lies go goes keep keeps hold holds give gives say says`)
	wishes = set(`propose proposes proposed proposal suggest suggests suggested want wants wanted ask asks asked wish wishes wished would could might may maybe perhaps planned plans draft
		offer offers offered consider considers considered expect expects expected hope hopes hoped idea request requested target aim aims goal`)
	pasts      = set(`was were had did formerly previously earlier became measured found lasted took went came forecasted previous`)
	conditions = set(`at in on with during after before under above below except since for through`)
	ifs        = set(`if when unless while where whenever once`)
	// qualifiers are stems of words for when and for whom something holds.
	qualifiers = stems(`winter summer spring autumn night nights weekend weekends weekday holiday holidays member members student students child children adult adults
		cold warm hot wet dry old new large small minimum maximum average peak temporary exceptionally`)
	numbers = map[string]string{
		"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
		"once": "1", "twice": "2", "daily": "1",
	}
	parity = set(`odd even`)
	days   = set(`monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays`)
)

func stems(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[stem(w)] = true
	}
	return m
}

func stem(w string) string { return english.Stem(w, false) }

// read reads a statement.
func read(s Statement) said {
	r := said{values: map[string][]string{}, shown: map[string]string{}, words: map[string]bool{}, name: map[string]bool{}}
	for _, w := range tokens.FindAllString(strings.ToLower(strings.TrimSuffix(path.Base(s.Path), path.Ext(s.Path))), -1) {
		if !empty[w] && (w[0] < '0' || w[0] > '9') {
			r.name[stem(w)] = true
		}
	}
	if isTask.MatchString(s.Text) {
		r.mood = task
	}
	list := tokens.FindAllString(pointer.ReplaceAllString(s.Text, ""), -1)
	units := map[int]bool{} // tokens that say of what a number is
	for i, t := range list {
		low := strings.ToLower(t)
		value, unit := low, ""
		switch {
		case isDay.MatchString(t):
			unit = "date"
		case isClock.MatchString(t):
			unit = "time"
		case strings.ContainsAny(t[:min(3, len(t))], "€$£"):
			unit, value = "money", strings.Trim(strings.ReplaceAll(low, ",", ""), " €$£.")
		case isYear.MatchString(t):
			r.year = t
			continue
		case parity[low]:
			unit = "odd or even"
		case days[low]:
			unit, value = "day", strings.TrimSuffix(low, "s")
		case numbers[low] != "" || low[0] >= '0' && low[0] <= '9':
			if n := numbers[low]; n != "" {
				value = n
			}
			value = strings.Trim(strings.ReplaceAll(value, ",", ""), ".")
			switch next, before := word(list, i+1), word(list, i-1); {
			case next != "" && !empty[next]:
				unit = stem(next)
				units[i+1] = true
			case before != "" && !empty[before]:
				unit = stem(before) + " #"
			default:
				continue
			}
		default:
			continue
		}
		shown := t
		switch {
		case units[i+1]:
			shown += " " + list[i+1]
		case strings.HasSuffix(unit, " #"):
			shown = list[i-1] + " " + shown
		}
		if r.shown[unit] != "" {
			shown = r.shown[unit] + " and " + shown
		}
		r.values[unit], r.shown[unit] = append(r.values[unit], value), shown
	}
	for i, t := range list {
		low := strings.ToLower(t)
		switch {
		case wishes[low] && r.mood == "":
			r.mood = wish
		case pasts[low] && r.mood == "":
			r.mood = past
		}
		if w := word(list, i); w != "" && !empty[w] && !units[i] && numbers[w] == "" && !parity[w] && !days[w] {
			r.words[stem(w)] = true
		}
	}
	if len(list) > 0 && ifs[strings.ToLower(list[0])] {
		r.begins = "#"
	}
	if len(list) > 1 && conditions[strings.ToLower(list[0])] && !isYear.MatchString(list[1]) {
		for i := 1; i < min(4, len(list)) && r.begins == ""; i++ {
			switch w := word(list, i); {
			case w == "" || days[w] || numbers[w] != "":
				r.begins = "#"
			case !empty[w]:
				r.begins = stem(w)
			}
		}
	}
	return r
}

// onlyFor reports whether a statement holds under a condition that another does not name.
func (s said) onlyFor(other said) bool {
	if s.begins != "" && s.begins != other.begins && !other.words[s.begins] && !other.name[s.begins] {
		return true
	}
	for w := range s.words {
		if qualifiers[w] && !other.words[w] && !other.name[w] {
			return true
		}
	}
	return false
}

// word is a token that is a word, in small letters; "" if it is a value, or none is there.
func word(list []string, i int) string {
	if i < 0 || i >= len(list) {
		return ""
	}
	if c := list[i][0]; c >= '0' && c <= '9' || strings.ContainsAny(list[i][:min(3, len(list[i]))], "€$£") {
		return ""
	}
	return strings.ToLower(list[i])
}
