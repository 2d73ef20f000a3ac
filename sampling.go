package parley

import "slices"

// SamplingAgent is the agent's name in the requests of model calls that servers get.
const SamplingAgent = "sampling"

// Sampling is the request of a tool's server for a reply of the app's model, in the middle of
// a call. No agent sees the reply: it goes to the server, which makes of it what it likes.
// The events of the model call have a path of [AgentPath.Sampling].
type Sampling struct {
	Call      CallID    `json:"call"` // of the tool
	Key       string    `json:"key"`  // tells the requests of the call apart
	Server    string    `json:"server"`
	System    string    `json:"system,omitempty"`
	Messages  []Message `json:"messages"` // texts
	MaxTokens int64     `json:"max_tokens"`
	Hints     []string  `json:"hints,omitempty"` // parts of names of models that the server would like, best first
}

// Sampled is what a server got, kept while the call of the tool goes on: a call that only
// reads may be made again from its beginning, and asks the same.
type Sampled struct {
	Call       CallID `json:"call"` // of the tool
	Key        string `json:"key"`
	Model      string `json:"model"`
	Text       string `json:"text"`
	StopReason string `json:"stop_reason,omitempty"` // see ModelReplied
}

// The answers to a question that has [Interaction.Sampling]. Any other answer is a no.
const (
	SamplingOnce    = "This once"
	SamplingSession = "In this conversation"
)

// SamplingRule is the Tool of the rule by which a server gets replies of the model in a session
// without asking. No tool has such a name.
func SamplingRule(server string) string { return SamplingAgent + ":" + server }

// MayStillSample reports whether a person has allowed it to a server for the session.
func (s *Session) MayStillSample(server string) bool {
	return slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.Verdict == Allow && r.Tool == SamplingRule(server) })
}

// Note says in words that a server gets a reply.
func (s Sampling) Note(model string) string {
	return "the model " + model + " replies to the server " + s.Server
}

// SampledFor returns what a call of a tool got under a key.
func (t *Turn) SampledFor(call CallID, key string) (Sampled, bool) {
	i := slices.IndexFunc(t.Sampled, func(s Sampled) bool { return s.Call == call && s.Key == key })
	if i < 0 {
		return Sampled{}, false
	}
	return t.Sampled[i], true
}

// applySampling folds the events of a model call that a server gets. It is no step of an
// agent, but costs the same.
func (t *Turn) applySampling(e Event, p Payload) {
	switch p := p.(type) {
	case ModelStarted:
		c := ModelCall{Call: p.Call, Agent: e.Agent, Model: p.Model, Reserved: p.Reserved, At: e.Time}
		if p.For != nil {
			c.For, c.Key = p.For.Call, p.For.Key
		}
		t.Calls = append(t.Calls, c)
	case ModelReplied:
		c := t.sampled(e, p.Call)
		t.Spent.Usage = t.Spent.Usage.Add(p.Usage)
		if of := t.Tool(c.For); of != nil && of.Status == ToolIsStarted {
			t.Sampled = append(t.Sampled, Sampled{Call: c.For, Key: c.Key, Model: p.Model, Text: PartsText(p.Parts), StopReason: p.StopReason})
		}
	case ModelFailed:
		t.sampled(e, p.Call)
		t.Spent.Usage = t.Spent.Usage.Add(p.Usage)
	}
}

// sampled closes a model call. The time of the tool's call stood meanwhile.
func (t *Turn) sampled(e Event, call CallID) (c ModelCall) {
	if i := slices.IndexFunc(t.Calls, func(c ModelCall) bool { return c.Call == call }); i >= 0 {
		c = t.Calls[i]
	}
	t.closeCall(call)
	if of := t.Tool(c.For); of != nil && of.Status == ToolIsStarted && of.Effect != EffectRead {
		t.edit(c.For).Deadline = of.Deadline.Add(max(0, e.Time.Sub(c.At)))
	}
	return c
}

// forget drops what a call that has ended got.
func (t *Turn) forget(call CallID) {
	if slices.ContainsFunc(t.Sampled, func(s Sampled) bool { return s.Call == call }) {
		t.Sampled = slices.DeleteFunc(slices.Clone(t.Sampled), func(s Sampled) bool { return s.Call == call })
	}
}
