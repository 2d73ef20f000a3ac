package push_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/push"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// receiver is a service that webhooks reach, in the test's own time.
type receiver struct {
	t   *testing.T
	url string
	got chan received
	// answer decides how a message is answered; nil: 204.
	answer func(n int, w http.ResponseWriter, r *http.Request)

	mu sync.Mutex
	n  int
}

type received struct {
	header http.Header
	path   string
	body   []byte
}

func (r received) id() string { return r.header.Get("Webhook-Id") }

func (r received) kind() string {
	var m struct{ Type string }
	_ = json.Unmarshal(r.body, &m)
	return m.Type
}

// network carries requests to the handlers of their hosts. Nothing of it waits outside of fake time.
type network struct{ hosts sync.Map }

var wires network // each host is one test's

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	h, ok := n.hosts.Load(r.URL.Host)
	if !ok {
		return nil, errors.New("no such host")
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.(http.Handler).ServeHTTP(w, r)
	}()
	<-done // handlers that hang end with the request
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// serve returns the URL of a handler.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	host := fmt.Sprintf("127.0.0.1:%d", 1000+hosts.Add(1))
	wires.hosts.Store(host, h)
	t.Cleanup(func() { wires.hosts.Delete(host) })
	return "http://" + host
}

var hosts atomic.Int64

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, got: make(chan received, 1000)}
	r.url = serve(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.n++
		n, answer := r.n, r.answer
		r.mu.Unlock()
		r.got <- received{q.Header.Clone(), q.URL.Path, body}
		if answer != nil {
			answer(n, w, q)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	return r
}

// next returns the next message, which is there once all has been done that can be done now.
func (r *receiver) next() received {
	r.t.Helper()
	synctest.Wait()
	select {
	case got := <-r.got:
		return got
	default:
		r.t.Fatal("nothing came")
		return received{}
	}
}

// desk is a server in a test's own time.
type desk struct {
	*enginetest.Rig
	p     *push.Push
	log   *strings.Builder
	quiet func() // ends Run
}

func (d *desk) now() time.Time { return time.Now() }

func (d *desk) advance(by time.Duration) {
	time.Sleep(by) // of fake time
	synctest.Wait()
}

type safeLog struct {
	mu sync.Mutex
	b  *strings.Builder
}

func (s *safeLog) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

// options are those of a server that reaches the test's receivers.
func options(o push.Options) push.Options {
	o.Allow, o.Client = []string{"127.0.0.1"}, &http.Client{
		Transport: &wires, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return o
}

func newDesk(t *testing.T, store seam.Store, model enginetest.Model, app parley.App, change ...func(*push.Options)) *desk {
	t.Helper()
	d := &desk{log: &strings.Builder{}}
	o := options(push.Options{Logger: slog.New(slog.NewTextHandler(&safeLog{b: d.log}, nil))})
	for _, f := range change {
		f(&o)
	}
	var err error
	if d.p, err = push.Open(t.Context(), store, o); err != nil {
		t.Fatal(err)
	}
	d.Rig = enginetest.Over(t, d.p.Store(store), &enginetest.Service{}, model, app)
	ctx, stop := context.WithCancel(t.Context())
	var hands sync.WaitGroup
	hands.Go(func() { d.p.Run(ctx) })
	d.quiet = func() { stop(); hands.Wait() }
	t.Cleanup(func() { d.quiet(); d.Kill() })
	return d
}

func (d *desk) webhook(url string, change ...func(*parley.AddDevice)) parley.Device {
	d.T.Helper()
	a := parley.AddDevice{Kind: parley.DeviceWebhook, URL: url}
	for _, f := range change {
		f(&a)
	}
	made, err := d.p.Add(context.Background(), enginetest.User, a)
	if err != nil {
		d.T.Fatal(err)
	}
	return made
}

// until checks what is so once all has been done that can be done now.
func (d *desk) until(what string, ok func() bool) {
	d.T.Helper()
	if synctest.Wait(); !ok() {
		d.T.Fatal(what)
	}
}

func (d *desk) waiting(dead bool) []parley.Delivery {
	d.T.Helper()
	list, err := d.p.Deliveries(context.Background(), enginetest.User, dead)
	if err != nil {
		d.T.Fatal(err)
	}
	return list
}

// asks is a model that wants to mail, for which the app asks.
func asks(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if got := enginetest.Results(r); len(got) > 0 {
		say("done")
		return seam.Reply{}, nil
	}
	return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
}

func asking() parley.App {
	return enginetest.App(func(a *parley.App) {
		a.Policy = parley.Policy{Rules: []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}}
	})
}

// TestWebhook: a program is told of a question, its answer and the end of the turn. It can verify
// each message by the specification's rule, and the number of the event is in the log.
func TestWebhook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := newReceiver(t)
		d := newDesk(t, mem.New(), asks, asking())
		made := d.webhook(to.url + "/hooks/parley?token=very-secret-token")
		if !strings.HasPrefix(made.Secret, "whsec_") {
			t.Fatalf("got %+v", made)
		}
		s := d.Session()
		turn := d.Send(s.ID, "mail it")
		opened := to.next()
		d.Await(turn.ID)
		var m struct {
			Type      string
			Timestamp time.Time
			Data      struct {
				User, Org, App, Text string
				Session              parley.SessionID `json:"session_id"`
				Turn                 parley.TurnID    `json:"turn_id"`
				Seq                  int64
				Status               parley.TurnStatus
				Interaction          struct {
					ID      parley.InteractionID
					Kind    parley.InteractionKind
					Choices []string
					Choice  string
				}
			}
		}
		read := func(r received) {
			t.Helper()
			if err := json.Unmarshal(r.body, &m); err != nil {
				t.Fatal(err)
			}
			ev := d.Log(s.ID)[m.Data.Seq-1]
			if string(ev.Type) != m.Type || !ev.Time.Equal(m.Timestamp) || m.Data.Session != s.ID || m.Data.Turn != turn.ID || m.Data.User != "ana" || m.Data.Org != "acme" {
				t.Errorf("%s does not tell of event %d, %s", r.body, ev.Seq, ev.Type)
			}
			verify(t, r, made.Secret)
		}
		if read(opened); m.Type != "interaction.opened" || m.Data.Interaction.Kind != parley.KindPermission || len(m.Data.Interaction.Choices) == 0 {
			t.Errorf("got %s", opened.body)
		}
		if _, err := d.Engine.Answer(t.Context(), enginetest.User, m.Data.Interaction.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		if answered := to.next(); answered.kind() != "interaction.answered" {
			t.Errorf("got %s", answered.body)
		} else if read(answered); m.Data.Interaction.Choice != parley.ChoiceAllow {
			t.Errorf("got %s", answered.body)
		}
		if ended := to.next(); ended.kind() != "turn.completed" {
			t.Errorf("got %s", ended.body)
		} else if read(ended); m.Data.Status != parley.StatusCompleted || m.Data.Text != "done" {
			t.Errorf("got %s", ended.body)
		}
		d.until("the outbox is not empty", func() bool { return len(d.waiting(false))+len(d.waiting(true)) == 0 })
		d.until("the device is not known to work", func() bool { return !d.p.Devices(enginetest.User)[0].DeliveredAt.IsZero() })
		d.quiet()
		for _, secret := range []string{made.Secret, "very-secret-token"} {
			if strings.Contains(d.log.String(), secret) {
				t.Errorf("the server's log has %s", secret)
			}
			for _, ev := range d.Log(s.ID) {
				if strings.Contains(string(ev.Data), secret) {
					t.Errorf("event %d has %s", ev.Seq, secret)
				}
			}
		}
	})
}

