package crm

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
)

// Role says what a member may do. Only viewers may not write.
type Role string

// Roles.
const (
	Admin  Role = "admin"
	Editor Role = "editor"
	Viewer Role = "viewer"
)

// Org is an organisation that a user belongs to.
type Org struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role Role   `json:"role"`
}

// User is somebody who may log in.
type User struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Email    string `json:"email"`
	Password string `json:"-"`
	Title    string `json:"-"`
	Orgs     []Org  `json:"orgs"`
}

// The organisations.
const (
	Fieldnote = "org_fieldnote"
	Cargolane = "org_cargolane"
)

var orgs = map[string]string{Fieldnote: "Fieldnote", Cargolane: "Cargolane"}

func in(org string, role Role) Org { return Org{org, orgs[org], role} }

var users = []User{
	{"user_mara", "Mara Lindqvist", "mara@fieldnote.example", "demo", "Head of Sales, Fieldnote", []Org{in(Fieldnote, Admin), in(Cargolane, Editor)}},
	{"user_jonas", "Jonas Weber", "jonas@fieldnote.example", "demo", "Account Executive, Fieldnote", []Org{in(Fieldnote, Editor)}},
	{"user_aiko", "Aiko Tanaka", "aiko@fieldnote.example", "demo", "Analyst, Fieldnote; reads only", []Org{in(Fieldnote, Viewer)}},
	{"user_ruben", "Ruben de Vries", "ruben@cargolane.example", "demo", "Founder, Cargolane", []Org{in(Cargolane, Admin)}},
	{"user_priya", "Priya Nair", "priya@cargolane.example", "demo", "Growth Lead, Cargolane", []Org{in(Cargolane, Editor)}},
}

// Users returns those who may log in.
func Users() []User { return slices.Clone(users) }

func userOf(match func(User) bool) (User, bool) {
	i := slices.IndexFunc(users, match)
	if i < 0 {
		return User{}, false
	}
	return users[i], true
}

// role is what u is in an organisation.
func (u User) role(org string) (Role, bool) {
	for _, o := range u.Orgs {
		if o.ID == org {
			return o.Role, true
		}
	}
	return "", false
}

// call is a request of a user.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	who  User
	org  string
	role Role
	body []byte
	key  string
	till time.Time // when the login ends; zero: that is the issuer's business
}

// window counts requests of one minute.
type window struct {
	from time.Time
	n    int
}

// busy counts a request, and says how long to wait if there were too many. The caller holds mu.
func (s *Server) busy(who string, most int) (wait time.Duration) {
	now := s.o.Now()
	if len(s.used) > 10_000 {
		clear(s.used)
	}
	w := s.used[who]
	if w == nil || now.Sub(w.from) >= time.Minute {
		w = &window{from: now}
		s.used[who] = w
	}
	if w.n >= most {
		s.counts.Throttled++
		return w.from.Add(time.Minute).Sub(now)
	}
	w.n++
	return 0
}

func throttle(w http.ResponseWriter, wait time.Duration) {
	after := max(1, int(math.Ceil(wait.Seconds())))
	w.Header().Set("Retry-After", strconv.Itoa(after))
	refuse(w, http.StatusTooManyRequests, fmt.Sprintf("Too many requests. Try again in %d s.", after))
}

