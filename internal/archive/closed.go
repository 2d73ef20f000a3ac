package archive

import (
	"slices"

	"github.com/parley-server/parley"
)

// closed removes from a log what must not be imported, and ends what is open at its end.
func closed(events []parley.Event) (Session, error) {
	var fold parley.Session
	for i, e := range events {
		p, err := e.Payload()
		if err != nil {
			return Session{}, err
		}
		if q := harmless(p); q != nil {
			changed := parley.NewEvent(e.Turn, e.Agent, q)
			e = e.WithData(changed.Data)
			events[i] = e
		}
		if err := fold.Apply(e); err != nil {
			return Session{}, err
		}
		if err := fold.Crowded(); err != nil {
			return Session{}, parley.Errorf(parley.CodeTooLarge, "event %d of the export: %w", e.Seq, err)
		}
	}
	last := events[len(events)-1]
	for _, e := range closing(fold) {
		e.Session, e.Seq, e.Time = last.Session, fold.Seq+1, last.Time
		if err := fold.Apply(e); err != nil {
			return Session{}, err
		}
		events = append(events, e)
	}
	return Session{App: fold.App, Events: events}, nil
}

// harmless returns p without permissions and provider state, or nil if it has neither.
func harmless(p parley.Payload) parley.Payload {
	switch p := p.(type) {
	case parley.SessionCreated:
		if p.OutsideID != "" || loose(p.Mode) {
			p.OutsideID = ""
			if loose(p.Mode) {
				p.Mode = parley.ModeDefault
			}
			return p
		}
	case parley.SessionUpdated:
		if p.Rules != nil || p.Mode != nil && loose(*p.Mode) {
			p.Rules = nil
			if p.Mode != nil && loose(*p.Mode) {
				p.Mode = nil
			}
			return p
		}
	case parley.TurnQueued:
		if p.Key != "" {
			p.Key = ""
			return p
		}
	case parley.TurnStarted:
		if p.Key != "" {
			p.Key = ""
			return p
		}
	case parley.TurnSteered:
		if p.Key != "" {
			p.Key = ""
			return p
		}
	case parley.ModelReplied:
		sealed := slices.ContainsFunc(p.Parts, func(part parley.Part) bool { return part.Signature != nil })
		if p.State != nil || sealed {
			p.State, p.Parts = nil, slices.Clone(p.Parts)
			for i := range p.Parts {
				p.Parts[i].Signature = nil
			}
			return p
		}
	case parley.HistoryCondensed: // the data is in another log's archive
		return parley.HistoryCondensed{}
	case parley.ToolStarted:
		if p.Grant != "" {
			p.Grant = ""
			return p
		}
	}
	return nil
}

// loose reports whether a mode asks less than the default. An imported archive must not
// set such a mode.
func loose(m parley.PermissionMode) bool {
	return m == parley.ModeBypassPermissions || m == parley.ModeAcceptEdits
}

const imported = "imported"

// closing returns the events that end what is open: calls before their turn, a started
// call with effects as unknown, everything else as cancelled.
func closing(s parley.Session) []parley.Event {
	why := parley.ErrorInfo{Code: parley.CodeCancelled, Message: "the session was exported before this call ended"}
	var out []parley.Event
	if t := s.Turn; t != nil {
		for _, in := range s.Interactions {
			out = append(out, parley.NewEvent(t.ID, in.Agent, parley.InteractionExpired{ID: in.ID, Reason: imported}))
		}
		for _, c := range t.Calls {
			usage := c.Reserved
			usage.Estimated = true
			out = append(out, parley.NewEvent(t.ID, c.Agent, parley.ModelFailed{Call: c.Call, Error: why, Usage: usage}))
		}
		for _, c := range t.Tools.All() {
			if c.Status == parley.ToolIsEnded {
				continue
			}
			r := parley.ToolResult{Call: c.Call, Outcome: parley.OutcomeCancelled, Output: "cancelled: " + why.Message, Error: &why}
			if c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead {
				r.Outcome, r.Output = parley.OutcomeUnknown, "unknown: "+why.Message
			}
			out = append(out, parley.NewEvent(t.ID, c.Agent, parley.ToolEnded{ToolResult: r, Name: c.Name, Effect: c.Effect}))
		}
		usage := t.Spent.Usage
		if len(t.Calls) > 0 {
			usage = usage.Add(t.Reserved())
			usage.Estimated = true
		}
		out = append(out, parley.NewEvent(t.ID, "", parley.TurnCancelled{Reason: "the session was exported while this turn was open", By: imported, Usage: usage}))
	}
	for _, q := range s.Queue {
		out = append(out, parley.NewEvent(q.ID, "", parley.TurnCancelled{Reason: "the session was exported while this turn waited", By: imported}))
	}
	return out
}

// FitInto makes the session one of app: where the archive has no limit, or a wider one
// than the app allows, the app's applies.
func (s *Session) FitInto(app parley.App) error {
	p, err := s.Events[0].Payload()
	if err != nil {
		return err
	}
	created, ok := p.(parley.SessionCreated)
	if !ok {
		return bad("the log does not begin with session.created")
	}
	force := app.InForce()
	created.App, created.InForce = app.Name, &force
	if created.Budgets, err = app.Budgets.Narrow(created.Budgets); err != nil {
		created.Budgets = app.Budgets
	}
	created.MaxOpenTurns = min(max(created.MaxOpenTurns, 1), max(app.MaxOpenTurns, 1))
	s.App = app.Name
	s.Events[0] = s.Events[0].WithData(parley.NewEvent("", "", created).Data)
	return nil
}
