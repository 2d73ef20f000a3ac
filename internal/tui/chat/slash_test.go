package chat_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/tui/chat"
	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/server/servertest"
)

// newCounter is a desk whose app has a slash command and a choice of runtimes.
func newCounter(t *testing.T) *desk {
	files := maps.Clone(deskFiles)
	files["app.yaml"] = &fstest.MapFile{Data: []byte(`name: desk
script: script.yaml
runtimes: [claude]
agents: {clerk: {prompt: clerk.md}}
`)}
	files[".claude/commands/greet.md"] = &fstest.MapFile{Data: []byte("Hello, $ARGUMENTS")}
	files[".claude/commands/usage.md"] = &fstest.MapFile{Data: []byte("their usage")}
	files["script.yaml"] = &fstest.MapFile{Data: []byte("agents: {clerk: [{say: \"You said [{{ .Question }}]\"}]}\n")}
	return &desk{Server: servertest.Start(t, server.App(files)), t: t}
}

// asked are the messages of a session, to the letter.
func asked(t *testing.T, d *desk, id parley.SessionID) (out []string) {
	t.Helper()
	turns, _, err := d.Client.TurnPage(t.Context(), id, client.TurnFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range slices.Backward(turns) {
		out = append(out, turn.Message)
	}
	return out
}

// A misspelt command is no message: the person is told the nearest ones, and has the line back. What
// the server knows is sent, and so is a line whose slash has a space or a slash before it.
func TestScreen_slash(t *testing.T) {
	t.Parallel()
	d := newCounter(t)
	p := chat.Sit(t, d.options(), 80, 24)
	p.Sees("desk", "scripted/desk")
	refused := func(text string, texts ...string) {
		t.Helper()
		p.Types(text)
		p.Presses("enter")
		p.Sees(texts...)
		if got := p.Looks().Written; got != text {
			t.Errorf("the message is %q", got)
		}
		p.Presses("ctrl+c")
	}
	answered := func(n int, text string) {
		t.Helper()
		p.Sees(text)
		p.Until("the end", func() bool { return !p.Looks().Running && p.Looks().Turns == n })
	}
	refused("/fokr it", "there is no command /fokr", "did you mean /fork?")
	refused("/gret Ana", "there is no command /gret", "/greet")
	refused("/clear all", "did you mean /new?")
	refused("/xyzzy", "/help lists the commands", "a space before / sends")
	if p.Looks().Session != "" {
		t.Fatalf("a session was made:\n%s", p.Screen())
	}
	p.Types("/greet Ana")
	p.Presses("enter")
	answered(1, "You said [/greet Ana]")
	refused("/gret Bob", "there is no command /gret", "/greet")
	for i, c := range [][2]string{{" /gret Bob", "You said [ /gret Bob]"}, {"//gret Bob", "You said [/gret Bob]"}, {"//usage", "You said [/usage]"}, {"/etc/hosts is", "You said [/etc/hosts is]"}, {"// no", "You said [// no]"}} {
		p.Types(c[0])
		p.Presses("enter")
		answered(i+2, c[1])
	}
	want := []string{"/greet Ana", " /gret Bob", "/gret Bob", "/usage", "/etc/hosts is", "// no"}
	if got := asked(t, d, p.Looks().Session); !slices.Equal(got, want) {
		t.Errorf("the messages are %q", got)
	}
}

// The runtime is chosen before the first message and later, and shown.
func TestScreen_runtime(t *testing.T) {
	t.Parallel()
	d := newCounter(t)
	o := d.options()
	o.App, o.Runtime = "desk", "Claude"
	p := chat.Sit(t, o, 80, 24)
	p.Sees("Claude CLI · scripted/desk")
	run := func(command string, texts ...string) {
		t.Helper()
		p.Types(command)
		p.Presses("enter")
		p.Sees(texts...)
	}
	run("/runtime bash", `there is no runtime "bash" here`, "loop, claude")
	p.Presses("ctrl+c")
	run("/runtime native", "Parley · scripted/desk")
	run("hello", "You said [hello]")
	p.Until("the end", func() bool { return !p.Looks().Running })
	run("/runtime ", "What carries out the turns?", "Claude CLI", "loop, the app's")
	p.Presses("down", "enter")
	p.Sees("Runtime: Claude CLI, from the next turn on", "Claude CLI · scripted/desk")
	info, err := d.Client.Session(t.Context(), p.Looks().Session)
	if err != nil || info.Runtime != "claude" {
		t.Errorf("the session is %+v, %v", info, err)
	}
	other := "loop" // somebody else's choice is shown, too
	if _, err := d.Client.UpdateSession(t.Context(), info.ID, parley.UpdateSession{Runtime: &other}); err != nil {
		t.Fatal(err)
	}
	p.Sees("Parley · scripted/desk")
	run("/fork", "Copy the session up to where?")
	p.Presses("enter")
	p.Until("the copy", func() bool { return p.Looks().Session != info.ID })
	p.Sees("You said [hello]", "Parley · scripted/desk")

	o.Runtime = "cobol"
	q := chat.Sit(t, o, 80, 24)
	q.Until("it ends", func() bool { return q.Looks().Gone })
	if q.Fails() == nil || !strings.Contains(q.Fails().Error(), `no runtime "cobol"`) {
		t.Errorf("it ends with %v", q.Fails())
	}
}

// The same in lines.
func TestPlain_slash(t *testing.T) {
	t.Parallel()
	d := newCounter(t)
	h := &heard{more: make(chan struct{}, 1)}
	o := d.options()
	o.Plain, o.App, o.Out, o.Err, o.Runtime = true, "desk", h, h, "loop"
	o.In = strings.NewReader(strings.Join([]string{
		"/fokr it", "/greet Ana", "/gret Bob", " /gret Bob", "//gret Bob", "//usage", "/etc/hosts is", "/runtime", "/runtime cobol", "/runtime claude", "/runtime", "/runtime loop", "last", "/usage",
	}, "\n"))
	left, err := chat.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	all := h.until(t, "You said [last]")
	if strings.Contains(all, " 0 tokens") || !strings.Contains(all, "6 turns, ") {
		t.Errorf("what the session has used is not what the server says:\n%s", all)
	}
	for text, times := range map[string]int{
		"Error: there is no command /fokr; did you mean /fork? /help lists all; a space before / sends it as text": 1,
		"Error: there is no command /gret; did you mean /greet?":                                                   1, "You said [/greet Ana]": 1, "You said [ /gret Bob]": 1, "You said [/gret Bob]": 1,
		"You said [/usage]": 1, "Runtime: Parley (loop). There are: loop, claude.": 1, "Runtime: Claude CLI (claude). There are: loop, claude.": 1,
		`Error: there is no runtime "cobol" here; there are: loop, claude`: 1, "Runtime: Claude CLI.\n": 1, "Runtime: Parley.\n": 1,
	} {
		if n := strings.Count(all, text); n != times {
			t.Errorf("%q was said %d times:\n%s", text, n, all)
		}
	}
	want := []string{"/greet Ana", " /gret Bob", "/gret Bob", "/usage", "/etc/hosts is", "last"}
	if got := asked(t, d, left.Session); !slices.Equal(got, want) {
		t.Errorf("the messages are %q", got)
	}
}
