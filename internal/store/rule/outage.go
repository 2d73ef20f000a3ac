package rule

import (
	"errors"
	"log/slog"

	"github.com/parley-server/parley"
)

// Outage says that writes fail once for each reason, however often they are tried
// again, and then once that they are kept again. It belongs to one goroutine.
type Outage struct {
	log    *slog.Logger
	reason string // of the last failure; empty: the last write was kept
	failed int    // writes since then
}

// NewOutage says it to a logger.
func NewOutage(log *slog.Logger) *Outage { return &Outage{log: log} }

// Failed says that so many writes failed together.
func (o *Outage) Failed(err error, writes int) {
	reason, hint := err.Error(), ""
	if e, ok := errors.AsType[*parley.Error](err); ok {
		reason, hint = e.Message, e.Hint
	}
	o.failed += writes
	if reason == o.reason {
		return
	}
	o.reason = reason
	o.log.Error("a write failed; what fails in the same way is not said again", "err", err, "hint", hint, "writes", writes)
}

// Kept says that a write was kept.
func (o *Outage) Kept() {
	if o.reason != "" {
		o.log.Info("writes are kept again", "failed", o.failed)
	}
	o.reason, o.failed = "", 0
}
