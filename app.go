package parley

// App is a resolved application: everything outside the log that decides what
// a turn does. Its JSON is stored once under its digest, and turn.started names
// that digest, so a resumed turn goes on with what it began with.
type App struct {
	Name         string              `json:"name"`
	Title        string              `json:"title"`
	Description  string              `json:"description,omitempty"`
	Runtime      string              `json:"runtime"`            // what carries out its turns: "loop" or "claude"
	Runtimes     []string            `json:"runtimes,omitempty"` // that sessions may choose, besides Runtime
	Entry        string              `json:"entry"`              // the agent that gets the user's message
	Agents       map[string]AgentDef `json:"agents"`
	Tools        []ToolDecl          `json:"tools"`               // every tool some agent has
	Model        string              `json:"model"`               // for agents that name none
	Fallbacks    []string            `json:"fallbacks,omitempty"` // models to call, in this order, when Model does not answer
	Budgets      Budgets             `json:"budgets"`
	Policy       Policy              `json:"policy"`
	Mode         PermissionMode      `json:"mode,omitempty"` // of sessions that name none; empty: ModeDefault
	Memory       MemoryOptions       `json:"memory"`
	Busy         BusyMode            `json:"busy"`
	MaxOpenTurns int                 `json:"max_open_turns"` // running and queued together; at least 1
	Resume       ResumeMode          `json:"resume"`
	TTL          TTL                 `json:"ttl,omitzero"`
	Wires        []string            `json:"wires,omitempty"`
	Examples     []string            `json:"examples,omitempty"`   // questions a page may offer
	FollowUps    []string            `json:"follow_ups,omitempty"` // questions a page may offer below an answer
	// CallerTools lets callers offer tools with a message. The caller's client runs them. Nil:
	// callers may not offer tools.
	CallerTools *CallerTools `json:"caller_tools,omitempty"`
}

// CallerTools sets the properties of all tools that a caller offers with a message.
type CallerTools struct {
	Effect  Effect   `json:"effect,omitempty"`  // of each tool; empty: write
	Timeout Duration `json:"timeout,omitempty"` // see ToolDecl; 0: the engine's default
}

// CallerPrefix is put before the name of each tool that a caller offers, so that it cannot be
// mistaken for a tool of the app.
const CallerPrefix = "client_"

// AgentDef is one named agent of an app.
type AgentDef struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"` // what another agent's model reads before it hands off to this one
	Prompt      string      `json:"prompt"`
	Model       string      `json:"model,omitempty"` // used unless the turn or the session names one; empty: the app's
	Tools       []string    `json:"tools,omitempty"`
	Handoffs    []string    `json:"handoffs,omitempty"`
	History     HistoryMode `json:"history,omitempty"` // empty: all
	MaxOutput   int64       `json:"max_output,omitempty"`
	Temperature *float64    `json:"temperature,omitempty"`
	// Effort is how much the model is asked to think, where it can: low, medium or high.
	// Empty: the provider's default, and the thoughts are not shown.
	Effort string `json:"effort,omitempty"`
	// ServerTools are tools that the provider runs itself: web_search, web_fetch.
	ServerTools []string `json:"server_tools,omitempty"`
	// Fallbacks are models to call, in this order, when Model does not answer.
	// Empty: the app's.
	Fallbacks []string `json:"fallbacks,omitempty"`
	// AsTool lets other agents have it do tasks for them: those that list its name, or
	// Task, among their tools. As a sub-agent it sees nothing but its task, and cannot
	// hand off.
	AsTool bool `json:"as_tool,omitempty"`
}

// HistoryMode is how much of the session an agent's prompt gets.
type HistoryMode string

const (
	HistoryAll  HistoryMode = "all"  // what the session's memory keeps
	HistoryNone HistoryMode = "none" // the question and this turn's results only
)

// MemoryOptions is what a session remembers between turns. A zero field means as much as
// fits the model, unless its comment says otherwise.
type MemoryOptions struct {
	LastK         int   `json:"last_k,omitempty"`         // whole messages kept; up to 10 times as many for models that take more than 200,000 tokens; 0: as many as fit
	SummaryTokens int64 `json:"summary_tokens,omitempty"` // size of the rolling summary of older turns; 0: no summary
	Retrieve      bool  `json:"retrieve,omitempty"`       // look up snippets for each question, where a toolset can
	HistoryTokens int64 `json:"history_tokens,omitempty"` // how much of the prompt history may fill; 0: as the model allows
}

