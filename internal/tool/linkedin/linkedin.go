// Package linkedin is the toolset with which an agent posts on LinkedIn, reads comments, comments
// and replies, for one person at a time.
//
// The person is the one whose workspace the session works in: "sebastian" in shared/sebastian. Each person
// has one account at LinkedIn, kept in the vault (see [Toolset.Login]), and all users to whom the
// workspace is granted act with it. Without a person nothing is done.
//
// Every tool has two names, with and without the prefix "mcp__linkedin__", and does the same under
// both. Results begin with fixed words, and errors with "Error: ".
//
// LinkedIn has no idempotency keys, so a post is sent once. It is sent again only when the answer
// proves that it was not carried out: the version is not active, the token was refused, or a
// short 429. If the answer is lost, [Toolset.Reconcile] looks for it in the activity log and, if
// the login may read, at LinkedIn. Otherwise the outcome is unknown.
//
// The activity log is linkedin/posts.csv in the workspace. A row is added after the effect and
// before the result; it names the call, so after a crash in between it is not added twice.
//
// A Toolset is safe for concurrent use. Calls of one person that write go one after the other.
package linkedin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/vault"
)

// Prefix is before the second name of each tool.
const Prefix = "mcp__linkedin__"

// Names of the tools.
const (
	Post         = "linkedin_post"
	ReadComments = "linkedin_read_comments"
	PostComment  = "linkedin_post_comment"
	ReplyComment = "linkedin_reply_comment"
)

var (
	//go:embed post.md
	postDoc string
	//go:embed read_comments.md
	readDoc string
	//go:embed post_comment.md
	commentDoc string
	//go:embed reply_comment.md
	replyDoc string
)

// Options are those of [New].
type Options struct {
	App string // whose tools they are
	// ClientID and the other two are those of the app in LinkedIn's developer portal. Without
	// them the tools answer that LinkedIn is not set up.
	ClientID, ClientSecret, RedirectURI string
	// Base returns the server's URL for browsers. Below it is the callback, if RedirectURI is
	// empty. Nil: RedirectURI is needed.
	Base func() (string, error)
	// Version is the version of the API, such as 202610. Empty: that of the last month. If it
	// is not active, others are tried.
	Version string
	// Scopes are asked for at a login. Nil: those that every app can have. With r_member_social,
	// which LinkedIn gives to few, comments can be read and lost posts found.
	Scopes []string
	// URL replaces both hosts of LinkedIn, for a simulation.
	URL   string
	Vault func() *vault.Vault // returns nil while there is no store
	// Person returns the person whose workspace it is. Nil: the name of a shared workspace.
	Person func(parley.Workspace) (name string, ok bool)
	Now    func() time.Time                                 // nil: time.Now
	Pause  func(ctx context.Context, d time.Duration) error // nil: waits
	Logger *slog.Logger                                     // nil: slog.Default
}

// Toolset holds the tools.
type Toolset struct {
	o        Options
	www, api string
	client   *http.Client
	version  atomic.Pointer[string] // that was accepted last

	mu    sync.Mutex
	busy  map[string]*gate
	heard heard
}

var (
	_ seam.Reconciler = (*Toolset)(nil)
	_ seam.Choosy     = (*Toolset)(nil)
	_ seam.Preparer   = (*Toolset)(nil)
	_ seam.Worder     = (*Toolset)(nil)
	_ seam.Previewer  = (*Toolset)(nil)
	_ seam.Refuser    = (*Toolset)(nil)
)

