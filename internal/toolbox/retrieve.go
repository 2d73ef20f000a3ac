package toolbox

import (
	"context"
	"errors"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxSnippets is how many snippets one toolset gives to a question.
const maxSnippets = 8

// Retrieve asks every toolset that has snippets for those about a question. about is what
// the previous turn was about. It returns what some of them found together with the errors
// of the others.
func (b *Box) Retrieve(ctx context.Context, p parley.Principal, query string, about []string) ([]parley.Snippet, error) {
	var all []parley.Snippet
	var failed error
	for _, set := range b.sets {
		r, ok := set.(seam.Retriever)
		if !ok {
			continue
		}
		found, err := r.Retrieve(ctx, p, query, about, maxSnippets)
		failed = errors.Join(failed, err)
		all = append(all, found...)
	}
	return all, failed
}

// Attaches reports whether a toolset knows what is attached to sessions.
func (b *Box) Attaches() bool {
	_, ok := b.attacher()
	return ok
}

// Attached asks the toolset that knows what is attached to sessions. If there is none, ok is false.
func (b *Box) Attached(ctx context.Context, list []parley.EntityRef) (found []parley.AttachedEntity, ok bool) {
	if set, ok := b.attacher(); ok {
		return set.Attached(ctx, list), true
	}
	return nil, false
}

func (b *Box) attacher() (seam.Attacher, bool) {
	for _, set := range b.sets {
		if a, ok := set.(seam.Attacher); ok {
			return a, true
		}
	}
	return nil, false
}
