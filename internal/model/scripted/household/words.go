package household

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/kljensen/snowball/english"
	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/pattern"
)

// kind is a sort of thing that people ask about, and the words for it.
type kind struct {
	name    string // the name of one of them
	words   string // words and phrases, separated by |
	domain  string
	class   string
	measure bool   // it is a number
	low     string // words for a low value and for a high one
	high    string
	noun    string // of the number: "temperature"
}

// Kinds that are measured come first. In "the battery of the lock", the lock only says
// whose battery.
var kinds = []*kind{
	{name: "thermometer", noun: "temperature", words: "temperature|temperatures|temp|temps|thermometer|warm|cold|hot|cool|chilly|freezing|degrees|toasty|cosy", class: "temperature", measure: true, low: "coldest|colder|coolest|chilliest", high: "warmest|hottest|warmer"},
	{name: "humidity sensor", noun: "humidity", words: "humidity|humid|damp|moist|moisture|dry air", class: "humidity", measure: true, low: "driest", high: "dampest|most humid|moistest"},
	{name: "battery", noun: "battery", words: "battery|batteries|charge left|low on juice|out of juice|juice left", class: "battery", measure: true, low: "emptiest|weakest|flattest", high: "fullest"},
	{name: "voltmeter", noun: "voltage", words: "voltage|volt|volts|electrics|wiring|electrical system", class: "voltage", measure: true},
	{name: "energy meter", noun: "energy", words: "energy|electricity|juice|kwh|kilowatt hours", class: "energy", measure: true},
	{name: "power meter", noun: "power", words: "power|watt|watts|consumer|consumers|draw|draws|drawing|consumes|consuming|guzzles", class: "power", measure: true, high: "hungriest"},
	{name: "CO2 sensor", noun: "CO2", words: "co2|carbon dioxide|air quality|stuffy|stale|fresh air", class: "carbon_dioxide", measure: true},
	{name: "noise meter", noun: "noise", words: "noise|loud|noisy", class: "sound_pressure", measure: true, low: "quietest", high: "loudest|noisiest"},
	{name: "light sensor", noun: "brightness", words: "illuminance|lux", class: "illuminance", measure: true, low: "darkest", high: "brightest"},
	{name: "soil sensor", noun: "soil moisture", words: "soil|water the garden|water the lawn|water the plants|garden water|plants|thirsty", domain: "sensor", class: "moisture", measure: true},
	{name: "speed meter", noun: "throughput", words: "throughput|bandwidth|download speed|internet speed|how fast|how slow|mbit", class: "data_rate", measure: true},
	{name: "frequency meter", noun: "frequency", words: "frequency|hertz", class: "frequency", measure: true},
	{name: "radiator", words: "radiator|radiators|heating|thermostat|thermostats|heater|heaters|heat", domain: "climate"},
	{name: "light", words: "light|lights|lamp|lamps|bulb|bulbs|lighting", domain: "light"},
	{name: "window", words: "window|windows", class: "window"},
	{name: "garage door", words: "garage door|garage doors|garage gate", domain: "cover", class: "garage"},
	{name: "lock", words: "lock|locks|locked|unlocked|unlock", domain: "lock"},
	{name: "door", words: "door|doors", class: "door"},
	{name: "blind", words: "blind|blinds|shutter|shutters|curtain|curtains|roller", domain: "cover", class: "shutter"},
	{name: "leak sensor", words: "leak|leaks|leaking|leaked|leak sensor|leak sensors|any water|water on|flood|flooded|flooding|wet floor|floor wet", domain: "binary_sensor", class: "moisture"},
	{name: "smoke alarm", words: "smoke|smoke alarm|smoke alarms|smoke detector|fire|burning", domain: "binary_sensor", class: "smoke"},
	{name: "player", words: "playing|music|song|songs", domain: "media_player"},
	{name: "motion sensor", words: "motion|movement|moved|moving", class: "motion"},
	{name: "person", words: "anyone|anybody|someone|somebody|everyone|everybody|nobody|who is home|who's home|whos home|person|people|family", domain: "person"},
	{name: "alarm", words: "alarm|burglar alarm|security system", domain: "alarm_control_panel"},
	{name: "weather", words: "weather|forecast|wind|storm|stormy|rain|raining|rainy|rained|snowed|sunny|snow|snowing|windy|cloudy", domain: "weather"},
	{name: "sun", words: "sun|dark outside|get dark|got dark|gets dark|get light|got light|gets light|sunset|sunrise|daylight|day or night|daytime", domain: "sun"},
	{name: "vacuum cleaner", words: "vacuum|hoover|robot", domain: "vacuum"},
	{name: "mower", words: "mower|lawnmower", domain: "lawn_mower"},
	{name: "fan", words: "fan|fans|ventilation|extractor", domain: "fan"},
	{name: "door, blind or gate", domain: "cover"},
	{name: "water valve", words: "irrigation|sprinkler|sprinklers|watering", domain: "valve"},
	{name: "hot water", words: "hot water|boiler|water tank|hot-water", domain: "water_heater"},
	{name: "television", words: "tv|telly|television", domain: "media_player", class: "tv"},
	{name: "automation", words: "automations|routines", domain: "automation"},
	{name: "calendar", words: "calendar|calendars|appointment|appointments|diary|agenda|meeting|meetings|birthday|birthdays|dentist|doctor|hairdresser", domain: "calendar"},
	{name: "plug", words: "plug|plugs|socket|sockets|outlet|outlets", domain: "switch"},
}

