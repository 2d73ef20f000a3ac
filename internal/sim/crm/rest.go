package crm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
)

// maxBody is what a request may have.
const maxBody = 64 << 10

// problem is what is wrong with a part of a request.
type problem struct {
	Loc  []string `json:"loc"`
	Msg  string   `json:"msg"`
	Type string   `json:"type"`
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}

func refuse(w http.ResponseWriter, status int, detail string) {
	reply(w, status, map[string]string{"detail": detail})
}

func invalid(w http.ResponseWriter, list ...problem) {
	reply(w, http.StatusUnprocessableEntity, map[string]any{"detail": list})
}

func broken(w http.ResponseWriter, err error) {
	refuse(w, http.StatusInternalServerError, "The CRM has a fault: "+err.Error())
}

// MarshalJSON keeps the order of the fields.
func (r record) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range r.names {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := json.Marshal(r.values[i])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/login", s.login)
	mux.HandleFunc("POST /api/logout", s.logout)
	mux.HandleFunc("GET /api/me", s.me)
	mux.HandleFunc("GET /api/users", s.member(s.colleagues))
	for _, k := range kinds {
		at := "/api/" + k.name
		mux.HandleFunc("GET "+at, s.member(func(c *call) { s.getList(c, k) }))
		mux.HandleFunc("GET "+at+"/{id}", s.member(func(c *call) { s.getOne(c, k) }))
		mux.HandleFunc("POST "+at, s.writer(func(c *call) { s.create(c, k) }))
		mux.HandleFunc("PUT "+at+"/{id}", s.writer(func(c *call) { s.change(c, k) }))
		mux.HandleFunc("DELETE "+at+"/{id}", s.writer(func(c *call) { s.remove(c, k) }))
		if len(k.groups) > 0 {
			mux.HandleFunc("GET "+at+"/summary", s.member(func(c *call) { s.getSummary(c, k) }))
		}
	}
	mux.HandleFunc("GET /api/leads/{id}/unsubscribe", s.writer(s.unsubscribe))
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		if path, ok := strings.CutSuffix(r.URL.Path, "/"); ok && path != "/api" {
			to := *r.URL
			to.Path, to.RawPath = path, ""
			w.Header().Set("Location", to.RequestURI())
			refuse(w, http.StatusPermanentRedirect, "This is "+path+", without a slash.")
			return
		}
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := mux.Handler(other); pattern != "/api/" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			refuse(w, http.StatusMethodNotAllowed, "This can be done here: "+strings.Join(allowed, ", ")+".")
			return
		}
		refuse(w, http.StatusNotFound, "There is nothing here.")
	})
	return mux
}

// read reads a JSON body.
func (s *Server) read(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "Send JSON, with Content-Type: application/json.")
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("Send at most %d bytes.", tooLarge.Limit))
		return nil, false
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "The request was cut off.")
		return nil, false
	}
	return body, true
}