// verify is the rule of the specification, written anew.
func verify(t *testing.T, r received, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", r.id(), r.header.Get("Webhook-Timestamp"), r.body)
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); !strings.Contains(r.header.Get("Webhook-Signature"), want) {
			t.Errorf("the signature %q does not have %q", r.header.Get("Webhook-Signature"), want)
		}
	}
	if r.id() == "" || strings.Contains(r.id(), ".") {
		t.Errorf("the id is %q", r.id())
	}
}

// TestRetriesCloseTogether: of several devices that fail at about the same time each gets its message again when its own time has come.
func TestRetriesCloseTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, mem.New(), enginetest.Echo, enginetest.App())
		var all []*receiver
		for range 3 {
			to := newReceiver(t)
			var tried atomic.Int32
			to.answer = func(_ int, w http.ResponseWriter, _ *http.Request) {
				if tried.Add(1) == 1 {
					w.WriteHeader(http.StatusBadGateway)
				}
			}
			d.webhook(to.url, func(a *parley.AddDevice) { a.Events = []string{"turn.*"} })
			all = append(all, to)
		}
		d.Await(d.Send(d.Session().ID, "hello").ID)
		for _, to := range all {
			to.next()
		}
		d.advance(10 * time.Second)
		for _, to := range all {
			to.next()
		}
	})
}

