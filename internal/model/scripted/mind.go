package scripted

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted/customers"
	"github.com/parley-server/parley/internal/model/scripted/household"
	"github.com/parley-server/parley/internal/model/scripted/librarian"
	"github.com/parley-server/parley/internal/model/scripted/notebook"
	"github.com/parley-server/parley/internal/pattern"
	"github.com/parley-server/parley/internal/seam"
)

// minds make replies in Go, by the name that a rule has under by.
var minds = map[string]func(seam.Request, view) (seam.Reply, error){"household": inHousehold, "notebook": inNotebook, "customers": withCustomers, "librarian": inLake}

// inHousehold has package household make the reply.
func inHousehold(req seam.Request, v view) (seam.Reply, error) {
	t := household.Turn{Question: v.Question, Facts: keptFacts(req.System), Off: v.withheld("ha_call_service")}
	if len(v.Steers) > 0 { // what was added while it ran is a part of the question
		t.Question = strings.Join(append([]string{v.Question}, v.Steers...), "\n")
	}
	for _, x := range v.History {
		t.Earlier = append(t.Earlier, household.Exchange{Question: x.Question, Answer: x.Answer})
	}
	for _, r := range v.Results {
		t.Results = append(t.Results, household.Result{Tool: r.Tool, Input: r.Input, Output: r.Output, Failed: r.Failed})
	}
	for _, d := range req.Tools {
		t.Tools = append(t.Tools, d.Name)
	}
	reply := household.Answer(t)
	var calls []call
	for _, c := range reply.Calls {
		if slices.Contains(t.Tools, c.Tool) {
			calls = append(calls, call(c))
		}
	}
	if len(reply.Calls) > 0 && len(calls) == 0 {
		reply.Say = noMeans
	}
	return thought(reply.Say, calls)
}

// call asks for a tool.
type call struct {
	Tool  string
	Input map[string]any
}

// thought is the reply of a mind.
func thought(say string, calls []call) (reply seam.Reply, err error) {
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
	t := notebook.Turn{Question: strings.Join(append([]string{v.Question}, v.Steers...), "\n"), Foreign: v.Foreign, Now: time.Now()}
	if m := nowIn.FindStringSubmatch(v.About); m != nil {
		if at, err := time.Parse("2006-01-02 15:04", m[1]); err == nil {
			t.Now = at
		}
	}
	if m := personIn.FindStringSubmatch(req.System); m != nil {
		t.Person = m[1]
	}
	for _, x := range v.History {
		t.Earlier = append(t.Earlier, notebook.Exchange{Question: x.Question, Answer: x.Answer})
	}
	for _, r := range v.Results {
		t.Results = append(t.Results, notebook.Result{Tool: r.Tool, Input: r.Input, Output: r.Output, Failed: r.Failed || failed(r.Output)})
	}
	for _, d := range req.Tools {
		t.Tools = append(t.Tools, d.Name)
	}
	reply := notebook.Answer(t)
	var calls []call
	for _, c := range reply.Calls {
		calls = append(calls, call(c))
	}
	return thought(reply.Say, calls)
}

var skillListed = pattern.New(`(?m)^- ([A-Za-z0-9_-]+): `)

// withCustomers has package customers make the reply.
func withCustomers(req seam.Request, v view) (seam.Reply, error) {
	t := customers.Turn{Question: v.Question, Added: v.Steers, Foreign: v.Foreign, Now: time.Now()}
	if m := nowIn.FindStringSubmatch(v.About); m != nil {
		if at, err := time.Parse("2006-01-02 15:04", m[1]); err == nil {
			t.Now = at
		}
	}
	for _, x := range v.History {
		t.Earlier = append(t.Earlier, customers.Exchange{Question: x.Question, Answer: x.Answer})
	}
	for _, r := range v.Results {
		t.Results = append(t.Results, customers.Result{Tool: r.Tool, Input: r.Input, Output: r.Output, Failed: r.Failed || failed(r.Output)})
	}
	for _, d := range req.Tools {
		t.Tools = append(t.Tools, d.Name)
		if d.Name == "Skill" {
			for _, m := range skillListed.FindAllStringSubmatch(d.Description, -1) {
				t.Skills = append(t.Skills, m[1])
			}
		}
	}
	reply := customers.Answer(t)
	var calls []call
	for _, c := range reply.Calls {
		calls = append(calls, call(c))
	}
	return thought(reply.Say, calls)
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

// inLake has package librarian make the reply.
func inLake(req seam.Request, v view) (seam.Reply, error) {
	t := librarian.Turn{Question: strings.Join(append([]string{v.Question}, v.Steers...), "\n"), Foreign: v.Foreign, Now: time.Now(), Attached: attachedIn(req.System)}
	if m := nowIn.FindStringSubmatch(v.About); m != nil {
		if at, err := time.Parse("2006-01-02 15:04", m[1]); err == nil {
			t.Now = at
		}
	}
	for _, x := range v.History {
		t.Earlier = append(t.Earlier, librarian.Exchange{Question: x.Question, Answer: x.Answer})
	}
	for _, r := range v.Results {
		t.Results = append(t.Results, librarian.Result{Tool: r.Tool, Input: r.Input, Output: r.Output, Failed: r.Failed || failed(r.Output)})
	}
	for _, d := range req.Tools {
		t.Tools = append(t.Tools, d.Name)
	}
	reply := librarian.Answer(t)
	var calls []call
	for _, c := range reply.Calls {
		calls = append(calls, call(c))
	}
	return thought(reply.Say, calls)
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
