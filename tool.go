package parley

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Effect is what a call of a tool may do to the outside world.
type Effect string

const (
	EffectRead       Effect = "read"       // can be repeated freely
	EffectIdempotent Effect = "idempotent" // can be repeated with the same key, for as long as the service remembers the key
	EffectWrite      Effect = "write"      // never repeated
)

// Outcome is how a tool call ended.
type Outcome string

const (
	OutcomeOK        Outcome = "ok"
	OutcomeError     Outcome = "error"     // the service refused, or the call provably never left
	OutcomeDenied    Outcome = "denied"    // by policy, a hook or a human
	OutcomeCancelled Outcome = "cancelled" // it did not run, or was only a read
	OutcomeUnknown   Outcome = "unknown"   // a write that may or may not have happened
)

// RunBy says who runs the calls of a tool.
type RunBy string

// RunRuntime means that the runtime runs the calls, not a toolset: they start sub-agents, or
// are tools of a program that the runtime drives. Only the runtime can repeat such a call.
// Empty means that the tool's toolset runs them.
const RunRuntime RunBy = "runtime"

// RunClient means that a client of the session runs the calls, such as a page or a script on
// somebody's own machine: see [KindClient].
const RunClient RunBy = "client"

// ToolDecl is what is known of a tool before it is called.
type ToolDecl struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"input_schema"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Effect       Effect          `json:"effect"` // empty means write
	// Reads says which calls only read although Effect is not read, in words that follow "except", as
	// in "GET and HEAD". Its toolset then tells the effect of each call. Empty: all calls have Effect.
	Reads string `json:"reads,omitempty"`
	// Confirm says that a human confirms each call that does more than read, whatever rules, modes
	// and hooks allow.
	Confirm bool  `json:"confirm,omitempty"`
	Run     RunBy `json:"run,omitempty"` // empty: its toolset runs it
	// Subject says what a call is about, for rules and for people. Field names of the
	// input in braces are replaced by their values, as in "{domain}.{service}". Empty:
	// the input's JSON.
	Subject string `json:"subject,omitempty"`
	// Path is the field of the input that names a file or folder of the workspace, as in
	// "file_path". Rules and approvals are then about the file that is reached, however the
	// input writes its path.
	Path      string `json:"path,omitempty"`
	Actuation bool   `json:"actuation,omitempty"` // acts on the physical world, see Policy.AllowActuation
	Asks      bool   `json:"asks,omitempty"`      // only asks a human; not offered where there is no human
	Edits     bool   `json:"edits,omitempty"`     // changes only files of the session's workspace, see ModeAcceptEdits
	// WorkspaceOwn says that a call's input is only written to files of the session's
	// workspace or compared with them. So the input may contain what looks like a secret:
	// the tool gets the original from memory, and the log has it redacted. If the
	// original is lost, it is asked for again. For other tools such an input is refused.
	WorkspaceOwn bool `json:"workspace_own,omitempty"`
	// Web says that results hold what strangers wrote, such as pages of the web. When a call
	// has returned one, the turn has content of the web, see Turn.Web.
	Web bool `json:"web,omitempty"`
	// Outward says that calls tell somebody outside something, as a post or a mail does. Once
	// the turn has content of the web, Policy.OutwardAfterWeb applies to them.
	Outward bool `json:"outward,omitempty"`
	// Rule is what the prompts of all agents with the tool say about it, besides its
	// description. Tools may have the same rule, which is said once.
	Rule string `json:"rule,omitempty"`
	// Instead is a tool that some providers run themselves, such as "web_search". Where the
	// agent's model has it, the model gets it in place of this tool.
	Instead     string   `json:"instead,omitempty"`
	KeyTTL      Duration `json:"key_ttl,omitempty"`      // for idempotent tools: how long the service remembers keys
	Timeout     Duration `json:"timeout,omitempty"`      // per call; 0: the engine's default. For RunClient: from the claim to the report
	ClaimWithin Duration `json:"claim_within,omitempty"` // for RunClient: how long a call waits for a client; 0: as long as for a human
	OutputLimit int      `json:"output_limit,omitempty"` // bytes of output kept in the log; 0: the toolbox's default
	Cost        string   `json:"cost,omitempty"`         // free text for people, such as a price
	Safety      string   `json:"safety,omitempty"`
	// Credentials are the only ones of the clients' credentials that its calls may read. A call
	// waits until all of them are there; a human is asked for the missing ones.
	Credentials []CredentialDecl `json:"credentials,omitempty"`
}

