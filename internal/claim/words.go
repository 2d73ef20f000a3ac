package claim

import (
	"strings"

	"github.com/kljensen/snowball/english"
)

// set is words as they are looked up.
func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// stemmed is a set of the words that a statement's words become.
func stemmed(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[meaning(w)] = true
	}
	return m
}

// function are words that say nothing of what a statement is about.
var function = set(`a an the this that these those its their our your his her my it we you they he she i us them him me who whom whose which what there here
	is are be been being am was were and or but as so than then also only just even too very quite of to for from by in on at with within into onto per each every any all both
	no not nor either neither such same other another own up down out off over about around roughly approximately nearly almost some more most less least fewer exactly
	has have had having do does did can could may might must shall should will would ought
	please note remember always usually normally generally currently now today still already again ever never nobody none one ones somebody someone everybody everyone anyone people's
	above below beyond under between until till through via upon towards across along near next if when while where whenever once unless because since after before during except without whoever
	how why yes etc eg ie dear however therefore thus hence maximum minimum max min limit limited total number amount altogether respectively roughly ca circa approx`)

// narrowing are function words whose clause says when or for whom something holds. What comes behind them counts, and so do they.
var narrowing = set(`if when whenever unless while during except without`)

// synonyms are words for one meaning, the first of them.
var synonyms = func() map[string]string {
	m := map[string]string{}
	for row := range strings.Lines(`
		open opens opening opened opener unlock unlocks unlocked
		close closes closing closed closure shut shuts lock locks locked
		start starts starting started begin begins beginning began begun commence commences
		end ends ending ended finish finishes finished
		cost costs costing price prices priced pay pays paid payment payments fare fares tariff tariffs charge charges charged fee fees
		yearly annual annually year's per-year
		lend lends lent lending loan loans loaned borrow borrows borrowed borrowing
		keep keeps kept keeping retain retains retained retention store stores stored stay stays stayed
		visit visits visiting visitor visitors visited
		hold holds held holding sleep sleeps capacity room-for fit fits accommodate accommodates seating
		owner owners own owns owned ownership responsible responsibility
		lead leads led leader leaders leading head heads headed
		manage manages managed manager managers
		phone phones telephone tel call calls called dial dials hotline
		arrive arrives arrived arrival deliver delivers delivered delivery deliveries
		leave leaves left departs depart departure
		check checks checked checking inspect inspects inspected inspection inspections examine examined test tests tested testing
		clean cleans cleaned cleaning wash washes washed washing
		record records recorded recording measure measures measured
		change changes changed changing rotate rotates rotated rotation renew renews renewed replace replaces replaced replacement swap swapped
		member members membership
		child children kid kids
		child's children's
		long length
		wide width
		high height tall
		deep depth
		heavy weight weigh weighs weighed
		fast speed
		take takes took taken taking last lasts lasted lasting duration
		release releases released
		deadline due submitted hand-in
		train trains trained training
		teach teaches taught teacher teachers teaching
		employ employs employed employee employees staff
		found founded founding establish established
		build builds built building-date constructed
		send sends sent
		sell sells sold
		give gives gave given
		make makes made
		bring brings brought
		buy buys bought
		meet meets met meeting meetings
		feed feeds fed feeding
		run runs running ran
		teach taught
		show shows shown showed performance performances
		operate operates operated surgery surgeries operation
		book books booked booking bookings reserve reserves reserved reservation reservations
		medicine medicines medication drug drugs
		car cars vehicle vehicles
		evening evenings
		photo photos photograph photographs
		`) {
		words := strings.Fields(row)
		for _, w := range words {
			if m[w] == "" {
				m[w] = words[0]
			}
		}
	}
	return m
}()

// meaning is one word for all that mean the same. It is a stem, or the first of its synonyms.
func meaning(word string) string {
	w := strings.TrimSuffix(strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(word), "’", "'"), "'s"), "'")
	if s := synonyms[w]; s != "" {
		return s
	}
	s := english.Stem(w, false)
	if o := synonyms[s]; o != "" {
		return o
	}
	return s
}