// TestRetry: what fails is tried again with the same id, later each time, and is given up after
// three days. Its owner sees that, and may send it again.
func TestRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := newReceiver(t)
		var well atomic.Bool
		to.answer = func(_ int, w http.ResponseWriter, _ *http.Request) {
			if !well.Load() {
				w.WriteHeader(http.StatusBadGateway)
			}
		}
		d := newDesk(t, mem.New(), enginetest.Echo, enginetest.App())
		made := d.webhook(to.url, func(a *parley.AddDevice) { a.Events = []string{"turn.*"} })
		d.Await(d.Send(d.Session().ID, "hello").ID)
		first, attempts, began := to.next(), 1, time.Now()
		for {
			var left []parley.Delivery
			d.until("the failure is not stored", func() bool {
				left = d.waiting(false)
				return len(left) == 0 || left[0].Attempts == attempts && left[0].Error != ""
			})
			if len(left) == 0 {
				break
			}
			d.advance(left[0].NextAt.Sub(d.now()) + time.Millisecond)
			again := to.next()
			if attempts++; again.id() != first.id() || string(again.body) != string(first.body) {
				t.Errorf("attempt %d is another message", attempts)
			}
		}
		if ahead := time.Since(began); attempts != 10 || ahead < 70*time.Hour || ahead > 100*time.Hour {
			t.Errorf("it was given up after %d attempts and %s", attempts, ahead)
		}
		dead := d.waiting(true)
		if len(dead) != 1 || !dead[0].Dead || dead[0].Error != "502 Bad Gateway" || dead[0].Device != made.ID || dead[0].Type != "turn.completed" {
			t.Fatalf("dead: %+v", dead)
		}
		if got := d.p.Devices(enginetest.User)[0]; got.Failures != 10 || got.LastError != "502 Bad Gateway" {
			t.Errorf("the device: %+v", got)
		}
		if err := d.p.Again(t.Context(), parley.Principal{User: "bob"}, dead[0].ID); parley.CodeOf(err) != parley.CodeNotFound {
			t.Errorf("another user sends it: %v", err)
		}
		well.Store(true)
		if err := d.p.Again(t.Context(), enginetest.User, dead[0].ID); err != nil {
			t.Fatal(err)
		}
		if got := to.next(); got.id() != first.id() {
			t.Errorf("it came as %s, and was %s", got.id(), first.id())
		}
		d.until("it is not gone", func() bool { return len(d.waiting(true))+len(d.waiting(false)) == 0 })
		d.until("the device is not well", func() bool { return d.p.Devices(enginetest.User)[0].Failures == 0 })
	})
}

// TestAnswers: what each answer of a receiver means.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		check  func(d *desk) bool
	}{
		"a redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, func(d *desk) bool {
			return len(d.waiting(false)) == 1 && d.waiting(false)[0].Error == "307 Temporary Redirect"
		}},
		"gone": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusGone) }, func(d *desk) bool {
			return len(d.waiting(true)) == 1 && d.p.Devices(enginetest.User)[0].Paused
		}},
		"later": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
		}, func(d *desk) bool {
			list := d.waiting(false)
			return len(list) == 1 && list[0].NextAt.Sub(d.now()) > 90*time.Minute
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			to := newReceiver(t)
			to.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { c.answer(w) }
			d := newDesk(t, mem.New(), enginetest.Echo, enginetest.App())
			d.webhook(to.url)
			d.Await(d.Send(d.Session().ID, "hello").ID)
			to.next()
			d.until(name, func() bool { return c.check(d) })
		})
	}
}

