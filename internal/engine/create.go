package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// Limits of commands, in addition to the exported ones in package parley.
const (
	maxSettings = 16 << 10 // bytes as JSON, each, of preferences, a policy, and a turn's hints
	maxQueue    = 100      // the highest allowed max_open_turns
)

// Create makes a session. If the caller already used the outside id in the app, or the
// key, Create returns that session and created is false.
func (e *Engine) Create(ctx context.Context, p parley.Principal, c parley.CreateSession) (info parley.SessionInfo, created bool, err error) {
	c.OutsideID, c.Key = e.aliasOf(c.OutsideID), e.aliasOf(c.Key)
	body := digestOf(c)
	if c.OutsideID == "" { // else the session of that id is the answer
		if info, found, err := e.madeBy(ctx, p, c.Key, body); err != nil || found {
			return info, false, err
		}
	}
	app, err := e.app(c.App)
	if err != nil {
		return info, false, err
	}
	made, err := e.newSession(p, app, c)
	if err != nil {
		return info, false, err
	}
	restored, err := parley.Restore(c.History)
	if err != nil {
		return info, false, err
	}
	for range 3 { // again: another request may take the alias or key between look and append, or delete its session
		if c.OutsideID != "" {
			id, err := e.o.Store.Alias(ctx, p, c.App, c.OutsideID)
			if err == nil {
				if info, err = e.Session(ctx, p, id); isCode(err, parley.CodeNotFound) {
					continue
				}
				return info, false, err
			}
			if !isCode(err, parley.CodeNotFound) {
				return info, false, err
			}
		}
		if info, found, err := e.madeBy(ctx, p, c.Key, body); err != nil || found {
			return info, false, err
		}
		free, err := e.keep(ctx, p, 1, int64(sizeOf(made)+sizeOf(restored)))
		if err != nil {
			return info, false, err
		}
		s, err := e.makeSession(ctx, p, made, seam.Key{Key: c.Key, Body: body}, restored...)
		free()
		if isCode(err, parley.CodeKeyReused) {
			continue
		}
		if err != nil {
			return info, false, err
		}
		return s.state.Info(), true, nil
	}
	return info, false, parley.Errorf(parley.CodeConflict, "the session is being made by another request").WithRetry(time.Second)
}

// madeBy finds the session that a key of the user's made. It comes before everything that
// may have changed since: the app, or the session that was forked.
func (e *Engine) madeBy(ctx context.Context, p parley.Principal, key string, body parley.Digest) (info parley.SessionInfo, found bool, err error) {
	if key == "" {
		return info, false, nil
	}
	k, err := e.o.Store.Key(ctx, p, "", key)
	switch {
	case isCode(err, parley.CodeNotFound):
		return info, false, nil
	case err != nil:
		return info, false, err
	case k.Body != body:
		return info, false, keyReused(key)
	}
	info, err = e.Session(ctx, p, k.Made)
	return info, true, madeGone(key, k, err)
}

// madeGone is the answer to a repeated request whose session could not be had for err: when the
// session was deleted, its key says that for as long as the store keeps it, and makes nothing.
func madeGone(key string, k seam.Key, err error) error {
	if !isCode(err, parley.CodeNotFound) {
		return err
	}
	return parley.Errorf(parley.CodeDeleted, "the session %s, which a request with the idempotency key %q made, was deleted", k.Made, key).
		WithField("Idempotency-Key").WithHint("use a new key to make another one")
}

// madeAnyway answers a request to create a session that the store refused with err. If another
// request with the same key came first, it returns that request's session.
func (e *Engine) madeAnyway(ctx context.Context, p parley.Principal, id parley.SessionID, key string, body parley.Digest, err error) (parley.SessionInfo, error) {
	if isCode(err, parley.CodeKeyReused) {
		if info, found, other := e.madeBy(ctx, p, key, body); found || other != nil {
			return info, other
		}
	}
	return parley.SessionInfo{}, toldMade(err, id, key != "")
}