var (
	// attributes are meanings that say what is told of a thing, and not of which.
	attributes = stemmed(`open close start end cost yearly phone arrive leave long wide high deep heavy fast take deadline hold hour hours day days opening`)
	// verbs are meanings of words for what is done.
	verbs = stemmed(`open close start end cost lend keep visit hold lead manage phone arrive leave check clean record change take release send sell give make bring buy meet feed run
		go goes come comes get gets stand stands lie lies need needs use uses work works live lives play plays wait waits expire expires listen listens bake bakes prove proves
		dry dries lift lifts carry carries serve serves eat eats write writes read reads sign signs show water waters empty empties fill fills weigh weighs pump pumps teach train
		book contain contains include includes offer offers require requires allow allows permit permits reach reaches travel travels return returns park parks depart
		enjoy enjoys try tries join joins count counts milk milks operate operates employ ring rings employs print prints rise rises fall falls set sets stop stops pass passes add adds move moves turn turns sit sits`)
	// nouns are forms of verbs' meanings that are no verbs.
	nouns = set(`payment payments fare fares tariff tariffs fee fees price prices capacity owner owners leader leaders manager managers telephone delivery deliveries arrival departure retention width length height weight duration membership
		teacher teachers inspection inspections replacement rotation reservation reservations surgery surgeries operation visitor visitors closure performance performances loan loans deadline staff`)
	// light are verbs that only join a thing and its value.
	light = stemmed(`go come get stand lie need use contain include require run set take hold enjoy count cost`)
	// idle are meanings that say nothing of which thing a fact is about.
	idle = stemmed(`be board come comes go goes get gets need needs lie lies stand stands time times contain contains include includes count counts set sets house thing things way
		service services system systems house premises place actually simply kindly sure good currently page standard regular normal usual general regularly
		decide decided promise promised agree agreed result know tell say says said see mind take`)
	idleFor = map[string]map[string]bool{
		"money":       stemmed(`cost money amount sum value`),
		"time":        stemmed(`hour hours clock time day daily`),
		"hours":       stemmed(`hour hours clock time day daily open close`),
		"phone":       stemmed(`phone number reach line call contact`),
		"person":      stemmed(`name person`),
		"duration":    stemmed(`time duration period long due cost payment pay`),
		"temperature": stemmed(`temperature degree warm cold`),
		"length":      stemmed(`measure`),
		"weight":      stemmed(`heavy`),
		"count":       stemmed(`number hold room space`),
		"every":       stemmed(`time interval`),
		"weekday":     stemmed(`day weekly week evening morning`),
		"date":        stemmed(`day date`),
	}
	// genres are meanings of words in titles that say what sort of text a page is, and not of what.
	genres = stemmed(`leaflet flyer brochure guide handbook faq question questions answer answers welcome introduction intro overview note notes rule rules list lists sign text about info information
		checklist manual instruction instructions tip tips page notice poster website site contact contacts visit visitor visitors start home index readme general summary fact facts figure figures
		detail details everything open opening hours hour price prices new newcomer newcomers beginner beginners help how what basics quick short important relatives house onboarding first steps
		booklet sheet card letter letters briefing briefings printing print technical emergency emergencies newsletter map tour practical arrival key glance briefly plan planning policy policies description profile compliance public web`)
	// texts are kinds of pages that are no kind of thing.
	texts = set(`page doc docs document role note notes procedure howto how-to reference article topic runbook decision adr`)
	// scoped are meanings that narrow all that stands under them: seasons, holidays, groups, events.
	scoped = stemmed(`winter summer spring autumn season holiday holidays christmas easter night nights weekend weekends bank-holiday
		member child junior juniors student students senior seniors pupil pupils school schools family families group groups staff adult adults premium express trial pilot test
		fair festival market tournament workshop course exhibition camp trip party wedding concert event events exception exceptions first second third last next surgery maternity
		old former previous history historical future proposal proposals draft idea ideas wish wishes plan-b budget forecast`)
	// happened are meanings in titles and kinds of pages that tell what was at a time.
	happened = stemmed(`minutes meeting meetings log logbook diary journal incident incidents retro retrospective audit report trip ledger chronicle review postmortem standup protocol event news blog`)
)

// told are words in titles of pages that tell what was, whether they have a day or not.
var told = set(`minutes log logbook diary journal ledger chronicle incident retro retrospective postmortem news`)

// mood is how something is said.
type mood byte

const (
	isSo mood = iota
	wasSo
	wanted
	toDo
	asked
)

