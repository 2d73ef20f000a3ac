package linkedin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// maxAnswer is how many bytes of an answer are read. A page of 100 comments has about 200 KiB.
	maxAnswer = 2 << 20
	maxSaid   = 300 // bytes of LinkedIn's own words in an error
	// tries is how many versions of the API are tried for a request.
	tries = 5
)

// request is one request to the versioned API.
type request struct {
	method string // of HTTP
	restli string // of Rest.li, such as create
	path   string // below /rest/, encoded
	query  string // encoded
	body   any
}

// answer is an answer with status 2xx.
type answer struct {
	status int
	id     string // of what was made
	body   []byte
}

// refusal is an answer that says that the request was not carried out.
type refusal struct {
	status  int
	code    string
	said    string
	service int
}

func (r *refusal) Error() string {
	said := fmt.Sprintf("LinkedIn refused it (%d", r.status)
	if r.code != "" {
		said += " " + r.code
	}
	said += ")"
	if r.said != "" {
		said += ": " + r.said
	}
	return said
}

// duplicate is the post that has the same text, if that is why a post was refused.
func (r *refusal) duplicate() string {
	if r.status != http.StatusUnprocessableEntity && r.status != http.StatusConflict || r.code != "DUPLICATE_POST" && !strings.Contains(strings.ToLower(r.said), "duplicate") {
		return ""
	}
	return anyURN.FindString(r.said)
}

// throttled reports whether the limit of a day is reached. Any other 429 is soon over.
func (r *refusal) throttled() bool {
	return r.status == http.StatusTooManyRequests && strings.Contains(strings.ToLower(r.said), "throttle")
}

// lost is the error of a request that may or may not have been carried out.
type lost struct{ why string }

func (l *lost) Error() string { return l.why }

// versions are those to try, the best first.
func (t *Toolset) versions() []string {
	now := t.o.Now().UTC()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	list := []string{t.o.Version}
	if good := t.version.Load(); good != nil {
		list = []string{*good, t.o.Version}
	}
	// The month that has begun may not have its version yet.
	for _, back := range []int{1, 2, 3, 0} {
		list = append(list, month.AddDate(0, -back, 0).Format("200601"))
	}
	var out []string
	for _, v := range list {
		if v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out[:min(len(out), tries)]
}

// call makes a request to the versioned API. It repeats a request only after a refusal. The
// error is of [seam.NotSent], a *refusal, or a *lost.
func (t *Toolset) call(ctx context.Context, token string, q request) (answer, error) {
	var body []byte
	if q.body != nil {
		var err error
		if body, err = marshal(q.body); err != nil {
			return answer{}, seam.NotSent(err)
		}
	}
	at := t.api + "/rest/" + q.path
	if q.query != "" {
		at += "?" + q.query
	}
	var err error
	for _, version := range t.versions() {
		header := http.Header{}
		header.Set("Authorization", "Bearer "+token)
		header.Set("LinkedIn-Version", version)
		header.Set("X-Restli-Protocol-Version", "2.0.0")
		header.Set("X-RestLi-Method", q.restli)
		if body != nil {
			header.Set("Content-Type", "application/json")
		}
		var a answer
		for _, pause := range []time.Duration{time.Second, 3 * time.Second, 0} {
			a, err = t.send(ctx, q.method, at, header, body)
			r, refused := errors.AsType[*refusal](err)
			if !refused || r.status != http.StatusTooManyRequests || r.throttled() || pause == 0 {
				break
			}
			if perr := t.o.Pause(ctx, pause); perr != nil {
				break
			}
		}
		if r, ok := errors.AsType[*refusal](err); ok && r.status == http.StatusUpgradeRequired {
			t.version.CompareAndSwap(t.version.Load(), nil)
			continue // another version
		}
		if err == nil {
			t.version.Store(&version)
		}
		return a, err
	}
	return answer{}, err
}

// marshal leaves < > and & as they are, as LinkedIn's own client does.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// send makes one request.
func (t *Toolset) send(ctx context.Context, method, at string, header http.Header, body []byte) (answer, error) {
	var left atomic.Bool // a connection was there, so the request may have left
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { left.Store(true) }})
	req, err := http.NewRequestWithContext(traced, method, at, bytes.NewReader(body))
	if err != nil {
		return answer{}, seam.NotSent(err)
	}
	req.Header = header
	resp, err := t.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL
		}
		why := "LinkedIn did not answer: " + parley.Cut(err.Error(), maxSaid)
		if !left.Load() {
			return answer{}, seam.NotSent(parley.Errorf(parley.CodeUnavailable, "LinkedIn cannot be reached: %s", parley.Cut(err.Error(), maxSaid)))
		}
		return answer{}, &lost{why}
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if len(raw) > maxAnswer {
		raw, err = raw[:maxAnswer], errors.New("the answer is too long")
	}
	switch code := resp.StatusCode; {
	case code/100 == 2:
		id := resp.Header.Get("X-Restli-Id")
		if id == "" {
			id = resp.Header.Get("X-Linkedin-Id")
		}
		if plain, uerr := url.QueryUnescape(id); uerr == nil {
			id = plain // it comes encoded or not
		}
		if err != nil {
			if method == http.MethodGet {
				return answer{}, &lost{"LinkedIn's answer could not be read: " + err.Error()}
			}
			raw = nil // what was made is made; its id is in the header
		}
		return answer{code, id, raw}, nil
	case code/100 == 4:
		return answer{}, refusalOf(code, raw)
	default:
		// A 503, too, may come from a gateway although the server behind it has carried out the request.
		return answer{}, &lost{fmt.Sprintf("LinkedIn answered %d %s", code, http.StatusText(code))}
	}
}

