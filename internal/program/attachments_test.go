package program_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestAttachments_of_a_process: files are given to a session over the API and on the command line, and a message has
// their text. They outlive kill -9, and are in an export, from which another session has them. An upload that is
// cut off leaves nothing.
func TestAttachments_of_a_process(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	app := filepath.Join(p.dir, "apps", "reader")
	p.write(filepath.Join(app, "p.md"), "Read.")
	p.write(filepath.Join(app, "app.yaml"), "model: scripted/reader\nscript: script.yaml\nagents: {reader: {prompt: p.md, tools: [ReadAttachment]}}\ntools: {attachments: {}}\n")
	p.write(filepath.Join(app, "script.yaml"), "agents: {reader: [{say: read}]}\n")
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(app), "PARLEY_ENABLED=reader")
	s := p.serve()
	var doc bytes.Buffer
	z := zip.NewWriter(&doc)
	w, err := z.Create("word/document.xml")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte(`<w:document xmlns:w="w"><w:p><w:r><w:t>The price is 42.</w:t></w:r></w:p></w:document>`))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	id := s.session("reader")
	path := "/v1/sessions/" + string(id) + "/attachments"
	given := must[parley.Attachment](s, "POST", path+"?name=price.docx", doc.String(), "Content-Type", "application/octet-stream")
	if given.Name != "price.docx" || !strings.Contains(given.MediaType, "wordprocessingml") || given.Text == 0 || given.Unread != "" {
		t.Fatalf("got %+v", given)
	}
	if again := must[parley.Attachment](s, "POST", path+"?name=price.docx", doc.String(), "Content-Type", "application/octet-stream"); again != given {
		t.Errorf("the same file is %+v, was %+v", again, given)
	}
	if got := s.ask("POST", path+"?name=none.txt", "", "Content-Type", "application/octet-stream"); got.status != 400 || !strings.Contains(string(got.body), "the file is empty") || strings.Contains(string(got.body), "JSON") {
		t.Errorf("an empty file: %s", got)
	}
	before := len(s.log(id))
	cut, err := http.NewRequestWithContext(t.Context(), "POST", s.url+path+"?name=x.txt", &broken{strings.NewReader("a part")})
	if err != nil {
		t.Fatal(err)
	}
	cut.ContentLength = 1000
	cut.Header.Set("Content-Type", "application/octet-stream")
	if resp, err := http.DefaultClient.Do(cut); err == nil {
		resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("an upload that was cut off: %d", resp.StatusCode)
		}
	}
	if now := len(s.log(id)); now != before {
		t.Errorf("an upload that was cut off left %d events", now-before)
	}
	s.kill()
	s = p.serve()
	turn := must[parley.TurnInfo](s, "POST", "/v1/sessions/"+string(id)+"/turns", `{"message":"What is the price?","attachments":["`+string(given.ID)+`"]}`)
	if end := s.settle(turn.ID); end.Status != parley.StatusCompleted {
		t.Fatalf("%+v", end)
	}
	if log := strings.Join(s.log(id), "\n"); !strings.Contains(log, "The price is 42.") {
		t.Errorf("the message has no text:\n%s", log)
	}
	export := filepath.Join(p.dir, "it.zip")
	if code, _, errs := p.run("session", "export", string(id), "-o", export); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := p.run("session", "import", export)
	copied := parley.SessionID(strings.TrimSpace(out))
	if code != 0 {
		t.Fatal(errs)
	}
	var view parley.Transcript
	for _, line := range s.log(copied) {
		var e parley.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		view.Apply(e)
	}
	if len(view.Turns) != 1 || len(view.Turns[0].Attachments) != 1 || view.Turns[0].Attachments[0].ID == given.ID {
		t.Fatalf("the import has %+v", view.Turns)
	}
	theirs := view.Turns[0].Attachments[0].ID
	turn = must[parley.TurnInfo](s, "POST", "/v1/sessions/"+string(copied)+"/turns", `{"message":"And again?","attachments":["`+string(theirs)+`"]}`)
	if end := s.settle(turn.ID); end.Status != parley.StatusCompleted || strings.Count(strings.Join(s.log(copied), "\n"), "The price is 42.") < 2 {
		t.Errorf("in an import: %+v", end)
	}
	p.write(filepath.Join(p.dir, "notes.txt"), "from the command line")
	p.write(filepath.Join(p.dir, "x.bin"), "\x7fELF\x00\x00\x00")
	code, out, errs = p.run("run", "--session", string(copied), "--attach", filepath.Join(p.dir, "notes.txt"), "--attach", filepath.Join(p.dir, "x.bin"), "What is this?")
	if log := strings.Join(s.log(copied), "\n"); code != 0 || !strings.Contains(out, "read") || !strings.Contains(errs, "x.bin is attached, but the model cannot read it") || !strings.Contains(log, "from the command line") {
		t.Errorf("run: exit %d\n%s%s", code, out, errs)
	}
	if code, _, _ := p.run("run", "--attach", filepath.Join(p.dir, "none.txt"), "hi"); code != 2 {
		t.Errorf("a file that is not there: exit %d", code)
	}
}

// broken ends in the middle.
type broken struct{ *strings.Reader }

func (b *broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil {
		return n, http.ErrAbortHandler
	}
	return n, nil
}