var (
	wishes = set(`propose proposes proposed proposal suggest suggests suggested suggestion want wants wanted ask asks asked wished would could might maybe perhaps plans draft
		offer offers offered consider considers considered considering expect expects expected hope hopes hoped idea request requested target aim aims goal discuss discussed discusses thinks think
		estimate estimates estimated intend intends intended should rather dream aims like discussing trial example if imagine suppose voted vote budgeted forecast going`)
	pasts = set(`was were had did formerly previously earlier became found took went came previous used ago sold led grew fell rose began left paid kept held gave ran brought bought
		made spent saw last-year yesterday originally initially historically back`)
	soon = set(`will shall tomorrow soon next future upcoming from-next`)
)

// roles are words for who is responsible for something, or does it for others.
var roles = stemmed(`owner lead manager head chair chairs chairman chairwoman warden contact treasurer trainer coach director keeper maintainer maintains maintain deputy secretary foreman captain editor
	coordinator organiser organizer administrator admin conductor caretaker principal supervisor steward curator librarian cashier sponsor janitor headteacher mentor registrar skipper cook
	producer accountant host president responsible charge lookafter nurse doctor`)

// numbers are those that are written as words.
var numbers = map[string]float64{
	"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14,
	"fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
	"hundred": 100, "dozen": 12,
}

var weekdayNames = map[string]int{
	"monday": 0, "tuesday": 1, "wednesday": 2, "thursday": 3, "friday": 4, "saturday": 5, "sunday": 6,
	"mon": 0, "tue": 1, "tues": 1, "wed": 2, "thu": 3, "thur": 3, "thurs": 3, "fri": 4, "sat": 5, "sun": 6,
}

var monthNames = map[string]int{
	"january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7, "august": 8, "september": 9, "october": 10, "november": 11, "december": 12,
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "sept": 9, "oct": 10, "nov": 11, "dec": 12,
}

// unit is what a quantity is measured in.
type unit struct {
	kind   string
	factor float64
}

// units are those of quantities. Durations are in days, lengths in metres, weights in kilograms, volumes in litres.
var units = func() map[string]unit {
	m := map[string]unit{}
	add := func(kind string, factor float64, names string) {
		for n := range strings.FieldsSeq(names) {
			m[n] = unit{kind, factor}
		}
	}
	add("duration", 1.0/86400, "second seconds sec secs s")
	add("duration", 1.0/86400000, "ms millisecond milliseconds")
	add("duration", 1.0/1440, "minute minutes min mins")
	add("duration", 1.0/24, "hour hours h hr hrs")
	add("duration", 1, "day days d night nights")
	add("duration", 7, "week weeks wk")
	add("duration", 14, "fortnight fortnights")
	add("duration", month, "month months")
	add("duration", 12*month, "year years yr yrs")
	add("length", 1, "m metre metres meter meters")
	add("length", 0.01, "cm centimetre centimetres centimeter centimeters")
	add("length", 0.001, "mm millimetre millimetres millimeter millimeters")
	add("length", 1000, "km kilometre kilometres kilometer kilometers")
	add("length", 0.3048, "ft foot feet")
	add("length", 0.0254, "inch inches")
	add("length", 1609.344, "mile miles")
	add("weight", 1, "kg kilo kilos kilogram kilograms kilogramme kilogrammes")
	add("weight", 0.001, "g gram grams gramme grammes")
	add("weight", 1000, "t tonne tonnes ton tons")
	add("volume", 1, "l litre litres liter liters")
	add("volume", 0.001, "ml millilitre millilitres")
	add("volume", 0.01, "cl")
	add("volume", 100, "hl hectolitre hectolitres")
	add("temperature", 1, "degree degrees celsius")
	add("percent", 1, "percent %")
	add("speed", 1, "knots kn")
	add("pace", 1, "km/h kph")
	add("area", 1, "hectare hectares ha")
	add("power", 1, "kw kilowatt kilowatts")
	add("data", 1, "mb megabyte megabytes")
	add("data", 1024, "gb gigabyte gigabytes")
	add("data", 1024*1024, "tb terabyte terabytes")
	return m
}()

const month = 30.4375 // days

// numbered are words for things of which a number is a value: a port, the extension of a telephone.
var numbered = stemmed(`port version channel code pin level force size grade platform track extension frequency edition`)

// placed are words for places that have numbers, which are values of what is there.
var placed = stemmed(`room floor gate hall bay pier locker berth shelf building desk studio stage`)