// makeSession appends the session's first events and keeps the session in memory. The key,
// unless empty, then names the session among the user's keys.
func (e *Engine) makeSession(ctx context.Context, p parley.Principal, made parley.SessionCreated, key seam.Key, restored ...parley.HistoryRestored) (*session, error) {
	s := e.blank(parley.SessionID(e.newID()))
	ix := seam.Index{}
	if key.Key != "" {
		key.Made = s.id
		ix.Keys = []seam.Key{key}
	}
	first := []parley.Event{parley.NewEvent("", "", made)}
	for _, x := range restored {
		first = append(first, parley.NewEvent("", "", x))
	}
	events, err := s.prepare(s.view, &ix, first)
	if err != nil {
		return nil, err
	}
	if err := e.o.Log.Append(context.WithoutCancel(ctx), p, seam.Batch{Session: s.id, Create: true, Owner: e.o.Node, Index: ix}, events); err != nil {
		return nil, toldMade(err, s.id, key.Key != "" || made.OutsideID != "")
	}
	s.state, s.epoch, s.loaded = s.view, 1, true
	e.mu.Lock()
	if e.sessions[s.id] == nil {
		s.used = e.o.Now()
		e.sessions[s.id] = s
	}
	e.mu.Unlock()
	return s, nil
}

// aliasOf is the stored form of an outside id or key. One that looks like a secret is
// stored as its digest: redaction would make all such ids equal.
func (e *Engine) aliasOf(outside string) string {
	if _, secret := e.o.Log.RedactText(outside); !secret {
		return outside
	}
	sum := sha256.Sum256([]byte(outside))
	return "sha256-" + hex.EncodeToString(sum[:])
}

// newSession checks c against the app.
func (e *Engine) newSession(p parley.Principal, a *scope.Resolved, c parley.CreateSession) (parley.SessionCreated, error) {
	e.mu.Lock()
	closing := e.closing
	e.mu.Unlock()
	if closing {
		return parley.SessionCreated{}, errShutdown
	}
	app := *a.App()
	budgets, err := budgetsOf(app.Budgets, c)
	if err != nil {
		return parley.SessionCreated{}, err
	}
	if c.Model != "" {
		if err := fixedModel(&app, nil); err != nil { // a session may choose the model that it then keeps
			return parley.SessionCreated{}, err
		}
		if _, err := e.o.Models.Model(c.Model); err != nil {
			return parley.SessionCreated{}, err
		}
	}
	busy := app.Busy
	if c.Busy != "" {
		busy = c.Busy
	}
	if busy == "" {
		busy = parley.BusyReject
	}
	if err := checkBusy(busy); err != nil {
		return parley.SessionCreated{}, err
	}
	open := max(app.MaxOpenTurns, 1)
	if busy == parley.BusyEnqueue && app.MaxOpenTurns <= 1 {
		open = 8 // a queue of one is hardly a queue
	}
	if c.MaxOpenTurns != 0 {
		if c.MaxOpenTurns < 1 || c.MaxOpenTurns > maxQueue {
			return parley.SessionCreated{}, parley.Errorf(parley.CodeInvalid, "max_open_turns must be 1 to %d", maxQueue).WithField("max_open_turns")
		}
		open = c.MaxOpenTurns
	}
	switch {
	case utf8.RuneCountInString(c.OutsideID) > parley.MaxOutsideID:
		return parley.SessionCreated{}, tooLong("outside_id", parley.MaxOutsideID, "characters")
	case sizeOf(c.Preferences) > maxSettings:
		return parley.SessionCreated{}, tooLong("preferences", maxSettings, "bytes of JSON")
	case sizeOf(c.Policy) > maxSettings:
		return parley.SessionCreated{}, tooLong("policy", maxSettings, "bytes of JSON")
	case utf8.RuneCountInString(c.Title) > parley.MaxTitle:
		return parley.SessionCreated{}, tooLong("title", parley.MaxTitle, "characters")
	case utf8.RuneCountInString(c.Key) > parley.MaxKey:
		return parley.SessionCreated{}, tooLong("Idempotency-Key", parley.MaxKey, "characters")
	}
	if err := narrower(app.Policy, c.Policy); err != nil {
		return parley.SessionCreated{}, err
	}
	if err := checkMode(&app, c.Policy, c.Mode); err != nil {
		return parley.SessionCreated{}, err
	}
	mode := c.Mode
	if mode == "" && checkMode(&app, c.Policy, app.Mode) == nil {
		mode = app.Mode
	}
	if err := checkSampling(&app, nil, c.Temperature, &c.MaxOutput); err != nil {
		return parley.SessionCreated{}, err
	}
	if err := checkRuntime(&app, c.Runtime); err != nil {
		return parley.SessionCreated{}, err
	}
	space, readOnly, err := workspaceOf(p, a, c.Workspace)
	if err != nil {
		return parley.SessionCreated{}, err
	}
	attached, err := attachable(a, p, space, c.AttachedEntities)
	if err != nil {
		return parley.SessionCreated{}, err
	}
	force := app.InForce()
	return parley.SessionCreated{
		InForce: &force, Workspace: space, ReadOnly: readOnly, Attached: attached, MaxUSD: c.MaxBudgetUSD,
		App: app.Name, User: p.User, Org: p.Org, Title: c.Title, Model: c.Model, Runtime: c.Runtime, Temperature: c.Temperature, MaxOutput: c.MaxOutput, Mode: mode, Policy: c.Policy,
		Budgets: budgets, Memory: app.Memory, Busy: busy, MaxOpenTurns: open,
		Preferences: maps.Clone(c.Preferences), OutsideID: c.OutsideID, Temporary: c.Temporary,
	}, nil
}

