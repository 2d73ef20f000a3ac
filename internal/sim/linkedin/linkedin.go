// Package linkedin simulates LinkedIn on loopback, for tests and demonstrations: logins, posts,
// comments and replies.
//
// It is as strict as the service is known to be. Requests need a version that is active, the
// protocol version and fully encoded keys. The text of a post is "little text", and is cut without
// an error at a reserved character that is not escaped. A post may be named by its share or by its
// activity, which have different numbers. Limits are answered without saying when they end.
// Nothing is idempotent. One server stands for both hosts of the service.
package linkedin

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limits of texts, in characters.
const (
	MaxPost    = 3000
	MaxComment = 1250
)

// Settings are what a test may change with [Server.Set].
type Settings struct {
	// Versions are those that are active. Nil: the last twelve months.
	Versions []string
	// Reading says that the app may ask for r_member_social, which reads posts and comments back.
	Reading bool
	// Refreshing says that the app gets refresh tokens, as LinkedIn's partners do.
	Refreshing bool
	// Consent makes the consent page answer by itself: "allow" or "cancel", for Member. Empty: the
	// page waits for a person.
	Consent string
	// Member is who is logged in in the browser if the page's answer names nobody.
	Member string
	// PerDay limits what a member may post on one day (UTC), and the comments likewise. 0: 150.
	PerDay int
	// Down makes everything answer 503.
	Down bool
}

// Options of [New].
type Options struct {
	ClientID, ClientSecret string
	Redirects              []string // the addresses that are registered
	// Back is a path that is registered at every address of this machine, beside Redirects.
	// Empty: there is none.
	Back     string
	Members  []Member
	Settings Settings
	// Posts and Comments are there in the beginning.
	Posts    []Post
	Comments []Comment
	// Chatter is what others say about each post that a member makes: two of these, in turn. A
	// remark has the id of who says it, and the text.
	Chatter [][2]string
	// File keeps what has happened, for the next process. Empty: nothing is kept.
	File string
	Now  func() time.Time // nil: time.Now
}

// Member is somebody who uses LinkedIn.
type Member struct{ ID, Name, Email string }

// URN is the member's name in requests.
func (m Member) URN() string { return "urn:li:person:" + m.ID }

// Fault disturbs matching requests.
type Fault struct {
	Method, Path string // Path is a part of the path; empty: all
	Times        int    // how often; 0: once
	// Lost carries the request out and closes the connection instead of answering.
	Lost bool
	// Status is answered instead of carrying the request out; 0 with Lost unset: the connection is
	// closed before anything is done.
	Status int
	// After is called when the request was carried out and before it is answered.
	After func()
}

// Counts are what has happened.
type Counts struct{ Requests, Logins, Refreshes, Posts, Comments, Duplicates, Throttled int }

// Post is a post as its readers see it.
type Post struct {
	URN, Activity, Author string
	Text                  string // as it is shown
	Commentary            string // as it was sent
	At                    time.Time
	Deleted               bool
}

// Comment is a comment or a reply.
type Comment struct {
	ID, URN, Actor, Object string
	Parent                 string // of a reply
	Text                   string
	At                     time.Time
}

// Server implements [http.Handler]. It is safe for concurrent use.
type Server struct {
	o Options

	mu       sync.Mutex
	set      Settings
	counts   Counts
	faults   []*Fault
	codes    map[string]*grant
	tokens   map[string]*token
	renewals map[string]*token
	posts    []*Post
	comments []*Comment
	used     map[string]int // by day, member and kind
	next     int64
}

// New makes a server. It panics if its file cannot be read.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{
		o: o, set: o.Settings, codes: map[string]*grant{}, tokens: map[string]*token{}, renewals: map[string]*token{}, used: map[string]int{},
		next: 7_012_345_678_900_000_000,
	}
	for _, p := range o.Posts {
		s.posts = append(s.posts, &p)
	}
	for _, c := range o.Comments {
		s.comments = append(s.comments, &c)
	}
	if o.File != "" {
		if err := s.load(); err != nil {
			panic(fmt.Errorf("read %s: %w", o.File, err))
		}
	}
	return s
}

