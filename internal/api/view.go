package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/sdkview"
	"github.com/parley-server/parley/internal/wire"
)

const viewNative = "native"

// view is how a stream of a session is shown, and from where.
type view struct {
	s     *Server
	p     parley.Principal
	id    parley.SessionID
	name  string // empty: the native one
	o     sdkview.Options
	after int64
	keep  func(eventlog.Frame) bool // nil: all
	form  sdkview.Encoder           // nil: the native one
}

// viewOf reads the parameters of a session's stream.
func (s *Server) viewOf(r *http.Request, p parley.Principal, deltas bool) (v *view, err error) {
	v = &view{s: s, p: p, id: parley.SessionID(r.PathValue("id"))}
	q := r.URL.Query()
	name := q.Get("view")
	if name == "" || name == viewNative {
		if v.after, err = wire.Cursor(r); err != nil {
			return nil, err
		}
		v.keep, err = wire.Types(q.Get("types"))
		return v, err
	}
	if err := v.named(name, q.Get("types"), deltas); err != nil {
		return nil, err
	}
	field, at := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if at == "" {
		field, at = "after", q.Get("after")
	}
	if v.o.From, err = sdkview.ParseCursor(field, at, v.id); err != nil {
		return nil, err
	}
	v.begin()
	return v, nil
}

// viewOfTurn reads the parameters of the stream of a turn that is not there yet; begins follows.
func (s *Server) viewOfTurn(p parley.Principal, id parley.SessionID, as ViewParam) (*view, error) {
	v := &view{s: s, p: p, id: id}
	if as.View != "" && as.View != viewNative {
		return v, v.named(as.View, as.Types, as.Deltas != "false")
	}
	if as.Types != "" {
		return nil, invalid("types", "types is for the views sdk and simple here")
	}
	return v, nil
}

func (v *view) named(name, types string, deltas bool) (err error) {
	if v.o.Types, err = sdkview.ParseTypes(types, name); err != nil {
		return err
	}
	v.name, v.o.Session, v.o.Deltas, v.o.Version = name, v.id, deltas, v.s.o.Version
	if v.s.o.Blobs != nil {
		v.o.App = func(d parley.Digest) (app parley.App, err error) {
			body, err := v.s.o.Blobs.Blob(context.Background(), v.p, v.id, d)
			if err == nil {
				err = json.Unmarshal(body, &app)
			}
			return app, err
		}
	}
	_, err = sdkview.New(name, v.o)
	return err
}

// begin makes the encoder.
func (v *view) begin() {
	v.after = v.o.From.Seq
	v.form, _ = sdkview.New(v.name, v.o) // named has made one
}

// begins says behind which event the view begins.
func (v *view) begins(after int64) {
	v.after = after
	if v.name != "" {
		v.o.From = sdkview.Cursor{Seq: after}
		v.begin()
	}
}

// encoder is what the messages are made by; nil: the native one.
func (v *view) encoder() wire.Encoder {
	if v.form == nil {
		return nil
	}
	return v.form
}

// frames follows the session once the encoder knows what came before.
func (v *view) frames(ctx context.Context) wire.Frames {
	return func(yield func(eventlog.Frame, error) bool) {
		if err := v.prime(ctx); err != nil {
			yield(eventlog.Frame{}, err)
			return
		}
		v.follow(ctx)(yield)
	}
}

// follow is not inlined, so that the frame under an idle stream is small.
//
//go:noinline
func (v *view) follow(ctx context.Context) wire.Frames {
	return v.s.o.Reader.Follow(ctx, v.p, v.id, v.after)
}

// maxPriming is how many streams of one user may wait to be told what came before their cursors.
const maxPriming = 64

func newPriming() *fair.Turns {
	return &fair.Turns{Slots: max(runtime.GOMAXPROCS(0)/2, 1), Queued: maxPriming}
}

// prime tells the encoder what came before the cursor. That reads the log up to there, so users
// take turns.
func (v *view) prime(ctx context.Context) error {
	if v.form == nil || v.name == sdkview.ViewSimple { // which needs to know nothing
		return nil
	}
	leave, err := v.s.priming.Enter(ctx, v.p)
	if errors.Is(err, fair.ErrFull) {
		return parley.Errorf(parley.CodeRateLimited, "%d streams of yours are waiting to begin, which is the limit", maxPriming).
			WithHint("connect again when some of them have begun")
	}
	if err != nil {
		return err
	}
	defer leave()
	for at := int64(0); at < v.after; {
		events, err := v.s.o.Reader.Read(ctx, v.p, v.id, at, 0)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return v.s.o.Reader.Check(ctx, v.p, v.id, v.after)
		}
		for _, e := range events {
			if e.Seq <= v.after {
				v.form.Prime(e)
			}
			at = e.Seq
		}
	}
	return nil
}
