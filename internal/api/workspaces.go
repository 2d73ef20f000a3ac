package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/userfiles"
)

// A workspace's name and a file's path have slashes, so they are query parameters.

// WorkspaceParam is exported for the same reason as SessionParam.
type WorkspaceParam struct {
	App       string           `query:"app" required:"true" maxLength:"64" doc:"The app's name."`
	Workspace parley.Workspace `query:"workspace" required:"true" maxLength:"80" doc:"The workspace's name, such as vault or shared/handbook."`
}

// FileParam names a file of a workspace.
type FileParam struct {
	WorkspaceParam
	Path string `query:"path" required:"true" maxLength:"1024" doc:"The path in the workspace, with slashes."`
}

type workspacesInput struct {
	App string `query:"app" maxLength:"64" doc:"Only workspaces of this app."`
}

type workspaceList struct {
	Workspaces []parley.WorkspaceInfo `json:"workspaces" nullable:"false"`
}

type makeWorkspaceInput struct{ Body parley.CreateWorkspace }

type treeInput struct {
	WorkspaceParam
	Path    string `query:"path" maxLength:"1024" doc:"The folder; the whole workspace when not given."`
	Depth   int    `query:"depth" minimum:"1" maximum:"64" doc:"How deep: 1, the default, is what is in the folder itself."`
	After   string `query:"after" maxLength:"1024" doc:"What next says on the page before."`
	Limit   int    `query:"limit" minimum:"1" maximum:"2000" doc:"At most so many entries; 500 when not given."`
	Ignored bool   `query:"ignored" doc:"Also list what .gitignore and .ignore files name, and what is hidden by a dot; ignored marks these."`
}

type readFileInput struct {
	FileParam
	Line  int `query:"line" minimum:"1" doc:"The first line of the text; 1 when not given."`
	Lines int `query:"lines" minimum:"1" doc:"How many lines; all when not given."`
}

type contentInput struct {
	FileParam
	Inline bool `query:"inline" doc:"Let a browser show it, if it is a picture, sound, video, PDF or plain text. Otherwise it is a file to save."`
}

type historyInput struct {
	FileParam
	After string `query:"after" maxLength:"64" doc:"What next says on the page before."`
	Limit int    `query:"limit" minimum:"1" maximum:"200" doc:"At most so many; 50 when not given."`
}

type backlinksInput struct{ FileParam }

type versionInput struct {
	FileParam
	Line  int    `query:"line" minimum:"1" doc:"The first line of the text; 1 when not given."`
	Lines int    `query:"lines" minimum:"1" doc:"How many lines; all when not given."`
	ID    string `query:"id" required:"true" maxLength:"64" doc:"The version's id in the history."`
}

type writeFileInput struct {
	FileParam
	Body parley.WriteFile
}

type writtenFile struct {
	Status int
	Body   parley.FileInfo
}

type deleteFileInput struct {
	FileParam
	Version parley.Digest `query:"version" maxLength:"64" doc:"The version that is deleted; of an empty folder, none."`
}

type moveFileInput struct {
	FileParam
	Body parley.MoveFile
}

const (
	maxTreeBytes = 512 << 10 // about the most bytes of a page of a tree
	// maxWriteBody is the most bytes of a write: a file of [userfiles.MaxWrite] in base64.
	maxWriteBody = userfiles.MaxWrite/3*4 + 4<<10

	filePath = "/v1/workspaces/file"

	// maxWrites limits the large writes that are received at once, which are in memory;
	// maxUserWrites is the share of one user.
	maxWrites     = 8
	maxUserWrites = 2
	largeWrite    = 256 << 10
)

// writing refuses a large write before its body is read, if enough are being received.
func (s *Server) writing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := s.o.Principal(r.Context())
		if err != nil || r.ContentLength >= 0 && r.ContentLength <= largeWrite {
			next(w, r) // which reports an error
			return
		}
		done, mine, all := s.writes.enter(p)
		switch {
		case mine:
			err = parley.Errorf(parley.CodeRateLimited, "%d large files of yours are being written", maxUserWrites).WithHint("write one after the other").WithRetry(time.Second)
		case all:
			err = parley.Errorf(parley.CodeUnavailable, "%d large files are being written, which is this server's limit", maxWrites).WithHint("try again in a moment").WithRetry(time.Second)
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		defer done()
		next(w, r)
	}
}

// at is a workspace, and who asks.
func (s *Server) at(ctx context.Context, p parley.Principal, in WorkspaceParam) userfiles.At {
	return userfiles.At{Principal: p, App: in.App, Workspace: in.Workspace, Page: s.o.Only != nil && s.o.Only(ctx) != ""}
}

