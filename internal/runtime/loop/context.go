package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/prompt"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// defaultOutput is the output cap of an agent that names none. Long answers
	// stay well below it; a larger one would only lock up the turn's budget.
	defaultOutput = 8192
	// leastOutput is the room below which calling a model is pointless: the reply
	// would be cut off.
	leastOutput = 256
	// defaultContext is taken for a model that does not say how much it takes.
	defaultContext = 32_000
)

// callModel makes the request of the agent's next step, or says why there is none: a
// budget is reached, or the prompt does not fit. Old exchanges may have to leave the
// session's memory first.
//
// The order of a prompt is stable from call to call, so that a provider's cache hits:
// system and tools, history, question, notes on this turn, then what only grows.
func (g given) callModel(s *parley.Session, a *parley.Agent, def parley.AgentDef) []action {
	t := s.Turn
	if b := reachedSteps(t); b != nil {
		return overBudget(t, b)
	}
	name, fallback := g.modelNames(s, a, def)
	m, err := g.model(name)
	if err != nil {
		return failed(t, asError(err))
	}
	if moved, ok := transferred(s, a, name); ok {
		return []action{transfer{Agent: a.Path, ContextTransferred: moved}}
	}
	req := seam.Request{
		Model: name, Agent: a.Name, Session: s.ID, System: g.system(s, a, def), Tools: g.offered(s, a, def, m), Handoffs: g.handoffs(t, a, def),
		Temperature: def.Temperature, Effort: def.Effort, ServerTools: g.serverTools(s, m, def),
	}
	if s.Temperature != nil {
		req.Temperature = s.Temperature
	}
	var own thread
	g.branch(&own, s, a, def)
	sent := len(t.Agents) == 1 && len(a.GivenUp) == 0 // to this model: what it does not take is an error
	window, output := limits(m, def)
	if s.MaxOutput > 0 {
		output = min(output, s.MaxOutput)
	}
	least := min(output, leastOutput)
	per := ratioOf(m)
	head := per.of(tokens(len(req.System)) + declTokens(&req))
	if s.HasRestored() {
		head += per.of(tokens(len(parley.RestoredNote)))
	}
	branch := per.of(shownTokens(own, m, sent))

	// An eighth is left for the question, so that the history does not have to be
	// shortened for it in every turn.
	history, made := g.history(s, a, def, m, per.room((window-output-head)*7/8))
	if made != nil {
		return []action{*made}
	}
	// What remains for history in this call alone: the branch grows within a turn
	// and the budgets bind this turn, so neither takes anything away for good.
	room := window - output - head - branch
	if b := t.Request.Budgets; b.MaxTokensPerTurn > 0 {
		room = min(room, b.MaxTokensPerTurn-head-branch)
	}
	if b := t.Request.Budgets; b.MaxTotalTokens > 0 {
		room = min(room, b.MaxTotalTokens-t.Spent.Usage.Tokens()-t.Reserved().Tokens()-head-branch-least)
	}
	history, used := newest(history, per.room(room))
	input := head + branch + per.of(used)

	if input+least > window {
		return failed(t, parley.Errorf(parley.CodeTooLarge, "the question and what the turn has gathered do not fit %s: about %d of %d tokens", name, input, window).
			WithHint("%s", roomier(m)))
	}
	output = min(output, window-input)
	wanted := output
	output, bound, over := fit(t, m, input, output, least)
	if bound != nil && output < wanted && len(t.Calls) > 0 {
		return nil // what other agents have reserved comes back when their calls end
	}
	if over {
		return overBudget(t, bound)
	}
	var th thread
	for _, x := range history {
		x.User = seen(x.User, m)
		th.exchange(x)
	}
	for _, msg := range own {
		th.add(msg.Role, msg.Parts...)
	}
	req.Messages, req.MaxTokens, req.State = shown(th, m, sent), output, providerState(s, a, m, name, len(history) > 0)
	reserved := parley.Usage{InputTokens: input, OutputTokens: output}
	reserved.USD = atMost(m, reserved)
	return []action{callModel{
		Agent: a.Path, Request: req, Reserved: reserved, Heard: heard(a) + len(t.Pending(a)), Bound: bound, Fallback: fallback,
	}}
}

