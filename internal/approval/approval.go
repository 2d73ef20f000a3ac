// Package approval decides whether programs and URLs that are named in the files of users and
// workspaces may be run or called.
//
// By default none of them may. The operator can allow them for an app ([Options].Exec). Then
// each [Subject] needs the approval of a person, which only [Gate.Decide] records: no mode,
// rule, hook, model or MCP host can approve. An approval is for one digest, of one user, app
// and workspace. The digest covers the whole command line, the file's entry for it, and the
// content of the files in the folder that the command line names. So a changed script needs a
// new approval, and so does an entry of the same name in a nearer file. The digest does not
// cover folders, libraries or programs elsewhere.
//
// A caller computes the digest again directly before each run. For a hook it is computed once
// more after its program has ended, and the output is ignored if the digest has changed. For an
// MCP server it is computed once more after the start, and the server is ended before it is
// used if the digest has changed. A file that is changed after the digest is computed and
// before the program reads it is still run. Closing that gap would need a copy of everything
// that the program reads.
//
// In such files, ${NAME} can stand only for environment variables that the operator has listed.
// URLs must be on hosts that the operator has listed.
//
// Decisions are kept in the store and hold until a person changes them. If the store cannot be
// read, nothing is allowed. Methods are safe for concurrent use.
package approval

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// MaxKept limits the decisions that are kept for a user. Beyond it the oldest is removed,
	// and its subject needs a new one.
	MaxKept = 200
	// maxRuns limits a command line, in bytes. A longer one is not run, because no person could
	// review it.
	maxRuns = 8 << 10
)

// Store is the part of a store that a Book needs.
type Store interface {
	PutApproval(ctx context.Context, p parley.Principal, a seam.Approval) error
	Approvals(ctx context.Context, p parley.Principal) ([]seam.Approval, error)
}

// Book keeps decisions. Make one with [New].
type Book struct {
	store Store
	now   func() time.Time
	mu    sync.Mutex // one change at a time, so that the limit holds
}

// New returns a Book that uses a store. If now is nil, it is time.Now.
func New(store Store, now func() time.Time) *Book {
	if now == nil {
		now = time.Now
	}
	return &Book{store: store, now: now}
}

// Options say what the operator allows the files of an app's users and workspaces.
type Options struct {
	Exec  bool                             // the files may run what was approved
	Env   []string                         // environment variables that ${NAME} may stand for
	Value func(name string) (string, bool) // returns the value of a variable; nil: none is set
	Hosts []string                         // hosts that URLs may name
	Book  *Book                            // nil: nothing is approved
}

// Gate decides for the files of one scope. A nil Gate allows nothing.
type Gate struct {
	o  Options
	at seam.Scope
}

// For returns the gate of a scope.
func For(at seam.Scope, o Options) *Gate { return &Gate{o: o, at: at} }

// decision is the content of a row in the store.
type decision struct {
	parley.Approval
	Decided parley.ApprovalState `json:"decided"`
}

// workspace returns the workspace under which the approvals of a level are stored. It is empty
// for the user's own folder, which is the same in all workspaces.
func (g *Gate) workspace(level string) string {
	if level == "user" {
		return ""
	}
	return string(g.at.Workspace)
}

// State returns the current state of a subject.
func (g *Gate) State(ctx context.Context, s Subject) parley.Approval {
	return g.States(ctx, []Subject{s})[0]
}

// States is State for several subjects, with a single query of the store.
func (g *Gate) States(ctx context.Context, subjects []Subject) []parley.Approval {
	list := make([]parley.Approval, len(subjects))
	var kept []seam.Approval
	if g != nil && g.o.Exec && g.o.Book != nil && len(subjects) > 0 {
		kept, _ = g.o.Book.store.Approvals(ctx, g.at.Principal)
	}
	for i, s := range subjects {
		a := s.approval()
		a.State = parley.ApprovalOpen
		if g == nil || !g.o.Exec {
			a.State = parley.ApprovalOff
		}
		for _, row := range kept {
			var d decision
			if row.App == g.at.App && row.Workspace == g.workspace(s.Level) && row.Name == string(s.Digest) && json.Unmarshal(row.Body, &d) == nil {
				a.State, a.By, a.At = d.Decided, d.By, d.At
			}
		}
		list[i] = a
	}
	return list
}