// TTL is how long an app's data is kept. A zero field means for ever. Retention leaves
// sessions alone that wait for a human.
type TTL struct {
	SessionIdle Duration `json:"session_idle,omitempty"` // an active session expires after this long without an event
	TurnSteps   Duration `json:"turn_steps,omitempty"`   // the steps of a turn are condensed this long after its end; the messages stay
	Ended       Duration `json:"ended,omitempty"`        // an ended or expired session is deleted after this long
	NoArchive   bool     `json:"no_archive,omitempty"`   // delete the data without archiving it first
}

// BusyMode is what becomes of a message that arrives while a turn runs, waits for a
// human, or is about to be resumed automatically. When no turn is open, the message
// begins a turn at once, or releases a queue that was held.
type BusyMode string

const (
	BusyReject  BusyMode = "reject"  // it is refused, and the error says what the session is busy with
	BusyEnqueue BusyMode = "enqueue" // it runs after the turns already queued
	// BusyInterrupt stops the open turn and runs the message next, before the turns
	// already queued.
	BusyInterrupt BusyMode = "interrupt"
	// BusySteer adds the message to the open turn, for its next step. If the turn ends
	// before it reads the message, the message runs as a turn of its own. If the turn
	// waits for a human, the message declines everything that is asked and says what to
	// do instead.
	BusySteer BusyMode = "steer"
)

// ResumeMode is what happens to turns that a crash interrupted.
type ResumeMode string

const (
	ResumeManual ResumeMode = "manual"
	ResumeAuto   ResumeMode = "auto"
)

// Budgets limit a turn. A zero field sets no limit.
type Budgets struct {
	MaxSteps         int     `json:"max_steps,omitempty"`
	MaxToolCalls     int     `json:"max_tool_calls,omitempty"`
	MaxDurationMS    int64   `json:"max_duration_ms,omitempty"`     // counts only while the turn runs
	MaxTokensPerTurn int64   `json:"max_tokens_per_turn,omitempty"` // soft: bounds each call's prompt
	MaxTotalTokens   int64   `json:"max_total_tokens,omitempty"`    // hard: the sum over the turn
	MaxUSD           float64 `json:"max_usd,omitempty"`
	MaxDepth         int     `json:"max_depth,omitempty"` // handoffs of one turn; also how deep sub-agents may start others
}

// Narrow returns b with n's limits. It refuses a limit of n that is wider than b's, and
// the error names the field.
func (b Budgets) Narrow(n Budgets) (Budgets, error) {
	var err error
	wide := func(name string) {
		if err == nil {
			err = Errorf(CodeInvalid, "budgets.%s is negative or exceeds the app's limit", name).
				WithField("budgets." + name).WithHint("a caller may only lower the app's budgets")
		}
	}
	b.MaxSteps = narrow(b.MaxSteps, n.MaxSteps, "max_steps", wide)
	b.MaxToolCalls = narrow(b.MaxToolCalls, n.MaxToolCalls, "max_tool_calls", wide)
	b.MaxDurationMS = narrow(b.MaxDurationMS, n.MaxDurationMS, "max_duration_ms", wide)
	b.MaxTokensPerTurn = narrow(b.MaxTokensPerTurn, n.MaxTokensPerTurn, "max_tokens_per_turn", wide)
	b.MaxTotalTokens = narrow(b.MaxTotalTokens, n.MaxTotalTokens, "max_total_tokens", wide)
	b.MaxUSD = narrow(b.MaxUSD, n.MaxUSD, "max_usd", wide)
	b.MaxDepth = narrow(b.MaxDepth, n.MaxDepth, "max_depth", wide)
	return b, err
}

func narrow[T int | int64 | float64](have, want T, name string, wide func(string)) T {
	switch {
	case want == 0:
		return have
	case want < 0 || have != 0 && want > have:
		wide(name)
		return have
	}
	return want
}

// Spent is what a turn has used of its budgets.
type Spent struct {
	Steps     int   `json:"steps"`
	ToolCalls int   `json:"tool_calls"`
	Depth     int   `json:"depth,omitempty"` // handoffs
	RanMS     int64 `json:"ran_ms"`          // until it last stopped running
	Usage     Usage `json:"usage"`
}
