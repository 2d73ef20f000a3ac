package parley

import (
	"encoding/json"
	"slices"
	"time"
)

// InteractionKind is what is asked of a human.
type InteractionKind string

const (
	KindQuestion     InteractionKind = "question"     // Questions
	KindPermission   InteractionKind = "permission"   // may this call run
	KindConfirmation InteractionKind = "confirmation" // this exact write, yes or no
	KindCredential   InteractionKind = "credential"   // a secret that only a client has
	KindUnknown      InteractionKind = "unknown"      // what became of a write
)

// Choices of an Answer.
const (
	ChoiceAllow        = "allow"         // permission, confirmation: this call, once
	ChoiceAllowSession = "allow_session" // permission: and calls like it in this session
	ChoiceDeny         = "deny"
	ChoiceHappened     = "happened" // unknown: it did happen
	ChoiceDidNot       = "did_not"  // unknown: it did not
	ChoiceAgain        = "again"    // unknown: do it again
	ChoiceLeave        = "leave"    // unknown: leave it
	ChoiceAnswered     = "answered" // question: Answers holds what was chosen
)

// Interaction is a request to a human that pauses a turn until it is answered,
// declined or expired. It needs nothing in memory.
type Interaction struct {
	ID        InteractionID   `json:"id"`
	Session   SessionID       `json:"session"`
	Turn      TurnID          `json:"turn"`
	Agent     AgentPath       `json:"agent,omitempty"`
	Kind      InteractionKind `json:"kind"`
	Call      CallID          `json:"call,omitempty"` // the tool call it is about
	Key       string          `json:"key,omitempty"`  // which of the call's own questions this is; empty for what others ask about it
	Tool      string          `json:"tool,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Title     string          `json:"title"`
	Text      string          `json:"text,omitempty"`
	Choices   []string        `json:"choices,omitempty"`
	Questions []Question      `json:"questions,omitempty"`
	Reaches   []string        `json:"reaches,omitempty"` // of a permission: what the call acts on, where its tool can tell
	OpenedAt  time.Time       `json:"opened_at"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
}

// AskedAs is the key under which an interaction is found again when the call that
// asked it is begun anew: the one that the call gave, or its kind.
func (i Interaction) AskedAs() string {
	if i.Key == "" {
		return string(i.Kind)
	}
	return i.Key
}

// Question is one structured question.
type Question struct {
	Question    string   `json:"question"`
	Header      string   `json:"header"`
	Options     []Option `json:"options"`
	MultiSelect bool     `json:"multi_select,omitempty"`
}

// Option is one answer offered.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// Answer is what a human said.
type Answer struct {
	Choice  string            `json:"choice"`
	Text    string            `json:"text,omitempty"`    // a message with a denial
	Input   json.RawMessage   `json:"input,omitempty"`   // edited input of a call that is allowed
	Answers map[string]string `json:"answers,omitempty"` // question text → label or own words
}

// PermissionMode is how much a session asks before it acts. None allows what a
// rule denies.
type PermissionMode string

const (
	ModeDefault           PermissionMode = "default"           // as the rules say
	ModeAcceptEdits       PermissionMode = "acceptEdits"       // what only edits files is not asked for
	ModePlan              PermissionMode = "plan"              // what does more than read is denied
	ModeBypassPermissions PermissionMode = "bypassPermissions" // nothing is asked for
)

// Verdict of a policy over a call.
type Verdict string

const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask"
	Deny  Verdict = "deny"
)

// Rule is a yes, no or ask for a pattern of calls. Tool is a tool's name, the
// beginning of one followed by "*", or either of them with a pattern of the
// call's subject in parentheses, such as "ha_call_service(light.*)"; there "*"
// stands for any characters. An empty Tool matches every tool. Effect, when
// set, narrows the rule to tools of that effect.
type Rule struct {
	Verdict Verdict `json:"verdict"`
	Tool    string  `json:"tool,omitempty"`
	Effect  Effect  `json:"effect,omitempty"`
	Reason  string  `json:"reason,omitempty"` // shown to the model and to people
	// Reaches narrows a rule that was granted for a session to calls that act on
	// nothing else.
	Reaches []string `json:"reaches,omitempty"`
}

// Same reports whether both say the same of the same calls.
func (r Rule) Same(o Rule) bool {
	return r.Verdict == o.Verdict && r.Tool == o.Tool && r.Effect == o.Effect && slices.Equal(r.Reaches, o.Reaches)
}

// Offers reports whether a caller may choose the mode m.
func (p Policy) Offers(m PermissionMode) bool {
	switch {
	case m == "" || m == ModeDefault:
		return true
	case p.Modes == nil:
		return m != ModeBypassPermissions
	}
	return slices.Contains(p.Modes, m)
}

// Policy is what an app lets its agents do. Of the rules that match a call the
// strictest holds: deny, then ask, then allow. When none matches, reads are
// allowed and everything else is asked for.
type Policy struct {
	Rules []Rule `json:"rules,omitempty"`
	// Unattended turns have no human to ask: what would be asked is denied, and
	// the model is told of unknown outcomes instead.
	Unattended bool `json:"unattended,omitempty"`
	// AllowActuation lets tools that declare Actuation act at all; off unless an
	// app turns it on. AllowlistedServices are the subjects that may then be acted
	// on, such as "switch.turn_off"; "*" stands for any characters. Both are a
	// ceiling: a caller's policy may only take away from it.
	AllowActuation      *bool    `json:"allow_actuation,omitempty"`
	AllowlistedServices []string `json:"allowlisted_services,omitzero"`
	// Modes are the permission modes that callers may choose. Default may always be
	// chosen; nil is every mode but bypassPermissions. A caller's policy may only
	// take away from it.
	Modes []PermissionMode `json:"modes,omitzero"`
	// FixedModel refuses a model chosen by a caller.
	FixedModel bool `json:"fixed_model,omitempty"`
	// AnswerWithin is how long an interaction stays open; 0 means 24 h.
	AnswerWithin Duration `json:"answer_within,omitempty"`
}

// Narrowed is what holds in a session whose own policy is own: p is the ceiling.
// Rules are not part of it, as those of both hold side by side.
func (p Policy) Narrowed(own *Policy) Policy {
	p.Rules = nil
	if own == nil {
		return p
	}
	if own.AllowActuation != nil && !*own.AllowActuation {
		p.AllowActuation = own.AllowActuation
	}
	if own.AllowlistedServices != nil {
		p.AllowlistedServices = own.AllowlistedServices
	}
	if own.Modes != nil {
		p.Modes = own.Modes
	}
	p.FixedModel = p.FixedModel || own.FixedModel
	return p
}

// InForce is what an app settles for a session where it has no wish of its own: the
// ceiling of its policy, and the model of its first agent.
type InForce struct {
	Model  string `json:"model,omitempty"`
	Policy Policy `json:"policy"` // without rules
}

// InForce is what a settles for its sessions.
func (a App) InForce() InForce {
	model := a.Agents[a.Entry].Model
	if model == "" {
		model = a.Model
	}
	p := a.Policy.Narrowed(nil)
	on := p.AllowActuation != nil && *p.AllowActuation
	p.AllowActuation, p.AllowlistedServices = &on, append([]string{}, p.AllowlistedServices...) // said, also when off
	return InForce{Model: model, Policy: p}
}

// Of is what holds in s.
func (f InForce) Of(s Session) InForce {
	f.Policy = f.Policy.Narrowed(s.Policy)
	if s.Model != "" {
		f.Model = s.Model
	}
	return f
}
