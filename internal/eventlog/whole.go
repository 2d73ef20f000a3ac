package eventlog

import (
	"context"
	"iter"

	"github.com/parley-server/parley"
)

// Archive has what retention removed from logs.
type Archive interface {
	// Kept yields the whole archived events of a session from number seq on, as far as
	// they were archived together, in order. It yields none if the archive does not have
	// them.
	Kept(ctx context.Context, session parley.SessionID, seq int64) iter.Seq2[parley.Event, error]
}

// Whole yields a session's log after a number to its present end, with condensed steps
// restored from the archive. Steps that the archive does not have, or cannot read, come
// without their data, as from [Reader.Read]. Errors are those of [Reader.Read].
func (r *Reader) Whole(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) iter.Seq2[parley.Event, error] {
	return func(yield func(parley.Event, error) bool) {
		k := kept{ctx: ctx, l: r.l, session: session}
		defer k.close()
		for {
			page, err := r.l.read(ctx, p, session, after, 0)
			if err != nil {
				yield(parley.Event{}, err)
				return
			}
			for _, e := range page {
				if after = e.Seq; !yield(k.restored(e), nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
		}
	}
}

// kept reads an archive alongside a log.
type kept struct {
	ctx     context.Context
	l       *log
	session parley.SessionID
	next    func() (parley.Event, error, bool)
	stop    func()
	missing parley.TurnID // a turn that the archive does not have
}

func (k *kept) close() {
	if k.stop != nil {
		k.stop()
	}
	k.next, k.stop = nil, nil
}

// restored returns the event with its data, if that was condensed and is archived.
func (k *kept) restored(e parley.Event) parley.Event {
	if e.Data != nil || !parley.IsStep(e.Type) || k.l.o.Archive == nil || e.Turn != "" && e.Turn == k.missing {
		return e
	}
	for tries := 0; tries < 2; tries++ {
		if k.next == nil {
			k.next, k.stop = iter.Pull2(k.l.o.Archive.Kept(k.ctx, k.session, e.Seq))
			tries++
		}
		for {
			was, err, ok := k.next()
			if err != nil {
				k.l.o.Logger.Warn("the archive cannot be read: the steps are shown as condensed", "session", k.session, "event", e.Seq, "err", err)
			}
			if !ok || err != nil || was.Seq > e.Seq {
				break
			}
			if was.Seq == e.Seq {
				if was.Type != e.Type || was.Turn != e.Turn || was.V != e.V || !was.Time.Equal(e.Time) {
					break // belongs to another log
				}
				return e.WithData(was.Data)
			}
		}
		k.close()
	}
	k.missing = e.Turn
	return e
}
