package push_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/push"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

func raw64(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEncrypt is the example of RFC 8291, appendix A.
func TestEncrypt(t *testing.T) {
	t.Parallel()
	ephemeral, err := ecdh.P256().NewPrivateKey(raw64(t, "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := push.Encrypt([]byte("When I grow up, I want to be a watermelon"),
		raw64(t, "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
		raw64(t, "BTBZMqHH6r4Tts7J_aSIgg"), ephemeral, raw64(t, "DGv6ra1nlYgDCS1FRnbzlw"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
	if text := base64.RawURLEncoding.EncodeToString(got); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// browser is a browser with its push service, which decrypts what it gets.
type browser struct {
	*receiver
	key  *ecdh.PrivateKey
	auth []byte
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{newReceiver(t), key, []byte("0123456789abcdef")}
	b.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }
	return b
}

func (b *browser) subscription() parley.AddDevice {
	return parley.AddDevice{Kind: parley.DeviceWebPush, Name: "phone", Subscription: &parley.WebPushSubscription{
		Endpoint: b.url + "/send/secret-endpoint", Keys: parley.PushKeys{
			P256DH: base64.RawURLEncoding.EncodeToString(b.key.PublicKey().Bytes()), Auth: base64.RawURLEncoding.EncodeToString(b.auth),
		},
	}}
}

// shown is what the page's worker gets.
type shown struct {
	ID, Type, Title, Body, Tag, App, Kind string
	Close                                 bool
	Session                               parley.SessionID
	Interaction                           parley.InteractionID
	Choices                               []string
}

// open decrypts a message as a browser does.
func (b *browser) open(r received) (s shown) {
	b.t.Helper()
	must := func(err error) {
		if err != nil {
			b.t.Fatal(err)
		}
	}
	salt, size := r.body[:16], int(r.body[20])
	from, err := ecdh.P256().NewPublicKey(r.body[21 : 21+size])
	must(err)
	shared, err := b.key.ECDH(from)
	must(err)
	ikm, err := hkdf.Key(sha256.New, shared, b.auth, "WebPush: info\x00"+string(b.key.PublicKey().Bytes())+string(from.Bytes()), 32)
	must(err)
	key, err := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: aes128gcm\x00", 16)
	must(err)
	nonce, err := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: nonce\x00", 12)
	must(err)
	block, err := aes.NewCipher(key)
	must(err)
	gcm, err := cipher.NewGCM(block)
	must(err)
	plain, err := gcm.Open(nil, nonce, r.body[21+size:], nil)
	must(err)
	plain = bytes.TrimRight(plain, "\x00")
	if plain[len(plain)-1] != 2 || len(r.body) > 4096 {
		b.t.Errorf("the record of %d bytes ends in %x", len(r.body), plain[len(plain)-1])
	}
	must(json.Unmarshal(plain[:len(plain)-1], &s))
	return s
}

// TestWebPush: a browser is told of a question; when it was answered elsewhere, its notification
// is closed. The request is as the RFCs say.
func TestWebPush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBrowser(t)
		d := newDesk(t, mem.New(), asks, asking(), func(o *push.Options) { o.Contact = "mailto:ops@example.com" })
		made, err := d.p.Add(t.Context(), enginetest.User, b.subscription())
		if err != nil || made.URL != b.url {
			t.Fatalf("got %+v, %v", made, err)
		}
		if _, err := d.p.Wish(t.Context(), enginetest.User, parley.Notify{Waits: true, Ends: true}); err != nil {
			t.Fatal(err)
		}
		s := d.Session()
		turn := d.Send(s.ID, "mail it")
		first := b.next()
		asked := b.open(first)
		if asked.Type != "interaction.opened" || asked.Body != "Allow mail?" || asked.Session != s.ID || len(asked.Choices) != 3 || asked.Close || asked.Tag != "interaction-"+string(asked.Interaction) {
			t.Errorf("got %+v", asked)
		}
		if h := first.header; h.Get("Content-Encoding") != "aes128gcm" || h.Get("Urgency") != "high" || len(h.Get("Topic")) != 32 || h.Get("TTL") == "" || h.Get("TTL") == "0" {
			t.Errorf("got %v", h)
		}
		checkVAPID(t, first.header.Get("Authorization"), b.url, keyOf(t, d.p), d.now())
		if _, err := d.Engine.Answer(t.Context(), enginetest.User, asked.Interaction, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		if got := b.open(b.next()); !got.Close || got.Tag != asked.Tag {
			t.Errorf("got %+v", got)
		}
		d.Await(turn.ID)
		if got := b.open(b.next()); got.Type != "turn.completed" || got.Body != "done" || got.Title != "mail it" || got.Tag != "session-"+string(s.ID) {
			t.Errorf("got %+v", got)
		}
		d.quiet()
		if raw, _ := json.Marshal(d.p.Devices(enginetest.User)); strings.Contains(d.log.String()+string(raw), "secret-endpoint") {
			t.Errorf("the endpoint is shown: %s\n%s", raw, d.log.String())
		}
	})
}

// checkVAPID is RFC 8292, written anew.
func checkVAPID(t *testing.T, header, origin, key string, now time.Time) {
	t.Helper()
	token, k, _ := strings.Cut(strings.TrimPrefix(header, "vapid t="), ", k=")
	point := raw64(t, k)
	if k != key || len(point) != 65 || point[0] != 4 {
		t.Fatalf("got %q", header)
	}
	public := &ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(point[1:33]), Y: new(big.Int).SetBytes(point[33:])}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signed.Verify(public)
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Aud, Sub string
		Exp      int64
	}
	if err := json.Unmarshal(raw, &claims); err != nil || claims.Aud != origin || claims.Sub != "mailto:ops@example.com" {
		t.Errorf("got %s, %v", raw, err)
	}
	if left := time.Unix(claims.Exp, 0).Sub(now); left <= 0 || left > 24*time.Hour {
		t.Errorf("it is valid for %s", left)
	}
}

// TestPeople: people are told what they want to be told, when they want it.
func TestPeople(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, program := newBrowser(t), newReceiver(t)
		d := newDesk(t, mem.New(), asks, asking())
		if _, err := d.p.Add(t.Context(), enginetest.User, b.subscription()); err != nil {
			t.Fatal(err)
		}
		answer := func(r received) {
			t.Helper()
			var m struct {
				Data struct {
					Interaction struct{ ID parley.InteractionID }
				}
			}
			if err := json.Unmarshal(r.body, &m); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Engine.Answer(t.Context(), enginetest.User, m.Data.Interaction.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceDeny}}); err != nil {
				t.Fatal(err)
			}
		}
		wish := func(n parley.Notify) {
			t.Helper()
			if _, err := d.p.Wish(t.Context(), enginetest.User, n); err != nil {
				t.Fatal(err)
			}
		}
		d.webhook(program.url)
		quick := parley.Notify{Waits: true, Ends: true, After: 3600}
		// Nothing is wanted; the program is told all the same.
		wish(parley.Notify{})
		turn := d.Send(d.Session().ID, "mail it")
		answer(program.next())
		d.Await(turn.ID)
		program.next()
		program.next()
		// The question is wanted, and not the end of a turn that was over at once. In quiet hours it
		// waits, and is not shown when it was answered meanwhile.
		zone := d.now().UTC()
		quick.Quiet = &parley.QuietHours{From: zone.Add(-time.Hour).Format("15:04"), To: zone.Add(2 * time.Hour).Format("15:04")}
		wish(quick)
		turn = d.Send(d.Session().ID, "mail it")
		asked := program.next()
		d.until("it does not wait", func() bool {
			list := d.waiting(false)
			return len(list) == 1 && list[0].NextAt.Sub(d.now()) > time.Hour && list[0].Attempts == 0
		})
		answer(asked)
		d.Await(turn.ID)
		program.next()
		program.next()
		d.until("the question that was answered still waits", func() bool { return len(d.waiting(false)) == 0 })
		turn = d.Send(d.Session().ID, "mail it")
		asked = program.next()
		d.until("it does not wait", func() bool { l := d.waiting(false); return len(l) == 1 && l[0].NextAt.Sub(d.now()) > time.Hour })
		d.advance(3 * time.Hour)
		if got := b.open(b.next()); got.Type != "interaction.opened" {
			t.Errorf("got %+v", got)
		}
		answer(asked)
		d.Await(turn.ID)
		if got := b.open(b.next()); !got.Close {
			t.Errorf("got %+v", got)
		}
		select {
		case r := <-b.got:
			t.Errorf("a person was told of %+v", b.open(r))
		default:
		}
	})
}

