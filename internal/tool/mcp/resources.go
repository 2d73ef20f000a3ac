//go:build unix

package mcp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	maxResources = 500       // of a server, including templates, that are listed
	maxListed    = 256 << 10 // bytes of them
	maxContents  = 20        // pieces of a resource
	// listedFor is how long a list is used. A server of the newer era, or one that reports changes,
	// may make it shorter.
	listedFor       = 30 * time.Second
	resourceTimeout = 10 * time.Second // of a list
	// codeNoResource is the error code of servers of the older era for a resource that does not
	// exist.
	codeNoResource = -32002
)

// offers are the resources that the server listed last.
type offers struct {
	asked  chan struct{} // holding it permits using the other fields
	list   []parley.Resource
	cut    bool
	at     time.Time
	change int64 // the count of changes that list includes
}

// ResourceServers implements [seam.ResourceKeeper].
func (t *Toolset) ResourceServers() []seam.ResourceServer { return []seam.ResourceServer{t.core} }

// ServerName implements [seam.ResourceServer].
func (c *core) ServerName() (name, short string) { return c.o.Name, c.o.Short }

// Resources implements [seam.ResourceServer]. It starts the server.
func (c *core) Resources(ctx context.Context) (list []parley.Resource, cut bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, resourceTimeout, fmt.Errorf("it did not answer within %s", resourceTimeout))
	defer cancel()
	o := &c.offers
	select { // one list at a time; a caller that waits gets the same list
	case o.asked <- struct{}{}:
		defer func() { <-o.asked }()
	case <-ctx.Done():
		return nil, false, c.unread(ctx, "does not list its resources", context.Cause(ctx))
	}
	changes := c.server.restocked.Load()
	if o.list != nil && o.change == changes && time.Since(o.at) < listedFor {
		return o.list, o.cut, nil
	}
	l, leave, err := c.server.use(ctx, nil)
	if errors.Is(err, errLogin) {
		return nil, false, c.toLogIn(ctx)
	}
	if err != nil {
		return nil, false, err
	}
	defer leave()
	if list, cut, err = l.resources(ctx); err != nil {
		if err = l.explain(err); errors.Is(err, errLogin) {
			return nil, false, c.toLogIn(ctx)
		}
		return nil, false, c.unread(ctx, "does not list its resources", err)
	}
	l.server.worked(l)
	o.list, o.cut, o.at, o.change = list, cut, time.Now(), changes
	return list, cut, nil
}

// unread is the error for a list or resource that the server did not return.
func (c *core) unread(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	code := parley.CodeTool
	if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		code = parley.CodeTimeout
	}
	return parley.Errorf(code, "the MCP server %s %s: %s", c.o.Name, what, c.o.clean(err.Error(), maxShown))
}

// resources asks the server for its resources and templates.
func (l *link) resources(ctx context.Context) (list []parley.Resource, cut bool, err error) {
	list = []parley.Resource{}
	if init := l.session.InitializeResult(); init == nil || init.Capabilities == nil || init.Capabilities.Resources == nil {
		return list, false, nil
	}
	o, size := l.server.o, 0
	seen := map[string]bool{}
	add := func(r parley.Resource) bool {
		switch {
		case seen[r.URI] || parley.ResourceRef{Server: o.Name, URI: r.URI}.Check() != nil || o.clean(r.URI, parley.MaxURI) != r.URI:
			return true // it could not be attached
		case len(list) == maxResources || size > maxListed:
			cut = true
			return false
		}
		r.Server = o.Name
		r.Name, r.Description, r.MediaType = parley.Cut(o.clean(r.Name, 200), 100), parley.Cut(o.clean(r.Description, maxShown), 300), o.clean(r.MediaType, 100)
		r.Size = max(r.Size, 0)
		size += len(r.URI) + len(r.Name) + len(r.Description) + 100
		seen[r.URI] = true
		list = append(list, r)
		return true
	}
	err = pages(func(cursor string) (next string, more bool, err error) {
		r := &reading{key: cursor}
		_, err = l.session.ListResources(context.WithValue(ctx, readingKey{}, r), &sdk.ListResourcesParams{})
		page, ok := r.res.(*sdk.ListResourcesResult)
		if err != nil || !ok {
			return "", false, err
		}
		for _, r := range page.Resources {
			if r != nil && !add(parley.Resource{URI: r.URI, Name: cmp.Or(r.Title, r.Name), Description: r.Description, MediaType: r.MIMEType, Size: r.Size}) {
				return "", false, nil
			}
		}
		return page.NextCursor, true, nil
	})
	if err == nil && !cut {
		err = pages(func(cursor string) (next string, more bool, err error) {
			r := &reading{key: cursor}
			_, err = l.session.ListResourceTemplates(context.WithValue(ctx, readingKey{}, r), &sdk.ListResourceTemplatesParams{})
			if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code == jsonrpc.CodeMethodNotFound {
				return "", false, nil // many servers have resources and no templates
			}
			page, ok := r.res.(*sdk.ListResourceTemplatesResult)
			if err != nil || !ok {
				return "", false, err
			}
			for _, r := range page.ResourceTemplates {
				if r != nil && !add(parley.Resource{URI: r.URITemplate, Template: true, Name: cmp.Or(r.Title, r.Name), Description: r.Description, MediaType: r.MIMEType}) {
					return "", false, nil
				}
			}
			return page.NextCursor, true, nil
		})
	}
	slices.SortFunc(list, func(a, b parley.Resource) int { return strings.Compare(a.URI, b.URI) })
	return list, cut, err
}

