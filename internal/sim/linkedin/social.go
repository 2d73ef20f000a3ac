package linkedin

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// reserved are the characters of little text that must be escaped.
const reserved = `\()[]{}<>_*~|@#`

// Shown returns how the service shows a little text. At a reserved character that is neither
// escaped nor the beginning of a hashtag or a mention, the text ends.
func Shown(little string) string {
	var b strings.Builder
	for i := 0; i < len(little); {
		c, size := utf8.DecodeRuneInString(little[i:])
		rest := little[i+size:]
		switch {
		case c == '\\' && rest != "" && strings.ContainsRune(reserved, rune(rest[0])):
			b.WriteByte(rest[0])
			size++
		case c == '#' && rest != "":
			if next, _ := utf8.DecodeRuneInString(rest); !unicode.IsLetter(next) && !unicode.IsDigit(next) {
				return b.String()
			}
			b.WriteByte('#')
		case c == '@' && strings.HasPrefix(rest, "["):
			name, more, ok := strings.Cut(rest[1:], "](urn:li:")
			_, after, closed := strings.Cut(more, ")")
			if !ok || !closed {
				return b.String()
			}
			b.WriteString(name)
			i = len(little) - len(after)
			continue
		case strings.ContainsRune(reserved, c):
			return b.String()
		default:
			b.WriteRune(c)
		}
		i += size
	}
	return b.String()
}

// post finds a post by its share or its activity.
func (s *Server) post(urn string) *Post {
	i := slices.IndexFunc(s.posts, func(p *Post) bool { return !p.Deleted && (p.URN == urn || p.Activity == urn) })
	if i < 0 {
		return nil
	}
	return s.posts[i]
}

func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

func (s *Server) create(w http.ResponseWriter, t *token, body map[string]json.RawMessage) {
	me, commentary := "urn:li:person:"+t.member, text(body["commentary"])
	var spread struct {
		FeedDistribution string `json:"feedDistribution"`
	}
	_ = json.Unmarshal(body["distribution"], &spread)
	for field := range body {
		if !slices.Contains([]string{"author", "commentary", "visibility", "distribution", "lifecycleState", "isReshareDisabledByAuthor", "content", "reshareContext"}, field) {
			invalid(w, http.StatusUnprocessableEntity, field, "UNRECOGNIZED_FIELD", "unrecognized field found but not allowed")
			return
		}
	}
	switch {
	case !t.may("w_member_social"):
		denied(w, "partnerApiPostsExternal.CREATE.20260101")
		return
	case text(body["author"]) != me:
		denied(w, "partnerApiPostsExternal.CREATE: author does not match the member")
		return
	case commentary == "":
		invalid(w, http.StatusUnprocessableEntity, "commentary", "MISSING_FIELD", "field is required but not found and has no default value")
		return
	case !slices.Contains([]string{"PUBLIC", "CONNECTIONS", "LOGGED_IN"}, text(body["visibility"])):
		invalid(w, http.StatusUnprocessableEntity, "visibility", "INVALID_VALUE", "is not a member of the enum")
		return
	case spread.FeedDistribution != "MAIN_FEED" && spread.FeedDistribution != "NONE":
		invalid(w, http.StatusUnprocessableEntity, "distribution", "MISSING_FIELD", "feedDistribution is required")
		return
	case text(body["lifecycleState"]) != "PUBLISHED":
		invalid(w, http.StatusUnprocessableEntity, "lifecycleState", "INVALID_VALUE", "must be PUBLISHED")
		return
	}
	shown := Shown(commentary)
	if runes := []rune(shown); len(runes) > MaxPost { // silently
		shown = string(runes[:MaxPost])
	}
	for _, p := range s.posts {
		if p.Author == me && !p.Deleted && p.Text == shown {
			s.counts.Duplicates++
			invalid(w, http.StatusUnprocessableEntity, "commentary", "DUPLICATE_POST", "Content is a duplicate of "+p.URN)
			return
		}
	}
	if s.throttled(w, me, "posts") {
		return
	}
	p := &Post{URN: "urn:li:share:" + s.id(), Activity: "urn:li:activity:" + s.id(), Author: me, Text: shown, Commentary: commentary, At: s.o.Now()}
	s.posts = append(s.posts, p)
	s.counts.Posts++
	for i := range min(2, len(s.o.Chatter)) {
		said := s.o.Chatter[(2*len(s.posts)+i)%len(s.o.Chatter)]
		s.comment("urn:li:person:"+said[0], p.Activity, "", said[1])
	}
	w.Header().Set("X-Restli-Id", p.URN)
	w.WriteHeader(http.StatusCreated)
}

