package parley

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// InteractionKind is what is asked of a human.
type InteractionKind string

const (
	KindQuestion     InteractionKind = "question"     // Questions
	KindPermission   InteractionKind = "permission"   // may this call run?
	KindConfirmation InteractionKind = "confirmation" // may exactly this call run? No rule, mode or earlier yes answers it
	KindCredential   InteractionKind = "credential"   // Credentials: secrets that only a client has
	KindUnknown      InteractionKind = "unknown"      // what became of a write?
	// KindClient offers a call of a tool that clients run. A client claims it with a
	// [ClaimCall] and reports the outcome with a [ReportCall]. A human can only decline it.
	KindClient InteractionKind = "client"
)

// Choices of an Answer.
const (
	ChoiceAllow        = "allow"         // permission, confirmation: this call, once
	ChoiceAllowSession = "allow_session" // permission: this call, and similar ones in this session
	ChoiceDeny         = "deny"
	ChoiceHappened     = "happened" // unknown: it did happen
	ChoiceDidNot       = "did_not"  // unknown: it did not
	ChoiceAgain        = "again"    // unknown: do it again
	ChoiceLeave        = "leave"    // unknown: leave it
	ChoiceClaimed      = "claimed"  // client: a client has claimed the call; a human cannot choose this
	ChoiceAnswered     = "answered" // question: Answers holds the chosen labels; credential: the values came with the answer
)

