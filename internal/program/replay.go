package program

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
)

// maxRecording limits a file to be replayed, in bytes.
const maxRecording = 256 << 20

// readRecording reads an exported session, or a scenario made from one.
func readRecording(name string) (*replay.Recording, error) {
	if isFolder(name) {
		return nil, usage(parley.Errorf(parley.CodeInvalid, "%s is a folder", name).WithHint("give the file in it"))
	}
	f, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, parley.Errorf(parley.CodeNotFound, "%w", err).WithHint("`parley session export` writes one")
	}
	defer f.Close()
	file, err := io.ReadAll(io.LimitReader(f, maxRecording+1))
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "read %s: %w", name, err)
	}
	if len(file) > maxRecording {
		return nil, parley.Errorf(parley.CodeTooLarge, "%s has more than %d bytes", name, maxRecording)
	}
	if replay.IsScenario(file) {
		return replay.ReadScenario(file)
	}
	events, blobs, err := archive.Log(bytes.NewReader(file), int64(len(file)), archive.Limits{})
	if err != nil {
		return nil, parley.Errorf(parley.CodeOf(err), "%s: %w", name, err).WithHint("`parley session export` writes such a file")
	}
	return replay.New(events, blobs)
}

func sessionReplay(f *flags) *cobra.Command {
	var o replay.Options
	var prompts []string
	var policy string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "replay FILE", Short: "Run an exported session again from its recorded replies and results", Args: listed(cobra.ExactArgs(1), "parley session export makes such a file"),
		Long: `Run an exported session again, offline: the real engine, with the recorded replies of
the models and the recorded results of the tools. It says where the run first differs
from the recording, and ends with 1 when it does.

With --model, that model answers in place of the recorded replies (its provider is
asked, and costs what it costs). With --prompt, an agent has another prompt; what then
differs first in what models are asked is shown. With --policy, the app has another
policy, read from a file of YAML or JSON. Tools answer as recorded in each case, and
nothing is done to the world.`,
		Example: `  parley session export last -o s.zip && parley session replay s.zip
  parley session replay s.zip --model anthropic/claude-sonnet-5-5
  parley session replay s.zip --prompt assistant=new-prompt.md`,
		RunE: func(cmd *cobra.Command, args []string) error {
			rec, err := readRecording(args[0])
			if err != nil {
				return err
			}
			if err := f.replayWith(cmd, &o, prompts, policy); err != nil {
				return err
			}
			for agent := range o.Prompts {
				if all := rec.Agents(); !slices.Contains(all, agent) {
					return usage(parley.Errorf(parley.CodeInvalid, "--prompt: the recording has no agent %q", agent).WithHint("it has %s", strings.Join(all, ", ")))
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return runAgain(ctx, cmd.OutOrStdout(), rec, o, asJSON)
		},
	}
	cmd.Flags().StringVar(&o.Model, "model", "", "the model that answers instead of the recorded replies")
	cmd.Flags().StringArrayVar(&prompts, "prompt", nil, "AGENT=FILE: another prompt for an agent; may be given several times")
	cmd.Flags().StringVar(&policy, "policy", "", "a file with another policy")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// replayWith makes options from flags.
func (f *flags) replayWith(cmd *cobra.Command, o *replay.Options, prompts []string, policy string) error {
	for _, p := range prompts {
		agent, file, ok := strings.Cut(p, "=")
		if !ok || agent == "" {
			return usage(parley.Errorf(parley.CodeInvalid, "--prompt is %q", p).WithHint("write it like assistant=prompt.md"))
		}
		raw, err := os.ReadFile(file) //nolint:gosec // the user names it
		if err != nil {
			return usage(parley.Errorf(parley.CodeInvalid, "--prompt: %w", err))
		}
		if o.Prompts == nil {
			o.Prompts = map[string]string{}
		}
		o.Prompts[agent] = string(raw)
	}
	if policy != "" {
		raw, err := os.ReadFile(policy) //nolint:gosec // the user names it
		if err == nil {
			o.Policy, err = config.ReadPolicy(policy, raw)
		}
		if err != nil {
			return usage(parley.Errorf(parley.CodeInvalid, "--policy: %w", err))
		}
	}
	s, err := f.settings(cmd)
	if err != nil {
		return err
	}
	log := newLogger(s, cmd.ErrOrStderr())
	p, err := f.kit.planFor(s, true, log)
	if err != nil {
		return err
	}
	defer p.close()
	if o.Model != "" {
		if _, err := p.models.Model(o.Model); err != nil {
			return usage(err)
		}
		o.Models = p.models
	}
	o.Info = func(name string) seam.ModelInfo {
		if m, err := p.models.Model(name); err == nil {
			return m.Info()
		}
		return seam.ModelInfo{Name: name, Provider: "recorded", ContextTokens: 200_000, MaxOutputTokens: 8192}
	}
	return nil
}

func runAgain(ctx context.Context, out io.Writer, rec *replay.Recording, o replay.Options, asJSON bool) error {
	res, err := replay.Run(ctx, rec, o)
	if err != nil {
		return err
	}
	compare := replay.Compare
	if o.Models != nil {
		compare = replay.CompareModels
	}
	where := compare(rec.Events, res.Events)
	if len(o.Prompts) > 0 && o.Models == nil {
		// The replies are recorded, so a changed prompt shows only in the requests.
		as := o
		as.Prompts = nil
		base, err := replay.Run(ctx, rec, as)
		if err != nil {
			return err
		}
		where = cmp.Or(replay.Prompts(base.Requests, res.Requests), where)
	}
	if asJSON {
		if err := printJSON(out, map[string]any{
			"events": len(res.Events), "turns": res.Turns, "model_calls": len(res.Requests), "same": where == nil, "divergence": where,
		}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "%s, %s and %s were run again.\n",
			count(res.Turns, "turn", "turns"), count(len(res.Requests), "model call", "model calls"), count(len(res.Events), "event", "events"))
		if where == nil {
			fmt.Fprintln(out, "There is no difference.")
		} else {
			fmt.Fprintf(out, "The first difference: %s\n", where)
		}
	}
	if where != nil {
		return &exitError{code: exitFailed}
	}
	return nil
}

var fileName = regexp.MustCompile(`[^a-z0-9]+`)

func sessionToTest(_ *flags) *cobra.Command {
	var about, name string
	cmd := &cobra.Command{
		Use: "to-test FILE DIR", Short: "Make a regression test of an exported session", Args: listed(cobra.ExactArgs(2), "parley session export makes such a file"),
		Long: `Make a regression test of an exported session: one text file in DIR that holds its log
and its apps, without secrets. ` + "`parley session replay`" + ` runs it, and so does Parley's own
test of package internal/replay when DIR is its testdata/scenarios. Names and texts of
people stay in it: read it before you give it away.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			rec, err := readRecording(args[0])
			if err != nil {
				return err
			}
			res, err := replay.Run(cmd.Context(), rec, replay.Options{})
			if err != nil {
				return err
			}
			if d := replay.Compare(rec.Events, res.Events); d != nil {
				return parley.Errorf(parley.CodeConflict, "running the session again gives other events, so it cannot become a test: %s", d)
			}
			if name == "" {
				name = strings.Trim(fileName.ReplaceAllString(strings.ToLower(titleOf(rec)), "-"), "-")
			}
			hide := redact.New()
			file, err := rec.Scenario(about, func(text string) string { clean, _ := hide.JSON([]byte(text)); return string(clean) })
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[1], 0o750); err != nil {
				return parley.Errorf(parley.CodeInvalid, "%w", err)
			}
			to := filepath.Join(args[1], cmp.Or(name, "session")+".txtar")
			if err := writeNew(to, file); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s\n", to, count(res.Turns, "turn", "turns"), count(len(rec.Events), "event", "events"))
			return nil
		},
	}
	cmd.Flags().StringVar(&about, "about", "", "a comment at the top of the file: what the test shows")
	cmd.Flags().StringVar(&name, "name", "", "the file's name; default: from the first message")
	return cmd
}

// writeNew writes a new file: sessions often begin with the same words, and one test must
// not overwrite another.
func writeNew(name string, body []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names it
	if errors.Is(err, fs.ErrExist) {
		return parley.Errorf(parley.CodeConflict, "the file %s exists already", name).WithHint("give the test another name with --name, or delete the file")
	}
	if err == nil {
		_, err = f.Write(body)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return parley.Errorf(parley.CodeInvalid, "%w", err)
	}
	return nil
}

// titleOf is the beginning of the first message.
func titleOf(rec *replay.Recording) string {
	for _, ev := range rec.Events {
		if p, err := ev.Payload(); err == nil {
			if t, ok := p.(parley.TurnStarted); ok {
				return parley.Cut(t.Message.Text(), 40)
			}
		}
	}
	return ""
}
