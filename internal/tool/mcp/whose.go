//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// A server of the newer era asks with the answer to a call. One of the older era asks by a
// request of its own, which does not say in which call. It is answered only if it can be in
// one call alone: exactly one is under way, and none has ended without an answer that might
// still be going on. So nobody is asked what belongs to another. A server that has asked gets
// one call at a time from then on.

// enter notes a call that is under way. leave says how it ended; only its first call counts.
func (l *link) enter(ctx context.Context, token string, who *asker) (leave func(error), err error) {
	one := l.server.asks.Load()
	if one {
		select {
		case l.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[token] = who
	return func(err error) {
		l.mu.Lock()
		delete(l.calls, token)
		_, answered := errors.AsType[*jsonrpc.Error](err)
		broken := err != nil && !answered
		l.lost = l.lost || broken
		spoilt := l.lost && l.server.asks.Load()
		l.mu.Unlock()
		if one {
			<-l.turn
		}
		if spoilt {
			l.server.retire(l)
		}
	}, nil
}

var errWhose = errors.New("it cannot be told in which call this is asked")

// whose is the call in which the server asks something.
func (l *link) whose() (*asker, error) {
	l.server.asks.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) != 1 || l.lost {
		return nil, errWhose
	}
	for _, who := range l.calls {
		return who, nil
	}
	return nil, errWhose
}

// elicited answers a request of the older era.
func (l *link) elicited(ctx context.Context, q sdk.Request) (sdk.Result, error) {
	p, ok := q.GetParams().(*sdk.ElicitParams)
	if !ok {
		return nil, errors.New("these are no parameters of a question")
	}
	who, err := l.whose()
	if err != nil {
		return nil, err
	}
	ctx, done := who.within(ctx)
	defer done()
	return who.elicit(ctx, p)
}

// within is ctx, which ends with the call, too.
func (a *asker) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(a.over, func() { cancel(context.Cause(a.over)) })
	return ctx, func() { stop(); cancel(nil) }
}

func (a *asker) isParked() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.parked
}

// visit asks a person to open the pages without which the server does not make a call.
func (a *asker) visit(ctx context.Context, data json.RawMessage) error {
	var asks struct {
		Elicitations []*sdk.ElicitParams `json:"elicitations"`
	}
	if err := json.Unmarshal(data, &asks); err != nil || len(asks.Elicitations) == 0 {
		return errors.New("it refuses the call until a page was opened, and does not say which")
	}
	for _, p := range asks.Elicitations {
		if p == nil || p.URL == "" {
			return errors.New("it refuses the call until a page was opened, and does not say which")
		}
		p.Mode = "url"
		res, err := a.elicit(ctx, p)
		if err != nil {
			return err
		}
		if res.Action != "accept" {
			return seam.NotSent(parley.Errorf(parley.CodeForbidden, "the call was not made: it needs a page to be opened, and the user did not open it"))
		}
	}
	return nil
}
