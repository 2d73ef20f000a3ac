package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

const (
	// maxSignIns limits the sign-ins of all users, and maxOfUser those of one. The longest unused
	// ends when there is one more, or when the organisations that their tokens name take more than
	// maxOrgBytes, or maxOrgBytesOfUser. The rest of a sign-in is about 600 bytes.
	maxSignIns, maxOfUser          = 10_000, 50
	maxOrgBytes, maxOrgBytesOfUser = 16 << 20, 256 << 10
	// usedEvery is how precisely the last use is stored.
	usedEvery = time.Minute
	// DefaultIdle and DefaultMax are how long a sign-in lasts unused, and at most.
	DefaultIdle = 7 * 24 * time.Hour
	DefaultMax  = 30 * 24 * time.Hour
)

// SignIn is a browser that is signed in as a user, by a cookie.
type SignIn struct {
	ID      string    `json:"id"` // not a secret
	User    string    `json:"user"`
	Org     string    `json:"org,omitempty"`
	Name    string    `json:"name,omitempty"`
	Issuer  string    `json:"issuer"` // its name
	Orgs    []string  `json:"orgs,omitempty"`
	By      string    `json:"by,omitempty"`
	Browser string    `json:"browser,omitempty"` // as it calls itself
	Created time.Time `json:"created_at"`
	Used    time.Time `json:"used_at"`
	Until   time.Time `json:"expires_at"`

	// Hash is the SHA-256 of the cookie, in hex. The cookie is not stored.
	Hash parley.Digest `json:"sha256"`
}

// SignIns are the browsers that are signed in. They are kept in a file, so that a restart does not
// end them.
type SignIns struct {
	file      string
	idle, max time.Duration
	now       func() time.Time
	log       *slog.Logger

	mu    sync.Mutex
	by    map[[sha256.Size]byte]*signedIn
	dirty bool // a last use is not stored yet
	saved time.Time
}

type signedIn struct {
	SignIn
	open  int // requests and streams
	until context.Context
	end   context.CancelCauseFunc
}

type signInsFile struct {
	Version int      `json:"version"`
	SignIns []SignIn `json:"sign_ins"`
}

// SignInsOptions of [OpenSignIns].
type SignInsOptions struct {
	Idle, Max time.Duration    // 0: DefaultIdle, DefaultMax
	Now       func() time.Time // nil: time.Now
	Logger    *slog.Logger     // nil: none
}

// Why a sign-in ended. Streams that are open then say so.
var (
	errSignedOut  = parley.Errorf(parley.CodeUnauthenticated, "you were signed out").WithHint("sign in again")
	errSignInOver = parley.Errorf(parley.CodeUnauthenticated, "your sign-in expired").WithHint("sign in again")
)

// OpenSignIns reads the sign-ins of a file, which need not exist.
func OpenSignIns(file string, o SignInsOptions) (*SignIns, error) {
	s := &SignIns{file: file, idle: cmp.Or(o.Idle, DefaultIdle), max: cmp.Or(o.Max, DefaultMax), now: o.Now, log: o.Logger, by: map[[sha256.Size]byte]*signedIn{}}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var f signInsFile
	if err := readFile(file, &f); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, parley.Errorf(parley.CodeUnavailable, "the sign-ins cannot be read: %w", err).WithHint("repair or remove signins.json in the data folder; then everybody signs in again")
	}
	if f.Version > 1 {
		return nil, parley.Errorf(parley.CodeUpgradeRequired, "signins.json is of version %d, which this program does not know", f.Version).WithHint("use the program that wrote it, or a newer one")
	}
	now := s.now()
	for _, one := range f.SignIns {
		if sum, err := hex.DecodeString(string(one.Hash)); err == nil && len(sum) == sha256.Size && one.User != "" && s.over(one, now) == nil {
			s.hold([sha256.Size]byte(sum), one)
		}
	}
	s.saved = now
	return s, nil
}

// over returns why a sign-in is over, or nil.
func (s *SignIns) over(one SignIn, now time.Time) error {
	if !now.Before(one.Until) || now.Sub(one.Used) >= s.idle {
		return errSignInOver
	}
	return nil
}

func (s *SignIns) hold(sum [sha256.Size]byte, one SignIn) *signedIn {
	h := &signedIn{SignIn: one}
	h.until, h.end = context.WithCancelCause(context.Background())
	s.by[sum] = h
	return h
}

