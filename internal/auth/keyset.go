package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-server/parley"
)

const (
	// keysFresh is how long keys are used before they are fetched again. An issuer publishes a
	// new key before it signs with it.
	keysFresh = time.Hour
	// keysStale is how long they are used while the issuer cannot be reached. A key that the
	// issuer has withdrawn since is valid for so long.
	keysStale = 24 * time.Hour
	// unknownEvery is how often a token with an unknown key may cause a request to the issuer.
	unknownEvery = time.Minute
	// retryEvery is how soon after a failure the issuer is asked again.
	retryEvery = 10 * time.Second
	// fetchWithin limits a fetch of the discovery document and the keys, each.
	fetchWithin = 5 * time.Second
	// maxFetched limits what is read of either, in bytes.
	maxFetched = 1 << 20
	// maxJWKS limits the keys of an issuer, and maxTried how many of them a token without a key
	// id is compared with.
	maxJWKS, maxTried = 100, 8
	// minRSA is the least size of an RSA key, in bits (RFC 7518, 3.3).
	minRSA = 2048
	// maxKID limits the id of a key, in bytes.
	maxKID = 256
)

// keySet are the public keys of an issuer.
type keySet struct {
	name, url, jwks string
	client          *http.Client
	now             func() time.Time
	log             *slog.Logger
	start           func(f func(context.Context)) // runs f beside; its context ends with the server
	asking          chan struct{}                 // holds one while the discovery document is asked for

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time // when keys were; zero: never
	tried   time.Time // when they were last asked for; zero: never
	down    time.Time // since when that fails; zero: it does not
	err     error     // why
	flight  chan struct{}

	known knownDocument
}

// knownDocument is the discovery document as it was last read.
type knownDocument struct {
	discovery           // zero: it never was
	read      time.Time // when it was
	tried     time.Time // when it was last asked for, and that failed; zero: it did not
	err       error     // why
}

// discovery is what we read of the document at /.well-known/openid-configuration (OIDC Discovery
// 1.0, 3).
type discovery struct {
	Issuer        string   `json:"issuer"`
	JWKS          string   `json:"jwks_uri"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	EndSession    string   `json:"end_session_endpoint"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	TokenAuth     []string `json:"token_endpoint_auth_methods_supported"`
	SendsIssuer   bool     `json:"authorization_response_iss_parameter_supported"`
}

// causeKey is the key of a pointer to the error of VerifySignature in a context.
type causeKey struct{}

