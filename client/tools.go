package client

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// Claim takes a call that is offered to clients: an open interaction of the kind client.
// An empty token means a random one. When the answer is lost, the request is repeated with
// the same token within [Options.Patience]. CodeConflict: somebody else has it, or it is
// not offered any more.
func (c *Client) Claim(ctx context.Context, id parley.InteractionID, token string) (parley.Claimed, error) {
	if token == "" {
		token = rand.Text()
	}
	return patient(ctx, c, c.again(), func() (parley.Claimed, error) {
		return get[parley.Claimed](ctx, c, call{method: http.MethodPost, path: p("/v1/interactions/%s/claim", id), body: parley.ClaimCall{Token: token}})
	})
}

// Report says what came of a claimed call. When the answer is lost, or the server is away,
// the request is repeated within [Options.Patience]. CodeConflict: the deadline has passed,
// or the turn has ended.
func (c *Client) Report(ctx context.Context, id parley.InteractionID, r parley.ReportCall) (parley.ToolResult, error) {
	return patient(ctx, c, func(err error) bool { return !final(err) }, func() (parley.ToolResult, error) {
		return get[parley.ToolResult](ctx, c, call{method: http.MethodPost, path: p("/v1/interactions/%s/report", id), body: r})
	})
}

// ToolFunc runs one call of a tool. ctx ends at the call's deadline, and when [Client.Handle]
// is to end. The token of the report need not be set. An error is reported as that of the
// call; of a call with effects as unknown, because it may have taken effect. To say that it
// did not, return a report with the outcome error.
type ToolFunc func(ctx context.Context, call parley.Claimed) (parley.ReportCall, error)

const (
	// lookEvery is how often the list of what waits in all sessions is read. It cannot be
	// followed: a stream is of sessions that it names, and nothing announces new ones. While
	// the list has no call for a while, it is read less often, down to lookSeldom.
	lookEvery  = time.Second
	lookSeldom = 5 * time.Second
	// maxCalls limits the calls that a Handle runs at once. It claims no more than it runs.
	maxCalls = 8
	// reportWithin is how long a report is tried when Handle is to end.
	reportWithin = 5 * time.Second
)

// Handle runs the calls of a session's tools that clients run, by the tool's name, until
// ctx ends. An empty session means all sessions of the caller: then the list of what waits is
// read each second, and every five when there was no call for a while. Other tools are left to
// other clients, and of several clients with the same tool one gets a call. It returns
// ctx's cause, or an error that trying again would not mend, when all calls have returned.
func (c *Client) Handle(ctx context.Context, session parley.SessionID, tools map[string]ToolFunc) error {
	h := handler{c: c, tools: tools, seen: map[parley.InteractionID]bool{}, room: make(chan struct{}, maxCalls)}
	defer h.calls.Wait()
	if session == "" {
		return h.all(ctx)
	}
	info, err := c.Session(ctx, session)
	if err != nil {
		return err
	}
	if _, err := h.open(ctx, session); err != nil {
		return err
	}
	for f, err := range c.Follow(ctx, session, info.Version) {
		if err != nil {
			return err
		}
		if f.Event == nil {
			continue
		}
		pay, _ := f.Event.Payload()
		if in, ok := pay.(parley.InteractionOpened); ok {
			h.take(ctx, in.Interaction)
		}
	}
	return context.Cause(ctx)
}

type handler struct {
	c     *Client
	tools map[string]ToolFunc
	seen  map[parley.InteractionID]bool // what was offered before
	room  chan struct{}
	calls sync.WaitGroup
}

func (h *handler) all(ctx context.Context) error {
	wait := lookEvery
	for failures := 0; ; {
		found, err := h.open(ctx, "")
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && final(err):
			return err
		}
		if found {
			wait = lookEvery
		} else {
			wait = min(wait+wait/8, lookSeldom)
		}
		more := time.Duration(0)
		if failures++; err == nil {
			failures = 0
		} else {
			more = h.c.wait(failures, err)
		}
		if !pause(ctx, wait+more) {
			return context.Cause(ctx)
		}
	}
}

// open takes what is offered now, and reports whether that was anything.
func (h *handler) open(ctx context.Context, session parley.SessionID) (found bool, err error) {
	there := map[parley.InteractionID]bool{}
	for cursor := ""; ; {
		page, next, err := h.c.InteractionPage(ctx, cursor, 0)
		if err != nil {
			return found, err
		}
		for _, in := range page {
			there[in.ID] = true
			if session == "" || in.Session == session {
				found = h.take(ctx, in.Interaction) || found
			}
		}
		if next == "" {
			break
		}
		cursor = next
	}
	maps.DeleteFunc(h.seen, func(id parley.InteractionID, _ bool) bool { return !there[id] })
	return found, nil
}

// take claims a call and runs it, unless somebody else has it. It waits for room. It reports
// whether the call is new and for one of the tools.
func (h *handler) take(ctx context.Context, in parley.Interaction) bool {
	run := h.tools[in.Tool]
	if in.Kind != parley.KindClient || run == nil || h.seen[in.ID] {
		return false
	}
	h.seen[in.ID] = true
	select {
	case h.room <- struct{}{}:
	case <-ctx.Done():
		return true
	}
	claimed, err := h.c.Claim(ctx, in.ID, "")
	if err != nil {
		if !final(err) {
			delete(h.seen, in.ID) // it is tried again when it is listed again
		}
		<-h.room
		return true
	}
	h.calls.Go(func() {
		defer func() { <-h.room }()
		h.run(ctx, claimed, run)
	})
	return true
}

func (h *handler) run(ctx context.Context, call parley.Claimed, run ToolFunc) {
	brief, cancel := context.WithTimeout(ctx, time.Duration(call.LeftMS)*time.Millisecond)
	defer cancel()
	r, err := run(brief, call)
	if err != nil {
		r = parley.ReportCall{Outcome: parley.OutcomeError, Output: err.Error()}
		if call.Effect != parley.EffectRead {
			r.Outcome = parley.OutcomeUnknown
		}
	}
	r.Token = call.Token
	over := ctx
	if ctx.Err() != nil { // the server is told all the same
		var done context.CancelFunc
		over, done = context.WithTimeout(context.WithoutCancel(ctx), reportWithin)
		defer done()
	}
	_, _ = h.c.Report(over, call.Interaction, r) // a refusal is in the log: the deadline has passed, or the turn has ended
}
