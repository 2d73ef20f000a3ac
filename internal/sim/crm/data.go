package crm

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

//go:embed data/companies.tsv
var companies string

//go:embed data/names.tsv
var names string

// seed is what the records are drawn with: each new database has the same.
const seed = 2026

// filler fills a new database.
type filler struct {
	*Server
	rng   *rand.Rand
	today time.Time
	used  map[string]bool // emails
}

type campaign struct {
	org, name, about, status, region, owner string
	target, starts, due                     int // days from today
}

var campaigns = []campaign{
	{Fieldnote, "DACH field service", "Makers of machines in Germany, Austria and Switzerland that send technicians out.", "active", "DACH", "user_jonas", 25, -60, 35},
	{Fieldnote, "Nordic pilots", "Three pilots with grid and lift companies, with a review after eight weeks.", "active", "Nordics", "user_mara", 10, -45, 20},
	{Fieldnote, "Trial to team", "Teams on trial with more than ten active users: call within two days.", "active", "Europe", "user_jonas", 30, -90, 60},
	{Fieldnote, "Utilities UK", "Water and power companies before the new inspection rules.", "planned", "United Kingdom", "user_mara", 12, 14, 120},
	{Fieldnote, "Win back", "Deals lost in the last year for the missing offline mode, which is there now.", "paused", "Europe", "user_jonas", 8, -120, 45},
	{Fieldnote, "Hannover fair", "People who left a card at our stand.", "done", "Germany", "user_mara", 15, -150, -30},
	{Cargolane, "Benelux hauliers", "Hauliers with more than twenty trucks.", "active", "Benelux", "user_priya", 20, -50, 40},
	{Cargolane, "Port of Antwerp", "Everybody who books slots at the port by phone.", "active", "Belgium", "user_ruben", 8, -20, 70},
	{Cargolane, "Free to team", "Free accounts in which five people or more plan trips.", "planned", "Europe", "user_priya", 15, 7, 90},
	{Cargolane, "Iberia launch", "First customers in Spain and Portugal.", "done", "Iberia", "user_ruben", 10, -140, -20},
}

var (
	titles = []string{
		"Head of Operations", "Service Manager", "Managing Director", "Fleet Manager", "Head of Field Service", "IT Manager", "COO", "Dispatcher", "Procurement Lead", "Regional Manager", "Digital Lead", "CFO",
	}
	stages  = []string{"new", "new", "new", "contacted", "contacted", "contacted", "qualified", "qualified", "proposal", "won", "won", "lost"}
	sources = []string{"website", "trial", "trial", "referral", "event", "outbound", "outbound", "import"}
)

// said are notes about a lead, by its status.
var said = map[string][]string{
	"contacted": {
		"Sent the overview and two references. Wants to hear from us again next week.",
		"Short call: interested, but the season is busy. Better after the 15th.",
		"Left a message with the office. They prefer mail.",
	},
	"qualified": {
		"They plan all visits in a spreadsheet, and lose half a day a week with it. Budget is approved for this year.",
		"Demo with three dispatchers went well. They asked whether it works without a network: yes.",
		"Decision is made by the COO. The IT manager wants single sign-on.",
	},
	"proposal": {
		"Sent the offer with two options. They compare it with one competitor.",
		"Procurement asks for a data processing agreement and 5 % for a two-year contract.",
	},
	"won": {
		"Signed! Start with one depot, the others follow after the summer.",
		"Contract is signed. Training on site is agreed for two days.",
	},
	"lost": {
		"They stay with their own tool. Ask again in a year.",
		"Lost on price. The competitor offered the first year for free.",
	},
}

var accounts = []struct{ org, company, text, author string }{
	{Fieldnote, "Spreewerk Maschinenbau", "Renewal is due in spring. They want the parts catalogue in the app before they sign again.", "user_mara"},
	{Fieldnote, "Fjord Offshore", "Uses the offline mode every day. Happy to be a reference.", "user_mara"},
	{Fieldnote, "Kiezklinik", "Seven people on the free plan; the limit of ten is near.", "user_jonas"},
	{Fieldnote, "Severn Water Works", "The tender closes at the end of next month. Needs ISO 27001.", "user_jonas"},
	{Cargolane, "Scheldt Shipping", "Wants to book slots for barges, too. Ruben promised an answer.", "user_ruben"},
	{Cargolane, "Maasdelta Transport", "The dispatchers love the map. Billing goes to the holding.", "user_priya"},
}

