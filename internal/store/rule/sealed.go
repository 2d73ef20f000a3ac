package rule

import (
	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// SealedBy returns s as its owner's, who is p, or for System the one that s names.
func SealedBy(p parley.Principal, s seam.Sealed) (seam.Sealed, error) {
	if !p.IsSystem() {
		s.User, s.Org = p.User, p.Org
	}
	if s.User == "" {
		return s, parley.Errorf(parley.CodeForbidden, "what is sealed needs an owner")
	}
	if err := BlobSize(p, len(s.Body)); err != nil {
		return s, err
	}
	return s, nil
}
