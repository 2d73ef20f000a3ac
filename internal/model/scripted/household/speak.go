package household

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// answered is an answer in progress.
type answered struct {
	u        *turn
	plan     string // the text beside calls
	parts    []string
	evidence []string
	cites    []cite
	next     []string // suggested next questions
	took     []string // what was taken for what
	unread   int      // how many parts only say that something could not be read
}

type cite struct {
	Source string `json:"source"`
	Ref    string `json:"ref"`
	Quote  string `json:"quote"`
}

func newAnswer(u *turn) *answered { return &answered{u: u, plan: "I look it up."} }

func (a *answered) say(format string, args ...any) {
	if part := strings.TrimSpace(fmt.Sprintf(format, args...)); part != "" && !slices.Contains(a.parts, part) { // two requests may have the same result
		a.parts = append(a.parts, part)
	}
}

func (a *answered) prove(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !slices.Contains(a.evidence, line) {
		a.evidence = append(a.evidence, line)
	}
}

const maxCites = 10

func (a *answered) cite(id, quote string) {
	if len(a.cites) < maxCites && !slices.ContainsFunc(a.cites, func(c cite) bool { return c.Ref == id }) {
		a.cites = append(a.cites, cite{"home assistant", id, cut(quote, 300)})
	}
}

var (
	ageLine  = pattern.New(`(?m)^index: (.+)$`)
	lostHome = pattern.New(`(?m)^Home Assistant could not be asked now \((.+)\)`)
)

// text returns the whole answer.
func (a *answered) text() string {
	var b strings.Builder
	if len(a.parts) == 0 {
		a.parts = []string{"I cannot answer that from what the house records."}
	}
	b.WriteString(strings.Join(a.parts, "\n\n"))
	if len(a.parts) > a.unread {
		b.WriteString(a.stale())
	}
	for _, t := range a.took {
		b.WriteString("\n\n" + t)
	}
	for _, f := range a.u.related() {
		fmt.Fprintf(&b, "\n\nYou told me: %s", f)
	}
	if len(a.evidence) > 0 {
		b.WriteString("\n\n> " + Evidence + "\n>\n")
		for _, e := range a.evidence {
			b.WriteString("> - " + e + "\n")
		}
	}
	if len(a.cites) > 0 || len(a.next) > 0 {
		notes := struct {
			Citations []cite   `json:"citations"`
			FollowUps []string `json:"follow_ups"`
		}{append([]cite{}, a.cites...), append([]string{}, a.next...)}
		raw, _ := json.Marshal(notes)
		b.WriteString("\n\n```parley\n" + string(raw) + "\n```")
	}
	return strings.TrimSpace(b.String())
}

// stale says how old the states are that were read, and what could not be read.
func (a *answered) stale() string {
	var b strings.Builder
	for _, r := range a.u.Results {
		if age := ageLine.FindStringSubmatch(r.Output); age != nil && age[1] != "live" {
			b.WriteString("\n\n" + outOfDate(age[1]))
			break
		}
		if m := lostHome.FindStringSubmatch(r.Output); m != nil {
			fmt.Fprintf(&b, "\n\nHome Assistant could not be asked just now (%s); these are the states last known.", reason(m[1]))
			break
		}
	}
	var why []string
	for _, r := range a.u.Results {
		if r.Failed && r.Tool != act && r.Tool != askUser && !slices.Contains(why, reason(r.Output)) {
			why = append(why, reason(r.Output))
		}
	}
	if len(why) > 0 {
		fmt.Fprintf(&b, "\n\nNot all could be read: %s.", strings.Join(why, "; "))
	}
	return b.String()
}

func firstLine(s string) string { s, _, _ = strings.Cut(s, "\n"); return s }

