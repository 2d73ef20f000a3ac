package scripted

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted/customers"
	"github.com/parley-server/parley/internal/model/scripted/dialog"
	"github.com/parley-server/parley/internal/model/scripted/household"
	"github.com/parley-server/parley/internal/model/scripted/librarian"
	"github.com/parley-server/parley/internal/model/scripted/notebook"
	"github.com/parley-server/parley/internal/model/scripted/tidier"
	"github.com/parley-server/parley/internal/pattern"
	"github.com/parley-server/parley/internal/seam"
)

// minds make replies in Go, by the name that a rule has under by.
var minds = map[string]func(seam.Request, view) (seam.Reply, error){"household": inHousehold, "notebook": inNotebook, "customers": withCustomers, "librarian": inLake, "tidier": atNight}

// inHousehold has package household make the reply.
func inHousehold(req seam.Request, v view) (seam.Reply, error) {
	t := household.Turn{
		Earlier: past(v), Results: v.Results, Tools: toolNames(req),
		Question: v.Question, Facts: keptFacts(req.System), Off: v.withheld("ha_call_service"),
	}
	if len(v.Steers) > 0 { // what was added while it ran is a part of the question
		t.Question = strings.Join(append([]string{v.Question}, v.Steers...), "\n")
	}
	reply := household.Answer(t)
	calls := slices.DeleteFunc(slices.Clone(reply.Calls), func(c dialog.Call) bool { return !slices.Contains(t.Tools, c.Tool) })
	if len(reply.Calls) > 0 && len(calls) == 0 {
		reply.Say = noMeans
	}
	return thought(reply.Say, calls)
}

// past are the turns before this one, as a mind takes them.
func past(v view) (list []dialog.Exchange) {
	for _, x := range v.History {
		list = append(list, dialog.Exchange{Question: x.Question, Answer: x.Answer})
	}
	return list
}

// judged are the results of the turn. Those whose text says so have failed, too.
func (v view) judged() []dialog.Result {
	list := slices.Clone(v.Results)
	for i, r := range list {
		list[i].Failed = r.Failed || failed(r.Output)
	}
	return list
}

func toolNames(req seam.Request) (names []string) {
	for _, d := range req.Tools {
		names = append(names, d.Name)
	}
	return names
}

// now is the time that the prompt says.
func (v view) now() time.Time {
	if m := nowIn.FindStringSubmatch(v.About); m != nil {
		if at, err := time.Parse("2006-01-02 15:04", m[1]); err == nil {
			return at
		}
	}
	return time.Now()
}

// thought is the reply of a mind.
func thought(say string, calls []dialog.Call) (reply seam.Reply, err error) {
	if say != "" {
		reply.Parts = append(reply.Parts, parley.Part{Type: parley.PartText, Text: say})
	}
	for _, c := range calls {
		raw, err := json.Marshal(c.Input)
		if err != nil {
			return seam.Reply{}, err
		}
		reply.Parts = append(reply.Parts, parley.Part{Type: parley.PartToolCall, Name: c.Tool, Input: raw})
	}
	return reply, nil
}

var (
	nowIn    = pattern.New(`(?m)^now: \w+, (\d{4}-\d\d-\d\d \d\d:\d\d)`)
	personIn = pattern.New(`(?m)notes directory: .*?([^/\\\s]+)/?$`)
)

// inNotebook has package notebook make the reply.
func inNotebook(req seam.Request, v view) (seam.Reply, error) {
	t := notebook.Turn{
		Earlier: past(v), Results: v.judged(), Tools: toolNames(req),
		Question: strings.Join(append([]string{v.Question}, v.Steers...), "\n"), Foreign: v.Foreign, Now: v.now(),
	}
	if m := personIn.FindStringSubmatch(req.System); m != nil {
		t.Person = m[1]
	}
	reply := notebook.Answer(t)
	return thought(reply.Say, reply.Calls)
}

var skillListed = pattern.New(`(?m)^- ([A-Za-z0-9_-]+): `)

