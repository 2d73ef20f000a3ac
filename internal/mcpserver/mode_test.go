package mcpserver_test

import (
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestModesAreNotForHosts: the seed's wire has no permission modes. A host that asks for one, or for
// the list of modes, is refused with the field's name. No session is made, and none changes its mode.
func TestModesAreNotForHosts(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, mailer, enginetest.App(asking))
		c := h.host(era, "", nil)
		session := c.call("test.start_session", nil)["session_id"].(string)
		const bypass = parley.ModeBypassPermissions
		for _, try := range []struct {
			tool, field string
			in          args
		}{
			{"test.start_session", "mode", args{"mode": bypass}},
			{"test.start_session", "policy.mode", args{"policy": args{"mode": bypass}}},
			{"test.start_session", "policy.modes", args{"policy": args{"modes": []any{bypass}}}},
			{"test.send_message", "mode", args{"session_id": session, "message": "mail", "mode": bypass}},
			{"test.send_message", "policy", args{"session_id": session, "message": "mail", "policy": args{"modes": []any{bypass}}}},
			{"test.ask", "mode", args{"message": "mail", "mode": bypass}},
			{"test.ask", "policy", args{"message": "mail", "policy": args{"modes": []any{bypass}}}},
			{"test.retry", "mode", args{"continuation_id": "x", "mode": bypass}},
			{"test.resume", "mode", args{"continuation_id": "x", "mode": bypass}},
		} {
			if e := c.refused(try.tool, try.in); e.Code != parley.CodeInvalid || e.Field != try.field || e.Hint == "" {
				t.Errorf("%s %v: %+v, want the field %s", try.tool, try.in, e, try.field)
			}
		}
		list, err := h.Engine.Sessions(t.Context(), enginetest.User, seam.SessionQuery{Direct: true})
		if err != nil || len(list) != 1 {
			t.Fatalf("%d sessions, %v", len(list), err)
		}
		s, err := h.Engine.State(t.Context(), enginetest.User, list[0].ID)
		if err != nil || s.Mode != "" && s.Mode != parley.ModeDefault {
			t.Errorf("the mode is %q, %v", s.Mode, err)
		}
	})
}
