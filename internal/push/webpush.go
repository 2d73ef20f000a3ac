package push

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// vapid is the server's key for push services (RFC 8292).
type vapid struct {
	key     *ecdsa.PrivateKey
	public  string // uncompressed point, base64url
	contact string

	mu     sync.Mutex
	tokens map[string]vapidToken // by the origin of the push service
}

type vapidToken struct {
	text  string
	until time.Time
}

// vapid returns the server's key. It is made when it is first needed, so that a server without
// devices writes nothing into its store.
func (p *Push) vapid(ctx context.Context) (*vapid, error) {
	p.keyMu.Lock()
	defer p.keyMu.Unlock()
	if p.key == nil {
		key, err := p.openVAPID(ctx)
		if err != nil {
			return nil, err
		}
		p.key = key
	}
	return p.key, nil
}

// openVAPID takes the operator's key, or the one in the store, which it makes if there is none.
func (p *Push) openVAPID(ctx context.Context) (*vapid, error) {
	o := p.o
	if o.VAPID != "" {
		v, err := newVAPID(o.VAPID, o.Contact)
		if err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "push.vapid_key: %w", err).WithHint("32 bytes in base64url, as made by web-push generate-vapid-keys (the private key)")
		}
		return v, nil
	}
	name := seam.RowName{Kind: seam.RowNotify, ID: "vapid"}
	for range 2 {
		r, err := p.store.Row(ctx, parley.System(), name)
		if err == nil {
			text, stale, err := p.keptKey(r.Body)
			if err != nil {
				return nil, fmt.Errorf("the server's key for push services: %w", err)
			}
			if stale {
				if r.Body, err = p.keyBody(text); err != nil {
					return nil, err
				}
				if _, err := p.store.PutRow(ctx, parley.System(), r); err != nil && !lost(err) {
					return nil, err
				}
			}
			return newVAPID(text, o.Contact)
		}
		if !errors.Is(err, parley.ErrNotFound) {
			return nil, err
		}
		key, err := ecdh.P256().GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		body, err := p.keyBody(base64.RawURLEncoding.EncodeToString(key.Bytes()))
		if err != nil {
			return nil, err
		}
		if _, err := p.store.PutRow(ctx, parley.System(), seam.Row{RowName: name, Body: body, Version: seam.NoRow}); err != nil && !lost(err) {
			return nil, err
		}
	}
	return nil, parley.Errorf(parley.CodeInternal, "the server's key for push services is not kept")
}

var aboutKey = []string{"vapid"}

// sealedKey is the server's own key as it is stored, if there is a sealer; else it is a text.
type sealedKey struct {
	Sealed []byte `json:"sealed"`
}

func (p *Push) keyBody(text string) ([]byte, error) {
	if p.o.Sealer == nil {
		return json.Marshal(text)
	}
	sealed, err := p.o.Sealer.Seal(aboutKey, []byte(text))
	if err != nil {
		return nil, err
	}
	return json.Marshal(sealedKey{sealed})
}

// keptKey reads the key. stale means that it should be stored anew.
func (p *Push) keptKey(body []byte) (text string, stale bool, err error) {
	var s sealedKey
	if json.Unmarshal(body, &text) == nil {
		return text, p.o.Sealer != nil, nil
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return "", false, err
	}
	plain, newest, err := p.unseal(aboutKey, s.Sealed)
	return string(plain), !newest, err
}

func newVAPID(text, contact string) (*vapid, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != 32 {
		return nil, errors.New("it is not 32 bytes in base64url")
	}
	private, err := ecdh.P256().NewPrivateKey(raw)
	if err != nil {
		return nil, errors.New("it is not a key of the curve P-256")
	}
	point := private.PublicKey().Bytes()
	key := &ecdsa.PrivateKey{
		PublicKey: ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(point[1:33]), Y: new(big.Int).SetBytes(point[33:])},
		D:         new(big.Int).SetBytes(raw),
	}
	if contact == "" {
		contact = "https://github.com/parley-server/parley"
	}
	return &vapid{key: key, public: base64.RawURLEncoding.EncodeToString(point), contact: contact, tokens: map[string]vapidToken{}}, nil
}

