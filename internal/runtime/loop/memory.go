package loop

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/prompt"
	"github.com/parley-server/parley/internal/seam"
)

//go:embed memory.md
var memoryPrompt string

// maxCondense is how often a model is asked for a summary in one turn. A crash or a
// failure leads to a second attempt; then the summary is made without a model, so that a
// failing one cannot block a session.
const maxCondense = 2

// condensing holds the older exchanges of a session that are to be summarized in its
// memory.
type condensing struct {
	Agent   parley.AgentPath // the agent that needs the room
	Path    parley.AgentPath // the instance that summarizes; "" if no model is used
	Request seam.Request
	Through int64
	Dropped int
}

// perWindow is the window of a model that gets LastK messages. One with a larger
// window gets more in proportion, up to parley.MaxGrowth times as many.
const perWindow = 200_000

// lastK is how many exchanges the last k messages are, and how many a model with the
// given window gets.
func lastK(k int, window int64) (few, many int) {
	few = (k + 1) / 2
	times := min(max(float64(window)/perWindow, 1), parley.MaxGrowth)
	return few, (int(float64(k)*times) + 1) / 2
}

// share is how many tokens, as we estimate them, history may have with what a model
// gets beyond LastK: half of a prompt, and of what a session keeps.
func share(s *parley.Session, m seam.ModelInfo, window int64) int64 {
	if b := s.Turn.Request.Budgets.MaxTokensPerTurn; b > 0 {
		window = min(window, b)
	}
	most := min(ratioOf(m).room(window), tokens(parley.MaxHistoryBytes))
	if h := s.Memory.HistoryTokens; h > 0 {
		most = min(most, h)
	}
	return most / 2
}

// due reports whether earlier turns have to be summarized before the agent's first step:
// when more than LastK turns are in no summary, or more than a large model has room for.
// The newest stay whole: as many as LastK messages need, and as many more as the model
// takes.
func (g given) due(s *parley.Session, a *parley.Agent, def parley.AgentDef) (condensing, bool) {
	m := s.Memory
	if s.Turn.Compact.Denied() || m.SummaryTokens <= 0 || def.History == parley.HistoryNone || a.Parent != "" {
		return condensing{}, false
	}
	k := max(m.LastK, 2)
	model, _ := g.modelNames(s, a, def)
	info, err := g.model(model)
	if err != nil {
		return condensing{}, false // whoever calls it learns what is wrong
	}
	window := windowOf(info)
	few, many := lastK(k, window)
	room := share(s, info, window)
	full := s.HistoryBytes >= parley.MaxHistoryBytes/2 && len(s.History) > 0
	if !full && (len(s.History) <= k || len(s.History) < 2*many && historyTokens(s.History) <= room) {
		return condensing{}, false
	}
	stay, _ := newest(s.History[max(0, len(s.History)-many):], room/2)
	n := max(1, len(s.History)-max(len(stay), few))
	c := condensing{Agent: a.Path, Through: s.History[n-1].Seq, Dropped: n}
	attempts := 0
	for _, b := range s.Turn.Agents {
		if b.Name == parley.MemoryAgent {
			attempts++
		}
	}
	if attempts >= maxCondense {
		return c, true
	}
	c.Path = a.Path + "/" + parley.MemoryAgent
	if attempts > 0 {
		c.Path += parley.AgentPath(fmt.Sprint("#", attempts+1))
	}
	c.Request = seam.Request{
		Model: model, Agent: parley.MemoryAgent, Session: s.ID, MaxTokens: 2 * m.SummaryTokens,
		System: strings.ReplaceAll(memoryPrompt, "{words}", fmt.Sprint(m.SummaryTokens*3/4)),
	}
	left := ratioOf(info).room(window-c.Request.MaxTokens) - tokens(len(c.Request.System)) - 64
	c.Request.Messages = []parley.Message{parley.Text(parley.RoleUser, toCondense(s, n, left))}
	return c, true
}

