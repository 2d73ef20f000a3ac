package extension

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/approval"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/seam"
)

// SettingsFiles are the files in which a level may have hooks.
var SettingsFiles = []string{".claude/settings.json", ".claude/settings.local.json"}

// Hooks configures how hooks run.
type Hooks struct {
	Gate   *approval.Gate                   // approvals of user and workspace hooks; nil: those hooks do not run
	Value  func(name string) (string, bool) // the value of a variable, for hooks of the operator
	Places hook.Places
	Clean  func(text string) string // removes secrets from the error text of hooks
}

// foundHook is a hook and where it was found.
type foundHook struct {
	Level string
	File  string
	Entry hook.Entry
	Wrong string // the entry's error; here so that a changed error counts as a change
}

// hooks reads the settings files of a level. disableAllHooks turns off the level's own hooks
// and those of nearer levels, but never the operator's.
func (r *reader) hooks(level Level) {
	for _, name := range SettingsFiles {
		text, err := r.text(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			r.problem(r.level, name, err)
			r.unread(level, name, err)
			continue
		}
		f := hook.Parse([]byte(text))
		for _, m := range f.Mistakes {
			r.problem(r.level, name, m)
		}
		r.hooksOff = r.hooksOff || f.Off
		for _, e := range f.Entries {
			r.found(level, name, e)
		}
	}
	if r.hooksOff {
		r.look.hooks = slices.DeleteFunc(r.look.hooks, func(h foundHook) bool { return h.Level == level.Name })
	}
}

// found adds a hook. An invalid hook of the operator is kept and fails at each call. An invalid
// hook of a user or workspace is left out.
func (l *look) found(level Level, file string, e hook.Entry) {
	wrong := ""
	if e.Wrong != nil {
		if wrong = e.Wrong.Error(); !level.ofOperator() {
			return
		}
	}
	l.hooks = append(l.hooks, foundHook{level.Name, file, e, wrong})
}

// unread adds a hook that always fails, in place of the hooks in an operator's file that could
// not be read.
func (l *look) unread(level Level, file string, err error) {
	wrong := parley.Errorf(parley.CodeInvalid, "%s cannot be read: %w", orFolder(file), short(err))
	l.found(level, file, hook.Entry{Event: hook.PreToolUse, Name: "settings.json", Timeout: hook.DefaultTimeout, Wrong: wrong})
}

// Hooks implements hook.Source.
func (s *Set) Hooks() []hook.Hook {
	if s.o.Hooks == nil {
		return nil
	}
	var list []hook.Hook
	for _, f := range s.current().Hooks {
		i := slices.IndexFunc(s.o.Levels, func(l Level) bool { return l.Name == f.Level })
		list = append(list, s.hook(s.o.Levels[i], f))
	}
	return list
}

// hook makes a found hook runnable.
func (s *Set) hook(level Level, f foundHook) hook.Hook {
	h := hook.Hook{Entry: f.Entry, Level: f.Level}
	var allowed func(ctx context.Context) error
	if !level.ofOperator() {
		allowed = func(ctx context.Context) error { return s.o.Hooks.Gate.Allowed(ctx, s.subject(level, f)) }
		h.On = func(ctx context.Context) bool { return allowed(ctx) == nil }
	}
	if f.Entry.URL != "" {
		h.Do = s.service(level, f.Entry)
		return h
	}
	h.Do = func(ctx context.Context, message []byte) (hook.Said, error) {
		dir := ""
		if level.Dir != nil {
			dir = level.Dir()
		}
		if dir == "" {
			return hook.Said{}, parley.Errorf(parley.CodeInvalid, "the folder of its level is not on disk, so it cannot run there")
		}
		env := map[string]string{"CLAUDE_PROJECT_DIR": dir}
		if at := s.workspace(); at != "" {
			env["WORKSPACE_PATH"] = at
			if field, err := json.Marshal(at); err == nil && len(message) > 2 {
				message = slices.Concat([]byte(`{"cwd":`), field, []byte(","), message[1:])
			}
		}
		return hook.Program{Dir: dir, Env: env, Places: s.o.Hooks.Places, Clean: s.o.Hooks.Clean, Allowed: allowed}.Do(f.Entry)(ctx, message)
	}
	return h
}

