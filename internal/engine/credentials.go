package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// maxHeld limits all held credentials together, in bytes including overhead. maxHeldOf
	// limits those of one user.
	maxHeld   = 32 << 20
	maxHeldOf = 1 << 20
	// maxNamed limits the credentials that a turn holds by name. Each message to it may bring
	// some.
	maxNamed = 4 * parley.MaxCredentials
	// holdCredential is the longest time that credentials are held, for turns that never end.
	holdCredential = 24 * time.Hour
	// credentialCost is the approximate overhead of a credential, in bytes.
	credentialCost = 256
)

// credentials holds the credentials that clients sent for the tools of their turns, in memory
// only, until the turn ends. They may be lost at any time; the turn then asks for them again.
// It is safe for concurrent use.
type credentials struct {
	// hide tells the redactor which values it must now keep out of a session.
	hide func(s parley.SessionID, values []string)

	mu    sync.Mutex
	of    map[parley.SessionID]map[parley.TurnID]*heldCredentials
	users map[parley.Principal]int // bytes per user
	bytes int
}

type heldCredentials struct {
	owner parley.Principal
	since time.Time
	all   parley.Credentials
	added []string // the names that came with messages while the turn ran
}

func (h *heldCredentials) size() (n int) {
	if h == nil {
		return 0
	}
	for name, v := range h.all {
		n += len(name) + len(v) + credentialCost
	}
	return n
}

// put adds credentials to those that a turn holds, replacing those of the same name. undo takes
// them back, and nothing that was added since: a tool may have values redacted meanwhile.
func (c *credentials) put(owner parley.Principal, s parley.SessionID, t parley.TurnID, given parley.Credentials, now time.Time) (undo func(), err error) {
	if len(given) == 0 {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.of[s][t]
	next := &heldCredentials{owner: owner, since: now, all: maps.Clone(given)}
	if old != nil {
		next.all, next.added = maps.Clone(old.all), slices.Clip(old.added)
		maps.Copy(next.all, given)
	}
	more := next.size() - old.size()
	if n := next.named(); n > maxNamed {
		return nil, parley.Errorf(parley.CodeBusy, "the turn would hold %d credentials; it may hold %d", n, maxNamed).
			WithField("credentials").WithHint("send only what the tools of this turn need, or wait until the turn has ended, or cancel it").WithRetry(10 * time.Second)
	}
	if c.users[owner]+more > maxHeldOf || c.bytes+more > maxHeld {
		return nil, parley.Errorf(parley.CodeBusy, "the memory for credentials is full: too many turns that hold some have not ended").
			WithField("credentials").WithHint("wait until some of your turns have ended, or cancel some").WithRetry(10 * time.Second)
	}
	c.set(s, t, next)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		held := c.of[s][t]
		switch held {
		case nil: // the turn has ended
			return
		case next:
			c.set(s, t, old)
			return
		}
		back := &heldCredentials{owner: held.owner, since: held.since, all: maps.Clone(held.all), added: held.added}
		for name := range given {
			delete(back.all, name)
			if old != nil && old.all[name] != "" {
				back.all[name] = old.all[name]
			}
		}
		c.set(s, t, back)
	}, nil
}

// conceal has values redacted from a session's texts until the turn ends. They are not
// credentials: nobody can ask for them by name.
func (c *credentials) conceal(owner parley.Principal, s parley.SessionID, t parley.TurnID, values []string, now time.Time) error {
	more := parley.Credentials{}
	for _, v := range values {
		name := concealed + string(digestOf(v))
		if _, held := c.get(s, t, name); !held && len(v) >= parley.MinCredential { // a shorter value would also occur in ordinary text
			more[name] = v
		}
	}
	_, err := c.put(owner, s, t, more, now)
	return err
}

// concealed is the prefix of the names of values that are only redacted.
const concealed = "#"

func (h *heldCredentials) named() (n int) {
	for name := range h.all {
		if !strings.HasPrefix(name, concealed) {
			n++
		}
	}
	return n
}

