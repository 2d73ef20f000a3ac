// Package approval decides whether what files of users and workspaces would run may run.
//
// Programs and addresses in such files are off. The operator may turn them on for an app
// ([Options].Exec). Then each [Subject] needs the yes of a person, which is given through
// [Gate.Decide] and by nothing else: no mode, rule, hook, model or MCP host comes here. A
// yes is for one digest, of one user, app and workspace. The digest covers the whole
// command line, the file's entry for it and the content of the files in the folder that
// the command line names, so a changed script asks anew, and so does an entry of the same
// name in a nearer file. A folder, a library or a program elsewhere is not in it.
//
// A caller computes the digest anew directly before each run. A hook's is computed again when its
// program has ended, and what a changed one says does not count; that of an MCP server when it
// has started, and a changed one is ended before it is used. Somebody who changes a file
// between the digest and the moment at which the program reads it still has it run; closing that
// gap would need a copy of all that the program reads.
//
// ${NAME} in such files stands for variables that the operator has listed, and for no
// other of the server's. Addresses must be on hosts that the operator has listed.
//
// What is decided is kept in the store. It holds until it is decided otherwise; when the
// store cannot be read, the answer is no. Methods are safe for concurrent use.
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
	// MaxKept is how many decisions are kept for a user. Beyond it the oldest goes, and its
	// subject asks again.
	MaxKept = 200
	// maxRuns is the most bytes of a command line. What a person cannot read is not run.
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

// New returns a Book over a store. A nil now is time.Now.
func New(store Store, now func() time.Time) *Book {
	if now == nil {
		now = time.Now
	}
	return &Book{store: store, now: now}
}

// Options are what the operator lets an app's users and workspaces do.
type Options struct {
	Exec  bool                             // files of users and workspaces may run what was approved
	Env   []string                         // variables that ${NAME} in these files may stand for
	Value func(name string) (string, bool) // of a variable; nil: none is set
	Hosts []string                         // that addresses in these files may name
	Book  *Book                            // nil: nothing was ever approved
}

// Gate is what a scope's files have to pass. A nil Gate lets nothing pass.
type Gate struct {
	o  Options
	at seam.Scope
}

// For returns the gate of a scope.
func For(at seam.Scope, o Options) *Gate { return &Gate{o: o, at: at} }

// decision is what a row of the store holds.
type decision struct {
	parley.Approval
	Decided parley.ApprovalState `json:"decided"`
}

// workspace is where the approvals of a level are kept: what is in a user's own folder is
// the same in all workspaces.
func (g *Gate) workspace(level string) string {
	if level == "user" {
		return ""
	}
	return string(g.at.Workspace)
}

// State says in which state a subject is now.
func (g *Gate) State(ctx context.Context, s Subject) parley.Approval {
	return g.States(ctx, []Subject{s})[0]
}

// States is State for several subjects, which costs one look into the store.
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

// Allowed returns nil if a subject may run now, or else why not, for people. digest is that
// of the subject as it is now.
func (g *Gate) Allowed(ctx context.Context, s Subject) error {
	if s.Wrong != nil {
		return s.Wrong
	}
	switch g.State(ctx, s).State {
	case parley.ApprovalAllowed:
		return nil
	case parley.ApprovalOff:
		return parley.Errorf(parley.CodeForbidden, "%s of the %s does not run: this app runs nothing that files of users and workspaces name", s.Name, s.Level).
			WithHint("the operator can set workspace_exec: true in app.yaml")
	case parley.ApprovalDenied:
		return parley.Errorf(parley.CodeForbidden, "%s of the %s does not run: a person has denied it", s.Name, s.Level)
	}
	return parley.Errorf(parley.CodeForbidden, "%s of the %s does not run: nobody has approved it", s.Name, s.Level).
		WithHint("a person can look at it and approve it, with: parley session approve")
}

// Decide keeps what a person decided about a subject: allowed, denied, or open again.
// CodeConflict: it is not in the state that the person has seen.
func (g *Gate) Decide(ctx context.Context, s Subject, c parley.DecideApproval) (parley.Approval, error) {
	a, state := s.approval(), c.State
	switch {
	case g == nil || !g.o.Exec || g.o.Book == nil:
		return a, parley.Errorf(parley.CodeForbidden, "this app runs nothing that files of users and workspaces name").
			WithHint("the operator can set workspace_exec: true in app.yaml")
	case s.Wrong != nil && state == parley.ApprovalAllowed:
		return a, s.Wrong
	case state != parley.ApprovalAllowed && state != parley.ApprovalDenied && state != parley.ApprovalOpen:
		return a, parley.Errorf(parley.CodeInvalid, "state is %q", state).WithField("state").
			WithHint("one of %s, %s, %s", parley.ApprovalAllowed, parley.ApprovalDenied, parley.ApprovalOpen)
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

// changed is the error of a decision about something that another was made about meanwhile.
func changed(now parley.Approval) error {
	what := "the decision about %s was taken back meanwhile"
	switch now.State {
	case parley.ApprovalAllowed:
		what = "%s was approved meanwhile"
	case parley.ApprovalDenied:
		what = "%s was denied meanwhile"
	}
	return parley.Errorf(parley.CodeConflict, what, now.Name).WithHint("look at the list again")
}

// makeRoom removes the oldest decision of a user who has too many for another one.
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
		_ = json.Unmarshal(r.Body, &d) // one that cannot be read is the oldest
		if i == 0 || d.At.Before(since) {
			oldest, since = r, d.At
		}
	}
	oldest.Body = nil
	return b.store.PutApproval(ctx, p, oldest)
}
