// Package tidy is the toolset of Tachikoma, the agent that tidies a lake up: one tool looks, the
// other proposes. Package internal/tidy does the work. Both leave the lake as it is; only people
// apply a proposal.
//
// A proposal has the id of the call that made it, so a call that is made again makes it once.
package tidy

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/claim"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tidy"
)

// Options are a toolset's.
type Options struct {
	App   string
	Lakes func() *lake.Lakes // asked for each call
	Now   func() time.Time   // nil: time.Now
}

// Toolset is the tools. It is safe for concurrent use.
type Toolset struct {
	o Options
	seam.Running
}

var (
	_ seam.Reconciler = (*Toolset)(nil)
	_ seam.Local      = (*Toolset)(nil)
	_ seam.Choosy     = (*Toolset)(nil)
)

// New makes a toolset.
func New(o Options) *Toolset {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Toolset{o: o}
}

//go:embed descriptions/*.md
var texts embed.FS

// Names of the tools.
const (
	NameScan    = "tidy_scan"
	NamePropose = "tidy_propose"
)

const proposeSchema = `{
 "type": "object",
 "properties": {
  "contradictions": {
   "type": "array", "maxItems": 100, "description": "Your judgement of the pairs of statements.",
   "items": {
    "type": "object", "required": ["id", "contradicts"], "additionalProperties": false,
    "properties": {
     "id": {"type": "string", "description": "The id of the pair."},
     "contradicts": {"type": "boolean", "description": "Both cannot be true at the same time."},
     "here": {"type": "string", "maxLength": 400, "description": "If they contradict each other: the words of the first statement that the second one denies, copied exactly."},
     "there": {"type": "string", "maxLength": 400, "description": "And the words of the second statement, copied exactly."},
     "why": {"type": "string", "maxLength": 500, "description": "In a sentence, for people. Quote and name nothing that the two statements do not have."}
    }
   }
  },
  "leave": {"type": "array", "maxItems": 200, "items": {"type": "string"}, "description": "Ids of findings that are wrong, and are not proposed."}
 },
 "additionalProperties": false
}`

// Tools implements seam.Toolset.
func (*Toolset) Tools(context.Context) (list []parley.ToolDecl, err error) {
	for _, name := range []string{NameScan, NamePropose} {
		about, err := texts.ReadFile("descriptions/" + name + ".md")
		if err != nil {
			return nil, err
		}
		d := parley.ToolDecl{
			Name: name, Description: strings.TrimSpace(string(about)), InputSchema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
			Effect: parley.EffectRead, Timeout: parley.Duration(5 * time.Minute), Cost: "free", OutputLimit: 64 << 10, Subject: "the lake",
		}
		if name == NamePropose {
			d.InputSchema, d.Effect, d.KeyTTL = json.RawMessage(proposeSchema), parley.EffectIdempotent, parley.Duration(100*365*24*time.Hour)
		}
		list = append(list, d)
	}
	return list, nil
}

// Run implements seam.Toolset.
func (t *Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	l, err := t.lake(ctx, r)
	if err != nil {
		return failed(err)
	}
	switch r.Name {
	case NameScan:
		s, err := tidy.Scan(ctx, l, t.o.Now())
		if err != nil {
			return failed(err)
		}
		return scanned(s, t.o.Now())
	case NamePropose:
		defer t.Begin(r.Call)()
		var in struct {
			Contradictions []tidy.Judged `json:"contradictions"`
			Leave          []string      `json:"leave"`
		}
		d := json.NewDecoder(bytes.NewReader(r.Input))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil || d.More() {
			return failed(parley.Errorf(parley.CodeInvalid, "the input cannot be read: %w", cmp.Or(err, errors.New("it is more than one object"))))
		}
		p, err := tidy.Propose(ctx, l, tidy.Asked{
			ID: idOf(r.Call), At: t.o.Now(), By: r.Principal.User, App: t.o.App, Session: r.Session, Turn: r.Turn, Judged: in.Contradictions, Leave: in.Leave,
		})
		if err != nil {
			return failed(err)
		}
		return proposed(p)
	}
	return parley.ToolResult{}, seam.NotSent(fmt.Errorf("no tool %q", r.Name))
}

// idOf is the id of the proposal that a call makes.
func idOf(c parley.CallID) parley.ProposalID {
	return parley.ProposalID(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		}
		return '-'
	}, strings.ToLower(string(c))))
}