// Begin signs a browser in, and returns its cookie's new value. old is the value that it had: what
// was signed in with it ends.
func (s *SignIns) Begin(who Identity, browser, old string) (cookie string, err error) {
	cookie = rand.Text() + rand.Text() // 260 bits
	s.mu.Lock()
	defer s.mu.Unlock()
	now := parley.Now(s.now())
	sum := sha256.Sum256([]byte(cookie))
	one := SignIn{
		ID: strings.ToLower(rand.Text()[:16]), User: who.User, Org: who.Org, Name: who.Name, Issuer: who.Issuer, Orgs: who.Orgs, By: who.By,
		Browser: shownName(browser), Created: now, Used: now, Until: now.Add(s.max), Hash: parley.Digest(hex.EncodeToString(sum[:])),
	}
	before := sha256.Sum256([]byte(old))
	had := s.by[before]
	delete(s.by, before)
	h := s.hold(sum, one)
	if err := s.save(now); err != nil {
		delete(s.by, sum)
		if had != nil {
			s.by[before] = had
		}
		return "", err
	}
	if had != nil {
		had.end(errSignedOut)
	}
	s.trim(func(o *signedIn) bool { return o.User == h.User && o.Org == h.Org }, maxOfUser, maxOrgBytesOfUser)
	s.trim(func(*signedIn) bool { return true }, maxSignIns, maxOrgBytes)
	return cookie, nil
}

// trim ends the longest unused of some sign-ins until there are at most n, with at most so many bytes
// of organisations. The next save stores it.
func (s *SignIns) trim(which func(*signedIn) bool, n, bytes int) {
	var list []*signedIn
	for _, h := range s.by {
		if which(h) {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b *signedIn) int { return b.Used.Compare(a.Used) })
	for _, h := range list {
		n--
		for _, o := range h.Orgs {
			bytes -= len(o)
		}
		if n < 0 || bytes < 0 {
			s.drop(h, errSignedOut)
			s.dirty = true
		}
	}
}

func (s *SignIns) drop(h *signedIn, why error) {
	raw, _ := hex.DecodeString(string(h.Hash)) // checked when it was read
	delete(s.by, [sha256.Size]byte(raw))
	h.end(why)
}

// find returns the sign-in of a cookie, whose use is noted until done is called.
func (s *SignIns) find(cookie string) (h *signedIn, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h = s.by[sha256.Sum256([]byte(cookie))]
	if h == nil {
		return nil, nil, parley.Errorf(parley.CodeUnauthenticated, "you are not signed in any more").WithHint("sign in again")
	}
	now := parley.Now(s.now())
	if why := s.over(h.SignIn, now); why != nil {
		s.drop(h, why)
		s.dirty = true
		return nil, nil, why
	}
	s.use(h, now)
	h.open++
	return h, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		h.open--
		s.use(h, parley.Now(s.now()))
	}, nil
}

func (s *SignIns) use(h *signedIn, now time.Time) {
	if now.Sub(h.Used) >= usedEvery {
		h.Used, s.dirty = now, true
	}
}

// Of lists the sign-ins of a user, the last used first.
func (s *SignIns) Of(p parley.Principal) []SignIn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []SignIn{}
	for _, h := range s.by {
		if p.Owns(h.User, h.Org) && s.over(h.SignIn, s.now()) == nil {
			list = append(list, h.SignIn)
		}
	}
	slices.SortFunc(list, func(a, b SignIn) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.ID, b.ID)) })
	return list
}

// Revoke ends a sign-in of a user, with all that is open under it.
func (s *SignIns) Revoke(p parley.Principal, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sum, h := range s.by {
		if h.ID != id || !p.Owns(h.User, h.Org) {
			continue
		}
		delete(s.by, sum)
		if err := s.save(s.now()); err != nil {
			s.by[sum] = h // a restart would bring it back
			return err
		}
		h.end(errSignedOut)
		return nil
	}
	return parley.Errorf(parley.CodeNotFound, "there is no sign-in %q", parley.Cut(id, 60)).WithHint("GET /v1/me/signins lists yours")
}

// Watch ends sign-ins that expire, and stores when they were used, until ctx ends.
func (s *SignIns) Watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.note(s.now())
			s.mu.Unlock()
			return
		case <-tick.C:
			s.Sweep()
		}
	}
}

