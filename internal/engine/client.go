package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/picture"
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// Some tools are run by clients, not by this server. When a call of such a tool may run, it is
// offered as an interaction and the turn waits. A client claims the call, which commits
// tool.started with the digest of the client's token. The turn then runs again and waits in
// memory for the client's report until the deadline, as for any tool. Claim and report are
// commands, and all they need is in the log, so a claim outlives the server. If no report comes
// in time, the call is offered again if it may be repeated; otherwise its outcome is unknown.

// maxClaims limits how often a call is offered, so that clients that claim and never report do
// not fill the log.
const maxClaims = 5

// clientKey returns the key of the offer that follows the given number of claims.
func clientKey(claims int) string { return fmt.Sprintf("%s#%d", parley.KindClient, claims+1) }

// errClaimed says that a client has claimed the call.
var errClaimed = errors.New("a client runs the call")

// offer offers clients a call that may run with the given input. It returns ErrParked until a
// client has claimed it. A refusal says, to the model, why the call is not made.
func (h *host) offer(ctx context.Context, s *session, c *parley.Tool, decl parley.ToolDecl, input json.RawMessage) (refusal string, err error) {
	key := clientKey(c.Attempt)
	if a, ok := s.view.Turn.AnswerTo(c.Call, key); ok {
		return sentence("No client made this call", a.Text), nil
	}
	if slices.ContainsFunc(s.view.Interactions, func(in parley.Interaction) bool { return in.Call == c.Call && in.Kind == parley.KindClient }) {
		return "", seam.ErrParked
	}
	if c.Attempt >= maxClaims {
		return fmt.Sprintf("Clients claimed this call %d times, but none reported in time.", c.Attempt), nil
	}
	in := parley.Interaction{
		Agent: c.Agent, Kind: parley.KindClient, Call: c.Call, Key: key, Tool: c.Name, Input: input,
		Title: "A client must run " + c.Name, Choices: []string{parley.ChoiceDeny},
	}
	if decl.Subject != "" {
		in.Detail = called(decl, input, nil)
	}
	if c.Attempt > 0 {
		in.Text = "The client that claimed it did not report in time."
	}
	if decl.ClaimWithin > 0 {
		in.ExpiresAt = s.e.now().Add(time.Duration(decl.ClaimWithin))
	}
	if err := h.commit(ctx, s, s.opening(h.r.app, in)); err != nil {
		return "", err
	}
	return "", seam.ErrParked
}

