package homeassistant

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/seam"
)

// The tool ha_logbook.

type logbookInput struct {
	Entities []string `json:"entities"`
	Area     string   `json:"area"`
	Query    string   `json:"query"`
	span
	Limit int `json:"limit"`
}

const maxRows = 200

type logbookRow struct {
	At      string `json:"at"`
	ID      string `json:"entity_id,omitempty"`
	Name    string `json:"name"`
	Text    string `json:"text"`
	ByID    string `json:"caused_by,omitempty"`
	ByHuman bool   `json:"by_person,omitempty"`
	Person  string `json:"person,omitempty"` // the person who did it, if known
}

type logbookAnswer struct {
	From  string       `json:"from"`
	To    string       `json:"to"`
	Total int          `json:"total"`
	Rows  []logbookRow `json:"rows"`
}

// maxWhole is the longest span for which the logbook of a whole house is read: a large house
// writes tens of thousands of lines in it.
const maxWhole = 3 * 24 * time.Hour

func wholeHouse(from, to time.Time) error {
	if to.Sub(from) <= maxWhole {
		return nil
	}
	return parley.Errorf(parley.CodeTooLarge, "the logbook of the whole house is read for at most three days at once").WithField("start").
		WithHint("ask for a shorter time, or name entities")
}

// book reads the logbook in chronological order.
func (t *Toolset) book(ctx context.Context, names []string, from, to time.Time) ([]wireRow, error) {
	q := url.Values{"end_time": {to.UTC().Format(time.RFC3339)}}
	if len(names) > 0 {
		q.Set("entity", strings.Join(names, ","))
	}
	var rows []wireRow
	if err := t.client.get(ctx, "logbook/"+url.PathEscape(from.UTC().Format(time.RFC3339)), q, &rows); err != nil {
		return nil, err
	}
	people := t.index.people()
	for i := range rows {
		rows[i].at, _ = time.Parse(time.RFC3339Nano, rows[i].When)
		rows[i].person = people[rows[i].User]
	}
	slices.SortStableFunc(rows, func(a, b wireRow) int { return a.at.Compare(b.at) })
	return rows, nil
}

func (t *Toolset) logbook(ctx context.Context, _ seam.Run, in logbookInput) (answer, error) {
	if err := t.index.ready(ctx); err != nil {
		return answer{}, err
	}
	from, to, err := in.of(t.index, t.o.Now(), 24)
	if err != nil {
		return answer{}, err
	}
	if len(in.Entities) == 0 && in.Area == "" {
		if err := wholeHouse(from, to); err != nil {
			return answer{}, err
		}
	}
	var names []string
	if len(in.Entities) > 0 || in.Area != "" {
		es, err := t.index.expand(in.Entities, maxRows)
		if err != nil {
			return answer{}, err
		}
		if in.Area != "" {
			hits, total := t.index.Search(Query{Area: in.Area, Limit: maxRows})
			if total == 0 {
				return answer{}, parley.Errorf(parley.CodeNotFound, "there is no area %q with entities", clip(in.Area, 80)).WithField("area").WithHint("the areas are %s", t.index.areaNames())
			}
			for _, h := range hits {
				es = append(es, h.Entity)
			}
		}
		for _, e := range es {
			names = append(names, e.ID)
		}
	}
	rows, err := t.book(ctx, names, from, to)
	if err != nil {
		return answer{}, err
	}
	if words := keyword.Of(in.Query); len(words) > 0 {
		rows = slices.DeleteFunc(rows, func(r wireRow) bool {
			return !keyword.In(words, r.Name, r.EntityID, r.text())
		})
	}
	out := logbookAnswer{From: t.index.local(from), To: t.index.local(to), Total: len(rows), Rows: []logbookRow{}}
	limit := min(or(in.Limit, 60), maxRows)
	var b strings.Builder
	fmt.Fprintf(&b, "Logbook from %s to %s: %d entries", out.From, out.To, out.Total)
	if len(rows) > limit { // most questions are about the latest
		fmt.Fprintf(&b, ", the last %d of them", limit)
		rows = rows[len(rows)-limit:]
	}
	b.WriteString(".\n")
	for _, r := range rows {
		row := t.index.row(r)
		out.Rows = append(out.Rows, row)
		fmt.Fprintf(&b, "%s %s (%s) %s\n", row.At, row.ID, row.Name, row.Text)
	}
	return answer{b.String(), out, few(names, strings.Clone)}, nil
}

func (x *Index) row(r wireRow) logbookRow {
	return logbookRow{At: x.local(r.at), ID: r.EntityID, Name: r.Name, Text: r.text(), ByID: r.ByEntity, ByHuman: r.User != "", Person: r.person}
}

// people returns the names of persons with a Home Assistant user, by user id.
func (x *Index) people() map[string]string {
	out := map[string]string{}
	for _, e := range x.Entities() {
		if domainOf(e.ID) != "person" {
			continue
		}
		var a struct {
			User string `json:"user_id"`
		}
		if json.Unmarshal(e.Attributes, &a) == nil && a.User != "" {
			out[a.User] = e.Name
		}
	}
	return out
}

func (x *Index) areaNames() string {
	var out []string
	for _, a := range x.Areas() {
		out = append(out, a.Name)
	}
	return strings.Join(out, ", ")
}