// New makes a toolset. The field of its error is the option that is wrong.
func New(o Options) (*Toolset, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Person == nil {
		o.Person = parley.Workspace.Shared
	}
	if o.Pause == nil {
		o.Pause = func(ctx context.Context, d time.Duration) error {
			t := time.NewTimer(d)
			defer t.Stop()
			select {
			case <-t.C:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	if o.Scopes == nil {
		o.Scopes = []string{"openid", "profile", "w_member_social"}
	}
	t := &Toolset{o: o, www: "https://www.linkedin.com", api: "https://api.linkedin.com", busy: map[string]*gate{}}
	if o.URL != "" {
		t.www = strings.TrimSuffix(o.URL, "/")
		t.api = t.www
	}
	var hosts []string
	for _, base := range []string{t.www, t.api} {
		u, err := url.Parse(base)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, parley.Errorf(parley.CodeInvalid, "%q is not the address of a server", parley.Cut(base, 200)).WithField("url")
		}
		hosts = append(hosts, u.Hostname())
	}
	guard, err := dial.New(hosts, nil)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithField("url")
	}
	// A connection for each request: the transport then never repeats one by itself.
	t.client = guard.Client(true)
	return t, nil
}

// Close ends idle connections.
func (t *Toolset) Close() { t.client.CloseIdleConnections() }

// ready says what is not set up.
func (t *Toolset) ready() error {
	if t.o.ClientID != "" && t.o.ClientSecret != "" && (t.o.RedirectURI != "" || t.o.Base != nil) {
		return nil
	}
	return parley.Errorf(parley.CodeUnavailable, "LinkedIn is not set up here").
		WithHint("the operator must set LINKEDIN_CLIENT_ID, LINKEDIN_CLIENT_SECRET and LINKEDIN_REDIRECT_URI")
}

// redirect is where LinkedIn sends browsers back to.
func (t *Toolset) redirect() (string, error) {
	if t.o.RedirectURI != "" {
		return t.o.RedirectURI, nil
	}
	base, err := t.o.Base()
	return strings.TrimSuffix(base, "/") + CallbackPath, err
}

// person returns the person whose workspace it is.
func (t *Toolset) person(w parley.Workspace) (string, error) {
	if name, ok := t.o.Person(w); ok && name != "" {
		return name, nil
	}
	return "", parley.Errorf(parley.CodeInvalid, "no person is set: the LinkedIn tools work only in a session of a person").
		WithHint("begin a session in the workspace of a person, such as shared/sebastian")
}

// timeout covers a renewed token, two versions that are not active, and a slow answer.
const timeout = parley.Duration(time.Minute)

// Tools implements seam.Toolset.
func (t *Toolset) Tools(context.Context) ([]parley.ToolDecl, error) {
	const (
		post    = `"post_urn":{"type":"string","description":"The URN of the post, such as urn:li:share:123 or urn:li:activity:123"}`
		comment = `"comment_urn":{"type":"string","description":"The URN of the comment to reply to, such as urn:li:comment:(urn:li:activity:123,456)"}`
		text    = `"text":{"type":"string","description":"%s"}`
	)
	schema := func(required string, fields ...string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{` + strings.Join(fields, ",") + `},"required":[` + required + `],"additionalProperties":false}`)
	}
	decls := []parley.ToolDecl{{
		Name: Post, Description: postDoc, Subject: "{text}", InputSchema: schema(`"text"`, fmt.Sprintf(text, "The text of the post, at most 3000 characters")),
	}, {
		Name: ReadComments, Description: readDoc, Subject: "{post_urn}", InputSchema: schema(`"post_urn"`, post),
	}, {
		Name: PostComment, Description: commentDoc, Subject: "{post_urn}: {text}", InputSchema: schema(`"post_urn","text"`, post, fmt.Sprintf(text, "The text of the comment, at most 1250 characters")),
	}, {
		Name: ReplyComment, Description: replyDoc, Subject: "{comment_urn}: {text}",
		InputSchema: schema(`"post_urn","comment_urn","text"`, post, comment, fmt.Sprintf(text, "The text of the reply, at most 1250 characters")),
	}}
	var list []parley.ToolDecl
	for _, prefix := range []string{"", Prefix} {
		for _, d := range decls {
			d.Description = strings.TrimSpace(d.Description)
			d.Effect, d.Outward, d.Timeout = parley.EffectWrite, true, timeout
			d.Safety = "is visible to others at LinkedIn at once, in the name of the person"
			if d.Name == ReadComments {
				d.Effect, d.Outward, d.Web = parley.EffectRead, false, true
				d.OutputLimit, d.Safety = outputLimit, "what it returns was written by others"
			}
			d.Name = prefix + d.Name
			list = append(list, d)
		}
	}
	return list, nil
}

// outputLimit is how many bytes of comments the model gets.
const outputLimit = 48 << 10

// input is the input of all tools.
type input struct {
	Text    string `json:"text"`
	Post    string `json:"post_urn"`
	Comment string `json:"comment_urn"`
}

// wish is a call that can be made.
type wish struct {
	input
	tool   string // without the prefix
	person string
	object string // of a comment or reply: the post
}

// wish reads the input of a call.
func (t *Toolset) wish(tool string, raw json.RawMessage, space parley.Workspace) (w wish, err error) {
	w.tool = strings.TrimPrefix(tool, Prefix)
	if err := json.Unmarshal(raw, &w.input); err != nil {
		return w, wrong("the input is not as the schema says")
	}
	w.Post, w.Comment = strings.TrimSpace(w.Post), strings.TrimSpace(w.Comment)
	if err := w.check(); err != nil {
		return w, err
	}
	if w.person, err = t.person(space); err != nil {
		return w, err
	}
	return w, t.ready()
}

func wrong(format string, args ...any) error {
	return parley.Errorf(parley.CodeInvalid, format, args...)
}

// check says what is wrong with the input.
func (w *wish) check() error {
	most := maxComment
	if w.tool == Post {
		most = maxPost
	} else {
		switch {
		case w.Post == "":
			return wrong("post_urn is required")
		case !postURN.MatchString(w.Post):
			return wrong("post_urn is not the URN of a post, such as urn:li:share:123")
		}
		w.object = w.Post
	}
	if w.tool == ReplyComment {
		if w.Comment == "" {
			return wrong("comment_urn is required")
		}
		m := commentURN.FindStringSubmatch(w.Comment)
		if m == nil {
			return wrong("comment_urn is not the URN of a comment, such as urn:li:comment:(urn:li:activity:123,456); linkedin_read_comments tells it")
		}
		if kind := "urn:li:activity:"; strings.HasPrefix(m[1], kind) && strings.HasPrefix(w.Post, kind) && m[1] != w.Post {
			return wrong("comment_urn is about another post than post_urn")
		}
		w.object = m[1]
	}
	if w.tool == ReadComments {
		return nil
	}
	switch n := length(w.Text); {
	case strings.TrimSpace(w.Text) == "":
		return wrong("text is required")
	case n > most:
		return wrong("text has %d characters, and LinkedIn takes at most %d", n, most)
	}
	return nil
}

// failed is a result that says that nothing was done.
func failed(err error) parley.ToolResult {
	info := parley.Info(err)
	text := "Error: " + info.Message
	if info.Hint != "" {
		text += " (" + info.Hint + ")"
	}
	return parley.ToolResult{Outcome: parley.OutcomeError, Output: text, Error: &info}
}

// Run implements seam.Toolset.
func (t *Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	w, err := t.wish(r.Name, r.Input, r.Space)
	if err != nil {
		return failed(err), nil
	}
	if w.tool == ReadComments {
		return t.read(ctx, r, w)
	}
	leave, err := t.enter(ctx, "write", r.Space)
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	defer leave()
	log, err := openLog(r)
	if err != nil {
		return failed(err), nil
	}
	select {
	case <-r.Stopped: // it has not left yet
		return parley.ToolResult{}, seam.NotSent(parley.Errorf(parley.CodeCancelled, "the turn was stopped before it was sent"))
	default:
	}
	var m made
	err = t.with(ctx, r, func(a account) (err error) {
		m, err = t.make(ctx, a, w)
		return err
	})
	if err == nil {
		return t.done(ctx, r, w, log, m), nil
	}
	if ref, ok := errors.AsType[*refusal](err); ok {
		if urn := ref.duplicate(); urn != "" && w.tool == Post {
			t.found(ctx, r, w, log, urn)
			return failed(parley.Errorf(parley.CodeConflict, "LinkedIn has a post with this text already: %s. It was not posted again", urn)), nil
		}
		return failed(t.explained(w.person, err)), nil
	}
	if seam.IsNotSent(err) {
		var is *parley.Error
		if errors.As(err, &is) {
			return failed(is), nil
		}
		return failed(t.explained(w.person, err)), nil
	}
	return parley.ToolResult{}, err
}

// made is what LinkedIn says was made.
type made struct {
	post, comment string // URNs
	status        int
}

// make makes a post, comment or reply.
func (t *Toolset) make(ctx context.Context, a account, w wish) (made, error) {
	if w.tool == Post {
		got, err := t.call(ctx, a.Access, request{method: http.MethodPost, restli: "create", path: "posts", body: map[string]any{
			"author": a.urn(), "commentary": escaped(w.Text), "visibility": "PUBLIC",
			"distribution":   map[string]any{"feedDistribution": "MAIN_FEED", "targetEntities": []any{}, "thirdPartyDistributionChannels": []any{}},
			"lifecycleState": "PUBLISHED", "isReshareDisabledByAuthor": false,
		}})
		return made{post: parley.Cut(tidy(got.id), 200), status: got.status}, err
	}
	body := map[string]any{"actor": a.urn(), "object": w.object, "message": map[string]any{"text": w.Text}}
	target := w.Post
	if w.tool == ReplyComment {
		target, body["parentComment"] = w.Comment, w.Comment
	}
	got, err := t.call(ctx, a.Access, request{method: http.MethodPost, restli: "create", path: "socialActions/" + encoded(target) + "/comments", body: body})
	if err != nil {
		return made{}, err
	}
	var c comment
	_ = json.Unmarshal(got.body, &c) // without a body the header says enough
	urn := c.URN
	switch {
	case urn != "":
	case strings.HasPrefix(got.id, "urn:"):
		urn = got.id
	case c.Object != "":
		urn = "urn:li:comment:(" + c.Object + "," + got.id + ")"
	default: // LinkedIn calls a share by its activity, which has another number
		urn = got.id
	}
	return made{post: w.Post, comment: parley.Cut(tidy(urn), 300), status: got.status}, nil
}

// said is the result of a call that took effect.
func said(tool string, m made) string {
	switch tool {
	case Post:
		return "Posted to LinkedIn: " + m.post
	case PostComment:
		return "Comment posted: " + m.comment
	}
	return "Reply posted: " + m.comment
}

// Prepare implements [seam.Preparer]: the person logs in before a call is made.
func (t *Toolset) Prepare(ctx context.Context, r seam.Run) (*parley.Interaction, error) {
	person, err := t.person(r.Space)
	if err != nil || t.ready() != nil {
		return nil, nil //nolint:nilerr // Run says it in the words of its errors
	}
	a, err := t.account(ctx, r.Space, "")
	switch {
	case err == nil && r.Hide != nil:
		return nil, r.Hide(a.secrets()...)
	case err == nil:
		return nil, nil
	case !errors.Is(err, errNobody):
		return nil, t.explained(person, err)
	}
	link, err := t.Login(ctx, r.Principal, r.Space)
	if err != nil {
		return nil, err
	}
	return &parley.Interaction{
		Kind: parley.KindQuestion, Title: "Log in at LinkedIn for " + person + "?", URL: link,
		Text:      "The agent wants to use LinkedIn in the name of " + person + ". Open the link in a browser in which you are signed in here, log in at LinkedIn, and allow the access:\n" + link,
		Questions: []parley.Question{{Header: "Login", Question: "Have you logged in there?", Options: []parley.Option{{Label: "Done", Description: "I have logged in"}}}},
	}, nil
}

// Words implements [seam.Worder].
func (*Toolset) Words(tool string, raw json.RawMessage) string {
	var in input
	if json.Unmarshal(raw, &in) != nil {
		return ""
	}
	switch strings.TrimPrefix(tool, Prefix) {
	case Post:
		return "Post on LinkedIn"
	case PostComment:
		return "Comment on LinkedIn on " + in.Post
	case ReplyComment:
		return "Reply on LinkedIn to " + in.Comment
	case ReadComments:
		return "Read the comments on " + in.Post
	}
	return ""
}

// Refuses implements [seam.Refuser]: what Run would say.
func (t *Toolset) Refuses(tool string, raw json.RawMessage) string {
	w := wish{tool: strings.TrimPrefix(tool, Prefix)}
	if json.Unmarshal(raw, &w.input) != nil {
		return ""
	}
	if err := w.check(); err != nil {
		return failed(err).Output
	}
	return "" // such as a field too many
}

// Preview implements [seam.Previewer]: whose it is, where it goes, and the text as it will look.
func (t *Toolset) Preview(tool string, raw json.RawMessage, space parley.Workspace) string {
	var in input
	if json.Unmarshal(raw, &in) != nil {
		return ""
	}
	who, err := t.person(space)
	if err != nil {
		return ""
	}
	switch strings.TrimPrefix(tool, Prefix) {
	case Post:
		return "A public post on LinkedIn in the name of " + who + ":\n\n" + shown(in.Text)
	case PostComment:
		return "A public comment on LinkedIn in the name of " + who + ", on " + in.Post + ":\n\n" + in.Text
	case ReplyComment:
		head := "A public reply on LinkedIn in the name of " + who + ", to " + in.Comment + " on " + in.Post
		if to, ok := t.heardOf(space, in.Comment); ok {
			return head + ". The comment, by " + to.Author + ":\n\n> " + strings.ReplaceAll(to.Text, "\n", "\n> ") + "\n\nThe reply:\n\n" + in.Text
		}
		return head + ", whose text has not been read since the server started:\n\n" + in.Text
	}
	return ""
}

// tree opens the workspace of a call.
func tree(r seam.Run) (files.Tree, error) {
	root, err := r.Workspace()
	if err != nil {
		return files.Tree{}, err
	}
	return files.Of(root), nil
}