// Set changes the settings.
func (s *Server) Set(f func(*Settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.set)
}

// Fail adds a fault.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = max(1, f.Times)
	s.faults = append(s.faults, &f)
}

// Counts returns what has happened so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Posts returns all posts, the oldest first.
func (s *Server) Posts() (list []Post) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.posts {
		list = append(list, *p)
	}
	return list
}

// Comments returns all comments and replies, the oldest first.
func (s *Server) Comments() (list []Comment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.comments {
		list = append(list, *c)
	}
	return list
}

// Say adds a comment that somebody else makes on a post, and returns its URN.
func (s *Server) Say(member, post, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.post(post)
	if p == nil {
		return ""
	}
	return s.comment("urn:li:person:"+member, p.Activity, "", text).URN
}

func (s *Server) member(id string) (Member, bool) {
	i := slices.IndexFunc(s.o.Members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}, false
	}
	return s.o.Members[i], true
}

func (s *Server) id() string {
	s.next += 1_000_003
	return strconv.FormatInt(s.next, 10)
}

// versions returns those that are active.
func (s *Server) versions() (list []string) {
	if s.set.Versions != nil {
		return s.set.Versions
	}
	now := s.o.Now().UTC()
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for i := range 12 {
		list = append(list, first.AddDate(0, -i, 0).Format("200601"))
	}
	return list
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.counts.Requests++
	f := s.fault(r)
	down := s.set.Down
	s.mu.Unlock()
	switch {
	case down:
		refuse(w, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", 0, "Service unavailable")
		return
	case f != nil && f.Status != 0:
		refuse(w, f.Status, strings.ToUpper(strings.ReplaceAll(http.StatusText(f.Status), " ", "_")), 0, http.StatusText(f.Status))
		return
	case f != nil && !f.Lost && f.After == nil:
		panic(http.ErrAbortHandler)
	}
	out := &answer{header: http.Header{}}
	s.route(out, r)
	if f != nil && f.After != nil {
		f.After()
	}
	if f != nil && f.Lost {
		panic(http.ErrAbortHandler)
	}
	for name, values := range out.header {
		w.Header()[name] = values
	}
	w.WriteHeader(cmp.Or(out.status, http.StatusOK))
	_, _ = w.Write(out.body)
}

// answer is an answer that may still be lost.
type answer struct {
	header http.Header
	status int
	body   []byte
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { a.body = append(a.body, b...); return len(b), nil }

func (s *Server) fault(r *http.Request) *Fault {
	for i, f := range s.faults {
		if (f.Method == "" || f.Method == r.Method) && strings.Contains(r.URL.Path, f.Path) {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
			return f
		}
	}
	return nil
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodGet || s.set.Consent != "" {
		defer func() {
			if err := s.save(); err != nil {
				panic(err)
			}
		}()
	}
	path := r.URL.EscapedPath()
	switch {
	case path == "/oauth/v2/authorization" && (r.Method == http.MethodGet || r.Method == http.MethodPost):
		s.authorize(w, r)
	case path == "/oauth/v2/accessToken" && r.Method == http.MethodPost:
		s.accessToken(w, r)
	case path == "/oauth/v2/introspectToken" && r.Method == http.MethodPost:
		s.introspect(w, r)
	case path == "/v2/userinfo" && r.Method == http.MethodGet:
		s.userinfo(w, r)
	case strings.HasPrefix(path, "/rest/"):
		s.rest(w, r, strings.Split(strings.TrimPrefix(path, "/rest/"), "/"))
	default:
		refuse(w, http.StatusNotFound, "RESOURCE_NOT_FOUND", 0, "No virtual resource found")
	}
}

// rest checks what all versioned requests need.
func (s *Server) rest(w http.ResponseWriter, r *http.Request, path []string) {
	version := r.Header.Get("LinkedIn-Version")
	switch {
	case version == "":
		refuse(w, http.StatusBadRequest, "VERSION_MISSING", 0, "A version must be present. Please specify a version by adding the Linkedin-Version header.")
		return
	case !slices.Contains(s.versions(), version):
		refuse(w, http.StatusUpgradeRequired, "NONEXISTENT_VERSION", 0, fmt.Sprintf("Requested version %s.01 is not active", version))
		return
	}
	t := s.bearer(w, r)
	if t == nil {
		return
	}
	if r.Header.Get("X-Restli-Protocol-Version") != "2.0.0" {
		refuse(w, http.StatusBadRequest, "ILLEGAL_ARGUMENT", 0, "Syntax exception in path variables: X-RestLi-Protocol-Version 2.0.0 is required")
		return
	}
	for i, raw := range path {
		key, err := url.PathUnescape(raw)
		if err != nil || strings.ContainsAny(raw, ":,()'") {
			refuse(w, http.StatusBadRequest, "ILLEGAL_ARGUMENT", 0, "Syntax exception in path variables")
			return
		}
		path[i] = key
	}
	body := map[string]json.RawMessage{}
	if r.Method == http.MethodPost {
		if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", 0, "Content-Type must be application/json")
			return
		}
		if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<20)).Decode(&body); err != nil {
			refuse(w, http.StatusBadRequest, "BAD_REQUEST", 0, "Cannot parse request entity")
			return
		}
	}
	method := strings.ToLower(r.Header.Get("X-RestLi-Method"))
	switch {
	case path[0] == "posts" && len(path) == 1 && r.Method == http.MethodPost && (method == "" || method == "create"):
		s.create(w, t, body)
	case path[0] == "posts" && len(path) == 1 && r.Method == http.MethodGet && (method == "" || method == "finder"):
		s.find(w, r, t)
	case path[0] == "posts" && len(path) == 2 && r.Method == http.MethodGet:
		s.get(w, t, path[1])
	case path[0] == "posts" && len(path) == 2 && r.Method == http.MethodDelete:
		s.remove(w, t, path[1])
	case path[0] == "socialActions" && len(path) == 3 && path[2] == "comments" && r.Method == http.MethodPost && (method == "" || method == "create"):
		s.say(w, t, path[1], body)
	case path[0] == "socialActions" && len(path) >= 3 && len(path) <= 4 && path[2] == "comments" && r.Method == http.MethodGet:
		s.read(w, r, t, path[1], path[3:])
	case path[0] == "posts" || path[0] == "socialActions":
		refuse(w, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", 0, "Method not allowed")
	default:
		refuse(w, http.StatusNotFound, "RESOURCE_NOT_FOUND", 0, "No virtual resource found")
	}
}

// throttled counts what a member does, and answers if it is too much.
func (s *Server) throttled(w http.ResponseWriter, member, kind string) bool {
	key := s.o.Now().UTC().Format(time.DateOnly) + " " + member + " " + kind
	if s.used[key] >= cmp.Or(s.set.PerDay, 150) {
		s.counts.Throttled++
		refuse(w, http.StatusTooManyRequests, "TOO_MANY_REQUESTS", 0, "Resource level throttle MEMBER DAY limit for calls to this resource is reached.")
		return true
	}
	s.used[key]++
	return false
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, code string, service int, message string) {
	m := map[string]any{"status": status, "code": code, "message": message}
	if service != 0 {
		m["serviceErrorCode"] = service
	}
	reply(w, status, m)
}

// invalid is the answer about a field.
func invalid(w http.ResponseWriter, status int, field, code, description string) {
	reply(w, status, map[string]any{
		"status": status, "code": code, "message": description,
		"errorDetails": map[string]any{"inputErrors": []any{map[string]any{
			"description": description, "code": code, "input": map[string]any{"inputPath": map[string]any{"fieldPath": field}},
		}}},
	})
}

func random(prefix string) string { return prefix + rand.Text() + rand.Text() }
