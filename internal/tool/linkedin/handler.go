package linkedin

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/parley-server/parley"
)

// CallbackPath is where LinkedIn redirects browsers after a login.
const CallbackPath = "/api/linkedin/oauth/callback"

// CallbackOptions are those of [Toolset.Callback].
type CallbackOptions struct {
	// Principal identifies the caller. The answer is refused unless the same caller has begun the
	// login.
	Principal func(r *http.Request) (parley.Principal, error)
	// Fail answers with an error.
	Fail func(w http.ResponseWriter, err error)
	// May reports why a user may not use a workspace (any more). Nil: it is not asked.
	May func(parley.Principal, parley.Workspace) error
	// Done is called after a login succeeded, so that what waits for it goes on. Nil: it is not.
	Done func(ctx context.Context, p parley.Principal, in LoggedIn)
}

// Callback is the page to which LinkedIn redirects the browser. It answers
// {"success": true, "expires_in": 5184000}.
func (t *Toolset) Callback(o CallbackOptions) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The address of the page has a code, which no other page may see.
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		p, err := o.Principal(r)
		if err != nil {
			o.Fail(w, err)
			return
		}
		q := r.URL.Query()
		in, err := t.Finish(r.Context(), p, Answer{State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error")}, o.May)
		if err != nil {
			o.Fail(w, err)
			return
		}
		if o.Done != nil {
			o.Done(context.WithoutCancel(r.Context()), p, in) // the browser may be gone
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(struct {
			Success bool  `json:"success"`
			Expires int64 `json:"expires_in"`
		}{true, in.Expires})
	})
}
