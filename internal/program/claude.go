package program

import (
	"context"
	"crypto/rand"
	"iter"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/confine"
	"github.com/parley-server/parley/internal/runtime/claudecli"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/anthropic"
	workspacetools "github.com/parley-server/parley/internal/tool/workspace"
)

// claudeFolder is the folder in the data folder with the files of Claude CLIs.
const claudeFolder = "claude"

// newClaude makes the runtime of the Claude CLI. Nothing is looked for before a turn needs it.
func newClaude(p *plan, log *slog.Logger) *claudecli.Runtime {
	s := p.settings.Claude
	return claudecli.New(p.models, claudecli.Options{
		Find: func() (string, error) { return claudecli.Locate(whereIs(s)) }, Data: p.folder.Path(claudeFolder),
		Most: s.Processes, Idle: time.Duration(s.Idle), Wait: time.Duration(s.Wait), Memory: int64(s.Memory), Shell: s.Shell == "cli", Fenced: fenced(s), Translate: translated, Logger: log,
		Witness: workspacetools.NewWitness(p.checks.Load),
	})
}

// fenced says whether the CLI reaches only its session's files. With a shell of its own it has the
// rights of the server.
func fenced(s config.Claude) bool { return s.Shell != "cli" && confine.CanFence() }

func whereIs(s config.Claude) claudecli.Where {
	return claudecli.Where{Path: s.Path, NodeModules: s.NodeModules}
}

// translated serves a model of another provider, such as a scripted one, in the form of Anthropic's
// API, for an agent.
func translated(m seam.Model, agent string) http.Handler {
	return anthropic.New(anthropic.Options{
		Brain: plain{m, agent}, ID: func(prefix string) string { return prefix + "_" + rand.Text() },
		Models: []anthropic.Model{{ID: claudecli.DefaultModel, MaxInput: 1_000_000, MaxTokens: 128_000, Adaptive: true, Effort: true, Sampling: true, Prefill: true}},
	})
}

// plain is a model that sees what people said, without what the CLI adds to it, and tools under the
// names that they have in apps.
type plain struct {
	seam.Model
	agent string
}

// Stream implements seam.Model.
func (p plain) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	r.Agent, r.Model = p.agent, p.Info().Name
	theirs := map[string]string{}
	r.Tools = slices.Clone(r.Tools)
	for i, t := range r.Tools {
		r.Tools[i].Name = claudecli.LoggedName(t.Name)
		theirs[r.Tools[i].Name] = t.Name
	}
	var messages []parley.Message
	for _, msg := range r.Messages {
		if msg.Parts = spoken(msg.Parts); len(msg.Parts) > 0 {
			messages = append(messages, msg)
		}
	}
	r.Messages = messages
	return func(yield func(seam.ModelDelta, error) bool) {
		for d, err := range p.Model.Stream(ctx, r) {
			if d.Reply != nil {
				reply := *d.Reply
				reply.Parts = slices.Clone(reply.Parts)
				for i, part := range reply.Parts {
					if name := theirs[part.Name]; name != "" && part.Type == parley.PartToolCall {
						reply.Parts[i].Name = name
					}
				}
				d.Reply = &reply
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

var (
	// reminder is what the CLI adds to messages.
	reminder = regexp.MustCompile(`(?s)<system-reminder>.*?</system-reminder>`)
	// planned is what the CLI says of plan mode, which comes without the tags of a reminder.
	planned = regexp.MustCompile(`(?s)^(?:## Exited Plan Mode\n.*?take actions\.|Plan mode is active\. The user indicated that they do not want you to execute.*)`)
	// steered is how the CLI words what the user has said in the middle of a turn.
	steered = regexp.MustCompile(`(?s)^The user sent a new message while you were working:\n(.*?)\n\nThis is how Claude Code surfaces .*`)
)

// spoken are parts without reminders, with the names that tools have in the log.
func spoken(parts []parley.Part) (list []parley.Part) {
	for _, p := range parts {
		switch p.Type {
		case parley.PartText:
			p.Text = steered.ReplaceAllString(reminder.ReplaceAllString(p.Text, ""), "$1")
			p.Text = planned.ReplaceAllString(strings.TrimSpace(p.Text), "")
			if p.Text = strings.TrimSpace(p.Text); p.Text == "" {
				continue
			}
		case parley.PartToolCall, parley.PartToolResult:
			p.Name = claudecli.LoggedName(p.Name)
		}
		list = append(list, p)
	}
	return list
}

// claude checks whether the Claude CLI is there, if an app wants it.
func (d *doctor) claude(ctx context.Context, s config.Settings) {
	for name, a := range s.App {
		if a.Runtime == "claude" && !slices.Contains(d.onClaude, name) {
			d.onClaude = append(d.onClaude, name)
		}
	}
	slices.Sort(d.onClaude)
	slices.Sort(d.mayClaude)
	path, err := claudecli.Locate(whereIs(s.Claude))
	switch {
	case err == nil:
		version, err := claudecli.Version(ctx, path)
		if err != nil {
			d.caution("claude", err)
			return
		}
		reach := "it reaches only the files of its session"
		switch {
		case s.Claude.Shell == "cli":
			reach = "it has the rights of the server, as claude.shell says"
		case !fenced(s.Claude):
			reach = "this kernel cannot fence it in, so its model has only Parley's tools for files"
		}
		d.ok("claude", "the Claude CLI %s is %s; Parley was tested with %s; %s", version, path, claudecli.Tested, reach)
	case len(d.onClaude) > 0:
		d.fail("claude", parley.Errorf(parley.CodeUnavailable, "the runtime of %s is the Claude CLI: %w", strings.Join(d.onClaude, ", "), err).WithHint("%s", parley.Info(err).Hint))
	case len(d.mayClaude) > 0:
		d.caution("claude", parley.Errorf(parley.CodeUnavailable, "sessions of %s may choose the Claude CLI: %w", strings.Join(d.mayClaude, ", "), err).WithHint("%s", parley.Info(err).Hint))
	case s.Claude.Path != "" || s.Claude.NodeModules != "":
		d.caution("claude", err)
	}
}
