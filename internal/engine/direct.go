package engine

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// maxInput bounds the input of a direct call, in bytes.
const maxInput = 256 << 10

// CallTool makes one tool call without a model, through the same steps as an agent's
// call: schema, policy, human, journal. It returns the turn once it is durable; when the
// turn has ended, [Engine.CallResult] has the result. A call without a session gets a
// session of its own that ends with it, so it neither waits for other calls nor delays
// them. Calls in one session run one after the other.
//
// The key of a call without a session belongs to the user, across all sessions. It
// returns the same call for as long as that call's session is kept, and afterwards says
// that it was deleted, instead of making the call again.
func (e *Engine) CallTool(ctx context.Context, p parley.Principal, c parley.CallTool) (parley.TurnInfo, error) {
	none := parley.TurnInfo{}
	switch {
	case len(c.Input) > maxInput:
		return none, tooLong("input", maxInput, "bytes")
	case utf8.RuneCountInString(c.Key) > parley.MaxKey:
		return none, tooLong("Idempotency-Key", parley.MaxKey, "characters")
	}
	if err := c.Credentials.Check(); err != nil {
		return none, err
	}
	if c.Session != "" && c.Workspace != "" {
		return none, parley.Errorf(parley.CodeInvalid, "workspace is set, and so is session").WithField("workspace").
			WithHint("a call in a session works in the session's workspace; leave one of the two out")
	}
	if c.Session == "" {
		return e.callAlone(ctx, p, c, "")
	}
	s, err := e.ready(ctx, p, c.Session)
	if err != nil {
		return none, err
	}
	return s.send(ctx, p, e.direct(c))
}

func hasTool(box *toolbox.Box, name string) error {
	if _, ok := box.Decl(name); !ok {
		return notFound("tool", name)
	}
	return nil
}

// direct presents a call in the form of a message.
func (e *Engine) direct(c parley.CallTool) asked {
	if len(c.Input) == 0 {
		c.Input = []byte("{}")
	}
	return asked{
		Send: parley.Send{Message: c.Name + " " + string(c.Input), Key: c.Key, Client: c.Client, Credentials: c.Credentials},
		call: &parley.ToolCall{Call: parley.CallID(e.newID()), Name: c.Name, Input: c.Input, Redacted: c.Redacted},
	}
}

// callAlone makes a call in a temporary session. One append first creates the session and
// the key that names its turn. So a repeated request, whether concurrent or after a crash
// in between, finds the session and begins that turn or returns it.
func (e *Engine) callAlone(ctx context.Context, p parley.Principal, c parley.CallTool, retryOf parley.TurnID) (parley.TurnInfo, error) {
	none := parley.TurnInfo{}
	a := e.direct(c)
	a.Key, a.again, a.retryOf, a.turn = "", c.Key != "", retryOf, parley.TurnID(e.newID())
	key := seam.Key{Key: e.aliasOf(c.Key), Turn: a.turn, Body: digestOf(struct {
		App, Name, Input string
		RetryOf          parley.TurnID
		Workspace        parley.Workspace `json:",omitempty"`
	}{c.App, c.Name, string(a.call.Input), retryOf, c.Workspace})}
	free := func() {}
	defer func() { free() }()
	var id parley.SessionID
	var had seam.Key
	for tries := 0; id == ""; tries++ { // twice: another request may take the key between look and append
		if key.Key != "" {
			var err error
			had, err = e.o.Store.Key(ctx, p, "", key.Key)
			switch {
			case err == nil && had.Body != key.Body:
				return none, keyReused(c.Key)
			case err == nil:
				id, a.turn = had.Made, had.Turn
				continue
			case !isCode(err, parley.CodeNotFound):
				return none, err
			}
		}
		app, err := e.app(c.App)
		if err != nil {
			return none, err
		}
		made, err := e.newSession(p, app, parley.CreateSession{App: c.App, Title: "Call of " + parley.Cut(c.Name, 80), Temporary: true, Workspace: c.Workspace})
		if err != nil {
			return none, err
		}
		in, err := e.scopes.Resolve(ctx, seam.Scope{Principal: p, App: c.App, Workspace: made.Workspace})
		if err != nil {
			return none, err
		}
		defer in.Release() // only after the call has begun, which needs it, too
		if err := hasTool(in.Tools(), c.Name); err != nil {
			return none, err
		}
		if tries == 0 {
			reserved, err := e.keep(ctx, p, 0, int64(len(a.Message)))
			if err != nil {
				return none, err
			}
			free = reserved
		}
		made.Direct = true
		s, err := e.makeSession(ctx, p, made, key)
		switch {
		case err == nil:
			id = s.id
		case isCode(err, parley.CodeTimeout): // only the session may have been stored, and nobody looks for it
			return none, parley.Errorf(parley.CodeUnavailable, "the store failed before the call was made: %w", err).
				WithHint("nothing was called; call again").WithRetry(time.Second)
		case !isCode(err, parley.CodeKeyReused) || tries > 0:
			return none, err
		}
	}
	s, err := e.ready(ctx, p, id)
	if err != nil {
		return none, madeGone(c.Key, had, err)
	}
	if err := s.resupply(ctx, p, a.turn, c.Credentials, c.Client); err != nil {
		s.release()
		return none, err
	}
	if t := s.view.Turn; t != nil && t.ID == a.turn {
		info, run := s.info(a.turn), s.run
		s.release()
		if run != nil && run.turn == a.turn { // both requests get the same result
			if err := run.durable(ctx); err != nil {
				return perhaps(ctx, info, err, a.again)
			}
		}
		return info, nil
	}
	if row, err := e.o.Store.Turn(ctx, p, a.turn); err == nil || !isCode(err, parley.CodeNotFound) {
		s.release()
		return row, err
	}
	a.free, free = free, func() {}
	return s.send(ctx, p, a)
}

// CallResult returns the result of a direct call whose turn has ended. It is what an agent's
// model would read: the tool's output or its replacement by a hook, and the hooks' messages.
func (e *Engine) CallResult(ctx context.Context, p parley.Principal, turn parley.TurnID) (parley.ToolResult, error) {
	row, err := e.Turn(ctx, p, turn)
	if err != nil {
		return parley.ToolResult{}, err
	}
	var res *parley.ToolResult
	var says []string
	for after := row.FirstSeq - 1; after < row.LastSeq; {
		events, err := e.o.Store.Read(ctx, p, row.SessionID, after, 0)
		if err != nil {
			return parley.ToolResult{}, err
		}
		for _, ev := range events {
			after = ev.Seq
			if ev.Turn != turn || ev.Type != "tool.ended" && ev.Type != "hook.ran" {
				continue
			}
			pay, err := ev.Payload()
			if err != nil {
				return parley.ToolResult{}, err
			}
			switch pay := pay.(type) {
			case parley.ToolEnded:
				if res == nil {
					res = &pay.ToolResult
				}
			case parley.HookRan:
				if pay.Context != "" {
					says = append(says, pay.Context)
				}
				if res != nil && pay.Output != nil {
					replaced := res.Replaced(*pay.Output)
					res = &replaced
				}
			}
		}
		if len(events) == 0 {
			break
		}
	}
	if res != nil {
		res.Output = parley.WithHooks(res.Output, says)
		return *res, nil
	}
	if row.Error != nil {
		return parley.ToolResult{Outcome: parley.OutcomeError, Output: row.Error.Message, Error: row.Error}, nil
	}
	return parley.ToolResult{}, parley.Errorf(parley.CodeConflict, "turn %s has no result: it is %s", turn, row.Status)
}
