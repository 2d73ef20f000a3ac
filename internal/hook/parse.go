package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Entry is a hook as written in a file.
type Entry struct {
	Event   string
	Name    string // short, for people
	Runs    string // the whole command line, or the URL
	Command string
	Args    []string // nil: Command is a line for a shell; otherwise it is a program with these arguments
	URL     string
	Headers map[string]string
	Env     []string // variables that Headers may use
	Timeout time.Duration
	Line    int
	Raw     json.RawMessage // the entry as the file has it, with its matcher
	// Wrong says why the hook cannot run: it fails each time with this error. Nil: it can run.
	Wrong error

	match matcher
	same  string
}

// Mistake is something in a file that does not work as intended.
type Mistake struct {
	Line int
	Text string
	Mild bool // it is valid for other agents, but Parley does not support it
}

func (m Mistake) Error() string { return fmt.Sprintf("line %d: %s", m.Line, m.Text) }

// File holds the hooks of a settings file.
type File struct {
	Entries  []Entry
	Off      bool // disableAllHooks
	Mistakes []Mistake
}

// handler is an entry in the file.
type handler struct {
	Type    string            `json:"type"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Env     []string          `json:"allowedEnvVars"`
	Timeout float64           `json:"timeout"` // s
	If      string            `json:"if"`
	Shell   string            `json:"shell"`
}

// Parse reads a settings file. What it cannot read becomes a mistake. A mistake in a PreToolUse
// hook, or a file that cannot be read at all, also becomes an entry that always fails: a guard
// with a mistake must not let everything pass.
func Parse(text []byte) (f File) {
	var all struct {
		Hooks map[string]json.RawMessage `json:"hooks"`
		Off   bool                       `json:"disableAllHooks"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		line := 1
		if at, ok := errors.AsType[*json.SyntaxError](err); ok {
			line = 1 + bytes.Count(text[:min(int(at.Offset), len(text))], []byte("\n"))
		}
		f.wrong(line, PreToolUse, "the file cannot be read: %v", err)
		return f
	}
	f.Off = all.Off
	for _, event := range slices.Sorted(maps.Keys(all.Hooks)) {
		p := &parser{f: &f, text: text, event: event}
		p.from = max(0, bytes.Index(text, all.Hooks[event]))
		p.read(all.Hooks[event])
	}
	slices.SortStableFunc(f.Entries, func(a, b Entry) int { return a.Line - b.Line })
	return f
}

// wrong notes a mistake. For PreToolUse it also adds an entry that always fails.
func (f *File) wrong(line int, event, format string, args ...any) {
	m := Mistake{Line: line, Text: fmt.Sprintf(format, args...)}
	f.Mistakes = append(f.Mistakes, m)
	if event == PreToolUse {
		err := parley.Errorf(parley.CodeInvalid, "its settings are wrong: %s", m.Error())
		f.Entries = append(f.Entries, Entry{Event: event, Name: "settings.json", Timeout: DefaultTimeout, Line: line, Wrong: err, same: m.Error()})
	}
}

// parser reads the hooks of one event.
type parser struct {
	f     *File
	text  []byte
	event string
	from  int  // offset of the event's hooks in the text
	void  bool // the entries are checked for mistakes, but cannot run
}

// line returns the line on which raw begins. raw must be a slice of the text.
func (p *parser) line(raw []byte) int {
	at := p.from + max(0, bytes.Index(p.text[p.from:], raw))
	return 1 + bytes.Count(p.text[:at], []byte("\n"))
}

func (p *parser) read(raw json.RawMessage) {
	if !slices.Contains(Events, p.event) {
		why, mild := "there is no such event; the events are "+strings.Join(Events, ", "), slices.Contains(Elsewhere, p.event)
		if mild {
			why = "Parley does not have this event, so its hooks do not run"
		}
		p.f.wrong(p.line(raw), p.event, "hooks.%s: %s", parley.Cut(p.event, 60), why)
		p.f.Mistakes[len(p.f.Mistakes)-1].Mild = mild
		if mild {
			return // its handlers may have a form of their own
		}
		p.void = true
	}
	var groups []json.RawMessage
	if err := json.Unmarshal(raw, &groups); err != nil {
		p.f.wrong(p.line(raw), p.event, "hooks.%s is not a list", p.event)
		return
	}
	for i, raw := range groups {
		at := fmt.Sprintf("hooks.%s[%d]", p.event, i)
		var g struct {
			Matcher string            `json:"matcher"`
			Hooks   []json.RawMessage `json:"hooks"`
		}
		if err := json.Unmarshal(raw, &g); err != nil {
			p.f.wrong(p.line(raw), p.event, "%s: %v", at, err)
			continue
		}
		void := p.void
		m, err := newMatcher(g.Matcher)
		if err != nil {
			p.f.wrong(p.line(raw), p.event, "%s.matcher: %v", at, err)
			p.void = true
		}
		if len(g.Hooks) == 0 {
			p.f.wrong(p.line(raw), p.event, "%s has no hooks", at)
		}
		for j, raw := range g.Hooks {
			p.entry(fmt.Sprintf("%s.hooks[%d]", at, j), raw, g.Matcher, m)
		}
		p.void = void
	}
}