// narrower refuses a caller's policy that allows more than the app's: a caller may only
// ask more often or forbid more.
func narrower(app parley.Policy, p *parley.Policy) error {
	if p == nil {
		return nil
	}
	for _, r := range p.Rules {
		if r.Verdict != parley.Deny && r.Verdict != parley.Confirm && r.Verdict != parley.Ask {
			return parley.Errorf(parley.CodeInvalid, "a rule in policy.rules may only deny, confirm or ask; it cannot %q", r.Verdict).
				WithField("policy.rules").WithHint("a caller's policy may only be stricter than the app's")
		}
	}
	if p.AllowActuation != nil && *p.AllowActuation && (app.AllowActuation == nil || !*app.AllowActuation) {
		return parley.Errorf(parley.CodeInvalid, "policy.allow_actuation allows more than the app does").
			WithField("policy.allow_actuation").WithHint("actuation is off in this app's settings")
	}
	for _, service := range p.AllowlistedServices {
		if !slices.ContainsFunc(app.AllowlistedServices, func(pattern string) bool { return policy.Like(pattern, service) }) {
			return parley.Errorf(parley.CodeInvalid, "policy.allowlisted_services names %q, which the app does not allow", service).
				WithField("policy.allowlisted_services").WithHint("the app allows %v", app.AllowlistedServices)
		}
	}
	for i, m := range p.Modes {
		if err := knownMode(m); err != nil {
			return err.WithField(fmt.Sprintf("policy.modes[%d]", i))
		}
		if !app.Offers(m) {
			return parley.Errorf(parley.CodeInvalid, "policy.modes names %q, which the app does not offer", m).
				WithField(fmt.Sprintf("policy.modes[%d]", i)).WithHint("a caller's policy may only be stricter than the app's")
		}
	}
	if within := time.Duration(p.AnswerWithin); within != 0 && (within < shortestAnswer || within > answerWithin(app, nil)) {
		return parley.Errorf(parley.CodeInvalid, "policy.answer_within is %s, but must be from %s to %s", within, shortestAnswer, answerWithin(app, nil)).
			WithField("policy.answer_within").WithHint("a caller's policy may only be stricter than the app's")
	}
	if p.Unattended {
		return parley.Errorf(parley.CodeInvalid, "only the app can set policy.unattended").WithField("policy.unattended")
	}
	return nil
}

