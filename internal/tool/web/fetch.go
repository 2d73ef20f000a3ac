package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	fetchTime = 30 * time.Second // for all hops and the whole body
	maxHops   = 5                // redirects within a site
	maxURL    = 4096
	maxBody   = 8 << 20 // bytes of a body, unpacked
	maxTitle  = 300
)

// Requested implements seam.Informed.
func (t *Toolset) Requested(ctx context.Context, r seam.Run) {
	var in struct{ URL string }
	if t.o.Requested != nil && r.Name == Fetch && json.Unmarshal(r.Input, &in) == nil && in.URL != "" {
		t.o.Requested(ctx, r, in.URL)
	}
}

func (t *Toolset) fetch(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	var in struct{ URL string }
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return parley.ToolResult{}, parley.Errorf(parley.CodeInvalid, "the input is not as the schema says: %w", err)
	}
	u, err := parseURL(in.URL)
	if err != nil {
		return parley.ToolResult{}, err
	}
	key := pageKey{r.Principal, r.App, u.String()}
	p, cached := t.kept.get(key)
	if !cached {
		ctx, cancel := context.WithTimeoutCause(ctx, t.limit, parley.Errorf(parley.CodeTimeout, "%s did not send the page within %s", u.Host, t.limit))
		defer cancel()
		moved := ""
		if p, moved, err = t.read(ctx, u); err != nil {
			return parley.ToolResult{}, why(ctx, err)
		}
		if moved != "" {
			return parley.ToolResult{Output: fence(
				"The page "+u.String()+" has moved to another site, and was not read there. Call WebFetch with the new URL if it is where you expect.",
				"Moved to: "+moved, "")}, nil
		}
		t.kept.put(key, p)
	}
	return show(r, u, p, cached), nil
}

// parseURL reads a URL that may be fetched, in a form in which it can be compared.
func parseURL(text string) (*url.URL, error) {
	refuse := func(format string, args ...any) (*url.URL, error) {
		return nil, parley.Errorf(parley.CodeInvalid, format, args...).WithHint("write a complete URL of the public web, such as https://example.com/page")
	}
	text = strings.TrimSpace(text)
	if len(text) > maxURL {
		return refuse("the URL has %d bytes, more than %d", len(text), maxURL)
	}
	u, err := url.Parse(text)
	shown := parley.Cut(text, 200)
	switch {
	case err != nil:
		return refuse("%q is not a URL", shown)
	case u.Scheme == "":
		return refuse("%q has no http:// or https://", shown)
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("only http and https can be fetched, not %s", parley.Cut(u.Scheme, 40))
	case u.User != nil:
		return refuse("a URL with a user name or password is not fetched")
	case u.Hostname() == "" || u.Opaque != "":
		return refuse("%q names no host", shown)
	}
	u.Host = strings.ToLower(u.Host)
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// read fetches a page. moved is its address if that is on another site.
func (t *Toolset) read(ctx context.Context, u *url.URL) (p page, moved string, err error) {
	for hop := 0; ; hop++ {
		resp, err := t.get(ctx, u)
		if err != nil {
			return p, "", err
		}
		next, err := redirected(resp, u)
		if err == nil && next == nil {
			p, err = t.take(ctx, resp, u)
		}
		_ = resp.Body.Close()
		switch {
		case err != nil || next == nil:
			return p, "", err
		case !sameSite(u, next):
			return p, parley.Cut(next.String(), maxURL), nil
		case hop == maxHops:
			return p, "", parley.Errorf(parley.CodeInvalid, "the page redirects more than %d times", maxHops)
		}
		u = next
	}
}

func (t *Toolset) get(ctx context.Context, u *url.URL) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err)
	}
	req.Header.Set("User-Agent", "Mozilla/5.0 (compatible; Parley)")
	req.Header.Set("Accept", "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/json;q=0.8, application/pdf;q=0.7, */*;q=0.1")
	return t.client.Do(req)
}

// redirected returns where an answer leads, or nil if it is the page.
func redirected(resp *http.Response, from *url.URL) (*url.URL, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil //nolint:nilnil // it is none, and nothing is wrong
	}
	to, err := from.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "the page redirects (status %d) and does not say where to", resp.StatusCode)
	}
	next, err := parseURL(to.String())
	if err != nil {
		return nil, parley.Errorf(parley.CodeForbidden, "the page redirects to something that is not fetched: %w", errors.New(parley.Info(err).Message))
	}
	return next, nil
}