// Sweep ends the sign-ins that are over. One with an open request or stream is in use.
func (s *SignIns) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := parley.Now(s.now())
	for _, h := range s.by {
		if h.open > 0 {
			s.use(h, now)
		}
		if why := s.over(h.SignIn, now); why != nil {
			s.drop(h, why)
			s.dirty = true
		}
	}
	if now.Sub(s.saved) >= usedEvery {
		s.note(now)
	}
}

// note stores what changed without anybody waiting for it.
func (s *SignIns) note(now time.Time) {
	if !s.dirty {
		return
	}
	if err := s.save(now); err != nil {
		s.log.Warn("the last use of sign-ins could not be stored", "err", err)
	}
}

// save writes the file. The caller holds the lock.
func (s *SignIns) save(now time.Time) error {
	f := signInsFile{Version: 1, SignIns: []SignIn{}}
	for _, h := range s.by {
		f.SignIns = append(f.SignIns, h.SignIn)
	}
	slices.SortFunc(f.SignIns, func(a, b SignIn) int { return cmp.Compare(a.ID, b.ID) })
	s.saved = now // also of a failure: the next attempt comes a minute later, or with a change
	if err := writeFile(s.file, f); err != nil {
		return parley.Errorf(parley.CodeUnavailable, "the sign-ins cannot be written: %w", err).WithHint("check who may write to the data folder, and that it has room")
	}
	s.dirty = false
	return nil
}

// identity is who is signed in.
func (h *signedIn) identity() Identity {
	return Identity{
		Principal: parley.Principal{User: h.User, Org: h.Org}, Name: h.Name, Issuer: h.Issuer, Orgs: h.Orgs, By: h.By, Expires: h.Until,
		SignIn: h.ID, until: h.until,
	}
}

// Cookie is the name of the cookie of a sign-in, for a server that browsers reach at base. With
// https, its name makes browsers refuse one that another host or an insecure page has set (RFC
// 6265bis, 4.1.3.2). Without, which is this machine, the port distinguishes servers, since cookies
// do not.
func Cookie(base string) (name string, secure bool) {
	if strings.HasPrefix(base, "https://") {
		return "__Host-parley", true
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(base, "http://"), ":")
	port, _, _ = strings.Cut(port, "/")
	return "parley-" + cmp.Or(port, "80"), false
}

// cookie makes a cookie; one with an empty value removes it.
func cookie(name, value string, secure bool, age time.Duration) http.Cookie {
	c := http.Cookie{Name: name, Value: value, Path: "/", Secure: secure, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(age.Seconds())}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

func setCookie(w http.ResponseWriter, name, value string, secure bool, age time.Duration) {
	c := cookie(name, value, secure, age)
	http.SetCookie(w, &c)
}

// one returns the value of a cookie; "" if there is none or if there are several, of which
// somebody else may have set one.
func one(r *http.Request, name string) string {
	all := r.CookiesNamed(name)
	if len(all) != 1 {
		return ""
	}
	return all[0].Value
}

// sameSite refuses a request with a cookie that did not come from a page of this server. A cookie
// goes along with requests that any page makes, and with SameSite=Lax still with those of other
// origins on the same site, and with links from anywhere.
//
// A browser that follows a link may read. Anything else needs proof of its origin: Sec-Fetch-Site,
// which pages cannot set, or Origin. The handshake of a WebSocket is like a POST.
func sameSite(r *http.Request) error {
	safe := (r.Method == http.MethodGet || r.Method == http.MethodHead) && !strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	origins := r.Header.Values("Origin")
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case len(r.Header.Values("Sec-Fetch-Site")) > 1 || len(origins) > 1:
	case site == "same-origin":
		return nil
	case site == "none" && len(origins) == 0:
		return nil // the person typed the address
	case site != "":
		if safe && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
			return nil
		}
	case len(origins) == 0:
		if safe {
			return nil // an older browser, or no page
		}
	default:
		_, host, ok := strings.Cut(origins[0], "://")
		if ok && (strings.EqualFold(host, r.Host) || strings.EqualFold(host, r.Header.Get("X-Forwarded-Host"))) {
			return nil
		}
	}
	return parley.Errorf(parley.CodeForbidden, "a sign-in is valid for pages of this server only, and this request came from elsewhere").
		WithHint("send a key or a token as \"Authorization: Bearer ...\"")
}
