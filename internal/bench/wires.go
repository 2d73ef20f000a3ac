package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/anthropic"
	"github.com/parley-server/parley/internal/model/gemini"
	"github.com/parley-server/parley/internal/model/mistral"
	"github.com/parley-server/parley/internal/model/openai"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/simtest"
)

// form is how an API sends tokens: the bytes before and after all of them, and around each.
type form struct {
	kind                       string // media type
	head, before, behind, tail []byte
}

// bare is the form of the floor.
var bare = form{kind: "text/event-stream", before: []byte(`data: "`), behind: []byte("\"\n\n"), tail: []byte("data: [DONE]\n\n")}

// mark is sent once to find a form.
const mark = "THE-TOKEN"

// formOf asks a provider's simulator once, through the adapter, and takes its stream apart.
func formOf(p simtest.Provider) (f form, err error) {
	sim := p.Handler(simtest.Says(mark), nil)
	direct := recording{sim: sim, p: p}
	app := benchApp(nil)
	m, err := adapted(p, "http://stand.in", &app, &http.Client{Transport: &direct})
	if err != nil {
		return f, err
	}
	ask := seam.Request{
		Model: m.Info().Name, Agent: "lead", System: app.Agents["lead"].Prompt, MaxTokens: 1000,
		Messages: []parley.Message{parley.Text(parley.RoleUser, "say it")},
	}
	for _, err := range m.Stream(context.Background(), ask) {
		if err != nil {
			return f, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	before, behind, ok := bytes.Cut(direct.body, []byte(mark))
	blank := []byte("\n\n") // what ends a frame
	if crlf := []byte("\r\n\r\n"); bytes.Contains(behind, crlf) {
		blank = crlf
	}
	at, end := 0, bytes.Index(behind, blank)+len(blank)
	if i := bytes.LastIndex(before, blank); i >= 0 {
		at = i + len(blank)
	}
	if !ok || end < len(blank) {
		return f, fmt.Errorf("%s: no frame is found in %q", p.Name, direct.body)
	}
	return form{kind: direct.kind, head: before[:at], before: before[at:], behind: behind[:end], tail: behind[end:]}, nil
}

// recording is the connection to a simulator in this process. It keeps the answer of a call.
type recording struct {
	sim  http.Handler
	p    simtest.Provider
	kind string
	body []byte
}

func (c *recording) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	c.sim.ServeHTTP(w, r)
	resp := w.Result()
	if c.p.Calls(r) {
		c.kind, c.body = resp.Header.Get("Content-Type"), w.Body.Bytes()
	}
	resp.Request = r
	return resp, nil
}

// adapted returns a provider's model as made by package program, at an address.
func adapted(p simtest.Provider, url string, app *parley.App, c *http.Client) (seam.Model, error) {
	info := seam.ModelInfo{
		Name: strings.ReplaceAll(p.Model, "{app}", app.Name), Provider: p.Account, ContextTokens: 100_000, MaxOutputTokens: 32_000, Hosted: p.Hosted,
	}
	base := url + p.Base
	var account interface {
		Model(seam.ModelInfo) seam.Model
	}
	var err error
	switch p.Kind {
	case "anthropic":
		account, err = anthropic.New(anthropic.Options{Key: simtest.Key, BaseURL: base, HTTP: c})
	case "openai":
		account, err = openai.New(openai.Options{Name: p.Account, Key: simtest.Key, BaseURL: base, HTTP: c, Dialect: openai.Dialect(p.Dialect)})
	case "gemini":
		account, err = gemini.New(gemini.Options{Key: simtest.Key, BaseURL: base, HTTP: c})
	case "mistral":
		var m *mistral.Client
		if m, err = mistral.New(mistral.Options{Key: simtest.Key, BaseURL: base, HTTP: c}); err == nil && p.Hosted {
			dir, err := os.MkdirTemp("", "parley-bench-agents-")
			if err != nil {
				return nil, err
			}
			h, err := m.Hosted(info, mistral.HostedOptions{App: app, Dir: dir})
			if err == nil {
				err = h.Prepare(context.Background())
			}
			return h, errors.Join(err, os.RemoveAll(dir))
		}
		account = m
	default:
		return nil, fmt.Errorf("there is no adapter for %s", p.Kind)
	}
	if err != nil {
		return nil, err
	}
	return account.Model(info), nil
}

// wires adds the API of each provider to an upstream, under its index in the table. Calls are
// answered from the bytes that the simulator once sent, so that this costs no more than the bare
// form. The simulator answers everything else.
func (u *upstream) wires(mux *http.ServeMux) error {
	for i, p := range simtest.Providers() {
		f, err := formOf(p)
		if err != nil {
			return err
		}
		sim, at := p.Handler(simtest.Says("nothing"), nil), "/"+strconv.Itoa(i)
		mux.Handle(at+"/", http.StripPrefix(at, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if p.Calls(r) {
				u.say(w, r, f)
				return
			}
			sim.ServeHTTP(w, r)
		})))
	}
	return nil
}
