package leads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/conversations"
	"github.com/parley-server/parley/internal/strict"
	"github.com/parley-server/parley/internal/wire"
)

// ConversationsPath is where a client keeps its conversations.
const ConversationsPath = "/api/chat/conversations"

// nextHeader has the cursor of the next page of a list, which is a plain array.
const nextHeader = "X-Next-Cursor"

// Conversations are the routes of the conversations that clients keep, each user in each organisation
// their own.
type Conversations struct {
	Store     *conversations.Store
	Principal func(ctx context.Context) (parley.Principal, error)
	Fail      func(w http.ResponseWriter, err error)
	Named     bool // the app's API says whose tokens are
	wire.Limits
}

// listed is a conversation in a list.
type listed struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// List answers with a page of conversations, the newest change first: those that ?q= finds, from ?cursor=
// on, ?limit= at most.
func (c Conversations) List(w http.ResponseWriter, r *http.Request) {
	c.serve(w, r, func(p parley.Principal) error {
		q := r.URL.Query()
		ask := conversations.Query{Search: q.Get("q"), Cursor: q.Get("cursor")}
		if text := q.Get("limit"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 500 {
				return parley.Errorf(parley.CodeInvalid, "limit must be a number from 1 to 500").WithField("limit").WithHint("leave it out for 50")
			}
			ask.Limit = n
		}
		page, next, err := c.Store.List(r.Context(), p, ask)
		if err != nil {
			return err
		}
		list := make([]listed, len(page))
		for i, one := range page {
			list[i] = listed{one.ID, one.Title, one.CreatedAt, one.UpdatedAt}
		}
		if next != "" {
			w.Header().Set(nextHeader, next)
		}
		return answer(w, http.StatusOK, list)
	})
}

// Create makes a conversation.
func (c Conversations) Create(w http.ResponseWriter, r *http.Request) {
	c.serve(w, r, func(p parley.Principal) error {
		ch, err := c.read(w, r)
		if err != nil {
			return err
		}
		made, err := c.Store.Create(r.Context(), p, ch)
		if err != nil {
			return err
		}
		w.Header().Set("Location", ConversationsPath+"/"+made.ID)
		return answer(w, http.StatusCreated, made)
	})
}

// Get answers with a conversation and its messages.
func (c Conversations) Get(w http.ResponseWriter, r *http.Request) {
	c.serve(w, r, func(p parley.Principal) error {
		if err := wire.Reserve(r.Context(), conversations.MaxMessages); err != nil {
			return err
		}
		one, err := c.Store.Get(r.Context(), p, r.PathValue("id"))
		if err != nil {
			return err
		}
		return answer(w, http.StatusOK, one)
	})
}

// Update changes the title or the messages of a conversation.
func (c Conversations) Update(w http.ResponseWriter, r *http.Request) {
	c.serve(w, r, func(p parley.Principal) error {
		ch, err := c.read(w, r)
		if err != nil {
			return err
		}
		one, err := c.Store.Update(r.Context(), p, r.PathValue("id"), ch)
		if err != nil {
			return err
		}
		return answer(w, http.StatusOK, one)
	})
}

// Delete removes a conversation.
func (c Conversations) Delete(w http.ResponseWriter, r *http.Request) {
	c.serve(w, r, func(p parley.Principal) error {
		if err := c.Store.Delete(r.Context(), p, r.PathValue("id")); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
}

func (c Conversations) serve(w http.ResponseWriter, r *http.Request, do func(p parley.Principal) error) {
	p, err := c.Principal(r.Context())
	// A server without a login takes a token that nobody knows for one that is meant for another server.
	// Here it is of somebody whose login has ended.
	if err == nil && c.Named && p == parley.Local && r.Header.Get("Authorization") != "" {
		err = refused()
	}
	if err == nil {
		err = do(p)
	}
	if err != nil {
		c.Fail(w, detailed{err})
	}
}

// detailed is an error whose message this wire also has under detail.
type detailed struct{ error }

func (e detailed) Unwrap() error { return e.error }

// HasDetail is looked for by the door that writes the error.
func (detailed) HasDetail() {}

const conversationForm = `send {"title": "...", "messages": [...]}; both may be left out`

// read reads a body. Fields that are not known are ignored, and null is like a field that is missing.
func (c Conversations) read(w http.ResponseWriter, r *http.Request) (ch conversations.Change, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Header.Get("Content-Type") != "" && (err != nil || kind != "application/json") {
		return ch, mediaError{parley.Errorf(parley.CodeInvalid, "the body's Content-Type is not one that this request takes").WithHint("send application/json")}
	}
	raw, err := c.ReadBody(w, r)
	if err != nil || len(bytes.TrimSpace(raw)) == 0 {
		return ch, err
	}
	if wrong := strict.JSON(raw); wrong != nil {
		return ch, wrong
	}
	var all map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&all); err != nil || all == nil {
		return ch, parley.Errorf(parley.CodeInvalid, "the body is not a JSON object").WithHint(conversationForm)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return ch, parley.Errorf(parley.CodeInvalid, "the body is not one JSON object").WithHint(conversationForm)
	}
	if raw, ok := all["title"]; ok && json.Unmarshal(raw, &ch.Title) != nil {
		return ch, parley.Errorf(parley.CodeInvalid, "the title must be text").WithField("title").WithHint(conversationForm)
	}
	if raw, ok := all["messages"]; ok && string(raw) != "null" {
		ch.Messages = raw
	}
	return ch, nil
}

// mediaError refuses a body because of its Content-Type.
type mediaError struct{ error }

func (e mediaError) Unwrap() error { return e.error }

// HTTPStatus returns the status for a door that writes the error as an answer.
func (mediaError) HTTPStatus() int { return http.StatusUnsupportedMediaType }

func answer(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(encode(v), '\n')) // the client may be gone
	return nil
}

// route is a handler whose errors have their message under detail, too.
type route func(w http.ResponseWriter, r *http.Request)

func (h route) ServeHTTP(w http.ResponseWriter, r *http.Request) { h(w, r) }

// HasDetail implements [app.Detailed].
func (route) HasDetail() {}
