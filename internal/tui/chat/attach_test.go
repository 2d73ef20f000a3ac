package chat_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/tui/chat"
)

// gate is a connection that can hold uploads back.
type gate struct {
	hold chan struct{} // an upload waits until something comes
	held chan struct{} // one waits
	http.RoundTripper
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/attachments") && g.hold != nil {
		if _, err := io.CopyN(io.Discard, r.Body, r.ContentLength/2); err != nil {
			return nil, err
		}
		g.held <- struct{}{}
		select {
		case <-g.hold:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = body
	}
	return g.RoundTripper.RoundTrip(r)
}

// desktop is a folder with files to attach.
func desktop(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"price.txt": "The price is 42.", "with a space.md": "# Spaces", "x.bin": "\x7fELF\x00\x00\x00", "empty.txt": "", "big.bin": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "big.bin"), parley.MaxAttachment+1); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A file is attached by its path, which is completed, or by being dropped on the terminal. It goes with the next
// message, and is shown with it. What cannot be attached is said before anything is sent.
func TestScreen_attach(t *testing.T) {
	t.Parallel()
	d, dir := newDesk(t), desktop(t)
	p := chat.Sit(t, d.options(), 80, 24)
	p.Sees("The desk")
	for path, says := range map[string]string{
		"none.txt": "there is no file", "folder": "is a folder", "empty.txt": "is empty", "big.bin": "is larger than the",
	} {
		p.Types("/attach ")
		p.Gets(tea.PasteMsg{Content: dir + "/" + path})
		p.Presses("esc", "enter") // esc: what is offered
		p.Sees(says)
		if got := p.Looks().Written; got != "/attach "+dir+"/"+path {
			t.Errorf("after %s the message is %q", path, got)
		}
		p.Presses("ctrl+u")
	}
	p.Types("/attach ")
	p.Gets(tea.PasteMsg{Content: dir + "/pr"})
	p.Sees("price.txt")
	p.Presses("enter")
	p.Sees("+ price.txt (16 bytes)")
	if got := p.Looks().Written; got != "" {
		t.Errorf("the message is %q", got)
	}
	p.Gets(tea.PasteMsg{Content: strings.ReplaceAll(filepath.Join(dir, "with a space.md"), " ", `\ `) + " "})
	p.Sees("+ price.txt (16 bytes), with a space.md (8 bytes)")
	p.Presses("backspace")
	p.Until("the path is text", func() bool { return strings.HasSuffix(p.Looks().Written, `with\ a\ space.md`) })
	p.Presses("ctrl+u")
	p.Gets(tea.PasteMsg{Content: "file://" + dir + "/x.bin"})
	p.Sees("+ price.txt (16 bytes), x.bin (7 bytes)")
	p.Presses("enter")
	p.Sees("Write what you want to know about it")
	p.Types("hello")
	p.Presses("enter")
	p.Sees("You said hello.", "+ price.txt (16 bytes)", "+ x.bin (7 bytes): ", "x.bin is attached, but the model cannot read it")
	p.Gets(tea.PasteMsg{Content: "/not/a/path"}) // stays text
	p.Until("it is text", func() bool { return p.Looks().Written == "/not/a/path" })
	p.Presses("ctrl+u")
	// A rewind gives the message back with its files, which the session has already.
	p.Types("/rewind")
	p.Presses("enter")
	p.Sees("Go back to before which message?")
	p.Presses("enter")
	p.Sees("The conversation")
	p.Presses("enter")
	p.Until("the message is back", func() bool { return p.Looks().Written == "hello" && p.Looks().Turns == 0 })
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	p.Sees("+ price.txt (16 bytes), x.bin")
	p.Presses("enter")
	p.Until("the files are sent again", func() bool { return p.Looks().Turns == 1 && !p.Looks().Running })
	list, err := d.Client.Turns(t.Context(), p.Looks().Session, client.TurnFilter{})
	if err != nil || len(list) != 2 {
		t.Fatalf("got %+v, %v", list, err)
	}
	// The draft of a session that is left does not follow to the next one.
	p.Types("/new")
	p.Presses("enter")
	if strings.Contains(p.Screen(), "price.txt (16 bytes),") {
		t.Errorf("the files follow:\n%s", p.Screen())
	}
}

// While a file is uploaded the screen says how far it is, messages wait behind it, and Esc stops it.
func TestScreen_upload(t *testing.T) {
	t.Parallel()
	d, dir := newDesk(t), desktop(t)
	g := &gate{hold: make(chan struct{}), held: make(chan struct{}, 1), RoundTripper: http.DefaultTransport}
	o := d.options()
	o.Connect = func(away func(error)) *client.Client {
		return client.New(client.Options{BaseURL: d.URL, Insist: true, Away: away, Transport: g})
	}
	p := chat.Sit(t, o, 100, 24)
	p.Sees("The desk")
	p.Gets(tea.PasteMsg{Content: filepath.Join(dir, "price.txt")})
	p.Sees("+ price.txt")
	p.Types("first")
	p.Presses("enter")
	<-g.held
	p.Sees("uploading price.txt (16 bytes): 50 %", "esc stops it")
	p.Types("second")
	p.Presses("enter")
	p.Sees("sending: second")
	p.Presses("esc")
	p.Sees("the upload of price.txt was stopped", "+ price.txt (16 bytes)")
	if got := p.Looks().Written; got != "first\nsecond" {
		t.Errorf("the message is %q", got)
	}
	p.Presses("enter")
	<-g.held
	g.hold <- struct{}{}
	p.Sees("You said first", "+ price.txt")
	// To a turn that runs a file is told, too; queued, it comes back with its message.
	p.Types("wait")
	p.Presses("enter")
	p.Until("it runs", func() bool { return p.Looks().Running && p.Looks().Turns == 2 })
	p.Gets(tea.PasteMsg{Content: filepath.Join(dir, "with a space.md")})
	p.Sees("+ with a space.md")
	p.Types("later")
	p.Presses("tab")
	<-g.held
	g.hold <- struct{}{}
	p.Sees("queued, with 1 file: later")
	p.Presses("up")
	p.Until("the message is back", func() bool { return p.Looks().Written == "later" && p.Looks().Queued == 0 })
	p.Sees("+ with a space.md")
	p.Presses("enter") // without another upload
	p.Sees("told while it ran", "+ with a space.md (8 bytes)")
	d.release <- "now"
	p.Until("the end", func() bool { return !p.Looks().Running })
	for _, size := range [][2]int{{40, 12}, {20, 8}, {10, 4}, {300, 5}} {
		p.Resize(size[0], size[1])
	}
}
