package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/wire"
)

const (
	importPath = "/v1/sessions/import"

	// maxImports limits the archives being received at once, of which one is unpacked at
	// a time; maxUserImports is the share of one user.
	maxImports     = 4
	maxUserImports = 1
)

// importing refuses an archive before its bytes are read if enough are being received.
func (s *Server) importing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := s.o.Principal(r.Context())
		if err != nil {
			next(w, r) // which reports that
			return
		}
		done, err := s.beginImport(p)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		defer done()
		next(w, r)
	}
}

func (s *Server) beginImport(p parley.Principal) (done func(), err error) {
	done, mine, all := s.imports.enter(p)
	switch {
	case mine:
		return nil, parley.Errorf(parley.CodeRateLimited, "another import of yours is in progress").
			WithHint("import one archive at a time").WithRetry(5 * time.Second)
	case all:
		return nil, parley.Errorf(parley.CodeUnavailable, "%d imports are in progress, which is this server's limit", maxImports).
			WithHint("try again in a moment").WithRetry(5 * time.Second)
	}
	return done, nil
}

// gate limits how many requests with large bodies are received at once.
type gate struct {
	max, each int // of all users, and of one; [parley.Local] may have all

	mu sync.Mutex
	by map[parley.Principal]int
}

// enter lets a request of p in until done. mine and all say that p has, or all users have, as many
// as they may; then done is nil.
func (g *gate) enter(p parley.Principal) (done func(), mine, all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, of := range g.by {
		n += of
	}
	switch {
	case g.by[p] >= g.each && p != parley.Local:
		return nil, true, false
	case n >= g.max:
		return nil, false, true
	}
	if g.by == nil {
		g.by = map[parley.Principal]int{}
	}
	g.by[p]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.by[p]--; g.by[p] == 0 {
			delete(g.by, p)
		}
	}, false, false
}

type importInput struct {
	KeyParam
	App       string           `query:"app" maxLength:"64" doc:"The app to import into; the archive's own when not given."`
	Workspace parley.Workspace `query:"workspace" maxLength:"80" doc:"The session's workspace. When not given: the archive's own, if it is an export of the caller's and the workspace is there."`
	RawBody   []byte           `contentType:"application/zip" required:"true"`
}

// digest returns the digest of the whole request, which an idempotency key must match.
func (in *importInput) digest() parley.Digest {
	sum := sha256.New()
	fmt.Fprintf(sum, "import %q %q\n", in.App, in.Workspace)
	sum.Write(in.RawBody)
	return parley.Digest(hex.EncodeToString(sum.Sum(nil)))
}

func (s *Server) archiveRoutes() {
	tags := []string{"sessions"}
	route(s, huma.Operation{
		OperationID: "export-session", Method: http.MethodGet, Path: "/v1/sessions/{id}/export", Tags: tags, Summary: "Export a session as a zip file",
		Description: "The archive contains the whole log and readable files, and can be imported again.",
		Responses: map[string]*huma.Response{
			"200": {Description: "The archive", Content: map[string]*huma.MediaType{"application/zip": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}},
		},
	}, s.export)
	route(s, huma.Operation{
		OperationID: "import-session", Method: http.MethodPost, Path: importPath, Tags: tags, DefaultStatus: http.StatusCreated,
		MaxBodyBytes: s.o.MaxImport + 1, Summary: "Make a session of an export",
		Description: "It gets new ids and belongs to the caller. Grants, rules, keys and provider state are not taken over; what was open is cancelled.",
	}, func(ctx context.Context, p parley.Principal, in *importInput) (*body[parley.SessionInfo], error) {
		if s.o.Import == nil {
			return nil, parley.Errorf(parley.CodeForbidden, "imports are switched off here")
		}
		asked := in.digest()
		if made, found, err := s.o.Engine.ImportedBy(ctx, p, string(in.Key), asked); err != nil || found {
			return ok(made, err)
		}
		select { // an archive unpacks to many times its size
		case s.unpack <- struct{}{}:
			defer func() { <-s.unpack }()
		case <-ctx.Done():
			return nil, parley.Errorf(parley.CodeCancelled, "the import was cancelled while it waited for another")
		}
		a, err := archive.Read(bytes.NewReader(in.RawBody), int64(len(in.RawBody)), archive.Limits{Bytes: 8 * s.o.MaxImport})
		if err != nil {
			return nil, err
		}
		if in.App != "" {
			a.App = in.App
		}
		app, err := s.o.Engine.App(a.App)
		if wrong, ok := errors.AsType[*parley.Error](err); ok {
			return nil, wrong.WithField("app")
		}
		if err != nil {
			return nil, err
		}
		if err := a.FitInto(app); err != nil {
			return nil, err
		}
		a.Workspace, a.Key, a.Asked = in.Workspace, string(in.Key), asked
		return ok(s.o.Import(ctx, p, a))
	})
}

func (s *Server) export(ctx context.Context, p parley.Principal, in *SessionParam) (*huma.StreamResponse, error) {
	info, err := s.o.Engine.Session(ctx, p, in.ID)
	if err != nil {
		return nil, err
	}
	src := archive.Source{
		Info: info,
		// Up to the version that was read: if the session goes on during the export, its
		// files must still agree.
		Events: func() iter.Seq2[parley.Event, error] { return s.eventsTo(ctx, p, in.ID, info.Version) },
		Artifact: func(ctx context.Context, id parley.ArtifactID) ([]byte, error) {
			_, b, err := s.o.Engine.Artifact(ctx, p, id)
			return b, errors.Join(err, wire.Reserve(ctx, heldExport+len(b)))
		},
	}
	if s.o.Blobs != nil {
		src.Blob = func(ctx context.Context, d parley.Digest) ([]byte, error) { return s.o.Blobs.Blob(ctx, p, in.ID, d) }
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		err := reserveExport(r.Context())
		var leave func()
		if err == nil {
			leave, err = s.heavily(r.Context(), p)
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		slow := &heavyWriter{Writer: w, ctx: r.Context(), s: s, p: p, leave: leave}
		defer func() { slow.leave() }()
		out := bufio.NewWriterSize(slow, 64<<10)
		h := w.Header()
		h.Set("Content-Type", "application/zip")
		h.Set("Content-Disposition", disposition("session-"+string(in.ID)+".zip"))
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "private, no-store")
		if err = archive.Write(r.Context(), out, src); err == nil {
			err = out.Flush()
		}
		switch {
		case err == nil:
		case !slow.began: // an outage of the store, say, is answered like that of any request
			h.Del("Content-Disposition")
			h.Del("Content-Type")
			s.refuse(w, r, err)
		default:
			if r.Context().Err() == nil {
				s.o.Logger.ErrorContext(r.Context(), "export broke off", "session", in.ID, "error", err)
			}
			panic(http.ErrAbortHandler) // the client must not take half an archive for a whole one
		}
	}}, nil
}

func (s *Server) eventsTo(ctx context.Context, p parley.Principal, id parley.SessionID, last int64) iter.Seq2[parley.Event, error] {
	return func(yield func(parley.Event, error) bool) {
		at := int64(0)
		for e, err := range s.o.Reader.Whole(ctx, p, id, 0) {
			if !yield(e, err) || err != nil {
				return
			}
			if at = e.Seq; at == last {
				return
			}
		}
		yield(parley.Event{}, parley.Errorf(parley.CodeInternal, "session %s: the log ends at event %d before its version %d", id, at, last))
	}
}
