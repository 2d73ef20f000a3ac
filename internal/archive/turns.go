package archive

import (
	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/steps"
)

// apply adds an event to a turn's files. p is nil when retention removed the data; such a
// step is left out.
func (c *continuation) apply(e parley.Event, p parley.Payload, log *steps.Log) {
	c.UpdatedAt = millis(e.Time)
	if step, ok := log.Of(e, p); ok {
		c.StepLog = append(c.StepLog, stepLogEntry{TS: millis(e.Time), Type: step.Type, Detail: detail(step.Detail)})
	}
	switch p := p.(type) {
	case parley.TurnQueued:
		c.request(p.TurnRequest)
		c.Status = string(parley.StatusPending)
	case parley.TurnStarted:
		c.request(p.TurnRequest)
		c.Status = string(parley.StatusRunning)
	case parley.ToolEnded:
		if p.Artifact != nil {
			c.artifact(*p.Artifact)
		}
	case parley.ArtifactStored:
		c.artifact(p.ArtifactRef)
	case parley.InteractionOpened:
		c.Status = seedStatus(parley.StatusWaiting)
	case parley.TurnInterrupted:
		c.Status = string(parley.StatusInterrupted)
	case parley.TurnResumed:
		c.Status = string(parley.StatusRunning)
	case parley.TurnCompleted:
		c.end(parley.StatusCompleted, &p.Response, nil)
	case parley.TurnFailed:
		c.end(parley.StatusFailed, p.Response, &continuationError{string(p.Error.Code), p.Error.Message, p.Error.Hint})
	case parley.TurnCancelled:
		c.end(parley.StatusCancelled, p.Response, &continuationError{Code: string(parley.CodeCancelled), Message: p.Reason})
	case parley.TurnExpired:
		c.end(parley.StatusExpired, nil, &continuationError{Code: "expired", Message: p.Reason})
	}
}

func (c *continuation) request(r parley.TurnRequest) {
	c.Request = continuationRequest{
		Message: r.Message.Text(), AllowTools: !r.NoTools, MaxSteps: r.Budgets.MaxSteps, TimeBudgetMs: r.Budgets.MaxDurationMS,
		PlannerHints: r.Hints, IdempotencyKey: r.Key,
	}
}

func (c *continuation) artifact(a parley.ArtifactRef) {
	for _, b := range c.Artifacts {
		if b.ID == string(a.ID) {
			return
		}
	}
	c.Artifacts = append(c.Artifacts, artifactRef{ID: string(a.ID), Path: "/v1/artifacts/" + string(a.ID), Type: a.MediaType, Name: a.Name, Size: a.Size, SHA256: string(a.SHA256)})
}

func (c *continuation) end(s parley.TurnStatus, r *parley.Response, err *continuationError) {
	c.Status, c.Error = string(s), err
	if r != nil {
		c.Response = &continuationResponse{FinalMessage: r.Message, ReasoningSummary: r.ReasoningSummary, Citations: r.Citations, FollowUps: r.FollowUps, Scripted: r.Scripted}
	}
}