// VerifySignature implements oidc.KeySet.
func (k *keySet) VerifySignature(ctx context.Context, token string) (payload []byte, err error) {
	if cause, ok := ctx.Value(causeKey{}).(*error); ok {
		defer func() { *cause = err }()
	}
	algs := make([]jose.SignatureAlgorithm, len(algorithms))
	for i, a := range algorithms {
		algs[i] = jose.SignatureAlgorithm(a)
	}
	jws, err := jose.ParseSignedCompact(token, algs)
	if err != nil || len(jws.Signatures) != 1 {
		return nil, refusedToken("it is malformed, or signed in a way that is not accepted")
	}
	head := jws.Signatures[0].Protected
	if len(head.KeyID) > maxKID {
		return nil, refusedToken("the id of its key is too long")
	}
	fitting, err := k.get(ctx, head.KeyID, head.Algorithm)
	if err != nil {
		return nil, err
	}
	for _, key := range fitting {
		if payload, err := jws.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, refusedToken("its signature is not the issuer's")
}

// fits reports whether a key may verify signatures of an algorithm. A key is for one kind of
// algorithm only.
func fits(key jose.JSONWebKey, alg string) bool {
	if key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != alg {
		return false
	}
	switch pub := key.Key.(type) {
	case *rsa.PublicKey:
		return (strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")) && pub.N.BitLen() >= minRSA
	case *ecdsa.PublicKey:
		return map[string]int{"ES256": 256, "ES384": 384, "ES512": 521}[alg] == pub.Curve.Params().BitSize
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false // also a shared secret
}

// get returns the keys that a token may be signed with. It waits for the issuer only when no
// such key is known.
func (k *keySet) get(ctx context.Context, kid, alg string) ([]jose.JSONWebKey, error) {
	for waited := false; ; waited = true {
		k.mu.Lock()
		now := k.now()
		old := now.Sub(k.fetched)
		usable := !k.fetched.IsZero() && old < keysStale
		var list []jose.JSONWebKey
		for _, key := range k.keys {
			if usable && (kid == "" || key.KeyID == kid) && fits(key, alg) && len(list) < maxTried {
				list = append(list, key)
			}
		}
		every := unknownEvery
		if len(list) > 0 || !usable {
			every = retryEvery
		}
		may := k.flight == nil && (k.tried.IsZero() || now.Sub(k.tried) >= every)
		if may && (len(list) == 0 || old >= keysFresh) {
			k.begin(now)
		}
		flight, down, cause := k.flight, k.down, k.err
		k.mu.Unlock()
		switch {
		case len(list) > 0:
			return list, nil
		case flight != nil && !waited:
			select {
			case <-flight:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		case !usable && cause != nil:
			// Strangers get this answer, too: the cause has addresses that are not theirs to know. The log has it.
			e := parley.Errorf(parley.CodeUnavailable, "the issuer %s cannot be asked for its keys since %s", k.name, down.UTC().Format(time.RFC3339))
			e.Err = cause
			return nil, e.WithHint("try again later; `parley doctor` checks the issuer").WithRetry(retryEvery)
		case !usable:
			return nil, parley.Errorf(parley.CodeUnavailable, "the keys of the issuer %s are being fetched", k.name).WithRetry(retryEvery)
		}
		return nil, refusedToken("it is signed with a key that the issuer does not have")
	}
}

// begin fetches the keys, beside whoever asked. The caller holds the lock.
func (k *keySet) begin(now time.Time) {
	done := make(chan struct{})
	k.flight, k.tried = done, now
	k.start(func(ctx context.Context) {
		found, keys, err := k.fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		defer close(done)
		k.flight = nil
		if err != nil {
			k.err = err
			if k.down.IsZero() && ctx.Err() == nil {
				k.down = k.now()
				k.log.Warn("an issuer of logins cannot be asked for its keys; those that are known are used on", "issuer", k.name, "url", k.url, "err", err)
			}
			return
		}
		if !k.down.IsZero() {
			k.log.Info("an issuer of logins can be reached again", "issuer", k.name, "url", k.url)
		}
		k.keys, k.fetched, k.down, k.err = keys, k.now(), time.Time{}, nil
		if found.Issuer != "" { // it was read to find the keys
			k.known = knownDocument{discovery: found, read: k.fetched}
		}
	})
}

// outage says since when the issuer cannot be reached, and what that means; "": it can, as far
// as is known.
func (k *keySet) outage() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down.IsZero() {
		return ""
	}
	means := "Nobody can log in with it."
	if until := k.fetched.Add(keysStale); !k.fetched.IsZero() && k.now().Before(until) {
		means = "The keys that are known are used until " + until.UTC().Format("2006-01-02 15:04 UTC") + "."
	}
	return fmt.Sprintf("The issuer of logins %s cannot be reached since %s (%s). %s", k.name, k.down.UTC().Format("2006-01-02 15:04 UTC"), k.err, means)
}

// discover returns the discovery document. It asks the issuer if it does not know it or has known it
// for keysFresh: one request at a time, and none for retryEvery after a failure, since strangers
// decide how many logins begin. While that fails, the one that is known is used on.
func (k *keySet) discover(ctx context.Context) (discovery, error) {
	select {
	case k.asking <- struct{}{}:
		defer func() { <-k.asking }()
	case <-ctx.Done():
		return discovery{}, context.Cause(ctx)
	}
	k.mu.Lock()
	known, now := k.known, k.now()
	k.mu.Unlock()
	has := known.Issuer != ""
	if has && now.Sub(known.read) < keysFresh || known.err != nil && now.Sub(known.tried) < retryEvery {
		if has {
			return known.discovery, nil
		}
		return discovery{}, known.err
	}
	found, err := k.document(context.WithoutCancel(ctx)) // others wait for it; it takes fetchWithin at most
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.known.tried, k.known.err = now, err
		if has {
			return known.discovery, nil
		}
		return discovery{}, err
	}
	k.known = knownDocument{discovery: found, read: now}
	return found, nil
}

func (k *keySet) document(ctx context.Context) (d discovery, err error) {
	at := strings.TrimSuffix(k.url, "/") + "/.well-known/openid-configuration"
	if err := k.read(ctx, at, &d); err != nil {
		return d, err
	}
	if d.Issuer != k.url {
		return d, fmt.Errorf("the document at %s is of the issuer %q, and the settings say %q", at, parley.Cut(d.Issuer, 200), k.url)
	}
	for _, u := range []string{d.JWKS, d.Authorization, d.Token, d.EndSession} {
		if u != "" && !secure(u) {
			return d, fmt.Errorf("the document at %s names %q, which does not begin with https", at, parley.Cut(u, 200))
		}
	}
	return d, nil
}

// secure reports whether nobody in between can change what a URL answers.
func secure(at string) bool {
	u, err := url.Parse(at)
	return err == nil && u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http" && namedAddress(at) != "")
}

func (k *keySet) fetch(ctx context.Context) (found discovery, keys []jose.JSONWebKey, err error) {
	at := k.jwks
	if at == "" {
		if found, err = k.document(ctx); err != nil {
			return found, nil, err
		}
		if at = found.JWKS; at == "" {
			return found, nil, fmt.Errorf("the issuer's document names no jwks_uri")
		}
	}
	var set struct{ Keys []json.RawMessage }
	if err := k.read(ctx, at, &set); err != nil {
		return found, nil, err
	}
	for _, raw := range set.Keys[:min(len(set.Keys), maxJWKS)] {
		var key jose.JSONWebKey
		// A key that we cannot read, or that is none of ours, does not spoil the others.
		if json.Unmarshal(raw, &key) != nil || !key.Valid() || !key.IsPublic() {
			continue
		}
		if _, ok := key.Key.(crypto.PublicKey); ok && slices.ContainsFunc(algorithms, func(a string) bool { return fits(key, a) }) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return found, nil, fmt.Errorf("%s has no key that can be used", at)
	}
	return found, keys, nil
}

// read fetches a JSON document.
func (k *keySet) read(ctx context.Context, at string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := k.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFetched+1))
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answers %s", at, resp.Status)
	case len(body) > maxFetched:
		return fmt.Errorf("%s answers more than %d bytes", at, maxFetched)
	case json.Unmarshal(body, into) != nil:
		return fmt.Errorf("%s does not answer with the expected JSON", at)
	}
	return nil
}