// header is the Authorization for a push service. A token is used for half of its 12 hours.
func (v *vapid) header(at *url.URL, now time.Time) (string, error) {
	origin := at.Scheme + "://" + at.Host
	v.mu.Lock()
	defer v.mu.Unlock()
	if t, ok := v.tokens[origin]; ok && now.Before(t.until) {
		return t.text, nil
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: v.key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{"aud": origin, "exp": now.Add(12 * time.Hour).Unix(), "sub": v.contact})
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", err
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		return "", err
	}
	if len(v.tokens) >= 100 { // users name the origins
		clear(v.tokens)
	}
	text := "vapid t=" + token + ", k=" + v.public
	v.tokens[origin] = vapidToken{text, now.Add(6 * time.Hour)}
	return text, nil
}

// maxPayload is the most bytes of a message: with padding and header it stays below the 4096
// that every push service accepts.
const maxPayload = 3000

// padded is the length to which messages are filled up, so that it tells nothing of them.
const padded = maxPayload + 1

// encrypt encrypts a message for a browser (RFC 8291, RFC 8188: one record), filled up to a length.
func encrypt(message, p256dh, auth []byte, ephemeral *ecdh.PrivateKey, salt []byte, length int) ([]byte, error) {
	to, err := ecdh.P256().NewPublicKey(p256dh)
	if err != nil {
		return nil, err
	}
	shared, err := ephemeral.ECDH(to)
	if err != nil {
		return nil, err
	}
	own := ephemeral.PublicKey().Bytes()
	derive := func(secret, salt []byte, info string, size int) []byte {
		var key []byte
		if err == nil {
			key, err = hkdf.Key(sha256.New, secret, salt, info, size)
		}
		return key
	}
	ikm := derive(shared, auth, "WebPush: info\x00"+string(p256dh)+string(own), 32)
	key := derive(ikm, salt, "Content-Encoding: aes128gcm\x00", 16)
	nonce := derive(ikm, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	plain := append(bytes.Clone(message), 2) // the last record
	if n := length - len(plain); n > 0 {
		plain = append(plain, make([]byte, n)...)
	}
	out := bytes.Clone(salt)
	out = binary.BigEndian.AppendUint32(out, 4096)
	out = append(append(out, byte(len(own))), own...)
	return gcm.Seal(out, nonce, plain, nil), nil
}

func (p *Push) sendWebPush(ctx context.Context, n notice, d device) error {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	ephemeral, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	body, err := encrypt(p.shownAs(n), d.P256DH, d.Auth, ephemeral, salt, padded)
	if err != nil {
		return &verdict{text: "it cannot be encrypted for this browser", never: true}
	}
	at, err := url.Parse(d.Endpoint)
	if err != nil {
		return &verdict{text: "its address cannot be used", never: true}
	}
	now := p.o.Now()
	key, err := p.vapid(ctx)
	if err != nil {
		return err
	}
	header, err := key.header(at, now)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Endpoint, bytes.NewReader(body))
	if err != nil {
		return &verdict{text: "its address cannot be used", never: true}
	}
	r.Header.Set("Authorization", header)
	r.Header.Set("Content-Encoding", "aes128gcm")
	r.Header.Set("Content-Type", "application/octet-stream")
	r.Header.Set("TTL", strconv.Itoa(int(n.ttl(now).Seconds())))
	r.Header.Set("Urgency", n.urgency())
	r.Header.Set("Topic", n.topic())
	resp, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 16<<10))
	v := &verdict{text: "the push service answered " + resp.Status}
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusNotFound || code == http.StatusGone:
		v.gone = true
	case code == http.StatusTooManyRequests || code >= 500:
		v.after = retryAfter(resp.Header, now)
	default:
		v.never = true
	}
	return v
}

