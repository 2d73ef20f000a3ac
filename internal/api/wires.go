package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

const wiresTag = "wires"

// Describe adds to the document an operation that another door of the listener serves. In
// addition to the answers in op, it may be refused as any door may, and with the statuses
// in refused. Call it before the document is first requested.
func (s *Server) Describe(op *huma.Operation, refused ...int) {
	op.Tags = []string{wiresTag}
	declare(op, append(refused, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
		http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusUnsupportedMediaType))
	s.huma.OpenAPI().AddOperation(op)
}

// Schema is the schema of v's type, by its name in the document.
func (s *Server) Schema(v any) *huma.Schema { return s.schema(v) }
