package homeassistant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// client keeps one WebSocket to Home Assistant and makes REST requests.
type client struct {
	o       Options
	base    string // without credentials, for messages
	apiURL  string
	wsURL   string
	dialer  *http.Client
	rest    *http.Client
	onReady func(ctx context.Context, s *socket) // runs alongside a live connection until it ends

	ctx  context.Context
	stop context.CancelFunc
	done chan struct{}
	kick chan struct{} // signals that a caller waits for a connection

	mu      sync.Mutex
	cur     *socket       // nil while there is none
	why     *parley.Error // why there is none
	since   time.Time     // of either
	tries   int           // failed attempts since
	begun   int           // attempts begun since the start
	failed  int           // number of the last attempt that failed
	changed chan struct{} // closed and replaced when one of them changes
}

func newClient(o Options, onReady func(context.Context, *socket)) (*client, error) {
	bad := func(format string, args ...any) error {
		return parley.Errorf(parley.CodeInvalid, format, args...).WithField("url").
			WithHint("the address is http://host:8123 or https://..., in an add-on http://supervisor/core")
	}
	u, err := url.Parse(strings.TrimSpace(o.URL))
	switch {
	case err != nil:
		return nil, bad("the address of Home Assistant cannot be read") // err may repeat a password in it
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, bad("the address of Home Assistant has to begin with http:// or https://")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, bad("the address of Home Assistant has more than host and path")
	}
	if o.Token == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "there is no token for Home Assistant").WithField("token").
			WithHint("make a long-lived token in the profile of a Home Assistant user and set HOME_ASSISTANT_TOKEN")
	}
	path := strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/api"), "/")
	root := u.Scheme + "://" + u.Host + path
	socketPath := "/api/websocket"
	if strings.HasSuffix(path, "/core") { // the Supervisor's proxy serves it at another path
		socketPath = "/websocket"
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: loginTime, DialContext: o.Dial,
	}
	// A redirect would carry the token to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &client{
		o: o, base: root, apiURL: root + "/api/", wsURL: "ws" + strings.TrimPrefix(root, "http") + socketPath,
		dialer: &http.Client{Transport: transport, CheckRedirect: stay}, rest: &http.Client{Transport: transport, CheckRedirect: stay},
		onReady: onReady, done: make(chan struct{}), kick: make(chan struct{}, 1),
		why: errAway("the connection to Home Assistant at %s is being made", root), since: time.Now(), changed: make(chan struct{}),
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// clean removes the token from a text, in case a server echoed it.
func (c *client) clean(s string) string { return strings.ReplaceAll(s, c.o.Token, "[token]") }

// close ends the connection and waits for everything that was started.
func (c *client) close() {
	c.stop()
	<-c.done
	c.rest.CloseIdleConnections()
}

// run keeps a connection until close. Pauses between attempts grow and are spread, so that many
// clients do not reconnect at the same moment after a restart. A rejected token is tried rarely,
// because Home Assistant bans addresses that try often.
func (c *client) run() {
	defer close(c.done)
	wait, said := c.o.Retry, ""
	for {
		began := time.Now()
		c.mu.Lock()
		c.begun++
		c.mu.Unlock()
		s, e := c.dial(c.ctx)
		if e == nil {
			said = ""
			wait = c.serve(s, wait)
			e = s.why()
		}
		if c.ctx.Err() != nil {
			c.set(nil, parley.Errorf(parley.CodeUnavailable, "the connection to Home Assistant is closed: Parley is stopping"))
			return
		}
		c.set(nil, e)
		// Log each reason once: a house may be unreachable for days.
		level := slog.LevelDebug
		if e.Message != said {
			level, said = slog.LevelWarn, e.Message
		}
		c.o.Logger.Log(c.ctx, level, "home assistant: no connection", "url", c.base, "reason", e.Message)
		pause := time.Duration((0.5 + rand.Float64()/2) * float64(wait))
		floor := c.o.Retry // minimum pause between two attempts, even if a caller waits
		if e.Code == parley.CodeUnauthenticated {
			pause, floor = c.o.AuthRetry, c.o.AuthRetry/10
		} else if wait *= 2; wait > c.o.MaxRetry {
			wait = c.o.MaxRetry
		}
		if !c.pause(began, floor, pause) {
			c.set(nil, parley.Errorf(parley.CodeUnavailable, "the connection to Home Assistant is closed: Parley is stopping"))
			return
		}
	}
}

// pause waits before the next attempt, for less time if a caller needs the connection. It
// returns false when the client is closed.
func (c *client) pause(began time.Time, floor, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.ctx.Done():
		return false
	case <-t.C:
		return true
	case <-c.kick:
	}
	rest := time.NewTimer(max(0, min(floor, d)-time.Since(began)))
	defer rest.Stop()
	select {
	case <-c.ctx.Done():
		return false
	case <-rest.C:
		return true
	}
}

// serve uses a connection until it ends, and returns how long to pause before the next attempt.
func (c *client) serve(s *socket, wait time.Duration) time.Duration {
	began := time.Now()
	var parts sync.WaitGroup
	parts.Go(func() { s.read(c.o.MaxMessage, c.base) })
	stopped := context.AfterFunc(c.ctx, func() {
		s.fail(parley.Errorf(parley.CodeUnavailable, "the connection to Home Assistant is closed: Parley is stopping"))
	})
	// The answer does not matter: an old Core does not know this command.
	parts.Go(func() {
		_, _ = s.call(s.ctx, "supported_features", map[string]any{"features": map[string]any{"coalesce_messages": 1}}, nil)
		if s.why() != nil {
			return
		}
		c.set(s, nil)
		c.o.Logger.Info("home assistant: connected", "url", c.base, "version", s.version)
		c.onReady(s.ctx, s)
	})
	parts.Go(func() { s.beat(c.o.Heartbeat) })
	<-s.dead
	_ = s.ws.CloseNow()
	parts.Wait()
	stopped()
	if time.Since(began) > 10*time.Second || time.Since(began) > wait { // it worked for a while
		return c.o.Retry
	}
	return wait
}