// TestConfirmation: what is sent when somebody confirms can be confirmed on a notification only where
// it shows all of that.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			words, input string
			want         bool
		}{
			{"Post this?\nHello, all.\nPUBLIC", `{"text":"Hello, all.","who":"PUBLIC"}`, true},
			{"Pay 17.50 to Ana?", `{"amount":17.50,"to":["Ana"]}`, true},
			{"POST /api/leads?", `{"method":"POST","path":"/api/leads","body":{"name":"Eve"}}`, false},
			{"Pay 17.50 to Ana?", `{"amount":17.50,"to":["Ana","Eve"]}`, false},
			{"Delete a?", `{"name":"a","force":true}`, false},
			{"Delete?", ``, false},
		} {
			if got := push.Covers(c.words, json.RawMessage(c.input)); got != c.want {
				t.Errorf("%q has all of %s: %v", c.words, c.input, got)
			}
		}
		b := newBrowser(t)
		d := newDesk(t, mem.New(), asks, enginetest.App(func(a *parley.App) {
			a.Policy = parley.Policy{Rules: []parley.Rule{{Verdict: parley.Confirm, Effect: parley.EffectWrite}}}
		}))
		if _, err := d.p.Add(t.Context(), enginetest.User, b.subscription()); err != nil {
			t.Fatal(err)
		}
		d.Send(d.Session().ID, "mail it")
		if got := b.open(b.next()); got.Kind != string(parley.KindConfirmation) || !slices.Equal(got.Choices, []string{parley.ChoiceDeny}) {
			t.Errorf("the notification of a mail that it does not show: %+v", got)
		}
	})
}

