package turncommit

import (
	"fmt"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// state is what is shown of the commits.
type state struct {
	repo    bool
	jobs    int   // commits that wait to be made
	trouble error // why
	remote  string
	ahead   int // commits that wait to be pushed
	away    error
	since   time.Time
	kept    []string
}

func (c *Commits) set(f func(*state)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.state)
}

// Notices says what waits and why, for everybody who uses the app: without names of files and persons.
func (c *Commits) Notices() (list []string) {
	c.mu.Lock()
	s := c.state
	c.mu.Unlock()
	if s.trouble != nil {
		what := "Changes are not committed to git for now"
		if s.jobs > 0 {
			what = fmt.Sprintf("The changes of %s are not committed to git yet", count(s.jobs, "turn"))
		}
		list = append(list, what+": "+why(s.trouble))
	}
	if s.away != nil {
		what := "The git remote could not be asked"
		if s.ahead == 1 {
			what = "1 commit waits to be pushed"
		} else if s.ahead > 1 {
			what = count(s.ahead, "commit") + " wait to be pushed"
		}
		list = append(list, fmt.Sprintf("%s, since %s: %s", what, s.since.Local().Format("2006-01-02 15:04"), why(s.away)))
	}
	if len(s.kept) > 0 {
		list = append(list, "Changes that did not fit those from elsewhere are kept on a branch of git: "+strings.Join(s.kept[:min(len(s.kept), 5)], ", "))
	}
	return list
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// why is an error without the names of files: these are in the server's log.
func why(err error) string {
	switch parley.CodeOf(err) {
	case parley.CodeConflict:
		return "files or the repository are being changed by somebody; the server's log says more"
	case "":
		return "the server's log says why"
	}
	text, _, _ := strings.Cut(parley.Info(err).Message, ": ")
	return parley.Cut(text, 200)
}
