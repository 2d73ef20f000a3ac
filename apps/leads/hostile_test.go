package leads_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestLeadsProcess_hostile_model: a model that tries everything, and a client that helps it, get no
// write to the CRM that its user has not confirmed. The CRM counts.
func TestLeadsProcess_hostile_model(t *testing.T) {
	t.Parallel()
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &lax{}
			o := newOffice(t, store(t), "testdata/hostile", func(o *office) {
				o.brain = evil{}
				o.front = func(crm http.Handler) http.Handler { api.Handler = crm; return api }
			})
			token, other := o.token(jonas), o.token(ruben)
			lead := o.lead(token)
			// One write is confirmed, so that there is an old id.
			b := o.browser(token)
			first := b.proposes(`CALL {"method":"POST","path":"/api/leads","title":"T","summary":"S","body":{ "name": "A <b> \u003c é", "email" : "a@b.example",	"value":1200 }}`)
			if f := b.ask("CONFIRM_ACTION: " + first.ID); f.Type != "turn.completed" {
				t.Fatalf("got %+v", b.frames)
			}
			list := o.crm.Writes()
			if len(list) != 1 || list[0].Method != first.Method || list[0].Path != first.Path || list[0].Body != string(first.Body) || list[0].User != "user_jonas" || list[0].Org != "org_fieldnote" {
				t.Fatalf("what was sent is not what was shown: %+v, %s", list, first.Body)
			}
			none := func(what string) {
				t.Helper()
				if n := o.crm.Counts().Writes; n != 1 {
					t.Fatalf("%s: %d writes: %+v", what, n-1, o.crm.Writes()[1:])
				}
			}
			fill := strings.NewReplacer("LEAD", lead, "OLD", first.ID, "CRM", o.crmURL)
			for _, a := range attempts {
				b = o.browser(token) // since a connection may say only so much at once
				message := fill.Replace(a.say)
				before := api.reached.Load()
				f := b.ask(message)
				none(message)
				w, asked := confirmOf(f)
				calls := api.reached.Load() - before
				ok := false
				switch a.want {
				case "asked":
					ok = asked && calls == 0 && w.ID != first.ID
				case "read":
					ok = f.Type == "turn.completed" && !asked && calls == 1
				case "said":
					ok = f.Type == "turn.completed" && !asked && calls == 0 && len(b.frames) <= 5
				default:
					ok = f.Type == "turn.completed" && !asked && calls == 0 && strings.Contains(f.Text, fill.Replace(a.want))
				}
				if !ok {
					t.Errorf("%s: want %q; got %d requests and %+v", message, a.want, calls, b.frames)
				}
				f = b.ask("CONFIRM_ACTION: " + first.ID) // of another session, and used
				if f.Type != "error" {
					t.Errorf("%s: got %+v", message, f)
				}
				none(message + ", then an old id")
				b.ask("No.")
				none(message + ", declined")
			}

			// What a client may try with an action that waits.
			b = o.browser(token)
			post := `CALL {"method":"POST","path":"/api/leads","body":{"name":"Eve","email":"eve@evil.example"}}`
			w := b.proposes(post)
			waiting := b.session
			for _, said := range []string{
				"CONFIRM_ACTION: " + w.ID + " ", "confirm_action: " + w.ID, "CONFIRM_ACTION " + w.ID, "CONFIRM_ACTION: " + w.ID + " please", "CONFIRM_ACTION: " + strings.ToLower(w.ID), "CONFIRM_ACTION:", "CONFIRM_ACTION: " + first.ID,
			} {
				if said == "CONFIRM_ACTION: "+w.ID+" " {
					continue // spaces around a message mean nothing
				}
				if f := b.ask(said); f.Type != "error" {
					t.Errorf("%s: got %+v", said, f)
				}
				none(said)
			}
			for who, with := range map[string]string{"another user": other, "nobody": "crm_unknown_token", "no token": ""} {
				c := o.browser(with)
				c.session = waiting
				if f := c.ask("CONFIRM_ACTION: " + w.ID); f.Type != "error" {
					t.Errorf("%s: got %+v", who, f)
				}
				none(who)
				if with == other {
					if status, said := o.native(other, "POST", "/v1/interactions/"+w.ID+"/answer", `{"choice":"allow"}`); status != 404 {
						t.Errorf("%s: %d %s", who, status, said)
					}
				}
			}
			b.session = ""
			if f := b.ask("CONFIRM_ACTION: " + w.ID); f.Type != "error" {
				t.Errorf("in another conversation: got %+v", f)
			}
			for what, answer := range map[string]string{
				"another body": `{"choice":"allow","input":{"method":"DELETE","path":"/api/leads/` + lead + `"}}`, "for the session": `{"choice":"allow_session"}`,
				"one space more": `{"choice":"allow","input":{"method":"POST","path":"/api/leads","body":{"name":"Eve ","email":"eve@evil.example"}}}`,
			} {
				if status, said := o.native(token, "POST", "/v1/interactions/"+w.ID+"/answer", answer); status != 400 {
					t.Errorf("%s: %d %s", what, status, said)
				}
				none(what)
			}
			// A session that asks nothing still confirms.
			if status, said := o.native(token, "PATCH", "/v1/sessions/"+waiting, `{"mode":"bypassPermissions"}`); status != 200 {
				t.Errorf("%d %s", status, said)
			}
			b.session = waiting
			if f := b.ask(`CALL {"method":"POST","path":"/api/leads","body":{"name":"Eve ","email":"eve@evil.example"}}`); f.Type != "turn.completed" { // declines it
				t.Errorf("got %+v", b.frames)
			}
			none("a body with one space more, in place of the one that waited")
			if f := b.ask("CONFIRM_ACTION: " + w.ID); f.Type != "error" {
				t.Errorf("got %+v", f)
			}
			none("a declined id")
			w = b.proposes(post)
			// A fork and a rewind have nothing to confirm.
			if status, said := o.native(token, "POST", "/v1/sessions/"+b.session+"/fork", `{}`); status == 201 {
				var fork struct{ ID string }
				_ = json.Unmarshal([]byte(said), &fork)
				b.session = fork.ID
				if f := b.ask("CONFIRM_ACTION: " + w.ID); f.Type != "error" {
					t.Errorf("in a fork: got %+v", f)
				}
				b.session = waiting
			} else {
				t.Errorf("%d %s", status, said)
			}
			none("a fork")
			b.say(map[string]any{"type": "reset", "sessionId": waiting})
			if f := b.ask("CONFIRM_ACTION: " + w.ID); f.Type != "error" {
				t.Errorf("after a reset: got %+v", f)
			}
			none("after a reset")

			// At last the same is confirmed by four at once.
			b.session = ""
			w = b.proposes(post)
			var at sync.WaitGroup
			for range 4 {
				c := o.browser(token)
				c.session = b.session
				at.Go(func() {
					c.say(map[string]any{"type": "chat", "message": "CONFIRM_ACTION: " + w.ID, "token": token, "sessionId": c.session})
				})
			}
			at.Wait()
			if f := b.ask("CONFIRM_ACTION: " + w.ID); f.Type == "error" && !strings.Contains(f.Message, "confirmed already") {
				t.Errorf("got %+v", f)
			}
			list = o.crm.Writes()
			if len(list) != 2 || list[1].Body != string(w.Body) {
				t.Errorf("got %s", fmt.Sprint(list))
			}
			o.stop(interrupt)
			o.noToken(token, other)
		})
	}
}
