package rest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/httpcall"
)

const (
	keepFor      = 60 * time.Second // how long an answer about a token counts
	keepNo       = 5 * time.Second  // how long a refusal counts: it may be a login that is just being made
	maxKnown     = 10_000           // tokens
	askWithin    = 10 * time.Second
	maxAsked     = 16       // requests under way: strangers decide how many tokens there are
	maxWaiting   = 1000     // tokens of which the API is asked or is to be asked
	maxIdentity  = 64 << 10 // bytes of an answer
	maxPersonOrg = 200
	maxToken     = parley.MaxCredential
)

// Person is whose token it is, in the words of the API.
type Person struct {
	User string
	Name string
	Orgs []string // the first is the default
}

// Principal is the person for one of their organisations; "" is the default one. The names begin with
// the app's, so that they are not those of other users.
func (p Person) Principal(app, org string) (parley.Principal, error) {
	who := parley.Principal{User: app + ":" + p.User}
	switch {
	case org == "" && len(p.Orgs) > 0:
		who.Org = app + ":" + p.Orgs[0]
	case org == "":
	case !slices.Contains(p.Orgs, org):
		return parley.Principal{}, parley.Errorf(parley.CodeForbidden, "You are not a member of this organisation.")
	default:
		who.Org = app + ":" + org
	}
	return who, nil
}

// Identities asks an API whose a token is. The answers are kept for a minute. It is safe for
// concurrent use.
//
// A GET of the identity URL with the token is answered with 200 and an object that has the user as
// id, sub or user_id, and the user's organisations as orgs: a list of ids, or of objects with an id.
// org_id, if it is there, is the default one. 401 and 403 mean that the token is not accepted.
type Identities struct {
	at   string
	call *httpcall.Caller
	now  func() time.Time

	slots chan struct{}                   // limits how many requests are under way
	start func(func(ctx context.Context)) // runs f beside; its context ends with Close
	end   context.CancelFunc
	work  sync.WaitGroup

	// Logger is told when the API cannot be asked, and when it can be again. Nil: nobody is.
	Logger *slog.Logger

	strangers strangers

	mu      sync.Mutex
	known   map[[32]byte]*told
	waiting int
	closed  bool
	down    bool // the last request had no answer
}

// told is what an API said of a token. It may be asked for at the moment.
type told struct {
	client string        // as whose stranger it counts; "": nobody's
	ready  chan struct{} // closed when the rest is there
	person Person
	ok     bool
	err    error
	until  time.Time
}

// NewIdentities makes one for an identity URL. private are those of dial.New. now may be nil.
func NewIdentities(at string, private []string, plainHTTP bool, now func() time.Time) (*Identities, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, parley.Errorf(parley.CodeInvalid, "is not an address that says whose a token is; write http:// or https://, a host and a path").WithField("identity_url")
	}
	if _, err := (httpcall.Auth{Bearer: httpcall.Secret{Credential: Credential}, PlainHTTP: plainHTTP}).Needs(u); err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithField("identity_url")
	}
	guard, err := dial.New([]string{u.Hostname()}, private)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithField("private")
	}
	if now == nil {
		now = time.Now
	}
	d := &Identities{at: at, call: httpcall.New(guard), now: now, known: map[[32]byte]*told{}, slots: make(chan struct{}, maxAsked)}
	ctx, end := context.WithCancel(context.Background())
	d.end = end
	d.start = func(f func(context.Context)) { d.work.Go(func() { f(ctx) }) }
	return d, nil
}

// Close ends the requests under way and waits for them. Afterwards nothing is known of any token.
func (d *Identities) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end()
	d.work.Wait()
	d.call.Close()
}

// Whose returns whose a token is; ok is false if the API does not accept it. After an error, of
// CodeUnavailable or CodeRateLimited, that is not known.
func (d *Identities) Whose(ctx context.Context, token string) (Person, bool, error) {
	return d.WhoseFrom(ctx, "", token)
}

// WhoseFrom is Whose for a token that a client shows, such as an address in the network. A client that shows many
// unknown tokens has to wait. A token that was accepted is let in whatever else comes from there.
func (d *Identities) WhoseFrom(ctx context.Context, client, token string) (p Person, ok bool, err error) {
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return p, false, nil
	}
	key := sha256.Sum256([]byte(token))
	d.mu.Lock()
	t := d.known[key]
	if t != nil {
		select {
		case <-t.ready:
			if !d.now().Before(t.until) {
				if t.ok {
					client = "" // it was no stranger a while ago
				}
				t = nil
			}
		default:
		}
	}
	if t == nil {
		if d.closed || d.waiting >= maxWaiting {
			d.mu.Unlock()
			return p, false, tooMany()
		}
		if client != "" {
			if wait := d.strangers.enter(client, d.now()); wait > 0 {
				d.mu.Unlock()
				return p, false, tooManyStrangers(wait)
			}
		}
		t = &told{ready: make(chan struct{}), client: client}
		d.tidy()
		d.known[key] = t
		d.waiting++
		// Others wait for the same answer, so it does not end with this caller's request.
		d.start(func(ctx context.Context) { d.ask(ctx, key, t, token) })
	}
	d.mu.Unlock()
	select {
	case <-t.ready:
		return t.person, t.ok, t.err
	case <-ctx.Done():
		return p, false, context.Cause(ctx)
	}
}

