package chat_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/tui/chat"
	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/server/servertest"
	"github.com/parley-server/parley/tool"
)

// evil is what a hostile model or tool may say.
const evil = "before\x1b[2J\x1b]0;owned\x07\x9b31m\u202eafter\x1bP1$r\x1b\\\r\b\x00end"

var deskFiles = fstest.MapFS{
	"app.yaml": {Data: []byte(`name: desk
title: The desk
description: Pays and looks things up.
examples: [pay]
follow_ups: [And what else?]
script: script.yaml
agents: {clerk: {prompt: clerk.md, tools: [pay, look, slow, AskUserQuestion]}}
tools: {bank: {}, ask: {}}
`)},
	"clerk.md": {Data: []byte("Pay what the user asks for.")},
	"script.yaml": {Data: []byte(`agents:
  clerk:
    - when: and .Steers (eq .Question "wait")
      say: "You told me: {{ index .Steers 0 }}"
    - when: and (eq .Question "wait") .Results
      say: "It came: {{ (index .Results 0).Output }}"
    - when: eq .Question "wait"
      call: [{tool: slow, input: {}}]
    - when: and (eq .Question "pay") .Results
      say: "**Done**: {{ (index .Results 0).Output }}"
    - when: eq .Question "pay"
      say: "I pay it."
      call: [{tool: pay, input: {euros: 7}}]
    - when: and (eq .Question "ask") .Results
      say: "Thank you."
    - when: eq .Question "ask"
      call: [{tool: AskUserQuestion, json: '{"questions":[{"question":"Which colours?","header":"Colour","multiSelect":true,"options":[{"label":"Red","description":"like a rose"},{"label":"Blue","description":"like the sea"}]},{"question":"Where?","header":"Place","options":[{"label":"Here","description":"in this room"},{"label":"There","description":"elsewhere"}]}]}'}]
    - when: and (eq .Question "look") .Results
      say: "# What I saw\n\n- one\n- two\n\n| A | B |\n|---|--:|\n| x | 1 |\n\n` + "```go\\nfunc main() {}\\n```" + `"
    - when: eq .Question "look"
      call: [{tool: look, input: {path: "notes/a.md"}}]
    - say: "You said {{ .Question }}."
`)},
}

type payment struct {
	Euros int `json:"euros"`
}

type glance struct {
	Path string `json:"path"`
}

// desk is a server with an app whose tools a test controls.
type desk struct {
	*servertest.Server
	t       *testing.T
	release chan string // lets the tool slow end
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, release: make(chan string, 8)}
	set := tool.Set{
		tool.New(tool.Def{
			Name: "pay", Description: "Pays.", Subject: "{euros} euros",
			Credentials: []parley.CredentialDecl{{Name: "PIN", Hosts: []string{"bank.example.com"}}},
		}, func(ctx context.Context, in payment) (string, error) {
			if pin, _ := tool.From(ctx).Credential("PIN", "bank.example.com"); pin != "123456" {
				return "", tool.NoEffect(fmt.Errorf("the PIN is wrong"))
			}
			return fmt.Sprintf("Paid %d euros.", in.Euros), nil
		}),
		tool.New(tool.Def{Name: "look", Description: "Looks.", Effect: parley.EffectRead}, func(context.Context, glance) (string, error) {
			return evil + "\n" + strings.Repeat("line\n", 50), nil
		}),
		tool.New(tool.Def{Name: "slow", Description: "Takes its time.", Effect: parley.EffectRead}, func(ctx context.Context, _ struct{}) (string, error) {
			select {
			case s := <-d.release:
				return s, nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}),
	}
	d.Server = servertest.Start(t, server.App(deskFiles), server.Tools("bank", set))
	return d
}

func (d *desk) options() chat.Options {
	env := map[string]string{"LANG": "C.UTF-8", "TERM": "xterm-256color"}
	return chat.Options{
		Connect: func(away func(error)) *client.Client {
			return client.New(client.Options{BaseURL: d.URL, Insist: true, Away: away})
		},
		Env: func(name string) string { return env[name] },
	}
}