// TestGuard: a webhook reaches public addresses only, whatever its name resolves to, and only
// by https, except where the operator says so.
func TestGuard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := newReceiver(t)
		d := newDesk(t, mem.New(), enginetest.Echo, enginetest.App(), func(o *push.Options) { o.Allow, o.Client = nil, nil })
		for _, url := range []string{
			"", "x", "http://example.com/", to.url, "ftp://example.com/", "https://ana:secret@example.com/", "https://example.com/#x",
			"https://" + strings.Repeat("x", 2001), "javascript:alert(1)", "https:///x", "//example.com/x", "https://exa\nmple.com",
		} {
			_, err := d.p.Add(t.Context(), enginetest.User, parley.AddDevice{Kind: parley.DeviceWebhook, URL: url})
			if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != parley.CodeInvalid || e.Field != "url" {
				t.Errorf("%.60q: %v", url, err)
			}
		}
		d.webhook(strings.Replace(to.url, "http://", "https://", 1)) // an address of this machine, in the form of a public one
		d.Await(d.Send(d.Session().ID, "hello").ID)
		d.until("it is not refused", func() bool { return len(d.waiting(true)) == 1 })
		if dead := d.waiting(true)[0]; !strings.Contains(dead.Error, "not a public address") && !strings.Contains(dead.Error, "port") {
			t.Errorf("got %+v", dead)
		}
		select {
		case got := <-to.got:
			t.Errorf("it was reached: %s", got.body)
		default:
		}
	})
}

// TestDeadEndpoint: devices of a user that do not answer hold up nobody else, and not the user's
// other devices.
func TestDeadEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dead, well := newReceiver(t), newReceiver(t)
		hang := make(chan struct{})
		t.Cleanup(func() { close(hang) })
		dead.answer = func(_ int, _ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}
		d := newDesk(t, mem.New(), enginetest.Echo, enginetest.App())
		for range 3 {
			d.webhook(dead.url)
		}
		d.webhook(well.url)
		if _, err := d.p.Add(t.Context(), parley.Principal{User: "bob", Org: "acme"}, parley.AddDevice{Kind: parley.DeviceWebhook, URL: well.url}); err != nil {
			t.Fatal(err)
		}
		s := d.Session()
		for range 5 {
			d.Await(d.Send(s.ID, "hello").ID)
			if got := well.next(); got.kind() != "turn.completed" {
				t.Errorf("got %s", got.body)
			}
		}
		of := parley.Principal{User: "bob", Org: "acme"}
		info, _, err := d.Engine.Create(t.Context(), of, parley.CreateSession{App: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Engine.Send(t.Context(), of, info.ID, parley.Send{Message: "hello"}); err != nil {
			t.Fatal(err)
		}
		if got := well.next(); !strings.Contains(string(got.body), `"user":"bob"`) {
			t.Errorf("got %s", got.body)
		}
		// 15 wait for those that do not answer. A message that has arrived is removed a moment later.
		d.until("others wait, too", func() bool { return len(d.waiting(false)) == 15 })
	})
}

// TestManyDeadEndpoints: twelve devices of a user that do not answer take all that is sent to a user at once, but
// only the first time. After it, the other devices are told at once.
func TestManyDeadEndpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dead, well := newReceiver(t), newReceiver(t)
		dead.answer = func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		d := newDesk(t, mem.New(), enginetest.Echo, enginetest.App())
		for range 12 {
			d.webhook(dead.url)
		}
		s := d.Session()
		d.Await(d.Send(s.ID, "hello").ID)
		d.advance(time.Minute) // each has failed now
		d.webhook(well.url)
		for i := range 50 {
			began := time.Now()
			d.Await(d.Send(s.ID, "hello").ID)
			if got := well.next(); got.kind() != "turn.completed" || !time.Now().Equal(began) {
				t.Errorf("message %d: got %s after %s", i, got.body, time.Since(began))
			}
			d.advance(7 * time.Second)
		}
	})
}