// Interaction is a request to a human, or the offer of a call to clients. The turn waits until
// it is answered, declined or expired. While it waits, the turn needs nothing in memory.
type Interaction struct {
	ID        InteractionID   `json:"id"`
	Session   SessionID       `json:"session"`
	Turn      TurnID          `json:"turn"`
	Agent     AgentPath       `json:"agent,omitempty"`
	Kind      InteractionKind `json:"kind"`
	Call      CallID          `json:"call,omitempty"` // the tool call it is about
	Key       string          `json:"key,omitempty"`  // tells the call's own questions apart; empty for what others ask about the call
	Tool      string          `json:"tool,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Title     string          `json:"title"`
	Detail    string          `json:"detail,omitempty"` // of a call: what the title says, in the ids of its tool; shown small beside it
	Text      string          `json:"text,omitempty"`
	Choices   []string        `json:"choices,omitempty"`
	Questions []Question      `json:"questions,omitempty"`
	URL       string          `json:"url,omitempty"` // for a question: a page that the person is asked to open; the text also contains it
	// Credentials are the names of the credentials asked for. The values are sent with the
	// answer ([AnswerInteraction]) and are not stored here.
	Credentials []string `json:"credentials,omitempty"`
	// Sampling is set for a question in which a server asks for a reply from the model: the
	// server's name. See [Sampling].
	Sampling  string    `json:"sampling,omitempty"`
	Reaches   []string  `json:"reaches,omitempty"` // for a permission: what the call acts on, if its tool can tell
	OpenedAt  time.Time `json:"opened_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// AskedAs is the key that finds the interaction when the call that asked it starts again:
// the key the call gave, or else the kind.
func (i Interaction) AskedAs() string {
	if i.Key == "" {
		return string(i.Kind)
	}
	return i.Key
}

// Same reports whether o is what the same call asks under the same key.
func (i Interaction) Same(o Interaction) bool { return o.Call == i.Call && o.AskedAs() == i.AskedAs() }

// Hears reports whether p belongs to i: i asks about the unknown outcome of a write, and p is a
// client's late report about that write.
func (i Interaction) Hears(p ContextObserved) bool {
	return p.Source == string(KindClient) && i.Kind == KindUnknown && i.Call == CallID(p.Ref)
}

// hearing returns list with the observation added to the text of each interaction that it belongs to.
func hearing(list []Interaction, p ContextObserved) []Interaction {
	if !slices.ContainsFunc(list, func(i Interaction) bool { return i.Hears(p) }) {
		return list
	}
	list = slices.Clone(list)
	for n := range list {
		if list[n].Hears(p) {
			list[n].Text = strings.TrimPrefix(list[n].Text+"\n"+p.Text, "\n")
		}
	}
	return list
}

// Question is one structured question.
type Question struct {
	Question    string   `json:"question"`
	Header      string   `json:"header"`
	Options     []Option `json:"options"`
	MultiSelect bool     `json:"multi_select,omitempty"`
}

// Option is one of the offered answers.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// Answer is what a human said.
type Answer struct {
	Choice  string            `json:"choice"`
	Text    string            `json:"text,omitempty"`    // a message that comes with a denial
	Input   json.RawMessage   `json:"input,omitempty"`   // the edited input of an allowed call
	Answers map[string]string `json:"answers,omitempty"` // question text → the chosen label, or free text

	// Secrets are the values of the credentials that a call asked for. They are held in memory
	// only, and never logged.
	Secrets Credentials `json:"-"`
}

// PermissionMode is how much a session asks before it acts. No mode allows what a rule
// denies.
type PermissionMode string

const (
	ModeDefault           PermissionMode = "default"           // follow the rules
	ModeAcceptEdits       PermissionMode = "acceptEdits"       // do not ask before calls that only edit files
	ModePlan              PermissionMode = "plan"              // deny everything except reads
	ModeBypassPermissions PermissionMode = "bypassPermissions" // never ask
)

// Tools with which an agent goes into plan mode and out of it, if the app's file lists them.
const (
	ToolEnterPlan = "EnterPlanMode"
	ToolExitPlan  = "ExitPlanMode" // once the user has approved its plan
)

// Verdict is a policy's decision about a call.
type Verdict string

const (
	Allow   Verdict = "allow"
	Ask     Verdict = "ask"
	Confirm Verdict = "confirm" // ask about each call, whatever the session's mode and rules allow
	Deny    Verdict = "deny"
)

// Rule answers yes, no or ask for a pattern of calls. Tool is a tool's name or a prefix
// followed by "*". Either may be followed by a pattern of the call's subject in
// parentheses, such as "ha_call_service(light.*)"; there "*" stands for any characters.
// An empty Tool matches every tool. Effect, when set, restricts the rule to tools of that
// effect.
type Rule struct {
	Verdict Verdict `json:"verdict"`
	Tool    string  `json:"tool,omitempty"`
	Effect  Effect  `json:"effect,omitempty"`
	Reason  string  `json:"reason,omitempty"` // shown to the model and to people
	// Reaches restricts a rule granted for a session to calls that act on nothing else.
	Reaches []string `json:"reaches,omitempty"`
	// Run and Safety restrict a rule granted for a session to the tool that the person was asked about: another
	// runtime may have another one of that name, with more rights, and so may the same app with other settings.
	Run    RunBy  `json:"run,omitempty"`
	Safety string `json:"safety,omitempty"`
}

// Same reports whether both rules say the same about the same calls.
func (r Rule) Same(o Rule) bool {
	return r.Verdict == o.Verdict && r.Tool == o.Tool && r.Effect == o.Effect && slices.Equal(r.Reaches, o.Reaches) && r.Run == o.Run && r.Safety == o.Safety
}

// GrantedFor reports whether a rule granted for a session is about a tool as it is now. The name is not
// compared.
func (r Rule) GrantedFor(d ToolDecl) bool { return r.Run == d.Run && r.Safety == d.Safety }

// Offers reports whether a caller may choose mode m.
func (p Policy) Offers(m PermissionMode) bool {
	switch {
	case m == "" || m == ModeDefault:
		return true
	case p.Modes == nil:
		return m != ModeBypassPermissions
	}
	return slices.Contains(p.Modes, m)
}

// Policy is what an app lets its agents do. If several rules match a call, the strictest
// wins: deny, then confirm, then ask, then allow. If none matches, reads are allowed and everything
// else is asked for.
type Policy struct {
	Rules []Rule `json:"rules,omitempty"`
	// Unattended turns have no human to ask: calls that would be asked for are denied,
	// and the model is told about unknown outcomes instead.
	Unattended bool `json:"unattended,omitempty"`
	// AllowActuation lets tools act that declare Actuation; it is off unless an app turns
	// it on. AllowlistedServices are the subjects that may then be acted on, such as
	// "switch.turn_off"; "*" stands for any characters. A caller's policy may only
	// restrict both further.
	AllowActuation      *bool    `json:"allow_actuation,omitempty"`
	AllowlistedServices []string `json:"allowlisted_services,omitzero"`
	// Modes are the permission modes that callers may choose. ModeDefault may always be
	// chosen; nil means every mode except bypassPermissions. A caller's policy may only
	// restrict it further.
	Modes []PermissionMode `json:"modes,omitzero"`
	// FixedModel means that callers may not choose a model.
	FixedModel bool `json:"fixed_model,omitempty"`
	// OutwardAfterWeb is the verdict on calls of tools that tell somebody outside something,
	// once the turn has content of the web, which may have asked for them: Ask, Deny, or Allow
	// if it makes no difference. Empty means Ask. Neither rules nor modes allow what is asked
	// for so. A caller's policy may only restrict it further.
	OutwardAfterWeb Verdict `json:"outward_after_web,omitempty"`
	// AnswerWithin is how long an interaction stays open; 0 means 24 h.
	AnswerWithin Duration `json:"answer_within,omitempty"`
}

// Narrowed returns the policy in force for a session: p restricted further by own. It
// leaves out the rules, since those of both apply side by side.
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
	if own.OutwardAfterWeb == Deny || own.OutwardAfterWeb == Ask && p.OutwardAfterWeb == Allow {
		p.OutwardAfterWeb = own.OutwardAfterWeb
	}
	return p
}

// InForce holds an app's settings that apply to a session which does not set its own: the
// app's policy, and the model of its first agent.
type InForce struct {
	Model  string `json:"model,omitempty"`
	Policy Policy `json:"policy"` // without rules
}

// InForce returns the settings of a for its sessions.
func (a App) InForce() InForce {
	model := a.Agents[a.Entry].Model
	if model == "" {
		model = a.Model
	}
	p := a.Policy.Narrowed(nil)
	on := p.AllowActuation != nil && *p.AllowActuation
	p.AllowActuation, p.AllowlistedServices = &on, append([]string{}, p.AllowlistedServices...) // present even when off
	return InForce{Model: model, Policy: p}
}

// Of returns the settings in force for s.
func (f InForce) Of(s Session) InForce {
	f.Policy = f.Policy.Narrowed(s.Policy)
	if s.Model != "" {
		f.Model = s.Model
	}
	return f
}
