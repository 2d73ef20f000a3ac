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
	"github.com/parley-server/parley/internal/policy"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// A call of a tool that clients run is not made here. Once it may run, it is offered as an
// interaction, and the turn waits. A client claims it, which commits tool.started with the
// digest of the client's token, and the turn runs again: it waits for the client's report
// until the deadline, in memory, like for any tool. Claim and report are commands, and all
// that they need is in the log, so a claim outlives the server. A call that nobody reported
// in time is offered again if it may be repeated, and is unknown if not.

// maxClaims is how often a call is offered. Clients that claim and never report must not
// fill the log.
const maxClaims = 5

// clientKey is the key of the offer after so many claims.
func clientKey(claims int) string { return fmt.Sprintf("%s#%d", parley.KindClient, claims+1) }

// errClaimed says that a client has the call.
var errClaimed = errors.New("a client runs the call")

// offer lets clients claim a call that may run with the given input, and returns ErrParked
// until one has. A text, for the model, says why the call is not made.
func (h *host) offer(ctx context.Context, s *session, c *parley.Tool, decl parley.ToolDecl, input json.RawMessage) (refusal string, err error) {
	key := clientKey(c.Attempt)
	if a, ok := s.view.Turn.AnswerTo(c.Call, key); ok {
		return sentence("No client made this call", a.Text), nil
	}
	if slices.ContainsFunc(s.view.Interactions, func(in parley.Interaction) bool { return in.Call == c.Call && in.Kind == parley.KindClient }) {
		return "", seam.ErrParked
	}
	if c.Attempt >= maxClaims {
		return fmt.Sprintf("This call was claimed by a client %d times, and none reported in time.", c.Attempt), nil
	}
	in := parley.Interaction{
		Agent: c.Agent, Kind: parley.KindClient, Call: c.Call, Key: key, Tool: c.Name, Input: input,
		Title: "A client is to run " + c.Name, Choices: []string{parley.ChoiceDeny},
	}
	if decl.Subject != "" {
		in.Detail = called(decl, input, nil)
	}
	if c.Attempt > 0 {
		in.Text = "The client that took it did not report in time."
	}
	if decl.ClaimWithin > 0 {
		in.ExpiresAt = s.e.now().Add(time.Duration(decl.ClaimWithin))
	}
	if err := h.commit(ctx, s, s.opening(h.r.app, in)); err != nil {
		return "", err
	}
	return "", seam.ErrParked
}

// reported waits while a client has the call and may still report. It holds no lock. The
// wait for a call with effects is not cut when somebody stops the turn, nor by the turn's
// time budget.
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
				if first { // what is staged is not held back meanwhile
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
			return errShutdown // the claim lives on
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		over.Stop()
	}
}

// unreported ends a call with effects that a client had and did not report in time.
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
			res.Error = &parley.ErrorInfo{Code: parley.CodeTimeout, Message: "the client that took the call did not report in time"}
			return h.commit(ctx, s, s.outcome(c, toolbox.Result{ToolResult: res}, kept{}, "")...)
		})
	})
}

// proofOf is the digest of a claimer's token.
func proofOf(token string) parley.Digest {
	sum := sha256.Sum256([]byte("parley claim " + token))
	return parley.Digest(hex.EncodeToString(sum[:]))
}

func newToken() string { return rand.Text() } // 26 characters, 130 bits

func proves(c *parley.Claim, id parley.InteractionID, proof parley.Digest) bool {
	return c != nil && c.Interaction == id && subtle.ConstantTimeCompare([]byte(c.Proof), []byte(proof)) == 1
}

