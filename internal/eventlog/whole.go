package eventlog

import (
	"context"
	"iter"

	"github.com/parley-server/parley"
)

// Archive has what retention took out of logs.
type Archive interface {
	// Kept yields the whole events that were kept together with number seq of a
	// session, from it on, in order. None: they are not there, or not any more.
	Kept(ctx context.Context, session parley.SessionID, seq int64) iter.Seq2[parley.Event, error]
}

// Whole yields a session's log after a number to its present end, with the steps
// that retention took as the archive has them. What the archive has not, or can not
// give, comes without its data, as from [Reader.Read]. Errors are those of
// [Reader.Read].
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

// kept reads an archive beside a log.
type kept struct {
	ctx     context.Context
	l       *log
	session parley.SessionID
	next    func() (parley.Event, error, bool)
	stop    func()
	missing parley.TurnID // a turn that is not there
}

func (k *kept) close() {
	if k.stop != nil {
		k.stop()
	}
	k.next, k.stop = nil, nil
}

// restored is the event with its data, where that was taken and is there.
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
				k.l.o.Logger.Warn("the archive can not be read: the steps are shown as condensed", "session", k.session, "event", e.Seq, "err", err)
			}
			if !ok || err != nil || was.Seq > e.Seq {
				break
			}
			if was.Seq == e.Seq {
				if was.Type != e.Type || was.Turn != e.Turn || was.V != e.V || !was.Time.Equal(e.Time) {
					break // of another log
				}
				return e.WithData(was.Data)
			}
		}
		k.close()
	}
	k.missing = e.Turn
	return e
}