func quote(text string) string {
	return "> " + strings.ReplaceAll(strings.TrimSpace(cut(text, 600)), "\n", "\n> ")
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

// listed joins words: "a, b and c".
func listed(in []string) string {
	switch len(in) {
	case 0:
		return ""
	case 1:
		return in[0]
	}
	return strings.Join(in[:len(in)-1], ", ") + " and " + in[len(in)-1]
}

var counts = []string{"none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}

func count(n int) string {
	if n >= 0 && n < len(counts) {
		return counts[n]
	}
	return strconv.Itoa(n)
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return count(n) + " times"
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// digits is the number of decimals shown for a unit.
var digits = map[string]int{"%": 0, "W": 0, "ppm": 0, "dB": 0, "lx": 0, "Hz": 2, "kB/s": 0, "lqi": 0, "A": 1, "kW": 1}

// amount formats a number for people.
func amount(v float64, unit string) string {
	n, ok := digits[unit]
	if !ok {
		n = 1
	}
	s := strconv.FormatFloat(v, 'f', n, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		s = "0"
	}
	return strings.TrimSpace(s + " " + unit)
}

// moment parses a time in the tools' format.
func moment(s string) time.Time {
	for _, layout := range []string{"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00"} {
		if t, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			return t
		}
	}
	return time.Time{}
}

// when returns a time in words: "at 22:34", "yesterday at 22:34", "on Friday at 22:34".
func (h house) when(t time.Time) string {
	clock := "at " + t.Format("15:04")
	switch d := h.daysAgo(t); {
	case d == 0:
		return clock
	case d == 1:
		return "yesterday " + clock
	case d > 1 && d < 7:
		return "on " + t.Weekday().String() + " " + clock
	}
	return "on " + t.Format("2 January") + " " + clock
}

// since returns the same in the form that follows "since".
func (h house) since(t time.Time) string {
	return strings.TrimPrefix(strings.TrimPrefix(strings.Replace(h.when(t), " at ", " ", 1), "at "), "on ")
}

func (h house) daysAgo(t time.Time) int {
	day := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC) }
	return int(math.Round(day(h.now).Sub(day(t.In(h.now.Location()))).Hours() / 24))
}

// clocks lists moments of one or more days: "at 22:34, 22:52 and 23:17".
func (h house) clocks(ts []time.Time) string {
	var out []string
	last := -1
	for _, t := range ts {
		said := t.Format("15:04")
		if d := h.daysAgo(t); d != last {
			said = h.when(t)
			if d == 0 && last > 0 {
				said = "today " + said
			}
			last = d
		}
		out = append(out, said)
	}
	return listed(out)
}

// took returns a duration in words.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return "less than a second"
	case d < 55*time.Second:
		return fmt.Sprintf("%d seconds", int(math.Round(d.Seconds())))
	case d < 100*time.Second:
		return "a minute"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(math.Round(d.Minutes())))
	case d < 48*time.Hour:
		return fmt.Sprintf("%s hours", amount(d.Hours(), ""))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

var pairs = map[string][2]string{
	"door": {"open", "closed"}, "window": {"open", "closed"}, "garage_door": {"open", "closed"}, "opening": {"open", "closed"},
	"motion": {"seeing motion", "seeing no motion"}, "occupancy": {"occupied", "free"}, "running": {"running", "not running"},
	"connectivity": {"connected", "not connected"}, "smoke": {"seeing smoke", "seeing no smoke"}, "moisture": {"wet", "dry"},
	"problem": {"reporting a problem", "fine"}, "battery": {"low", "fine"}, "plug": {"plugged in", "unplugged"},
}

var phrases = map[string]string{
	"not_home": "out", "armed_night": "armed for the night", "armed_away": "armed for absence", "armed_home": "armed for people at home",
	"partlycloudy": "partly cloudy", "clear-night": "clear", "above_horizon": "up", "below_horizon": "down", "in_use": "running",
	"program_ended": "at the end of its program", "heat": "heating", "unavailable": "not answering", "unknown": "without a known state",
	"home": "at home",
}

// told returns a state in words.
func (e entity) told() string {
	if v, ok := e.value(); ok {
		return amount(v, e.unit)
	}
	if e.lost() {
		return phrases[e.state]
	}
	if p, ok := pairs[e.class]; ok && e.domain() == "binary_sensor" {
		if e.state == "on" {
			return p[0]
		}
		if e.state == "off" {
			return p[1]
		}
	}
	if e.domain() == "climate" || e.domain() == "water_heater" && e.attrs != nil {
		return e.heating()
	}
	if p, ok := map[string]string{"on": "out of date: there is an update", "off": "up to date"}[e.state]; ok && e.domain() == "update" {
		return p
	}
	if p, ok := phrases[e.state]; ok && (e.state != "home" || e.domain() == "person" || e.domain() == "device_tracker") {
		return p
	}
	return strings.ReplaceAll(e.state, "_", " ")
}