// reported waits while a client has claimed the call and may still report. It holds no lock.
// For a call with effects, neither a stop of the turn nor its time budget ends the wait.
func (h *host) reported(ctx context.Context, call parley.CallID) error {
	if t := h.State().Turn; t != nil {
		if c := t.Tool(call); c != nil && c.Effect != parley.EffectRead {
			var done func()
			ctx, done = h.outlasting(ctx)
			defer done()
		}
	}
	for first := true; ; first = false {
		var changed <-chan struct{}
		var left time.Duration
		if err := h.lasting(ctx, func() error {
			return h.with(ctx, func(s *session) error {
				changed = nil
				c := s.view.Turn.Tool(call)
				if c == nil || !c.Claimed() {
					return nil
				}
				if left = c.Deadline.Sub(s.e.now()); left <= 0 {
					return nil
				}
				if first { // commit what is staged before waiting
					if err := h.commit(ctx, s); err != nil {
						return err
					}
				}
				changed = s.changed
				return nil
			})
		}); err != nil || changed == nil {
			return err
		}
		over := time.NewTimer(left)
		select {
		case <-changed:
		case <-over.C:
		case <-h.s.e.open.Done():
			return errShutdown // the claim stays valid
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		over.Stop()
	}
}

// unreported ends a call with effects that a client claimed and did not report in time.
func (h *host) unreported(ctx context.Context, call parley.CallID) error {
	ctx = context.WithoutCancel(ctx)
	return h.lasting(ctx, func() error {
		return h.with(ctx, func(s *session) error {
			t := s.view.Turn
			c := t.Tool(call)
			if c == nil || c.Status != parley.ToolIsStarted {
				return nil
			}
			res := unknownResult(call)
			res.Error = &parley.ErrorInfo{Code: parley.CodeTimeout, Message: "the client that claimed the call did not report in time"}
			return h.commit(ctx, s, s.outcome(c, toolbox.Result{ToolResult: res}, kept{}, "")...)
		})
	})
}

// proofOf returns the digest of a claimer's token.
func proofOf(token string) parley.Digest {
	sum := sha256.Sum256([]byte("parley claim " + token))
	return parley.Digest(hex.EncodeToString(sum[:]))
}

func newToken() string { return rand.Text() } // 26 characters, 130 bits

func proves(c *parley.Claim, id parley.InteractionID, proof parley.Digest) bool {
	return c != nil && c.Interaction == id && subtle.ConstantTimeCompare([]byte(c.Proof), []byte(proof)) == 1
}

// offered returns the row of a call that was offered to clients, and its session, locked.
func (e *Engine) offered(ctx context.Context, p parley.Principal, id parley.InteractionID) (*session, seam.InteractionRow, error) {
	row, err := e.Interaction(ctx, p, id)
	if err != nil {
		return nil, row, err
	}
	if row.Kind != parley.KindClient {
		return nil, row, parley.Errorf(parley.CodeConflict, "interaction %s is a %s, not a call for clients", id, row.Kind).WithHint("answer it instead")
	}
	s, err := e.ready(ctx, p, row.Session)
	if err != nil {
		return nil, row, err
	}
	if row, err = e.Interaction(ctx, p, id); err != nil { // it may have changed while we waited for the lock
		s.release()
	}
	return s, row, err
}

// Claim claims a call that is offered to clients, for the caller to run. Of several claims one
// wins. Repeating a claim with the same token gets the same answer. The current rules judge the
// call once more, and a call that they deny cannot be claimed.
func (e *Engine) Claim(ctx context.Context, p parley.Principal, id parley.InteractionID, c parley.ClaimCall) (parley.Claimed, error) {
	none := parley.Claimed{}
	if n := utf8.RuneCountInString(c.Token); n > parley.MaxToken || n > 0 && n < parley.MinToken {
		return none, parley.Errorf(parley.CodeInvalid, "the token has %d characters", n).WithField("token").
			WithHint("send %d to %d random characters, or none to let the server create the token", parley.MinToken, parley.MaxToken)
	}
	if c.Token == "" {
		c.Token = newToken()
	}
	s, row, err := e.offered(ctx, p, id)
	if err != nil {
		return none, err
	}
	defer s.release()
	t := s.view.Turn
	at := slices.IndexFunc(s.view.Interactions, func(in parley.Interaction) bool { return in.ID == id })
	if at < 0 {
		if t != nil {
			if call := t.Tool(row.Call); call != nil && call.Claimed() && proves(call.Claim, id, proofOf(c.Token)) && s.e.now().Before(call.Deadline) {
				return s.claimed(call, c.Token), nil
			}
		}
		return none, notOffered(row)
	}
	if _, err := e.appOf(s.view.App); err != nil {
		return none, err // the turn could not continue with the client's report
	}
	in := s.view.Interactions[at]
	if over, err := s.expire(ctx, in); err != nil {
		return none, err
	} else if over {
		return none, parley.Errorf(parley.CodeConflict, "the offer of the call expired at %s", in.ExpiresAt.Format(time.RFC3339)).WithHint("the turn went on without it")
	}
	if t.Stop != nil || s.stopping() != nil {
		return none, parley.Errorf(parley.CodeConflict, "turn %s is being stopped", t.ID)
	}
	app, err := s.appOf(t)
	if err != nil {
		return none, err
	}
	call := t.Tool(in.Call)
	decl, missing := declared(app, s.box(), t, call)
	effect := effectOf(decl)
	verdict, why := parley.Deny, missing
	if missing == "" {
		w := wishOf(s.box(), decl, effect, s.inside(decl, in.Input))
		w.ReadOnly = s.view.ReadOnly
		verdict, why = policy.Judge(app, s.view, w)
	}
	if verdict == parley.Deny { // the turn continues and tells the model
		if err := s.commit(ctx, parley.NewEvent(in.Turn, in.Agent, parley.InteractionExpired{ID: in.ID, Reason: why})); err != nil {
			return none, err
		}
		s.logged("go on without a client", s.goOn())
		return none, parley.Errorf(parley.CodeForbidden, "this call is not allowed any more: %s", why)
	}
	begun := s.starting(s.box(), call, decl, effect, in.Input)
	begun.Claim = &parley.Claim{Interaction: id, By: p.User, Client: c.Client, Proof: proofOf(c.Token)}
	if err := s.commit(
		ctx,
		parley.NewEvent(in.Turn, in.Agent, parley.InteractionAnswered{ID: id, Answer: parley.Answer{Choice: parley.ChoiceClaimed}, By: p.User, Client: c.Client}),
		parley.NewEvent(in.Turn, in.Agent, begun),
	); err != nil {
		return none, err
	}
	claimed := s.claimed(s.view.Turn.Tool(in.Call), c.Token) // before going on, which may end the turn
	s.logged("go on after a claim", s.goOn())
	return claimed, nil
}

func (s *session) claimed(c *parley.Tool, token string) parley.Claimed {
	return parley.Claimed{
		Interaction: c.Claim.Interaction, Session: s.id, Turn: s.view.Turn.ID, Call: c.Call, Tool: c.Name, Input: c.Input, Effect: c.Effect,
		Attempt: c.Attempt, Deadline: c.Deadline, LeftMS: c.Deadline.Sub(s.e.now()).Milliseconds(), Token: token,
	}
}

// notOffered returns the error that says why a call cannot be claimed.
func notOffered(row seam.InteractionRow) error {
	switch {
	case row.Answer == nil:
		return parley.Errorf(parley.CodeConflict, "the call is not offered any more").WithHint("nobody claimed it in time, or its turn has ended")
	case row.Answer.Choice == parley.ChoiceClaimed:
		return parley.Errorf(parley.CodeConflict, "another client of %s has claimed the call", row.AnsweredBy).
			WithHint("the call is offered again if that client does not report in time and the call may be repeated")
	}
	return parley.Errorf(parley.CodeConflict, "%s has declined the call", row.AnsweredBy)
}

const (
	// maxReport limits a report with its files, in bytes. It is enough for a few pictures. The
	// client should store larger results itself and report where they are.
	maxReport      = 8 << 20
	maxReportFiles = 8
)

func sizeOfReport(c parley.ReportCall) int {
	size := len(c.Output) + len(c.Data)
	for _, f := range c.Files {
		size += len(f.Data)
	}
	return size
}

func checkReport(c parley.ReportCall) error {
	size := sizeOfReport(c)
	for i, f := range c.Files {
		at := fmt.Sprintf("files[%d].", i)
		switch {
		case f.Name == "" || utf8.RuneCountInString(f.Name) > parley.MaxTitle || !utf8.ValidString(f.Name):
			return parley.Errorf(parley.CodeInvalid, "a file needs a name of at most %d characters", parley.MaxTitle).WithField(at + "name")
		case len(f.MediaType) > 200:
			return tooLong(at+"media_type", 200, "bytes")
		}
	}
	switch {
	case c.Token == "":
		return parley.Errorf(parley.CodeInvalid, "the report has no token").WithField("token").WithHint("the token is in the answer to the claim")
	case c.Outcome != "" && c.Outcome != parley.OutcomeOK && c.Outcome != parley.OutcomeError && c.Outcome != parley.OutcomeUnknown:
		return parley.Errorf(parley.CodeInvalid, "outcome is %q", parley.Cut(string(c.Outcome), 40)).WithField("outcome").
			WithHint("use ok, error or unknown; unknown means that you cannot tell whether the call took effect")
	case len(c.Data) > 0 && !json.Valid(c.Data):
		return parley.Errorf(parley.CodeInvalid, "data is not JSON").WithField("data")
	case len(c.Files) > maxReportFiles:
		return tooLong("files", maxReportFiles, "entries")
	case size > maxReport:
		return parley.Errorf(parley.CodeTooLarge, "the report has %d bytes; the limit is %d", size, maxReport).WithHint("report less, for example where the rest can be found")
	}
	return nil
}

// reportOf returns a digest that tells reports apart. It covers the token, so without the token
// it reveals nothing about a report's content.
func reportOf(c parley.ReportCall) parley.Digest { return digestOf(c) }

// Report takes the outcome of a call that the caller has claimed. Repeating the same report
// gets the same answer, even after the turn has ended. A report after the deadline is refused.
// If the call has effects, the late report is kept for the person who is asked about the
// outcome.
func (e *Engine) Report(ctx context.Context, p parley.Principal, id parley.InteractionID, c parley.ReportCall) (parley.ToolResult, error) {
	none := parley.ToolResult{}
	s, row, err := e.offered(ctx, p, id)
	if err != nil {
		return none, err
	}
	if err := checkReport(c); err != nil {
		s.release()
		return none, err
	}
	res, run, err := s.receives(ctx, row, c)
	box := s.box()
	s.release()
	if err != nil || res != nil {
		if res == nil {
			res = &none
		}
		return *res, err
	}
	result := box.Reported(run.Name, run, parley.ToolResult{Outcome: c.Outcome, Output: c.Output, Data: c.Data})
	for _, f := range c.Files {
		keep, why := picture.Shown(ctx, seam.File{Name: f.Name, MediaType: f.MediaType, Body: f.Data})
		result.Files = append(result.Files, keep...)
		if why != "" {
			result.Output += "\n(" + f.Name + ": " + why + ")"
		}
	}
	free, err := e.keep(ctx, p, 0, int64(sizeOfReport(c)))
	if err != nil { // record the outcome anyway: only this client knows it
		result.Artifact, result.Files, result.Data = nil, nil, nil
		result.Output = "The result could not be stored: " + parley.Info(err).Message
		free = func() {}
	}
	defer free()
	files := stow(&result, func(f seam.File) (*parley.ArtifactRef, error) { return e.keepFile(ctx, p, row.Session, f) })

	if s, err = e.acquire(ctx, p, row.Session); err != nil {
		return none, err
	}
	defer s.release()
	again, _, err := s.receives(ctx, row, c)
	switch {
	case err != nil:
		return none, err
	case again != nil:
		return *again, nil
	}
	call := s.view.Turn.Tool(row.Call)
	if err := s.commit(ctx, s.outcome(call, result, files, reportOf(c))...); err != nil {
		return none, err
	}
	taken := resultOf(s.view.Turn.Tool(row.Call)) // before going on, which may end the turn
	s.logged("go on after a report", s.goOn())
	return taken, nil
}

// receives checks whether a report can be accepted now. It returns the earlier result if the
// same report was made before, otherwise the call that it is about.
func (s *session) receives(ctx context.Context, row seam.InteractionRow, c parley.ReportCall) (*parley.ToolResult, seam.Run, error) {
	t := s.view.Turn
	var call *parley.Tool
	if t != nil && t.ID == row.Turn {
		call = t.Tool(row.Call)
	}
	proof := proofOf(c.Token)
	if call != nil && call.Claimed() && proves(call.Claim, row.ID, proof) && s.e.now().Before(call.Deadline) {
		return nil, seam.Run{
			Call: call.Call, Name: call.Name, Effect: call.Effect,
			Redact: func(text string) (string, bool) { return s.e.o.Log.RedactTextOf(s.id, text) },
		}, nil
	}
	past, err := s.claimedThen(ctx, row)
	switch {
	case err != nil:
		return nil, seam.Run{}, err
	case past.started == nil:
		return nil, seam.Run{}, parley.Errorf(parley.CodeConflict, "nobody has claimed the call").WithHint("claim it first")
	case !proves(past.started.Claim, row.ID, proof):
		return nil, seam.Run{}, parley.Errorf(parley.CodeForbidden, "the token is not the one with which the call was claimed").WithField("token").
			WithHint("send the token of the claim; if it is lost, the claim ends at the deadline of the call")
	case past.ended != nil && past.ended.Report == reportOf(c):
		return &past.ended.ToolResult, seam.Run{}, nil
	case past.ended != nil && past.ended.Report != "" && past.last:
		return nil, seam.Run{}, parley.Errorf(parley.CodeConflict, "a different report for this call was already accepted").WithHint("the first report counts")
	case past.over && s.e.now().Before(past.started.Deadline):
		return nil, seam.Run{}, parley.Errorf(parley.CodeConflict, "the turn ended before the report came")
	}
	what := "the report is not accepted any more"
	if open := call != nil && call.Claim != nil && call.Claim.Interaction == row.ID; open && call.Effect != parley.EffectRead {
		if err := s.witness(ctx, call, past, c); err != nil {
			return nil, seam.Run{}, err
		}
		what = "a person is asked whether the call took effect, and your report is kept for them"
	}
	if s.run != nil {
		s.wake() // the waiting turn's clock may be behind
	}
	return nil, seam.Run{}, parley.Errorf(parley.CodeConflict, "the deadline of the call passed at %s", past.started.Deadline.Format(time.RFC3339)).WithHint("%s", what)
}

// past is what the log says about a claim.
type past struct {
	started *parley.ToolStarted // committed by the claim; nil: the call was never claimed
	ended   *parley.ToolEnded
	last    bool // no later claim of the call exists
	over    bool // the turn has ended
	late    bool // a report came after the deadline
}

// claimedThen reads what happened to an offer, starting at the event that closed it.
func (s *session) claimedThen(ctx context.Context, row seam.InteractionRow) (past, error) {
	was := past{last: true}
	if row.Answer == nil || row.Answer.Choice != parley.ChoiceClaimed {
		return was, nil
	}
	for after := row.LastSeq; ; {
		events, err := s.e.o.Store.Read(ctx, s.state.Principal(), s.id, after, 200)
		if err != nil || len(events) == 0 {
			return was, err
		}
		for _, ev := range events {
			after = ev.Seq
			p, err := ev.Payload()
			if isCode(err, parley.CodeCondensed) && ev.Turn == row.Turn {
				return was, parley.Errorf(parley.CodeConflict, "the call was too long ago: its steps are no longer stored")
			}
			switch p := p.(type) {
			case parley.ToolStarted:
				switch {
				case p.Call != row.Call:
				case p.Claim != nil && p.Claim.Interaction == row.ID:
					was.started = &p
				default:
					was.last = false
				}
			case parley.ContextObserved:
				was.late = was.late || p.Source == string(parley.KindClient) && p.Ref == string(row.Call)
			case parley.ToolEnded:
				if p.Call == row.Call {
					was.ended = &p
				}
			}
			if was.over = ev.Turn == row.Turn && p != nil && ends(p); was.over {
				return was, nil
			}
		}
	}
}

// maxWitness limits how much of a late report is kept, in characters.
const maxWitness = 1000

// witness records a report that came too late, once, for the person who decides the outcome of
// the call.
func (s *session) witness(ctx context.Context, call *parley.Tool, was past, c parley.ReportCall) error {
	if was.late || call.Resolution != "" || call.RedoneBy != "" {
		return nil
	}
	outcome := c.Outcome
	if outcome == "" {
		outcome = parley.OutcomeOK
	}
	said, _ := s.e.o.Log.RedactTextOf(s.id, c.Output) // redact before cutting, which could split a secret
	text := fmt.Sprintf("The client that had claimed %s reported after the deadline: %s", call.Name, outcome)
	return s.commit(ctx, parley.NewEvent(s.view.Turn.ID, call.Agent, parley.ContextObserved{
		Source: string(parley.KindClient), Ref: string(call.Call), Text: sentence(text, parley.Cut(said, maxWitness)), At: s.e.now(),
	}))
}
