package parley

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// EventType names a kind of event: what happened, in the past tense.
type EventType string

// Event is one entry of a session's log. Its number, type and time never
// change. Data is the payload's JSON; Payload decodes it.
type Event struct {
	Session SessionID       `json:"session"`
	Seq     int64           `json:"seq"`
	Turn    TurnID          `json:"turn,omitempty"`
	Agent   AgentPath       `json:"agent,omitempty"`
	Time    time.Time       `json:"time"`
	Type    EventType       `json:"type"`
	V       int             `json:"v,omitempty"` // payload version; 0 is the first
	Data    json.RawMessage `json:"data"`

	payload Payload // Data decoded, if already known
}

// Payload is the data of one event type.
type Payload interface{ EventType() EventType }

// NewEvent makes an event of p. Its session, number and time are set when it is appended.
// Payloads are plain data, so encoding cannot fail.
func NewEvent(turn TurnID, agent AgentPath, p Payload) Event {
	raw, err := encode(p)
	if err != nil {
		panic("parley: payload " + string(p.EventType()) + ": " + err.Error())
	}
	return Event{Turn: turn, Agent: agent, Type: p.EventType(), Data: raw, payload: p}
}

// encode is json.Marshal without HTML escaping, which keeps the log readable.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// WithData returns e with other data, for example after redaction.
func (e Event) WithData(raw json.RawMessage) Event {
	e.Data, e.payload = raw, nil
	return e
}

// Payload returns the typed data, which callers must not change. The error has
// CodeUpgradeRequired when the type or version is newer than this package, and
// CodeCondensed when the data was condensed.
func (e Event) Payload() (Payload, error) {
	if e.payload != nil && e.V == 0 && e.payload.EventType() == e.Type {
		return e.payload, nil
	}
	t, ok := payloads[e.Type]
	if !ok || e.V > 0 {
		return nil, Errorf(CodeUpgradeRequired, "event %d has type %q version %d, which this version of Parley does not know", e.Seq, e.Type, e.V).
			WithHint("open the session with the version of Parley that wrote it, or a newer one")
	}
	if len(e.Data) == 0 || string(e.Data) == "null" {
		return nil, Errorf(CodeCondensed, "the data of event %d was condensed", e.Seq)
	}
	p := reflect.New(t)
	if err := json.Unmarshal(e.Data, p.Interface()); err != nil {
		return nil, Errorf(CodeInternal, "event %d (%s) cannot be read: %w", e.Seq, e.Type, err)
	}
	return p.Elem().Interface().(Payload), nil
}

// Equal reports whether two events are the same entry. Data is compared as JSON text.
func (e Event) Equal(f Event) bool {
	return e.Session == f.Session && e.Seq == f.Seq && e.Turn == f.Turn && e.Agent == f.Agent &&
		e.Time.Equal(f.Time) && e.Type == f.Type && e.V == f.V && string(e.Data) == string(f.Data)
}

// AppendJSON appends the event's JSON to dst: the same bytes as json.Marshal, without
// reflection and without encoding Data again. Every wire sends it.
func (e Event) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"session":`...)
	dst = appendString(dst, string(e.Session))
	dst = append(dst, `,"seq":`...)
	dst = appendInt(dst, e.Seq)
	if e.Turn != "" {
		dst = append(dst, `,"turn":`...)
		dst = appendString(dst, string(e.Turn))
	}
	if e.Agent != "" {
		dst = append(dst, `,"agent":`...)
		dst = appendString(dst, string(e.Agent))
	}
	dst = append(dst, `,"time":"`...)
	dst = e.Time.AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","type":`...)
	dst = appendString(dst, string(e.Type))
	if e.V != 0 {
		dst = append(dst, `,"v":`...)
		dst = appendInt(dst, int64(e.V))
	}
	dst = append(dst, `,"data":`...)
	if e.Data == nil || string(e.Data) == "null" { // the form an event has when it was read from a wire
		dst = append(dst, `null,"condensed":true`...)
	} else {
		dst = append(dst, e.Data...)
	}
	return append(dst, '}')
}

// IsStep reports whether events of type t are steps of a turn, whose data may be
// condensed.
func IsStep(t EventType) bool {
	kind, _, _ := strings.Cut(string(t), ".")
	switch kind {
	case "model", "tool", "agent", "context", "hook", "files":
		return true
	}
	return t == (RuntimeNoted{}).EventType() // but the fold needs runtime.kept
}

// Known reports whether this package can fold events of type t.
func Known(t EventType) bool { _, ok := payloads[t]; return ok }

var payloads = func() map[EventType]reflect.Type {
	m := map[EventType]reflect.Type{}
	for _, p := range []Payload{
		SessionCreated{},
		HistoryRestored{},
		SessionUpdated{},
		SessionEnded{},
		SessionForked{},
		SessionRewinding{},
		SessionRewound{},
		TurnStarted{},
		TurnQueued{},
		TurnSteered{},
		TurnStopRequested{},
		TurnInterrupted{},
		TurnResumed{},
		TurnCompleted{},
		TurnFailed{},
		TurnCancelled{},
		TurnExpired{},
		AgentStarted{},
		AgentHandoff{},
		AgentEnded{},
		ModelStarted{},
		ModelReplied{},
		ModelFailed{},
		ToolRequested{},
		ToolStarted{},
		ToolEnded{},
		InteractionOpened{},
		InteractionAnswered{},
		InteractionExpired{},
		ContextCompacted{},
		ContextRetrieved{},
		ContextTransferred{},
		ContextObserved{},
		MemoryUpdated{},
		HistoryCondensed{},
		ArtifactStored{},
		BudgetReached{},
		HookRan{},
		FilesAnnounced{},
		FilesSaved{},
		RuntimeNoted{},
		RuntimeKept{},
	} {
		m[p.EventType()] = reflect.TypeOf(p)
	}
	return m
}()
