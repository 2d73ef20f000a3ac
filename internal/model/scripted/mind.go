package scripted

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted/household"
	"github.com/parley-server/parley/internal/seam"
)

const byHousehold = "household"

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
	var parts []parley.Part
	for _, c := range reply.Calls {
		if !slices.Contains(t.Tools, c.Tool) {
			continue
		}
		raw, err := json.Marshal(c.Input)
		if err != nil {
			return seam.Reply{}, err
		}
		parts = append(parts, parley.Part{Type: parley.PartToolCall, Name: c.Tool, Input: raw})
	}
	switch {
	case len(reply.Calls) > 0 && len(parts) == 0:
		reply.Say = noMeans
	case reply.Say == "":
		return seam.Reply{Parts: parts}, nil
	}
	return seam.Reply{Parts: append([]parley.Part{{Type: parley.PartText, Text: reply.Say}}, parts...)}, nil
}

var (
	factsSection = regexp.MustCompile(`(?ms)^## (?:Facts from earlier in this session|Pinned)\n(.*?)(?:\n\n|\z)`)
	factSource   = regexp.MustCompile(` \([^()]*\)$`)
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