// withCustomers has package customers make the reply.
func withCustomers(req seam.Request, v view) (seam.Reply, error) {
	t := customers.Turn{
		Earlier: past(v), Results: v.judged(), Tools: toolNames(req),
		Question: v.Question, Added: v.Steers, Foreign: v.Foreign, Now: v.now(),
	}
	for _, d := range req.Tools {
		if d.Name == "Skill" {
			for _, m := range skillListed.FindAllStringSubmatch(d.Description, -1) {
				t.Skills = append(t.Skills, m[1])
			}
		}
	}
	reply := customers.Answer(t)
	return thought(reply.Say, reply.Calls)
}

var (
	attachedSection = pattern.New(`(?s)\n## Attached entities\n(.*)`)
	attachedHead    = pattern.New(`^\[([^\],]+\.\w+)(?:, "((?:[^"\\]|\\.)*)")?(?:, version [0-9a-f]+)?\]$`)
)

// attachedIn are the attached entities that the loop writes into the prompt.
func attachedIn(system string) (list []librarian.Page) {
	m := attachedSection.FindStringSubmatch(system)
	if m == nil {
		return nil
	}
	for line := range strings.SplitSeq(m[1], "\n") {
		if h := attachedHead.FindStringSubmatch(line); h != nil {
			list = append(list, librarian.Page{Path: h[1], Title: h[2]})
			continue
		}
		if text, ok := strings.CutPrefix(line, "| "); ok && len(list) > 0 {
			list[len(list)-1].Text += text + "\n"
		}
	}
	return list
}

var fileHead = pattern.New(`^\[The user attached the file ("(?:[^"\\]|\\.)*") .*\]$`)

// filesIn are the files that the user attached to messages, the last message's first.
func filesIn(messages []parley.Message) (list []librarian.Page) {
	for _, m := range slices.Backward(messages) {
		for _, p := range m.Parts {
			head, text, _ := strings.Cut(strings.TrimLeft(p.Text, "\n"), "\n")
			h := fileHead.FindStringSubmatch(head)
			if m.Role != parley.RoleUser || p.Type != parley.PartText || h == nil {
				continue
			}
			name, err := strconv.Unquote(h[1])
			if err != nil {
				continue
			}
			page := librarian.Page{Path: name, Title: "your file", File: true}
			for line := range strings.SplitSeq(text, "\n") {
				if line, ok := strings.CutPrefix(line, "| "); ok {
					page.Text += line + "\n"
				}
			}
			list = append(list, page)
		}
	}
	return list
}

// inLake has package librarian make the reply.
func inLake(req seam.Request, v view) (seam.Reply, error) {
	t := librarian.Turn{
		Earlier: past(v), Results: v.judged(), Tools: toolNames(req), Withheld: v.withheld,
		Question: strings.Join(append([]string{v.Question}, v.Steers...), "\n"), Foreign: v.Foreign, Now: v.now(), Attached: append(attachedIn(req.System), filesIn(req.Messages)...),
	}
	reply := librarian.Answer(t)
	return thought(reply.Say, reply.Calls)
}

// atNight has package tidier make the reply.
func atNight(_ seam.Request, v view) (seam.Reply, error) {
	reply := tidier.Answer(v.judged())
	return thought(reply.Say, reply.Calls)
}

var (
	factsSection = pattern.New(`(?ms)^## (?:Facts from earlier in this session|Pinned)\n(.*?)(?:\n\n|\z)`)
	factSource   = pattern.New(` \([^()]*\)$`)
)

// keptFacts are the facts that the loop writes into the prompt: facts of earlier turns, and
// pins. See package runtime/loop.
func keptFacts(system string) []string {
	var out []string
	for _, m := range factsSection.FindAllStringSubmatch(system, -1) {
		for line := range strings.SplitSeq(m[1], "\n") {
			if line = strings.TrimSpace(strings.TrimPrefix(line, "- ")); line != "" {
				out = append(out, factSource.ReplaceAllString(line, ""))
			}
		}
	}
	return out
}
