package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

const (
	conversationsPath = "/v1/conversations"
	conversationPath  = conversationsPath + "/{id}"

	// conversationWire is the wire that an app names whose conversations are meant where no app is named.
	conversationWire = "conversations"

	// textEvery is how often the answer of a turn in flight is looked up.
	textEvery = 500 * time.Millisecond
	maxTexts  = 8 << 20 // bytes of the answers that are remembered
)

// ConversationParam is exported for the same reason as SessionParam.
type ConversationParam struct {
	ID  string `path:"id" maxLength:"128" doc:"The conversation: its session's id, or the client's own."`
	App string `query:"app" maxLength:"64" doc:"The app whose conversation has the client's own id; the one whose wire is conversations when not given."`
}

type createConversationInput struct {
	KeyParam
	Body parley.CreateConversation
}

type madeConversation struct {
	Status int
	Body   parley.Conversation
}

type listConversationsInput struct {
	App   string `query:"app" maxLength:"64" doc:"Only conversations of this app; those of the one whose wire is conversations when not given."`
	Limit int    `query:"limit" minimum:"1" maximum:"200" doc:"At most so many; 50 when not given."`
	CursorParam
}

type conversationList struct {
	Conversations []parley.Conversation `json:"conversations" nullable:"false"`
	Next          string                `json:"next,omitempty" doc:"The cursor of the next page; left out on the last."`
}

type updateConversationInput struct {
	ConversationParam
	Body parley.UpdateConversation
}

type followConversationInput struct {
	ConversationParam
	After int64  `query:"after" minimum:"0" doc:"The seq of the last change that you have. Without it, and without Last-Event-ID, the stream begins with now."`
	Last  string `header:"Last-Event-ID" maxLength:"32" doc:"What a browser sends when it comes back; it wins over after."`
	AcceptParam
}

func (s *Server) conversationRoutes() {
	tags := []string{"conversations"}
	one := func(ctx context.Context, p parley.Principal, in ConversationParam) (*body[parley.Conversation], error) {
		info, err := s.conversing(ctx, p, in)
		if err != nil {
			return nil, err
		}
		return ok(s.conversation(ctx, p, info))
	}
	route(s, huma.Operation{
		OperationID: "create-conversation-view", Method: http.MethodPost, Path: conversationsPath, Tags: tags, DefaultStatus: http.StatusCreated, Summary: "Make a conversation",
		Description: "With an id or a key that the caller has used in the app before, that conversation is returned with status 200. Messages are sent to its session_id, at " + turnsPath + ".",
		Responses: map[string]*huma.Response{
			"200": {Description: "The existing conversation", Content: map[string]*huma.MediaType{"application/json": {Schema: s.schema(parley.Conversation{})}}},
		},
	}, func(ctx context.Context, p parley.Principal, in *createConversationInput) (*madeConversation, error) {
		b := in.Body
		app, err := s.conversationApp(b.App)
		if err != nil {
			return nil, err
		}
		space, err := s.workspaceAt(p, app, b.WorkspacePath)
		if err != nil {
			return nil, renamed(err)
		}
		info, created, err := s.o.Engine.Create(ctx, p, parley.CreateSession{
			App: app, OutsideID: b.ID, Title: b.Title, Workspace: space, AttachedEntities: b.AttachedEntities, History: b.History, Model: b.Model,
			MaxBudgetUSD: b.MaxBudgetUSD, MaxTurns: b.MaxTurns, Key: string(in.Key), Client: clientName,
		})
		if err != nil {
			return nil, renamed(err)
		}
		out := &madeConversation{Status: http.StatusCreated}
		if !created {
			out.Status = http.StatusOK
		}
		out.Body, err = s.conversation(ctx, p, info)
		return out, err
	})
	route(s, huma.Operation{
		OperationID: "list-conversation-views", Method: http.MethodGet, Path: conversationsPath, Tags: tags, Summary: "List conversations, the last changed first",
		Description: "Without their streaming_content. One that changes moves to the top and is not on a later page.",
	}, func(ctx context.Context, p parley.Principal, in *listConversationsInput) (*body[conversationList], error) {
		after, err := seam.SessionCursor(in.Cursor)
		if err != nil {
			return nil, err
		}
		app, err := s.conversationApp(in.App)
		if err != nil {
			return nil, err
		}
		list, next, err := s.o.Engine.SessionPage(ctx, p, seam.SessionQuery{App: app, Limit: orElse(in.Limit, 50), After: after})
		if err == nil && len(list) == 0 && in.App != "" {
			err = s.knownApp(ctx, p, in.App)
		}
		if err != nil {
			return nil, err
		}
		out := conversationList{Conversations: []parley.Conversation{}, Next: next.Cursor()}
		for _, info := range list {
			c, err := s.withError(ctx, p, info)
			if err != nil {
				return nil, err
			}
			out.Conversations = append(out.Conversations, c)
		}
		return ok(out, nil)
	})
	route(s, huma.Operation{
		OperationID: "get-conversation-view", Method: http.MethodGet, Path: conversationPath, Tags: tags, Summary: "Read a conversation",
		Description: "While a turn runs, streaming_content is its answer so far. It is looked up every 500 ms at most.",
	}, func(ctx context.Context, p parley.Principal, in *ConversationParam) (*body[parley.Conversation], error) {
		return one(ctx, p, *in)
	})
	route(s, huma.Operation{
		OperationID: "update-conversation-view", Method: http.MethodPatch, Path: conversationPath, Tags: tags, Summary: "Change the title, or what is attached",
		Description: "What is attached is read anew when a turn begins.",
	}, func(ctx context.Context, p parley.Principal, in *updateConversationInput) (*body[parley.Conversation], error) {
		info, err := s.conversing(ctx, p, in.ConversationParam)
		if err != nil {
			return nil, err
		}
		if info, err = s.o.Engine.Update(ctx, p, info.ID, parley.UpdateSession{Title: in.Body.Title, AttachedEntities: in.Body.AttachedEntities}); err != nil {
			return nil, err
		}
		return ok(s.conversation(ctx, p, info))
	})
	route(s, huma.Operation{
		OperationID: "delete-conversation-view", Method: http.MethodDelete, Path: conversationPath, Tags: tags, DefaultStatus: http.StatusNoContent, Summary: "Delete a conversation with its session",
		Description: "Its log, artifacts and archive go with it. A running turn is stopped first.",
	}, func(ctx context.Context, p parley.Principal, in *ConversationParam) (*struct{}, error) {
		info, err := s.conversing(ctx, p, *in)
		if err != nil {
			return nil, err
		}
		return nil, s.o.Engine.Delete(ctx, p, info.ID)
	})
	route(s, huma.Operation{
		OperationID: "follow-conversation-view", Method: http.MethodGet, Path: conversationPath + "/stream", Tags: tags, Summary: "Follow a conversation",
		Description: "Server-sent events. conversation, the first, is the whole of it. status is each change of its status, in the order of the log, with its number as the id; the one that ends a turn has the answer. " +
			"content is the answer so far, every 500 ms at most. With a cursor the changes behind it come first, so each comes once, to every client in the same order.",
		Responses: map[string]*huma.Response{
			"200": {Description: "What becomes of the conversation", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{OneOf: []*huma.Schema{
				s.schema(parley.Conversation{}), s.schema(parley.ConversationChange{}), s.schema(parley.ConversationText{}),
			}}}}},
		},
	}, s.followConversation)
}