// TestDeadSubscription: a browser that has unsubscribed is forgotten. One that subscribes again
// keeps its entry.
func TestDeadSubscription(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusNotFound, http.StatusGone} {
		synctest.Test(t, func(t *testing.T) {
			b := newBrowser(t)
			b.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
			d := newDesk(t, mem.New(), asks, asking())
			made, err := d.p.Add(t.Context(), enginetest.User, b.subscription())
			if err != nil {
				t.Fatal(err)
			}
			again, err := d.p.Add(t.Context(), enginetest.User, b.subscription())
			if err != nil || again.ID != made.ID || len(d.p.Devices(enginetest.User)) != 1 {
				t.Errorf("subscribed again: %+v, %v", again, err)
			}
			d.Send(d.Session().ID, "mail it")
			b.next()
			d.until("the device is there", func() bool { return len(d.p.Devices(enginetest.User)) == 0 })
			d.until("the outbox is not empty", func() bool { return len(d.waiting(false))+len(d.waiting(true)) == 0 })
		})
	}
}

// TestDeadAreFew: of what was given up the newest hundred are kept, so that a device that rejects
// everything leaves room for the others.
func TestDeadAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBrowser(t)
		b.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }
		d := newDesk(t, mem.New(), enginetest.Echo, enginetest.App())
		made, err := d.p.Add(t.Context(), enginetest.User, b.subscription())
		if err != nil {
			t.Fatal(err)
		}
		var last time.Time
		for n := range 110 {
			d.advance(time.Second)
			if last = d.now(); d.p.Test(t.Context(), enginetest.User, made.ID) != nil {
				t.Fatal("no test is sent")
			}
			b.next()
			d.until("it was not given up", func() bool { return d.p.Devices(enginetest.User)[0].Failures == n+1 })
		}
		dead := d.waiting(true)
		newest := slices.MaxFunc(dead, func(a, b parley.Delivery) int { return a.At.Compare(b.At) })
		oldest := slices.MinFunc(dead, func(a, b parley.Delivery) int { return a.At.Compare(b.At) })
		if len(dead) != 100 || newest.At.Before(last.Add(-time.Second)) || newest.At.Sub(oldest.At) > 2*time.Minute {
			t.Errorf("%d are kept, from %s to %s", len(dead), oldest.At, newest.At)
		}
	})
}

// google is FCM with its authorization server.
type google struct {
	url    string
	got    chan map[string]any
	key    *rsa.PrivateKey
	mu     sync.Mutex
	code   int
	body   string
	tokens int
}

