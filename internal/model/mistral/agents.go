package mistral

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// idsFile is the file in the data folder that keeps the ids of agents.
const idsFile = ".agent_ids.json"

// kept is the content of that file: the agents of each app and model.
type kept struct {
	Apps map[string]map[string]map[string]keptAgent `json:"apps"`
}

type keptAgent struct {
	ID     string        `json:"id"`
	Digest parley.Digest `json:"digest"` // digest of the definition that Mistral has
}

// agentBody is the body for creating or changing an agent. A null clears a field.
type agentBody struct {
	Model          string          `json:"model"`
	Name           string          `json:"name"`
	Description    *string         `json:"description"`
	Instructions   *string         `json:"instructions"`
	Tools          []tool          `json:"tools"`
	CompletionArgs *completionArgs `json:"completion_args"`
}

// completionArgs are the completion arguments that we set.
type completionArgs struct {
	MaxTokens       int64    `json:"max_tokens,omitempty"`
	Temperature     *float64 `json:"temperature,omitempty"`
	ReasoningEffort string   `json:"reasoning_effort,omitempty"`
	ToolChoice      string   `json:"tool_choice,omitempty"`
}

type handoffsBody struct {
	Handoffs []string `json:"handoffs"`
}

// remoteAgent holds the fields that we read of an agent at Mistral.
type remoteAgent struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Model        string   `json:"model"`
	Instructions *string  `json:"instructions"`
	Handoffs     []string `json:"handoffs"`
}

// fleet are an app's agents at Mistral.
type fleet struct {
	ids    map[string]string // agent ids by our name
	names  map[string]string // our names by id
	digest parley.Digest     // digest of ids and definitions: it differs when the fleet does
}

// Prepare creates the agents, or checks that the stored ones are still good: each stored
// id is looked up, and an agent whose definition differs from the app's is updated. If one
// no longer exists, all are created again. Calling it is optional: the first use does the
// same. On an error nothing changes, and the next use tries again.
func (h *Hosted) Prepare(ctx context.Context) error {
	_, err := h.ready(ctx)
	return err
}