func (s *Server) getList(c *call, k *kind) {
	q := k.ask(c.org, c.r.URL.Query(), false)
	if len(q.wrong) > 0 {
		invalid(c.w, q.wrong...)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	items, total, err := s.list(k, q)
	if err != nil {
		broken(c.w, err)
		return
	}
	reply(c.w, http.StatusOK, map[string]any{"items": items, "total": total, "page": q.page, "page_size": q.size, "pages": (total + q.size - 1) / q.size})
}

func (s *Server) getSummary(c *call, k *kind) {
	q := k.ask(c.org, c.r.URL.Query(), true)
	if len(q.wrong) > 0 {
		invalid(c.w, q.wrong...)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	items, err := s.summary(k, q)
	if err != nil {
		broken(c.w, err)
		return
	}
	total := 0
	for _, g := range items {
		total += g.Count
	}
	reply(c.w, http.StatusOK, map[string]any{"items": items, "total": total, "group_by": q.group.name, "sum_of": k.sum})
}

// one returns the record that a request names. The caller holds mu.
func (s *Server) one(c *call, k *kind) (r record, ok bool) {
	r, ok, err := s.find(k, c.org, c.r.PathValue("id"))
	switch {
	case err != nil:
		broken(c.w, err)
	case !ok:
		refuse(c.w, http.StatusNotFound, "There is no such "+k.one+".")
	default:
		return r, true
	}
	return r, false
}

func (s *Server) getOne(c *call, k *kind) {
	q := &query{seen: map[string]bool{}}
	v := c.r.URL.Query()
	if q.choose(k, v); len(q.wrong) > 0 {
		invalid(c.w, q.wrong...)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.one(c, k)
	if !ok {
		return
	}
	chosen := record{names: q.fields}
	for _, name := range q.fields {
		chosen.values = append(chosen.values, r.get(name))
	}
	reply(c.w, http.StatusOK, chosen)
}

func (s *Server) create(c *call, k *kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.keyed {
		c.key = strings.Trim(c.r.Header.Get("Idempotency-Key"), `"`)
		if len(c.key) > 255 {
			invalid(c.w, problem{[]string{"header", "Idempotency-Key"}, "Give at most 255 characters.", "too_long"})
			return
		}
		if c.key != "" && s.replayed(c) {
			return
		}
	}
	values, wrong, err := s.check(k, c, nil)
	if err != nil {
		broken(c.w, err)
		return
	}
	if len(wrong) > 0 {
		invalid(c.w, wrong...)
		return
	}
	if other := s.taken(k, c.org, "", values); other != "" {
		refuse(c.w, http.StatusConflict, "The lead "+other+" has this email.")
		return
	}
	now := stamp(s.o.Now())
	values["created_at"], values["updated_at"] = now, now
	if k.name == "notes" {
		values["author_id"] = c.who.ID
	}
	var made record
	err = s.together(func() error {
		id, err := s.insert(k, c.org, values)
		if err != nil {
			return err
		}
		if made, _, err = s.find(k, c.org, id); err != nil || c.key == "" {
			return err
		}
		body, err := json.Marshal(made)
		if err != nil {
			return err
		}
		return s.exec(`INSERT INTO keys (user, org, key, at, request, status, body) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			c.who.ID, c.org, c.key, s.o.Now().Unix(), c.fingerprint(), http.StatusCreated, string(body))
	})
	if err != nil {
		broken(c.w, err)
		return
	}
	s.wrote(c)
	c.w.Header().Set("Location", fmt.Sprint("/api/", k.name, "/", made.get("id")))
	reply(c.w, http.StatusCreated, made)
}

func (c *call) fingerprint() string {
	return digest(c.r.Method + " " + c.r.URL.Path + "\n" + string(c.body))
}

// replayed answers a request that was made before with the same key. The caller holds mu.
func (s *Server) replayed(c *call) bool {
	var request, body string
	status := 0
	err := s.exec(`DELETE FROM keys WHERE at < ?`, s.o.Now().Add(-24*time.Hour).Unix())
	if err == nil {
		err = s.rows(`SELECT request, status, body FROM keys WHERE user = ? AND org = ? AND key = ?`, func(row *sqlite.Stmt) error {
			request, status, body = row.ColumnText(0), row.ColumnInt(1), row.ColumnText(2)
			return nil
		}, c.who.ID, c.org, c.key)
	}
	switch {
	case err != nil:
		broken(c.w, err)
	case status == 0:
		return false
	case request != c.fingerprint():
		invalid(c.w, problem{[]string{"header", "Idempotency-Key"}, "The key belongs to another request.", "reused"})
	default:
		s.counts.Replays++
		c.w.Header().Set("Idempotent-Replayed", "true")
		reply(c.w, status, json.RawMessage(body))
	}
	return true
}

func (s *Server) change(c *call, k *kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.one(c, k)
	if !ok {
		return
	}
	values, wrong, err := s.check(k, c, &was)
	if err != nil {
		broken(c.w, err)
		return
	}
	if len(wrong) > 0 {
		invalid(c.w, wrong...)
		return
	}
	id := fmt.Sprint(was.get("id"))
	if other := s.taken(k, c.org, id, values); other != "" {
		refuse(c.w, http.StatusConflict, "The lead "+other+" has this email.")
		return
	}
	s.put(c, k, id, values)
}

// put changes a record and answers with it. The caller holds mu.
func (s *Server) put(c *call, k *kind, id string, values map[string]any) {
	values["updated_at"] = stamp(s.o.Now())
	var now record
	err := s.together(func() (err error) {
		if err = s.update(k, id, values); err == nil {
			now, _, err = s.find(k, c.org, id)
		}
		return err
	})
	if err != nil {
		broken(c.w, err)
		return
	}
	s.wrote(c)
	reply(c.w, http.StatusOK, now)
}

func (s *Server) unsubscribe(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := kindOf("leads")
	was, ok := s.one(c, k)
	switch {
	case !ok:
	case c.r.Method == http.MethodHead:
		reply(c.w, http.StatusOK, was)
	default:
		s.put(c, k, fmt.Sprint(was.get("id")), map[string]any{"unsubscribed": true})
	}
}

func (s *Server) remove(c *call, k *kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.one(c, k)
	if !ok {
		return
	}
	id := fmt.Sprint(was.get("id"))
	if k.name == "companies" {
		n := 0
		if err := s.rows(`SELECT count(*) FROM leads WHERE company_id = ?`, func(row *sqlite.Stmt) error { n = row.ColumnInt(0); return nil }, id); err != nil {
			broken(c.w, err)
			return
		}
		if n > 0 {
			refuse(c.w, http.StatusConflict, fmt.Sprintf("The company has %d leads. Delete them or give them another company first.", n))
			return
		}
	}
	err := s.together(func() error {
		if k.name != "notes" {
			if err := s.exec("DELETE FROM notes WHERE "+k.one+"_id = ?", id); err != nil {
				return err
			}
		}
		if k.name == "projects" {
			if err := s.exec("UPDATE leads SET project_id = NULL WHERE project_id = ?", id); err != nil {
				return err
			}
		}
		return s.exec("DELETE FROM "+k.name+" WHERE id = ?", id)
	})
	if err != nil {
		broken(c.w, err)
		return
	}
	s.wrote(c)
	c.w.WriteHeader(http.StatusNoContent)
}
