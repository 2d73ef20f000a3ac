package api

import (
	"context"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/seam"
)

// Engine is the part of package engine that this door uses.
type Engine interface {
	Apps() []parley.App
	App(name string) (parley.App, error)
	Models() []seam.ModelInfo
	Model(name string) (seam.ModelInfo, error)
	Ready(ctx context.Context) error

	Create(ctx context.Context, p parley.Principal, c parley.CreateSession) (parley.SessionInfo, bool, error)
	ImportedBy(ctx context.Context, p parley.Principal, key string, asked parley.Digest) (info parley.SessionInfo, found bool, err error)
	Update(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.UpdateSession) (parley.SessionInfo, error)
	Fork(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.ForkSession) (parley.SessionInfo, error)
	Rewind(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.RewindSession) (parley.RewindResult, error)
	AwaitRewind(ctx context.Context, p parley.Principal, id parley.SessionID, rewind parley.RewindID) (parley.RewindResult, error)
	End(ctx context.Context, p parley.Principal, id parley.SessionID, reason string) (parley.SessionInfo, error)
	Delete(ctx context.Context, p parley.Principal, id parley.SessionID) error
	Session(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.SessionInfo, error)
	SessionPage(ctx context.Context, p parley.Principal, q seam.SessionQuery) ([]parley.SessionInfo, seam.SessionMark, error)
	Alias(ctx context.Context, p parley.Principal, app, outside string) (parley.SessionID, error)
	State(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.Session, error)

	Send(ctx context.Context, p parley.Principal, id parley.SessionID, c parley.Send) (parley.TurnInfo, error)
	Cancel(ctx context.Context, p parley.Principal, id parley.TurnID, reason string) (parley.TurnInfo, error)
	Resume(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error)
	Retry(ctx context.Context, p parley.Principal, id parley.TurnID, key, client string) (parley.TurnInfo, error)
	Await(ctx context.Context, p parley.Principal, id parley.TurnID, timeout time.Duration) (parley.TurnInfo, error)
	Turn(ctx context.Context, p parley.Principal, id parley.TurnID) (parley.TurnInfo, error)
	Turns(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, error)
	TurnPage(ctx context.Context, p parley.Principal, q seam.TurnQuery) ([]parley.TurnInfo, seam.TurnMark, error)
	Rules(ctx context.Context, p parley.Principal, id parley.SessionID) ([]parley.Rule, error)
	Queue(ctx context.Context, p parley.Principal, id parley.SessionID) ([]parley.QueuedTurn, error)
	Commands(ctx context.Context, p parley.Principal, id parley.SessionID) ([]parley.SlashCommand, error)
	AppCommands(ctx context.Context, p parley.Principal, app string, workspace parley.Workspace) ([]parley.SlashCommand, error)
	Resources(ctx context.Context, p parley.Principal, id parley.SessionID, after parley.ResourceRef, limit int) (parley.ResourceList, parley.ResourceRef, error)
	AppResources(ctx context.Context, p parley.Principal, app string, after parley.ResourceRef, limit int) (parley.ResourceList, parley.ResourceRef, error)
	Approvals(ctx context.Context, p parley.Principal, id parley.SessionID) ([]parley.Approval, error)
	Approve(ctx context.Context, p parley.Principal, id parley.SessionID, d parley.Digest, c parley.DecideApproval) (parley.Approval, error)
	Unqueue(ctx context.Context, p parley.Principal, id parley.SessionID, turn parley.TurnID) error

	Answer(ctx context.Context, p parley.Principal, id parley.InteractionID, a parley.AnswerInteraction) (seam.InteractionRow, error)
	Claim(ctx context.Context, p parley.Principal, id parley.InteractionID, c parley.ClaimCall) (parley.Claimed, error)
	Report(ctx context.Context, p parley.Principal, id parley.InteractionID, c parley.ReportCall) (parley.ToolResult, error)
	Interaction(ctx context.Context, p parley.Principal, id parley.InteractionID) (seam.InteractionRow, error)
	Inbox(ctx context.Context, p parley.Principal, from seam.InteractionMark, limit int) ([]seam.InteractionRow, seam.InteractionMark, error)

	Usage(ctx context.Context, p parley.Principal, from, to string) (engine.UserUsage, error)
	Sweep(ctx context.Context, p parley.Principal) (engine.Swept, error)

	Artifact(ctx context.Context, p parley.Principal, id parley.ArtifactID) (seam.Artifact, []byte, error)
	Attach(ctx context.Context, p parley.Principal, id parley.SessionID, name string, body []byte) (parley.Attachment, error)
}

// Importer makes a session from a checked archive, with new ids.
type Importer func(ctx context.Context, p parley.Principal, s archive.Session) (parley.SessionInfo, error)

// Blobs reads bytes that a session refers to, for an export.
type Blobs interface {
	Blob(ctx context.Context, p parley.Principal, session parley.SessionID, d parley.Digest) ([]byte, error)
}