func (p *Post) wire() map[string]any {
	at := p.At.UnixMilli()
	return map[string]any{
		"id": p.URN, "author": p.Author, "commentary": p.Commentary, "visibility": "PUBLIC", "lifecycleState": "PUBLISHED",
		"createdAt": at, "publishedAt": at, "lastModifiedAt": at, "distribution": map[string]any{"feedDistribution": "MAIN_FEED"},
	}
}

func (s *Server) find(w http.ResponseWriter, r *http.Request, t *token) {
	q := r.URL.Query()
	author := q.Get("author")
	for part := range strings.SplitSeq(r.URL.RawQuery, "&") {
		if name, raw, _ := strings.Cut(part, "="); name == "author" && strings.ContainsAny(raw, ":(),'") {
			refuse(w, http.StatusBadRequest, "ILLEGAL_ARGUMENT", 0, "Invalid query parameters passed to request")
			return
		}
	}
	switch {
	case q.Get("q") != "author" || author == "":
		refuse(w, http.StatusBadRequest, "ILLEGAL_ARGUMENT", 0, "Invalid query parameters passed to request")
		return
	case !t.may("r_member_social") || author != "urn:li:person:"+t.member:
		denied(w, "partnerApiPostsExternal.FINDER-author.20260101")
		return
	}
	var list []any
	for _, p := range slices.Backward(s.posts) {
		if p.Author == author && !p.Deleted {
			list = append(list, p.wire())
		}
	}
	s.page(w, r, list)
}

// page answers with a part of a list.
func (s *Server) page(w http.ResponseWriter, r *http.Request, list []any) {
	start, _ := strconv.Atoi(r.URL.Query().Get("start"))
	count, _ := strconv.Atoi(r.URL.Query().Get("count"))
	if count <= 0 {
		count = 10
	}
	count, start = min(count, 100), max(0, min(start, len(list)))
	part := append([]any{}, list[start:min(len(list), start+count)]...)
	reply(w, http.StatusOK, map[string]any{"elements": part, "paging": map[string]any{"start": start, "count": count, "total": len(list), "links": []any{}}})
}

func (s *Server) get(w http.ResponseWriter, t *token, urn string) {
	p := s.post(urn)
	switch {
	case !t.may("r_member_social"):
		denied(w, "partnerApiPostsExternal.GET.20260101")
	case p == nil:
		refuse(w, http.StatusNotFound, "NOT_FOUND", 0, "Entity not found: "+urn)
	default:
		reply(w, http.StatusOK, p.wire())
	}
}

func (s *Server) remove(w http.ResponseWriter, t *token, urn string) {
	p := s.post(urn)
	if p != nil && p.Author != "urn:li:person:"+t.member {
		denied(w, "partnerApiPostsExternal.DELETE.20260101")
		return
	}
	if p != nil {
		p.Deleted = true
	}
	w.WriteHeader(http.StatusNoContent)
}

// target finds what a comment is about: a post, or a comment on it.
func (s *Server) target(urn string) (p *Post, c *Comment) {
	if i := slices.IndexFunc(s.comments, func(c *Comment) bool { return c.URN == urn }); i >= 0 {
		return s.post(s.comments[i].Object), s.comments[i]
	}
	return s.post(urn), nil
}

