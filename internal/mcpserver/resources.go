package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

const (
	sessionURI  = "parley://sessions/"
	artifactURI = "parley://artifacts/"

	// maxResource bounds what is read at once: a host puts it before a model.
	maxResource = 4 << 20
	listed      = 50 // sessions whose logs are listed on one page
)

// resources registers the templates, and lists each user's own sessions.
func (a *App) resources() {
	for _, t := range []*mcp.ResourceTemplate{
		{Name: "session_events", Title: "Log of a session", URITemplate: sessionURI + "{session_id}/events", MIMEType: "application/x-ndjson", Description: "Every event of a session, one a line, from the beginning."},
		{Name: "session_events_after", Title: "Log of a session from a number on", URITemplate: sessionURI + "{session_id}/events?after={after}", MIMEType: "application/x-ndjson", Description: "The events after the one of that number."},
		{Name: "session_transcript", Title: "Transcript of a session", URITemplate: sessionURI + "{session_id}/transcript", MIMEType: "text/plain", Description: "What was said and done, to read."},
		{Name: "artifact", Title: "Artifact", URITemplate: artifactURI + "{artifact_id}", Description: "A large result that was kept aside."},
	} {
		a.server.AddResourceTemplate(t, a.read)
	}
	a.server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if p, ok := req.GetParams().(*mcp.ListResourcesParams); ok && method == "resources/list" {
				cursor := ""
				if p != nil {
					cursor, p.Cursor = p.Cursor, "" // it is ours, and not the server's below
				}
				res, err := next(ctx, method, req)
				if list, ok := res.(*mcp.ListResourcesResult); ok && err == nil {
					list.Resources, list.NextCursor, err = a.logs(ctx, cursor)
				}
				return res, err
			}
			return next(ctx, method, req)
		}
	})
}

// logs is a page of the sessions' logs, and the cursor of the next.
func (a *App) logs(ctx context.Context, cursor string) ([]*mcp.Resource, string, error) {
	after, err := seam.SessionCursor(cursor)
	if err != nil {
		return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: parley.Info(err).Message}
	}
	rows, next, err := a.o.Engine.SessionPage(ctx, who(ctx), seam.SessionQuery{App: a.app.Name, Limit: listed, After: after})
	if err != nil {
		return nil, "", refusal(err)
	}
	list := []*mcp.Resource{}
	for _, s := range rows {
		title := s.Title
		if title == "" {
			title = s.Preview
		}
		list = append(list, &mcp.Resource{
			URI: sessionURI + string(s.ID) + "/events", Name: "session_" + string(s.ID), Title: title, MIMEType: "application/x-ndjson",
			Description: fmt.Sprintf("Log of a session, %s, %d events", s.Status, s.Version),
		})
	}
	return list, next.Cursor(), nil
}

func (a *App) read(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	err := wire.Reserve(ctx, 2*maxResource) // what may be read, and its JSON
	var c *mcp.ResourceContents
	if err == nil {
		c, err = a.contents(ctx, who(ctx), req.Params.URI)
	}
	if err == nil {
		err = wire.Reserve(ctx, 2*(len(c.Text)+len(c.Blob)))
	}
	switch {
	case parley.CodeOf(err) == parley.CodeNotFound:
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	case err != nil:
		_ = a.logged(ctx, "resources/read", err)
		e := refusal(err)
		code := int64(jsonrpc.CodeInternalError)
		if e.info.Code == parley.CodeInvalid || e.info.Code == parley.CodeTooLarge {
			code = jsonrpc.CodeInvalidParams
		}
		return nil, &jsonrpc.Error{Code: code, Message: e.info.Message}
	}
	c.URI = req.Params.URI
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
}

func (a *App) contents(ctx context.Context, p parley.Principal, uri string) (*mcp.ResourceContents, error) {
	if id, ok := strings.CutPrefix(uri, artifactURI); ok {
		return a.artifact(ctx, p, parley.ArtifactID(id))
	}
	rest, ok := strings.CutPrefix(uri, sessionURI)
	name, what, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return nil, parley.ErrNotFound
	}
	what, query, _ := strings.Cut(what, "?")
	after := int64(0)
	if at, ok := strings.CutPrefix(query, "after="); ok {
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil || n < 0 {
			return nil, parley.Errorf(parley.CodeInvalid, "after is not the number of an event").WithField("after")
		}
		after = n
	}
	info, err := a.o.Engine.Session(ctx, p, parley.SessionID(name))
	if err != nil {
		return nil, err
	}
	if info.App != a.app.Name {
		return nil, parley.ErrNotFound
	}
	switch what {
	case "events":
		return a.events(ctx, p, info, after)
	case "transcript":
		return a.transcript(ctx, p, info)
	}
	return nil, parley.ErrNotFound
}