// also has the other names that houses use for nouns.
var also = map[string]string{
	"car": "wallbox", "ev": "wallbox", "charger": "wallbox", "fridge": "fridge", "refrigerator": "fridge", "washer": "washing machine",
	"washing": "washing", "laundry": "washing machine", "pc": "desk", "wifi": "router", "internet": "router", "wi-fi": "router", "hoover": "vacuum",
	"telly": "tv", "television": "tv", "buy": "shopping list", "groceries": "shopping list", "stereo": "speaker", "doorbell": "doorbell", "ring": "doorbell", "rings": "doorbell", "rang": "doorbell", "rung": "doorbell", "bell": "doorbell", "espresso": "coffee",
}

// rooms has the other words for each room. A house need not have all the rooms.
var rooms = [][]string{
	{"bathroom", "bath", "loo", "toilet", "wc", "restroom", "washroom", "shower", "shower room", "ensuite"},
	{"living room", "lounge", "sitting room", "front room", "parlour", "livingroom", "family room"},
	{"bedroom", "bed", "master bedroom", "bed room", "sleeping room"},
	{"children's room", "nursery", "kids room", "kid's room", "kids' room", "childrens room", "child's room", "playroom", "kids", "baby room", "baby's room"},
	{"kitchen", "kitchenette"},
	{"hallway", "hall", "corridor", "entrance", "entry", "foyer", "landing"},
	{"utility room", "utility", "laundry room", "technical room", "boiler room", "plant room", "utilities"},
	{"garage", "carport"},
	{"garden", "yard", "outside", "outdoors", "outdoor", "lawn", "backyard"},
	{"office", "study", "home office", "den", "workroom"},
	{"cellar", "basement"},
	{"attic", "loft"},
	{"terrace", "patio", "deck"},
	{"balcony"},
	{"dining room"},
	{"guest room", "spare room"},
	{"pantry", "larder"},
	{"conservatory", "winter garden"},
	{"sauna"},
	{"shed"},
	{"gym"},
	{"stairs", "staircase", "stairway"},
	{"pool", "swimming pool"},
}

// outdoors has areas that are not rooms.
var outdoors = []string{"garden", "terrace", "balcony", "yard", "patio", "outside", "driveway", "street"}