// sameSite reports whether a redirect stays where the model wanted to go: on the same host, with
// or without www., and with the same or better protection.
func sameSite(from, to *url.URL) bool {
	bare := func(u *url.URL) string { return strings.TrimPrefix(strings.TrimSuffix(u.Hostname(), "."), "www.") }
	if bare(from) != bare(to) {
		return false
	}
	upgraded := from.Scheme == "http" && to.Scheme == "https" && from.Port() == "" && to.Port() == ""
	return upgraded || from.Scheme == to.Scheme && portOf(from) == portOf(to)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// take reads the page in an answer.
func (t *Toolset) take(ctx context.Context, resp *http.Response, u *url.URL) (page, error) {
	status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return page{}, parley.Errorf(parley.CodeForbidden, "%s does not give out the page (%s)", u.Host, status).WithHint("it may need a login, or refuse programs; look for the information elsewhere")
	case code == http.StatusNotFound || code == http.StatusGone:
		return page{}, parley.Errorf(parley.CodeNotFound, "%s has no such page (%s)", u.Host, status).WithHint("check the URL, or search for the page")
	case code == http.StatusTooManyRequests || code >= 500:
		return page{}, parley.Errorf(parley.CodeUnavailable, "%s cannot send the page now (%s)", u.Host, status).WithHint("try again later")
	case code < 200 || code > 299:
		return page{}, parley.Errorf(parley.CodeInvalid, "%s answered %s", u.Host, status)
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return page{}, parley.Errorf(parley.CodeInvalid, "the page is packed with %s, which was not asked for", parley.Cut(clean(e), 40))
	}
	kind := mediaType(resp.Header.Get("Content-Type"))
	if kind != "" && form(kind) == formOther {
		return page{}, unreadable(kind)
	}
	tooLarge := parley.Errorf(parley.CodeTooLarge, "the page has more than %d MiB", maxBody>>20).WithHint("look for a smaller page with the same information")
	if resp.ContentLength > maxBody {
		return page{}, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return page{}, err
	}
	if len(body) > maxBody {
		return page{}, tooLarge
	}
	select {
	case t.work <- struct{}{}:
		defer func() { <-t.work }()
	case <-ctx.Done():
		return page{}, ctx.Err()
	}
	title, text, err := convert(ctx, body, resp.Header.Get("Content-Type"), u)
	if err != nil {
		return page{}, err
	}
	return page{url: u.String(), title: parley.Cut(oneLine(clean(title)), maxTitle), text: strings.TrimSpace(clean(text)), at: t.o.Now().UTC()}, nil
}

// why says in the model's words what went wrong.
func why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return e // of the guard or of ours, without the URL before it
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return parley.Errorf(parley.CodeNotFound, "there is no host %s", e.Name).WithHint("check the URL, or search for the page")
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return parley.Errorf(parley.CodeUnavailable, "the page could not be fetched: %s", parley.Cut(clean(err.Error()), 300))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// show makes the result of a call. What is too long is cut before the end of the fence, so that
// the toolbox has nothing left to cut; the whole text becomes an artifact.
func show(r seam.Run, asked *url.URL, p page, cached bool) parley.ToolResult {
	text := p.text
	if r.Redact != nil {
		text, _ = r.Redact(text) // before it is cut, so that no secret loses its end
	}
	head := fmt.Sprintf("The page %s, fetched at %s", asked, p.at.Format("2006-01-02 15:04:05 UTC"))
	if cached {
		head += " and kept since"
	}
	intro := "URL: " + p.url + "\n"
	if p.title != "" {
		intro = "Title: " + p.title + "\n" + intro
	}
	room := outputLimit - len(head) - len(intro) - 512 // for the fence and the note
	note := ""
	if text == "" {
		note = "[The page has no text. It may need a browser that runs its scripts.]"
	} else if len(text) > room {
		name := Fetch + "-" + string(r.Call) + ".md"
		shown := cutText(text, room)
		note = fmt.Sprintf("[The text is cut: %d of %d bytes are above. ", len(shown), len(text))
		if err := r.Keep(seam.File{Name: name, MediaType: "text/markdown; charset=utf-8", Body: []byte(intro + "\n" + text)}); err != nil {
			note += "The rest could not be stored: " + parley.Info(err).Message + ".]"
		} else {
			note += "The whole is in the artifact " + name + ".]"
		}
		text = shown
	}
	return parley.ToolResult{Output: fence(head+".", intro+"\n"+text, note)}
}

// cutText returns the beginning of a text, up to the end of a line if one is near.
func cutText(text string, room int) string {
	for room > 0 && !utf8.RuneStart(text[room]) {
		room--
	}
	text = text[:room]
	if nl := strings.LastIndexByte(text, '\n'); nl > room/2 {
		text = text[:nl]
	}
	return text
}