// roomier says what to do when something does not fit a model.
func roomier(m seam.ModelInfo) string {
	hint := "ask for less at once, or choose a model with a larger context"
	if m.ContextHint != "" {
		hint += "; " + m.ContextHint
	}
	return hint
}

// seen is an earlier message as the model can take it: a picture or document that
// another model could look at is named to one that cannot.
func seen(msg parley.Message, m seam.ModelInfo) parley.Message {
	out := parley.Message{Role: msg.Role}
	for _, p := range msg.Parts {
		if p.Type == parley.PartImage && !m.Images || p.Type == parley.PartFile && !m.Files {
			p = parley.Part{Type: parley.PartText, Text: "[attached: " + p.Name + ", which you cannot see]"}
		}
		out.Parts = append(out.Parts, p)
	}
	return out
}

// modelNames returns the model that the agent calls now, and its fallback, "" if there is
// none. It skips models that it has given up and models that are not configured.
func (g given) modelNames(s *parley.Session, a *parley.Agent, def parley.AgentDef) (name, fallback string) {
	first := g.app.Model
	for _, wish := range []string{s.Turn.Request.Model, s.Model, def.Model} { // the nearest wish first; policy decides who may ask

		if wish != "" {
			first = wish
			break
		}
	}
	more := g.app.Fallbacks
	if len(def.Fallbacks) > 0 {
		more = def.Fallbacks
	}
	var able []string
	for _, n := range append([]string{first}, more...) {
		if slices.Contains(a.GivenUp, n) || slices.Contains(able, n) {
			continue
		}
		if _, err := g.model(n); err == nil {
			able = append(able, n)
		}
	}
	switch len(able) {
	case 0:
		return first, "" // whoever looks it up learns what is wrong
	case 1:
		return able[0], ""
	}
	return able[0], able[1]
}

