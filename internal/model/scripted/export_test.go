package scripted

import "github.com/parley-server/parley/internal/seam"

// Planned makes a model of one plan.
func Planned(reply seam.Reply, hang bool, after int, err error) *Model {
	return &Model{"scripted/test", 0, func(seam.Request) (plan, error) {
		return plan{reply: reply, hang: hang, after: after, err: err}, nil
	}}
}

// Validate is Stream's check of a request.
var Validate = validate