// toCondense is what a memory model reads, in roughly room tokens: what it knew, and what
// is new. If a model with a smaller window takes over a long history, each exchange is
// shortened, and finally the oldest are left out.
func toCondense(s *parley.Session, n int, room int64) string {
	var b strings.Builder
	b.WriteString("SUMMARY SO FAR\n" + orNone(s.Summary) + "\n\nFACTS SO FAR\n")
	if len(s.Facts) == 0 {
		b.WriteString("(none)\n")
	}
	for _, f := range s.Facts {
		fmt.Fprintf(&b, "- %s [%s]\n", f.Text, f.Source)
	}
	b.WriteString("\nNEW EXCHANGES\n")
	left := int(3*room) - b.Len()
	most := max(leastExchange, left/n)
	var texts []string
	for i := n - 1; i >= 0; i-- {
		text := exchangeText(s.History[i])
		if len(text) > most {
			text = strings.ToValidUTF8(text[:most-len("…\n")], "") + "…\n"
		}
		if left -= len(text); left < 0 && texts != nil {
			texts = append(texts, fmt.Sprintf("\n(%d earlier exchanges are left out)\n", i+1))
			break
		}
		texts = append(texts, text)
	}
	for _, text := range slices.Backward(texts) {
		b.WriteString(text)
	}
	return b.String()
}

// leastExchange is how many bytes of an exchange a memory model reads at least: less
// would tell it nothing.
const leastExchange = 240

// exchangeText is an exchange for a memory model, with what matters least at its end.
func exchangeText(x parley.Exchange) string {
	text := fmt.Sprintf("\n[turn of event %d]\n%suser: %s\nassistant: %s\n", x.Seq, lineOf(prompt.TakenBack(x.Taken)), parley.Cut(x.User.Text(), 4000), parley.Cut(orNone(x.Reply), 4000))
	if e := prompt.Effects(x); e != "" {
		text += e + "\n"
	}
	if f := prompt.Found(x); f != "" {
		text += f + "\n"
	}
	return text
}

func orNone(text string) string {
	if blank(text) {
		return "(none)"
	}
	return text
}

// condense makes one attempt at a summary. Afterwards the exchanges are in the summary,
// or another attempt is counted.
func (r *Runtime) condense(ctx context.Context, h seam.Host, s *parley.Session, c condensing) error {
	turn := s.Turn.ID
	if c.Path == "" {
		return h.Stage(parley.NewEvent(turn, c.Agent, plainMemory(s, c)))
	}
	m, err := r.models.Model(c.Request.Model)
	if err != nil {
		return err
	}
	req := c.Request
	if most := m.Info().MaxOutputTokens; most > 0 {
		req.MaxTokens = min(req.MaxTokens, most)
	}
	req.Call = h.NewCall()
	event := func(p parley.Payload) parley.Event { return parley.NewEvent(turn, c.Path, p) }
	input := tokens(len(req.System)) + messageTokens(req.Messages)
	reserved := parley.Usage{InputTokens: input, OutputTokens: req.MaxTokens}
	reserved.USD = atMost(m.Info(), reserved)
	if err := h.Emit(ctx,
		event(parley.AgentStarted{Name: parley.MemoryAgent, Parent: c.Agent}),
		event(parley.ModelStarted{Call: req.Call, Model: req.Model, Context: digest(req), Reserved: reserved, Window: windowOf(m.Info())}),
	); err != nil {
		return err
	}
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	st := stream{host: quiet{h}, model: m, call: req.Call, name: req.Model, say: m.Stream(own, req), delta: parley.Delta{Call: req.Call}, opt: r.opt}
	reply, serr := st.run(own, cancel)
	if reply == nil {
		lost := parley.ModelFailed{Call: req.Call, Retry: true, Usage: reserved, Error: parley.Info(serr)}
		lost.Usage.Estimated = true
		if ctx.Err() != nil {
			lost.Error = cutOff(ctx)
		}
		return keep(ctx, h, event(lost))
	}
	done := replied(reply, req.Call, m.Info(), h.NewCall)
	done.TookMS = st.took.Milliseconds()
	done.State = nil
	for i, p := range done.Parts { // it was given no tools; what it asks for is not done
		if p.Type != parley.PartText && p.Type != parley.PartThinking {
			done.Parts = done.Parts[:i]
			break
		}
	}
	said := parley.PartsText(done.Parts)
	events := []parley.Event{event(done), event(parley.AgentEnded{Outcome: parley.OutcomeOK})}
	if u, ok := understood(s, c, said); ok {
		events = append(events, parley.NewEvent(turn, c.Agent, u))
	}
	return h.Stage(events...)
}

// quiet is a host that shows no text: the memory's replies are not for people.
type quiet struct{ seam.Host }

func (quiet) Publish(parley.Delta) {}