// A person begins a session, is asked for a permission and for a secret, and the secret is nowhere.
func TestScreen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := chat.Sit(t, d.options(), 80, 24)
	p.Sees("The desk", "Pays and looks things up.", "For example:", "pay") // the only app, and no session yet
	p.Types("pay")
	p.Presses("enter")
	p.Asked("pay")
	p.Sees("euros: 7", "1 Allow once", "3 Deny", "4 Allow once, with another input")
	p.Presses("4")
	p.Sees("The input, as JSON", `"euros": 7`)
	p.Presses("ctrl+c", "esc", "1")
	p.Asked("PIN")
	p.Presses("1")
	p.Sees("what you type is not shown")
	p.Types("123456")
	p.Sees("••••••")
	if strings.Contains(p.Looks().Raw, "123456") {
		t.Errorf("the secret is on the screen:\n%s", p.Screen())
	}
	p.Presses("enter")
	p.Sees("Done: Paid 7 euros.", "✓ pay", "Allowed once", "And what else? (tab)")
	p.Presses("tab")
	if got := p.Looks().Written; got != "And what else?" {
		t.Errorf("tab takes %q", got)
	}
	for _, kept := range p.Looks().Kept {
		if strings.Contains(kept, "123456") {
			t.Errorf("the secret is kept in %q", kept)
		}
	}
}

// A plan is read and approved on the screen, and the mode is left with that.
func TestScreen_plan(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, server.App(fstest.MapFS{
		"app.yaml":    {Data: []byte("name: planner\nscript: script.yaml\nagents: {planner: {prompt: p.md, tools: [ExitPlanMode]}}\ntools: {plan: {}}\npolicy: {modes: [acceptEdits, plan]}\n")},
		"p.md":        {Data: []byte("Plan.")},
		"script.yaml": {Data: []byte("agents:\n  planner:\n    - when: .Results\n      say: \"Then: {{ (index .Results 0).Output }}\"\n    - call: [{tool: ExitPlanMode, input: {plan: \"1. Look\\n2. **Leap**\"}}]\n")},
	}))
	p := chat.Sit(t, (&desk{Server: s, t: t}).options(), 80, 24)
	p.Sees("planner")
	p.Types("/mode plan")
	p.Presses("enter")
	p.Sees("plan mode: nothing is changed")
	p.Types("go")
	p.Presses("enter")
	p.Asked("Carry out this plan?")
	p.Sees("1. Look", "2. Leap", "1 Yes", "2 Yes, and change files without asking", "3 No, keep planning")
	p.Presses("3")
	p.Sees("has not approved the plan")
	p.Until("the end", func() bool { return !p.Looks().Running && p.Looks().Mode == parley.ModePlan })
	p.Types("again")
	p.Presses("enter")
	p.Asked("Carry out this plan?")
	p.Presses("2")
	p.Sees("The user has approved the plan", "edits are not asked about")
	p.Until("the mode", func() bool { return p.Looks().Mode == parley.ModeAcceptEdits })
}

// A terminal without UTF-8 gets no character of its own making that it cannot show.
func TestScreen_ASCII(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.options()
	o.Env = func(name string) string { return map[string]string{"LANG": "C", "TERM": "xterm"}[name] }
	p := chat.Sit(t, o, 44, 24)
	p.Sees("The desk", "> Write a message")
	for _, text := range []string{"ask", "look"} {
		p.Types(text)
		p.Presses("enter")
		if text == "ask" {
			p.Asked("Which colours?")
			p.Presses("esc", "esc")
			p.Until("it is stopped", func() bool { return !p.Looks().Running })
		}
	}
	p.Sees("What I saw")
	p.Presses("ctrl+o")
	if screen := p.Screen(); strings.ContainsFunc(screen, func(r rune) bool { return r > '~' }) {
		t.Errorf("the screen is\n%s", screen)
	}
}