// idle has more words that name nothing in a house, in addition to those of keyword.
var idle = words(`% draw draws drawing ° °c c a pm am o'clock rise rose rises risen sets usual unusual typical usually typically too a about actually back darker again louder quieter dimmer slightly little tad touch except instead rather much again ago all already also always am an and any anything are as ask asked at away
	be because become been before being between both but by can changed check come could currently day days did difference do does doing done down
	during each either else enough ever every everything exactly far few find first for from get gets getting give go goes going gone good got had has have
	early hello here hey hi hot-water how i if in into is it its itself just keep keeps kept kind know last late later latest least left less let like little long look
	looks low lower lowest many may me mean middle might minute minutes moment moments more most much my near need needed never next nice no not nothing now
	of off often ok okay on once one ones only open opened or other others our out outside over own past please point possible present quite rather
	really right room rooms said same say second seconds see seem seems set shall she should show side since so some something soon still stay stayed such sure
	take tell than thank thanks that the their them then there these they thing things think this those time times to today tonight too top total trouble try
	turn turned switch switched under until up us use used using usually value very via want was watch way we week went were what whats when where whether which while
	who whose why will with within without would wrong year yes yesterday yet you your dark flicker flickered flickering flickers blink blinking house home whole
	happen happened happens happening morning afternoon evening night midnight noon hour hours month months monday tuesday wednesday thursday friday saturday sunday
	highest minimum maximum average mean vary varied range peak lots amount figure readings state status level current currently percent per cent
	broken unavailable offline answering answer responding respond dead unreachable working works faulty fault faults error errors warning warnings log logs
	problem problems issue issues wrong cause caused reason explain diagnose plan mitigation mitigate prevent avoid simulate impact create make fix repair phase phases
	start started starts stop stopped finish finished finishes end ended ends run ran running runs begin began begun arrive arrived leave leaves come came
	close closed closes shut locked unlocked armed disarmed arm disarm charging charged charge bring brought warmer colder cooler brighter dimmer dim degree degrees
	coldest warmest hottest emptiest fullest dampest driest everyone anyone anybody someone somebody nobody whoever device devices sensor sensors entity entities unit units appliance appliances lamp's
	damn quick quickly ours mine does'nt feel feels feeling warm cold hot damp dry bright loud quiet empty full high higher raise increase decrease reduce
	help exact maybe often somewhere anywhere least heard hear due put electricity-wise bit lately recently recent earlier ages
	need usage used uses consumed consume consumption tariff price cost costs expensive cheap bill hmm well alright fine couldn't drop dropped dropping drops cut cutting
	downstairs upstairs floor ground compare compared comparing making produce produces produced producing generate generates generated generating tonights todays yesterdays ever entire entirely normal normally usual target temperature-wise
	halfway midway blame culprit responsible tell telling
	longer shorter hotter chillier noisier drier damper fuller emptier clean cleans cleaned mow mows mowed items entries difference
	after around bad fine dangerous healthy unhealthy harmful safe acceptable worrying
	lot lots against smell smells stuffy stale fresh anywhere leaking eating burning floor guzzling
	ready worked biggest consumer consumers good strong weak know coast clear active inactive enabled disabled ring rings rang rung ringing up-to-date
	wet thirsty speed fast slow new replace replaced replacing replacement changing swap recharge flat dying
	overnight weekend fortnight lunch lunchtime breakfast dinner dinnertime supper suppertime noon midday weird odd strange funny abnormal amiss fishy electrics wiring
	round choose chose chosen forgot forgotten dip dips outage outages failure failures alright someone's lamp-wise guys darling mate dear sir madam ta cheers`)

// compiled caches the compiled patterns of the rules.
var compiled sync.Map

func re(text string) *pattern.Regexp {
	if have, ok := compiled.Load(text); ok {
		return have.(*pattern.Regexp)
	}
	made := pattern.New(text)
	compiled.Store(text, made)
	return made
}

func words(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

func stem(w string) string { return english.Stem(w, false) }

// split returns the words of a text in lower case. Apostrophes stay.
func split(text string) []string {
	return strings.FieldsFunc(strings.ToLower(strings.ReplaceAll(text, "’", "'")), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' && r != '°' && r != '%' && r != '.' && r != '_'
	})
}

