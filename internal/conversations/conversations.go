// Package conversations keeps conversations as a client of the leads app stores them: a title and
// the client's own JSON array of messages, kept byte for byte. They are no sessions: the engine
// knows nothing of them.
//
// They are in the table chat_conversations of the app's own tables ([seam.Tables]), in SQLite and
// PostgreSQL, or with [New] of nil in memory, for tests. [Migrations] make the table:
//
//	app.App{Name: "leads", Tables: conversations.Migrations, …}
//	kept := conversations.New(deps.Tables, nil)
//
// Every method takes the calling principal, and each user in each org has own ones: another's
// conversation is [parley.ErrNotFound], as is an id that is no UUID. A user has at most [MaxCount]
// conversations and [MaxBytes]; more is CodeQuota. Methods are safe for concurrent use.
package conversations

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Limits.
const (
	MaxTitle    = 1 << 10  // bytes of a title
	MaxMessages = 1 << 20  // bytes of a conversation's messages
	MaxCount    = 1_000    // conversations of a user in an org
	MaxBytes    = 32 << 20 // of their titles and messages

	maxDepth  = 100 // of the messages' JSON: PostgreSQL's parser has a limit, too
	maxSearch = 200 // bytes of a query
	listSize  = 50
	maxList   = 500

	// DefaultTitle is the title of a conversation that is made without one.
	DefaultTitle = "New conversation"
)

//go:embed migrations
var migrations embed.FS

// Migrations are those of the table.
var Migrations, _ = fs.Sub(migrations, "migrations")

