package scripted

import (
	"context"
	"time"

	"github.com/parley-server/parley/internal/seam"
)

// Planned makes a model of one plan.
func Planned(reply seam.Reply, hang bool, after int, err error) *Model {
	return &Model{"scripted/test", 0, func(context.Context, seam.Request) (plan, error) {
		return plan{reply: reply, hang: hang, after: after, err: err}, nil
	}}
}

// Validate is Stream's check of a request.
var Validate = validate

// Period returns the first and the last day of the past time that a question asks about, asked on
// a day. The last is "" if the time has no end.
func Period(question, day string) (first, last string, ok bool) {
	p, ok := view{Question: question, About: "now: Monday, " + day + " 09:00 (UTC)"}.period()
	if !ok {
		return "", "", false
	}
	if !p.to.IsZero() {
		last = p.to.AddDate(0, 0, -1).Format(time.DateOnly)
	}
	return p.from.Format(time.DateOnly), last, true
}
