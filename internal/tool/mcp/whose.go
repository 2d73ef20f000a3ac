//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// A server of the newer era asks in its answer to a call. A server of the older era asks with a
// request of its own, which does not name the call. Such a request is answered only if it can
// belong to one call alone: exactly one is under way, and none has ended without an answer that
// might still be running. So a question never reaches the wrong person. From its first question on,
// such a server gets one call at a time. The text of a prompt and a resource count as calls in
// which nobody can be asked. Lists do not count: they are made for no person.

// enter records a call that is under way. leave records how it ended, and must be called once.
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

// enterForNobody records a request that is made for a person, but outside of a call, so that its
// questions reach nobody. The request uses the returned context, which ends with leave.
func (l *link) enterForNobody(ctx context.Context) (_ context.Context, leave func(error), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	nobody := &asker{o: l.server.o, r: seam.Run{Progress: func(string) {}}, over: ctx, stop: cancel}
	left, err := l.enter(ctx, fmt.Sprintf("other/%d", l.server.others.Add(1)), nobody)
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	return ctx, func(err error) { left(err); cancel(nil) }, nil
}

var errWhose = errors.New("it is not clear which call this question belongs to")

// whose returns the call in which the server asks a question.
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
		return nil, errors.New("the parameters are not those of a question")
	}
	who, err := l.whose()
	if err != nil {
		return nil, err
	}
	ctx, done := who.within(ctx)
	defer done()
	return who.elicit(ctx, p)
}

// within returns ctx, which then ends with the call at the latest.
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

// visit asks a person to open the pages that the server requires before it makes a call.
func (a *asker) visit(ctx context.Context, data json.RawMessage) error {
	var asks struct {
		Elicitations []*sdk.ElicitParams `json:"elicitations"`
	}
	if err := json.Unmarshal(data, &asks); err != nil || len(asks.Elicitations) == 0 {
		return errors.New("it refuses the call until a page has been opened, but does not say which page")
	}
	for _, p := range asks.Elicitations {
		if p == nil || p.URL == "" {
			return errors.New("it refuses the call until a page has been opened, but does not say which page")
		}
		p.Mode = "url"
		res, err := a.elicit(ctx, p)
		if err != nil {
			return err
		}
		if res.Action != "accept" {
			return seam.NotSent(parley.Errorf(parley.CodeForbidden, "the call was not made: the server requires that a page is opened first, and the user did not open it"))
		}
	}
	return nil
}