// renamed gives an error of the engine the names that fields have here.
func renamed(err error) error {
	info := parley.Info(err)
	name := map[string]string{"outside_id": "id", "workspace": "workspace_path"}[info.Field]
	if own, is := err.(*parley.Error); is && name != "" { //nolint:errorlint // a wrapped one has a field of its own
		return own.WithField(name)
	}
	return err
}

// workspaceAt is the workspace of p that a path names: its name, or where its folder is.
func (s *Server) workspaceAt(p parley.Principal, app, path string) (parley.Workspace, error) {
	if !filepath.IsAbs(path) || s.o.Files == nil {
		return parley.Workspace(path), nil
	}
	return s.o.Files.Named(p, app, path)
}

// conversationApp is the app that is meant when none is named.
func (s *Server) conversationApp(app string) (string, error) {
	if app != "" {
		return app, nil
	}
	for _, a := range s.o.Engine.Apps() {
		if slices.Contains(a.Wires, conversationWire) {
			return a.Name, nil
		}
	}
	return "", invalid("app", "name the app whose conversations are meant").WithHint("GET /v1/apps lists them; an app is meant without its name if its app.yaml says wires: [conversations]")
}

// conversing finds the session of a conversation. Another's is unknown, whichever way it is named.
func (s *Server) conversing(ctx context.Context, p parley.Principal, in ConversationParam) (parley.SessionInfo, error) {
	info, err := s.o.Engine.Session(ctx, p, parley.SessionID(in.ID))
	if parley.CodeOf(err) != parley.CodeNotFound {
		return info, err
	}
	app, named := s.conversationApp(in.App)
	if named != nil {
		return info, err
	}
	id, aerr := s.o.Engine.Alias(ctx, p, app, in.ID)
	if aerr != nil {
		if parley.CodeOf(aerr) == parley.CodeNotFound {
			return info, err
		}
		return info, aerr
	}
	return s.o.Engine.Session(ctx, p, id)
}