// offered is a call that was offered to clients, with its session, which is locked.
func (e *Engine) offered(ctx context.Context, p parley.Principal, id parley.InteractionID) (*session, seam.InteractionRow, error) {
	row, err := e.Interaction(ctx, p, id)
	if err != nil {
		return nil, row, err
	}
	if row.Kind != parley.KindClient {
		return nil, row, parley.Errorf(parley.CodeConflict, "interaction %s is a %s, and no call that a client runs", id, row.Kind).WithHint("answer it")
	}
	s, err := e.ready(ctx, p, row.Session)
	if err != nil {
		return nil, row, err
	}
	if row, err = e.Interaction(ctx, p, id); err != nil { // it may have changed before the lock was free
		s.release()
	}
	return s, row, err
}

// Claim takes a call that is offered to clients, for the caller to run. Of several claims
// one wins; the same again, with the same token, gets the same answer. The call is judged
// by today's rules once more: a call that they deny is not given away.
func (e *Engine) Claim(ctx context.Context, p parley.Principal, id parley.InteractionID, c parley.ClaimCall) (parley.Claimed, error) {
	none := parley.Claimed{}
	if n := utf8.RuneCountInString(c.Token); n > parley.MaxToken || n > 0 && n < parley.MinToken {
		return none, parley.Errorf(parley.CodeInvalid, "the token has %d characters", n).WithField("token").
			WithHint("send %d to %d random characters, or none: then the server makes a token", parley.MinToken, parley.MaxToken)
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
		return none, err // the turn could not go on with what the client reports
	}
	in := s.view.Interactions[at]
	if over, err := s.expire(ctx, in); err != nil {
		return none, err
	} else if over {
		return none, parley.Errorf(parley.CodeConflict, "the call was offered until %s", in.ExpiresAt.Format(time.RFC3339)).WithHint("the turn went on without it")
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
		w := wishOf(s.box(), decl, effect, in.Input)
		w.ReadOnly = s.view.ReadOnly
		verdict, why = policy.Judge(app, &s.view, w)
	}
	if verdict == parley.Deny { // the turn goes on, and tells the model
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
	s.logged("go on after a claim", s.goOn())
	return s.claimed(s.view.Turn.Tool(in.Call), c.Token), nil
}

func (s *session) claimed(c *parley.Tool, token string) parley.Claimed {
	return parley.Claimed{
		Interaction: c.Claim.Interaction, Session: s.id, Turn: s.view.Turn.ID, Call: c.Call, Tool: c.Name, Input: c.Input, Effect: c.Effect,
		Attempt: c.Attempt, Deadline: c.Deadline, LeftMS: c.Deadline.Sub(s.e.now()).Milliseconds(), Token: token,
	}
}

// notOffered says why a call cannot be claimed.
func notOffered(row seam.InteractionRow) error {
	switch {
	case row.Answer == nil:
		return parley.Errorf(parley.CodeConflict, "the call is not offered any more").WithHint("nobody claimed it in time, or its turn has ended")
	case row.Answer.Choice == parley.ChoiceClaimed:
		return parley.Errorf(parley.CodeConflict, "another client of %s has claimed the call", row.AnsweredBy).
			WithHint("if that does not report in time and the call may be repeated, it is offered again")
	}
	return parley.Errorf(parley.CodeConflict, "%s has declined the call", row.AnsweredBy)
}

const (
	// maxReport limits a report in bytes, with its files. It is what an upload of a few
	// pictures has; more belongs into a store of the client's own.
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
		return parley.Errorf(parley.CodeInvalid, "the report has no token").WithField("token").WithHint("the answer to the claim has it")
	case c.Outcome != "" && c.Outcome != parley.OutcomeOK && c.Outcome != parley.OutcomeError && c.Outcome != parley.OutcomeUnknown:
		return parley.Errorf(parley.CodeInvalid, "outcome is %q", parley.Cut(string(c.Outcome), 40)).WithField("outcome").
			WithHint("one of ok, error, unknown; unknown says that you cannot tell whether the call took effect")
	case len(c.Data) > 0 && !json.Valid(c.Data):
		return parley.Errorf(parley.CodeInvalid, "data is not JSON").WithField("data")
	case len(c.Files) > maxReportFiles:
		return tooLong("files", maxReportFiles, "entries")
	case size > maxReport:
		return parley.Errorf(parley.CodeTooLarge, "the report has %d bytes, and %d are taken", size, maxReport).WithHint("report less, such as where the rest is")
	}
	return nil
}

