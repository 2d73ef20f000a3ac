package scripted_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/crm"
	"github.com/parley-server/parley/internal/tool/rest"
)

// salesDay is when the questions about leads are asked.
var salesDay = time.Date(2026, 5, 20, 15, 30, 0, 0, time.UTC)

// counter runs the agent of the app leads as the loop does, with the real tool over the simulated
// CRM and the skills of the app. A write is confirmed, or declined.
type counter struct {
	t       *testing.T
	model   *scripted.Model
	crm     *crm.Server
	rest    *rest.Toolset
	token   string
	org     string
	decls   []parley.ToolDecl
	history []parley.Message
	calls   int
	called  []string // in the last question
	decline bool
	instead string // what is said instead of confirming the next write
	outcome string // what the loop says of a write, instead of making it
}

const skillsDir = "../../../apps/leads/.agents/skills"

func newCounter(t *testing.T, person, org string) *counter {
	t.Helper()
	raw, err := os.ReadFile("../../../apps/leads/script.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{t: t, org: org}
	if c.model, err = scripted.New("scripted/leads", raw, scripted.Options{}); err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return salesDay }
	c.crm = crm.New(crm.Options{Now: clock})
	t.Cleanup(func() { _ = c.crm.Close() })
	for _, u := range crm.Users() {
		if strings.HasPrefix(u.Email, person+"@") {
			if c.token, err = c.crm.Token(u.Email); err != nil {
				t.Fatal(err)
			}
		}
	}
	srv := httptest.NewServer(c.crm)
	t.Cleanup(srv.Close)
	if c.rest, err = rest.New(rest.Options{BaseURLs: []string{srv.URL}, Writes: []string{"GET /api/leads/*/unsubscribe"}, Idempotent: []string{"POST /api/leads", "POST /api/projects"}, KeyTTL: parley.Duration(23 * time.Hour), Now: clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.rest.Close)
	if c.decls, err = c.rest.Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := "Loads a skill. The skills:"
	dirs, err := os.ReadDir(skillsDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		list += "\n- " + d.Name() + ": about " + d.Name()
	}
	c.decls = append(c.decls, parley.ToolDecl{Name: "Skill", Description: list, Effect: parley.EffectRead, InputSchema: json.RawMessage(`{"type":"object"}`)})
	return c
}

// ask runs one turn within the app's budgets, and returns what was said last.
func (c *counter) ask(question string) string {
	c.t.Helper()
	c.called = nil
	about := "[about this turn]\nnow: " + salesDay.Format("Monday, 2006-01-02 15:04") + " (UTC)"
	msgs := append(append([]parley.Message{}, c.history...), parley.Message{Role: parley.RoleUser, Parts: []parley.Part{{Type: parley.PartText, Text: question}, {Type: parley.PartText, Text: about}}})
	for range 30 {
		rep, err := reply(c.t, c.model, seam.Request{Agent: "assistant", System: "You work with a company's API.", Messages: msgs, Tools: c.decls})
		if err != nil {
			c.t.Fatalf("%s: %v", question, err)
		}
		var results []parley.Part
		for i := range rep.Parts {
			p := &rep.Parts[i]
			if p.Type != parley.PartToolCall {
				continue
			}
			c.calls++
			p.Call = parley.CallID(fmt.Sprint("c", c.calls))
			c.called = append(c.called, p.Name+" "+string(p.Input))
			out, bad := c.run(p)
			results = append(results, parley.Part{Type: parley.PartToolResult, Call: p.Call, Name: p.Name, Text: out, IsError: bad})
		}
		msgs = append(msgs, parley.Message{Role: parley.RoleAssistant, Parts: rep.Parts})
		if results == nil {
			answer := parley.PartsText(rep.Parts)
			c.history = append(c.history, parley.Text(parley.RoleUser, question), parley.Text(parley.RoleAssistant, answer))
			return answer
		}
		msgs = append(msgs, parley.Message{Role: parley.RoleTool, Parts: results})
		if c.instead != "" && strings.HasPrefix(results[0].Text, "Denied: ") {
			msgs = append(msgs, parley.Text(parley.RoleUser, c.instead))
			c.instead = ""
		}
	}
	c.t.Errorf("%s: the turn does not end: %v", question, c.called)
	return ""
}

func (c *counter) run(p *parley.Part) (out string, failed bool) {
	if p.Name == "Skill" {
		var in struct{ Skill string }
		if err := json.Unmarshal(p.Input, &in); err != nil {
			return "Failed: " + err.Error(), true
		}
		raw, err := os.ReadFile(filepath.Join(skillsDir, in.Skill, "SKILL.md"))
		if err != nil {
			return "Failed: " + err.Error(), true
		}
		return string(raw), false
	}
	effect := c.rest.EffectOf(p.Name, p.Input)
	if effect != parley.EffectRead && (c.decline || c.instead != "") {
		return "Denied: the user declined", true
	}
	if effect != parley.EffectRead && c.outcome != "" {
		return c.outcome, true
	}
	res, err := c.rest.Run(c.t.Context(), seam.Run{
		Call: p.Call, Name: p.Name, Input: p.Input, Effect: effect, Attempt: 1, Session: "s", Turn: "t", App: "leads", Started: salesDay,
		Principal: parley.Principal{User: "leads:u", Org: "leads:" + c.org}, Keep: func(seam.File) error { return nil }, Progress: func(string) {},
		Changes:    func(context.Context, ...string) error { return nil },
		Credential: func(string, string) (string, error) { return c.token, nil },
	})
	switch {
	case err != nil:
		return "Failed: " + err.Error(), true
	case res.Outcome == parley.OutcomeError:
		return "Failed: " + res.Output, true
	}
	return res.Output, false
}

// TestLeadsOutcomes: what is said of a write that was not simply made is what became of it, whatever
// words the API has for a mistake.
func TestLeadsOutcomes(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[string]string{
		`Failed: {"detail":"The token is unknown or has expired. Log in again."}`:                                 "That was not done. The CRM says: The token is unknown or has expired. Log in again.",
		`Failed: {"detail":"The field is denied."}`:                                                               "That was not done. The CRM says: The field is denied.",
		"Denied: the user declined":                                                                               "All right, nothing was changed",
		"The answer of this call was lost, but a person has confirmed that it took effect. Do not repeat it.":     "It was done, as you say.",
		"The answer of this call was lost, and a person has confirmed that it took no effect.":                    "It was not done, as you say.",
		"It is unknown whether this call took effect, and nobody has found out. Do not repeat it; tell the user.": "It is not known whether that was done",
		"the service answered 502 Bad Gateway\nDo not repeat it; tell the user.":                                  "It is not known whether that was done",
		"It is unknown whether this call took effect.":                                                            "It is not known whether that was done",
	} {
		c := newCounter(t, "mara", "org_fieldnote")
		c.outcome = outcome
		if got := c.ask("Create a lead Nora Iversen at Fjord Offshore."); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", outcome, got, want)
		}
	}
}

