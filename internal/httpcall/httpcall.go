// Package httpcall makes a tool's call over HTTP and says what its answer means for the
// world. What a request holds is its caller's business.
//
// The status of the answer says what happened:
//
//   - 2xx: it is done. The body is the result, JSON or text; a body of another type
//     becomes an artifact.
//   - 4xx, except 408: nothing was done. The body says why; the model reads it.
//   - anything else, or no answer: an error. Whether the call took effect is unknown,
//     unless the error is [seam.NotSent]: then it never left.
package httpcall

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/callout"
	"github.com/parley-server/parley/internal/seam"
)

// MaxAnswer bounds what is read of an answer, in bytes.
const MaxAnswer = 8 << 20

// maxRefusal is what is read of an answer that refuses, in bytes.
const maxRefusal = 16 << 10

// Clients make connections, such as [dial.Guard] does: one kind of client keeps them,
// the other has one of its own for each request.
type Clients interface {
	Client(fresh bool) *http.Client
}

// Caller makes calls. It is safe for concurrent use.
type Caller struct {
	reads *http.Client
	fresh *http.Client // for calls with effects
}

// New makes a caller.
func New(c Clients) *Caller { return &Caller{reads: c.Client(false), fresh: c.Client(true)} }

// Close ends idle connections.
func (c *Caller) Close() { c.reads.CloseIdleConnections() }

// Do sends one request. It is sent once: of a call with effects no connection is used
// that was there before, as a request that fails on such a one may have left.
func (c *Caller) Do(ctx context.Context, effect parley.Effect, req *http.Request) (*http.Response, error) {
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	req = req.WithContext(ctx)
	// net/http sends a request with an Idempotency-Key again by itself, if it can read
	// the body again. Whether a call is made again is the engine's decision.
	req.GetBody = nil
	req.Header.Set("User-Agent", "parley")
	client := c.reads
	if effect != parley.EffectRead {
		client = c.fresh
	}
	resp, err := client.Do(req)
	if err != nil {
		err = fmt.Errorf("the service did not answer: %w", plain(err))
		if !connected {
			err = seam.NotSent(err)
		}
	}
	return resp, err
}

// plain is an error of the client without the method and the address, which the
// operator knows, a model need not, and which may hold a key.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Answer is what came of a call. JSON is the body where it is that, else nil.
// That a call is done is known even if its answer cannot be read.
func Answer(r seam.Run, resp *http.Response) (res parley.ToolResult, body json.RawMessage, err error) {
	switch {
	case resp.StatusCode/100 == 2:
		return result(r, resp)
	case resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusRequestTimeout:
		return refusal(r, resp), nil, nil
	}
	return res, nil, Unclear(resp)
}

// Unclear is an answer of which nobody knows what it means for the world.
func Unclear(resp *http.Response) error {
	return fmt.Errorf("the service answered %s", status(resp))
}

func status(resp *http.Response) string {
	if text := http.StatusText(resp.StatusCode); text != "" {
		return strconv.Itoa(resp.StatusCode) + " " + text
	}
	return strconv.Itoa(resp.StatusCode)
}

func result(r seam.Run, resp *http.Response) (done parley.ToolResult, _ json.RawMessage, _ error) {
	done = parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		if r.Effect == parley.EffectRead {
			return done, nil, fmt.Errorf("the answer of the service: %w", err)
		}
		done.Output = "It is done. The answer of the service broke off."
		return done, nil, nil
	}
	if len(body) > MaxAnswer {
		done.Output = fmt.Sprintf("It is done. The answer of the service has more than %d bytes and was not read.", MaxAnswer)
		return done, nil, nil
	}
	kind, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		kind = http.DetectContentType(body)
	}
	switch {
	case len(body) == 0:
		done.Output = "Done."
	case IsJSON(kind) && json.Valid(body):
		var buf bytes.Buffer
		_ = json.Compact(&buf, body)
		done.Output = buf.String()
		return done, buf.Bytes(), nil
	case utf8.Valid(body) && (IsJSON(kind) || strings.HasPrefix(kind, "text/")):
		done.Output = string(body)
	default:
		f := seam.File{Name: fileName(resp, r.Name), MediaType: mime.FormatMediaType(kind, params), Body: body}
		if err := r.Keep(f); err != nil {
			done.Output = "It is done. The file that came was not kept: " + err.Error()
			return done, nil, nil
		}
		done.Output = fmt.Sprintf("%s, %d bytes of %s, was kept as an artifact.", f.Name, len(body), kind)
	}
	return done, nil, nil
}

// IsJSON reports whether a media type, without parameters, is JSON or made of it.
func IsJSON(kind string) bool { return kind == "application/json" || strings.HasSuffix(kind, "+json") }

// fileName is the name that a service gives to what it sends.
func fileName(resp *http.Response, otherwise string) string {
	_, params, _ := mime.ParseMediaType(resp.Header.Get("Content-Disposition"))
	name := path.Base(strings.ReplaceAll(params["filename"], `\`, "/"))
	if name == "." || name == "/" || name == ".." || !utf8.ValidString(name) {
		return otherwise
	}
	return parley.Cut(name, 100)
}

// refusal is what a service has not done, and why.
func refusal(r seam.Run, resp *http.Response) parley.ToolResult {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	var said struct {
		Error struct{ Message, Hint string }
	}
	e := parley.ErrorInfo{Code: parley.CodeTool}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if json.Unmarshal(body, &said) == nil && said.Error.Message != "" {
		e.Message, e.Hint = said.Error.Message, said.Error.Hint
	} else if utf8.Valid(body) && kind != "text/html" { // which is a page for people
		e.Message = strings.TrimSpace(string(body))
	}
	e.Message = parley.Cut(cmp.Or(e.Message, "the service answered "+status(resp)), 2000)
	e.Hint = parley.Cut(e.Hint, 2000)
	return callout.Refused(r, e)
}
