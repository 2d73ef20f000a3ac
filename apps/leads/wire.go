package leads

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/tool/rest"
	"github.com/parley-server/parley/internal/wire"
)

// Part turns the frames of one turn's log into the frames of /ws/codex that answer one chat, from
// turn.started to turn.completed or error. It is a state machine without I/O.
//
// A turn that waits for a person ends here, and goes on in another part. agent.text has the whole
// text so far of the reply that is under way; that of the turn's last reply has the status done, and
// is the text of turn.completed. A write that waits is such a text: the confirm object alone.
//
// All actions come before all text. Whether a reply is the answer is known only when its turn ends, since it
// may call tools at its end, and a message that joins the turn makes it go on after a reply without calls.
// So text in flight is not held at all: the answer is sent when the turn has completed.
//
// A client may instead ask for live text. It is then sent as it comes, and may be followed by actions; only
// a first line that is no longer than [aside] is held until it ends.
type Part struct {
	session  parley.SessionID
	turn     parley.TurnID
	live     bool
	call     parley.CallID // the reply under way, and its text so far; only when live
	text     []byte
	sent     int // how much of it was sent
	calls    map[parley.CallID]action
	answered map[parley.InteractionID]bool // before the part began to be shown
	usage    usage
	late     parley.TurnID // the turn that a message begins which this one did not read any more
	seq      int64         // of the last event
	ended    bool
	send     func(wire.Message)
}

type action struct {
	Type    string `json:"type"`
	Action  string `json:"action"`
	Tool    string `json:"tool,omitempty"`
	Command string `json:"command,omitempty"`
	Status  string `json:"status"`
}

type usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// NewPart makes the part of a session's turn that follows event after.
func NewPart(session parley.SessionID, turn parley.TurnID, after int64, live bool) *Part {
	return &Part{session: session, turn: turn, seq: after, live: live, calls: map[parley.CallID]action{}, answered: map[parley.InteractionID]bool{}}
}

// Begin sends the first frames.
func (w *Part) Begin(send func(wire.Message)) {
	w.send = send
	w.frame(struct {
		Type    string           `json:"type"`
		Session parley.SessionID `json:"sessionId"`
	}{"session.id", w.session})
	w.frame(struct {
		Type string `json:"type"`
	}{"turn.started"})
}

// Encode implements [wire.Encoder]. After the last frame it sends nothing.
func (w *Part) Encode(f eventlog.Frame, send func(wire.Message)) {
	w.send = send
	switch {
	case w.ended:
	case f.Event != nil:
		w.seq = f.Event.Seq
		w.event(*f.Event)
	case w.live && f.Delta != nil && f.Delta.Turn == w.turn && f.Delta.Kind == parley.DeltaText && speaks(f.Delta.Agent):
		w.delta(*f.Delta, f.Partial)
	}
}

// Failed implements [wire.Encoder], for an error that is not in the log.
func (w *Part) Failed(err error, send func(wire.Message)) {
	if w.send = send; !w.ended {
		w.fail(parley.Info(err).Message)
	}
}

// Ask ends the part with what its turn has asked before.
func (w *Part) Ask(in parley.Interaction, send func(wire.Message)) {
	if w.send = send; !w.ended {
		w.asked(in)
	}
}

// Ended reports whether the last frame was sent.
func (w *Part) Ended() bool { return w.ended }

// speaks reports whether what an agent says is for the user.
func speaks(a parley.AgentPath) bool { return a.Depth() == 0 && !a.OfMemory() && !a.OfSampling() }