// What is written while a question comes is no answer to it.
func TestScreen_types_on(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := chat.Sit(t, d.options(), 80, 24)
	p.Sees("The desk")
	p.Types("pay")
	p.Presses("enter")
	p.Types("1")
	p.Until("the question", func() bool { return p.Looks().Asks })
	p.Types("23")
	p.Presses("backspace")
	if p.Looks().Armed || p.Looks().Sent || p.Looks().Written != "12" {
		t.Fatalf("armed %v, busy %v, the message is %q", p.Looks().Armed, p.Looks().Sent, p.Looks().Written)
	}
	p.Presses("backspace", "backspace")
	p.Sees("your keys go to the message until you pause")
	p.Asked("pay") // a while after the last key
	p.Presses("esc")
	p.Types("12")
	p.Sees("Waiting for your answer", "ctrl+r shows it")
	p.Presses("enter") // says something else instead
	p.Sees("Denied: 12", "told while it ran")
}

func TestScreen_questions(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := chat.Sit(t, d.options(), 40, 20)
	p.Sees("The desk")
	p.Types("ask")
	p.Presses("enter")
	p.Asked("Which colours?")
	p.Sees("1 of 2", "[ ] Red", "[ ] Blue", "space chooses several")
	p.Presses("space", "down", "space", "enter")
	p.Sees("2 of 2: Where?", "1 Here")
	p.Presses("3")
	p.Sees("Your answer:")
	p.Types("on the moon")
	p.Presses("enter")
	p.Sees("Thank you.")
	if !slices.ContainsFunc(p.Looks().Kept, func(s string) bool { return strings.Contains(s, "Answered: Red, Blue; on the moon") }) {
		t.Errorf("the answer is not in the conversation:\n%s", p.Screen())
	}
}

// A message steers the turn that runs, another is queued and taken back, and the turn is stopped.
func TestScreen_while_it_runs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := chat.Sit(t, d.options(), 100, 30)
	p.Sees("The desk")
	p.Types("wait")
	p.Presses("enter")
	p.Types("hello") // while the session is made
	p.Presses("tab")
	p.Sees("slow", "queued: hello", "esc stops it")
	p.Presses("up")
	p.Until("the queued message is back", func() bool { return p.Looks().Written == "hello" && p.Looks().Queued == 0 })
	p.Presses("enter")
	p.Sees("told while it ran")
	d.release <- "now"
	p.Sees("You told me: hello")
	p.Until("the end", func() bool { return !p.Looks().Running })
	p.Types("wait")
	p.Presses("enter")
	p.Until("it runs", func() bool { return p.Looks().Running && p.Looks().Turns == 2 })
	p.Presses("esc")
	p.Sees("stopped: stopped at the terminal")
	p.Types("/retry")
	p.Presses("enter")
	p.Until("it runs again", func() bool { return p.Looks().Running && p.Looks().Turns == 3 })
	d.release <- "at last"
	p.Sees("It came: at last")
}

// Two chats on one session show the same, and one that comes later shows what it missed.
func TestScreen_of_two(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	one := chat.Sit(t, d.options(), 80, 24)
	one.Sees("The desk")
	one.Types("pay")
	one.Presses("enter")
	one.Asked("pay")
	o := d.options()
	o.Session = one.Looks().Session
	two := chat.Sit(t, o, 80, 24)
	two.Asked("pay")
	two.Presses("3")
	two.Types("not today")
	two.Presses("enter")
	for _, p := range []*chat.Person{one, two} {
		p.Sees("Denied: not today", "Done")
		p.Until("the end", func() bool { return !p.Looks().Running })
	}
	for _, p := range []*chat.Person{one, two} {
		p.Sees("scripted/desk · 1.5k tokens") // what the session has used is read when the turn has ended
	}
	if a, b := one.Screen(), two.Screen(); a != b {
		t.Errorf("one sees\n%s\nthe other\n%s", a, b)
	}
}

