package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Lines makes the model of a script for tests: replies one below the other, with
// a blank line between.
//
//	on interface: login      the replies below are interface's, to a question with "login"
//	handoff scavenger fetch it
//
//	say The spec is **Google OAuth**.
//	say Ask me more.
//
//	on scavenger
//	think Both.
//	call read_notion_mock {"query":"login"}
//	call read_slack_mock {"query":"login"}
//
//	fail x1 unavailable overloaded
//	handoff synthesizer
//
// A line is one part of a reply, or a fault in its place:
//
//	say TEXT              text; several lines of it are joined by newlines
//	think TEXT            thinking
//	call TOOL JSON        a tool call
//	handoff AGENT WHY     a handoff
//	fail CODE MESSAGE     the call fails before it says anything
//	hang                  it says nothing until it is cancelled
//	cut after N           it fails with CodeUnavailable after N words of its text
//
// After fail, hang and cut, xN says how often the fault happens before the following lines are
// given; without it, always. A line that begins with # is a comment.
//
// Which reply is given follows from the request: of the blocks (on AGENT: WORDS,
// both may be left out) the first that fits agent and question, and of its
// replies the n-th when the agent has given n-1 in this turn. So a call that is
// repeated after a restart gets the same reply; only how often faults came is
// remembered. A reply that is not there is an error.
func Lines(name, text string, o Options) (*Model, error) {
	blocks, err := parseLines(text)
	if err != nil {
		return nil, err
	}
	return &Model{name, o.Pace, func(_ context.Context, r seam.Request) (plan, error) {
		v := look(r.Agent, r.Messages)
		for _, b := range blocks {
			if b.agent != "" && b.agent != v.Agent || !strings.Contains(v.Question, b.words) {
				continue
			}
			if v.Replies >= len(b.replies) {
				return plan{}, parley.Errorf(parley.CodeInvalid, "%s: the script has no reply %d of %s to %q", name, v.Replies+1, v.Agent, v.Question)
			}
			return b.replies[v.Replies].plan(), nil
		}
		return plan{}, parley.Errorf(parley.CodeInvalid, "%s: the script has no reply of %s to %q", name, v.Agent, v.Question)
	}}, nil
}

type block struct {
	agent, words string
	replies      []*scriptedReply
}

type scriptedReply struct {
	mu    sync.Mutex
	steps []step
}

// step is a part of a reply, or a fault.
type step struct {
	part  parley.Part
	fault *plan
	times int // remaining times of the fault; negative: always
}

// plan returns the parts, or the first fault that is still due; a fault's plan has the parts
// after it.
func (r *scriptedReply) plan() plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	var p plan
	faulty := false
	for i := range r.steps {
		s := &r.steps[i]
		switch {
		case s.fault == nil:
			p.reply.Parts = joinText(p.reply.Parts, s.part)
		case s.times != 0 && !faulty:
			faulty = true
			s.times--
			p.hang, p.after, p.err = s.fault.hang, s.fault.after, s.fault.err
		}
	}
	return p
}

func joinText(parts []parley.Part, p parley.Part) []parley.Part {
	if n := len(parts); n > 0 && p.Type == parley.PartText && parts[n-1].Type == parley.PartText {
		parts[n-1].Text += "\n" + p.Text
		return parts
	}
	return append(parts, p)
}

func parseLines(text string) ([]*block, error) {
	var blocks []*block
	var reply *scriptedReply
	for i, line := range strings.Split(text, "\n") {
		bad := func(format string, args ...any) ([]*block, error) {
			return nil, parley.Errorf(parley.CodeInvalid, "model script, line %d: %s", i+1, fmt.Sprintf(format, args...))
		}
		line = strings.TrimSpace(line)
		verb, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		switch {
		case line == "":
			reply = nil
			continue
		case strings.HasPrefix(line, "#"):
			continue
		case verb == "on":
			agent, words, _ := strings.Cut(rest, ":")
			blocks = append(blocks, &block{agent: strings.TrimSpace(agent), words: strings.TrimSpace(words)})
			reply = nil
			continue
		}
		s, err := parseStep(verb, rest)
		if err != nil {
			return bad("%s", err)
		}
		if len(blocks) == 0 {
			blocks = append(blocks, &block{})
		}
		if reply == nil {
			reply = &scriptedReply{}
			b := blocks[len(blocks)-1]
			b.replies = append(b.replies, reply)
		}
		reply.steps = append(reply.steps, s)
	}
	return blocks, nil
}

func parseStep(verb, rest string) (step, error) {
	first, more, _ := strings.Cut(rest, " ")
	more = strings.TrimSpace(more)
	switch verb {
	case "say":
		return step{part: parley.Part{Type: parley.PartText, Text: rest}}, nil
	case "think":
		return step{part: parley.Part{Type: parley.PartThinking, Text: rest}}, nil
	case "call":
		if more == "" {
			more = "{}"
		}
		if first == "" || !json.Valid([]byte(more)) {
			return step{}, fmt.Errorf("want call TOOL JSON, got %q", rest)
		}
		return step{part: parley.Part{Type: parley.PartToolCall, Name: first, Input: json.RawMessage(more)}}, nil
	case "handoff":
		if first == "" {
			return step{}, fmt.Errorf("want handoff AGENT WHY")
		}
		return step{part: parley.Part{Type: parley.PartHandoff, Name: first, Text: more}}, nil
	}
	if verb != "fail" && verb != "hang" && verb != "cut" {
		return step{}, fmt.Errorf("there is no %q; known are on, say, think, call, handoff, fail, hang, cut", verb)
	}
	s := step{fault: &plan{}, times: -1}
	if n, ok := strings.CutPrefix(first, "x"); ok {
		times, err := strconv.Atoi(n)
		if err != nil || times < 1 {
			return step{}, fmt.Errorf("want a number behind x, got %q", first)
		}
		s.times = times
		first, more, _ = strings.Cut(more, " ")
	}
	switch verb {
	case "fail":
		if first == "" {
			return step{}, fmt.Errorf("want fail CODE MESSAGE")
		}
		s.fault.err = parley.Errorf(parley.Code(first), "%s", strings.TrimSpace(more))
	case "hang":
		s.fault.hang = true
	case "cut":
		n, err := strconv.Atoi(strings.TrimSpace(more))
		if first != "after" || err != nil || n < 0 {
			return step{}, fmt.Errorf("want cut after N, got %q", rest)
		}
		s.fault.after = n
		s.fault.err = parley.Errorf(parley.CodeUnavailable, "the stream ended before the reply was whole")
	}
	return s, nil
}