// TestNobody: without devices, an append has no rows, and a device is told of nothing that its
// owner did not ask for.
func TestNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := newReceiver(t)
		store := mem.New()
		d := newDesk(t, store, enginetest.Echo, enginetest.App())
		d.Await(d.Send(d.Session().ID, "hello").ID)
		paused := d.webhook(to.url + "/paused")
		yes := true
		if _, err := d.p.Update(t.Context(), enginetest.User, paused.ID, parley.UpdateDevice{Paused: &yes}); err != nil {
			t.Fatal(err)
		}
		d.webhook(to.url+"/other", func(a *parley.AddDevice) { a.Apps = []string{"other"} })
		d.webhook(to.url+"/failed", func(a *parley.AddDevice) { a.Events = []string{"turn.failed", "interaction.*"} })
		removed := d.webhook(to.url + "/removed")
		if err := d.p.Remove(t.Context(), enginetest.User, removed.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := d.p.Add(t.Context(), parley.Principal{User: "bob", Org: "acme"}, parley.AddDevice{Kind: parley.DeviceWebhook, URL: to.url + "/bob"}); err != nil {
			t.Fatal(err)
		}
		d.Await(d.Send(d.Session().ID, "hello").ID)
		rows, err := store.Rows(t.Context(), parley.System(), seam.RowQuery{Kind: seam.RowOutbox, Limit: -1})
		if err != nil || len(rows) != 0 {
			t.Errorf("the outbox has %d rows, %v", len(rows), err)
		}
		d.webhook(to.url + "/ana")
		d.Await(d.Send(d.Session().ID, "hello").ID)
		if got := to.next(); got.path != "/ana" {
			t.Errorf("%s was told", got.path)
		}
	})
}

// TestDevices: devices belong to their users, have limits, and show no secrets.
func TestDevices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		d := newDesk(t, store, enginetest.Echo, enginetest.App())
		made := d.webhook("https://hooks.example/a", func(a *parley.AddDevice) { a.Name = "build" })
		bob := parley.Principal{User: "bob", Org: "acme"}
		if _, err := d.p.Device(bob, made.ID); parley.CodeOf(err) != parley.CodeNotFound {
			t.Errorf("another user's: %v", err)
		}
		for name, err := range map[string]error{
			"update": func() error { _, err := d.p.Update(t.Context(), bob, made.ID, parley.UpdateDevice{}); return err }(),
			"remove": d.p.Remove(t.Context(), bob, made.ID), "test": d.p.Test(t.Context(), bob, made.ID),
			"forget": d.p.Forget(t.Context(), bob, "x"),
		} {
			if parley.CodeOf(err) != parley.CodeNotFound {
				t.Errorf("%s another user's: %v", name, err)
			}
		}
		rotated, err := d.p.Update(t.Context(), enginetest.User, made.ID, parley.UpdateDevice{NewSecret: true})
		if err != nil || rotated.Secret == made.Secret || rotated.Secret == "" {
			t.Fatalf("got %+v, %v", rotated, err)
		}
		for i := range push.MaxDevices - 1 {
			d.webhook(fmt.Sprint("https://hooks.example/", i))
		}
		if _, err := d.p.Add(t.Context(), enginetest.User, parley.AddDevice{Kind: parley.DeviceWebhook, URL: "https://hooks.example/"}); parley.CodeOf(err) != parley.CodeQuota {
			t.Errorf("one too many: %v", err)
		}
		for field, a := range map[string]parley.AddDevice{
			"kind": {Kind: "pigeon"}, "name": {Kind: "webhook", Name: "a\nb"}, "events": {Kind: "webhook", Events: []string{"model.replied"}},
			"secret": {Kind: "webhook", URL: "https://x.example", Secret: "whsec_c2hvcnQ="}, "apps": {Kind: "webhook", Apps: []string{""}},
			"subscription": {Kind: "webpush"}, "subscription.endpoint": {Kind: "webpush", Subscription: &parley.WebPushSubscription{Endpoint: "http://x.example"}},
			"subscription.keys.p256dh": {Kind: "webpush", Subscription: &parley.WebPushSubscription{Endpoint: "https://x.example", Keys: parley.PushKeys{P256DH: "AAAA"}}},
		} {
			_, err := d.p.Add(t.Context(), bob, a)
			if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != parley.CodeInvalid || e.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		// After a restart all is as it was.
		again, err := push.Open(t.Context(), store, push.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d.p.Devices(enginetest.User), again.Devices(enginetest.User)); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		if keyOf(t, again) != keyOf(t, d.p) {
			t.Error("the server has another key for browsers")
		}
		if raw, _ := json.Marshal(d.p.Devices(enginetest.User)); strings.Contains(string(raw), "whsec_") {
			t.Errorf("a list has a secret: %s", raw)
		}
	})
}