// shown is what a browser's worker and an app on a phone get.
type shownNotice struct {
	ID          string               `json:"id"`
	Type        string               `json:"type"`
	Title       string               `json:"title"`
	Body        string               `json:"body"`
	Tag         string               `json:"tag"` // of the same tag, one takes the place of the other
	Close       bool                 `json:"close,omitempty"`
	App         string               `json:"app,omitempty"`
	Session     parley.SessionID     `json:"session,omitempty"`
	Interaction parley.InteractionID `json:"interaction,omitempty"`
	Kind        string               `json:"kind,omitempty"`
	Choices     []string             `json:"choices,omitempty"`
	Key         string               `json:"key,omitempty"` // how the page of the app names the session
	// Question and Options are those of a question that can be answered by one of two.
	Question string   `json:"question,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// maxConfirmed is the most bytes that a notification shows on every platform, less than what is cut here.
const maxConfirmed = 160

// show is a notice in words.
func (n notice) show() shownNotice {
	s := shownNotice{ID: n.id(), Type: n.Type, App: n.App, Session: n.Session, Key: cmp.Or(n.Key, string(n.Session)), Tag: "session-" + string(n.Session), Title: n.Title}
	if s.Title == "" {
		s.Title = "Parley"
	}
	switch n.Type {
	case "test":
		s.Title, s.Body, s.Tag = "Parley", "Notifications work on this device.", "test"
	case "turn.completed":
		s.Body = plain(n.Text)
	case "turn.failed":
		s.Body = "Failed: " + n.Text
	case "turn.expired":
		s.Body = "Nobody answered in time."
	case "turn.interrupted":
		s.Body = "Interrupted, and waits to be resumed. " + n.Text
	}
	if in := n.Interaction; in != nil {
		s.Interaction, s.Kind, s.Tag = in.ID, string(in.Kind), "interaction-"+string(in.ID)
		switch n.Type {
		case "interaction.opened":
			s.Body, s.Choices = in.Title, in.Choices
			if n.Text != "" && n.Text != in.Title {
				s.Body += "\n" + n.Text
			}
			if len(in.Options) == 2 && in.Question != "" {
				s.Question, s.Options = in.Question, in.Options
			}
			// Whoever confirms has to see all that will be sent, and whoever allows something all of its words. A
			// notification may not show them.
			cut := n.Cut || len(s.Body) > maxConfirmed
			switch {
			case in.Kind == parley.KindConfirmation && (cut || !n.Whole):
				s.Choices = slices.DeleteFunc(slices.Clone(s.Choices), func(c string) bool { return c != parley.ChoiceDeny })
			case in.Kind == parley.KindPermission && cut:
				s.Choices = nil
			}
		default:
			s.Close, s.Body = true, "Answered elsewhere."
			if n.Type == "interaction.expired" {
				s.Body = "No longer open."
			}
		}
	}
	s.Title, s.Body = parley.Cut(s.Title, 120), n.cut(s.Body, 800)
	return s
}

// cut shortens what is shown. An answer keeps its lines; a question has one, so that none of it is out of sight.
func (n notice) cut(text string, most int) string {
	if n.Type == "turn.completed" {
		return beginning(text, most)
	}
	return parley.Cut(text, most)
}

// shownAs is the message to a browser's worker.
func (p *Push) shownAs(n notice) []byte {
	s := n.show()
	for {
		raw, _ := json.Marshal(s) // plain data
		if len(raw) <= maxPayload {
			return raw
		}
		// Escapes and long characters made it longer.
		s.Body, s.Title = n.cut(s.Body, max(utf8.RuneCountInString(s.Body)/2, 1)), parley.Cut(s.Title, max(utf8.RuneCountInString(s.Title)/2, 10))
		if len(s.Body) < 20 {
			s.Choices, s.Question, s.Options = nil, "", nil
		}
	}
}

// ttl is how long a push service keeps the message for a device that is off.
func (n notice) ttl(now time.Time) time.Duration {
	ttl := staleAfter - now.Sub(n.At)
	if in := n.Interaction; in != nil && !in.Expires.IsZero() {
		ttl = min(ttl, in.Expires.Sub(now))
	}
	return max(ttl, time.Minute)
}

func (n notice) urgency() string {
	if n.Type == "interaction.opened" || n.Type == "test" {
		return "high"
	}
	return "normal"
}

// topic makes a later message take the place of one that has not been fetched (RFC 8030: at
// most 32 characters of base64url).
func (n notice) topic() string {
	sum := sha256.Sum256([]byte(n.show().Tag))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:32]
}
