// Package transport is the HTTP code that the adapters of all providers share: a client with the
// right limits, and the errors.
//
// It decides what a failure means, once for all providers, because the loop's retries depend on
// it: [parley.CodeRateLimited] and [parley.CodeUnavailable] may be tried again, nothing else. No
// message contains a key or an address with one.
package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/aside"
)

const (
	connectWithin = 10 * time.Second
	// maxErrorBody limits what is read of an error response.
	maxErrorBody = 64 << 10
	// maxWords limits a provider's text in our messages.
	maxWords = 500
	// maxAdvice limits the delay that a provider may ask for.
	maxAdvice = 24 * time.Hour
)

// NewClient returns the client for model calls. It gives up connecting after ten seconds. It
// does not limit a whole call; the caller's context does. It follows no redirects, which would
// pass on the key. It uses the proxy of the environment.
func NewClient() *http.Client {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connectWithin, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   connectWithin,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConns:          100,
		MaxIdleConnsPerHost:   32,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // a compressor may delay streamed data
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Provider makes the errors of one provider.
type Provider struct {
	Name string // name shown to people, such as "Anthropic"
	// Key never appears in a message, even if the provider echoes it.
	Key string
}

// Account checks the settings of an account: the key, which may be empty, and the address of the API, which it returns
// parsed, without a slash at its end. An error is CodeInvalid and names the setting; example is an address for its hint.
func (p Provider) Account(address, example string) (*url.URL, error) {
	if strings.ContainsFunc(p.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, parley.Errorf(parley.CodeInvalid, "the key for %s has a space or a character that cannot be part of a key", p.Name).
			WithHint("copy it again, without surrounding text").WithField("key")
	}
	u, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, parley.Errorf(parley.CodeInvalid, "the base URL of %s is not the address of a server", p.Name).WithHint("write it like %s", example).WithField("base_url")
	}
	return u, nil
}

// Post sends a JSON body and returns the response, whatever its status. The caller closes its
// body. An error is an Error, or the context's own.
func (p Provider) Post(ctx context.Context, c *http.Client, url string, h http.Header, body []byte) (*http.Response, error) {
	return p.send(ctx, c, http.MethodPost, url, h, body)
}

// Get is Post without a body.
func (p Provider) Get(ctx context.Context, c *http.Client, url string, h http.Header) (*http.Response, error) {
	return p.send(ctx, c, http.MethodGet, url, h, nil)
}

// Send is Post with another method.
func (p Provider) Send(ctx context.Context, c *http.Client, method, url string, h http.Header, body []byte) (*http.Response, error) {
	return p.send(ctx, c, method, url, h, body)
}

func (p Provider) send(ctx context.Context, c *http.Client, method, url string, h http.Header, body []byte) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "the address of %s is malformed", p.Name).WithHint("check its base URL in the settings")
	}
	for k, v := range h {
		req.Header[k] = v
	}
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	var resp *http.Response
	aside.Do(func() { resp, err = c.Do(req) }) // it needs more stack than the answer, which may take long
	if err != nil {
		return nil, p.Failure(ctx, err)
	}
	resp.Body = &answered{ReadCloser: resp.Body}
	return resp, nil
}

// Failure explains why a provider could not be reached, or why reading from it failed. If ctx
// ended, it returns the context's error.
func (p Provider) Failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return e
	}
	away := func(hint, format string, args ...any) *parley.Error {
		e := parley.Errorf(parley.CodeUnavailable, format, args...).WithHint("%s", hint)
		e.Err = errors.New(p.Words(bare(err).Error()))
		return e
	}
	var (
		dns      *net.DNSError
		cert     *tls.CertificateVerificationError
		invalid  x509.CertificateInvalidError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		record   tls.RecordHeaderError
		op       *net.OpError
	)
	switch {
	case errors.As(err, &dns):
		return away("check the network, the proxy, and the base URL in the settings", "the name of %s's server was not found: %s", p.Name, dns.Name)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return p.refused("the certificate of "+p.Name+"'s server is not valid at this time", "check this machine's clock", err)
	case errors.As(err, &hostname), errors.As(err, &unknown), errors.As(err, &invalid), errors.As(err, &cert):
		return p.refused("the certificate of "+p.Name+"'s server is not trusted", "check the base URL, and whether a proxy in between uses a certificate that this machine does not know", err)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return p.refused(p.Name+"'s server does not speak TLS", "check whether the base URL should begin with http://", err)
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return away("check HTTPS_PROXY and NO_PROXY", "the proxy on the way to %s did not connect", p.Name)
	case errors.As(err, &op) && op.Op == "dial":
		return away("check the network, the proxy, and the base URL in the settings", "no connection to %s", p.Name)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return p.Ended()
	}
	return away("try again", "the connection to %s broke", p.Name)
}