func (w *Part) event(e parley.Event) {
	p, err := e.Payload()
	if err != nil {
		return // what is newer than this wire is not shown
	}
	if q, ok := p.(parley.TurnQueued); ok && q.Late && w.late == "" {
		w.late = e.Turn
	}
	if e.Turn != w.turn {
		return
	}
	switch p := p.(type) {
	case parley.ModelReplied:
		w.spend(p.Usage)
		if w.live && speaks(e.Agent) {
			w.begin(p.Call)
			if slices.ContainsFunc(p.Parts, func(p parley.Part) bool { return p.Type == parley.PartToolCall }) {
				w.begin("") // what it said before its calls is no answer
				break
			}
			w.text = append(w.text[:0], parley.PartsText(p.Parts)...)
			w.say(true)
		}
	case parley.ModelFailed:
		w.spend(p.Usage)
		w.begin("")
	case parley.ToolStarted:
		w.started(p)
	case parley.ToolEnded:
		if a, ok := w.calls[p.Call]; ok {
			delete(w.calls, p.Call)
			a.Status = "failed"
			if p.Outcome == parley.OutcomeOK {
				a.Status = "completed"
			}
			w.frame(a)
		}
	case parley.InteractionOpened:
		w.asked(p.Interaction)
	case parley.TurnCompleted:
		text := plainly(p.Response.Message)
		if !w.live && text != "" && !objectLike([]byte(text)) {
			w.says(text, "streaming")
		}
		w.done(text)
	default:
		w.ending(p)
	}
}

// ending handles the ends of a turn without an answer.
func (w *Part) ending(p parley.Payload) {
	switch p := p.(type) {
	case parley.TurnFailed:
		w.fail(p.Error.Message)
	case parley.TurnCancelled:
		w.fail(because("The request was cancelled", p.Reason))
	case parley.TurnExpired:
		w.fail(because("The request expired", p.Reason))
	case parley.TurnInterrupted:
		if !p.Resumes { // else the frames go on with the turn
			w.fail("The request was cut off. Send your message again to go on.")
		}
	}
}

func because(what, why string) string {
	if why == "" {
		return what + "."
	}
	return what + ": " + why
}

// asked ends the part, since nobody can answer before its client may speak again.
func (w *Part) asked(in parley.Interaction) {
	if w.answered[in.ID] {
		return
	}
	switch in.Kind {
	case parley.KindConfirmation:
		if text, ok := confirmation(in); ok {
			w.done(text)
			return
		}
	case parley.KindCredential:
		w.fail("Your login is needed to go on, since it has expired or is no longer known. Send your message again.")
		return
	case parley.KindUnknown:
		what := "a change"
		if p, err := rest.Propose(in.Input); err == nil {
			what = p.Method + " " + p.Path
		}
		w.done("It is not known whether " + what + " was carried out: the answer was lost. Nothing is sent again by itself. Look at the data, and say how to go on.")
		return
	}
	w.done(because("This waits for an answer that cannot be given here", in.Title))
}

// confirmation is the text of a write that waits.
func confirmation(in parley.Interaction) (string, bool) {
	p, err := rest.Propose(in.Input)
	if err != nil || in.Tool != rest.Name {
		return "", false
	}
	if p.Body == nil {
		p.Body = json.RawMessage("null")
	}
	return string(encode(struct {
		Type    string               `json:"type"`
		ID      parley.InteractionID `json:"id"`
		Title   string               `json:"title"`
		Summary string               `json:"summary"`
		Method  string               `json:"method"`
		Path    string               `json:"path"`
		Body    json.RawMessage      `json:"body"`
	}{"confirm", in.ID, p.Title, p.Summary, p.Method, p.Path, p.Body})), true
}

// pretended replaces a text that a client would take for a confirm object. Only a write that waits is shown as one.
const pretended = "The assistant wrote an action as text instead of requesting it, so there is nothing to confirm. Ask for it again."

