package household

import (
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// diagnosed is the result of diagnose_entity.
type diagnosed struct {
	about    entity
	moments  int
	at       []time.Time
	what     []string
	together []together
	caused   []string // "16 of its 20 changes were caused by …"
	errors   []fault
	members  []entity // their state is the number of their moments
	also     []entity // other things asked about that had the same moments
	from, to time.Time
	lost     bool
}

// together is a thing that changed at the same moments.
type together struct {
	id, name, what, example string
	hits, of, inAll         int
	without                 int         // how often of inAll it was at none of the moments
	alone                   []time.Time // the first of these times
}

// fault is a group of messages in the error log.
type fault struct {
	level, about, text string
	count              int
	first, last        time.Time
}

var (
	headLine    = pattern.New(`^(\S+\.\S+) = (.*)$`)
	spanLine    = pattern.New(`^Looked at from (\d{4}-\S+ \S+) to (\d{4}-\S+ \S+)\.$`)
	momentsLine = pattern.New(`^- (\d+) unusual moments: (.*)\.$`)
	momentPart  = pattern.New(`(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S*) \((.*?)\)(?:; |$)`)
	sameLine    = pattern.New(`^- ([a-z0-9_]+\.[a-z0-9_]+) \((.*?)\): (.*) at (\d+) of the (\d+) moments, (\d+) times in all(?:, (\d+) of them at no such moment \((.*?)\))?\. Example: (.*)\.$`)
	causedLine  = pattern.New(`^- (\d+ of .* changes were caused by .*)\.$`)
	faultLine   = pattern.New(`^- (WARNING|ERROR|CRITICAL) about (.*), (\d+) times from (\d{4}-\S+ \S+) to (\d{4}-\S+ \S+): (.*)$`)
	memberLine  = pattern.New(`^- (\S+) = (.*) · (.*) · (\d+) unusual moments$`)
	groupLine   = pattern.New(`^(WARNING|ERROR|CRITICAL) about (.*) ×(\d+), (\d{4}-\S+ \S+) to (\d{4}-\S+ \S+)$`)
	lostFor     = pattern.New(`unavailable for ([\d.]+)s`)
)

func diagnosisOf(text string, areas []string) diagnosed {
	d := diagnosed{}
	for i, line := range strings.Split(text, "\n") {
		if m := headLine.FindStringSubmatch(line); m != nil && i == 0 {
			if es := entities("- "+line, areas); len(es) == 1 {
				d.about = es[0]
			}
		}
		if m := spanLine.FindStringSubmatch(line); m != nil {
			d.from, d.to = moment(m[1]), moment(m[2])
		}
		if m := momentsLine.FindStringSubmatch(line); m != nil {
			d.moments, _ = strconv.Atoi(m[1])
			for _, p := range momentPart.FindAllStringSubmatch(m[2], -1) {
				d.at, d.what = append(d.at, moment(p[1])), append(d.what, p[2])
			}
		}
		if m := sameLine.FindStringSubmatch(line); m != nil {
			t := together{id: m[1], name: m[2], what: m[3], example: m[9]}
			t.hits, _ = strconv.Atoi(m[4])
			t.of, _ = strconv.Atoi(m[5])
			t.inAll, _ = strconv.Atoi(m[6])
			t.without, _ = strconv.Atoi(m[7])
			for s := range strings.SplitSeq(m[8], "; ") {
				if at := moment(s); !at.IsZero() {
					t.alone = append(t.alone, at)
				}
			}
			d.together = append(d.together, t)
		}
		if m := causedLine.FindStringSubmatch(line); m != nil {
			d.caused = append(d.caused, m[1])
		}
		if m := faultLine.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[3])
			d.errors = append(d.errors, fault{level: m[1], about: m[2], count: n, first: moment(m[4]), last: moment(m[5]), text: m[6]})
		}
		if m := memberLine.FindStringSubmatch(line); m != nil {
			d.members = append(d.members, entity{id: m[1], name: m[3], state: m[4]})
		}
		d.lost = d.lost || strings.Contains(line, " is unavailable now, since")
	}
	d.joinUp()
	return d
}

// joinUp joins moments within two minutes of each other: a number that jumps also jumps
// back. The things that changed together are counted by joined moments from then on. The
// diagnosis lists only the first of many moments, so the total is scaled in proportion.
func (d *diagnosed) joinUp() {
	if d.about.unit == "" || len(d.at) == 0 {
		return
	}
	var at []time.Time
	var what []string
	for i, t := range d.at {
		if len(at) == 0 || t.Sub(at[len(at)-1]) > 2*time.Minute {
			at, what = append(at, t), append(what, d.what[i])
		}
	}
	d.moments = (d.moments*len(at) + len(d.at) - 1) / len(d.at)
	d.at, d.what = at, what
	for i := range d.together {
		t := &d.together[i]
		t.hits, t.of = min(t.hits, d.moments), d.moments
	}
}

func faultsOf(text string) []fault {
	var out []fault
	for line := range strings.SplitSeq(text, "\n") {
		if m := groupLine.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[3])
			out = append(out, fault{level: m[1], about: m[2], count: n, first: moment(m[4]), last: moment(m[5])})
		} else if n := len(out); n > 0 && out[n-1].text == "" && strings.HasPrefix(line, "  ") {
			out[n-1].text = strings.TrimSpace(line)
		}
	}
	return out
}
