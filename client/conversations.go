package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/sse"
)

// Conversations returns the caller's conversations of an app. An empty app is the one whose wire
// is conversations.
func (c *Client) Conversations(app string) Conversations { return Conversations{c, app} }

// Conversations are sessions for clients that keep conversations and need no log: each has a status,
// and its answer so far. They have the id that their client gave them, or their session's. A message
// is sent to the session, with [Client.Send].
type Conversations struct {
	c   *Client
	app string
}

const conversationsPath = "/v1/conversations"

func (l Conversations) one(method, id string, body any) call {
	q := url.Values{}
	set(q, "app", l.app)
	return call{method: method, path: p(conversationsPath+"/%s", id), query: q, body: body}
}

// Create makes a conversation. If a conversation of the app has the id of b already, or was made with its Key, it
// returns that one, and created is false. If the answer is lost, the request is repeated with the same key, as
// [Client.CreateSession] does.
func (l Conversations) Create(ctx context.Context, b parley.CreateConversation) (made parley.Conversation, created bool, err error) {
	if b.App == "" {
		b.App = l.app
	}
	own, attempts := b.Key == "", 0
	made, err = once(ctx, l.c, &b.Key, func() (parley.Conversation, error) {
		attempts++
		a := call{method: http.MethodPost, path: conversationsPath, body: b}
		c, status, err := getStatus[parley.Conversation](ctx, l.c, a.set("Idempotency-Key", b.Key))
		created = status == http.StatusCreated || err == nil && b.ID == "" && (own || attempts > 1)
		return c, err
	})
	return made, created, err
}

// List lists a page of conversations, the last changed first, without their streaming content. next is the
// cursor of the next page; "" on the last. A limit of 0 means 50.
func (l Conversations) List(ctx context.Context, cursor string, limit int) (list []parley.Conversation, next string, err error) {
	q := url.Values{}
	set(q, "app", l.app)
	set(q, "cursor", cursor)
	number(q, "limit", int64(limit))
	page, err := get[struct {
		Conversations []parley.Conversation `json:"conversations"`
		Next          string                `json:"next"`
	}](ctx, l.c, call{method: http.MethodGet, path: conversationsPath, query: q})
	return page.Conversations, page.Next, err
}

// Read reads a conversation, with its answer so far while a turn runs.
func (l Conversations) Read(ctx context.Context, id string) (parley.Conversation, error) {
	return get[parley.Conversation](ctx, l.c, l.one(http.MethodGet, id, nil))
}

// Update changes the fields of u that are set.
func (l Conversations) Update(ctx context.Context, id string, u parley.UpdateConversation) (parley.Conversation, error) {
	return get[parley.Conversation](ctx, l.c, l.one(http.MethodPatch, id, u))
}

// Delete removes a conversation with its session.
func (l Conversations) Delete(ctx context.Context, id string) error {
	_, err := get[struct{}](ctx, l.c, l.one(http.MethodDelete, id, nil))
	return err
}

// ConversationFrame is one item that a follower of a conversation receives: one field is set.
type ConversationFrame struct {
	Conversation *parley.Conversation // the whole of it, at the beginning and after each reconnection
	Change       *parley.ConversationChange
	Text         *parley.ConversationText // the answer so far; it replaces what was shown before
}

// Follow yields the conversation, then the changes behind the one with the number after, or with 0 those from
// now on. It reconnects behind the last one, so each change comes once and in order. It ends as
// [Client.Follow] does.
func (l Conversations) Follow(ctx context.Context, id string, after int64) iter.Seq2[ConversationFrame, error] {
	return func(yield func(ConversationFrame, error) bool) {
		at := after
		each := func(fr sse.Frame) (more bool, err error) {
			var f ConversationFrame
			switch fr.Event {
			case "conversation":
				err = json.Unmarshal(fr.Data, &f.Conversation)
				if err == nil && at == 0 {
					at = f.Conversation.Version
				}
			case "status":
				if err = json.Unmarshal(fr.Data, &f.Change); err == nil && f.Change.Seq <= at {
					return true, nil
				}
				if err == nil {
					at = f.Change.Seq
				}
			case "content":
				err = json.Unmarshal(fr.Data, &f.Text)
			default:
				return true, nil // a kind of frame newer than this client
			}
			if err != nil {
				return true, parley.Errorf(parley.CodeUnavailable, "a frame of the stream was not understood: %w", err)
			}
			return yield(f, nil), nil
		}
		s := stream{c: l.c, each: each, call: func() call {
			a := l.one(http.MethodGet, id, nil)
			a.path += "/stream"
			if at > 0 {
				a.query.Set("after", strconv.FormatInt(at, 10))
			}
			return a
		}}
		if err := s.run(ctx, 0); err != nil {
			yield(ConversationFrame{}, err)
		}
	}
}