// ready returns the agents and prepares them if necessary.
func (h *Hosted) ready(ctx context.Context) (*fleet, error) {
	select {
	case h.busy <- struct{}{}:
		defer func() { <-h.busy }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if h.fleet != nil {
		return h.fleet, nil
	}
	f, err := h.prepare(ctx)
	if err != nil {
		return nil, h.unprepared(ctx, err)
	}
	h.fleet = f
	return f, nil
}

// unprepared wraps the error of a failed preparation.
func (h *Hosted) unprepared(ctx context.Context, err error) error {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	out := *e
	out.Message = "the agents of app " + h.o.App.Name + " could not be prepared: " + e.Message
	return &out
}

// stale makes the next use prepare the agents again, unless that was done already.
func (h *Hosted) stale(ctx context.Context, f *fleet) {
	select {
	case h.busy <- struct{}{}:
		if h.fleet == f {
			h.fleet = nil
		}
		<-h.busy
	case <-ctx.Done():
	}
}

func (h *Hosted) prepare(ctx context.Context) (*fleet, error) {
	// There is one file for all apps of this server. No other process uses the folder, because
	// this one holds its lock.
	select {
	case h.c.files <- struct{}{}:
		defer func() { <-h.c.files }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := h.there(); err != nil {
		return nil, err
	}
	all, err := readIDs(h.path())
	if err != nil {
		h.c.log.WarnContext(ctx, "the ids of agents cannot be read; creating the agents again", "file", h.path(), "error", err)
	}
	mine := all.Apps[h.o.App.Name][h.o.Model]
	good, changed := false, false
	if h.complete(mine) {
		if good, changed, err = h.validate(ctx, mine); err != nil {
			return nil, err
		}
	}
	if !good {
		if mine, err = h.create(ctx); err != nil {
			return nil, err
		}
	}
	if !good || changed {
		if all.Apps[h.o.App.Name] == nil {
			all.Apps[h.o.App.Name] = map[string]map[string]keptAgent{}
		}
		all.Apps[h.o.App.Name][h.o.Model] = mine
		if err := h.there(); err != nil {
			return nil, err
		}
		if err := writeIDs(h.path(), all); err != nil {
			return nil, err
		}
	}
	return h.newFleet(mine), nil
}

func (h *Hosted) newFleet(mine map[string]keptAgent) *fleet {
	f := &fleet{ids: map[string]string{}, names: map[string]string{}, digest: digestOf(mine)}
	for n, a := range mine {
		f.ids[n], f.names[a.ID] = a.ID, n
	}
	return f
}

// complete reports whether there is an id for each agent and no other.
func (h *Hosted) complete(mine map[string]keptAgent) bool {
	for _, n := range h.agents {
		if mine[n].ID == "" {
			return false
		}
	}
	return len(mine) == len(h.agents)
}

// validate looks each agent up and updates those that differ from the app's. good is false if
// one no longer exists.
func (h *Hosted) validate(ctx context.Context, mine map[string]keptAgent) (good, changed bool, err error) {
	ids := map[string]string{}
	for n, a := range mine {
		ids[n] = a.ID
	}
	for _, n := range h.agents {
		a := mine[n]
		var have remoteAgent
		err := h.c.get(ctx, agentPath(a.ID), &have)
		switch code := parley.CodeOf(err); {
		case code == parley.CodeNotFound || code == parley.CodeInvalid:
			h.c.log.InfoContext(ctx, "an agent no longer exists; creating all of the app's again", "app", h.o.App.Name, "agent", n)
			return false, false, nil
		case err != nil:
			return false, false, err
		case have.ID != a.ID:
			return false, false, nil
		}
		body := h.body(n)
		want := h.digest(n)
		same := have.Name == body.Name && have.Model == body.Model && deref(have.Instructions) == deref(body.Instructions)
		if a.Digest == want && same && sameIDs(have.Handoffs, h.handoffs(n, ids)) {
			continue
		}
		if err := h.patch(ctx, a.ID, body); err != nil {
			return false, false, err
		}
		if err := h.patch(ctx, a.ID, handoffsBody{h.handoffs(n, ids)}); err != nil {
			return false, false, err
		}
		mine[n] = keptAgent{ID: a.ID, Digest: want}
		changed = true
	}
	return true, changed, nil
}

func sameIDs(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// create creates all agents and then sets their handoffs, since an agent can only hand over to
// one that exists. If that fails, the agents created so far are deleted.
func (h *Hosted) create(ctx context.Context) (_ map[string]keptAgent, err error) {
	mine, ids := map[string]keptAgent{}, map[string]string{}
	defer func() {
		if err == nil {
			return
		}
		for _, id := range ids {
			if derr := h.c.do(ctx, http.MethodDelete, agentPath(id), nil, nil); derr != nil {
				h.c.log.WarnContext(ctx, "an agent that is no longer needed could not be deleted at Mistral", "id", id, "error", derr)
			}
		}
	}()
	for _, n := range h.agents {
		raw, err := encode(h.body(n))
		if err != nil {
			return nil, err
		}
		var made remoteAgent
		if err := h.c.do(ctx, http.MethodPost, "/v1/agents", raw, &made); err != nil {
			return nil, err
		}
		if made.ID == "" {
			return nil, h.c.p.Malformed("an agent without an id", nil)
		}
		ids[n] = made.ID
		mine[n] = keptAgent{ID: made.ID, Digest: h.digest(n)}
	}
	for _, n := range h.agents {
		if to := h.handoffs(n, ids); len(to) > 0 {
			if err := h.patch(ctx, ids[n], handoffsBody{to}); err != nil {
				return nil, err
			}
		}
	}
	return mine, nil
}

func (h *Hosted) patch(ctx context.Context, id string, body any) error {
	raw, err := encode(body)
	if err != nil {
		return err
	}
	return h.c.do(ctx, http.MethodPatch, agentPath(id), raw, nil)
}

func agentPath(id string) string { return "/v1/agents/" + url.PathEscape(id) }

// body returns the app's definition of an agent.
func (h *Hosted) body(n string) agentBody {
	def := h.o.App.Agents[n]
	b := h.define(h.static(n))
	b.Name = n
	if def.Description != "" {
		b.Description = &def.Description
	}
	return b
}

// static returns the request that an agent makes without anything special.
func (h *Hosted) static(n string) seam.Request {
	def := h.o.App.Agents[n]
	r := seam.Request{Agent: n, System: def.Prompt, Temperature: def.Temperature, Effort: def.Effort, MaxTokens: h.most(n)}
	for _, name := range def.Tools {
		for _, d := range h.o.App.Tools {
			if d.Name == name {
				r.Tools = append(r.Tools, d)
			}
		}
	}
	for _, to := range def.Handoffs {
		if d, ok := h.o.App.Agents[to]; ok {
			r.Handoffs = append(r.Handoffs, seam.Handoff{Agent: to, Description: d.Description})
		}
	}
	for _, s := range def.ServerTools {
		if slices.Contains(h.info.ServerTools, s) {
			r.ServerTools = append(r.ServerTools, s)
		}
	}
	return r
}

// usualOutput is the output cap of an agent that sets none, the same as in our loop.
const usualOutput = 8192

// most returns the output cap of an agent, as our loop determines it.
func (h *Hosted) most(n string) int64 {
	most := h.o.App.Agents[n].MaxOutput
	if most <= 0 {
		most = usualOutput
	}
	if h.info.MaxOutputTokens > 0 {
		most = min(most, h.info.MaxOutputTokens)
	}
	if h.info.ContextTokens > 0 {
		most = min(most, h.info.ContextTokens/2)
	}
	return most
}

// define returns the definition that a request needs of its agent, apart from messages.
func (h *Hosted) define(r seam.Request) agentBody {
	n := newNames(r)
	b := agentBody{Model: h.o.Model, Tools: []tool{}, CompletionArgs: h.args(r)}
	if r.System != "" {
		b.Instructions = &r.System
	}
	for _, d := range r.Tools {
		b.Tools = append(b.Tools, newFunction(n.of(target{name: d.Name}), d.Description, d.InputSchema))
	}
	for _, to := range r.Handoffs {
		if !slices.Contains(h.agents, to.Agent) {
			b.Tools = append(b.Tools, handoffFunction(to, n))
		}
	}
	for _, s := range r.ServerTools {
		b.Tools = append(b.Tools, tool{Type: s})
	}
	return b
}

func (h *Hosted) args(r seam.Request) *completionArgs {
	return &completionArgs{MaxTokens: r.MaxTokens, Temperature: r.Temperature, ReasoningEffort: r.Effort}
}

// handoffs returns the ids of the agents that an agent may hand over to.
func (h *Hosted) handoffs(n string, ids map[string]string) []string {
	to := []string{}
	for _, name := range h.o.App.Agents[n].Handoffs {
		if id := ids[name]; id != "" {
			to = append(to, id)
		}
	}
	return to
}

// digest returns the digest of an agent's definition, including handoffs.
func (h *Hosted) digest(n string) parley.Digest {
	return digestOf([]any{h.body(n), h.o.App.Agents[n].Handoffs})
}

// digestOf returns the digest of a value's JSON.
func digestOf(v any) parley.Digest {
	raw, err := json.Marshal(v)
	if err != nil {
		return "" // a schema that is not JSON equals no other
	}
	sum := sha256.Sum256(raw)
	return parley.Digest(hex.EncodeToString(sum[:]))
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (h *Hosted) there() error {
	if h.o.There == nil {
		return nil
	}
	return h.o.There()
}

func (h *Hosted) path() string { return filepath.Join(h.o.Dir, idsFile) }

// maxIDs limits the size of the file.
const maxIDs = 4 << 20

// readIDs returns the content of the file: empty if there is no file, and empty with an error if
// it cannot be read.
func readIDs(path string) (kept, error) {
	none := kept{Apps: map[string]map[string]map[string]keptAgent{}}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, nil
	case err != nil:
		return none, err
	case info.Size() > maxIDs:
		return none, errors.New("the file is too large")
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return none, err
	}
	var k kept
	if err := json.Unmarshal(raw, &k); err != nil {
		return none, err
	}
	if k.Apps == nil {
		return none, nil
	}
	return kept{Apps: maps.Clone(k.Apps)}, nil
}

// writeIDs replaces the file atomically. Its error is shown to the user; the folder's path is
// only in its cause.
func writeIDs(path string, k kept) (err error) {
	fail := func(err error) error {
		why := err
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			why = p.Err
		}
		if l, ok := errors.AsType[*os.LinkError](err); ok {
			why = l.Err
		}
		e := parley.Errorf(parley.CodeUnavailable, "write the ids of Mistral's agents to %s: %v", idsFile, why).
			WithHint("check that the data folder is writable and the disk is not full")
		e.Err = err
		return e
	}
	raw, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return fail(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), idsFile+".*") // made with mode 0600
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // a file left behind does no harm
		}
	}()
	_, err = f.Write(append(raw, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}