func (s *Server) workspaceRoutes() {
	f := s.o.Files
	if f == nil {
		return
	}
	tags := []string{"workspaces"}
	route(s, huma.Operation{
		OperationID: "list-workspaces", Method: http.MethodGet, Path: "/v1/workspaces", Tags: tags, Summary: "List the workspaces that you may work in",
		Description: "By app: your own, those that the app shares, and those that are granted to you. Files in a read-only one are not changed.",
	}, func(_ context.Context, p parley.Principal, in *workspacesInput) (*body[workspaceList], error) {
		list, err := f.Workspaces(p, in.App)
		return ok(workspaceList{some(list)}, err)
	})
	route(s, huma.Operation{
		OperationID: "create-workspace", Method: http.MethodPost, Path: "/v1/workspaces", Tags: tags, DefaultStatus: http.StatusCreated, Summary: "Make a workspace of your own",
		Description: "It is empty. A name that there is already is a conflict (409).",
	}, func(ctx context.Context, p parley.Principal, in *makeWorkspaceInput) (*body[parley.WorkspaceInfo], error) {
		return ok(f.Make(s.at(ctx, p, WorkspaceParam{in.Body.App, in.Body.Name})))
	})
	route(s, huma.Operation{
		OperationID: "list-files", Method: http.MethodGet, Path: "/v1/workspaces/tree", Tags: tags, Summary: "List the files and folders of a workspace",
		Description: "A folder comes right before what is in it; within a folder, entries are in the order of the bytes of their names. Links are listed and never followed. What belongs to git is left out. " +
			"A page may end before limit; next is there if there is more.",
	}, func(ctx context.Context, p parley.Principal, in *treeInput) (*body[parley.FileTree], error) {
		t, err := f.Tree(ctx, s.at(ctx, p, in.WorkspaceParam), in.Path, files.List{
			Depth: orElse(in.Depth, 1), After: in.After, Ignored: in.Ignored, Most: orElse(in.Limit, 500), Bytes: maxTreeBytes,
		})
		t.Entries = some(t.Entries)
		return ok(t, err)
	})
	route(s, huma.Operation{
		OperationID: "read-file", Method: http.MethodGet, Path: filePath, Tags: tags, Summary: "Read a text file, and the version of any file",
		Description: "The text is whole lines, at most 1 MiB; next_line says where to go on. text is missing if the file is not text in UTF-8: its content is at /v1/workspaces/content.",
	}, func(ctx context.Context, p parley.Principal, in *readFileInput) (*body[parley.FileContent], error) {
		return ok(f.Read(s.at(ctx, p, in.WorkspaceParam), in.Path, in.Line, in.Lines))
	})
	route(s, huma.Operation{
		OperationID: "write-file", Method: http.MethodPut, Path: filePath, Tags: tags, MaxBodyBytes: maxWriteBody, Summary: "Write a file",
		Description: "Give its text, or its bytes in base64, of at most 8 MiB, and the version that the new content is based on. Without a version there must be no such file yet; its folders are made. " +
			"When the file has another version, nothing is written: the conflict (409) says in current which one it has, or nothing if the file is gone. Writing what it already has succeeds.",
		Responses: map[string]*huma.Response{
			"200": {Description: "It was replaced", Content: map[string]*huma.MediaType{"application/json": {Schema: s.schema(parley.FileInfo{})}}},
			"201": {Description: "It was made", Content: map[string]*huma.MediaType{"application/json": {Schema: s.schema(parley.FileInfo{})}}},
		},
	}, func(ctx context.Context, p parley.Principal, in *writeFileInput) (*writtenFile, error) {
		content := in.Body.Base64
		switch {
		case in.Body.Text != nil && content != nil:
			return nil, invalid("text", "the file has a text and bytes").WithHint("send one of text and base64")
		case in.Body.Text != nil:
			content = []byte(*in.Body.Text)
		case content == nil:
			return nil, invalid("text", "the file has neither a text nor bytes").WithHint("send text, which may be empty, or base64")
		}
		info, made, err := f.Write(s.at(ctx, p, in.WorkspaceParam), in.Path, content, in.Body.Version)
		if err != nil {
			return nil, err
		}
		out := &writtenFile{http.StatusOK, info}
		if made {
			out.Status = http.StatusCreated
		}
		return out, nil
	})
	route(s, huma.Operation{
		OperationID: "delete-file", Method: http.MethodDelete, Path: filePath, Tags: tags, DefaultStatus: http.StatusNoContent, Summary: "Delete a file or an empty folder",
		Description: "A file that has another version is not deleted: the conflict (409) says in current which one it has.",
	}, func(ctx context.Context, p parley.Principal, in *deleteFileInput) (*struct{}, error) {
		return nil, f.Delete(s.at(ctx, p, in.WorkspaceParam), in.Path, in.Version)
	})
	route(s, huma.Operation{
		OperationID: "move-file", Method: http.MethodPost, Path: filePath + "/move", Tags: tags, Summary: "Give a file another path",
		Description: "There must be no file at the new path; its folders are made. A file that has another version is not moved: the conflict (409) says in current which one it has.",
	}, func(ctx context.Context, p parley.Principal, in *moveFileInput) (*body[parley.FileInfo], error) {
		return ok(f.Move(s.at(ctx, p, in.WorkspaceParam), in.Path, in.Body.To, in.Body.Version))
	})
	route(s, huma.Operation{
		OperationID: "list-file-versions", Method: http.MethodGet, Path: "/v1/workspaces/history", Tags: tags, Summary: "List the versions of a file, the newest first",
		Description: "Where the workspace is in a git repository, these are the commits of its branch that changed the file. Elsewhere they are the changes by your own sessions. The file need not exist any more.",
	}, func(ctx context.Context, p parley.Principal, in *historyInput) (*body[parley.FileHistory], error) {
		h, err := inTurn(ctx, s, p, func() (parley.FileHistory, error) {
			return f.History(ctx, s.at(ctx, p, in.WorkspaceParam), in.Path, in.After, orElse(in.Limit, 50))
		})
		h.Versions = some(h.Versions)
		return ok(h, err)
	})
	route(s, huma.Operation{
		OperationID: "list-backlinks", Method: http.MethodGet, Path: "/v1/workspaces/backlinks", Tags: tags, Summary: "List the notes that link to a file",
		Description: "Each line of a Markdown file with a link to it: relative to the note, or as wikis do, [[by its name]]. Links in code and hidden or ignored notes do not count. " +
			"At most 200 lines, of notes of at most 1 MiB each and 64 MiB together, and what can be read in 5 s; partial says if there may be more.",
	}, func(ctx context.Context, p parley.Principal, in *backlinksInput) (*body[parley.Backlinks], error) {
		return ok(inTurn(ctx, s, p, func() (parley.Backlinks, error) {
			return f.Backlinks(ctx, s.at(ctx, p, in.WorkspaceParam), in.Path)
		}))
	})
	route(s, huma.Operation{
		OperationID: "read-file-version", Method: http.MethodGet, Path: "/v1/workspaces/history/file", Tags: tags, Summary: "Read a version of a text file",
		Description: "As read-file does. What sessions have written is kept for as long as they exist, and up to a limit.",
	}, func(ctx context.Context, p parley.Principal, in *versionInput) (*body[parley.FileContent], error) {
		return ok(inTurn(ctx, s, p, func() (parley.FileContent, error) {
			return f.Version(ctx, s.at(ctx, p, in.WorkspaceParam), in.Path, in.ID, in.Line, in.Lines)
		}))
	})
	binary := map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	route(s, huma.Operation{
		OperationID: "get-file-content", Method: http.MethodGet, Path: "/v1/workspaces/content", Tags: tags, Summary: "Download a file",
		Description: "Its bytes as they are, or those that Range asks for. The ETag is the version. Text is sent as text/plain, whatever the file's name says.",
		Responses: map[string]*huma.Response{
			"200": {Description: "Its bytes", Content: binary},
			"206": {Description: "The bytes that Range asks for", Content: binary},
			"304": {Description: "If-None-Match names its version"},
			"412": {Description: "If-Match names another version"},
			"416": {Ref: "#/components/responses/" + refusals[http.StatusRequestedRangeNotSatisfiable].name},
		},
	}, s.fileContent)
}

