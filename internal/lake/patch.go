package lake

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/gitrepo"
)

// Patch changes several entities in one commit, and only if each is exactly as its author knows it: what others have changed
// meanwhile is never merged.
type Patch struct {
	Edits  []PatchEdit
	Author Author
	Reason string
	Key    string // as for a [Change]
}

// PatchEdit is what a patch does to an entity.
type PatchEdit struct {
	Path string
	// Versions are those that the entity may have.
	Versions []string
	// On is what the edit makes of the entity. An error ends the patch.
	On func(body string) (now string, gone bool, err error)
}

// Applied is what a patch did.
type Applied struct {
	Commit   string
	Versions map[string]string // of the entities that were changed; "" for those that were deleted
	Repeated bool              // a patch with the key was applied before
}

// Changed is the cause of the CodeConflict of a patch whose entity is not as it has to be.
type Changed struct{ Path, Why string }

func (c *Changed) Error() string { return c.Path + " " + c.Why }

func changed(path, why string) error {
	c := &Changed{path, why}
	return parley.Errorf(parley.CodeConflict, "%w", c)
}

// May says why an entity may not be changed as such, or nil.
func May(path string) error { return mayBe(path) }

// Apply applies a patch.
func (l *Lake) Apply(ctx context.Context, p Patch) (a Applied, err error) {
	for i, e := range p.Edits {
		if p.Edits[i].Path, err = files.Clean(e.Path); err != nil {
			return a, err
		}
		if err := mayBe(e.Path); err != nil {
			return a, err
		}
	}
	c := Change{Path: "x.md", Author: p.Author, Reason: p.Reason, Key: p.Key}
	if err := c.check("delete"); err != nil {
		return a, err
	}
	r, err := l.git(ctx, true)
	if err != nil {
		return a, err
	}
	var before *Applied
	plan := func(ctx context.Context, b gitrepo.Base) (plan gitrepo.Plan, err error) {
		a, before = Applied{Versions: map[string]string{}}, nil
		if p.Key != "" {
			k, err := b.Keyed(ctx, keyTrailer, p.Key)
			if err != nil {
				return plan, err
			}
			if k.Hash != "" {
				before = &Applied{Commit: k.Hash, Versions: map[string]string{}, Repeated: true}
				for _, f := range k.Files {
					before.Versions[f.Path] = f.Blob
				}
				return plan, nil
			}
		}
		now := map[string]*string{} // nil: deleted
		for _, e := range p.Edits {
			body, seen := now[e.Path]
			if !seen {
				s, err := l.working(ctx, b, e.Path)
				switch {
				case err != nil:
					return plan, err
				case !s.there:
					return plan, changed(e.Path, "is not there any more")
				case !slices.Contains(e.Versions, s.version()):
					return plan, changed(e.Path, "was changed by somebody")
				case !s.clean():
					return plan, changed(e.Path, "has changes that are not committed")
				}
				text := string(s.work)
				body = &text
			}
			if body == nil {
				return plan, changed(e.Path, "is deleted by the same change")
			}
			text, gone, err := e.On(*body)
			if err != nil {
				return plan, err
			}
			if now[e.Path] = &text; gone {
				now[e.Path] = nil
			}
		}
		for _, e := range p.Edits {
			text, ok := now[e.Path]
			if _, done := a.Versions[e.Path]; done || !ok {
				continue
			}
			if text == nil {
				plan.Edits, a.Versions[e.Path] = append(plan.Edits, gitrepo.Edit{Path: e.Path, Gone: true}), ""
				continue
			}
			if len(*text) > MaxEntity {
				return plan, parley.Errorf(parley.CodeTooLarge, "%s would have more than %d KB", e.Path, MaxEntity>>10)
			}
			plan.Edits = append(plan.Edits, gitrepo.Edit{Path: e.Path, Body: []byte(*text)})
			a.Versions[e.Path] = VersionOf([]byte(*text))
		}
		return plan, nil
	}
	made, err := r.Change(ctx, gitrepo.Change{Plan: plan, Author: c.Author, When: l.o.Now(), Message: func([]string) string {
		if p.Key == "" {
			return strings.TrimSpace(p.Reason)
		}
		return strings.TrimSpace(p.Reason) + "\n\n" + keyTrailer + ": " + p.Key
	}})
	if len(made.Files) > 0 {
		if err := l.x.wrote(made.Files); err != nil {
			l.o.Logger.Warn("the search index of a lake cannot be written", "err", err)
		}
	} else {
		l.x.touch()
	}
	if blocked := gitrepo.Uncommitted(err); len(blocked) > 0 {
		return a, changed(blocked[0], "has changes that are not committed")
	}
	if err != nil {
		return a, err
	}
	if before != nil {
		return *before, nil
	}
	a.Commit = made.Hash
	return a, nil
}

// AppliedSince finds the patches whose keys begin so, in the commits since another one, by their keys.
func (l *Lake) AppliedSince(ctx context.Context, prefix, since string) (map[string]Applied, error) {
	r, err := l.git(ctx, false)
	if err != nil {
		return nil, err
	}
	all, err := r.KeyedAll(ctx, keyTrailer, prefix, since)
	if err != nil {
		return nil, err
	}
	out := map[string]Applied{}
	for key, e := range all {
		a := Applied{Commit: e.Hash, Versions: map[string]string{}, Repeated: true}
		for _, f := range e.Files {
			a.Versions[f.Path] = f.Blob
		}
		out[key] = a
	}
	return out, nil
}

// DiffsOf are the differences that commits have made, by commit. A commit that changes too much to be shown has none.
func (l *Lake) DiffsOf(ctx context.Context, commits []string) (map[string]string, error) {
	out := map[string]string{}
	if len(commits) == 0 {
		return out, nil
	}
	r, err := l.versions(ctx)
	if err != nil {
		return nil, err
	}
	all, err := r.ContentsOf(ctx, commits, maxRewritten, maxSavedBody)
	if err != nil {
		return nil, err
	}
	for commit, list := range all {
		var b strings.Builder
		for _, c := range list {
			if isPlain(c.Was) && isPlain(c.Is) {
				b.WriteString(unified(c.Path, string(c.Was), string(c.Is), c.Was != nil, c.Is != nil))
			}
		}
		out[commit] = b.String()
	}
	return out, nil
}

// Unified is the difference of an entity that has one content and gets another, as unified diff. gone: it is deleted.
func Unified(path, was, is string, gone bool) string { return unified(path, was, is, true, !gone) }

// ChangedSince is the last commit of the branch, "" if there is none, and whether others have changed the lake since a commit: who
// applied a proposal, and what one of the given turns has changed, do not count. After a commit that the branch does not have, others
// have. since "": nobody has.
func (l *Lake) ChangedSince(ctx context.Context, since string, own []parley.TurnID) (head string, others bool, err error) {
	r, err := l.git(ctx, false)
	if errors.Is(err, gitrepo.ErrNone) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	head, err = r.Head(ctx)
	if err != nil || since == "" || head == since {
		return head, false, err
	}
	return r.TrailedSince(ctx, since, []string{keyTrailer, turnTrailer}, func(values []string) bool {
		return strings.HasPrefix(values[0], proposalKeys) || values[1] != "" && slices.Contains(own, parley.TurnID(values[1]))
	})
}

// proposalKeys begin the keys of patches that apply what was proposed. Keys of calls and of requests begin otherwise.
const proposalKeys = "tachikoma/"