func (s *Server) perMinute() int {
	if s.set.PerMinute > 0 {
		return s.set.PerMinute
	}
	return 300
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Token logs a user in without a request, and returns the token.
func (s *Server) Token(email string) (string, error) {
	u, ok := userOf(func(u User) bool { return u.Email == email })
	if !ok {
		return "", fmt.Errorf("there is no user %s", email)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	token, _, err := s.issue(u)
	return token, err
}

// issue makes a token. The caller holds mu.
func (s *Server) issue(u User) (token string, till time.Time, err error) {
	token = "crm_" + rand.Text() + rand.Text()
	ttl := s.o.TokenTTL
	if ttl <= 0 {
		ttl = 8 * time.Hour
	}
	now := s.o.Now()
	till = now.Add(ttl).UTC().Truncate(time.Second)
	if err = s.exec(`DELETE FROM tokens WHERE until < ?`, now.Unix()); err == nil {
		err = s.exec(`INSERT INTO tokens (digest, user, until) VALUES (?, ?, ?)`, digest(token), u.ID, till.Unix())
	}
	return token, till, err
}

// EndTokens ends all logins.
func (s *Server) EndTokens() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exec(`DELETE FROM tokens`)
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Email, Password string }
	body, ok := s.read(w, r)
	if !ok {
		return
	}
	if err := json.Unmarshal(body, &in); err != nil {
		invalid(w, problem{[]string{"body"}, "Give an object with email and password.", "type"})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait := s.busy("login "+strings.ToLower(in.Email), 10); wait > 0 {
		throttle(w, wait)
		return
	}
	u, ok := userOf(func(u User) bool { return strings.EqualFold(u.Email, in.Email) })
	if !ok || u.Password != in.Password {
		refuse(w, http.StatusUnauthorized, "The email or the password is wrong.")
		return
	}
	token, till, err := s.issue(u)
	if err != nil {
		broken(w, err)
		return
	}
	s.counts.Logins++
	delete(s.used, "login "+strings.ToLower(in.Email))
	reply(w, http.StatusOK, map[string]any{"token": token, "token_type": "bearer", "expires_at": till.Format(time.RFC3339), "user": u})
}

// person identifies who calls, and counts the request.
func (s *Server) person(w http.ResponseWriter, r *http.Request) (c *call, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	no := func(why string) (*call, bool) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="crm"`)
		refuse(w, http.StatusUnauthorized, why)
		return nil, false
	}
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return no("Send the token of a login as Authorization: Bearer.")
	}
	c = &call{w: w, r: r}
	if strings.HasPrefix(token, "crm_") || s.o.Trust == nil {
		id, until, err := s.loggedIn(token)
		if err != nil {
			broken(w, err)
			return nil, false
		}
		if c.who, ok = userOf(func(u User) bool { return u.ID == id }); !ok {
			return no("The token is unknown or has expired. Log in again.")
		}
		c.till = until
	} else {
		email, err := s.o.Trust(r.Context(), token)
		if err != nil {
			return no("The token is not accepted.")
		}
		if c.who, ok = userOf(func(u User) bool { return strings.EqualFold(u.Email, email) }); !ok {
			return no("The token is of somebody who has no account here.")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait := s.busy(c.who.ID, s.perMinute()); wait > 0 {
		throttle(w, wait)
		return nil, false
	}
	return c, true
}

func (s *Server) loggedIn(token string) (user string, until time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.rows(`SELECT user, until FROM tokens WHERE digest = ? AND until > ?`, func(row *sqlite.Stmt) error {
		user, until = row.ColumnText(0), time.Unix(row.ColumnInt64(1), 0).UTC()
		return nil
	}, digest(token), s.o.Now().Unix())
	return user, until, err
}

// member identifies who calls, and for which organisation.
func (s *Server) member(h func(c *call)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, ok := s.person(w, r)
		if !ok {
			return
		}
		asked := r.Header.Values("X-Org-Id")
		switch {
		case len(asked) > 1:
			invalid(w, problem{[]string{"header", "X-Org-Id"}, "Give one organisation.", "value"})
			return
		case len(asked) == 1 && asked[0] != "":
			c.org = asked[0]
		case len(c.who.Orgs) == 1:
			c.org = c.who.Orgs[0].ID
		default:
			invalid(w, problem{[]string{"header", "X-Org-Id"}, "Say for which of your organisations.", "missing"})
			return
		}
		if c.role, ok = c.who.role(c.org); !ok {
			refuse(w, http.StatusForbidden, "You are not a member of this organisation.")
			return
		}
		h(c)
	}
}

// writer is member for those who may write; it reads the body.
func (s *Server) writer(h func(c *call)) http.HandlerFunc {
	return s.member(func(c *call) {
		if c.role == Viewer {
			refuse(c.w, http.StatusForbidden, "You may read here, and not change anything.")
			return
		}
		if c.r.Method == http.MethodPost || c.r.Method == http.MethodPut {
			var ok bool
			if c.body, ok = s.read(c.w, c.r); !ok {
				return
			}
		}
		h(c)
	})
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	c, ok := s.person(w, r)
	if !ok {
		return
	}
	_, token, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.exec(`DELETE FROM tokens WHERE digest = ?`, digest(strings.TrimSpace(token))); err != nil {
		broken(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) me(w http.ResponseWriter, r *http.Request) {
	c, ok := s.person(w, r)
	if !ok {
		return
	}
	var until any
	if !c.till.IsZero() {
		until = c.till.Format(time.RFC3339)
	}
	reply(w, http.StatusOK, map[string]any{"id": c.who.ID, "name": c.who.Name, "email": c.who.Email, "orgs": c.who.Orgs, "expires_at": until})
}

func (s *Server) colleagues(c *call) {
	list := []any{}
	for _, u := range users {
		if role, ok := u.role(c.org); ok {
			list = append(list, map[string]any{"id": u.ID, "name": u.Name, "email": u.Email, "role": role, "you": u.ID == c.who.ID})
		}
	}
	reply(c.w, http.StatusOK, map[string]any{"items": list, "total": len(list)})
}
