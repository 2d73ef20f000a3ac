package leads_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestLeadsProcess_login_that_has_ended: a user logs out at the API after a write was proposed, while
// the server still has the API's yes to the token. The confirmation is not lost: the turn waits for a
// new token, and then the write is made, once.
func TestLeadsProcess_login_that_has_ended(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "sqlite", "testdata/hostile")
	token, other := o.token(jonas), o.token(jonas)
	b := o.browser(token)
	want := b.proposes(`CALL {"method":"POST","path":"/api/leads","body":{"name":"Ida Holm"}}`)
	o.logOut(token)
	if f := b.ask("CONFIRM_ACTION: " + want.ID); f.Type != "error" || !strings.Contains(f.Message, "Your login is needed") {
		t.Errorf("got %+v", b.frames)
	}
	if n := o.crm.Counts().Writes; n != 0 {
		t.Errorf("%d writes with a token that has ended", n)
	}
	if f := b.ask("CONFIRM_ACTION: " + want.ID); f.Type != "error" || !strings.Contains(f.Message, "Log in again") {
		t.Errorf("the token still counts: got %+v", b.frames)
	}
	// The page is told, too, by the request with which it finds out: nobody's conversations are not theirs.
	if status, body := o.native(token, http.MethodGet, "/api/chat/conversations", ""); status != http.StatusUnauthorized || !strings.Contains(body, "Log in again") {
		t.Errorf("got %d %s", status, body)
	}
	if status, body := o.native(other, http.MethodGet, "/api/chat/conversations", ""); status != http.StatusOK {
		t.Errorf("got %d %s", status, body)
	}
	b.token = other
	if f := b.ask("CONFIRM_ACTION: " + want.ID); f.Type != "turn.completed" || !strings.Contains(f.Text, "Ida Holm") {
		t.Errorf("got %+v", b.frames)
	}
	if f := b.ask("CONFIRM_ACTION: " + want.ID); f.Type != "error" {
		t.Errorf("got %+v", b.frames)
	}
	if n := o.crm.Counts().Writes; n != 1 {
		t.Errorf("%d writes", n)
	}
	o.noToken(token, other)
}

// logOut ends a login of the CRM.
func (o *office) logOut(token string) {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, o.crmURL+"/api/logout", http.NoBody)
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusNoContent {
		o.t.Fatal(resp.Status)
	}
}
