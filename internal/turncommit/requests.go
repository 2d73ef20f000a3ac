package turncommit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/seam"
)

// request is a page that was asked for. It is in a file until its line is committed.
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

var callOf = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

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
	if there == nil {
		there = make(chan struct{})
		if len(c.line) > maxJobs {
			for id, ch := range c.line {
				if isClosed(ch) {
					delete(c.line, id)
				}
			}
		}
		c.line[r.Call] = there
		if err := c.note(q); err != nil {
			c.o.Logger.Error("the request for a page could not be noted before it is made", "err", err)
		}
		c.asked = append(c.asked, q)
	}
	blocked := c.state.trouble != nil
	c.mu.Unlock()
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

func (c *Commits) requestFile(id parley.CallID) string {
	return c.o.Data.Path(folderName, c.o.App, askedName, string(id)+".json")
}

// note writes a request down, so that a crash does not lose it.
func (c *Commits) note(q request) error {
	raw, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.requestFile(q.Call)); err == nil {
		return nil // an earlier process did, and its line is still to come
	}
	if err := c.o.Data.Make(folderName, c.o.App, askedName); err != nil {
		return err
	}
	return c.put(c.requestFile(q.Call), raw)
}

// loadRequests finds those that an earlier process noted.
func (w *worker) loadRequests() error {
	names, err := filepath.Glob(w.path(askedName, "*.json"))
	if err != nil {
		return err
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for _, name := range names {
		var q request
		raw, err := os.ReadFile(filepath.Clean(name))
		if err != nil || json.Unmarshal(raw, &q) != nil || q.Line == "" || strings.ContainsAny(q.Line, "\n\r") {
			continue
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
func (c *Commits) finished(r request) {
	if err := os.Remove(c.requestFile(r.Call)); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
		w.c.finished(r)
		w.c.s.pushSoon()
	}
	return nil
}