func (c *client) set(s *socket, why *parley.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if (s == nil) != (c.cur == nil) || c.tries == 0 && s == nil {
		c.since = time.Now()
	}
	if c.tries++; s != nil {
		c.tries = 0
	} else {
		c.failed = c.begun
	}
	c.cur, c.why = s, why
	close(c.changed)
	c.changed = make(chan struct{})
}

// status returns the state of the connection. why is nil when it is up.
func (c *client) status() (why *parley.Error, since time.Time, heard time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur != nil {
		heard = time.Unix(0, c.cur.heard.Load())
	}
	return c.why, c.since, heard
}

// socket returns the connection. If there is none, it waits for an attempt that began after the
// call, so that an earlier failure does not count.
func (c *client) socket(ctx context.Context) (*socket, error) {
	patience := time.NewTimer(c.o.Patience)
	defer patience.Stop()
	asked := -1
	for {
		c.mu.Lock()
		s, why, changed, tries, since := c.cur, c.why, c.changed, c.tries, c.since
		if asked < 0 {
			asked = c.begun
		}
		tried := c.failed > asked
		c.mu.Unlock()
		if s != nil {
			return s, nil
		}
		if tried || c.ctx.Err() != nil {
			return nil, c.away(why, tries, since)
		}
		select {
		case c.kick <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-patience.C:
			return nil, c.away(why, tries, since)
		case <-ctx.Done():
			return nil, c.away(why, tries, since)
		}
	}
}

func (c *client) away(why *parley.Error, tries int, since time.Time) *parley.Error {
	e := *why
	if e.Code == parley.CodeUnavailable && tries > 1 {
		e.Message += " (since " + since.UTC().Format(time.RFC3339) + ")"
	}
	return &e
}

// ask sends a command that only reads. If the connection is lost, it is sent once more on the
// next one.
func (c *client) ask(ctx context.Context, kind string, args map[string]any, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	for again := false; ; again = true {
		s, err := c.socket(ctx)
		if err != nil {
			return err
		}
		raw, err := s.call(ctx, kind, args, nil)
		// An answer that was too large would be too large again.
		if (seam.IsNotSent(err) || isLost(err) && parley.CodeOf(err) != parley.CodeTooLarge) && !again && ctx.Err() == nil {
			c.gone(ctx, s)
			continue
		}
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return errMalformed(err)
		}
		return nil
	}
}

// gone waits until a dead connection has been replaced or removed.
func (c *client) gone(ctx context.Context, s *socket) {
	for {
		c.mu.Lock()
		cur, changed := c.cur, c.changed
		c.mu.Unlock()
		if cur != s {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// get makes a REST request that only reads.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	began := time.Now()
	target := c.apiURL + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return parley.Errorf(parley.CodeInvalid, "the request of %s cannot be made", path)
	}
	req.Header.Set("Authorization", "Bearer "+c.o.Token)
	resp, err := c.rest.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return waited(ctx, path, time.Since(began))
		}
		return errAway("Home Assistant at %s cannot be reached: %s", c.base, c.clean(rootCause(err)))
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	raw, err := io.ReadAll(io.LimitReader(resp.Body, c.o.MaxMessage+1))
	switch {
	case ctx.Err() != nil:
		return waited(ctx, path, time.Since(began))
	case err != nil:
		return errAway("Home Assistant at %s broke off its answer: %s", c.base, c.clean(rootCause(err)))
	case int64(len(raw)) > c.o.MaxMessage:
		return parley.Errorf(parley.CodeTooLarge, "Home Assistant's answer has more than %d bytes", c.o.MaxMessage).
			WithHint("ask for a shorter time or fewer entities")
	}
	if resp.StatusCode != http.StatusOK {
		return c.status2error(resp.StatusCode, raw)
	}
	if text, ok := into.(*string); ok {
		*text = string(raw)
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return errMalformed(err)
	}
	return nil
}

func (c *client) status2error(code int, raw []byte) error {
	var m struct {
		Message string `json:"message"`
	}
	said := string(bytes.TrimSpace(raw))
	if json.Unmarshal(raw, &m) == nil && m.Message != "" {
		said = m.Message
	}
	said = c.clean(clip(said, 200))
	switch {
	case code == http.StatusUnauthorized:
		return errToken(said)
	case code == http.StatusForbidden:
		return errToken(said).WithHint("Home Assistant may have banned this address after wrong tokens: see ip_bans.yaml there")
	case code == http.StatusNotFound:
		return &refused{parley.Errorf(parley.CodeNotFound, "Home Assistant: %s", said)}
	case code == http.StatusBadRequest:
		return &refused{parley.Errorf(parley.CodeInvalid, "Home Assistant: %s", said)}
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return errAway("Home Assistant at %s cannot be reached: its proxy answered with status %d", c.base, code)
	}
	return parley.Errorf(parley.CodeTool, "Home Assistant answered with status %d: %s", code, said)
}

// is reports whether err has a code.
func is(err error, code parley.Code) bool {
	return err != nil && errors.Is(err, &parley.Error{Code: code})
}