// SubjectOf says what a call with the given input is about. A field is left empty if it
// is missing or is not a string, number or boolean.
func (d ToolDecl) SubjectOf(input json.RawMessage) string {
	if d.Subject == "" {
		return string(input)
	}
	var fields map[string]any
	_ = json.Unmarshal(input, &fields) // an input that does not fit the schema has no subject
	var b strings.Builder
	rest := d.Subject
	for {
		before, after, open := strings.Cut(rest, "{")
		b.WriteString(before)
		name, more, closed := strings.Cut(after, "}")
		if !open || !closed {
			return b.String()
		}
		switch v := fields[name].(type) {
		case string, float64, bool:
			fmt.Fprint(&b, v)
		}
		rest = more
	}
}

// ToolCall is a request by a model or a client to run a tool.
type ToolCall struct {
	Call  CallID          `json:"call"`
	Agent AgentPath       `json:"agent,omitempty"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	// Redacted says that the secrets of Input were taken out.
	Redacted bool `json:"redacted,omitempty"`
}

// ToolResult is what a call returned. Output is what the model sees: text, or JSON if the
// tool declares an output schema.
type ToolResult struct {
	Call     CallID          `json:"call"`
	Outcome  Outcome         `json:"outcome"`
	Output   string          `json:"output"`
	Data     json.RawMessage `json:"data,omitempty"`     // structured output, checked against the schema
	Artifact *ArtifactRef    `json:"artifact,omitempty"` // the whole result, if Output is only its beginning
	// Images are the images among the files that the call kept which the model is shown with
	// Output, if it can see: at most MaxResultImages. The engine sets them.
	Images []ArtifactRef `json:"images,omitempty"`
	Error  *ErrorInfo    `json:"error,omitempty"`
	// About lists the few things that the call was about, as ids such as entities of a
	// house, the main one first. The next turn's prompt shows their state at that time,
	// see Session.About.
	About []string `json:"about,omitempty"`
	// Saved are the files of the workspace that the call has changed. They become a files.saved
	// event.
	Saved []FileSaved `json:"-"`
	// Mode is the permission mode that the session has from then on, if it offers it. It becomes a
	// session.updated event. Empty: it stays. Only tools of this server set it.
	Mode PermissionMode `json:"-"`
}

// Replaced returns r with text in place of everything the tool returned. If text is a JSON
// object, it also becomes the structured output.
func (r ToolResult) Replaced(text string) ToolResult {
	r.Output, r.Data, r.Artifact, r.Images, r.Error, r.About = text, nil, nil, nil, nil, nil
	if raw := []byte(text); strings.HasPrefix(text, "{") && json.Valid(raw) {
		r.Data = raw
	}
	return r
}

// MaxResultImages limits the images of a call's result that the model is shown.
const MaxResultImages = 8

// ArtifactRef points to a large result that is stored separately.
type ArtifactRef struct {
	ID        ArtifactID `json:"id"`
	Name      string     `json:"name"`
	MediaType string     `json:"media_type"`
	Size      int64      `json:"size"`
	SHA256    Digest     `json:"sha256"`
}

// Duration is a time.Duration that is text ("1.5s") in JSON and YAML.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return Errorf(CodeInvalid, "%q is not a duration", b).WithHint("write it like 90s, 15m or 24h")
	}
	*d = Duration(v)
	return nil
}
