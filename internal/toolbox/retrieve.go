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