// Reconcile implements seam.Reconciler: a proposal is there, whole, or it is not.
func (t *Toolset) Reconcile(ctx context.Context, r seam.Run) (parley.ToolResult, bool, error) {
	if !t.Over(r.Name, r.Call) {
		return parley.ToolResult{}, false, nil
	}
	l, err := t.lake(ctx, r)
	if err != nil {
		return parley.ToolResult{}, false, err
	}
	p, err := tidy.Read(ctx, l, idOf(r.Call), "")
	if errors.Is(err, parley.ErrNotFound) {
		const none = "The server stopped before the proposal was made. Nothing was done; make the call again."
		return parley.ToolResult{Outcome: parley.OutcomeError, Output: none, Error: &parley.ErrorInfo{Code: parley.CodeUnavailable, Message: none}}, true, nil
	}
	if err != nil {
		return parley.ToolResult{}, false, err
	}
	res, err := proposed(tidy.Proposed{ID: p.ID, Findings: len(p.Findings), Repeated: true})
	return res, true, err
}

// Reconciles implements seam.Choosy.
func (*Toolset) Reconciles(tool string) bool { return tool == NamePropose }

func scanned(s tidy.Scanned, day time.Time) (parley.ToolResult, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pages of %q were looked at on %s; %d findings, and %d pairs of statements to judge.\n", s.Pages, s.Name, day.Format(time.DateOnly), len(s.Findings), len(s.Candidates))
	if len(s.Editing) > 0 {
		fmt.Fprintf(&b, "%d pages have changes that are not committed, and are left alone.\n", len(s.Editing))
	}
	if s.Cut {
		b.WriteString("There is more than is listed; the next scan finds it.\n")
	}
	for _, x := range s.Findings {
		fmt.Fprintf(&b, "\n%s %s %s:%d: %s", x.ID, x.Kind, x.Path, max(x.Line, 1), x.Why)
		if x.Mends == "" {
			b.WriteString(" (a person has to decide)")
		}
	}
	if len(s.Candidates) > 0 {
		b.WriteString("\n\nPairs to judge:\n")
	}
	for _, x := range s.Candidates {
		says, other := x.Under()
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n", x.ID, stated(says), stated(other))
	}
	data, err := json.Marshal(struct {
		Findings   int `json:"findings"`
		Candidates int `json:"candidates"`
	}{len(s.Findings), len(s.Candidates)})
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: whole(b.String()), Data: data}, err
}

// stated is a statement with what it stands under: PATH:LINE (KIND, STATUS; TITLE › HEADING): TEXT.
func stated(s claim.Statement) string {
	of := s.Kind
	if s.Status != "" {
		of += ", " + s.Status
	}
	return fmt.Sprintf("  %s:%d (%s; %s): %s", s.Path, s.Line, strings.NewReplacer("(", "", ")", "", ";", "", "\n", " ").Replace(of), strings.Join(s.Under, " › "), parley.Cut(s.Text, 300))
}

// whole are the lines of a text that a result has room for.
func whole(text string) string {
	const most = 60 << 10
	if len(text) <= most {
		return text
	}
	return text[:strings.LastIndexByte(text[:most], '\n')+1] + "There is more than is listed; the next scan finds it.\n"
}

func proposed(p tidy.Proposed) (parley.ToolResult, error) {
	text := "There is nothing to propose."
	switch {
	case p.Findings > 0:
		text = fmt.Sprintf("The proposal %s has %d findings. A person decides about each.", p.ID, p.Findings)
	case p.Known > 0:
		text = fmt.Sprintf("There is nothing new to propose: %d findings are in earlier proposals, or were rejected.", p.Known)
	}
	if p.Unreadable > 0 {
		text += fmt.Sprintf(" %d earlier proposals cannot be read, because somebody has changed their branches; what they have may be proposed again.", p.Unreadable)
	}
	if n := len(p.LeftOut); n > 0 {
		text += fmt.Sprintf(" %d judgements do not count: %s.", n, strings.Join(p.LeftOut[:min(n, 10)], "; "))
	}
	data, err := json.Marshal(struct {
		Proposal parley.ProposalID `json:"proposal,omitempty"`
		Findings int               `json:"findings"`
		LeftOut  int               `json:"left_out,omitempty"`
	}{p.ID, p.Findings, len(p.LeftOut)})
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: text, Data: data}, err
}

// lake is that in the call's workspace.
func (t *Toolset) lake(ctx context.Context, r seam.Run) (*lake.Lake, error) {
	all := t.o.Lakes()
	if all == nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "the server has no lakes yet")
	}
	root, err := r.Workspace()
	if err != nil {
		return nil, err
	}
	return all.At(ctx, root)
}

// failed is the result of a call that changed nothing.
func failed(err error) (parley.ToolResult, error) {
	if e, ours := errors.AsType[*parley.Error](err); ours && !slices.Contains([]parley.Code{parley.CodeUnavailable, parley.CodeInternal}, e.Code) {
		info := parley.Info(err)
		text := info.Message
		if info.Hint != "" {
			text += "; " + info.Hint
		}
		return parley.ToolResult{Outcome: parley.OutcomeError, Output: text, Error: &info}, nil
	}
	return parley.ToolResult{}, seam.NotSent(err)
}