// withError adds why the last turn failed.
func (s *Server) withError(ctx context.Context, p parley.Principal, info parley.SessionInfo) (parley.Conversation, error) {
	c := info.Conversation()
	if c.Status != parley.ConversationError || c.Error != "" {
		return c, nil
	}
	t, err := s.o.Engine.Turn(ctx, p, info.Last.ID)
	switch {
	case err == nil && t.Error != nil:
		c.Error = t.Error.Message
	case err != nil && parley.CodeOf(err) != parley.CodeNotFound:
		return c, err
	}
	return c, nil
}

// conversation is a session as a conversation, with the answer so far.
func (s *Server) conversation(ctx context.Context, p parley.Principal, info parley.SessionInfo) (parley.Conversation, error) {
	c, err := s.withError(ctx, p, info)
	if err != nil || info.Turn == nil {
		return c, err
	}
	c.StreamingContent, err = s.texts.of(ctx, info.ID, info.Turn.ID, func() (string, error) { return s.answerSoFar(ctx, p, info.ID) })
	return c, err
}

// answerSoFar is what the agent in charge of a session's open turn has said.
func (s *Server) answerSoFar(ctx context.Context, p parley.Principal, id parley.SessionID) (string, error) {
	st, err := inTurn(ctx, s, p, func() (parley.Session, error) { return s.o.Engine.State(ctx, p, id) })
	if err != nil || st.Turn == nil {
		return "", err
	}
	var said []string
	mine := map[parley.AgentPath]bool{}
	for _, a := range st.Turn.Agents {
		if a.Parent != "" {
			continue
		}
		mine[a.Path] = true
		for _, it := range a.Items {
			if text := strings.TrimSpace(parley.PartsText(it.Parts)); it.Kind == parley.ItemReply && text != "" {
				said = append(said, text)
			}
		}
	}
	for _, c := range st.Turn.Calls {
		if s.o.Partial == nil || !mine[c.Agent] {
			continue
		}
		if text, _, ok := s.o.Partial(id, c.Call); ok && strings.TrimSpace(text) != "" {
			said = append(said, text)
		}
	}
	return strings.Join(said, "\n\n"), nil
}

// texts remembers answers so far, so that many clients who ask cost no more than one. Those that nobody has asked for for a while are
// forgotten, and of several turns together only so many bytes are kept.
type texts struct {
	mu  sync.Mutex
	all map[parley.SessionID]*inFlight
}

type inFlight struct {
	turn chan struct{} // holds one token: whoever has it may look, and change what follows
	of   parley.TurnID
	text string

	at   time.Time // as size, with the lock of texts
	size int
}

// of is the answer so far, which look looks up unless that was done shortly before.
func (t *texts) of(ctx context.Context, id parley.SessionID, turn parley.TurnID, look func() (string, error)) (string, error) {
	f := t.find(id)
	select {
	case <-f.turn:
	case <-ctx.Done():
		return "", parley.Errorf(parley.CodeCancelled, "the request was given up while others asked for the same")
	}
	defer func() { f.turn <- struct{}{} }()
	t.mu.Lock()
	fresh := f.of == turn && time.Since(f.at) < textEvery
	t.mu.Unlock()
	if fresh {
		return f.text, nil
	}
	text, err := look()
	if err == nil {
		f.of, f.text = turn, text
		t.keep(id, f)
	}
	return text, err
}

func (t *texts) find(id parley.SessionID) *inFlight {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.all[id]
	if f == nil {
		f = &inFlight{turn: make(chan struct{}, 1), at: time.Now()}
		f.turn <- struct{}{}
		if t.all == nil {
			t.all = map[parley.SessionID]*inFlight{}
		}
		t.all[id] = f
	}
	return f
}

// keep remembers a text that was just looked up, and forgets others: those that are too old to be used, and if there are still too many
// bytes, the others, too.
func (t *texts) keep(id parley.SessionID, f *inFlight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.at, f.size = time.Now(), len(f.text)
	t.all[id] = f
	total := 0
	for other, o := range t.all {
		if time.Since(o.at) >= textEvery {
			delete(t.all, other)
		} else {
			total += o.size
		}
	}
	for other, o := range t.all {
		if total <= maxTexts {
			break
		}
		delete(t.all, other)
		total -= o.size
	}
}

