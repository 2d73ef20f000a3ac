package rule

import (
	"errors"
	"log/slog"

	"github.com/parley-server/parley"
)

// Outage says that writes fail once for each reason, however often they are tried again
// and in whatever order the reasons come, and then once that they are kept again. It
// belongs to one goroutine.
type Outage struct {
	log     *slog.Logger
	reasons map[string]bool // of the failures since the last write that was kept
	failed  int             // writes since then
}

// maxReasons bounds them; one more is not said.
const maxReasons = 20

// NewOutage says it to a logger.
func NewOutage(log *slog.Logger) *Outage { return &Outage{log: log} }

// Failed says that so many writes failed together.
func (o *Outage) Failed(err error, writes int) {
	reason, hint := err.Error(), ""
	if e, ok := errors.AsType[*parley.Error](err); ok {
		reason, hint = e.Message, e.Hint
	}
	o.failed += writes
	if o.reasons[reason] || len(o.reasons) >= maxReasons {
		return
	}
	if o.reasons == nil {
		o.reasons = map[string]bool{}
	}
	o.reasons[reason] = true
	o.log.Error("a write failed; what fails in the same way is not said again", "err", err, "hint", hint, "writes", writes)
}

// Kept says that a write was kept.
func (o *Outage) Kept() {
	if len(o.reasons) > 0 {
		o.log.Info("writes are kept again", "failed", o.failed)
	}
	o.reasons, o.failed = nil, 0
}