func (e entity) heating() string {
	said := "on"
	if e.state == "off" {
		said = "off"
	}
	if target, ok := e.number("temperature"); ok {
		said = "set to " + amount(target, "°C")
		if e.state == "off" {
			said += " but off"
		}
	}
	if is, ok := e.number("current_temperature"); ok {
		said += ", with " + amount(is, "°C") + " now"
	}
	return said
}

var (
	aboutSuffix = pattern.New(`(?i)(?: climate)? (?:temperature|humidity|battery|contact|motion|power|status|tank|illuminance|energy)$`)
	watcher     = pattern.New(`(?i)^(.* (?:sensor|alarm|detector)) (?:moisture|smoke|gas)$`)
	anID        = pattern.New(`\b[a-z][a-z_]*\.[a-z0-9][a-z0-9_]*\b`)
	address     = pattern.New(`\[0x[^\]]*\] ?`)
)

// short returns the name without the measurement.
func (e entity) short() string {
	if e.class == "battery" {
		return strings.TrimSuffix(strings.TrimSuffix(e.name, " Battery"), " battery")
	}
	if m := watcher.FindStringSubmatch(e.name); m != nil {
		return m[1]
	}
	if s := aboutSuffix.ReplaceAllString(e.name, ""); s != "" {
		return s
	}
	return e.name
}

func (e entity) the() string {
	switch e.domain() {
	case "weather":
		return "the weather"
	case "person":
		return e.short()
	}
	if e.class == "motion" && e.domain() == "binary_sensor" {
		return "the " + lowerFirst(e.short()) + " sensor"
	}
	if owner, what, is := strings.Cut(e.short(), "'s "); is && !strings.EqualFold(owner, "children") { // Ana's phone
		return owner[strings.LastIndex(owner, " ")+1:] + "'s " + what
	}
	return "the " + lowerFirst(e.short())
}

// many reports whether a name is a plural, such as "the garden lights".
func (e entity) many() bool {
	return re(`(?i)(?:lights|lamps|blinds|shutters|curtains|plugs|speakers|doors|windows)$`).MatchString(e.short())
}

// verb returns "is" or "are".
func (e entity) verb() string {
	if e.many() {
		return "are"
	}
	return "is"
}

// are returns the verb for several entities.
func are(es []entity) string {
	if len(es) == 1 {
		return es[0].verb()
	}
	return "are"
}

// been describes the state that it has had for a while.
func (e entity) been() string {
	if e.many() {
		return "have been"
	}
	return "has been"
}

// lowerFirst changes a name for use inside a sentence: "Heat pump Compressor" becomes
// "heat pump compressor". Capitals, words with digits and possessives stay: a possessive
// is often a person's name.
func lowerFirst(s string) string {
	ws := strings.Fields(s)
	for i, w := range ws {
		rest := w[1:]
		if strings.ToLower(rest) == rest && !strings.ContainsAny(rest, "0123456789") && len(rest) > 0 && !(strings.Contains(rest, "'") && i == 0 && !strings.EqualFold(w, "children's")) {
			ws[i] = strings.ToLower(w[:1]) + rest
		}
	}
	return strings.Join(ws, " ")
}

// known replaces ids in a text by names.
func (u *turn) known(text string) string {
	text = address.ReplaceAllString(text, "")
	return anID.ReplaceAllStringFunc(text, func(id string) string {
		for _, e := range u.know.hits {
			if e.id == id {
				return e.name
			}
		}
		domain, object, _ := strings.Cut(id, ".")
		if !domains[domain] || service.MatchString(object) {
			return id
		}
		return upper(strings.ReplaceAll(object, "_", " "))
	})
}

var service = pattern.New(`^(?:turn|set|open|close|toggle|lock|unlock|start|stop|select|alarm)_|^(?:toggle|lock|unlock|start|stop|create|reload)$`)

var domains = words("light switch sensor binary_sensor climate cover lock automation script scene person device_tracker media_player fan vacuum camera event button weather sun group update select number")
