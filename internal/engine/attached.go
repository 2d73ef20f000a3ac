package engine

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/scope"
)

// maxAttachedFile is the largest file that may be attached, in bytes. Prompts show the beginning
// of a large one.
const maxAttachedFile = 4 << 20

// budgetsOf are the budgets of a new session's turns. max_turns and max_budget_usd are other names
// for what budgets has, and may narrow it further.
func budgetsOf(app parley.Budgets, c parley.CreateSession) (parley.Budgets, error) {
	b, err := app.Narrow(c.Budgets)
	if err != nil {
		return b, err
	}
	if c.MaxTurns < 0 || app.MaxSteps > 0 && c.MaxTurns > app.MaxSteps {
		return b, parley.Errorf(parley.CodeInvalid, "max_turns is negative or exceeds the app's limit of %d steps", app.MaxSteps).
			WithField("max_turns").WithHint("a caller may only lower the app's budgets")
	}
	if c.MaxTurns > 0 && (b.MaxSteps == 0 || c.MaxTurns < b.MaxSteps) {
		b.MaxSteps = c.MaxTurns
	}
	if !(c.MaxBudgetUSD >= 0) || c.MaxBudgetUSD > 1e9 { // NaN, too
		return b, parley.Errorf(parley.CodeInvalid, "max_budget_usd must be an amount of US dollars").
			WithField("max_budget_usd").WithHint("leave it out for no limit of the session's own")
	}
	return b, nil
}

// attachable checks what is to be attached to a session of p in the workspace space.
func attachable(a *scope.Resolved, p parley.Principal, space parley.Workspace, list []parley.EntityRef) ([]parley.EntityRef, error) {
	list, err := parley.CheckAttached(list)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return []parley.EntityRef{}, nil // not nil: an update with it detaches everything
	}
	if a.Tools().Attaches() {
		return list, nil
	}
	if space == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "the session has no workspace, so nothing can be attached").WithField("attached_entities").
			WithHint("name a workspace of the app")
	}
	root, err := a.Folders().Open(p, space)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	for i, r := range list {
		clean, err := files.Clean(r.Path)
		if err == nil {
			list[i].Path = clean
			var is files.Info
			is, err = files.Of(root).Stat(clean)
			switch {
			case err != nil:
			case is.Dir:
				err = parley.Errorf(parley.CodeInvalid, "%s is a folder, so it cannot be attached", clean).WithHint("attach files in it")
			case slices.ContainsFunc(strings.Split(clean, "/"), files.IsGit):
				err = parley.Errorf(parley.CodeInvalid, "%s belongs to git, so it cannot be attached", clean)
			case is.Size > maxAttachedFile:
				err = parley.Errorf(parley.CodeTooLarge, "%s is larger than %s, so it cannot be attached", clean, sizeText(maxAttachedFile))
			}
		}
		if err != nil {
			return nil, inField(err, fmt.Sprintf("attached_entities[%d].path", i))
		}
	}
	return list, nil
}

// attached reads what is attached to the session, for the prompts of its turn.
func (h *host) attached(ctx context.Context, list []parley.EntityRef) []parley.AttachedEntity {
	if len(list) == 0 {
		return nil
	}
	if found, ok := h.r.box.Attached(ctx, list); ok {
		return found
	}
	space := h.r.tools.Workspace()
	defer space.Close()
	root, err := space.Open()
	room := parley.MaxAttachedTexts
	out := make([]parley.AttachedEntity, 0, len(list))
	for _, r := range list {
		e := parley.AttachedEntity{EntityRef: r}
		switch {
		case err != nil:
			e.Why = "it could not be read: " + parley.Info(err).Message
		case ctx.Err() != nil:
			e.Why = "it could not be read in time"
		default:
			readAttached(root, &e, room)
		}
		room -= len(e.Text)
		out = append(out, e)
	}
	return out
}

// readAttached reads an attached entity, of which at most room bytes are shown.
func readAttached(root *os.Root, e *parley.AttachedEntity, room int) {
	body, err := files.Of(root).Read(e.Path, maxAttachedFile)
	switch {
	case err != nil:
		e.Why = "it could not be read: " + parley.Info(err).Message
		return
	case !utf8.Valid(body):
		e.Version, e.Why = parley.Digest(files.VersionOf(body)), "it is not text"
		return
	}
	e.Version = parley.Digest(files.VersionOf(body))
	n := min(len(body), room, parley.MaxAttachedText)
	for n > 0 && n < len(body) && !utf8.RuneStart(body[n]) {
		n--
	}
	e.Text, e.Cut = string(body[:n]), n < len(body)
	if e.Text == "" && e.Cut {
		e.Why = "there is no room for it beside the others; read the file"
	}
}