// serverTools are the tools of its provider that the agent may use: those that it lists, and
// those that take the place of its own.
func (g given) serverTools(s *parley.Session, m seam.ModelInfo, def parley.AgentDef) []string {
	if s.Turn.Request.NoTools {
		return nil
	}
	list := slices.Clip(def.ServerTools)
	for _, d := range g.decls(s.Turn, def) {
		if g.replaced(s, d, m) {
			list = append(list, d.Instead)
		}
	}
	var names []string
	for _, n := range list {
		if slices.Contains(m.ServerTools, n) && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// maxTransfer bounds what a prompt says about a change of models.
const maxTransfer = 2000

// transferred says what the agent's new model has to know when another one
// answered in this session so far: the history that it reads as its own is that
// one's, and what was done stands.
func transferred(s *parley.Session, a *parley.Agent, to string) (parley.ContextTransferred, bool) {
	from := s.Answered[a.Name]
	if from == "" || from == to || len(a.Items) > 0 || a.Parent != "" || len(s.History) == 0 || a.Transfer != nil {
		return parley.ContextTransferred{}, false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The answers in this session so far were given by the model %s; you go on from here. Stand by what was said, and do nothing again that was done.\n", from)
	for i := len(s.History) - 1; i >= 0 && b.Len() < maxTransfer; i-- {
		x := s.History[i]
		line := "- asked: " + parley.Cut(x.User.Text(), 120) + "; answered: " + parley.Cut(orNone(x.Reply), 160)
		if e := prompt.Effects(x); e != "" {
			line += " " + e
		} else if n := len(x.Effects); n > 0 {
			line += fmt.Sprintf(" [calls with effects: %d]", n)
		}
		b.WriteString(line + "\n")
	}
	return parley.ContextTransferred{From: from, To: to, Text: strings.TrimSuffix(b.String(), "\n")}, true
}

// limits returns how many tokens the model takes in all, and how many of them
// the agent's reply may have.
func limits(m seam.ModelInfo, def parley.AgentDef) (window, output int64) {
	window = windowOf(m)
	if output = def.MaxOutput; output <= 0 {
		output = defaultOutput
	}
	if m.MaxOutputTokens > 0 {
		output = min(output, m.MaxOutputTokens)
	}
	return window, min(output, window/2)
}

// windowOf is how many tokens the model takes in all.
func windowOf(m seam.ModelInfo) int64 {
	if m.ContextTokens <= 0 {
		return defaultContext
	}
	return m.ContextTokens
}

func (g given) decls(t *parley.Turn, def parley.AgentDef) []parley.ToolDecl {
	if t.Request.NoTools {
		return nil
	}
	var ds []parley.ToolDecl
	for _, name := range def.Tools {
		for _, d := range g.app.Tools {
			if d.Name == name {
				ds = append(ds, d)
			}
		}
	}
	return ds
}

func (g given) handoffs(t *parley.Turn, a *parley.Agent, def parley.AgentDef) []seam.Handoff {
	if reachedDepth(t) != nil || a.Parent != "" {
		return nil
	}
	var hs []seam.Handoff
	for _, name := range def.Handoffs {
		if to, ok := g.app.Agents[name]; ok {
			hs = append(hs, seam.Handoff{Agent: name, Description: to.Description})
		}
	}
	return hs
}

// history is what the agent may see of earlier turns. If that permanently exceeds what
// fits, it returns the compaction that has to come first: down to three quarters, so that
// not every turn compacts again and spoils the cache.
func (g given) history(s *parley.Session, a *parley.Agent, def parley.AgentDef, m seam.ModelInfo, fits int64) ([]parley.Exchange, *compact) {
	if def.History == parley.HistoryNone || a.Parent != "" {
		return nil, nil
	}
	xs := s.History
	if k := s.Memory.LastK; k > 0 && s.Memory.SummaryTokens == 0 {
		window := windowOf(m)
		few, many := lastK(k, window)
		xs = xs[max(0, len(xs)-many):]
		if more := xs[:max(0, len(xs)-few)]; len(more) > 0 {
			// What is more than LastK is there while it is cheap.
			kept, _ := newest(xs, share(s, m, window))
			xs = xs[min(len(more), len(xs)-len(kept)):]
		}
	}
	if h := s.Memory.HistoryTokens; h > 0 {
		fits = min(fits, h)
	}
	before := historyTokens(xs)
	if before <= fits || len(xs) == 0 {
		return xs, nil
	}
	kept, after := newest(xs, fits*3/4)
	// The count is of the session's exchanges, some of which LastK hides.
	gone := len(s.History) - len(kept)
	return nil, &compact{Agent: a.Path, ContextCompacted: parley.ContextCompacted{
		Through: s.History[gone-1].Seq, Dropped: gone, TokensBefore: before, TokensAfter: after,
	}}
}

// newest returns the newest exchanges that fit, and their size.
func newest(xs []parley.Exchange, fits int64) ([]parley.Exchange, int64) {
	var sum int64
	for i := len(xs) - 1; i >= 0; i-- {
		n := exchangeTokens(xs[i])
		if sum+n > fits {
			return xs[i+1:], sum
		}
		sum += n
	}
	return xs, sum
}

// providerState is what the provider gave with the previous reply of this agent,
// when nothing lies between: in this turn its last reply, else the reply that
// completed the session's last turn.
func providerState(s *parley.Session, a *parley.Agent, m seam.ModelInfo, model string, history bool) json.RawMessage {
	if m.Hosted {
		if a.Parent != "" {
			return nil // what it sees is its own
		}
		return hostedState(s, model, history)
	}
	ps, ok := s.Provider[a.Name]
	if !ok || ps.Model != model {
		return nil
	}
	for i := len(a.Items) - 1; i >= 0; i-- {
		switch it := a.Items[i]; it.Kind {
		case parley.ItemReply:
			if it.Seq != ps.Seq {
				return nil
			}
			return ps.State
		case parley.ItemCut:
			return nil
		}
	}
	if n := len(s.History); history && s.History[n-1].Seq == ps.Seq+1 {
		return ps.State
	}
	return nil
}

// hostedState is providerState where one conversation goes through all agents of
// a model: the newest state of any of them, when no other reply came after it.
func hostedState(s *parley.Session, model string, history bool) json.RawMessage {
	var last parley.ProviderState
	for agent, ps := range s.Provider {
		if ps.Model == model && ps.Seq > last.Seq && agent != parley.MemoryAgent {
			last = ps
		}
	}
	if last.Seq == 0 {
		return nil
	}
	var newest parley.Item
	for _, a := range s.Turn.Agents {
		for _, it := range a.Items {
			if (it.Kind == parley.ItemReply || it.Kind == parley.ItemCut) && it.Seq > newest.Seq && a.Parent == "" {
				newest = it
			}
		}
	}
	switch n := len(s.History); {
	case newest.Seq > 0:
		if newest.Kind == parley.ItemReply && newest.Seq == last.Seq {
			return last.State
		}
	case history && n > 0 && s.History[n-1].Seq == last.Seq+1:
		return last.State
	}
	return nil
}

// heard counts what the agent was told while it ran.
func heard(a *parley.Agent) int {
	n := 0
	for _, it := range a.Items {
		if it.Kind == parley.ItemSteer || it.Kind == parley.ItemTask || it.Kind == parley.ItemHook {
			n++
		}
	}
	return n
}

// digest names the request by its JSON.
func digest(r seam.Request) parley.Digest {
	h := sha256.New()
	e := json.NewEncoder(h)
	e.SetEscapeHTML(false)
	// A request holds what was decoded from JSON before, and numbers of ours.
	if err := e.Encode(r); err != nil {
		return ""
	}
	return parley.Digest(hex.EncodeToString(h.Sum(nil)))
}

// ratio is how many tokens of a model one of our estimates is, which count three
// bytes each.
type ratio float64

func ratioOf(m seam.ModelInfo) ratio {
	if m.TokenBytes <= 0 {
		return 1
	}
	return ratio(3 / m.TokenBytes)
}

// of is an estimate in the model's tokens.
func (r ratio) of(n int64) int64 { return int64(math.Ceil(float64(n) * float64(r))) }

// room is what of ours fits into n tokens of the model.
func (r ratio) room(n int64) int64 { return int64(float64(n) / float64(r)) }

// tokens estimates, on the high side, how many tokens n bytes are. English has
// about four bytes a token, JSON and code three.
func tokens(n int) int64 { return int64(n+2) / 3 }

// mediaTokens is about what providers count for a large picture or a page.
const mediaTokens = 1600

func partsTokens(parts []parley.Part) int64 {
	var n int64 = 4 // the frame of a message
	for _, p := range parts {
		text := len(p.Text)
		switch {
		case p.Type == parley.PartAttachment:
			text = len(prompt.Attachment(p))
		case p.Server != "":
			text = len(prompt.Resource(p))
		}
		n += 4 + tokens(text+len(p.Name)+len(p.Input)+len(p.Signature))
		if p.Type == parley.PartImage || p.Type == parley.PartFile {
			n += mediaTokens
		}
	}
	return n
}

func messageTokens(ms []parley.Message) int64 {
	var n int64
	for _, m := range ms {
		n += partsTokens(m.Parts)
	}
	return n
}

// exchangeTokens allows for the words that [thread.exchange] may add.
func exchangeTokens(x parley.Exchange) int64 {
	n := partsTokens(x.User.Parts) + 24 + tokens(len(x.Reply))
	for _, text := range []string{prompt.Found(x), prompt.TakenBack(x.Taken)} {
		if text != "" {
			n += 4 + tokens(len(text))
		}
	}
	for _, e := range x.Effects {
		n += 12 + tokens(len(e.Tool))
	}
	return n
}

func historyTokens(xs []parley.Exchange) int64 {
	var n int64
	for _, x := range xs {
		n += exchangeTokens(x)
	}
	return n
}

func declTokens(r *seam.Request) int64 {
	var n int64
	for _, d := range r.Tools {
		n += 8 + tokens(len(d.Name)+len(d.Description)+len(d.InputSchema))
	}
	for _, h := range r.Handoffs {
		n += 40 + tokens(len(h.Agent)+len(h.Description))
	}
	return n
}
