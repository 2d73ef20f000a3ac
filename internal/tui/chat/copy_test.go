package chat_test

import (
	"testing"
	"testing/fstest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tui/chat"
	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/server/servertest"
)

// A copy of a session reads the session's files and does not change them: the screen says so for as long as it shows the copy.
func TestScreen_copy(t *testing.T) {
	t.Parallel()
	d := &desk{t: t}
	d.Server = servertest.Start(t, server.App(fstest.MapFS{
		"app.yaml":    {Data: []byte("name: papers\nscript: script.yaml\nagents: {clerk: {prompt: clerk.md}}\nworkspaces: {root: " + t.TempDir() + ", default: main}\n")},
		"clerk.md":    {Data: []byte("Be brief.")},
		"script.yaml": {Data: []byte("agents:\n  clerk:\n    - say: 'You said {{ .Question }}.'\n")},
	}))
	s, _, err := d.CreateSession(t.Context(), parley.CreateSession{App: "papers"})
	if err == nil {
		_, err = d.SendAndWait(t.Context(), s.ID, parley.Send{Message: "one"})
	}
	if err != nil {
		t.Fatal(err)
	}
	o := d.options()
	o.Session = s.ID
	p := chat.Sit(t, o, 80, 24)
	p.Sees("You said one.", "main")
	p.Types("/fork")
	p.Presses("enter")
	p.Sees("Copy the session up to where?")
	p.Presses("enter")
	p.Sees("main, read only", "You said one.")
}
