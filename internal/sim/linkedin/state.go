package linkedin

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"
)

// state is what a server keeps in its file, so that another process can go on with it.
type state struct {
	Posts    []*Post             `json:"posts"`
	Comments []*Comment          `json:"comments"`
	Codes    map[string]keptCode `json:"codes"`
	Tokens   map[string]kept     `json:"tokens"`
	Renewals map[string]kept     `json:"renewals"`
	Next     int64               `json:"next"`
}

type keptCode struct {
	Member, Redirect string
	Scopes           []string
	Until            time.Time
}

type kept struct {
	Member      string
	Scopes      []string
	Made, Until time.Time
	Revoked     bool
}

// load reads the file, if there is one.
func (s *Server) load() error {
	raw, err := os.ReadFile(s.o.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var in state
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	s.posts, s.comments, s.next = in.Posts, in.Comments, in.Next
	for v, c := range in.Codes {
		s.codes[v] = &grant{c.Member, c.Redirect, c.Scopes, c.Until}
	}
	for into, from := range map[*map[string]*token]map[string]kept{&s.tokens: in.Tokens, &s.renewals: in.Renewals} {
		for v, t := range from {
			(*into)[v] = &token{t.Member, t.Scopes, t.Made, t.Until, t.Revoked}
		}
	}
	return nil
}

// save writes the file, as a whole or not at all.
func (s *Server) save() error {
	if s.o.File == "" {
		return nil
	}
	out := state{s.posts, s.comments, map[string]keptCode{}, map[string]kept{}, map[string]kept{}, s.next}
	for v, c := range s.codes {
		out.Codes[v] = keptCode{c.member, c.redirect, c.scopes, c.until}
	}
	for into, from := range map[*map[string]kept]map[string]*token{&out.Tokens: s.tokens, &out.Renewals: s.renewals} {
		for v, t := range from {
			(*into)[v] = kept{t.member, t.scopes, t.made, t.until, t.revoked}
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return err
	}
	tmp := s.o.File + ".new"
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, s.o.File)
}