// understood reads what a memory model said: an object with the new summary and
// the facts to keep.
func understood(s *parley.Session, c condensing, said string) (parley.MemoryUpdated, bool) {
	from, to := strings.Index(said, "{"), strings.LastIndex(said, "}")
	if from < 0 || to < from {
		return parley.MemoryUpdated{}, false
	}
	var got struct {
		Summary string `json:"summary"`
		Facts   *[]struct {
			Text   string `json:"text"`
			Source string `json:"source"`
		} `json:"facts"`
	}
	if err := json.Unmarshal([]byte(said[from:to+1]), &got); err != nil || blank(got.Summary) {
		return parley.MemoryUpdated{}, false
	}
	summary := clipTokens(got.Summary, s.Memory.SummaryTokens)
	u := parley.MemoryUpdated{Summary: &summary, Through: c.Through, Dropped: c.Dropped, By: parley.MemoryAgent}
	if got.Facts == nil {
		return u, true
	}
	known := map[string]parley.Fact{}
	for _, f := range s.Facts {
		known[f.Text] = f
	}
	last := s.History[c.Dropped-1]
	facts := []parley.Fact{}
	for _, f := range *got.Facts {
		if blank(f.Text) || len(facts) == parley.MaxFacts {
			continue
		}
		fact, ok := known[f.Text]
		if !ok {
			fact = parley.Fact{Text: f.Text, Source: f.Source, Seq: last.Seq, Time: s.UpdatedAt}
		}
		facts = append(facts, fact)
	}
	u.Facts = &facts
	return u, true
}

// plainMemory summarizes without a model: the older summary and a line for each exchange,
// the newest kept if not all fit.
func plainMemory(s *parley.Session, c condensing) parley.MemoryUpdated {
	lines := []string{s.Summary}
	for _, x := range s.History[:c.Dropped] {
		line := lineOf(prompt.TakenBack(x.Taken)) + "- asked: " + parley.Cut(x.User.Text(), 160) + "; answered: " + parley.Cut(orNone(x.Reply), 240)
		if e := prompt.Effects(x); e != "" {
			line += " " + e
		}
		lines = append(lines, line)
	}
	most := int(3 * s.Memory.SummaryTokens)
	size, from := 0, len(lines)
	for from > 0 && size+len(lines[from-1])+1 <= most {
		from--
		size += len(lines[from]) + 1
	}
	summary := strings.TrimSpace(strings.Join(lines[from:], "\n"))
	return parley.MemoryUpdated{Summary: &summary, Through: c.Through, Dropped: c.Dropped, By: parley.MemoryAgent}
}

// clipTokens cuts text to about n tokens, at a character.
func clipTokens(text string, n int64) string {
	if most := int(4 * n); len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// recall looks up what the question may need.
func recall(ctx context.Context, h seam.Host, a retrieve) error {
	found, err := h.Retrieve(ctx, a.Query)
	if err != nil {
		return err
	}
	return h.Stage(parley.NewEvent(h.Turn(), a.Agent, found))
}

// system is the first part of a prompt, with what changes least before what
// changes more: the agent's own prompt, pins, preferences, facts and summary. What
// may be another in the next turn is in [given.note].
func (g given) system(s *parley.Session, a *parley.Agent, def parley.AgentDef) string {
	var b strings.Builder
	b.WriteString(def.Prompt)
	if def.History == parley.HistoryNone || a.Parent != "" {
		return b.String()
	}
	section := func(title string) { b.WriteString("\n\n## " + title + "\n") }
	if len(s.Pins) > 0 {
		section("Pinned")
		for _, p := range s.Pins {
			fmt.Fprintf(&b, "%s: %s\n", p.Label, p.Text)
		}
	}
	if len(s.Told) > 0 {
		section("From the start of the session")
		b.WriteString(strings.TrimPrefix(parley.WithHooks("", s.Told), "\n"))
	}
	if len(s.Preferences) > 0 {
		if raw, err := json.Marshal(s.Preferences); err == nil { // sorted by key, so the prompt is stable
			section("The user's preferences")
			b.Write(raw)
		}
	}
	if len(s.Facts) > 0 {
		section("Facts from earlier in this session")
		for _, f := range s.Facts {
			b.WriteString("- " + f.Text)
			if f.Source != "" {
				b.WriteString(" (" + f.Source + ")")
			}
			b.WriteByte('\n')
		}
	}
	if s.Summary != "" {
		section("Summary of earlier turns")
		b.WriteString(s.Summary)
	}
	if s.Turn != nil && len(s.Turn.Attached) > 0 {
		section("Attached entities")
		b.WriteString(strings.TrimRight(parley.AttachedText(s.Turn.Attached), "\n"))
	}
	return b.String()
}

// lineOf is a text with the line break that separates it from what follows.
func lineOf(text string) string {
	if text == "" {
		return ""
	}
	return text + "\n"
}