// followConversation begins with the conversation as it is, or with the changes behind a cursor.
// While the store is away it waits, like the streams of events: see beginsLater.
func (s *Server) followConversation(ctx context.Context, p parley.Principal, in *followConversationInput) (*huma.StreamResponse, error) {
	after, err := cursorOf(in.After, in.Last)
	if err != nil {
		return nil, err
	}
	f := conversationFeed{s: s, p: p, after: after}
	begin := func(ctx context.Context) error { return f.begin(ctx, in.ConversationParam) }
	err = begin(ctx)
	waits := beginsLater(err, in.Accept)
	if err != nil && !waits {
		return nil, err
	}
	done, err := s.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	return s.streamed(done, func(w http.ResponseWriter, r *http.Request) error {
		wire.ServeMessages(w, r, func(yield func([]wire.Message) bool) {
			if waits {
				if err := s.o.Reader.Retry(r.Context(), begin); err != nil {
					yield([]wire.Message{jsonMessage("", "error", streamError{Error: parley.Info(err)})})
					return
				}
			}
			f.messages(r.Context(), yield)
		}, wire.SSE, wire.Options{Heartbeat: s.o.Heartbeat})
		return nil
	}), nil
}

// conversationFeed is the live form of a conversation.
type conversationFeed struct {
	s     *Server
	p     parley.Principal
	after int64 // the cursor; 0: it begins with now
	info  parley.SessionInfo
	first parley.Conversation
}

// begin reads the conversation as it is. If that fails, it can be repeated.
func (f *conversationFeed) begin(ctx context.Context, in ConversationParam) error {
	info, err := f.s.conversing(ctx, f.p, in)
	if err != nil {
		return err
	}
	after := cmp.Or(f.after, info.Version)
	if err := f.s.o.Reader.Check(ctx, f.p, info.ID, after); err != nil {
		return err
	}
	first, err := f.s.conversation(ctx, f.p, info)
	if err == nil {
		f.info, f.after, f.first = info, after, first
	}
	return err
}

func (f *conversationFeed) messages(ctx context.Context, yield func([]wire.Message) bool) {
	if !yield([]wire.Message{jsonMessage("", "conversation", f.first)}) {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	frames := make(chan eventlog.Frame)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(frames)
		for fr, err := range f.s.o.Reader.Follow(ctx, f.p, f.info.ID, f.after) {
			if err != nil {
				return // the client comes back with its cursor, and is told
			}
			select {
			case frames <- fr:
			case <-ctx.Done():
				return
			}
		}
	})
	defer reading.Wait()
	defer stop()
	f.run(ctx, frames, yield)
}

func (f *conversationFeed) run(ctx context.Context, frames <-chan eventlog.Frame, yield func([]wire.Message) bool) {
	var turn parley.TurnID // the open one
	if f.info.Turn != nil {
		turn = f.info.Turn.ID
	}
	shown := ""
	var due <-chan time.Time
	for {
		select {
		case fr, ok := <-frames:
			switch {
			case !ok:
				return
			case fr.Event == nil:
				if due == nil && (fr.Delta != nil && fr.Delta.Kind == parley.DeltaText) {
					due = time.After(textEvery)
				}
				continue
			}
			c, changes := parley.ConversationOf(*fr.Event)
			if !changes {
				continue
			}
			if c.Status != parley.ConversationStreaming {
				turn, due = "", nil
			} else if turn != c.TurnID {
				turn, shown = c.TurnID, ""
			}
			if !yield([]wire.Message{jsonMessage(strconv.FormatInt(c.Seq, 10), "status", c)}) {
				return
			}
		case <-due:
			if due = nil; turn == "" {
				continue
			}
			text, err := f.s.texts.of(ctx, f.info.ID, turn, func() (string, error) { return f.s.answerSoFar(ctx, f.p, f.info.ID) })
			if err != nil || text == shown {
				continue // there is a next time
			}
			if shown = text; !yield([]wire.Message{jsonMessage("", "content", parley.ConversationText{TurnID: turn, StreamingContent: text})}) {
				return
			}
		}
	}
}

func jsonMessage(id, event string, v any) wire.Message {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // all its values can be written as JSON
	}
	return wire.Message{ID: id, Event: event, Data: raw}
}

func (in ConversationParam) of(ctx context.Context, e Engine, p parley.Principal) (string, error) {
	info, err := e.Session(ctx, p, parley.SessionID(in.ID))
	if parley.CodeOf(err) == parley.CodeNotFound && in.App != "" {
		return in.App, nil
	}
	return info.App, err
}

func (in ConversationParam) unknown(ctx context.Context, e Engine) error {
	_, err := e.Session(ctx, nobody, parley.SessionID(in.ID))
	return err
}

func (in createConversationInput) of(context.Context, Engine, parley.Principal) (string, error) {
	return in.Body.App, nil
}

func (in listConversationsInput) of(context.Context, Engine, parley.Principal) (string, error) {
	return in.App, nil
}
