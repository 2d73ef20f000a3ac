package notes

import (
	"context"
	"net/http"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/linkedin"
)

// AccountPath is where a page or an app asks whether a person is logged in at LinkedIn, and begins
// or ends a login.
const AccountPath = "/api/linkedin/account"

// Accounts are the logins of the persons. A [linkedin.Toolset] has them.
type Accounts interface {
	Account(ctx context.Context, w parley.Workspace) (linkedin.Account, error)
	Login(ctx context.Context, p parley.Principal, w parley.Workspace) (link string, err error)
	Logout(ctx context.Context, w parley.Workspace) error
}

// accountAnswer says whether a person is logged in. Times are left out where there are none.
type accountAnswer struct {
	Success  bool      `json:"success"`
	LoggedIn bool      `json:"logged_in"`
	Since    time.Time `json:"since,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
}

// Account says whether the person is logged in.
func (h *Handlers) Account(w http.ResponseWriter, r *http.Request) {
	c, err := h.call(r)
	if err == nil {
		err = h.accounts()
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	a, err := h.o.Accounts.Account(r.Context(), c.person)
	if err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, accountAnswer{true, a.In, a.Since, a.Expires})
}

// Login begins a login of the person. The link is for the caller's browser.
func (h *Handlers) Login(w http.ResponseWriter, r *http.Request) {
	c, err := h.call(r)
	if err == nil {
		err = h.accounts()
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	link, err := h.o.Accounts.Login(r.Context(), c.p, c.person)
	if err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, loginAnswer{true, link})
}

type loginAnswer struct {
	Success bool   `json:"success"`
	URL     string `json:"url"`
}

// Logout forgets the login of the person.
func (h *Handlers) Logout(w http.ResponseWriter, r *http.Request) {
	c, err := h.call(r)
	if err == nil {
		err = h.accounts()
	}
	if err == nil {
		err = h.o.Accounts.Logout(r.Context(), c.person)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	h.answer(w, accountAnswer{Success: true})
}

func (h *Handlers) accounts() error {
	if h.o.Accounts == nil {
		return parley.Errorf(parley.CodeNotFound, "the app has no tools for LinkedIn").WithHint("list linkedin under tools in its app.yaml")
	}
	return nil
}

// linkedinOf returns the LinkedIn tools of an app; nil: it has none.
func linkedinOf(d app.Deps) *linkedin.Toolset {
	for _, t := range d.Toolsets[d.App] {
		if l, ok := t.(*linkedin.Toolset); ok {
			return l
		}
	}
	return nil
}

// Callback is where LinkedIn sends a browser after a login. A login that ended well also answers
// what asks for it, so that the turn goes on: the client of this wire cannot answer.
func (h *Handlers) Callback(tools *linkedin.Toolset, may func(parley.Principal, parley.Workspace) error) http.Handler {
	if tools == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { h.fail(w, h.accounts()) })
	}
	return tools.Callback(linkedin.CallbackOptions{
		Principal: func(r *http.Request) (parley.Principal, error) { return h.o.Principal(r.Context()) },
		Fail:      h.fail, May: may, Done: h.loggedIn,
	})
}

// loggedIn answers the questions that show the link of a login. One that cannot be answered, or was
// by now, is left to the person, who sees it.
func (h *Handlers) loggedIn(ctx context.Context, p parley.Principal, in linkedin.LoggedIn) {
	for from := (seam.InteractionMark{}); ; {
		list, next, err := h.o.Engine.Inbox(ctx, p, from, 50)
		if err != nil {
			return
		}
		for _, row := range list {
			if row.URL != in.Link || len(row.Questions) != 1 {
				continue
			}
			q := row.Questions[0]
			_, _ = h.o.Engine.Answer(ctx, p, row.ID, parley.AnswerInteraction{Client: wireName, Answer: parley.Answer{
				Choice: parley.ChoiceAnswered, Answers: map[string]string{q.Question: q.Options[0].Label},
			}})
		}
		if next == (seam.InteractionMark{}) {
			return
		}
		from = next
	}
}