// set replaces the credentials that a turn holds; nil removes them. The caller holds c.mu.
func (c *credentials) set(s parley.SessionID, t parley.TurnID, h *heldCredentials) {
	if c.of == nil {
		c.of, c.users = map[parley.SessionID]map[parley.TurnID]*heldCredentials{}, map[parley.Principal]int{}
	}
	old := c.of[s][t]
	if old == h {
		return
	}
	if old != nil {
		c.count(old.owner, -old.size())
		delete(c.of[s], t)
	}
	if h != nil {
		c.count(h.owner, h.size())
		if c.of[s] == nil {
			c.of[s] = map[parley.TurnID]*heldCredentials{}
		}
		c.of[s][t] = h
	}
	if len(c.of[s]) == 0 {
		delete(c.of, s)
	}
	var values []string
	for _, held := range c.of[s] {
		for _, v := range held.all {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	c.hide(s, slices.Compact(values))
}

func (c *credentials) count(owner parley.Principal, bytes int) {
	c.bytes += bytes
	if c.users[owner] += bytes; c.users[owner] == 0 {
		delete(c.users, owner)
	}
}

// get returns a credential of a turn.
func (c *credentials) get(s parley.SessionID, t parley.TurnID, name string) (value string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.of[s][t]; h != nil {
		value, ok = h.all[name]
	}
	return value, ok
}

// forget removes a credential of a turn.
func (c *credentials) forget(s parley.SessionID, t parley.TurnID, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.of[s][t]
	if h == nil || h.all[name] == "" {
		return
	}
	next := &heldCredentials{owner: h.owner, since: h.since, all: maps.Clone(h.all)}
	delete(next.all, name)
	// It may still be echoed, so it stays out of what is stored until the turn ends.
	next.all[concealed+string(digestOf(h.all[name]))] = h.all[name]
	next.added = slices.DeleteFunc(slices.Clone(h.added), func(n string) bool { return n == name })
	c.set(s, t, next)
}

// move moves the credentials of one turn to another. With added, it instead copies only those
// that came with messages while the first turn ran.
func (c *credentials) move(s parley.SessionID, from, to parley.TurnID, added bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.of[s][from]
	if h == nil || from == to {
		return
	}
	next := &heldCredentials{owner: h.owner, since: h.since, all: parley.Credentials{}}
	if old := c.of[s][to]; old != nil {
		next.all, next.added = maps.Clone(old.all), old.added
	}
	if !added {
		maps.Copy(next.all, h.all)
		next.added = append(slices.Clip(next.added), h.all.Names()...)
		c.set(s, to, next)
		c.set(s, from, nil)
		return
	}
	for _, name := range h.added {
		next.all[name] = h.all[name]
	}
	if len(next.all) > 0 {
		c.set(s, to, next)
	}
}

// drop forgets the credentials of a turn, or of the whole session if turn is empty.
func (c *credentials) drop(s parley.SessionID, turn parley.TurnID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.of[s] {
		if turn == "" || t == turn {
			c.set(s, t, nil)
		}
	}
}

// tidy forgets credentials that were held longer than holdCredential.
func (c *credentials) tidy(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, turns := range c.of {
		for t, h := range turns {
			if now.Sub(h.since) > holdCredential {
				c.set(s, t, nil)
			}
		}
	}
}

// lacks lists the credentials that a tool needs and the open turn does not have.
func (s *session) lacks(c *parley.Tool, decl parley.ToolDecl) (names []string) {
	for _, need := range decl.Credentials {
		has := false
		if s.e.o.HasCredential != nil {
			has = s.e.o.HasCredential(*c, need.Name, s.timesAsked(c))
		} else {
			_, has = s.e.credentials.get(s.id, s.view.Turn.ID, need.Name)
		}
		if !has {
			names = append(names, need.Name)
		}
	}
	return names
}

// credentialKey returns the key of the nth question for credentials of a call. There can be
// several, because credentials may be lost again before the call is made.
func credentialKey(n int) string { return fmt.Sprintf("%s#%d", parley.KindCredential, n+1) }

// timesAsked returns how many questions for the credentials of a call were answered.
func (s *session) timesAsked(c *parley.Tool) (n int) {
	for {
		if _, ok := s.view.Turn.AnswerTo(c.Call, credentialKey(n)); !ok {
			return n
		}
		n++
	}
}

const (
	noCredential = "This call needs the credential %s, which did not come with the message, and there is nobody to ask for it. The call was not made."
	heldBack     = "The user did not give the credential that this call needs"
)

// provided makes sure that a call has the credentials that its tool needs. It asks for missing
// ones and returns [seam.ErrParked]. A refusal says, to the model, why the call is not made.
func (h *host) provided(ctx context.Context, s *session, c *parley.Tool, decl parley.ToolDecl) (refusal string, err error) {
	missing := s.lacks(c, decl)
	if len(missing) == 0 {
		return "", nil
	}
	n := s.timesAsked(c)
	if n > 0 {
		if last, _ := s.view.Turn.AnswerTo(c.Call, credentialKey(n-1)); last.Choice != parley.ChoiceAnswered {
			return sentence(heldBack, last.Text), nil
		}
	}
	if !policy.Attended(h.r.app, s.view.Turn.Request) {
		return fmt.Sprintf(noCredential, strings.Join(missing, " and ")), nil
	}
	for _, in := range s.view.Interactions {
		if in.Call == c.Call && in.Kind == parley.KindCredential {
			return "", seam.ErrParked
		}
	}
	var hosts []string
	for _, need := range decl.Credentials {
		if slices.Contains(missing, need.Name) {
			hosts = append(hosts, need.Hosts...)
		}
	}
	slices.Sort(hosts)
	text := "It is used for this turn and not stored."
	if hosts = slices.Compact(hosts); len(hosts) > 0 {
		text = "It is sent to " + strings.Join(hosts, " and ") + ", used for this turn, and not stored."
	}
	if err := h.commit(ctx, s, s.opening(h.r.app, parley.Interaction{
		Agent: c.Agent, Kind: parley.KindCredential, Call: c.Call, Key: credentialKey(n), Tool: c.Name, Credentials: missing,
		Title: c.Name + " needs " + strings.Join(missing, " and "), Text: text,
		Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny},
	})); err != nil {
		return "", err
	}
	return "", seam.ErrParked
}

// toAsk makes sure that the service can be asked for the outcome of a lost write, which may
// need credentials. It returns [seam.ErrParked] while a human is asked for them.
func (h *host) toAsk(ctx context.Context, call parley.CallID) error {
	going := context.WithoutCancel(ctx) // stopping the turn does not stop Settle
	return h.lasting(going, func() error {
		return h.step(going, func(s *session) error {
			t := s.view.Turn
			c := t.Tool(call)
			if c == nil || c.Status != parley.ToolIsStarted || t.Stop != nil || ctx.Err() != nil || !h.r.box.CanReconcile(c.Name) {
				return nil
			}
			decl, missing := h.declared(t, c)
			if missing != "" || !policy.Attended(h.r.app, t.Request) {
				return nil
			}
			_, err := h.provided(going, s, c, decl)
			return err
		})
	})
}

// credential implements Credential of [seam.Run].
func (h *host) credential(decl parley.ToolDecl) func(name, host string) (string, error) {
	return func(name, host string) (string, error) {
		i := slices.IndexFunc(decl.Credentials, func(d parley.CredentialDecl) bool { return d.Name == name })
		switch {
		case i < 0:
			return "", parley.Errorf(parley.CodeForbidden, "%s does not declare the credential %s", decl.Name, name)
		case !slices.ContainsFunc(decl.Credentials[i].Hosts, func(declared string) bool { return strings.EqualFold(declared, host) }):
			return "", parley.Errorf(parley.CodeForbidden, "%s does not declare that the credential %s may be sent to %s", decl.Name, name, host)
		}
		if v, ok := h.s.e.credentials.get(h.s.id, h.r.turn, name); ok {
			return v, nil
		}
		return "", parley.Errorf(parley.CodeUnauthenticated, "the credential %s is no longer available", name)
	}
}

// satisfied returns answers to the open questions whose credentials the turn now has, except
// for the given question.
func (s *session) satisfied(p parley.Principal, client string, except parley.InteractionID) (events []parley.Event) {
	for _, in := range s.view.Interactions {
		if in.Kind != parley.KindCredential || in.ID == except {
			continue
		}
		has := func(name string) bool { _, ok := s.e.credentials.get(s.id, in.Turn, name); return ok }
		if s.e.o.HasCredential == nil && len(in.Credentials) > 0 && !slices.ContainsFunc(in.Credentials, func(name string) bool { return !has(name) }) {
			events = append(events, parley.NewEvent(in.Turn, in.Agent, parley.InteractionAnswered{
				ID: in.ID, Answer: parley.Answer{Choice: parley.ChoiceAnswered}, By: p.User, Client: client,
			}))
		}
	}
	return events
}

// resupply accepts the credentials of a repeated command, in case they were lost since the
// command was first carried out. The turn continues if it waits for them.
func (s *session) resupply(ctx context.Context, p parley.Principal, turn parley.TurnID, c parley.Credentials, client string) error {
	if t := s.view.Turn; len(c) == 0 || (t == nil || t.ID != turn) && !s.isQueued(turn) {
		return nil
	}
	if _, err := s.e.credentials.put(s.view.Principal(), s.id, turn, c, s.e.now()); err != nil {
		return err
	}
	events := s.satisfied(p, client, "")
	if len(events) == 0 {
		return nil
	}
	if err := s.commit(ctx, events...); err != nil {
		return err
	}
	s.logged("go on with credentials", s.goOn())
	return nil
}

func (s *session) isQueued(turn parley.TurnID) bool {
	return slices.ContainsFunc(s.view.Queue, func(q parley.QueuedTurn) bool { return q.ID == turn })
}
