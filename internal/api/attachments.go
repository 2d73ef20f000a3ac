package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
)

const attachPath = "/v1/sessions/{id}/attachments"

type attachInput struct {
	SessionParam
	Name    string `query:"name" maxLength:"1000" doc:"The file's name, for people. Its kind follows from its content."`
	RawBody []byte `contentType:"application/octet-stream" required:"true"`
}

func (s *Server) attachmentRoutes() {
	e := s.o.Engine
	route(s, huma.Operation{
		OperationID: "attach-file", Method: http.MethodPost, Path: attachPath, Tags: []string{"sessions"}, DefaultStatus: http.StatusCreated, MaxBodyBytes: parley.MaxAttachment + 1,
		Summary: "Give a file to a session, to attach it to messages",
		Description: "The body is the file, of at most 20 MiB; a session takes 200 MiB. A message has it when it names its id in attachments. Models read the text of text files in any character set, Markdown, HTML, PDF, Word (.docx), Excel (.xlsx), CSV and TSV, " +
			"and see images if they can. unread says why a file could not be read; it can be attached all the same, and the model is told. A file that the session has already is returned again. An upload that is cut off leaves nothing.",
	}, func(ctx context.Context, p parley.Principal, in *attachInput) (*body[parley.Attachment], error) {
		return ok(e.Attach(ctx, p, in.ID, in.Name, in.RawBody))
	})
}