func (p *parser) entry(at string, raw json.RawMessage, matcher string, m matcher) {
	if len(p.f.Entries) >= MaxHooks {
		p.f.wrong(p.line(raw), p.event, "%s: a file may have at most %d hooks", at, MaxHooks)
		return
	}
	var h handler
	if err := json.Unmarshal(raw, &h); err != nil {
		p.f.wrong(p.line(raw), p.event, "%s: %v", at, err)
		return
	}
	if why := h.check(); why != "" {
		p.f.wrong(p.line(raw), p.event, "%s: %s", at, why)
		return
	}
	if p.void {
		return
	}
	e := Entry{
		Event: p.event, Command: h.Command, Args: h.Args, URL: h.URL, Headers: h.Headers, Env: h.Env, Line: p.line(raw), match: m,
	}
	usual, most := Limits(p.event)
	if e.Timeout = usual; h.Timeout > 0 {
		e.Timeout = most
		if h.Timeout < most.Seconds() {
			e.Timeout = time.Duration(h.Timeout * float64(time.Second))
		}
	}
	e.Raw, _ = json.Marshal(map[string]any{"event": p.event, "matcher": matcher, "hook": raw})
	var short bytes.Buffer
	_ = json.Compact(&short, raw)
	e.same = short.String()
	if h.Type == "http" {
		u, _ := url.Parse(h.URL)
		e.Runs, e.Name = h.URL, u.Hostname()
	} else {
		e.URL = "" // only a hook of type http is called
		e.Runs = strings.Join(append([]string{h.Command}, h.Args...), " ")
		e.Name = nameOf(e.Runs)
	}
	p.f.Entries = append(p.f.Entries, e)
}

// check returns what is wrong with a handler, or "".
func (h handler) check() string {
	switch h.Type {
	case "command":
		if strings.TrimSpace(h.Command) == "" {
			return "it names no command"
		}
		if h.Shell != "" && h.Shell != "bash" && h.Shell != "sh" {
			return fmt.Sprintf("the shell %q is not supported", h.Shell)
		}
	case "http":
		u, err := url.Parse(h.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return "its url is not valid; write http:// or https:// and a host, without a password"
		}
	case "":
		return "it has no type; write command or http"
	default:
		return fmt.Sprintf("hooks of type %q are not supported; write command or http", h.Type)
	}
	switch {
	case h.If != "":
		return "if is not supported; use the matcher, and check tool_input in the hook"
	case h.Timeout < 0:
		return "timeout cannot be negative"
	}
	return ""
}

// script matches the file names of scripts.
var script = regexp.MustCompile(`\w\.(sh|bash|py|js|mjs|cjs|ts|rb|pl|php|ps1)$`)

// redirected matches a file that a shell reads or writes.
var redirected = regexp.MustCompile(`[<>]&?\s*[^\s;&|<>]+`)

// nameOf returns a short name for a command line: its first script or program. An option or an
// address, such as the one that a script sends something to, names neither.
func nameOf(line string) string {
	words := strings.FieldsFunc(redirected.ReplaceAllString(line, " "), func(r rune) bool { return strings.ContainsRune(" \t\n\"';&|()", r) })
	words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "://") })
	if len(words) == 0 {
		return "hook"
	}
	name := words[0]
	if !strings.Contains(name, "/") { // a shell, or another program that runs a script
		at := slices.IndexFunc(words, script.MatchString)
		if at < 0 {
			at = slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, "/") })
		}
		name = words[max(0, at)]
	}
	return parley.Cut(path.Base(name), 60)
}