// shortestAnswer is the shortest time to answer that a caller may set.
const shortestAnswer = time.Second

// answerWithin is how long an interaction stays open: the app's time, or the session's
// own if that is shorter.
func answerWithin(app parley.Policy, own *parley.Policy) time.Duration {
	within := cmp.Or(time.Duration(app.AnswerWithin), 24*time.Hour)
	if own != nil && own.AnswerWithin > 0 {
		within = min(within, time.Duration(own.AnswerWithin))
	}
	return within
}

// fixedModel refuses a choice of model if the app or the session has a fixed one.
func fixedModel(app *parley.App, own *parley.Policy) error {
	switch {
	case app.Policy.FixedModel:
		return parley.Errorf(parley.CodeForbidden, "app %s has a fixed model", app.Name).WithField("model")
	case own != nil && own.FixedModel:
		return parley.Errorf(parley.CodeForbidden, "the session has a fixed model").WithField("model").WithHint("its policy fixes it; start another session")
	}
	return nil
}

// sizeOf is the length of v's JSON.
func sizeOf(v any) int {
	raw, err := json.Marshal(v)
	if err != nil {
		return maxSettings + 1 // a value without JSON cannot be stored
	}
	return len(raw)
}

func checkBusy(b parley.BusyMode) error {
	switch b {
	case parley.BusyReject, parley.BusyEnqueue, parley.BusyInterrupt, parley.BusySteer:
		return nil
	}
	return parley.Errorf(parley.CodeInvalid, "busy is %q", b).WithField("busy").WithHint("one of reject, enqueue, interrupt, steer")
}

// checkMode refuses an unknown mode, and one that the app's or the session's policy does
// not offer.
func checkMode(app *parley.App, own *parley.Policy, m parley.PermissionMode) error {
	if err := knownMode(m); err != nil {
		return err
	}
	switch {
	case !app.Policy.Offers(m):
		return parley.Errorf(parley.CodeForbidden, "app %s does not let callers choose the mode %s", app.Name, m).WithField("mode").
			WithHint("an app names the modes that it offers in policy.modes of its app.yaml")
	case own != nil && own.Modes != nil && !own.Offers(m):
		return parley.Errorf(parley.CodeForbidden, "the session does not offer the mode %s", m).WithField("mode").
			WithHint("its policy excludes it; start another session")
	}
	return nil
}

// checkRuntime refuses a runtime that the app does not offer. Empty is the app's own.
func checkRuntime(app *parley.App, name string) error {
	if name == "" || name == app.Runtime || slices.Contains(app.Runtimes, name) {
		return nil
	}
	return parley.Errorf(parley.CodeForbidden, "app %s does not let callers choose the runtime %q", app.Name, parley.Cut(name, 40)).WithField("runtime").
		WithHint("an app names the runtimes that it offers in runtimes of its app.yaml")
}

func knownMode(m parley.PermissionMode) *parley.Error {
	switch m {
	case "", parley.ModeDefault, parley.ModeAcceptEdits, parley.ModePlan, parley.ModeBypassPermissions:
		return nil
	}
	return parley.Errorf(parley.CodeInvalid, "mode is %q", m).WithField("mode").WithHint("one of default, acceptEdits, plan, bypassPermissions")
}

func tooLong(field string, limit int, unit string) *parley.Error {
	return parley.Errorf(parley.CodeTooLarge, "%s is longer than %d %s", field, limit, unit).WithField(field)
}

func keyReused(key string) *parley.Error {
	return parley.Errorf(parley.CodeKeyReused, "idempotency key %q was already used with another body", key).
		WithField("Idempotency-Key").WithHint("use a new key for a new request")
}