// pages reads a list page by page.
func pages(page func(cursor string) (next string, more bool, err error)) error {
	next := ""
	for range maxPages {
		n, more, err := page(next)
		if err != nil || !more || n == "" {
			return err
		}
		next = n
	}
	return nil
}

// Read implements [seam.ResourceServer]. It starts the server.
func (c *core) Read(ctx context.Context, r seam.Reading) ([]seam.ResourceContent, error) {
	const what = "does not return the resource"
	leave, err := c.turns.Enter(ctx, r.Principal)
	if err != nil {
		return nil, c.unread(ctx, what, fmt.Errorf("too many calls of it are under way: %w", err))
	}
	defer leave()
	for again := false; ; again = true {
		l, done, err := (&Toolset{core: c}).link(ctx, seam.Run{Principal: r.Principal, Credential: r.Credential})
		if err != nil {
			return nil, c.unstarted(err)
		}
		tokens, trip := c.o.tokens(ctx), &trip{}
		res, err := l.read(context.WithValue(ctx, tripKey{}, trip), r.URI)
		done()
		switch {
		case err == nil:
			l.server.worked(l)
			return c.contents(r.URI, res, append(tokens, c.o.tokens(ctx)...)) // the tokens may have been renewed meanwhile
		case !again && ctx.Err() == nil && (errors.Is(err, sdk.ErrSessionMissing) || errors.Is(err, sdk.ErrConnectionClosed) || l.gone()):
			l.server.drop(l) // the server ended, or forgot the connection, between two calls
		default:
			return nil, c.refused(ctx, l, trip, r.URI, err)
		}
	}
}

// refused is the error for a resource that was not read.
func (c *core) refused(ctx context.Context, l *link, trip *trip, uri string, err error) error {
	e, answered := errors.AsType[*jsonrpc.Error](err)
	answered = answered && e.Code != codeRejected
	switch {
	case trip.lacking.Load() || errors.Is(l.explain(err), errLogin):
		return c.noLogin()
	case answered && (e.Code == codeNoResource || e.Code == jsonrpc.CodeInvalidParams):
		l.server.worked(l)
		return parley.Errorf(parley.CodeInvalid, "the MCP server %s has no resource %s: %s", c.o.Name, c.o.clean(uri, 300), c.o.clean(e.Message, 300)).
			WithHint("choose one from the list of resources, or leave it out")
	case answered && e.Code == codeTooLarge:
		l.server.worked(l)
		return parley.Errorf(parley.CodeTooLarge, "the resource %s of the MCP server %s is too large: %s", c.o.clean(uri, 300), c.o.Name, c.o.clean(e.Message, 300)).
			WithHint("leave it out, or attach a smaller part of it")
	case errors.Is(err, errTooLarge): // whether it was this answer is not known
		return parley.Errorf(parley.CodeTool, "the MCP server %s does not return the resource %s: %w", c.o.Name, c.o.clean(uri, 300), errTooLarge).
			WithHint("if this resource is so large, leave it out; otherwise try again")
	case answered:
		l.server.worked(l)
		return parley.Errorf(parley.CodeTool, "the MCP server %s does not return the resource %s: %s", c.o.Name, c.o.clean(uri, 300), c.o.clean(e.Message, 300)).
			WithHint("leave it out, or try again later")
	case l.gone():
		err = l.explain(err)
	}
	return c.unread(ctx, "does not return the resource "+c.o.clean(uri, 300), err)
}

// unstarted is the error of a reading for a server that could not be started. No login is asked
// for here.
func (c *core) unstarted(err error) error {
	if errors.Is(err, errLogin) {
		return c.noLogin()
	}
	return err
}

// noLogin is the error for a missing login, with a hint what to do. It is not CodeUnauthenticated,
// because that concerns the caller of Parley.
func (c *core) noLogin() error {
	if c.o.Login == nil {
		info := parley.Info(c.o.loginError())
		return parley.Errorf(parley.CodeForbidden, "%s", info.Message).WithHint("%s", info.Hint)
	}
	return parley.Errorf(parley.CodeForbidden, "your login does not let you read resources of the MCP server %s", c.o.Name).
		WithHint("log in there and try again: the list of resources has the link, and a message that asks for something from %s shows it, too", c.o.Name)
}