func newGoogle(t *testing.T) *google {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	g := &google{got: make(chan map[string]any, 100), key: key, code: 200, body: `{"name":"projects/p1/messages/0:1"}`}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		signed, err := jose.ParseSignedCompact(r.FormValue("assertion"), []jose.SignatureAlgorithm{jose.RS256})
		if err != nil {
			t.Error(err)
			return
		}
		raw, err := signed.Verify(&key.PublicKey)
		if err != nil || !strings.Contains(string(raw), "firebase.messaging") || r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
			t.Errorf("%s, %v", raw, err)
		}
		g.mu.Lock()
		g.tokens++
		g.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"ya29.x","token_type":"Bearer","expires_in":3600}`)
	})
	mux.HandleFunc("POST /v1/projects/p1/messages:send", func(w http.ResponseWriter, r *http.Request) {
		var m struct{ Message map[string]any }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.Header.Get("Authorization") != "Bearer ya29.x" {
			t.Errorf("%v, %v", err, r.Header)
		}
		g.mu.Lock()
		code, body := g.code, g.body
		g.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
		g.got <- m.Message
	})
	g.url = serve(t, mux)
	return g
}

func (g *google) account(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(g.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p1", "client_email": "parley@p1.iam.gserviceaccount.com", "private_key_id": "k1", "token_uri": g.url + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestFCM: an app on a phone gets the message of the HTTP v1 API, and one that was removed is
// forgotten.
func TestFCM(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGoogle(t)
		d := newDesk(t, mem.New(), asks, asking(), func(o *push.Options) { o.FCM, o.FCMURL = g.account(t), g.url })
		if _, err := d.p.Add(t.Context(), enginetest.User, parley.AddDevice{Kind: parley.DeviceFCM, Token: "phone-1"}); err != nil {
			t.Fatal(err)
		}
		s := d.Session()
		turn := d.Send(s.ID, "mail it")
		m := <-g.got
		data, _ := m["data"].(map[string]any)
		note, _ := m["notification"].(map[string]any)
		if m["token"] != "phone-1" || note["body"] != "Allow mail?" || data["session"] != string(s.ID) || data["choices"] != "allow,allow_session,deny" {
			t.Errorf("got %v", m)
		}
		for k, v := range data {
			if _, ok := v.(string); !ok {
				t.Errorf("%s is not a text: %v", k, v)
			}
		}
		// A failure that names the token, and one that is about the message.
		g.mu.Lock()
		g.code, g.body = 404, `{"error":{"code":404,"message":"Requested entity was not found.","status":"NOT_FOUND","details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"UNREGISTERED"}]}}`
		g.mu.Unlock()
		in, _ := data["interaction"].(string)
		if _, err := d.Engine.Answer(context.WithoutCancel(t.Context()), enginetest.User, parley.InteractionID(in), parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceDeny}}); err != nil {
			t.Fatal(err)
		}
		if m = <-g.got; m["notification"] != nil || m["data"].(map[string]any)["close"] != "true" {
			t.Errorf("got %v", m)
		}
		d.Await(turn.ID)
		d.until("the device is there", func() bool { return len(d.p.Devices(enginetest.User)) == 0 })
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.tokens != 1 {
			t.Errorf("%d tokens were asked for", g.tokens)
		}
	})
}

// TestFCMCredentials: a wrong file is found at the start.
func TestFCMCredentials(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "{}", `{"type":"authorized_user"}`, `{"type":"service_account","project_id":"p","client_email":"a","private_key":"x","token_uri":"::"}`} {
		if _, err := push.Open(t.Context(), mem.New(), push.Options{FCM: []byte(text)}); parley.CodeOf(err) != parley.CodeInvalid || strings.Contains(err.Error(), "private_key") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := push.Open(t.Context(), mem.New(), push.Options{VAPID: "short"}); parley.CodeOf(err) != parley.CodeInvalid {
		t.Errorf("a wrong key: %v", err)
	}
}