// fill adds the records of the demo. The caller holds mu, in a transaction.
func (s *Server) fill() error {
	f := &filler{s, rand.New(rand.NewPCG(seed, 1)), s.o.Now().UTC().Truncate(24 * time.Hour), map[string]bool{}} //nolint:gosec // nothing secret
	people := map[string][2][]string{}
	for line := range strings.Lines(names) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		people[cells[0]] = [2][]string{strings.Split(cells[1], ","), strings.Split(cells[2], ",")}
	}
	projects := map[string][]string{}
	for _, p := range campaigns {
		id, err := f.add("projects", p.org, f.at(p.starts-20), map[string]any{
			"name": p.name, "description": p.about, "status": p.status, "region": p.region, "owner_id": p.owner,
			"target": p.target, "starts_on": f.date(p.starts), "due_on": f.date(p.due),
		})
		if err != nil {
			return err
		}
		projects[p.org] = append(projects[p.org], id)
	}
	for line := range strings.Lines(companies) {
		c := strings.Split(strings.TrimSpace(line), "\t")
		org := Fieldnote
		if c[0] == "c" {
			org = Cargolane
		}
		users, err := strconv.Atoi(c[8])
		if err != nil {
			return err
		}
		id, err := f.add("companies", org, f.at(-40-f.rng.IntN(300)), map[string]any{
			"name": c[1], "domain": c[2], "industry": c[3], "size": c[4], "city": c[5], "country": c[6], "plan": c[7], "active_users": users, "description": c[9],
		})
		if err != nil {
			return err
		}
		for range 2 + f.rng.IntN(3) {
			if err := f.lead(org, id, c, people[c[6]], projects[org]); err != nil {
				return err
			}
		}
		for _, a := range accounts {
			if a.company != c[1] {
				continue
			}
			if _, err := f.add("notes", org, f.at(-3-f.rng.IntN(20)), map[string]any{"text": a.text, "company_id": id, "author_id": a.author}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *filler) at(days int) time.Time {
	return f.today.AddDate(0, 0, days).Add(time.Duration(8*60+f.rng.IntN(9*60)) * time.Minute)
}

func (f *filler) date(days int) string { return f.today.AddDate(0, 0, days).Format(time.DateOnly) }

func (f *filler) add(name, org string, at time.Time, values map[string]any) (id string, err error) {
	k := kindOf(name)
	for _, x := range k.fields {
		if _, ok := values[x.name]; !ok && x.fresh != nil {
			values[x.name] = x.fresh
		}
	}
	values["created_at"] = stamp(at)
	if values["updated_at"] == nil {
		values["updated_at"] = stamp(at)
	}
	return f.insert(k, org, values)
}

func pick[T any](f *filler, list []T) T { return list[f.rng.IntN(len(list))] }

// lead adds somebody of a company, and what was said about them.
func (f *filler) lead(org, company string, c []string, people [2][]string, projects []string) error {
	var name, address string
	for address == "" || f.used[address] {
		first, last := pick(f, people[0]), pick(f, people[1])
		name, address = first+" "+last, strings.ReplaceAll(fold(first+"."+last), " ", "")+"@"+c[2]
	}
	f.used[address] = true
	status, age := pick(f, stages), 2+f.rng.IntN(110)
	size := map[string]int{"1-10": 2, "11-50": 5, "51-200": 12, "201-1000": 30, "1001+": 80}[c[4]]
	score := map[string]int{"new": 25, "contacted": 40, "qualified": 65, "proposal": 78, "won": 92, "lost": 12}[status]
	in := map[string]any{
		"name": name, "email": address, "title": pick(f, titles), "company_id": company, "city": c[5], "country": c[6],
		"status": status, "source": pick(f, sources), "score": max(1, min(100, score+f.rng.IntN(19)-9)),
		"value": (size*800 + f.rng.IntN(size*900)) / 100 * 100,
	}
	owners := map[string][]string{Fieldnote: {"user_mara", "user_jonas", "user_jonas"}, Cargolane: {"user_priya", "user_priya", "user_ruben"}}[org]
	if status != "new" || f.rng.IntN(3) > 0 {
		in["owner_id"] = pick(f, owners)
	}
	if f.rng.IntN(3) > 0 {
		in["project_id"] = pick(f, projects)
	}
	if f.rng.IntN(2) == 0 {
		in["phone"] = fmt.Sprintf("+%d %d %07d", codes[c[6]], 20+f.rng.IntN(70), f.rng.IntN(10_000_000))
	}
	last := 0
	if status != "new" {
		last = f.rng.IntN(age)
		in["last_contact_on"] = f.date(-last)
		in["updated_at"] = stamp(f.at(-last))
	}
	id, err := f.add("leads", org, f.at(-age), in)
	if err != nil || status == "new" || f.rng.IntN(10) < 3 {
		return err
	}
	_, err = f.add("notes", org, f.at(-last), map[string]any{"text": pick(f, said[status]), "lead_id": id, "author_id": in["owner_id"]})
	return err
}

var codes = map[string]int{
	"Germany": 49, "Austria": 43, "Switzerland": 41, "Norway": 47, "Denmark": 45, "Sweden": 46, "Finland": 358, "United Kingdom": 44, "Ireland": 353,
	"France": 33, "Poland": 48, "Italy": 39, "Spain": 34, "Portugal": 351, "Netherlands": 31, "Belgium": 32,
}