// TestRotation: while a secret is replaced, messages carry both signatures, and after a day one.
func TestRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := newReceiver(t)
		d := newDesk(t, mem.New(), enginetest.Echo, enginetest.App())
		made := d.webhook(to.url)
		next, err := d.p.Update(t.Context(), enginetest.User, made.ID, parley.UpdateDevice{NewSecret: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.p.Test(t.Context(), enginetest.User, made.ID); err != nil {
			t.Fatal(err)
		}
		got := to.next()
		if verify(t, got, next.Secret, made.Secret); got.kind() != "test" {
			t.Errorf("got %s", got.body)
		}
		d.advance(25 * time.Hour)
		if err := d.p.Test(t.Context(), enginetest.User, made.ID); err != nil {
			t.Fatal(err)
		}
		got = to.next()
		if verify(t, got, next.Secret); strings.Contains(got.header.Get("Webhook-Signature"), " ") {
			t.Errorf("after a day: %q", got.header.Get("Webhook-Signature"))
		}
	})
}

// TestSessionGone: what was to be sent about a session goes with it.
func TestSessionGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := newReceiver(t)
		to.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }
		d := newDesk(t, mem.New(), enginetest.Echo, enginetest.App())
		d.webhook(to.url)
		s := d.Session()
		d.Await(d.Send(s.ID, "hello").ID)
		to.next()
		d.until("the failure is not stored", func() bool { l := d.waiting(false); return len(l) == 1 && l[0].Error != "" })
		if err := d.Engine.Delete(t.Context(), enginetest.User, s.ID); err != nil {
			t.Fatal(err)
		}
		if left := d.waiting(false); len(left) != 0 {
			t.Errorf("left: %+v", left)
		}
	})
}

// TestQuietHours: when they end, over midnight and where clocks change.
func TestQuietHours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := func(text string) time.Time {
			got, err := time.Parse(time.RFC3339, text)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		night := parley.QuietHours{From: "22:00", To: "07:00", Zone: "Europe/Zurich"}
		noon := parley.QuietHours{From: "12:00", To: "13:30", Zone: ""}
		for _, c := range []struct {
			q         parley.QuietHours
			now, want string
		}{
			{night, "2026-11-27T20:59:59Z", ""},
			{night, "2026-11-27T21:00:00Z", "2026-11-28T06:00:00Z"},
			{night, "2026-11-28T05:59:59Z", "2026-11-28T06:00:00Z"},
			{night, "2026-11-28T06:00:00Z", ""},
			{night, "2026-03-28T23:30:00Z", "2026-03-29T05:00:00Z"}, // the night in which clocks go forward
			{night, "2026-10-25T00:30:00Z", "2026-10-25T06:00:00Z"}, // and back
			{noon, "2026-11-27T12:30:00Z", "2026-11-27T13:30:00Z"},
			{noon, "2026-11-27T14:30:00Z", ""},
			{parley.QuietHours{From: "08:00", To: "08:00"}, "2026-11-27T08:00:00Z", ""},
		} {
			got, err := push.QuietUntil(c.q, at(c.now))
			if c.want == "" && !got.IsZero() || c.want != "" && !got.Equal(at(c.want)) || err != nil {
				t.Errorf("%+v at %s: %s, %v; want %s", c.q, c.now, got.UTC(), err, c.want)
			}
		}
		d := newDesk(t, mem.New(), enginetest.Echo, enginetest.App())
		for field, q := range map[string]parley.QuietHours{
			"quiet.time_zone": {From: "22:00", To: "07:00", Zone: "Mars/Phobos"}, "quiet.from": {From: "25:00", To: "07:00"}, "quiet.to": {From: "22:00", To: "7"},
		} {
			_, err := d.p.Wish(t.Context(), enginetest.User, parley.Notify{Quiet: &q})
			if e, ok := errors.AsType[*parley.Error](err); !ok || e.Field != field {
				t.Errorf("%+v: %v", q, err)
			}
		}
	})
}

// halting is a store that says that a put failed although it was made, as a database does whose
// connection breaks during the commit.
type halting struct {
	seam.Store
	fails atomic.Bool
}

