package engine

import (
	"context"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// standing is the outside id of the session that holds a caller's direct calls
// in an app. A space keeps it apart from the ids that browsers make.
const standing = "direct calls"

// maxInput bounds the input of a direct call, in bytes.
const maxInput = 256 << 10

// CallTool makes one tool call without a model, by the same path as an agent's:
// schema, policy, human, journal. It returns the turn once it is durable; its
// result is [Engine.CallResult] when the turn has ended. Calls in one session
// run one after the other.
func (e *Engine) CallTool(ctx context.Context, p parley.Principal, c parley.CallTool) (parley.TurnInfo, error) {
	none := parley.TurnInfo{}
	switch {
	case len(c.Input) > maxInput:
		return none, tooLong("input", maxInput, "bytes")
	case utf8.RuneCountInString(c.Key) > parley.MaxKey:
		return none, tooLong("Idempotency-Key", parley.MaxKey, "characters")
	}
	if c.Session == "" {
		s, _, err := e.Create(ctx, p, parley.CreateSession{
			App: c.App, OutsideID: standing, Title: "Direct calls", Busy: parley.BusyEnqueue, MaxOpenTurns: maxQueue, Client: c.Client,
		})
		if err != nil {
			return none, err
		}
		c.Session = s.ID
	}
	s, err := e.acquire(ctx, p, c.Session)
	if err != nil {
		return none, err
	}
	if _, err := e.appOf(s.view.App); err != nil {
		s.release()
		return none, err
	}
	if _, ok := e.o.Tools[s.view.App].Decl(c.Name); !ok {
		s.release()
		return none, notFound("tool", c.Name)
	}
	if len(c.Input) == 0 {
		c.Input = []byte("{}")
	}
	call := &parley.ToolCall{Call: parley.CallID(e.newID()), Name: c.Name, Input: c.Input, Redacted: c.Redacted}
	return s.send(ctx, p, asked{Send: parley.Send{Message: c.Name + " " + string(c.Input), Key: c.Key, Client: c.Client}, call: call})
}

// CallResult is what came of a direct call whose turn has ended.
func (e *Engine) CallResult(ctx context.Context, p parley.Principal, turn parley.TurnID) (parley.ToolResult, error) {
	row, err := e.Turn(ctx, p, turn)
	if err != nil {
		return parley.ToolResult{}, err
	}
	for after := row.FirstSeq - 1; after < row.LastSeq; {
		events, err := e.o.Store.Read(ctx, p, row.SessionID, after, 0)
		if err != nil {
			return parley.ToolResult{}, err
		}
		for _, ev := range events {
			after = ev.Seq
			if ev.Turn != turn || ev.Type != "tool.ended" {
				continue
			}
			pay, err := ev.Payload()
			if err != nil {
				return parley.ToolResult{}, err
			}
			if t, ok := pay.(parley.ToolEnded); ok {
				return t.ToolResult, nil
			}
		}
		if len(events) == 0 {
			break
		}
	}
	if row.Error != nil {
		return parley.ToolResult{Outcome: parley.OutcomeError, Output: row.Error.Message, Error: row.Error}, nil
	}
	return parley.ToolResult{}, parley.Errorf(parley.CodeConflict, "turn %s has no result: it is %s", turn, row.Status)
}