// fileContent sends a file's bytes. A browser saves them or shows them, and runs nothing of them as
// part of our origin.
func (s *Server) fileContent(ctx context.Context, p parley.Principal, in *contentInput) (*huma.StreamResponse, error) {
	file, info, err := s.o.Files.Content(s.at(ctx, p, in.WorkspaceParam), in.Path)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer file.Close() //nolint:errcheck // nothing was written
		r, w := humago.Unwrap(hc)
		h := w.Header()
		h.Set("Content-Type", info.MediaType)
		if !in.Inline || info.MediaType == "application/octet-stream" {
			h.Set("Content-Disposition", disposition(info.Path))
		}
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin") // or any page could see as a picture whether there is such a file
		h.Set("Cache-Control", "private, no-cache")
		modified := info.Modified
		if info.Version != "" {
			h.Set("ETag", `"`+string(info.Version)+`"`)
			modified = time.Time{} // a file may change twice within the second that Last-Modified has
		}
		http.ServeContent(&rangeWriter{ResponseWriter: w}, r, "", modified, file)
	}}, nil
}

// rangeWriter says in our own shape that a range cannot be had.
type rangeWriter struct {
	http.ResponseWriter
	refused bool
}

func (w *rangeWriter) WriteHeader(status int) {
	if status != http.StatusRequestedRangeNotSatisfiable {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.refused = true
	size := strings.TrimPrefix(w.Header().Get("Content-Range"), "bytes */")
	for _, name := range []string{"Content-Disposition", "Content-Length", "ETag"} {
		w.Header().Del(name)
	}
	e := parley.Errorf(parley.CodeInvalid, "the file has no such range of bytes").WithField("Range")
	if _, err := strconv.Atoi(size); err == nil {
		e = e.WithHint("the file has %s bytes", size)
	}
	writeStatus(w.ResponseWriter, status, problem(e))
}

func (w *rangeWriter) Write(b []byte) (int, error) {
	if w.refused {
		return len(b), nil // http's own text
	}
	return w.ResponseWriter.Write(b)
}

func (in WorkspaceParam) of(context.Context, Engine, parley.Principal) (string, error) {
	return in.App, nil
}

func (in workspacesInput) of(context.Context, Engine, parley.Principal) (string, error) {
	return in.App, nil
}

func (in makeWorkspaceInput) of(context.Context, Engine, parley.Principal) (string, error) {
	return in.Body.App, nil
}