// workspace returns where the workspace is on disk, or "".
func (s *Set) workspace() string {
	for _, l := range s.o.Levels {
		if l.Name == "workspace" && l.Dir != nil {
			return l.Dir()
		}
	}
	return ""
}

// service returns the function that calls a hook's URL. A hook in the operator's own file may
// call any host. Other hooks may only call hosts that the operator has listed.
func (s *Set) service(level Level, e hook.Entry) func(ctx context.Context, message []byte) (hook.Said, error) {
	var hosts []string
	if level.ofOperator() {
		if u, err := url.Parse(e.URL); err == nil {
			hosts = []string{u.Hostname()}
		}
	} else {
		hosts = s.o.Hooks.Gate.Hosts()
	}
	guard, err := dial.New(hosts, nil)
	if err != nil {
		return func(context.Context, []byte) (hook.Said, error) { return hook.Said{}, err }
	}
	of := approval.Options{Env: e.Env, Value: s.o.Hooks.Value}
	return hook.Service{Guard: guard, Places: s.o.Hooks.Places, Expand: func(header string) (string, error) {
		if level.ofOperator() {
			return approval.For(seam.Scope{}, of).Expand(header, nil)
		}
		return s.o.Hooks.Gate.ExpandOf(header, e.Env)
	}}.Do(e)
}

// subject returns what a person approves about a hook of a user or workspace, including the
// current content of its files.
func (s *Set) subject(level Level, f foundHook) approval.Subject {
	about := approval.Subject{Kind: parley.ApprovalHook, Level: f.Level, File: f.File, Name: f.Entry.Name, Runs: f.Entry.Runs, Remote: f.Entry.URL != ""}
	folder, end, err := s.open(f.Level)
	if err != nil {
		about.Wrong = err
		return about
	}
	defer end()
	dir := ""
	if level.Dir != nil {
		dir = level.Dir()
	}
	about = approval.Of(about, f.Entry.Raw, folder, dir)
	if f.Entry.URL != "" && about.Wrong == nil {
		about.Wrong = s.o.Hooks.Gate.Address(f.Entry.URL)
		for _, value := range f.Entry.Headers {
			if _, err := s.o.Hooks.Gate.ExpandOf(value, f.Entry.Env); err != nil && about.Wrong == nil {
				about.Wrong = err
			}
		}
	}
	return about
}

// subjects returns all hooks that need an approval.
func (s *Set) subjects() (list []approval.Subject) {
	if s.o.Hooks == nil {
		return nil
	}
	for _, f := range s.current().Hooks {
		i := slices.IndexFunc(s.o.Levels, func(l Level) bool { return l.Name == f.Level })
		if level := s.o.Levels[i]; !level.ofOperator() {
			list = append(list, s.subject(level, f))
		}
	}
	return list
}

// Approvals implements seam.Applicant.
func (s *Set) Approvals(ctx context.Context) []parley.Approval {
	s.Refresh(ctx)
	if list := s.subjects(); len(list) > 0 {
		return s.o.Hooks.Gate.States(ctx, list)
	}
	return nil
}

// Approve implements seam.Applicant.
func (s *Set) Approve(ctx context.Context, d parley.Digest, c parley.DecideApproval) (parley.Approval, error) {
	s.Refresh(ctx)
	for _, about := range s.subjects() {
		if about.Digest == d {
			return s.o.Hooks.Gate.Decide(ctx, about, c)
		}
	}
	return parley.Approval{}, parley.Errorf(parley.CodeNotFound, "there is no hook with this digest")
}
