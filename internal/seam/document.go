package seam

import (
	"context"

	"github.com/parley-server/parley"
)

// Document is what was read of a file that a user attached.
type Document struct {
	MediaType string // by the content
	Text      string // UTF-8; empty for images and for what cannot be read
	Cut       bool   // it has more text
	Why       string // why there is no text, in words; empty: there is, or it is an image
	Image     []byte // as models take it; nil: it is no image
}

// DocumentReader reads files that users attach. It is safe for concurrent use.
type DocumentReader interface {
	// Read reads a file. What cannot be read is no error: the document says why. Its errors are ctx's
	// or say that too many calls wait.
	Read(ctx context.Context, who parley.Principal, name string, body []byte) (Document, error)
}
