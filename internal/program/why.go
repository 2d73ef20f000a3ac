package program

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tui"
)

// why explains in plain words what happened in a session's last turn, why it stopped
// where it did, and what can be done now. It uses only the log.
func why(info parley.SessionInfo, v parley.Transcript, events []parley.Event, now time.Time) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	say("Session %s of the app %s, %s, %d events.", info.ID, info.App, info.Status, info.Version)
	if len(v.Turns) == 0 {
		say("Nothing was asked yet.")
		return b.String()
	}
	t := v.Turns[len(v.Turns)-1]
	for i := len(v.Turns) - 1; i >= 0 && (t.Status == parley.StatusPending || t.Rewound != 0); i-- {
		t = v.Turns[i] // the queued ones wait for this one, and those that were taken back are not its business
	}
	for _, r := range v.Rewinds {
		if r.Rewound == 0 && r.Seq > t.Seq {
			say("Event %d %s. To undo it: parley session rewind %s --undo %d", r.Seq, rewindLine(r), info.ID, r.Seq)
		}
	}
	if t.Rewound != 0 {
		say("All turns were taken back.")
		return b.String()
	}
	say("Turn %s, asked %s: %q", t.ID, ago(t.AskedAt, now), parley.Cut(t.Message, 100))
	if t.RetryOf != "" {
		say("It asks again what turn %s was asked.", t.RetryOf)
	}
	f := gather(t.ID, events)
	for _, line := range append(f.lines(), subAgents(t.ID, events)...) {
		say("  %s", line)
	}
	say("")
	verdict(say, info, t, f)
	if n := len(info.Queue); n > 0 {
		say("%s behind it.", count(n, "turn waits", "turns wait"))
	}
	if info.Held {
		say("The queue is held, because a turn was stopped or the server crashed. The next message releases it.")
		say("To drop a turn instead: parley session cancel %s", info.Queue[0])
	}
	return b.String()
}

// facts are counted from a turn's events.
type facts struct {
	models, failed, retried, handoffs int
	tools                             map[string]map[parley.Outcome]int
	order                             []string
	unknown                           []lost // calls whose outcome nobody knows
	settled                           []string
	resumed                           int
	lastError                         *parley.ErrorInfo
	budget                            *parley.BudgetReached
	stop                              *parley.TurnStopRequested
	cancelled                         *parley.TurnCancelled
	ended                             time.Time
	usage                             parley.Usage
	open                              []string             // started but not ended
	cut                               []parley.ToolStarted // calls with effects among them
	hooks                             []string             // what hooks did that people should know
	servers                           []string             // that got replies of a model
	sampled                           map[string]sampledFacts
}

// lost is a call of a tool whose outcome was unknown when it ended.
type lost struct {
	call parley.CallID
	tool string
}

// settledAs says what a person decided about such a call, by the choice.
var settledAs = map[string]string{
	parley.ChoiceHappened: "A person said that the call of %s took effect.",
	parley.ChoiceDidNot:   "A person said that the call of %s took no effect.",
	parley.ChoiceAgain:    "A person said to make the call of %s again.",
}

// sampledFacts are about the replies that a server got.
type sampledFacts struct {
	calls int
	usage parley.Usage
}

// sampling adds a call of a model for a server, or what it used.
func (f *facts) sampling(server string, calls int, u parley.Usage) {
	if _, ok := f.sampled[server]; !ok {
		f.servers = append(f.servers, server)
	}
	s := f.sampled[server]
	f.sampled[server] = sampledFacts{s.calls + calls, s.usage.Add(u)}
}

// maxHookLines is how many of them are shown.
const maxHookLines = 20