// Valid reports whether the API accepts a token.
func (d *Identities) Valid(ctx context.Context, token string) (bool, error) {
	_, ok, err := d.Whose(ctx, token)
	return ok, err
}

// Still is Valid, but asks the API anew, also about a token that it has just accepted.
func (d *Identities) Still(ctx context.Context, token string) (bool, error) {
	d.Forget(token)
	return d.Valid(ctx, token)
}

// Forget drops what the API said of a token. Who waits for an answer still gets it.
func (d *Identities) Forget(token string) {
	key := sha256.Sum256([]byte(token))
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.known[key]; t != nil {
		select {
		case <-t.ready:
			delete(d.known, key)
		default: // it is being asked for now
		}
	}
}

// tidy makes room. The caller holds mu.
func (d *Identities) tidy() {
	if len(d.known) < maxKnown {
		return
	}
	now := d.now()
	for key, t := range d.known {
		select {
		case <-t.ready:
			if !now.Before(t.until) || len(d.known) >= maxKnown { // else any: it is asked for again
				delete(d.known, key)
			}
		default:
		}
	}
}

func (d *Identities) ask(ctx context.Context, key [32]byte, t *told, token string) {
	ctx, done := context.WithTimeout(ctx, askWithin)
	defer done()
	select {
	case d.slots <- struct{}{}:
		t.person, t.ok, t.err = d.asked(ctx, token)
		<-d.slots
		d.note(t.err)
	case <-ctx.Done():
		t.err = tooMany()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting--
	switch {
	case t.err != nil:
		delete(d.known, key)
	case t.ok:
		t.until = d.now().Add(keepFor)
		if t.client != "" {
			d.strangers.accepted(t.client)
		}
	default:
		t.until = d.now().Add(keepNo)
	}
	close(t.ready)
}

// note logs the beginning and the end of an outage.
func (d *Identities) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.down
	d.down = err != nil
	switch {
	case d.Logger == nil || was == d.down || d.closed:
	case was:
		d.Logger.Info("the API says again whose tokens are", "url", d.at)
	default:
		d.Logger.Warn("the API does not say whose tokens are, so nobody can use one", "url", d.at, "err", errors.Unwrap(err))
	}
}

func tooMany() error {
	return parley.Errorf(parley.CodeUnavailable, "too many tokens are being checked at once").WithHint("try again in a moment").WithRetry(5 * time.Second)
}

func (d *Identities) asked(ctx context.Context, token string) (p Person, ok bool, err error) {
	unknown := func(err error) (Person, bool, error) {
		// Strangers get this answer, too: the cause has addresses that are not theirs to know. The log has it.
		e := parley.Errorf(parley.CodeUnavailable, "the API does not say whose the token is")
		e.Err = err
		return Person{}, false, e.WithHint("try again in a moment").WithRetry(5 * time.Second)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.at, http.NoBody)
	if err != nil {
		return unknown(errors.New("its address is wrong"))
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	resp, err := d.call.Do(ctx, parley.EffectRead, req)
	if err != nil {
		return unknown(err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return Person{}, false, nil
	default:
		return unknown(httpcall.Unclear(resp))
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxIdentity))
	if err != nil {
		return unknown(errors.New("its answer broke off"))
	}
	p, err = personOf(raw)
	if err != nil {
		return unknown(err)
	}
	return p, true, nil
}

// id is an id that may be a text, a number, or an object with one.
type id string

// UnmarshalJSON implements json.Unmarshaler.
func (i *id) UnmarshalJSON(raw []byte) error {
	var text string
	var number json.Number
	var object struct {
		ID json.RawMessage `json:"id"`
	}
	switch {
	case json.Unmarshal(raw, &text) == nil:
		*i = id(text)
	case json.Unmarshal(raw, &number) == nil:
		*i = id(number.String())
	case json.Unmarshal(raw, &object) == nil && object.ID != nil && object.ID[0] != '{':
		return i.UnmarshalJSON(object.ID)
	}
	return nil
}

// usable reports whether an id can be part of a name here.
func (i id) usable() bool {
	return i != "" && len(i) <= 200 && !strings.ContainsFunc(string(i), func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

func personOf(raw []byte) (p Person, err error) {
	var said struct {
		ID     id     `json:"id"`
		Sub    id     `json:"sub"`
		UserID id     `json:"user_id"`
		Name   string `json:"name"`
		Org    id     `json:"org_id"`
		Orgs   []id   `json:"orgs"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return p, errors.New("its answer is not the object that is expected")
	}
	for _, one := range []id{said.ID, said.Sub, said.UserID} {
		if one != "" {
			p.User = string(one)
			break
		}
	}
	if !id(p.User).usable() {
		return p, errors.New("its answer has no id of the user")
	}
	p.Name = parley.Cut(said.Name, 100)
	for _, o := range append([]id{said.Org}, said.Orgs...) {
		if o.usable() && !slices.Contains(p.Orgs, string(o)) && len(p.Orgs) < maxPersonOrg {
			p.Orgs = append(p.Orgs, string(o))
		}
	}
	return p, nil
}
