package api

import (
	"context"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

// InteractionParam: as SessionParam.
type InteractionParam struct {
	ID parley.InteractionID `path:"id" maxLength:"64" doc:"The interaction."`
}

type inboxInput struct {
	Limit int `query:"limit" minimum:"1" maximum:"500" doc:"At most so many; 50 when not given."`
	CursorParam
}

type inbox struct {
	Interactions []seam.InteractionRow `json:"interactions" nullable:"false"`
	Next         string                `json:"next,omitempty" doc:"The cursor of the next page; left out on the last. Whatever of this page has been answered or deleted by then, it goes on behind it."`
}

type claimInput struct {
	InteractionParam
	Body *parley.ClaimCall
}

type reportInput struct {
	InteractionParam
	Body parley.ReportCall
}

type answerInput struct {
	InteractionParam
	Body parley.AnswerInteraction
}

// maxReport limits a report with its files in base64, in bytes.
const maxReport = 12 << 20

// maxArtifact is the most bytes an artifact may have, since it is read whole.
const maxArtifact = 16 << 20

type artifactInput struct {
	ID     parley.ArtifactID `path:"id" maxLength:"64" doc:"The artifact."`
	Inline bool              `query:"inline" doc:"Allow a frame in Parley's own pages to show it, if it is HTML. It runs no scripts there and loads nothing."`
}

func (s *Server) interactionRoutes() {
	e := s.o.Engine
	tags := []string{"interactions"}
	route(s, huma.Operation{
		OperationID: "list-interactions", Method: http.MethodGet, Path: "/v1/interactions", Tags: tags,
		Summary:     "List what waits for an answer, over all sessions, the oldest first",
		Description: "Questions, permissions and confirmations that your turns wait for, and calls that are offered to clients.",
	}, func(ctx context.Context, p parley.Principal, in *inboxInput) (*body[inbox], error) {
		from, err := seam.InteractionCursor(in.Cursor)
		if err != nil {
			return nil, err
		}
		list, next, err := e.Inbox(ctx, p, from, orElse(in.Limit, 50))
		return ok(inbox{some(list), next.Cursor()}, err)
	})
	route(s, huma.Operation{
		OperationID: "get-interaction", Method: http.MethodGet, Path: "/v1/interactions/{id}", Tags: tags, Summary: "Read an interaction",
		Description: "This also works after it was answered, and shows the answer.",
	}, func(ctx context.Context, p parley.Principal, in *InteractionParam) (*body[seam.InteractionRow], error) {
		return ok(e.Interaction(ctx, p, in.ID))
	})
	route(s, huma.Operation{
		OperationID: "answer-interaction", Method: http.MethodPost, Path: "/v1/interactions/{id}/answer", Tags: tags, Summary: "Answer",
		Description: "The first answer wins. Repeating the same answer as the same user gives the same result; a different answer is a conflict (409).",
	}, func(ctx context.Context, p parley.Principal, in *answerInput) (*body[seam.InteractionRow], error) {
		a := in.Body
		if a.Choice == "" {
			return nil, invalid("choice", "the answer has no choice").WithHint("the interaction lists its choices")
		}
		a.Client = clientName
		return ok(e.Answer(ctx, p, in.ID, a))
	})
	route(s, huma.Operation{
		OperationID: "claim-call", Method: http.MethodPost, Path: "/v1/interactions/{id}/claim", Tags: tags, Summary: "Claim a call that is offered to clients",
		Description: "For interactions of kind client. Only one claim succeeds; any other is a conflict (409). The answer has the token that the report needs, and its deadline. " +
			"A claim with a token of your own can be repeated if its answer was lost. After the deadline a call that may be repeated is offered again, as another interaction. For any other call, a person is asked whether it took effect.",
	}, func(ctx context.Context, p parley.Principal, in *claimInput) (*body[parley.Claimed], error) {
		c := parley.ClaimCall{}
		if in.Body != nil {
			c = *in.Body
		}
		c.Client = clientName
		return ok(e.Claim(ctx, p, in.ID, c))
	})
	route(s, huma.Operation{
		OperationID: "report-call", Method: http.MethodPost, Path: "/v1/interactions/{id}/report", Tags: tags, Summary: "Report the outcome of a call that you have claimed",
		Description:  "Repeating the same report gets the same answer, even after the turn has ended. A different report is a conflict (409), and so is a report after the deadline. The report is also accepted after a restart of the server.",
		MaxBodyBytes: maxReport,
	}, func(ctx context.Context, p parley.Principal, in *reportInput) (*body[parley.ToolResult], error) {
		return ok(e.Report(ctx, p, in.ID, in.Body))
	})
	route(s, huma.Operation{
		OperationID: "get-artifact", Method: http.MethodGet, Path: "/v1/artifacts/{id}", Tags: []string{"artifacts"}, Summary: "Download an artifact",
		Description: "A large result that is stored separately. It is always sent as a file to save.",
		Responses: map[string]*huma.Response{
			"200": {Description: "Its bytes, with its own media type", Content: map[string]*huma.MediaType{
				"*/*": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
			}},
			"304": {Description: "If-None-Match names what it is"},
		},
	}, s.artifact)
}

// artifact sends bytes that a tool produced. A browser must save them as a file and never
// run them as part of our origin.
func (s *Server) artifact(ctx context.Context, p parley.Principal, in *artifactInput) (*huma.StreamResponse, error) {
	a, bytes, err := s.o.Engine.Artifact(ctx, p, in.ID)
	if err == nil {
		err = wire.Reserve(ctx, len(bytes))
	}
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		h := w.Header()
		h.Set("Content-Type", mediaType(a.MediaType))
		h.Set("Content-Disposition", disposition(a.Name))
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
		if kind, _, _ := strings.Cut(mediaType(a.MediaType), ";"); in.Inline && kind == "text/html" {
			h.Del("Content-Disposition")
			h.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'self'")
		}
		h.Set("Cache-Control", "private, no-cache")
		etag := `"` + string(a.SHA256) + `"`
		h.Set("ETag", etag)
		if a.SHA256 != "" && r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Length", strconv.Itoa(len(bytes)))
		w.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			_, _ = w.Write(bytes)
		}
	}}, nil
}

// mediaType is the artifact's declared media type, if well formed.
func mediaType(t string) string {
	kind, params, err := mime.ParseMediaType(t)
	if err != nil || !strings.Contains(kind, "/") {
		return "application/octet-stream"
	}
	return mime.FormatMediaType(kind, params)
}

// disposition names the file without letting its name break the header: a plain form for
// all clients, and the real name encoded as in RFC 8187.
func disposition(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	if name == "" {
		name = "artifact"
	}
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' {
			return '_'
		}
		return r
	}, name)
	out := `attachment; filename="` + plain + `"`
	if plain != name {
		out += `; filename*=UTF-8''` + percent(name)
	}
	return out
}

func percent(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}