func gather(turn parley.TurnID, events []parley.Event) facts {
	f := facts{tools: map[string]map[parley.Outcome]int{}, sampled: map[string]sampledFacts{}}
	server := map[parley.CallID]string{}
	open := map[parley.CallID]string{}
	writes, begun := map[parley.CallID]parley.ToolStarted{}, map[parley.CallID]parley.ToolStarted{}
	var order []parley.CallID
	asked := map[parley.InteractionID]parley.CallID{}
	for _, e := range events {
		if e.Turn != turn {
			continue
		}
		p, err := e.Payload()
		if err != nil {
			continue
		}
		f.ended = e.Time
		switch p := p.(type) {
		case parley.ModelStarted:
			f.models++
			open[p.Call] = "a call of the model " + p.Model
			if p.For != nil {
				open[p.Call] += " for the server " + p.For.Server
				server[p.Call] = p.For.Server
				f.sampling(p.For.Server, 1, parley.Usage{})
			}
			order = append(order, p.Call)
		case parley.ModelReplied:
			f.usage = f.usage.Add(p.Usage)
			if of := server[p.Call]; of != "" {
				f.sampling(of, 0, p.Usage)
			}
			delete(open, p.Call)
		case parley.ModelFailed:
			f.failed++
			f.usage = f.usage.Add(p.Usage)
			if of := server[p.Call]; of != "" {
				f.sampling(of, 0, p.Usage)
			}
			if p.Retry {
				f.retried++
			}
			f.lastError = &p.Error
			delete(open, p.Call)
		case parley.AgentHandoff:
			f.handoffs++
		case parley.ToolStarted:
			open[p.Call] = "the tool " + p.Name
			if p.Effect != parley.EffectRead {
				begun[p.Call] = p
			}
			if p.Effect == parley.EffectWrite {
				writes[p.Call] = p
			}
			order = append(order, p.Call)
		case parley.ToolEnded:
			if f.tools[p.Name] == nil {
				f.tools[p.Name] = map[parley.Outcome]int{}
				f.order = append(f.order, p.Name)
			}
			f.tools[p.Name][p.Outcome]++
			if p.Outcome == parley.OutcomeUnknown {
				f.unknown = append(f.unknown, lost{p.Call, p.Name})
			}
			delete(open, p.Call)
			delete(writes, p.Call)
			delete(begun, p.Call)
		case parley.InteractionOpened:
			if p.Kind == parley.KindUnknown {
				asked[p.ID] = p.Call
			}
		case parley.InteractionAnswered:
			says := settledAs[p.Answer.Choice]
			i := slices.IndexFunc(f.unknown, func(l lost) bool { return l.call == asked[p.ID] })
			if says != "" && i >= 0 {
				f.settled = append(f.settled, fmt.Sprintf(says, f.unknown[i].tool))
				f.tools[f.unknown[i].tool][parley.OutcomeUnknown]--
				f.unknown = slices.Delete(f.unknown, i, i+1)
			}
		case parley.HookRan:
			if text := parley.NoteOf(p); text != "" && len(f.hooks) < maxHookLines {
				f.hooks = append(f.hooks, text)
			}
		case parley.TurnResumed:
			f.resumed++
			clear(open)
			for call, w := range writes { // not repeated: they count as running until their deadline
				open[call] = fmt.Sprintf("the tool %s, started before the interruption; its outcome is known shortly after %s at the latest", w.Name, w.Deadline.Local().Format(time.TimeOnly))
			}
		case parley.BudgetReached:
			f.budget = &p
		case parley.TurnStopRequested:
			f.stop = &p
		case parley.TurnCancelled:
			f.cancelled = &p
		}
	}
	for _, call := range order {
		if c, ok := begun[call]; ok {
			f.cut = append(f.cut, c)
			delete(begun, call)
		}
		if what, ok := open[call]; ok {
			f.open = append(f.open, what)
			delete(open, call)
		}
	}
	return f
}

func (f facts) lines() []string {
	var out []string
	if f.models > 0 {
		s := count(f.models, "model call", "model calls")
		if f.failed > 0 {
			s += fmt.Sprintf(", %d failed", f.failed)
			if f.retried > 0 {
				s += fmt.Sprintf(" and %d of them tried again", f.retried)
			}
		}
		s += fmt.Sprintf("; %d tokens", f.usage.Tokens())
		if f.usage.USD > 0 {
			s += fmt.Sprintf(", %.4f US dollars", f.usage.USD)
		}
		out = append(out, s)
	}
	for _, name := range f.servers {
		s := f.sampled[name]
		line := fmt.Sprintf("of these for the server %s: %s; %d tokens", name, count(s.calls, "model call", "model calls"), s.usage.Tokens())
		if s.usage.USD > 0 {
			line += fmt.Sprintf(", %.4f US dollars", s.usage.USD)
		}
		out = append(out, line)
	}
	if f.handoffs > 0 {
		out = append(out, count(f.handoffs, "handoff between agents", "handoffs between agents"))
	}
	for _, name := range f.order {
		var parts []string
		for _, o := range []parley.Outcome{parley.OutcomeOK, parley.OutcomeError, parley.OutcomeDenied, parley.OutcomeCancelled, parley.OutcomeUnknown} {
			if n := f.tools[name][o]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, o))
			}
		}
		if len(parts) > 0 {
			out = append(out, "tool "+name+": "+strings.Join(parts, ", "))
		}
	}
	out = append(out, f.settled...)
	out = append(out, f.hooks...)
	if f.resumed > 0 {
		out = append(out, "resumed "+count(f.resumed, "time", "times")+" after an interruption")
	}
	return out
}

