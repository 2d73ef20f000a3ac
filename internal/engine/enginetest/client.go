package enginetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// ByClients changes an app so that clients run all tools of the service, with a timeout of 10 s.
func ByClients(a *parley.App) {
	a.Tools, _ = toolbox.Clients(a.Tools).Tools(context.Background())
	for i := range a.Tools {
		a.Tools[i].Timeout = parley.Duration(10 * time.Second)
	}
}

// here holds the tools of an app that the service runs, and in offered those that clients run.
type here struct {
	*Service
	offered toolbox.Clients
}

func split(s *Service, a parley.App) here {
	h := here{Service: s}
	for _, d := range a.Tools {
		if d.Run == parley.RunClient {
			h.offered = append(h.offered, d)
		}
	}
	return h
}

// Tools implements seam.Toolset.
func (h here) Tools(context.Context) ([]parley.ToolDecl, error) {
	return slices.DeleteFunc(h.decls(), func(d parley.ToolDecl) bool {
		return slices.ContainsFunc(h.offered, func(o parley.ToolDecl) bool { return o.Name == d.Name })
	}), nil
}

// Client is a client that runs tools by calling the service. It outlives the server and repeats
// every command until it is answered. It is safe for concurrent use.
type Client struct {
	Service *Service
	Token   string // the beginning of its tokens; empty: a-clients-own-
	// Forgets makes the client lose its memory whenever the server does not answer: it claims
	// with a new token each time and never reports a call that it began before.
	Forgets bool

	mu   sync.Mutex
	did  map[parley.InteractionID]parley.ReportCall // what it has done, per claim
	told map[parley.InteractionID]bool              // per claim: the server has answered the report
}

// Take claims an offered call and runs it, but does not report yet.
func (c *Client) Take(ctx context.Context, e *engine.Engine, id parley.InteractionID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.take(ctx, e, id)
}

func (c *Client) take(ctx context.Context, e *engine.Engine, id parley.InteractionID) error {
	if c.did == nil {
		c.did, c.told = map[parley.InteractionID]parley.ReportCall{}, map[parley.InteractionID]bool{}
	}
	if _, done := c.did[id]; done {
		return nil
	}
	token := ""
	if !c.Forgets {
		token = cmp.Or(c.Token, "a-clients-own-") + string(id)
	}
	claimed, err := e.Claim(ctx, User, id, parley.ClaimCall{Token: token})
	if err == nil {
		c.did[id] = c.run(ctx, claimed)
	}
	return err
}

// Serve claims an offered call, runs it and reports the outcome.
func (c *Client) Serve(ctx context.Context, e *engine.Engine, id parley.InteractionID) (parley.ToolResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.take(ctx, e, id); err != nil {
		return parley.ToolResult{}, err
	}
	res, err := e.Report(ctx, User, id, c.did[id])
	if err == nil || errors.Is(err, parley.ErrConflict) {
		c.told[id] = true
	}
	return res, err
}

// Again repeats the reports that the server may not have received.
func (c *Client) Again(ctx context.Context, e *engine.Engine) error {
	c.mu.Lock()
	var open []parley.InteractionID
	for id := range c.did {
		if !c.told[id] && !c.Forgets {
			open = append(open, id)
		}
	}
	c.mu.Unlock()
	for _, id := range open {
		if _, err := c.Serve(ctx, e, id); err != nil && !errors.Is(err, parley.ErrConflict) {
			return err
		}
	}
	return nil
}

func (c *Client) run(ctx context.Context, claimed parley.Claimed) parley.ReportCall {
	tool := strings.TrimPrefix(claimed.Tool, parley.CallerPrefix)
	res, err := c.Service.Run(ctx, seam.Run{Call: claimed.Call, Name: tool, Input: claimed.Input})
	if err != nil { // the server is gone, but the client is not
		var in struct{ Text string }
		_ = json.Unmarshal(claimed.Input, &in)
		res = parley.ToolResult{Output: map[string]string{"look": "seen ", "put": "put ", "mail": "mailed "}[tool] + in.Text}
	}
	return parley.ReportCall{Token: claimed.Token, Outcome: res.Outcome, Output: res.Output}
}
