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

// Claim claims a call that is offered to clients, which is an open interaction of kind client.
// An empty token means a random one. If the answer is lost, the request is repeated with the
// same token within [Options.Patience]. Claim returns CodeConflict if another client has
// claimed the call or it is no longer offered.
func (c *Client) Claim(ctx context.Context, id parley.InteractionID, token string) (parley.Claimed, error) {
	if token == "" {
		token = rand.Text()
	}
	return patient(ctx, c, c.again(), func() (parley.Claimed, error) {
		return get[parley.Claimed](ctx, c, call{method: http.MethodPost, path: p("/v1/interactions/%s/claim", id), body: parley.ClaimCall{Token: token}})
	})
}

// Report reports the outcome of a claimed call. If the answer is lost or the server does not
// answer, the request is repeated within [Options.Patience]. Report returns CodeConflict if the
// deadline has passed, the turn has ended, or a different report was accepted before.
func (c *Client) Report(ctx context.Context, id parley.InteractionID, r parley.ReportCall) (parley.ToolResult, error) {
	return patient(ctx, c, func(err error) bool { return !final(err) }, func() (parley.ToolResult, error) {
		return get[parley.ToolResult](ctx, c, call{method: http.MethodPost, path: p("/v1/interactions/%s/report", id), body: r})
	})
}

// ToolFunc runs one call of a tool. ctx ends at the call's deadline, and when [Client.Handle]
// must end. The report's token need not be set. An error is reported as the outcome error; but
// for a call with effects as unknown, because the call may have taken effect. To say that it
// did not, return a report with the outcome error.
type ToolFunc func(ctx context.Context, call parley.Claimed) (parley.ReportCall, error)

const (
	// lookEvery is how often the list of open interactions in all sessions is read. The list
	// cannot be followed, because a stream covers only the sessions that it names. If the list
	// has had no call for a while, it is read less often, down to lookSeldom.
	lookEvery  = time.Second
	lookSeldom = 5 * time.Second
	// maxCalls limits the calls that a Handle runs at once. It does not claim more than it can
	// run.
	maxCalls = 8
	// reportWithin is how long Handle still tries to send a report when it must end.
	reportWithin = 5 * time.Second
)

// Handle runs calls that a session offers to clients, with the function for the tool's name,
// until ctx ends. An empty session means all sessions of the caller: their open interactions
// are then listed every second, or every five seconds if there was no call for a while. Calls
// of other tools are left to other clients. If several clients have the same tool, one of them
// gets the call. When all calls have returned, Handle returns ctx's cause, or an error that
// trying again would not fix.
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
	seen  map[parley.InteractionID]bool // interactions that were offered before
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

// open claims the calls that are offered now, and reports whether there were any.
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

// take claims a call and runs it, unless another client has claimed it. It waits until fewer
// than maxCalls run. It reports whether the call is new and for one of the tools.
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
			delete(h.seen, in.ID) // try again when it is listed again
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
	if ctx.Err() != nil { // the report is still sent
		var done context.CancelFunc
		over, done = context.WithTimeout(context.WithoutCancel(ctx), reportWithin)
		defer done()
	}
	_, _ = h.c.Report(over, call.Interaction, r) // a refusal is in the log: the deadline has passed, or the turn has ended
}