// TestBrowserOfAnother: a browser, or an app, that somebody else registers is no longer the former
// user's, whose answers would be shown to whoever sits in front of it now. The same user in another
// organisation is nobody else, and a browser with the same address but other keys is another.
func TestBrowserOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBrowser(t)
		store := mem.New()
		d := newDesk(t, store, enginetest.Echo, enginetest.App())
		bob, ana := parley.Principal{User: "bob", Org: enginetest.User.Org}, parley.Principal{User: enginetest.User.User, Org: "other"}
		add := func(of parley.Principal, a parley.AddDevice) {
			t.Helper()
			if _, err := d.p.Add(t.Context(), of, a); err != nil {
				t.Fatal(err)
			}
		}
		has := func(want map[parley.Principal]int) {
			t.Helper()
			rows, err := store.Rows(t.Context(), parley.System(), seam.RowQuery{Kind: seam.RowDevice, Limit: -1})
			if err != nil {
				t.Fatal(err)
			}
			kept := map[parley.Principal]int{}
			for _, r := range rows {
				kept[parley.Principal{User: r.User, Org: r.Org}]++
			}
			for of, n := range want {
				if got := len(d.p.Devices(of)); got != n || kept[of] != n {
					t.Errorf("%v has %d devices, %d stored, want %d", of, got, kept[of], n)
				}
			}
		}
		add(enginetest.User, b.subscription())
		add(ana, b.subscription())
		has(map[parley.Principal]int{enginetest.User: 1, ana: 1})
		guess := b.subscription()
		guess.Subscription.Keys.Auth = base64.RawURLEncoding.EncodeToString([]byte("fedcba9876543210"))
		add(bob, guess)
		has(map[parley.Principal]int{enginetest.User: 1, ana: 1, bob: 1})
		add(bob, b.subscription())
		has(map[parley.Principal]int{enginetest.User: 0, ana: 0, bob: 1})
		if _, err := d.p.Wish(t.Context(), enginetest.User, parley.Notify{Ends: true}); err != nil {
			t.Fatal(err)
		}
		d.Await(d.Send(d.Session().ID, "for ana alone").ID)
		if rows, err := store.Rows(t.Context(), parley.System(), seam.RowQuery{Kind: seam.RowOutbox, Limit: -1}); err != nil || len(rows) != 0 {
			t.Errorf("the outbox has %d rows, %v", len(rows), err)
		}
	})
}

// TestPlain: notifications draw no Markdown, so they have none.
func TestPlain(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"done": "done",
		"**Google OAuth.** See [the page](https://example.com/a) and `go test`.": "Google OAuth. See the page and go test.",
		"# Lamps\n\n- one\n- two, *dim*\n\nAll <https://example.com>.":           "Lamps\n• one\n• two, dim\nAll https://example.com.",
		"| Room | On |\n|---|---|\n| Hall | 2 |":                                 "Room | On\nHall | 2",
		"Run:\n\n```sh\nmake test\n```\n\nThen *wait* & see\nmore.":              "Run:\nmake test\nThen wait & see more.",
		"5 < 6 and 2 * 3 * 4":                                          "5 < 6 and 2 * 3 * 4",
		"a cut **bold text with":                                       "a cut **bold text with",
		"List<int> and map<K>, <not html>, a<b":                        "List<int> and map<K>, <not html>, a<b",
		"The tag <br> breaks, <b>this</b> is bold<br/>here, <p opens.": "The tag breaks, this is bold here, <p opens.",
		"Use `<b>` or <a>.":                                            "Use <b> or <a>.",
		"<p>All is <i>well</i> &amp; done.</p>":                        "All is well & done.",
		"<div>\n<h1>Title</h1>\n<p>One\ntwo</p>\n</div>\n\nand *more*": "Title\nOne two\nand more",
		"<table><tr><td>a</td><td>b</td></tr></table>":                 "a b",
		"<script>alert(1)</script>":                                    "<script>alert(1)</script>",
		"<script>alert(1)</script>\n\nsaid":                            "said",
		"<!-- a note -->\n\nsaid <!-- no --> this":                     "said this",
		"<!-- only a note -->":                                         "<!-- only a note -->",
		"<int>\nvalue":                                                 "<int> value",
		"R&amp;D \\*stars\\* &lt;x&gt; `&amp;\\*`":                     "R&D *stars* <x> &amp;\\*",
		"---":                 "---",
		"![a lamp](lamp.png)": "a lamp",
		"":                    "",
	} {
		if got := push.Plain(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestLongCharacters: a message fits into what push services accept, however many bytes its characters and their
// escapes take.
func TestLongCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"a", "é", "界", "🙂", "\"", "\x01", "\n\n"} {
		for _, n := range []int{1, 300, 800, 5000} {
			raw := push.Sealed(strings.Repeat(c, n), "x"+strings.Repeat(c, n)+"x")
			if !json.Valid(raw) || len(raw) > 3000 {
				t.Errorf("%d of %q: %d bytes", n, c, len(raw))
			}
		}
	}
}
