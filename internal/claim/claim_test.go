package claim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/claim"
)

var museum = claim.World{Name: "The town museum", Day: time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)}

// said is a statement that is written as TITLE › HEADING >> TEXT.
func said(t *testing.T, text string) claim.Statement {
	t.Helper()
	s := claim.Statement{Path: "docs/page.md", Kind: "doc", Text: text}
	if in, rest, ok := strings.Cut(text, " >> "); ok {
		s.Under, s.Text = strings.Split(in, " › "), rest
	}
	return s
}

// TestContradict: what contradicts what, rule by rule. What stands before >> is the title of the page and what else a statement stands under.
func TestContradict(t *testing.T) {
	t.Parallel()
	for name, pairs := range map[string][2][]string{ // what contradicts each other, and what does not
		"times": {
			{
				"Leaflet >> Doors open at 09:00 | Opening hours >> Tuesday to Sunday, 10:00 to 17:00",
				"The café closes at 6 pm | The café closes at 17:30",
				"We open at half past nine | Visit >> The museum opens at 10:00",
				"The gate is locked at 22:00 | The gate closes at 21:00",
				"The library is open from 9:00 to 17:00 | The library closes at 18:00",
				"Workshop >> It starts at 14:00 | The workshop begins at 15:00",
			},
			{
				"The museum opens at 10:00 | On Sundays the museum opens at 12:00",
				"The museum opens at 10:00 | In winter the museum opens at 11:00",
				"The museum opens at 10:00 | The museum closes at 17:00",
				"We open at half past nine | The museum opens at 9:30",
				"Organ concert >> Doors open at 19:00 | Opening hours >> The museum opens at 10:00",
				"The library is open from 9:00 to 17:00 | The library opens at 9:00",
				"The café closes at 6 pm | The café closes at 18:00",
				"The museum opens at 10:00 | The museum's shop opens at 11:00",
				"Summer >> The museum opens at 9:00 | Opening hours >> The museum opens at 10:00",
				"The museum opens at 10:00 | Should the museum open at 9:00?",
				"The museum opens at 10:00 | From next year the museum opens at 9:00",
				"The museum opens at 10:00 | The museum opened at 11:00 because of the snow",
				"The museum opens at 10:00 | The museum would open at 9:00 if there were more guards",
			},
		},
		"money": {
			{
				"Leaflet >> A ticket costs 14 € | Price list › | Ticket | Price | >> | Ticket | € 12 |",
				"A guided tour costs 60 euros | Fees >> Guided tour: € 75",
				"The deposit for a locker is 2 euros | Lockers >> Deposit for a locker: 1 euro",
				"Members pay 40 euros a year | A member pays 45 euros a year",
			},
			{
				"A group ticket 9 euros | A ticket 14 euros",
				"A ticket costs 14 euros | A ticket for children costs 7 euros",
				"A ticket costs 12 euros | In 2019 a ticket cost 8 euros",
				"A ticket costs 12 euros | In 2019 a ticket costs 8 euros",
				"Annual report 2019 >> A ticket costs 8 euros | A ticket costs 12 euros",
				"A ticket costs 12 euros | We propose that a ticket costs 15 euros",
				"A ticket costs 12 euros | The deposit for a ticket is 2 euros",
				"Members pay 40 euros a year | Members pay 4 euros a month",
				"A catalogue costs 25 euros | Each catalogue costs 5 euros more abroad",
				"A ticket costs 14 euros | A ticket costs from 9 euros",
				"A ticket costs 1,200 euros | A ticket costs € 1200",
				"A ticket costs 14 euros, a child's ticket 7 euros | A child's ticket costs 7 euros",
				"The annual card costs 40 euros | The lost card costs 5 euros",
			},
		},
		"numbers of things": {
			{
				"The tower has 212 steps | Tower >> There are 198 steps in the tower",
				"The lecture hall seats 120 | The lecture hall has 140 seats",
				"The lecture hall holds up to 120 people | There is room for 140 people in the lecture hall",
				"The lift carries at most 8 people | The lift carries 12 people",
				"The archive keeps files for 10 years | Files are kept in the archive for 30 years",
				"The vault is kept at 18 °C | The vault is kept at 21 degrees",
				"The wheel has a diameter of 3.2 m | The wheel has a diameter of 280 cm",
			},
			{
				"Notes of 2026-03-02 >> 31 objects | Notes of 2026-03-09 >> 44 objects",
				"Stocktaking on 2 March 2026 >> We counted 31 objects | Stocktaking on 9 March 2026 >> We counted 44 objects",
				"31 people came to the talk | 44 people came to the talk",
				"Gallery 3 has 40 objects | Gallery 4 has 52 objects",
				"The blue hall has 40 chairs | The red hall has 60 chairs",
				"The lift carries at most 8 people | The lift carries 6 people",
				"The lift carries at most 8 people | The lift carries at least 2 people",
				"The collection has about 9,000 objects | The collection has 8,412 objects",
				"The course lasts two weeks | The course lasts 14 days",
				"The course lasts 90 minutes | The course lasts 1.5 hours",
				"Objects are lent for 90 days | Objects are lent for 30 days without insurance",
				"The vault is kept at 18 °C | The vault is kept at 16 to 20 °C",
				"The vault was kept at 25 °C | The vault is kept at 18 °C",
				"Blue room >> Chairs: 20 | Red room >> Chairs: 30",
				"The boiler is checked every 6 months | The boiler is repaired every 12 months",
			},
		},
		"days": {
			{
				"The museum is closed on Mondays | Leaflet >> The museum is closed on Tuesdays",
				"The bins are emptied every Tuesday | The bins are emptied on Thursdays",
				"The contract with the baker ends on 2026-12-31 | The contract with the baker ends on 30 June 2027",
			},
			{
				"The bins are emptied on Tuesdays | The paper bins are emptied on Fridays",
				"The museum is closed on Mondays | The museum is closed on Monday",
				"The roof was mended on 2024-05-02 | The roof was mended on 2025-06-11",
			},
		},
		"people, telephones, and names of things": {
			{
				"Curator of coins: Ines Albrecht | The curator of coins is Tom Hagen",
				"Rosa Lind is responsible for the keys | Responsible for the keys: Ben Okafor",
				"Phone of the ticket desk: 555-0142 | Call the ticket desk on 555-0199",
				"The depot listens on port 8080 | The depot's port is 9090",
				"The meeting of guards is in room 4 | The meeting of guards is in room 7",
				"The museum was founded in 1911 | The museum was founded in 1921",
			},
			{
				"Curator of coins: Ines Albrecht | The curator of maps is Tom Hagen",
				"Curator of coins: Ines Albrecht | Curator of coins: Ines",
				"Curator of coins: Ines Albrecht | Deputy curator of coins: Tom Hagen",
				"Phone of the ticket desk: 555-0142 | Phone of the office: 555-0199",
				"Phone of the ticket desk: +49 30 5550142 | Phone of the ticket desk: 030 5550142",
				"The museum was founded in 1911 | The café was founded in 1998",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, list := range pairs {
				for _, pair := range list {
					a, b, _ := strings.Cut(pair, " | ")
					if strings.Contains(b, " | ") { // a row of a table
						at := strings.Index(pair, " | Price list")
						a, b = pair[:at], pair[at+3:]
					}
					for _, swap := range []bool{false, true} {
						if swap {
							a, b = b, a
						}
						why, yes := museum.Contradict(said(t, a), said(t, b))
						if yes != (i == 0) {
							t.Errorf("%s\n<> %s\ncontradict each other: %v %s", a, b, yes, why)
						}
					}
				}
			}
		})
	}
}