func verdict(say func(string, ...any), info parley.SessionInfo, t parley.TurnView, f facts) {
	switch t.Status {
	case parley.StatusCompleted:
		say("It was answered, after %s.", f.ended.Sub(t.AskedAt).Round(time.Millisecond))
	case parley.StatusFailed:
		failed(say, t, f)
	case parley.StatusCancelled:
		switch by := byOf(f); by {
		case "superseded":
			say("It was interrupted, and then closed because the next message came.")
		case "session_ended":
			say("It was cancelled because the session was ended.")
		case "forked", "imported":
			say("It was open when this session was copied, and was closed in the copy.")
		case "":
			say("It was cancelled.")
		default:
			say("It was cancelled by %s.", by)
		}
		if t.Reason != "" {
			say("The reason given: %s", t.Reason)
		}
		say("To ask again: parley session retry %s", t.ID)
	case parley.StatusExpired:
		say("It expired: %s", orElse(t.Reason, "nobody answered or resumed it in time"))
		say("To ask again: parley session retry %s", t.ID)
	case parley.StatusInterrupted:
		say("It was interrupted: %s", orElse(t.Reason, "the server stopped"))
		if t.Resumes {
			say("It goes on by itself, once a server has this data folder open.")
			return
		}
		for _, c := range f.cut {
			say("%s was running and may have taken effect. That is found out, or you are asked, when the turn goes on.", c.Name)
		}
		say("What was done is kept. To go on from there: parley session resume %s", t.ID)
		if len(f.cut) == 0 { // otherwise it is refused
			say("To start over: parley session retry %s", t.ID)
		}
		say("A new message closes it.")
	case parley.StatusWaiting:
		whom := "a human"
		if !slices.ContainsFunc(t.Interactions, func(in parley.Interaction) bool { return in.Kind != parley.KindClient }) {
			whom = "a client program"
		}
		say("It waits for %s:", whom)
		for _, in := range t.Interactions {
			say("  %s%s: %s", whose(in.Agent), in.Kind, in.Title)
			for line := range strings.Lines(in.Text) {
				say("    %s", strings.TrimSpace(line))
			}
			if !in.ExpiresAt.IsZero() {
				say("    until %s", in.ExpiresAt.Local().Format("2006-01-02 15:04"))
			}
			if in.Kind == parley.KindClient {
				say("    to run it: parley session claim %s", in.ID)
				say("    to go on without it: parley session answer %s deny", in.ID)
				continue
			}
			say("    to answer: parley session answer %s", in.ID)
			say("    %s", tui.Forms(in))
		}
	case parley.StatusPending:
		say("It waits in the queue.")
	default:
		running(say, info, t, f)
	}
	for _, l := range f.unknown {
		say("The outcome of a call of %s is unknown: it may have taken effect. Check there before you ask again.", l.tool)
	}
}

func failed(say func(string, ...any), t parley.TurnView, f facts) {
	if f.budget != nil {
		say("It failed because a budget was reached: %s, %g of %g.", f.budget.Name, f.budget.Used, f.budget.Limit)
		say("The app's app.yaml sets it under budgets.")
	} else if t.Error != nil {
		say("It failed: %s (%s)", t.Error.Message, t.Error.Code)
		if t.Error.Hint != "" {
			say("%s", t.Error.Hint)
		}
	} else {
		say("It failed.")
	}
	if t.Answer != "" {
		say("It had said: %s", parley.Cut(t.Answer, 200))
	}
	say("To ask again: parley session retry %s", t.ID)
}

func running(say func(string, ...any), info parley.SessionInfo, t parley.TurnView, f facts) {
	if info.Turn != nil && info.Turn.ID == t.ID && info.Turn.Status == parley.StatusInterrupted {
		say("It was interrupted: the server stopped while it was running.")
		for _, what := range f.open {
			say("  was under way: %s", what)
		}
		say("It goes on when a server starts, if its app says resume: auto.")
		say("To go on: parley session resume %s", t.ID)
		return
	}
	if f.stop != nil {
		say("It is being stopped, and waits for what it has started: %s", strings.Join(f.open, ", "))
		return
	}
	say("It is running.")
	for _, what := range f.open {
		say("  under way: %s", what)
	}
	say("To stop it: parley session cancel %s", t.ID)
}

func byOf(f facts) string {
	if f.cancelled == nil {
		return ""
	}
	return f.cancelled.By
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return count(int(d.Minutes()), "minute", "minutes") + " ago"
	case d < 48*time.Hour:
		return count(int(d.Hours()), "hour", "hours") + " ago"
	}
	return "on " + t.Local().Format("2006-01-02 15:04")
}
