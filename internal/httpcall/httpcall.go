// Package httpcall makes a tool's call over HTTP and derives from the answer whether the call
// took effect. The caller decides what a request contains.
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
	"github.com/parley-server/parley/internal/picture"
	"github.com/parley-server/parley/internal/seam"
)

// MaxAnswer is the most bytes that are read of an answer.
const MaxAnswer = 8 << 20

// maxRefusal is the most bytes that are read of an error response.
const maxRefusal = 16 << 10

// Clients makes HTTP clients, such as [dial.Guard] does. A client made with fresh opens a
// connection for each request; otherwise connections are reused.
type Clients interface {
	Client(fresh bool) *http.Client
}

// Caller makes calls. It is safe for concurrent use.
type Caller struct {
	kept  *http.Client
	fresh *http.Client // for calls that must not be made twice
}

// New makes a caller.
func New(c Clients) *Caller { return &Caller{kept: c.Client(false), fresh: c.Client(true)} }

// Close ends idle connections.
func (c *Caller) Close() { c.kept.CloseIdleConnections() }

// Do sends one request, once. A write never reuses a connection, because a request that fails on
// a reused connection may have been sent. An idempotent call may be made again in that case.
func (c *Caller) Do(ctx context.Context, effect parley.Effect, req *http.Request) (*http.Response, error) {
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	req = req.WithContext(ctx)
	// net/http would repeat a request with an Idempotency-Key by itself if it can read the body
	// again. The engine decides whether a call is repeated.
	req.GetBody = nil
	req.Header.Set("User-Agent", "parley")
	client := c.fresh
	if effect == parley.EffectRead || effect == parley.EffectIdempotent {
		client = c.kept
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

// plain returns an error of the client without method and address. The operator knows the
// address, the model does not need it, and it may contain a key.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Answer converts the response to a result. body is the response's body if it is JSON,
// otherwise nil. The call is known to be done even if its answer cannot be read. clean removes
// secrets from the error text of the service; nil: there are none.
func Answer(ctx context.Context, r seam.Run, resp *http.Response, clean func(text string) string) (res parley.ToolResult, body json.RawMessage, err error) {
	switch {
	case resp.StatusCode/100 == 2:
		return result(ctx, r, resp)
	case resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusRequestTimeout:
		return refusal(r, resp, clean), nil, nil
	}
	return res, nil, Unclear(resp)
}

// Unclear is the error for an answer that does not tell whether the call took effect.
func Unclear(resp *http.Response) error {
	return fmt.Errorf("the service answered %s", status(resp))
}

func status(resp *http.Response) string {
	if text := http.StatusText(resp.StatusCode); text != "" {
		return strconv.Itoa(resp.StatusCode) + " " + text
	}
	return strconv.Itoa(resp.StatusCode)
}

func result(ctx context.Context, r seam.Run, resp *http.Response) (done parley.ToolResult, _ json.RawMessage, _ error) {
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
	// A text that the service sends as an attachment, such as a table, is a file.
	sent, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Disposition"))
	file := sent == "attachment" && (kind == "text/csv" || kind == "text/tab-separated-values" || kind == "text/html")
	switch {
	case len(body) == 0:
		done.Output = "Done."
	case IsJSON(kind) && json.Valid(body):
		var buf bytes.Buffer
		_ = json.Compact(&buf, body)
		done.Output = buf.String()
		return done, buf.Bytes(), nil
	case !file && utf8.Valid(body) && (IsJSON(kind) || strings.HasPrefix(kind, "text/")):
		done.Output = string(body)
	default:
		f := seam.File{Name: fileName(resp, r.Name), MediaType: mime.FormatMediaType(kind, params), Body: body}
		why, err := picture.Keep(ctx, r.Keep, f)
		if err != nil {
			done.Output = "It is done. The file in the answer was not kept: " + err.Error()
			return done, nil, nil
		}
		done.Output = strings.TrimSpace(fmt.Sprintf("%s, %d bytes of %s, was kept as an artifact. %s", f.Name, len(body), kind, why))
	}
	return done, nil, nil
}

// IsJSON reports whether a media type, without parameters, is JSON or based on it.
func IsJSON(kind string) bool { return kind == "application/json" || strings.HasSuffix(kind, "+json") }

// fileName returns the name that a service gives to its answer.
func fileName(resp *http.Response, otherwise string) string {
	_, params, _ := mime.ParseMediaType(resp.Header.Get("Content-Disposition"))
	name := path.Base(strings.ReplaceAll(params["filename"], `\`, "/"))
	if name == "." || name == "/" || name == ".." || !utf8.ValidString(name) {
		return otherwise
	}
	return parley.Cut(name, 100)
}

// refusal is the result of a call that the service rejected, with its reason.
func refusal(r seam.Run, resp *http.Response, clean func(text string) string) parley.ToolResult {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	var said struct {
		Error struct{ Message, Hint string }
	}
	e := parley.ErrorInfo{Code: parley.CodeTool}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if json.Unmarshal(body, &said) == nil && said.Error.Message != "" {
		e.Message, e.Hint = said.Error.Message, said.Error.Hint
	} else if utf8.Valid(body) && kind != "text/html" { // an HTML page is meant for people
		e.Message = strings.TrimSpace(string(body))
	}
	e.Message = cmp.Or(e.Message, "the service answered "+status(resp))
	return callout.Refused(r, e, clean)
}
