//go:build unix

package shell

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// background is a command in the background.
type background struct {
	id      string
	session parley.SessionID
	who     parley.Principal
	command *command
	ended   time.Time // zero while it runs
	killed  bool

	// The last result, for a call that is made again.
	call parley.CallID
	said string
}

const (
	// keepEnded is how long a command that has ended can be asked about.
	keepEnded = time.Hour
	// endedEach is how many of those are kept of a session, and endedBytes how much output of all that a user has.
	endedEach  = 8
	endedBytes = 8 << 20
)

// behind puts a command into the background, and returns its id in a result.
func (t *Toolset) behind(r seam.Run, c *command, line, format string) parley.ToolResult {
	b := &background{id: "bash_" + strings.ToLower(rand.Text()[:8]), session: r.Session, who: r.Principal, command: c}
	if why := t.admit(b); why != "" {
		c.stop()
		return refused("%s The command was ended. What it had done by then stays.", why)
	}
	t.work.Go(func() {
		<-c.done
		t.mu.Lock()
		b.ended = t.o.Now()
		t.forget(b.who)
		t.mu.Unlock()
	})
	return done(fmt.Sprintf(format, b.id))
}

// forget removes commands of a user that have ended: those that ended long ago and, of the others, the
// oldest beyond what is kept. t.mu is held.
func (t *Toolset) forget(who parley.Principal) {
	var ended []*background
	for id, b := range t.shells {
		switch {
		case b.ended.IsZero():
		case t.o.Now().Sub(b.ended) > keepEnded:
			delete(t.shells, id)
		case b.who == who:
			ended = append(ended, b)
		}
	}
	slices.SortFunc(ended, func(a, b *background) int { return b.ended.Compare(a.ended) })
	each, size := map[parley.SessionID]int{}, 0
	for _, b := range ended {
		each[b.session]++
		size += b.command.out.kept() + len(b.said)
		if each[b.session] > endedEach || size > endedBytes {
			delete(t.shells, b.id)
		}
	}
}

// admit remembers a command, or says why there may be no more.
func (t *Toolset) admit(b *background) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(b.who)
	session, user := 0, 0
	for _, other := range t.shells {
		switch {
		case !other.ended.IsZero():
		case other.session == b.session:
			session++
			user++
		case other.who == b.who:
			user++
		}
	}
	switch {
	case t.closed:
		return "The server is stopping."
	case t.temps[b.session] == nil || t.temps[b.session] != b.command.temp:
		return "The session has ended."
	case session >= perSession:
		return fmt.Sprintf("%d commands of this session run in the background, which is the limit; end one with KillShell.", session)
	case user >= perUser:
		return fmt.Sprintf("%d commands of this user run in the background, which is the limit.", user)
	}
	t.shells[b.id] = b
	return ""
}

// find returns a command of the call's session.
func (t *Toolset) find(r seam.Run, id string) (*background, *parley.ToolResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.shells[id]; b != nil && b.session == r.Session {
		return b, nil
	}
	res := refused("There is no command with the ID %q: it ended long ago, or with a restart of the server. Nothing of it runs.", parley.Cut(id, 40))
	return nil, &res
}

func (t *Toolset) output(r seam.Run) parley.ToolResult {
	var in struct {
		ID     string `json:"bash_id"`
		Filter string `json:"filter"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return refused("the input cannot be read: %v", err)
	}
	filter, err := compile(in.Filter)
	if err != nil {
		return refused("filter %v", err)
	}
	b, missing := t.find(r, in.ID)
	if missing != nil {
		return *missing
	}
	t.mu.Lock()
	if b.call == r.Call { // the call is made again
		defer t.mu.Unlock()
		return done(b.said)
	}
	status := "running"
	select {
	case <-b.command.done:
		status = b.state()
	default:
	}
	text := b.command.out.take()
	t.mu.Unlock()
	if in.Filter != "" {
		text = matching(filter, text, t.o.Now)
	}
	if text == "" {
		text = "(no new output)"
	}
	said := "Status: " + status + "\n" + text
	t.mu.Lock()
	defer t.mu.Unlock()
	b.call, b.said = r.Call, said
	return done(said)
}

// state says how a command ended.
func (b *background) state() string {
	switch c := b.command; {
	case b.killed && c.err == nil:
		return "killed"
	case c.cut():
		return "failed. " + c.limit()
	case c.err != nil:
		return "failed: " + c.err.Error()
	case c.end.Failed != "":
		return "failed: " + c.end.Failed
	case c.end.Limit != "":
		return "failed. " + c.limit()
	case c.end.Code != 0:
		return fmt.Sprintf("failed with exit code %d", c.end.Code)
	}
	return "completed"
}

func (t *Toolset) kill(ctx context.Context, r seam.Run) parley.ToolResult {
	var in struct {
		ID string `json:"shell_id"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return refused("the input cannot be read: %v", err)
	}
	b, missing := t.find(r, in.ID)
	if missing != nil {
		return *missing
	}
	t.mu.Lock()
	select {
	case <-b.command.done:
		state := b.state()
		t.mu.Unlock()
		return done(fmt.Sprintf("The command %s had ended already: %s.", b.id, strings.TrimSuffix(state, ".")))
	default:
	}
	b.killed = true
	t.mu.Unlock()
	b.command.stop()
	return done(fmt.Sprintf("The command %s was ended.", b.id))
}

// End ends the commands of a session, and removes its temporary files.
func (t *Toolset) End(s parley.SessionID) {
	t.mu.Lock()
	var list []*background
	for id, b := range t.shells {
		if b.session == s {
			list = append(list, b)
			delete(t.shells, id)
		}
	}
	t.mu.Unlock()
	for _, b := range list {
		b.command.stop()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// One that still runs, for a call, removes its files when it ends, and cannot go on in the background.
	if tmp := t.temps[s]; tmp != nil {
		delete(t.temps, s)
		if tmp.uses == 0 {
			_ = os.RemoveAll(tmp.dir)
		}
	}
}

// Sessions lists those that Holds reports.
func (t *Toolset) Sessions() []parley.SessionID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.temps))
}

// Holds reports whether a session has commands in the background, or temporary files.
func (t *Toolset) Holds(s parley.SessionID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.temps[s] != nil
}
