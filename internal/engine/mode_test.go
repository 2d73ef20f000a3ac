package engine_test

import (
	"errors"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestModeOfAnApp: a session that names no mode has the app's, where its own policy offers it.
func TestModeOfAnApp(t *testing.T) {
	app := enginetest.App(func(a *parley.App) { a.Mode = parley.ModeAcceptEdits })
	rigged(t, mailer("mail"), app, func(t *testing.T, r *enginetest.Rig) {
		for want, c := range map[parley.PermissionMode]parley.CreateSession{
			parley.ModeAcceptEdits: {},
			parley.ModeDefault:     {Mode: parley.ModeDefault},
			parley.ModePlan:        {Mode: parley.ModePlan},
			"":                     {Policy: &parley.Policy{Modes: []parley.PermissionMode{}}},
		} {
			s := r.Session(func(s *parley.CreateSession) { s.Mode, s.Policy = c.Mode, c.Policy })
			st, err := r.Engine.State(ctx, enginetest.User, s.ID)
			if err != nil || st.Mode != want {
				t.Errorf("a session with %+v has mode %q, want %q, %v", c, st.Mode, want, err)
			}
		}
	})
}

// TestModesOfAnApp: a caller chooses among the modes that the app offers. A log from elsewhere
// cannot bring in another mode.
func TestModesOfAnApp(t *testing.T) {
	bypass := parley.ModeBypassPermissions
	offering := func(modes ...parley.PermissionMode) parley.App {
		return enginetest.App(asking, func(a *parley.App) { a.Policy.Modes = modes })
	}
	field := func(err error) string {
		e, _ := errors.AsType[*parley.Error](err)
		if e == nil {
			return ""
		}
		return e.Field
	}
	create := func(r *enginetest.Rig, c parley.CreateSession) (parley.SessionInfo, error) {
		c.App = "test"
		s, _, err := r.Engine.Create(ctx, enginetest.User, c)
		return s, err
	}
	modeOf := func(t *testing.T, r *enginetest.Rig, id parley.SessionID) parley.PermissionMode {
		st, err := r.Engine.State(ctx, enginetest.User, id)
		if err != nil {
			t.Fatal(err)
		}
		return st.Mode
	}
	rigged(t, mailer("mail"), offering(bypass), func(t *testing.T, open *enginetest.Rig) {
		s, err := create(open, parley.CreateSession{Mode: bypass})
		if err != nil {
			t.Fatal(err)
		}
		plan := parley.ModePlan
		if _, err := open.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Mode: &plan}); code(err) != parley.CodeForbidden || field(err) != "mode" {
			t.Errorf("a mode that the app leaves out: %v", err)
		}
		narrow, err := create(open, parley.CreateSession{Policy: &parley.Policy{Modes: []parley.PermissionMode{}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open.Engine.Update(ctx, enginetest.User, narrow.ID, parley.UpdateSession{Mode: &bypass}); code(err) != parley.CodeForbidden || field(err) != "mode" {
			t.Errorf("a mode that the session's policy leaves out: %v", err)
		}
		same, err := open.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil || modeOf(t, open, same.ID) != bypass {
			t.Errorf("a fork where the mode is offered: %v", err)
		}
		log := open.Log(s.ID)
		open.Close()

		r := enginetest.Over(t, open.Mem, open.Service, open.Model, offering())
		r.T = t
		defer r.Close()
		if _, err := create(r, parley.CreateSession{Mode: bypass}); code(err) != parley.CodeForbidden || field(err) != "mode" {
			t.Errorf("create: %v", err)
		}
		if _, err := create(r, parley.CreateSession{Policy: &parley.Policy{Modes: []parley.PermissionMode{bypass}}}); code(err) != parley.CodeInvalid || field(err) != "policy.modes[0]" {
			t.Errorf("a policy that is wider: %v", err)
		}
		if _, err := create(r, parley.CreateSession{Policy: &parley.Policy{Modes: []parley.PermissionMode{"yolo"}}}); code(err) != parley.CodeInvalid || field(err) != "policy.modes[0]" {
			t.Errorf("a policy with a mode that is none: %v", err)
		}
		own, err := create(r, parley.CreateSession{Mode: parley.ModePlan})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Engine.Update(ctx, enginetest.User, own.ID, parley.UpdateSession{Mode: &bypass}); code(err) != parley.CodeForbidden || field(err) != "mode" {
			t.Errorf("update: %v", err)
		}
		if got := r.Await(r.Send(s.ID, "go").ID); got.Status != parley.StatusWaiting {
			t.Errorf("a session that has the mode from before does not ask: %s", got.Status)
		}
		forked, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil || modeOf(t, r, forked.ID) != parley.ModeDefault {
			t.Errorf("fork: %v", err)
		}
		imported, err := r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: log})
		if err != nil || modeOf(t, r, imported.ID) != parley.ModeDefault {
			t.Errorf("import: %v", err)
		}
		for _, id := range []parley.SessionID{forked.ID, imported.ID} {
			if err := enginetest.CheckLog(r.Log(id)); err != nil {
				t.Error(err)
			}
		}
	})
}
