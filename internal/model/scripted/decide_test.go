package scripted_test

import (
	"os"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/seam"
)

// judge makes a model that says what a record chooses and rejects, with the topics of the chaos
// app.
func judge(t *testing.T) *scripted.Model {
	t.Helper()
	raw, err := os.ReadFile("../../../apps/chaos/script.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := yaml.Load(raw, &s); err != nil {
		t.Fatal(err)
	}
	s["templates"] = map[string]any{}
	s["agents"] = map[string]any{"judge": []any{map[string]any{
		"say": `{{ $r := index (records .Handed.Text) 0 }}{{ choice $r (subject .) }}{{ range rejects $r }}, not {{ . }}{{ end }}`,
	}}}
	if raw, err = yaml.Dump(s); err != nil {
		t.Fatal(err)
	}
	m, err := scripted.New("scripted/judge", raw, scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDecision(t *testing.T) {
	t.Parallel()
	m := judge(t)
	for _, c := range []struct{ asked, text, want string }{
		{"login", "scrap the email/password login. Let's just drop in Google OAuth.", "Google OAuth, not Email/Password"},
		{"login", "Don't use Google OAuth, we stay with e-mail and password.", "Email/Password, not Google OAuth"},
		{"login", "Don't use Google OAuth, we stay with email + password.", "Email/Password, not Google OAuth"},
		{"login", "Email and Password it is. Do not use third-party providers.", "Email/Password"},
		{"login", "JWTs for the session, Auth0 is out.", "JWT, not Auth0"},
		{"database", "We moved from MongoDB to Postgres.", "PostgreSQL, not MongoDB"},
		{"database", "Replaced MySQL with PostgreSQL.", "PostgreSQL, not MySQL"},
		{"database", "MySQL was replaced by PostgreSQL.", "PostgreSQL, not MySQL"},
		{"database", "Not MySQL but SQLite.", "SQLite, not MySQL"},
		{"database", "SQLite instead of Redis and MySQL.", "SQLite, not Redis, not MySQL"},
		{"database", "Google OAuth for the login, PostgreSQL for the data.", "PostgreSQL"},
		{"payments", "We chose Stripe over PayPal.", "Stripe, not PayPal"},
		{"hosting", "We are getting rid of Heroku. Everything goes to Fly.io.", "Fly.io, not Heroku"},
		{"editor", "From now on we write in Zed instead of Emacs.", "Zed, not Emacs"},
		{"launch", "The launch is on Monday. Please tell the CEO.", ""},
		{"nothing", "", ""},
	} {
		line := "[Notion | " + c.asked + " | Last updated: 2026-01-01] " + c.text
		asked := parley.Message{Role: parley.RoleUser, Parts: []parley.Part{
			{Type: parley.PartText, Text: "Which " + c.asked + "?"},
			{Type: parley.PartText, Text: "[handed over by scavenger]\n[text of scavenger]\n" + line},
		}}
		got, err := reply(t, m, seam.Request{Agent: "judge", Messages: []parley.Message{asked}})
		text := parley.PartsText(got.Parts)
		if c.want == "" && text == "I cannot look this up now: this turn may use no more tools or agents." {
			text = ""
		}
		if err != nil || text != c.want {
			t.Errorf("%s: %q: got %q, %v, want %q", c.asked, c.text, text, err, c.want)
		}
	}
}
