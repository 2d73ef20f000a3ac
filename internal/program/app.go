package program

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/shell"
	"github.com/parley-server/parley/internal/toolbox"
)

func newApp(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "app", Short: "Work on apps"}
	group(cmd)
	var asJSON bool
	check := &cobra.Command{
		Use: "check [FOLDER or NAME]", Short: "Read an app as the server would, and report every mistake", Args: listed(cobra.MaximumNArgs(1), "check one app, or all in a folder with: parley app check --apps FOLDER"),
		Long: `Read an app as the server would, and report every mistake with its file and line, as
FILE:LINE: what is wrong. The app is a folder, or the name of an app that the settings
know. Without one it reads every app that the server would serve. With --json it prints {"ok", "apps", "mistakes", "warnings"}: the names of the apps that are
right, and file, line and text of each mistake and each warning. A tool that only a rule names,
of the policy or of the script, is a mistake here and a warning in the server's log. What can
be known only while the app runs is a warning here, too.

Exit codes: 0 all is right, or there are only warnings, 1 there are mistakes, 2 wrong usage or settings.`,
		Example: `  parley app check my-apps/mine
  parley app check --apps my-apps --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.settings(cmd)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				dir, err := filepath.Abs(args[0])
				if err != nil {
					return usage(parley.Errorf(parley.CodeInvalid, "%w", err))
				}
				if s, err = f.kit.only(s, args[0], dir); err != nil {
					return usage(err)
				}
			}
			fine, wrong, unsure, err := f.kit.check(s, newLogger(s, cmd.ErrOrStderr()))
			if err != nil {
				return usage(err)
			}
			out := cmd.OutOrStdout()
			if asJSON {
				names := []string{}
				for _, a := range fine {
					names = append(names, a.Name)
				}
				err = printJSON(out, map[string]any{"ok": len(wrong) == 0, "apps": names, "mistakes": append([]config.Mistake{}, wrong...), "warnings": append([]config.Mistake{}, unsure...)})
			} else {
				err = printChecked(cmd, fine, wrong, unsure)
			}
			if err != nil || len(wrong) == 0 {
				return err
			}
			return &exitError{exitFailed, parley.Errorf(parley.CodeInvalid, "%s", count(len(wrong), "mistake", "mistakes"))}
		},
	}
	check.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(check, newAppNew(f))
	return cmd
}

// only returns the settings with a single app: the one in the folder dir, which was given as
// arg, or the one that the settings know by the name arg.
func (k *kit) only(s config.Settings, arg, dir string) (config.Settings, error) {
	if _, err := os.Stat(filepath.Join(dir, "app.yaml")); err == nil {
		s.Apps, s.Enabled, s.App = filepath.Dir(dir), []string{filepath.Base(dir)}, nil
		return s, nil
	}
	known, err := s.AppNames(k.folders)
	if err != nil {
		return s, err
	}
	if slices.Contains(known, arg) {
		s.Enabled, s.App = []string{arg}, nil
		return s, nil
	}
	switch info, err := os.Stat(dir); {
	case err != nil:
		return s, parley.Errorf(parley.CodeNotFound, "there is no folder %s, and no app %q", dir, parley.Cut(arg, 60)).
			WithHint("apps here: %s; give one of these, or the folder of an app.yaml", strings.Join(known, ", "))
	case !info.IsDir():
		return s, parley.Errorf(parley.CodeInvalid, "%s is a file", dir).WithHint("give the folder of an app.yaml")
	}
	hint := "give the folder of an app.yaml; parley app new makes one"
	if inside, _ := fs.Glob(os.DirFS(dir), "*/app.yaml"); len(inside) > 0 {
		hint = "it is a folder of apps: check one of them, or all with parley app check --apps " + shell.Quote(arg, "")
	}
	return s, parley.Errorf(parley.CodeInvalid, "%s has no app.yaml", dir).WithHint("%s", hint)
}

func printChecked(cmd *cobra.Command, fine []parley.App, wrong, unsure []config.Mistake) error {
	out := cmd.OutOrStdout()
	style := terminal(cmd).Style(out)
	for _, a := range fine {
		line := fmt.Sprintf("%s  %s: %s, %s, model %s", style.Green("ok"), a.Name, count(len(a.Agents), "agent", "agents"), count(len(a.Tools), "tool", "tools"), a.Model)
		if len(a.Wires) > 0 {
			line += ", wires " + strings.Join(a.Wires, ", ")
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	for _, m := range wrong {
		if _, err := fmt.Fprintln(out, m); err != nil {
			return err
		}
	}
	for _, m := range unsure {
		m.Text = "warning: " + m.Text
		if _, err := fmt.Fprintln(out, m); err != nil {
			return err
		}
	}
	return nil
}

// check reads the apps named in s. Its error is about the settings only.
func (k *kit) check(s config.Settings, log *slog.Logger) (fine []parley.App, wrong, unsure []config.Mistake, err error) {
	answers, err := newAnswerers(s, log)
	if err != nil {
		return nil, nil, nil, err
	}
	if s.Model == "" {
		if s.Models.Default, s.Models.Hosted, err = answers.defaultModel(); err != nil {
			return nil, nil, nil, err
		}
	}
	list, err := s.ReadApps(k.folders, k.known())
	if err != nil {
		return nil, nil, nil, err
	}
	p := &plan{kit: k, settings: s, models: answers, red: redact.New(knownSecrets(s)...), asks: true}
	defer p.close()
	for _, r := range list {
		one, bad, doubts := p.check(r, log)
		unsure = append(unsure, doubts...)
		if wrong = append(wrong, bad...); len(bad) == 0 {
			fine = append(fine, one)
		}
	}
	if len(wrong) == 0 {
		if _, err := doorsOf(fine, doorDeps{plan: p}); err != nil { // two apps claim the same path
			wrong = mistakesOf(err, config.Mistake{})
		}
	}
	if len(wrong) == 0 && len(fine) == 0 {
		return nil, nil, nil, parley.Errorf(parley.CodeInvalid, "there is no app to check")
	}
	return fine, wrong, unsure, nil
}

// check reports everything that can be found wrong with one app without running it. An
// unreadable part hides as little as possible of the rest. Names in rules that the app does not have
// are mistakes only if p.asks. The server logs them instead, because it can serve the app.
func (p *plan) check(r config.Read, log *slog.Logger) (one parley.App, wrong, unsure []config.Mistake) {
	wrong = mistakesOf(r.Err, config.Mistake{File: r.Name})
	a := r.App
	if a == nil {
		return one, wrong, nil
	}
	add := func(err error, at string) {
		if err != nil {
			for _, m := range mistakesOf(err, a.Mistake(at, "%s", app.Says(err))) {
				if !slices.ContainsFunc(wrong, func(had config.Mistake) bool { return sameKey(had, m) }) {
					wrong = append(wrong, m) // else the value could not be read, and whoever uses it says so again
				}
			}
		}
	}
	a.Toolsets = slices.DeleteFunc(a.Toolsets, func(t config.Toolset) bool {
		return p.kit.tools[t.Kind] == nil // reported already
	})
	sets, err := p.toolsets(a, true, nil, log)
	defer release(sets)
	add(err, "tools")
	if err == nil {
		known, unknown := setsOf(sets)
		box, err := toolbox.New(known, toolbox.Options{Logger: log, Redact: p.red.String})
		if !slices.ContainsFunc(wrong, func(m config.Mistake) bool { return strings.HasPrefix(m.Text, "tools.") }) {
			add(err, "tools") // else it says the same again, less exactly
		}
		if err == nil {
			one, err = a.Resolve(box.Decls(), unknown...)
			add(err, "agents")
			if p.asks {
				var strange []config.Mistake
				strange, unsure = a.Strange(one, box.Decls(), unknown, scriptNames(a)...)
				wrong = append(wrong, strange...)
			} else if err == nil {
				warnStrange(a, one, box.Decls(), unknown, log)
			}
		}
	}
	script := p.script(a)
	wrong = append(wrong, script...)
	if len(script) == 0 {
		add(p.models.add(p.settings, []*config.App{a}), "script")
	}
	unscripted := slices.ContainsFunc(wrong, func(m config.Mistake) bool { return strings.HasPrefix(m.Text, "script: ") }) || len(script) > 0
	for _, use := range modelsUsed(a.App) {
		if unscripted && use.model == "scripted/"+a.Name {
			continue // caused by the mistakes in its script
		}
		_, err := p.models.Model(use.model)
		add(err, use.at)
	}
	if len(wrong) == 0 {
		add(p.models.host(&one, p.settings.Data, p.there), "model")
	}
	for _, list := range [][]config.Mistake{wrong, unsure} {
		slices.SortStableFunc(list, func(x, y config.Mistake) int {
			return cmp.Or(strings.Compare(x.File, y.File), x.Line-y.Line)
		})
	}
	return one, slices.Compact(wrong), slices.Compact(unsure)
}

// scriptNames returns the tools and agents that the rules of an app's script name.
func scriptNames(a *config.App) (list []config.Named) {
	if a.Script == "" {
		return nil
	}
	raw, err := fs.ReadFile(a.Files, a.Script)
	if err != nil {
		return nil // which is said already
	}
	for _, n := range scripted.Names(raw) {
		list = append(list, config.Named{At: n.At, File: scriptFile(a), Line: n.Line, By: n.By, Tool: n.Tool, Agent: n.Agent})
	}
	return list
}

// warnStrange logs the names in an app's rules that the app does not have.
func warnStrange(a *config.App, resolved parley.App, decls []parley.ToolDecl, unknown []string, log *slog.Logger) {
	wrong, _ := a.Strange(resolved, decls, unknown, scriptNames(a)...)
	for _, m := range wrong {
		log.Warn("a rule of an app names what the app does not have", "app", a.Name, "rule", m.String())
	}
}

// scriptFile is the name of an app's script in messages.
func scriptFile(a *config.App) string { return path.Join(filepath.ToSlash(a.Where), a.Script) }

// sameKey reports whether two mistakes are about the same key of the same file.
func sameKey(a, b config.Mistake) bool {
	keyA, _, okA := strings.Cut(a.Text, ": ")
	keyB, _, okB := strings.Cut(b.Text, ": ")
	return okA && okB && keyA == keyB && a.File == b.File && a.Line == b.Line
}

// script reports the mistakes in an app's script.
func (p *plan) script(a *config.App) (wrong []config.Mistake) {
	if a.Script == "" {
		return nil
	}
	raw, err := fs.ReadFile(a.Files, a.Script)
	if err != nil {
		return nil // which is said already
	}
	for _, m := range scripted.Check(raw) {
		wrong = append(wrong, config.Mistake{File: scriptFile(a), Line: m.Line, Text: m.Text})
	}
	return wrong
}

type modelUse struct{ at, model string }

// modelsUsed lists the models that an app names, and where.
func modelsUsed(a parley.App) []modelUse {
	uses := []modelUse{{"model", a.Model}}
	for i, m := range a.Fallbacks {
		uses = append(uses, modelUse{fmt.Sprintf("fallbacks[%d]", i), m})
	}
	for _, name := range names(a.Agents) {
		d, at := a.Agents[name], "agents."+name
		uses = append(uses, modelUse{at + ".model", d.Model})
		for i, m := range d.Fallbacks {
			uses = append(uses, modelUse{fmt.Sprintf("%s.fallbacks[%d]", at, i), m})
		}
	}
	return slices.DeleteFunc(uses, func(u modelUse) bool {
		return u.model == "" || strings.Contains(strings.SplitN(u.model, "/", 2)[0], hostedSuffix) // made later
	})
}

// mistakesOf returns the mistakes in an error, or else otherwise as the only one.
func mistakesOf(err error, otherwise config.Mistake) []config.Mistake {
	if err == nil {
		return nil
	}
	if list, ok := errors.AsType[config.Mistakes](err); ok {
		return list
	}
	if otherwise.Text == "" {
		otherwise.Text = app.Says(err)
	}
	return []config.Mistake{otherwise}
}
