package program

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/config"
)

// Inside is a server without listeners, inside the process that opened it.
type Inside struct {
	// Handler serves everything, without a login. A request to the host NAME.localhost gets the
	// page that the app NAME brings.
	Handler http.Handler
	// Apps are the names of the apps that are served.
	Apps []string

	house *house
	own   *lock
	grace time.Duration
}

// Open opens a server on the data folder in s, with the parts of a program. An error is about
// the parts, the settings or the folder.
func Open(ctx context.Context, s config.Settings, log *slog.Logger, parts ...app.Part) (*Inside, error) {
	k, err := newKit(parts...)
	if err != nil {
		return nil, err
	}
	own, err := takeLock(s.Data, "inside")
	if err != nil {
		return nil, err
	}
	return k.open(ctx, s, own, true, log)
}

// open makes the server of a data folder. It takes over the lock own, and closes it if it fails.
func (k *kit) open(ctx context.Context, s config.Settings, own *lock, recovers bool, log *slog.Logger) (*Inside, error) {
	fail := func(err error) (*Inside, error) {
		own.release()
		return nil, err
	}
	p, err := k.plan(s, log)
	if err != nil {
		return fail(usage(err))
	}
	p.took(own)
	h, err := p.build(ctx, nil, log)
	if err != nil {
		return fail(err)
	}
	if recovers {
		if _, err := h.engine.Recover(ctx); err != nil {
			_ = h.close(ctx, 0)
			return fail(err)
		}
	}
	handler := h.behind(api.GuardOptions{}, auth.Options{Mode: auth.ModeNone, Own: ownNames(s)})
	in := &Inside{Handler: handler, house: h, own: own, grace: 2 * time.Second}
	for _, a := range h.apps {
		in.Apps = append(in.Apps, a.Name)
	}
	return in, nil
}

// Close ends running turns, all streams and the tools, and releases the data folder.
func (in *Inside) Close(ctx context.Context) error {
	defer in.own.release()
	return in.house.close(ctx, in.grace)
}