// Conversation is one row. A list has it without Messages.
type Conversation struct {
	ID        string          `json:"id"`
	Title     string          `json:"title"`
	Messages  json.RawMessage `json:"messages,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// Change is what a client sets; nil leaves it as it is, or at its default.
type Change struct {
	Title    *string
	Messages json.RawMessage // an array
}

// Query selects conversations of the caller, the newest change first.
type Query struct {
	// Search selects those whose title or messages contain these words, in any case, as one
	// phrase. In messages it looks at texts, not at names of fields, ids, roles and types.
	Search string
	Cursor string // of the previous page; empty: from the newest
	Limit  int    // 0 means 50; at most 500
}

// Store keeps conversations. Make one with [New].
type Store struct {
	t   table
	now func() time.Time
}

// New returns a store over an app's tables, or in memory if tables is nil. If now is nil, it is
// time.Now.
func New(tables seam.Tables, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	if tables == nil {
		return &Store{&memory{rows: map[string]row{}}, now}
	}
	return &Store{&database{tables}, now}
}

// table is the table, in a database or in memory.
type table interface {
	// each visits the rows of an owner after a mark, the newest change first, until visit
	// returns false. The rows have messages if they are wanted.
	each(ctx context.Context, of owner, after mark, messages bool, visit func(Conversation) bool) error
	get(ctx context.Context, of owner, id string) (Conversation, error)
	add(ctx context.Context, of owner, c Conversation) error
	// change replaces a row by what edit makes of it.
	change(ctx context.Context, of owner, id string, edit func(c *Conversation)) error
	remove(ctx context.Context, of owner, id string) error
}

type owner struct{ org, user string }

type mark struct {
	at time.Time
	id string
}

// List returns a page, and the cursor of the next one; empty: this is the last.
func (s *Store) List(ctx context.Context, p parley.Principal, q Query) (page []Conversation, next string, err error) {
	of, err := ownerOf(p)
	if err != nil {
		return nil, "", err
	}
	after, err := parseCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	if len(q.Search) > maxSearch || !utf8.ValidString(q.Search) {
		return nil, "", parley.Errorf(parley.CodeInvalid, "a search has at most %d bytes of text", maxSearch).WithField("search")
	}
	limit := q.Limit
	if limit <= 0 {
		limit = listSize
	}
	limit = min(limit, maxList)
	words := fold(q.Search)
	more := false
	err = s.t.each(ctx, of, after, words != "", func(c Conversation) bool {
		if words != "" && !strings.Contains(fold(c.Title), words) && !says(c.Messages, words) {
			return ctx.Err() == nil
		}
		if more = len(page) == limit; more {
			return false
		}
		c.Messages = nil
		page = append(page, c)
		return true
	})
	if err == nil && ctx.Err() != nil {
		err = parley.Errorf(parley.CodeCancelled, "the search was cancelled: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, "", err
	}
	if more {
		last := page[len(page)-1]
		next = mark{last.UpdatedAt, last.ID}.cursor()
	}
	return page, next, nil
}

// Get returns a conversation with its messages.
func (s *Store) Get(ctx context.Context, p parley.Principal, id string) (Conversation, error) {
	of, id, err := named(p, id)
	if err != nil {
		return Conversation{}, err
	}
	return s.t.get(ctx, of, id)
}

// Create makes a conversation.
func (s *Store) Create(ctx context.Context, p parley.Principal, ch Change) (Conversation, error) {
	of, err := ownerOf(p)
	if err != nil {
		return Conversation{}, err
	}
	if err := ch.check(); err != nil {
		return Conversation{}, err
	}
	at := parley.Now(s.now())
	c := Conversation{ID: uuid.NewString(), Title: DefaultTitle, Messages: json.RawMessage("[]"), CreatedAt: at, UpdatedAt: at}
	ch.apply(&c)
	if err := s.t.add(ctx, of, c); err != nil {
		return Conversation{}, err
	}
	return c, nil
}

// Update changes what ch sets, and moves the conversation to the top of the list.
func (s *Store) Update(ctx context.Context, p parley.Principal, id string, ch Change) (out Conversation, err error) {
	of, id, err := named(p, id)
	if err != nil {
		return out, err
	}
	if err := ch.check(); err != nil {
		return out, err
	}
	at := parley.Now(s.now())
	err = s.t.change(ctx, of, id, func(c *Conversation) {
		ch.apply(c)
		if at.After(c.UpdatedAt) {
			c.UpdatedAt = at
		}
		out = *c
	})
	if err != nil {
		return Conversation{}, err
	}
	return out, nil
}

// Delete removes a conversation.
func (s *Store) Delete(ctx context.Context, p parley.Principal, id string) error {
	of, id, err := named(p, id)
	if err != nil {
		return err
	}
	return s.t.remove(ctx, of, id)
}

func ownerOf(p parley.Principal) (owner, error) {
	if p.User == "" || p.IsSystem() {
		return owner{}, parley.Errorf(parley.CodeForbidden, "a conversation needs a user")
	}
	if strings.ContainsRune(p.User+p.Org, 0) || !utf8.ValidString(p.User+p.Org) {
		return owner{}, parley.Errorf(parley.CodeInvalid, "the name of a user or org cannot be stored").WithField("user")
	}
	return owner{p.Org, p.User}, nil
}

func named(p parley.Principal, id string) (owner, string, error) {
	of, err := ownerOf(p)
	if err != nil {
		return of, "", err
	}
	u, err := uuid.Parse(id)
	if err != nil || len(id) != len(u.String()) {
		return of, "", notFound(id)
	}
	return of, u.String(), nil
}

func notFound(id string) error {
	return parley.Errorf(parley.CodeNotFound, "there is no conversation %q", parley.Cut(id, 60)).WithHint("check the id; what belongs to another user is reported as not found, too")
}

// full refuses what is beyond an owner's limits.
func full(count, bytes int64) error {
	switch {
	case count > MaxCount:
		return parley.Errorf(parley.CodeQuota, "there are %d conversations, and more cannot be kept", MaxCount).WithHint("delete some first")
	case bytes > MaxBytes:
		return parley.Errorf(parley.CodeQuota, "the conversations take %d MiB, and more cannot be kept", MaxBytes>>20).WithHint("delete some first")
	}
	return nil
}

// size is what a conversation counts towards MaxBytes.
func (c Conversation) size() int64 { return int64(len(c.Title) + len(c.Messages)) }

func (ch Change) check() error {
	if t := ch.Title; t != nil {
		switch {
		case len(*t) > MaxTitle:
			return parley.Errorf(parley.CodeTooLarge, "a title of %d bytes exceeds the limit of %d", len(*t), MaxTitle).WithField("title")
		case !utf8.ValidString(*t) || strings.ContainsRune(*t, 0):
			return parley.Errorf(parley.CodeInvalid, "the title is not valid text").WithField("title")
		}
	}
	m := ch.Messages
	if m == nil {
		return nil
	}
	if len(m) > MaxMessages {
		return parley.Errorf(parley.CodeTooLarge, "messages of %d bytes exceed the limit of %d", len(m), MaxMessages).WithField("messages")
	}
	if !utf8.Valid(m) || !json.Valid(m) || !bytes.HasPrefix(bytes.TrimLeft(m, " \t\r\n"), []byte("[")) {
		return parley.Errorf(parley.CodeInvalid, "the messages are not a JSON array").WithField("messages")
	}
	if tooDeep(m) {
		return parley.Errorf(parley.CodeInvalid, "the messages are nested more than %d deep", maxDepth).WithField("messages")
	}
	return nil
}

func (ch Change) apply(c *Conversation) {
	if ch.Title != nil {
		c.Title = *ch.Title
		if strings.TrimSpace(c.Title) == "" {
			c.Title = DefaultTitle
		}
	}
	if ch.Messages != nil {
		c.Messages = bytes.Clone(ch.Messages)
	}
}

func (m mark) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(m.at.UnixMilli(), 10) + "\n" + m.id))
}

func parseCursor(text string) (mark, error) {
	if text == "" {
		return mark{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	at, id, ok := strings.Cut(string(raw), "\n")
	ms, merr := strconv.ParseInt(at, 10, 64)
	u, uerr := uuid.Parse(id)
	if err != nil || !ok || merr != nil || uerr != nil || ms < 0 || ms > maxMillis {
		return mark{}, parley.Errorf(parley.CodeInvalid, "the cursor does not belong to this list").WithField("cursor").
			WithHint("pass next of the previous page unchanged, or omit the cursor to start again")
	}
	return mark{time.UnixMilli(ms).UTC(), u.String()}, nil
}

// maxMillis is the end of the year 9999, beyond which neither database has times.
const maxMillis = 253_402_300_799_999