// reportOf tells reports apart. Without the token nothing can be learned from it of what a
// report says.
func reportOf(c parley.ReportCall) parley.Digest { return digestOf(c) }

// Report says what came of a call that the caller has claimed. The same report again gets
// the same answer, also when the turn has ended. A report after the deadline is refused.
// Of a call with effects it is kept for the person who is asked what became of it.
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
		result.Files = append(result.Files, seam.File{Name: f.Name, MediaType: f.MediaType, Body: f.Data})
	}
	free, err := e.keep(ctx, p, 0, int64(sizeOfReport(c)))
	if err != nil { // what happened is taken in all the same: nobody else knows it
		result.Artifact, result.Files, result.Data = nil, nil, nil
		result.Output = "The result could not be kept: " + parley.Info(err).Message
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
	s.logged("go on after a report", s.goOn())
	return resultOf(s.view.Turn.Tool(row.Call)), nil
}

// receives checks whether a report may be taken in now. It returns the result that the same
// report made before, or the call that it is about.
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
		return nil, seam.Run{}, parley.Errorf(parley.CodeForbidden, "the token is not that of the client that claimed the call").WithField("token")
	case past.ended != nil && past.ended.Report == reportOf(c):
		return &past.ended.ToolResult, seam.Run{}, nil
	case past.ended != nil && past.ended.Report != "" && past.last:
		return nil, seam.Run{}, parley.Errorf(parley.CodeConflict, "the call was reported before, with something else").WithHint("the first report counts")
	case past.over && s.e.now().Before(past.started.Deadline):
		return nil, seam.Run{}, parley.Errorf(parley.CodeConflict, "the turn was ended before the report came")
	}
	what := "the report is not taken in any more"
	if open := call != nil && call.Claim != nil && call.Claim.Interaction == row.ID; open && call.Effect != parley.EffectRead {
		if err := s.witness(ctx, call, past, c); err != nil {
			return nil, seam.Run{}, err
		}
		what = "whether the call took effect is asked, and your report is kept for who answers that"
	}
	if s.run != nil {
		s.wake() // its clock may be behind
	}
	return nil, seam.Run{}, parley.Errorf(parley.CodeConflict, "the deadline of the call passed at %s", past.started.Deadline.Format(time.RFC3339)).WithHint("%s", what)
}

// past is what the log says of a claim.
type past struct {
	started *parley.ToolStarted // by the claim; nil: it was never claimed
	ended   *parley.ToolEnded
	last    bool // no other claim of the call came after
	over    bool // the turn has ended
	late    bool // a report came after the deadline
}

// claimedThen reads what became of an offer, from the event that closed it on.
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
				return was, parley.Errorf(parley.CodeConflict, "the call was too long ago: its steps are not kept any more")
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

// maxWitness is how much of a late report is kept, in characters.
const maxWitness = 1000

// witness keeps a report that came too late, once, for the person who decides what became
// of the call.
func (s *session) witness(ctx context.Context, call *parley.Tool, was past, c parley.ReportCall) error {
	if was.late || call.Resolution != "" || call.RedoneBy != "" {
		return nil
	}
	outcome := c.Outcome
	if outcome == "" {
		outcome = parley.OutcomeOK
	}
	said, _ := s.e.o.Log.RedactTextOf(s.id, c.Output) // before it is cut
	text := fmt.Sprintf("The client that had taken %s reported after the deadline: %s", call.Name, outcome)
	return s.commit(ctx, parley.NewEvent(s.view.Turn.ID, call.Agent, parley.ContextObserved{
		Source: string(parley.KindClient), Ref: string(call.Call), Text: sentence(text, parley.Cut(said, maxWitness)), At: s.e.now(),
	}))
}