// What a tool returned is folded to a line, unfolds, and obeys nobody.
func TestScreen_folds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := chat.Sit(t, d.options(), 80, 40)
	p.Sees("The desk")
	p.Types("look")
	p.Presses("enter")
	p.Sees("What I saw", "✓ look notes/a.md · 51 lines", "func main()")
	if strings.Contains(p.Screen(), "beforeafter") {
		t.Errorf("it is not folded:\n%s", p.Screen())
	}
	p.Presses("ctrl+t", "enter")
	p.Presses("pgup", "pgup")
	p.Sees("[2J]0;owned")
	p.Presses("ctrl+end", "ctrl+o", "ctrl+o")
	p.Presses("ctrl+f")
	p.Types("owned")
	p.Presses("enter")
	p.Sees("match 1 of what is loaded")
	p.Presses("esc", "esc")
	for _, size := range [][2]int{{80, 24}, {40, 20}, {200, 60}, {20, 8}, {10, 4}, {300, 5}} {
		p.Resize(size[0], size[1])
	}
}

// The panels: sessions, modes, models, help, usage, rewinding and forking.
func TestScreen_panels(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, title := range []string{"first things", "second things"} {
		s, _, err := d.CreateSession(t.Context(), parley.CreateSession{App: "desk", Title: title})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"one", "two"} {
			if _, err := d.SendAndWait(t.Context(), s.ID, parley.Send{Message: text}); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := chat.Sit(t, d.options(), 80, 24)
	p.Sees("Sessions", "first things", "second things")
	p.Types("first")
	p.Until("one is left", func() bool { return !strings.Contains(p.Screen(), "second things") })
	p.Presses("enter")
	p.Sees("You said one.", "You said two.")
	p.Presses("shift+tab")
	p.Sees("edits are not asked about")
	p.Until("the session says so", func() bool { return p.Looks().Mode == parley.ModeAcceptEdits })
	p.Presses("?")
	p.Sees("Writing", "alt+enter")
	p.Presses("esc")
	run := func(command string, texts ...string) {
		t.Helper()
		p.Types(command)
		p.Presses("enter")
		p.Sees(texts...)
	}
	run("/usage", "What this session has used", "Turns")
	p.Presses("esc")
	run("/model", "Which model?")
	p.Presses("esc")
	run("/mode", "plan mode: nothing is changed")
	p.Presses("esc")
	run("/title named anew", "named anew")
	run("/rewind", "Go back to before which message?")
	p.Presses("enter")
	p.Sees("Taken back:", "The conversation")
	p.Presses("enter")
	p.Sees("taken back")
	p.Until("the message is back", func() bool { return p.Looks().Written == "two" })
	p.Presses("ctrl+u")
	run("/undo", "Undo it")
	p.Presses("enter")
	p.Until("it is back", func() bool { return p.Looks().Turns == 2 })
	old := p.Looks().Session
	run("/fork", "Copy the session up to where?")
	p.Presses("enter")
	p.Until("the copy", func() bool { return p.Looks().Session != old })
	p.Sees("You said two.")
	run("/sessions", "second things")
	p.Presses("esc")
	p.Presses("ctrl+d")
	p.Until("it has ended", func() bool { return p.Looks().Gone })
}

// The server goes away and comes back: the chat says so, and goes on.
func TestScreen_away(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.options()
	cut := make(chan func(error), 2)
	connect := o.Connect
	o.Connect = func(away func(error)) *client.Client {
		cut <- away
		return connect(away)
	}
	p := chat.Sit(t, o, 80, 24)
	p.Sees("The desk")
	away := <-cut
	go away(parley.Errorf(parley.CodeUnavailable, "no answer"))
	p.Sees("The server does not answer")
	go away(nil)
	p.Sees("The server is back.")
}