func (s *Server) comment(actor, activity, parent, text string) *Comment {
	id := s.id()
	c := &Comment{ID: id, URN: "urn:li:comment:(" + activity + "," + id + ")", Actor: actor, Object: activity, Parent: parent, Text: text, At: s.o.Now().Truncate(time.Millisecond)}
	s.comments = append(s.comments, c)
	return c
}

func (s *Server) say(w http.ResponseWriter, t *token, target string, body map[string]json.RawMessage) {
	me := "urn:li:person:" + t.member
	var message struct{ Text string }
	_ = json.Unmarshal(body["message"], &message)
	p, on := s.target(target)
	parent, object := text(body["parentComment"]), s.post(text(body["object"]))
	bad := func(field, text string) { invalid(w, http.StatusBadRequest, field, "INVALID_VALUE", text) }
	switch n := utf8.RuneCountInString(message.Text); {
	case !t.may("w_member_social"):
		denied(w, "partnerApiSocialActions.CREATE.20260101")
	case text(body["actor"]) != me:
		denied(w, "partnerApiSocialActions.CREATE: actor does not match the member")
	case p == nil:
		refuse(w, http.StatusNotFound, "NOT_FOUND", 0, "Could not find the entity "+target)
	case object != p:
		bad("object", "object is not the thread's post")
	case on == nil && parent != "":
		bad("parentComment", "a reply is posted to its parent comment")
	case on != nil && parent != on.URN:
		bad("parentComment", "parentComment must be the comment of the path")
	case on != nil && on.Parent != "":
		bad("parentComment", "Comments can be nested only one level deep")
	case n == 0 || n > MaxComment:
		bad("message", "text must have 1 to 1250 characters")
	case s.throttled(w, me, "comments"):
	default:
		c := s.comment(me, p.Activity, parent, message.Text)
		s.counts.Comments++
		w.Header().Set("X-Restli-Id", url.QueryEscape(c.ID))
		reply(w, http.StatusCreated, c.wire())
	}
}

func (c *Comment) wire() map[string]any {
	stamp := map[string]any{"actor": c.Actor, "time": c.At.UnixMilli()}
	m := map[string]any{
		"id": c.ID, "commentUrn": c.URN, "actor": c.Actor, "object": c.Object, "created": stamp, "lastModified": stamp,
		"message": map[string]any{"text": c.Text, "attributes": []any{}},
	}
	if c.Parent != "" {
		m["parentComment"] = c.Parent
	}
	return m
}

// summed is a comment as it is read: with how many replies it has.
func (s *Server) summed(c *Comment) map[string]any {
	n := 0
	for _, o := range s.comments {
		if o.Parent == c.URN {
			n++
		}
	}
	m := c.wire()
	m["commentsSummary"] = map[string]any{"totalFirstLevelComments": n, "aggregatedTotalComments": n}
	return m
}

// read lists the comments of a post or the replies to a comment, or returns the one with an id.
func (s *Server) read(w http.ResponseWriter, r *http.Request, t *token, target string, id []string) {
	p, on := s.target(target)
	switch {
	case !t.may("r_member_social"):
		denied(w, "partnerApiSocialActions.GET_ALL.20260101")
		return
	case p == nil:
		refuse(w, http.StatusNotFound, "NOT_FOUND", 0, "Could not find the entity "+target)
		return
	}
	var list []any
	for _, c := range s.comments {
		if c.Object != p.Activity || on == nil && c.Parent != "" || on != nil && c.Parent != on.URN {
			continue
		}
		if len(id) == 1 && id[0] == c.ID {
			reply(w, http.StatusOK, s.summed(c))
			return
		}
		list = append(list, s.summed(c))
	}
	if len(id) == 1 {
		refuse(w, http.StatusNotFound, "NOT_FOUND", 0, "Could not find the comment "+id[0])
		return
	}
	s.page(w, r, list)
}