func clean(text string) []string {
	var out []string
	for _, w := range split(text) {
		if w = strings.Trim(w, ".'"); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// has reports whether one of the phrases, separated by |, is in the words.
func has(ws []string, phrases string) bool { return at(ws, phrases) != nil }

// at returns the first of the phrases that is in the words, longest phrase first.
func at(ws []string, phrases string) []string {
	if phrases == "" {
		return nil
	}
	var best []string
	for p := range strings.SplitSeq(phrases, "|") {
		p := strings.Fields(p)
		for i := 0; i+len(p) <= len(ws); i++ {
			if slices.Equal(ws[i:i+len(p)], p) && len(p) > len(best) {
				best = p
			}
		}
	}
	return best
}

// alike reports whether two words are the same except for their ending or a typo.
func alike(a, b string) bool {
	const longest = 40 // letters in a word
	if len(a) > longest || len(b) > longest {
		return a == b
	}
	// Words with different first letters have different stems, and stemming is slow.
	if a == b || a != "" && b != "" && a[0] == b[0] && stem(a) == stem(b) {
		return true
	}
	slips := 0
	switch n := len(a); {
	case n >= 8:
		slips = 2
	case n >= 4:
		slips = 1
	}
	return slips > 0 && len(b) >= 4 && a[0] == b[0] && keyword.Slips(a, b) <= slips
}

func sorted(w string) string {
	rs := []rune(w)
	slices.Sort(rs)
	return string(rs)
}

// spelt has the words whose typos are corrected: those that decide what is asked.
var spelt = func() []string {
	set := map[string]bool{}
	for _, k := range kinds {
		for w := range strings.FieldsFuncSeq(k.words+"|"+k.low+"|"+k.high, func(r rune) bool { return r == '|' || r == ' ' }) {
			set[w] = true
		}
	}
	for _, r := range rooms {
		for _, w := range r {
			for _, one := range strings.Fields(w) {
				set[one] = true
			}
		}
	}
	for w := range idle {
		set[w] = true
	}
	for _, w := range strings.Fields("turn switch close open lock unlock dim raise lower start stop pause unavailable yesterday last night evening morning flicker since") {
		set[w] = true
	}
	var out []string
	for w := range set {
		if len(w) >= 4 {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return out
}()

var (
	turnOf   = pattern.New(`\b(turn|switch|turned|switched|tun|trun|swich|swtich)( \w+)?( \w+)?( \w+)? of\b`)
	notShort = pattern.New(`\b(is|are|was|were|do|does|did|has|have|had)n't\b`)
	kicksIn  = pattern.New(`\bkick(?:s|ed)? in\b`)
	theTeh   = pattern.New(`\b(teh|hte|th)\b`)
)

// contracted has words whose "'s" is no possessive, and words of room names.
var contracted = words("what who it that let where how when there here why he she everything anything something everyone anyone someone children child kid baby today yesterday tonight")

// spell corrects typos in the words that decide what is asked. The house's own words
// stay.
func spell(text string, own map[string]bool) []string {
	text = theTeh.ReplaceAllString(strings.ToLower(text), "the")
	text = kicksIn.ReplaceAllStringFunc(text, func(m string) string {
		return map[bool]string{true: "came on", false: "come on"}[strings.HasPrefix(m, "kicked")]
	})
	text = notShort.ReplaceAllString(strings.ReplaceAll(text, "’", "'"), "$1 not")
	if m := turnOf.FindString(text); m != "" {
		text = strings.Replace(text, m, m+"f", 1)
	}
	ws := clean(text)
	for i, w := range ws {
		if base, ok := strings.CutSuffix(w, "'s"); ok && !contracted[base] {
			w, ws[i] = base, base
		}
		if w == "tun" || w == "trun" || w == "trn" {
			ws[i] = "turn"
		}
		if len(w) < 4 || len(w) > 20 || idle[w] || own[w] || own[stem(w)] || slices.Contains(spelt, w) {
			continue
		}
		for _, s := range spelt {
			slips := 1 + len(w)/8
			swapped := len(w) == len(s) && sorted(w) == sorted(s)
			if w[0] == s[0] && len(s) >= 4 && keyword.Slips(w, s) <= slips && (len(w) > 4 || swapped) {
				ws[i] = s
				break
			}
		}
	}
	return ws
}