// Allowed returns nil if a subject may run now, otherwise an error that tells people why not. s
// must have the current digest.
func (g *Gate) Allowed(ctx context.Context, s Subject) error {
	if s.Wrong != nil {
		return s.Wrong
	}
	switch g.State(ctx, s).State {
	case parley.ApprovalAllowed:
		return nil
	case parley.ApprovalOff:
		return parley.Errorf(parley.CodeForbidden, "%s of the %s does not run: this app runs nothing from files of users and workspaces", s.Name, s.Level).
			WithHint("the operator can set workspace_exec: true in app.yaml")
	case parley.ApprovalDenied:
		return parley.Errorf(parley.CodeForbidden, "%s of the %s does not run: a person has denied it", s.Name, s.Level)
	}
	return parley.Errorf(parley.CodeForbidden, "%s of the %s does not run: nobody has approved it", s.Name, s.Level).
		WithHint("a person can review and approve it with: parley session approve")
}

// Decide stores a person's decision about a subject: allowed, denied, or open again. It returns
// CodeConflict if the subject is no longer in the state that the person saw.
func (g *Gate) Decide(ctx context.Context, s Subject, c parley.DecideApproval) (parley.Approval, error) {
	a, state := s.approval(), c.State
	switch {
	case g == nil || !g.o.Exec || g.o.Book == nil:
		return a, parley.Errorf(parley.CodeForbidden, "this app runs nothing from files of users and workspaces").
			WithHint("the operator can set workspace_exec: true in app.yaml")
	case s.Wrong != nil && state == parley.ApprovalAllowed:
		return a, s.Wrong
	case state != parley.ApprovalAllowed && state != parley.ApprovalDenied && state != parley.ApprovalOpen:
		return a, parley.Errorf(parley.CodeInvalid, "state is %q", state).WithField("state").
			WithHint("use %s, %s or %s", parley.ApprovalAllowed, parley.ApprovalDenied, parley.ApprovalOpen)
	}
	b := g.o.Book
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Was != "" {
		if now := g.State(ctx, s); now.State != c.Was {
			return now, changed(now)
		}
	}
	a.State, a.By, a.At = state, c.By, parley.Now(b.now())
	row := seam.Approval{User: g.at.Principal.User, Org: g.at.Principal.Org, App: g.at.App, Workspace: g.workspace(s.Level), Name: string(s.Digest)}
	if state == parley.ApprovalOpen {
		a.By, a.At = "", time.Time{}
		return a, b.store.PutApproval(ctx, g.at.Principal, row)
	}
	body, err := json.Marshal(decision{a, state})
	if err != nil {
		return a, err
	}
	row.Body = body
	if err := b.makeRoom(ctx, g.at.Principal, row); err != nil {
		return a, err
	}
	return a, b.store.PutApproval(ctx, g.at.Principal, row)
}

// changed returns the error for a decision that another one has overtaken.
func changed(now parley.Approval) error {
	what := "the decision about %s was withdrawn meanwhile"
	switch now.State {
	case parley.ApprovalAllowed:
		what = "%s was approved meanwhile"
	case parley.ApprovalDenied:
		what = "%s was denied meanwhile"
	}
	return parley.Errorf(parley.CodeConflict, what, now.Name).WithHint("look at the list again")
}

// makeRoom removes a user's oldest decision if there is no room for another.
func (b *Book) makeRoom(ctx context.Context, p parley.Principal, next seam.Approval) error {
	have, err := b.store.Approvals(ctx, p)
	if err != nil {
		return err
	}
	have = slices.DeleteFunc(have, func(r seam.Approval) bool {
		return r.App == next.App && r.Workspace == next.Workspace && r.Name == next.Name
	})
	if len(have) < MaxKept {
		return nil
	}
	var oldest seam.Approval
	var since time.Time
	for i, r := range have {
		var d decision
		_ = json.Unmarshal(r.Body, &d) // a decision that cannot be read counts as the oldest
		if i == 0 || d.At.Before(since) {
			oldest, since = r, d.At
		}
	}
	oldest.Body = nil
	return b.store.PutApproval(ctx, p, oldest)
}
