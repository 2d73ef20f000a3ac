package conversations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/conversations"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/sqlite"
)

var (
	ctx  = context.Background()
	ann  = parley.Principal{User: "ann", Org: "acme"}
	bob  = parley.Principal{User: "bob", Org: "acme"}
	ann2 = parley.Principal{User: "ann", Org: "other"}
)

// clock is a time that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(time.Second)
	return c.at
}

// each runs a test with the table in every store.
func each(t *testing.T, test func(t *testing.T, s *conversations.Store)) {
	open := map[string]func(t *testing.T) seam.Tables{
		"mem": func(*testing.T) seam.Tables { return nil },
		"sqlite": func(t *testing.T) seam.Tables {
			s, err := sqlite.Open(ctx, t.TempDir(), sqlite.Options{})
			return tables(t, s, err)
		},
		"postgres": func(t *testing.T) seam.Tables {
			s, err := postgres.Open(ctx, pgtest.Start(t), postgres.Options{})
			return tables(t, s, err)
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clock{at: time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)}
			test(t, conversations.New(open(t), c.now))
		})
	}
}

func tables(t *testing.T, s seam.Store, err error) seam.Tables {
	t.Helper()
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	made, err := s.Tables(ctx, "leads", conversations.Migrations)
	must(t, err)
	return made
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, what string, err error, code parley.Code) {
	t.Helper()
	if parley.CodeOf(err) != code {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}

func titled(s string) *string { return &s }

func titles(t *testing.T, s *conversations.Store, p parley.Principal, q conversations.Query) (out []string, next string) {
	t.Helper()
	page, next, err := s.List(ctx, p, q)
	must(t, err)
	for _, c := range page {
		if c.Messages != nil {
			t.Error("a list has messages")
		}
		out = append(out, c.Title)
	}
	return out, next
}

func TestConversations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *conversations.Store) {
		first, err := s.Create(ctx, ann, conversations.Change{})
		must(t, err)
		if first.Title != conversations.DefaultTitle || string(first.Messages) != "[]" || len(first.ID) != 36 || !first.CreatedAt.Equal(first.UpdatedAt) {
			t.Errorf("got %+v", first)
		}
		sent := ` [ {"role":"user", "content":"Hällo <b>\u0000\ud800","n":1.50,"n":2} ,null]` + "\n"
		second, err := s.Create(ctx, ann, conversations.Change{Title: titled("Übersicht"), Messages: []byte(sent)})
		must(t, err)
		got, err := s.Get(ctx, ann, second.ID)
		must(t, err)
		if d := cmp.Diff(second, got); d != "" || string(got.Messages) != sent {
			t.Errorf("not as it was sent: %q %s", got.Messages, d)
		}
		if got, err := s.Get(ctx, ann, strings.ToUpper(second.ID)); err != nil || got.ID != second.ID {
			t.Errorf("in upper case: %v", err)
		}
		if got, _ := titles(t, s, ann, conversations.Query{}); !cmp.Equal(got, []string{"Übersicht", "New conversation"}) {
			t.Errorf("got %q", got)
		}
		changed, err := s.Update(ctx, ann, first.ID, conversations.Change{Title: titled("First")})
		must(t, err)
		if changed.Title != "First" || string(changed.Messages) != "[]" || !changed.UpdatedAt.After(second.UpdatedAt) || !changed.CreatedAt.Equal(first.CreatedAt) {
			t.Errorf("got %+v", changed)
		}
		changed, err = s.Update(ctx, ann, first.ID, conversations.Change{Messages: []byte(`[1]`)})
		must(t, err)
		if got, err := s.Get(ctx, ann, first.ID); err != nil || !cmp.Equal(got, changed) || got.Title != "First" || string(got.Messages) != "[1]" {
			t.Errorf("got %+v, %v", got, err)
		}
		if got, _ := titles(t, s, ann, conversations.Query{}); !cmp.Equal(got, []string{"First", "Übersicht"}) {
			t.Errorf("got %q", got)
		}
		must(t, s.Delete(ctx, ann, first.ID))
		want(t, "deleted twice", s.Delete(ctx, ann, first.ID), parley.CodeNotFound)
		if got, _ := titles(t, s, ann, conversations.Query{}); !cmp.Equal(got, []string{"Übersicht"}) {
			t.Errorf("got %q", got)
		}
	})
}

