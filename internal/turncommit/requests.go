package turncommit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/pattern"
	"github.com/parley-server/parley/internal/seam"
)

// request is a page that was asked for. It is in a row of the store until its line is committed.
type request struct {
	Call parley.CallID `json:"call"`
	Line string        `json:"line"`
	At   time.Time     `json:"at"`

	again bool // an earlier process may have added the line
}

// maxURL is how much of a URL is in the log, in bytes.
const maxURL = 4096

// Line is the line of the log for a page that a model asked for.
func Line(at time.Time, person, url string) string {
	return fmt.Sprintf("- [%s] (%s) %s", at.Format(time.DateTime), oneLine(person), inLine(url))
}

// inLine writes a URL so that it stays one line, and text: what no URL may have as it is, has its
// code in hexadecimal, which means the same in a URL.
func inLine(url string) string {
	var b strings.Builder
	for i, r := range url {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			size = 1 // perhaps a byte that is no text
			if strings.HasPrefix(url[i:], "\uFFFD") {
				size = 3
			}
		}
		raw := url[i : i+size]
		if r != utf8.RuneError && r > 0x7f && unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) || r > ' ' && r < 0x7f && !strings.ContainsRune("\"<>\\^`{|}[]", r) {
			b.WriteString(raw)
		} else {
			for _, c := range []byte(raw) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		if b.Len() > maxURL {
			return b.String() + "…"
		}
	}
	return b.String()
}

func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '(' || r == ')' {
			return '_'
		}
		return r
	}, text)
}

var callOf = pattern.New(`^[A-Za-z0-9_-]{1,128}$`)

// Requested is told of a page that a model asks for. It returns when the line is in the log, or a
// little later if that takes long; that it will come is certain then.
func (c *Commits) Requested(ctx context.Context, r seam.Run, url string) {
	person := c.o.Folder(r.Space)
	if person == "" {
		person = r.Principal.User
	}
	if !callOf.MatchString(string(r.Call)) {
		c.o.Logger.Error("the request for a page has no valid id, so it is not logged", "call", parley.Cut(string(r.Call), 80))
		return
	}
	at := c.o.Now().Local()
	q := request{Call: r.Call, Line: Line(at, person, url), At: at}
	c.mu.Lock()
	there := c.line[r.Call]
	first := there == nil
	if first {
		there = make(chan struct{})
		if len(c.line) > maxJobs {
			for id, ch := range c.line {
				if isClosed(ch) {
					delete(c.line, id)
				}
			}
		}
		c.line[r.Call] = there
	}
	blocked := c.state.trouble != nil
	c.mu.Unlock()
	if first {
		if err := c.note(ctx, q); err != nil {
			c.o.Logger.Error("the request for a page could not be noted before it is made", "err", err)
		}
		c.mu.Lock()
		c.asked = append(c.asked, q)
		c.mu.Unlock()
	}
	c.ring()
	if blocked {
		return // its line comes once that is over
	}
	late := time.NewTimer(loggedWithin)
	defer late.Stop()
	select {
	case <-there:
	case <-late.C:
	case <-ctx.Done():
	case <-c.quit:
	}
}

// row is the name under which a request is noted. It belongs to nobody: the line is the app's.
func (c *Commits) row(id parley.CallID) seam.RowName {
	return seam.RowName{Kind: seam.RowPage, ID: c.o.App + "/" + string(id)}
}

// note writes a request down, so that a crash does not lose it. One that an earlier process wrote
// down, whose line is still to come, stays as it is.
func (c *Commits) note(ctx context.Context, q request) error {
	raw, err := json.Marshal(q)
	if err != nil {
		return err
	}
	_, err = c.o.Store.PutRow(ctx, parley.System(), seam.Row{RowName: c.row(q.Call), Open: true, Body: raw, Version: seam.NoRow})
	if parley.CodeOf(err) == parley.CodeConflict {
		return nil
	}
	return err
}

// loadRequests finds those that an earlier process noted.
func (w *worker) loadRequests(ctx context.Context) error {
	if err := w.moveRequests(ctx); err != nil {
		return err
	}
	rows, err := w.c.o.Store.Rows(ctx, parley.System(), seam.RowQuery{Kind: seam.RowPage, Limit: -1})
	if err != nil {
		return err
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for _, r := range rows {
		q, ok := readRequest(r.Body)
		if !ok || r.RowName != w.c.row(q.Call) {
			continue // another app's
		}
		if ch := w.c.line[q.Call]; ch != nil {
			continue // it was asked for again already; that has the time of now
		}
		q.again = true
		w.c.line[q.Call] = make(chan struct{})
		w.c.asked = append(w.c.asked, q)
	}
	return nil
}

func readRequest(raw []byte) (q request, ok bool) {
	err := json.Unmarshal(raw, &q)
	return q, err == nil && callOf.MatchString(string(q.Call)) && q.Line != "" && !strings.ContainsAny(q.Line, "\n\r")
}

// moveRequests puts the notes of an earlier version, which were files, into the store.
func (w *worker) moveRequests(ctx context.Context) error {
	dir := w.path(oldRequests)
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Clean(name))
		if err != nil {
			return err
		}
		if q, ok := readRequest(raw); ok {
			if err := w.c.note(ctx, q); err != nil {
				return err
			}
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	_ = os.Remove(filepath.Clean(dir)) // it may not be there, or not be empty
	return nil
}

// takeRequests returns what waits, oldest first.
func (c *Commits) takeRequests() []request {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.asked
	c.asked = nil
	slices.SortStableFunc(list, func(a, b request) int { return a.At.Compare(b.At) })
	return list
}

func (c *Commits) putRequest(list ...request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(list, c.asked...)
}

// finished says that a line is there.
func (c *Commits) finished(ctx context.Context, r request) {
	if err := c.o.Store.DropRow(ctx, parley.System(), c.row(r.Call), seam.AnyRow); err != nil && !errors.Is(err, parley.ErrNotFound) {
		c.o.Logger.Warn("the note of a request for a page could not be removed", "err", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.line[r.Call]; ch != nil && !isClosed(ch) {
		close(ch)
	}
}

// requests commits the lines that wait, each by itself.
func (w *worker) requests(ctx context.Context) error {
	list := w.c.takeRequests()
	for i, r := range list {
		// It may have been told of by an earlier process, whose note is gone: the call is the same.
		made, err := w.before(ctx, "Parley-Call", string(r.Call))
		if err == nil && !made {
			_, err = w.repo.Append(ctx, RequestsFile, r.Line, r.again, gitrepo.Commit{
				Author: w.author(""), When: r.At,
				Message: func([]string) string { return "Log WebFetch request\n\nParley-Call: " + string(r.Call) },
			})
		}
		if err != nil {
			for j := range list[i:] {
				list[i+j].again = list[i+j].again || j == 0
			}
			w.c.putRequest(list[i:]...)
			return err
		}
		w.c.finished(ctx, r)
		w.c.s.pushSoon()
	}
	return nil
}