func (a *App) artifact(ctx context.Context, p parley.Principal, id parley.ArtifactID) (*mcp.ResourceContents, error) {
	art, body, err := a.o.Engine.Artifact(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if len(body) > maxResource {
		return nil, parley.Errorf(parley.CodeTooLarge, "artifact %s has %d bytes, but over MCP at most %d are allowed; all of it is at /v1/artifacts/%s", id, len(body), maxResource, id)
	}
	c := &mcp.ResourceContents{MIMEType: art.MediaType}
	if textual(art.MediaType) && utf8.Valid(body) {
		c.Text = string(body)
	} else {
		c.Blob = body
	}
	return c, nil
}

func textual(media string) bool {
	return strings.HasPrefix(media, "text/") || strings.HasPrefix(media, "application/json") || strings.HasSuffix(media, "+json")
}

// all gives every event after a number to f, until it says no.
func (a *App) all(ctx context.Context, p parley.Principal, id parley.SessionID, after int64, f func(parley.Event) bool) error {
	for {
		events, err := a.o.Reader.Read(ctx, p, id, after, 0)
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			if !f(e) {
				return nil
			}
			after = e.Seq
		}
	}
}

// events returns the log as lines. If it is too large for one read, the last line says where to
// continue.
func (a *App) events(ctx context.Context, p parley.Principal, info parley.SessionInfo, after int64) (*mcp.ResourceContents, error) {
	var out []byte
	err := a.all(ctx, p, info.ID, after, func(e parley.Event) bool {
		if len(out) > maxResource {
			more, _ := json.Marshal(map[string]string{"more": sessionURI + string(info.ID) + "/events?after=" + strconv.FormatInt(after, 10)}) // plain data
			out = append(append(out, more...), '\n')
			return false
		}
		out = append(e.AppendJSON(out), '\n')
		after = e.Seq
		return true
	})
	return &mcp.ResourceContents{MIMEType: "application/x-ndjson", Text: string(out)}, err
}

func (a *App) transcript(ctx context.Context, p parley.Principal, info parley.SessionInfo) (*mcp.ResourceContents, error) {
	var v parley.Transcript
	size := 0
	err := a.all(ctx, p, info.ID, 0, func(e parley.Event) bool {
		v.Apply(e)
		size += len(e.Data)
		return size <= 4*maxResource // of data that is mostly not shown
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if v.Title != "" {
		fmt.Fprintf(&b, "# %s\n\n", v.Title)
	}
	for _, t := range v.Turns {
		if t.Rewound != 0 {
			continue
		}
		fmt.Fprintf(&b, "## %s\n\n", strings.TrimSpace(t.Message))
		for _, s := range t.Steps {
			switch s.Type {
			case parley.StepToolCall:
				fmt.Fprintf(&b, "- %s calls %s %s\n", s.Agent, s.Tool, parley.Cut(string(s.Input), 300))
			case parley.StepToolResult:
				fmt.Fprintf(&b, "  %s: %s\n", s.Outcome, parley.Cut(s.Result, 300))
			case parley.StepHandoff:
				fmt.Fprintf(&b, "- %s hands over to %s\n", s.From, s.To)
			case parley.StepNote:
				fmt.Fprintf(&b, "- %s\n", s.Text)
			}
		}
		fmt.Fprintf(&b, "\n[%s]", t.Status)
		if t.Answer != "" {
			fmt.Fprintf(&b, " %s", t.Answer)
		}
		if t.Error != nil {
			fmt.Fprintf(&b, " %s", t.Error.Message)
		}
		b.WriteString("\n\n")
	}
	if size > 4*maxResource {
		b.WriteString("[the rest is left out: the log has it]\n")
	}
	return &mcp.ResourceContents{MIMEType: "text/plain", Text: b.String()}, nil
}