// TestOthers: another user and another org see and change nothing.
func TestOthers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *conversations.Store) {
		mine, err := s.Create(ctx, ann, conversations.Change{Title: titled("Mine"), Messages: []byte(`["secret"]`)})
		must(t, err)
		for _, p := range []parley.Principal{bob, ann2} {
			_, err := s.Get(ctx, p, mine.ID)
			want(t, "get", err, parley.CodeNotFound)
			_, err = s.Update(ctx, p, mine.ID, conversations.Change{Title: titled("Theirs")})
			want(t, "update", err, parley.CodeNotFound)
			want(t, "delete", s.Delete(ctx, p, mine.ID), parley.CodeNotFound)
			for _, q := range []conversations.Query{{}, {Search: "secret"}} {
				if got, _ := titles(t, s, p, q); got != nil {
					t.Errorf("%v lists %q", p, got)
				}
			}
		}
		for _, p := range []parley.Principal{{}, {Org: "acme"}, parley.System()} {
			_, err := s.Create(ctx, p, conversations.Change{})
			want(t, "without a user", err, parley.CodeForbidden)
		}
		if got, err := s.Get(ctx, ann, mine.ID); err != nil || !cmp.Equal(got, mine) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestSearchAndPages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *conversations.Store) {
		for i := range 7 {
			body := fmt.Sprintf(`[{"role":"user","id":"needle","content":[{"type":"text","text":"the %d.\nGROSSE Straße"}]},{"content":"row %d"}]`, i, i%2)
			_, err := s.Create(ctx, ann, conversations.Change{Title: titled(fmt.Sprint("T", i)), Messages: []byte(body)})
			must(t, err)
		}
		for search, want := range map[string][]string{
			"": {"T6", "T5", "T4", "T3", "T2", "T1", "T0"}, "t3": {"T3"}, "ROW 1": {"T5", "T3", "T1"}, "große": nil,
			"grosse  straße": {"T6", "T5", "T4", "T3", "T2", "T1", "T0"}, "needle": nil, "content": nil, "user": nil, `%`: nil, `the 4. grosse`: {"T4"},
		} {
			if got, _ := titles(t, s, ann, conversations.Query{Search: search}); !cmp.Equal(got, want) {
				t.Errorf("search %q: got %q, want %q", search, got, want)
			}
		}
		for _, search := range []string{"", "row 1"} {
			all, _ := titles(t, s, ann, conversations.Query{Search: search})
			for limit := 1; limit <= 8; limit++ {
				var got []string
				for q := (conversations.Query{Search: search, Limit: limit}); ; {
					page, next := titles(t, s, ann, q)
					got = append(got, page...)
					if len(page) > limit || len(got) > len(all) {
						t.Fatalf("limit %d: got %q", limit, got)
					}
					if q.Cursor = next; next == "" {
						break
					}
				}
				if !cmp.Equal(got, all) {
					t.Errorf("limit %d: got %q, want %q", limit, got, all)
				}
			}
		}
		_, _, err := s.List(ctx, ann, conversations.Query{Cursor: "eA"})
		want(t, "a strange cursor", err, parley.CodeInvalid)
		_, _, err = s.List(ctx, ann, conversations.Query{Search: strings.Repeat("x", 201)})
		want(t, "a long search", err, parley.CodeInvalid)
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *conversations.Store) {
		for what, c := range map[string]struct {
			conversations.Change
			code parley.Code
		}{
			"a long title":      {conversations.Change{Title: titled(strings.Repeat("x", conversations.MaxTitle+1))}, parley.CodeTooLarge},
			"a title with NUL":  {conversations.Change{Title: titled("a\x00b")}, parley.CodeInvalid},
			"a title, no text":  {conversations.Change{Title: titled("a\xff")}, parley.CodeInvalid},
			"no array":          {conversations.Change{Messages: []byte(`{}`)}, parley.CodeInvalid},
			"no JSON":           {conversations.Change{Messages: []byte(`[`)}, parley.CodeInvalid},
			"nothing":           {conversations.Change{Messages: []byte{}}, parley.CodeInvalid},
			"no text":           {conversations.Change{Messages: []byte("[\"\xff\"]")}, parley.CodeInvalid},
			"deep":              {conversations.Change{Messages: []byte(strings.Repeat("[", 101) + strings.Repeat("]", 101))}, parley.CodeInvalid},
			"too much":          {conversations.Change{Messages: []byte(`["` + strings.Repeat("x", conversations.MaxMessages) + `"]`)}, parley.CodeTooLarge},
			"deep, but in text": {conversations.Change{Messages: []byte(`["` + strings.Repeat(`[\"`, 200) + `"]`)}, ""},
		} {
			made, err := s.Create(ctx, ann2, c.Change)
			want(t, what, err, c.code)
			if err == nil {
				must(t, s.Delete(ctx, ann2, made.ID))
			}
		}
		for _, id := range []string{"", "x", "00000000-0000-0000-0000-000000000000", "{00000000-0000-0000-0000-000000000000}", "urn:uuid:00000000-0000-0000-0000-000000000000"} {
			_, err := s.Get(ctx, ann, id)
			want(t, "id "+id, err, parley.CodeNotFound)
		}
		// The bytes of a user are limited; what is deleted or becomes shorter makes room.
		large := []byte(`["` + strings.Repeat("x", conversations.MaxMessages-4) + `"]`)
		var last conversations.Conversation
		made := 0
		for {
			c, err := s.Create(ctx, ann, conversations.Change{Messages: large})
			if err != nil {
				want(t, "too many bytes", err, parley.CodeQuota)
				break
			}
			last = c
			made++
		}
		if made != conversations.MaxBytes/conversations.MaxMessages-1 {
			t.Errorf("%d were made", made)
		}
		small, err := s.Create(ctx, ann, conversations.Change{})
		must(t, err)
		_, err = s.Update(ctx, ann, small.ID, conversations.Change{Messages: large})
		want(t, "one that grows", err, parley.CodeQuota)
		_, err = s.Create(ctx, bob, conversations.Change{Messages: large})
		must(t, err)
		_, err = s.Update(ctx, ann, last.ID, conversations.Change{Messages: []byte(`[]`)})
		must(t, err)
		_, err = s.Update(ctx, ann, small.ID, conversations.Change{Messages: large})
		must(t, err)
		must(t, s.Delete(ctx, ann, small.ID))
		_, err = s.Update(ctx, ann, last.ID, conversations.Change{Messages: large})
		must(t, err)
	})
}

