package api

import (
	"context"
	"mime"
	"strings"

	"github.com/parley-server/parley"
)

// accepts reports whether an Accept header names a type explicitly. Wildcards do not
// count.
func accepts(header, want string) bool {
	for item := range strings.SplitSeq(header, ",") {
		kind, params, err := mime.ParseMediaType(strings.TrimSpace(item))
		if err == nil && kind == want && params["q"] != "0" {
			return true
		}
	}
	return false
}

// Open counts the stream that the request of ctx asks for, as [wire.Streams.Open]
// does.
func (s *Server) Open(ctx context.Context, p parley.Principal) (done func(), err error) {
	return s.streams.Open(ctx, p)
}