// plainly returns what an agent said, unless a client would take it for a confirm object.
func plainly(text string) string {
	if !objectLike([]byte(text)) {
		return text
	}
	inner := strings.TrimSpace(text)
	if from, to := strings.IndexByte(inner, '{'), strings.LastIndexByte(inner, '}'); from >= 0 && to > from {
		inner = inner[from : to+1]
	}
	var said map[string]json.RawMessage
	if err := json.Unmarshal([]byte(inner), &said); err != nil {
		if strings.Contains(err.Error(), "max depth") { // a client may read deeper
			return pretended
		}
		return text
	}
	for name, raw := range said {
		var kind string
		if strings.EqualFold(strings.TrimSpace(name), "type") && json.Unmarshal(raw, &kind) == nil && strings.EqualFold(strings.TrimSpace(kind), "confirm") {
			return pretended
		}
	}
	return text
}

// objectLike reports whether a text begins as an object, also in a code block, after any space that a
// client may trim.
func objectLike(text []byte) bool {
	text = bytes.TrimLeftFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
	return bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("```"))
}

func (w *Part) begin(call parley.CallID) {
	if call != w.call {
		w.call, w.text, w.sent = call, w.text[:0], 0
	}
}

func (w *Part) delta(d parley.Delta, partial bool) {
	w.begin(d.Call)
	if partial {
		w.text = w.text[:0]
	}
	if len(w.text)+len(d.Text) > maxLive {
		return // the whole comes at the end
	}
	w.text = append(w.text, d.Text...)
	w.say(false)
}

// maxLive is how many bytes of a reply are sent while it is under way: each frame has all of them.
const maxLive = 256 << 10

// aside is how long a line may be that a model says before it calls a tool, in bytes: two sentences.
const aside = 200

// say sends the text so far. One that may become an object waits until it is known whole, and so does
// one that may be said before calls.
func (w *Part) say(whole bool) {
	said := bytes.TrimSpace(w.text)
	switch {
	case len(w.text) <= w.sent || len(said) == 0 || objectLike(w.text):
		return
	case !whole && w.sent == 0 && len(said) <= aside && !bytes.ContainsRune(said, '\n'):
		return
	}
	w.sent = len(w.text)
	w.says(string(w.text), "streaming")
}

func (w *Part) says(text, status string) {
	w.frame(struct {
		Type   string `json:"type"`
		Text   string `json:"text"`
		Status string `json:"status"`
	}{"agent.text", text, status})
}

func (w *Part) spend(u parley.Usage) {
	w.usage.Input += u.InputTokens
	w.usage.Output += u.OutputTokens
}

// done ends the part with a text.
func (w *Part) done(text string) {
	w.ended = true
	w.says(text, "done")
	w.frame(struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Usage usage  `json:"usage"`
	}{"turn.completed", text, w.usage})
}

func (w *Part) fail(message string) {
	w.ended = true
	w.frame(errorFrame{"error", message})
}

type errorFrame struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (w *Part) started(p parley.ToolStarted) {
	if _, again := w.calls[p.Call]; again {
		return
	}
	a := action{Type: "agent.action", Action: "command", Command: p.Name, Status: "started"}
	if r, err := rest.Parse(p.Input); err == nil && p.Name == rest.Name {
		a.Action, a.Tool, a.Command = "tool_call", r.Method+" "+r.Path, ""
	} else if p.Subject != "" && !strings.HasPrefix(p.Subject, "{") {
		a.Command += " " + p.Subject
	} else if of := firstText(p.Input); of != "" {
		a.Command += " " + of
	}
	w.calls[p.Call] = a
	w.frame(a)
}

// firstText is the only text of an input, such as the name of a skill.
func firstText(input json.RawMessage) (text string) {
	var in map[string]any
	if json.Unmarshal(input, &in) != nil {
		return ""
	}
	var all []string
	for _, v := range in {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	if len(all) != 1 {
		return ""
	}
	return parley.Cut(strings.Join(strings.Fields(all[0]), " "), 100)
}

func (w *Part) frame(v any) { w.send(wire.Message{Data: encode(v), Typed: true}) }

// encode writes JSON with its characters as they are. A raw message stays as it is, byte for byte.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // its values can be written as JSON
	return slices.Clip(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