func refusalOf(status int, raw []byte) *refusal {
	var body struct {
		Message string `json:"message"`
		Code    string `json:"code"`
		Service int    `json:"serviceErrorCode"`
		Details struct {
			Inputs []struct {
				Description string `json:"description"`
				Code        string `json:"code"`
				Input       struct {
					Path struct {
						Field string `json:"fieldPath"`
					} `json:"inputPath"`
				} `json:"input"`
			} `json:"inputErrors"`
		} `json:"errorDetails"`
	}
	_ = json.Unmarshal(raw, &body) // an answer of a gateway has no JSON
	r := &refusal{status: status, code: parley.Cut(tidy(body.Code), 60), service: body.Service}
	said := []string{body.Message}
	for _, in := range body.Details.Inputs {
		if r.code == "" {
			r.code = parley.Cut(tidy(in.Code), 60)
		}
		if in.Description != "" && in.Description != body.Message {
			text := in.Description
			if in.Input.Path.Field != "" {
				text = in.Input.Path.Field + ": " + text
			}
			said = append(said, text)
		}
	}
	r.said = parley.Cut(strings.Join(strings.Fields(tidy(strings.Join(said, " "))), " "), maxSaid)
	return r
}

// midnight is when the limits of a day end.
func (t *Toolset) midnight() time.Time {
	now := t.o.Now().UTC()
	return time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.UTC)
}

// explained is what went wrong, for the model.
func (t *Toolset) explained(person string, err error) *parley.Error {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		if e, is := errors.AsType[*parley.Error](err); is {
			return e
		}
		return parley.Errorf(parley.CodeUnavailable, "%s", err.Error())
	}
	switch {
	case r.status == http.StatusUnauthorized:
		return loginOver(person)
	case r.status == http.StatusForbidden:
		return parley.Errorf(parley.CodeForbidden, "%s", r).WithHint("the app at LinkedIn, or the login, does not have this permission")
	case r.status == http.StatusNotFound:
		return parley.Errorf(parley.CodeNotFound, "%s", r).WithHint("check the URN")
	case r.throttled():
		until := t.midnight()
		return parley.Errorf(parley.CodeRateLimited, "%s", r).WithHint("the limit of the day is reached; try again after %s", until.Format("2006-01-02 15:04 UTC")).WithRetry(until.Sub(t.o.Now()))
	case r.status == http.StatusTooManyRequests:
		return parley.Errorf(parley.CodeRateLimited, "%s", r).WithHint("try again in a minute").WithRetry(time.Minute)
	case r.status == http.StatusConflict:
		return parley.Errorf(parley.CodeConflict, "%s", r).WithHint("try again in a moment")
	case r.status == http.StatusUpgradeRequired:
		return parley.Errorf(parley.CodeUnavailable, "%s", r).WithHint("none of the versions that were tried is active: set LINKEDIN_VERSION to one that LinkedIn documents, such as %s", t.o.Now().UTC().AddDate(0, -1, 0).Format("200601"))
	}
	return parley.Errorf(parley.CodeInvalid, "%s", r)
}

func loginOver(person string) *parley.Error {
	return parley.Errorf(parley.CodeUnauthenticated, "LinkedIn does not accept the login of %s any more", person).
		WithHint("call the tool again, and the user is asked to log in")
}