// refused is the error of a failure that a retry does not fix.
func (p Provider) refused(message, hint string, cause error) *parley.Error {
	e := parley.Errorf(parley.CodeModel, "%s", message).WithHint("%s", hint)
	e.Err = errors.New(p.Words(bare(cause).Error()))
	return e
}

// bare returns err without the address that net/http adds, which may contain a key.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// Ended is the error of a stream that ended early.
func (p Provider) Ended() *parley.Error {
	return parley.Errorf(parley.CodeUnavailable, "the stream of %s ended in the middle of a reply", p.Name).WithHint("try again")
}

// Malformed is the error for data that violates the provider's API. what names it, such as "a
// chunk".
func (p Provider) Malformed(what string, cause error) *parley.Error {
	e := parley.Errorf(parley.CodeUnavailable, "the answer of %s cannot be read: %s", p.Name, what).WithHint("try again, and check the base URL in the settings")
	if cause != nil {
		e.Err = errors.New(p.Words(cause.Error()))
	}
	return e
}

// Refusal is the Error of a response whose status is not 2xx. decode extracts the provider's
// message from the body and may choose another code than the status means; it may be nil or
// return nothing. The body is read and closed.
func (p Provider) Refusal(resp *http.Response, decode func(status int, body []byte) (code parley.Code, words string)) *parley.Error {
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	code, words := parley.Code(""), ""
	if decode != nil {
		code, words = decode(resp.StatusCode, body)
	}
	if code == "" {
		code = StatusCode(resp.StatusCode)
	}
	e := p.Refused(code, words)
	if words == "" {
		e.Message = fmt.Sprintf("%s answered with status %d", p.Name, resp.StatusCode)
	}
	if code == parley.CodeRateLimited || code == parley.CodeUnavailable {
		e.RetryAfter = RetryAfter(resp.Header, time.Now())
	}
	return e
}

// Refused is the Error of a rejection with the given code, in the provider's words.
func (p Provider) Refused(code parley.Code, words string) *parley.Error {
	words = p.Words(words)
	say := func(what, hint string) *parley.Error {
		if words != "" {
			what += ": " + words
		}
		return parley.Errorf(code, "%s", what).WithHint("%s", hint)
	}
	switch code {
	case parley.CodeUnauthenticated:
		return say(p.Name+" does not accept the key", "check the key in the settings")
	case parley.CodeForbidden:
		return say(p.Name+" does not allow this", "check the account's plan, its credit, and what the key may do")
	case parley.CodeNotFound:
		return say(p.Name+" does not know the model", "`parley models` lists those that are set up")
	case parley.CodeRateLimited:
		return say(p.Name+" is receiving too many requests", "try again later, or choose another model")
	case parley.CodeUnavailable:
		return say(p.Name+" is not available", "try again later, or choose another model")
	case parley.CodeTooLarge:
		return say("the request is too large for "+p.Name, "ask for less at once, or choose a model with a larger context")
	case parley.CodeInvalid:
		return say(p.Name+" refused the request", "the message says what it did not accept")
	}
	return say(p.Name+" failed", "try again, or choose another model")
}

// StatusCode returns our code for an HTTP status of a provider.
func StatusCode(status int) parley.Code {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return parley.CodeInvalid
	case http.StatusUnauthorized:
		return parley.CodeUnauthenticated
	case http.StatusPaymentRequired, http.StatusForbidden:
		return parley.CodeForbidden
	case http.StatusNotFound:
		return parley.CodeNotFound
	case http.StatusRequestEntityTooLarge:
		return parley.CodeTooLarge
	case http.StatusTooManyRequests:
		return parley.CodeRateLimited
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return parley.CodeUnavailable
	}
	if status >= 500 {
		return parley.CodeUnavailable
	}
	return parley.CodeModel
}

// RetryAfter is how long a provider asks clients to wait, up to a day; 0 if it does not say. It
// reads retry-after-ms and Retry-After, in seconds or as a date (RFC 9110, section 10.2.3).
func RetryAfter(h http.Header, now time.Time) time.Duration {
	bound := func(d time.Duration) time.Duration { return min(max(d, 0), maxAdvice) }
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 && ms < 1e9 {
		return bound(time.Duration(ms * float64(time.Millisecond)))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 {
		return bound(time.Duration(min(s, maxAdvice.Seconds()) * float64(time.Second)))
	}
	if at, err := http.ParseTime(v); err == nil {
		return bound(at.Sub(now))
	}
	return 0
}

// IsType reports whether the response has the media type, such as text/event-stream.
func IsType(resp *http.Response, want string) bool {
	got, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && got == want
}

// Words prepares a provider's text for our message: without the key, on one line, not too long.
func (p Provider) Words(s string) string {
	if p.Key != "" {
		s = strings.ReplaceAll(s, p.Key, "[redacted]")
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
	if len(s) <= maxWords {
		return s
	}
	n := maxWords
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