// toLogIn is the error for a list that needs a login, with the link where the person logs in.
func (c *core) toLogIn(ctx context.Context) error {
	if c.o.Login == nil {
		return c.noLogin()
	}
	link, err := c.o.Login.Needed(ctx, "")
	switch {
	case err != nil:
		return c.unread(ctx, "does not list its resources", err)
	case link == "": // the login does not cover its resources, or was made this moment
		return c.noLogin()
	}
	return &seam.LoginError{Link: link, Err: parley.Errorf(parley.CodeForbidden, "you are not logged in at the MCP server %s", c.o.Name).
		WithHint("log in there, and its resources are listed")}
}

// reading is a request and its answer, passed through the context. Otherwise the SDK would keep
// every page and every resource for as long as the connection lasts.
type reading struct {
	key string // a cursor or URI
	res sdk.Result
}

type readingKey struct{}

// uncached passes an answer to the caller through its reading, and returns an empty one to the SDK.
func uncached(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, q sdk.Request) (sdk.Result, error) {
		r, ok := ctx.Value(readingKey{}).(*reading)
		if !ok {
			return next(ctx, method, q)
		}
		var key *string
		var empty sdk.Result
		switch p := q.GetParams().(type) {
		case *sdk.ReadResourceParams:
			key, empty = &p.URI, &sdk.ReadResourceResult{}
		case *sdk.ListResourcesParams:
			key, empty = &p.Cursor, &sdk.ListResourcesResult{}
		case *sdk.ListResourceTemplatesParams:
			key, empty = &p.Cursor, &sdk.ListResourceTemplatesResult{}
		default:
			return next(ctx, method, q)
		}
		*key = r.key
		res, err := next(ctx, method, q)
		if *key = ""; err != nil {
			return nil, err
		}
		r.res = res
		return empty, nil
	}
}

// read reads a resource. If the server asks for input, that is an error.
func (l *link) read(ctx context.Context, uri string) (*sdk.ReadResourceResult, error) {
	ctx, leave, err := l.enterForNobody(ctx)
	if err != nil {
		return nil, err
	}
	r := &reading{key: uri}
	_, err = l.session.ReadResource(context.WithValue(ctx, readingKey{}, r), &sdk.ReadResourceParams{})
	leave(err)
	if err != nil {
		return nil, err
	}
	res, ok := r.res.(*sdk.ReadResourceResult)
	if !ok || res.NeedsInput() {
		return nil, errors.New("it asks for input, which is not supported for resources")
	}
	return res, nil
}

// contents returns the pieces of a resource, without the given secrets.
func (c *core) contents(uri string, res *sdk.ReadResourceResult, secrets []string) (list []seam.ResourceContent, err error) {
	if len(res.Contents) > maxContents {
		return nil, parley.Errorf(parley.CodeTooLarge, "the resource %s has %d pieces; at most %d are allowed", c.o.clean(uri, 300), len(res.Contents), maxContents)
	}
	for _, piece := range res.Contents {
		if piece == nil {
			continue
		}
		kind, _, err := mime.ParseMediaType(piece.MIMEType)
		if err != nil {
			kind = ""
		}
		text, isText := piece.Text, piece.Blob == nil
		if !isText && textual(kind) && utf8.Valid(piece.Blob) && !slices.Contains(piece.Blob, 0) {
			text, isText = string(piece.Blob), true
		}
		if !isText && slices.ContainsFunc(secrets, func(s string) bool { return bytes.Contains(piece.Blob, []byte(s)) }) {
			return nil, parley.Errorf(parley.CodeForbidden, "the resource %s contains the login of its reader", c.o.clean(uri, 300))
		}
		text = without(secrets, text)
		if isText {
			if name := c.o.clean(piece.URI, 300); len(res.Contents) > 1 && name != "" {
				text = name + "\n" + text
			}
			list = append(list, seam.ResourceContent{Text: plain(text), MediaType: kind})
			continue
		}
		name := path.Base(strings.TrimRight(c.o.clean(cmp.Or(piece.URI, uri), 300), "/"))
		list = append(list, seam.ResourceContent{File: &seam.File{Name: parley.Cut(name, 100), MediaType: kind, Body: piece.Blob}})
	}
	return list, nil
}

// textual reports whether bytes of this media type are text.
func textual(kind string) bool {
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") && kind != "image/svg+xml" ||
		slices.Contains([]string{"application/json", "application/xml", "application/yaml", "application/toml", "application/javascript", "application/sql"}, kind)
}

// plain removes invisible characters from text: control characters, and the tag characters of
// Unicode, which can hide instructions.
func plain(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n'
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0, r >= 0xE0000 && r <= 0xE007F:
			return -1
		}
		return r
	}, text)
}