// TestLeadsQuestions: questions of a sheet, over the CRM of the demo.
func TestLeadsQuestions(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("testdata", "questions", "leads.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var conversations []struct {
		Person, Org string
		Decline     bool
		Turns       []struct {
			Ask         string
			Instead     string // is said when a write is proposed
			Want, Avoid []string
			Writes      []string // METHOD path body
		}
	}
	if err := yaml.Load(raw, &conversations); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for i, conversation := range conversations {
		asked += len(conversation.Turns)
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if conversation.Person == "" {
				conversation.Person, conversation.Org = "mara", crm.Fieldnote
			}
			c := newCounter(t, conversation.Person, conversation.Org)
			c.decline = conversation.Decline
			for _, q := range conversation.Turns {
				before := len(c.crm.Writes())
				c.instead = q.Instead
				answer := c.ask(q.Ask)
				why := accepted(t, answer, q.Want, q.Avoid)
				var wrote []string
				for _, w := range c.crm.Writes()[before:] {
					wrote = append(wrote, strings.TrimSpace(w.Method+" "+w.Path+" "+w.Body))
				}
				if !slices.Equal(wrote, q.Writes) {
					why += fmt.Sprintf("; it wrote %q, and should have %q", wrote, q.Writes)
				}
				if why != "" {
					t.Errorf("%s: %s\n%s\ncalls: %s", q.Ask, why, answer, strings.Join(c.called, "\n       "))
				}
				if os.Getenv("TALK") != "" {
					t.Logf("> %s\n%s\n%s\n", q.Ask, answer, strings.Join(c.called, "\n"))
				}
			}
		})
	}
	if asked < 60 {
		t.Errorf("only %d questions", asked)
	}
}