func (h *halting) PutRow(ctx context.Context, p parley.Principal, r seam.Row) (int64, error) {
	v, err := h.Store.PutRow(ctx, p, r)
	if err == nil && r.Kind == seam.RowDevice && h.fails.CompareAndSwap(true, false) {
		return 0, errors.New("the connection broke")
	}
	return v, err
}

// TestPutThatMayHaveBeenMade: a device can be changed after a change of it failed that was stored all
// the same.
func TestPutThatMayHaveBeenMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &halting{Store: mem.New()}
		d := newDesk(t, store, enginetest.Echo, enginetest.App())
		made := d.webhook(newReceiver(t).url)
		store.fails.Store(true)
		name := "first"
		if _, err := d.p.Update(t.Context(), enginetest.User, made.ID, parley.UpdateDevice{Name: &name}); err == nil {
			t.Fatal("the change did not fail")
		}
		name = "second"
		got, err := d.p.Update(t.Context(), enginetest.User, made.ID, parley.UpdateDevice{Name: &name})
		if err != nil || got.Name != "second" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// TestBacklog: the messages of a device that does not answer, or is slow, take no more than its share
// of the outbox, the newest of them. So the user's other device is told although the outbox was full.
func TestBacklog(t *testing.T) {
	t.Parallel()
	for _, answer := range map[string]func(hang chan struct{}, w http.ResponseWriter, r *http.Request){
		"dead": func(_ chan struct{}, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		"slow": func(hang chan struct{}, _ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := mem.New()
			bad, well := newReceiver(t), newReceiver(t)
			hang := make(chan struct{})
			t.Cleanup(func() { close(hang) })
			bad.answer = func(_ int, w http.ResponseWriter, r *http.Request) { answer(hang, w, r) }
			d := newDesk(t, store, enginetest.Echo, enginetest.App())
			to := d.webhook(bad.url)
			d.webhook(well.url)
			last := ""
			for i := 0; ; i++ { // what is due in an hour
				at := time.Now().Add(time.Hour + time.Duration(i)*time.Millisecond)
				body := fmt.Sprintf(`{"device":%q,"type":"turn.completed","at":%q,"text":%q}`, to.ID, at.UTC().Format(time.RFC3339Nano), strings.Repeat("x", 1500))
				id := fmt.Sprintf("push-%06d-%s", i, to.ID)
				_, err := store.PutRow(t.Context(), enginetest.User, seam.Row{
					RowName: seam.RowName{Kind: seam.RowOutbox, ID: id}, Due: parley.Now(at), Open: i%10 > 0, Body: json.RawMessage(body),
				})
				if parley.CodeOf(err) == parley.CodeQuota {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if i%10 > 0 {
					last = id
				}
			}
			held := func() (kib int, newest bool) {
				rows, err := store.Rows(t.Context(), parley.System(), seam.RowQuery{Kind: seam.RowOutbox, Limit: -1})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range rows {
					kib += (len(r.ID) + len(r.Body) + 1023) / 1024
					newest = newest || r.ID == last
				}
				return kib, newest
			}
			d.advance(2 * time.Hour)
			d.until("the outbox is still full", func() bool { kib, _ := held(); return kib <= 1<<10 })
			if kib, newest := held(); kib < 900 || !newest {
				t.Errorf("%d KiB are left of a share of 1024; the newest is there: %v", kib, newest)
			}
			d.Await(d.Send(d.Session().ID, "hello").ID)
			if got := well.next(); got.kind() != "turn.completed" {
				t.Errorf("got %s", got.body)
			}
			d.quiet()
			if log := d.log.String(); !strings.Contains(log, "messages to a device were dropped") {
				t.Errorf("nothing is said of it: %s", log)
			}
		})
	}
}

// TestNoDevices: a server that notifies nobody writes nothing into its store.
func TestNoDevices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		d := newDesk(t, store, enginetest.Echo, enginetest.App())
		d.Await(d.Send(d.Session().ID, "hello").ID)
		rows, err := store.Rows(t.Context(), parley.System(), seam.RowQuery{Limit: -1})
		if err != nil || len(rows) > 0 {
			t.Errorf("the store has %v (%v)", rows, err)
		}
	})
}

// keyOf is the key that browsers subscribe with.
func keyOf(t *testing.T, p *push.Push) string {
	t.Helper()
	info, err := p.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Key
}