// TestAtOnce: at the limit of their number, some of many at once are refused, and no more are there.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *conversations.Store) {
		for range conversations.MaxCount - 10 {
			_, err := s.Create(ctx, ann, conversations.Change{})
			must(t, err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for range 20 {
			wg.Go(func() {
				_, err := s.Create(ctx, ann, conversations.Change{})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					refused++
					want(t, "one too many", err, parley.CodeQuota)
				}
			})
		}
		wg.Wait()
		all := 0
		for q := (conversations.Query{Limit: 500}); ; {
			page, next, err := s.List(ctx, ann, q)
			must(t, err)
			all += len(page)
			if q.Cursor = next; next == "" {
				break
			}
		}
		if all != conversations.MaxCount || refused != 10 {
			t.Errorf("%d are there, and %d were refused", all, refused)
		}
	})
}

// TestCancelledSearch ends with the request.
func TestCancelledSearch(t *testing.T) {
	t.Parallel()
	s := conversations.New(nil, nil)
	_, err := s.Create(ctx, ann, conversations.Change{})
	must(t, err)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := s.List(gone, ann, conversations.Query{Search: "x"}); !errors.Is(err, context.Canceled) || parley.CodeOf(err) != parley.CodeCancelled {
		t.Errorf("got %v", err)
	}
}
