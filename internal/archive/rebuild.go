package archive

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// rebuild makes a log from the seed's files: the session, and each turn with its question
// and answer. Steps are left out, because these files have too little about them to make
// events.
func (a *zipped) rebuild(blobs map[parley.Digest][]byte) ([]parley.Event, error) {
	f := a.files[SessionFile]
	if f == nil {
		return nil, bad("the archive has neither %s nor %s", eventsFile, SessionFile)
	}
	var s agentSession
	if err := a.decode(SessionFile, &s); err != nil {
		return nil, err
	}
	if !id.MatchString(s.ID) {
		return nil, bad("%s has no proper id", SessionFile)
	}
	var turns []continuation
	for _, name := range a.names {
		if !strings.HasPrefix(name, "turns/") {
			continue
		}
		var c continuation
		if err := a.decode(name, &c); err != nil {
			return nil, err
		}
		switch {
		case name != "turns/"+c.ID+".json":
			return nil, bad("%s holds a turn of another name", name)
		case !id.MatchString(c.ID):
			return nil, bad("%s is not named by a ULID", name)
		case c.SessionID != "" && c.SessionID != s.ID:
			return nil, bad("%s belongs to another session", name)
		case slices.Contains(s.Rewound, c.ID):
			continue
		}
		turns = append(turns, c)
	}
	slices.SortFunc(turns, func(a, b continuation) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	if s.Ctx.AppModel {
		s.Model.Provider, s.Model.Model = "", ""
	}
	b := builder{session: parley.SessionID(s.ID)}
	if err := b.add(s.CreatedAt, "", parley.SessionCreated{
		App: s.Ctx.App, User: s.Ctx.User, Org: s.Ctx.Org, Title: s.Ctx.Title, Model: s.Model.name(),
		Temperature: s.Model.Temperature, MaxOutput: s.Model.MaxTokens,
		Budgets: parley.Budgets(s.Budgets), Busy: parley.BusyReject, MaxOpenTurns: 1, Preferences: s.Preferences,
	}); err != nil {
		return nil, err
	}
	for _, c := range turns {
		if err := b.turn(c, blobs); err != nil {
			return nil, err
		}
	}
	if m := s.Memory; m.RollingSummary != "" || len(m.Facts) > 0 || len(m.Pins) > 0 {
		if err := b.add(s.UpdatedAt, "", remembered(m)); err != nil {
			return nil, err
		}
	}
	if s.Status == string(parley.Ended) || s.Status == string(parley.Expired) {
		if err := b.add(s.UpdatedAt, "", parley.SessionEnded{Status: parley.SessionStatus(s.Status), Reason: imported}); err != nil {
			return nil, err
		}
	}
	return b.events, nil
}

func remembered(m sessionMemory) parley.MemoryUpdated {
	u := parley.MemoryUpdated{By: imported}
	if m.RollingSummary != "" {
		u.Summary = &m.RollingSummary
	}
	if len(m.Facts) > 0 {
		var facts []parley.Fact
		for _, f := range m.Facts {
			fact := parley.Fact{Text: f.Text, Source: f.Source} // its number was that of another log
			if f.TS > 0 {
				fact.Time = time.UnixMilli(f.TS).UTC()
			}
			facts = append(facts, fact)
		}
		u.Facts = &facts
	}
	if len(m.Pins) > 0 {
		var pins []parley.Pin
		for _, p := range m.Pins {
			pins = append(pins, parley.Pin(p))
		}
		u.Pins = &pins
	}
	return u
}

func (a *zipped) decode(name string, v any) error {
	raw, err := a.read(a.files[name])
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return bad("%s is not what it should be: %v", name, err)
	}
	return nil
}

type builder struct {
	session parley.SessionID
	events  []parley.Event
	last    time.Time
}

// add appends an event; times never go back in a log.
func (b *builder) add(ms int64, turn parley.TurnID, p parley.Payload) error {
	t := time.UnixMilli(ms).UTC()
	if t.Year() < 1970 || t.Year() > 9999 {
		return bad("%d is not a time in milliseconds", ms)
	}
	if t.Before(b.last) {
		t = b.last
	}
	b.last = t
	e := parley.NewEvent(turn, "", p)
	e.Session, e.Seq, e.Time = b.session, int64(len(b.events)+1), t
	b.events = append(b.events, e)
	return nil
}

func (b *builder) turn(c continuation, blobs map[parley.Digest][]byte) error {
	turn := parley.TurnID(c.ID)
	if err := b.add(c.CreatedAt, turn, parley.TurnStarted{TurnRequest: parley.TurnRequest{
		Origin: parley.OriginUser, Message: parley.Text(parley.RoleUser, c.Request.Message), NoTools: !c.Request.AllowTools,
		Hints: c.Request.PlannerHints, Client: imported,
		Budgets: parley.Budgets{MaxSteps: c.Request.MaxSteps, MaxDurationMS: c.Request.TimeBudgetMs},
	}}); err != nil {
		return err
	}
	for _, r := range c.Artifacts {
		ref := parley.ArtifactRef{ID: parley.ArtifactID(r.ID), Name: r.Name, MediaType: r.Type, Size: r.Size, SHA256: parley.Digest(r.SHA256)}
		if !id.MatchString(r.ID) {
			return bad("turn %s names an artifact without a proper id", c.ID)
		}
		if body, ok := blobs[ref.SHA256]; !ok || int64(len(body)) != r.Size {
			return bad("artifact %s of turn %s is not in the archive, or not what the turn says it is", r.ID, c.ID)
		}
		if err := b.add(c.UpdatedAt, turn, parley.ArtifactStored{ArtifactRef: ref}); err != nil {
			return err
		}
	}
	var said *parley.Response
	if r := c.Response; r != nil {
		said = &parley.Response{Message: r.FinalMessage, ReasoningSummary: r.ReasoningSummary, Citations: r.Citations, FollowUps: r.FollowUps, Scripted: r.Scripted}
	}
	var end parley.Payload
	switch parley.TurnStatus(c.Status) {
	case parley.StatusCompleted:
		if said == nil {
			said = &parley.Response{}
		}
		end = parley.TurnCompleted{Response: *said}
	case parley.StatusFailed:
		info := parley.ErrorInfo{Code: parley.CodeInternal, Message: "the turn failed"}
		if c.Error != nil {
			info = parley.ErrorInfo{Code: parley.Code(c.Error.Code), Message: c.Error.Message, Hint: c.Error.Hint}
		}
		end = parley.TurnFailed{Error: info, Response: said}
	case parley.StatusExpired:
		end = parley.TurnExpired{Reason: reason(c)}
	case parley.StatusCancelled:
		end = parley.TurnCancelled{Reason: reason(c), By: imported, Response: said}
	case parley.StatusPending, parley.StatusRunning, parley.StatusStreaming, parley.StatusInterrupted:
		end = parley.TurnCancelled{Reason: "the session was exported while this turn was open", By: imported, Response: said}
	default:
		return bad("turn %s has the status %q, which is not known", c.ID, parley.Cut(c.Status, 40))
	}
	return b.add(c.UpdatedAt, turn, end)
}

func reason(c continuation) string {
	if c.Error == nil {
		return ""
	}
	return c.Error.Message
}
