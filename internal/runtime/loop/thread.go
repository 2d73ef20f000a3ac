package loop

import (
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/prompt"
)

// A thread is a message list that stays valid while it grows: it has no empty parts or
// messages, and adjacent messages of one role are merged.
type thread []parley.Message

func (th *thread) add(role parley.Role, parts ...parley.Part) {
	var keep []parley.Part
	for _, p := range parts {
		switch {
		case p.Type == parley.PartCommand:
			p = parley.Part{Type: parley.PartText, Text: "\n\n[/" + p.Name + " stands for:]\n" + p.Text}
		case p.Type == parley.PartResource:
			p = parley.Part{Type: parley.PartText, Text: prompt.Resource(p)}
		case p.Type == parley.PartAttachment:
			p = parley.Part{Type: parley.PartText, Text: prompt.Attachment(p)}
		case p.Server != "":
			keep = append(keep, parley.Part{Type: parley.PartText, Text: prompt.Resource(p)})
			p.Server, p.URI, p.Title = "", "", ""
		}
		if p.Type != parley.PartText || !blank(p.Text) {
			keep = append(keep, p)
		}
	}
	if len(keep) == 0 {
		return
	}
	if n := len(*th); n > 0 && (*th)[n-1].Role == role {
		last := &(*th)[n-1]
		last.Parts = slices.Concat(last.Parts, keep)
		return
	}
	*th = append(*th, parley.Message{Role: role, Parts: keep})
}

func (th *thread) say(role parley.Role, text string) {
	th.add(role, parley.Part{Type: parley.PartText, Text: text})
}

// exchange adds an earlier turn: the question, what its tools returned, and the answer.
// Tool results follow the question, as in the turn itself; if they were in the answer, the
// model would imitate them in its own answers. Effects are named where the answer does not
// mention them.
func (th *thread) exchange(x parley.Exchange) {
	if x.Restored && len(*th) == 0 {
		th.say(parley.RoleUser, parley.RestoredNote+"\n\n")
	}
	th.say(parley.RoleUser, prompt.TakenBack(x.Taken))
	th.add(parley.RoleUser, x.User.Parts...)
	if n := len(*th); n == 0 || (*th)[n-1].Role != parley.RoleUser {
		th.say(parley.RoleUser, "[no text]")
	}
	th.say(parley.RoleUser, prompt.Found(x))
	p := parley.Part{Type: parley.PartText, Text: strings.TrimRight(x.Reply, " \n")}
	if x.Status != parley.StatusCompleted {
		how := "[cut off: the turn "
		if p.Cut = p.Text != ""; !p.Cut {
			how = "[no answer: the turn "
		}
		if x.Status == parley.StatusCancelled {
			how += "was "
		}
		p.Text = joinLines(p.Text, how+string(x.Status)+"]")
	}
	p.Text = joinLines(p.Text, prompt.Effects(x))
	if blank(p.Text) {
		p.Text = "[no answer]"
	}
	th.add(parley.RoleAssistant, p)
}

func joinLines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

// branch adds what the agent instance a has said and was told in this turn.
func (g given) branch(th *thread, s *parley.Session, a *parley.Agent, def parley.AgentDef) {
	t := s.Turn
	if a.Parent != "" {
		th.say(parley.RoleUser, a.Input)
	} else {
		th.say(parley.RoleUser, prompt.TakenBack(s.Taken))
		th.add(parley.RoleUser, t.Request.Message.Parts...)
	}
	if n := len(*th); n == 0 || (*th)[n-1].Role != parley.RoleUser {
		th.say(parley.RoleUser, "[no text]")
	}
	if a.Parent == "" {
		th.say(parley.RoleUser, strings.TrimPrefix(parley.WithHooks("", t.Told), "\n"))
	}
	find := indexed(t)
	th.say(parley.RoleUser, g.note(s, a, def))
	for _, it := range a.Items {
		switch it.Kind {
		case parley.ItemReply:
			g.reply(th, find, a, it)
		case parley.ItemCut:
			if it.Repeated {
				continue // the new call repeats it
			}
			th.add(parley.RoleAssistant, parley.Part{
				Type: parley.PartText, Cut: true, Text: strings.TrimRight(it.Text, " \n") + "\n[cut off]",
			})
			th.say(parley.RoleUser, "[Your reply was cut off there. Give it again from its beginning.]")
		case parley.ItemSteer:
			th.add(parley.RoleUser, it.Parts...)
		case parley.ItemHandoff:
			th.add(parley.RoleUser, handedOver(t, find, it)...)
		case parley.ItemTask:
			th.say(parley.RoleUser, taskEnded(t, it))
		case parley.ItemHook:
			th.say(parley.RoleUser, parley.HookSays(it.Text))
		}
	}
	for _, it := range t.Pending(a) {
		switch it.Kind {
		case parley.ItemTask:
			th.say(parley.RoleUser, taskEnded(t, it))
		case parley.ItemHook:
			th.say(parley.RoleUser, parley.HookSays(it.Text))
		default:
			th.add(parley.RoleUser, it.Parts...)
		}
	}
	if (*th)[len(*th)-1].Role == parley.RoleAssistant {
		th.say(parley.RoleUser, "[Go on.]")
	}
}

// reply adds the model's reply, followed by one message with the results of all its calls.
func (g given) reply(th *thread, find lookup, a *parley.Agent, it parley.Item) {
	if empty(it.Parts) {
		return
	}
	var results []parley.Part
	for _, p := range it.Parts {
		switch p.Type {
		case parley.PartToolCall:
			results = append(append(results, toolResult(find, p)), resultImages(find, p.Call)...)
		case parley.PartHandoff:
			results = append(results, g.handoffResult(a, it.Parts, p))
		}
	}
	th.add(parley.RoleAssistant, it.Parts...)
	th.add(parley.RoleTool, results...)
}

// handedOver is what the receiving agent reads: who handed over and why, and what that
// agent found and said since it last received the turn itself.
func handedOver(t *parley.Turn, find lookup, to parley.Item) []parley.Part {
	words := func(text string) parley.Part { return parley.Part{Type: parley.PartText, Text: text} }
	from := t.Agent(to.From)
	if from == nil {
		return []parley.Part{words("[handed over by " + string(to.From) + "]")}
	}
	var images []parley.Part
	var b strings.Builder
	b.WriteString("[handed over by " + from.Name + "]")
	if to.Text != "" {
		b.WriteString("\nreason: " + to.Text)
	}
	var texts []string
	for _, it := range since(from, to.Seq) {
		if text := parley.PartsText(it.Parts); !blank(text) {
			texts = append(texts, text)
		}
		for _, p := range it.Parts {
			if c := find(p.Call); p.Type == parley.PartToolCall && c != nil {
				text, _ := resultOf(find, c)
				b.WriteString("\n[result of " + c.Name + " " + string(compactJSON(c.Input)) + "]\n" + text)
				for _, image := range resultImages(find, p.Call) {
					image.Call = "" // the call is not in this conversation
					images = append(images, image)
				}
			}
		}
	}
	if texts != nil {
		b.WriteString("\n[text of " + from.Name + "]\n" + strings.Join(texts, "\n"))
	}
	return append([]parley.Part{words(b.String())}, images...)
}

// since returns the replies of a before event seq, beginning when a last received the
// turn.
func since(a *parley.Agent, seq int64) []parley.Item {
	var items []parley.Item
	for _, it := range a.Items {
		switch {
		case it.Seq >= seq:
			return items
		case it.Kind == parley.ItemHandoff:
			items = nil
		case it.Kind == parley.ItemReply:
			items = append(items, it)
		}
	}
	return items
}
