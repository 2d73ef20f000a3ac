package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// file is a file that goes with the next message: one on this machine, which is uploaded when the
// message is sent, or one that its session has already.
type file struct {
	path   string // empty: the session has it
	name   string
	size   int64
	pasted string // what was pasted, if the file was found by that

	of  parley.SessionID // the session that has it as id
	id  parley.ArtifactID
	why string // why the server could not read it
}

// lookAt finds a file on this machine, and refuses what cannot be attached before anything is sent.
func lookAt(path string) (*file, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, parley.Errorf(parley.CodeNotFound, "there is no file %s", path)
	case err != nil:
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err)
	case info.IsDir():
		return nil, parley.Errorf(parley.CodeInvalid, "%s is a folder", path).WithHint("attach the files that are in it, one by one")
	case !info.Mode().IsRegular():
		return nil, parley.Errorf(parley.CodeInvalid, "%s is no ordinary file", path)
	case info.Size() == 0:
		return nil, parley.Errorf(parley.CodeInvalid, "%s is empty", path)
	case info.Size() > parley.MaxAttachment:
		return nil, tooLarge(path)
	}
	return &file{path: path, name: filepath.Base(path), size: info.Size()}, nil
}

func tooLarge(path string) error {
	return parley.Errorf(parley.CodeTooLarge, "%s is larger than the %s that can be attached", path, size(parley.MaxAttachment))
}

// body reads the file.
func (f *file) body() ([]byte, error) {
	in, err := os.Open(f.path)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err)
	}
	defer in.Close()
	raw, err := io.ReadAll(io.LimitReader(in, parley.MaxAttachment+1))
	switch {
	case err != nil:
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err)
	case len(raw) > parley.MaxAttachment: // it has grown
		return nil, tooLarge(f.path)
	}
	return raw, nil
}

// upload gives files to a session, and returns their ids. told hears how many bytes of all have been
// sent. What the session has been given already is not sent again.
func upload(ctx context.Context, c *client.Client, id parley.SessionID, files []*file, told func(sent int64)) (ids []parley.ArtifactID, err error) {
	var before int64
	for _, f := range files {
		if f.of != id || f.id == "" {
			if f.path == "" {
				return nil, parley.Errorf(parley.CodeNotFound, "%s belongs to another session", f.name).WithHint("attach it again")
			}
			raw, err := f.body()
			if err != nil {
				return nil, err
			}
			a, err := c.Attach(client.WithProgress(ctx, func(sent int64) { told(before + sent) }), id, f.name, raw)
			if err != nil {
				if ctx.Err() != nil {
					return nil, parley.Errorf(parley.CodeCancelled, "the upload of %s was stopped", f.name)
				}
				return nil, parley.Errorf(parley.CodeOf(err), "%s: %w", f.name, err).WithHint("%s", hintOf(err))
			}
			f.of, f.id, f.why = id, a.ID, a.Unread
		}
		before += f.size
		told(before)
		ids = append(ids, f.id)
	}
	return ids, nil
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return e.Hint
	}
	return ""
}

// unread says of which files the model gets no text.
func unread(files []*file) string {
	var out []string
	for _, f := range files {
		if f.why != "" {
			out = append(out, oneLine(f.name)+" is attached, but the model cannot read it: "+oneLine(f.why))
		}
	}
	return strings.Join(out, " ")
}

// held are the files of a message that its session has.
func held(id parley.SessionID, parts []parley.Part) (files []*file) {
	for _, p := range parts {
		if p.Artifact != "" {
			files = append(files, &file{name: p.Name, size: p.Size, of: id, id: p.Artifact})
		}
	}
	return files
}

// filesText names files on a line.
func filesText(files []*file) string {
	var out []string
	for _, f := range files {
		out = append(out, fmt.Sprintf("%s (%s)", oneLine(f.name), size(f.size)))
	}
	return strings.Join(out, ", ")
}

// partText names a file of a message, and says why the model does not see it, if so.
func partText(p parley.Part) string {
	text := oneLine(p.Name)
	var facts []string
	if strings.HasPrefix(p.MediaType, "image/") {
		facts = append(facts, "image")
	}
	if p.Size > 0 {
		facts = append(facts, size(p.Size))
	}
	if len(facts) > 0 {
		text += " (" + strings.Join(facts, ", ") + ")"
	}
	if p.IsError {
		text += ": " + oneLine(p.Text)
	}
	return text
}

// fileLines are the lines for the files of a message.
func (d drawing) fileLines(files []parley.Part) (lines []string) {
	for _, f := range files {
		for i, line := range wrap(partText(f), d.width-4) {
			lines = append(lines, [2]string{"+ ", "  "}[min(i, 1)]+line)
		}
	}
	return lines
}

// pathsIn are the paths that a text may stand for: each element is one reading of it. A terminal
// that a file is dropped on pastes its path, quoted as for a shell, or its URL. whole says that a
// person has said that it is a path, so that it may be relative.
func pathsIn(text string, whole bool, env func(string) string) (readings [][]string) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 8<<10 {
		return nil
	}
	full := func(path string) string {
		if rest, ok := strings.CutPrefix(path, "file://"); ok {
			if at := strings.IndexByte(rest, '/'); at > 0 && rest[:at] == "localhost" {
				rest = rest[at:]
			}
			if plain, err := url.PathUnescape(rest); err == nil {
				rest = plain
			}
			path = rest
		} else if path == "~" || strings.HasPrefix(path, "~/") {
			if home := env("HOME"); home != "" {
				path = home + path[1:]
			}
		}
		if strings.ContainsRune(path, 0) || !whole && !filepath.IsAbs(path) {
			return ""
		}
		return filepath.Clean(path)
	}
	add := func(list []string) {
		for i := range list {
			if list[i] = full(list[i]); list[i] == "" {
				return
			}
		}
		if len(list) > 0 && len(list) <= parley.MaxAttachments {
			readings = append(readings, list)
		}
	}
	add(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }))
	if words, ok := shellWords(text); ok {
		add(words)
	}
	return readings
}

// shellWords splits a text as a shell does.
func shellWords(text string) (words []string, ok bool) {
	var word strings.Builder
	in, quote := false, rune(0)
	rest := []rune(text)
	for i := 0; i < len(rest); i++ {
		switch r := rest[i]; {
		case quote != 0 && r == quote:
			quote = 0
		case r == '\\' && quote != '\'' && i+1 < len(rest):
			i++
			word.WriteRune(rest[i])
			in = true
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words, quote == 0
}

// find finds the files of the first reading whose files are all there. Its error is about the first
// reading.
func find(readings [][]string) (files []*file, err error) {
	for i, paths := range readings {
		var list []*file
		for _, path := range paths {
			f, e := lookAt(path)
			if e != nil {
				if i == 0 {
					err = e
				}
				list = nil
				break
			}
			list = append(list, f)
		}
		if list != nil {
			return list, nil
		}
	}
	if err == nil {
		err = parley.Errorf(parley.CodeInvalid, "that is no path of a file")
	}
	return nil, err
}

// diskPatience is how long the screen stands still for a disk: the next key may send the message, so the
// files are looked at before it.
const diskPatience = 500 * time.Millisecond

// findSoon is find, for files on a disk that answers.
func findSoon(readings [][]string) ([]*file, error) {
	type found struct {
		files []*file
		err   error
	}
	done := make(chan found, 1)
	go func() {
		files, err := find(readings)
		done <- found{files, err}
	}()
	late := time.NewTimer(diskPatience)
	defer late.Stop()
	select {
	case f := <-done:
		return f.files, f.err
	case <-late.C:
		return nil, parley.Errorf(parley.CodeTimeout, "the disk with that file does not answer").WithHint("try again")
	}
}

// attachCommand attaches the file at a path, or shows what is attached.
func (m *model) attachCommand(args string) tea.Cmd {
	if m.conv == nil && m.draft == nil {
		m.say("Choose a session first.")
		return nil
	}
	m.paths = nil // files may have come
	if args == "" {
		return m.attachedFiles()
	}
	files, err := findSoon(pathsIn(args, true, m.o.Env))
	if err != nil {
		m.fail(err)
		m.ed.set(attachPrefix + args)
		return nil
	}
	m.attach(files)
	return nil
}

// attach adds files to the next message.
func (m *model) attach(files []*file) {
	for _, f := range files {
		if slices.ContainsFunc(m.attached, func(o *file) bool { return o.path == f.path && f.path != "" }) {
			m.say(oneLine(f.name) + " is attached already.")
			continue
		}
		if len(m.attached) >= parley.MaxAttachments {
			m.fail(parley.Errorf(parley.CodeTooLarge, "a message has at most %d files", parley.MaxAttachments).WithHint("send the others with another message"))
			return
		}
		m.attached = append(m.attached, f)
	}
}

// dropped attaches the files whose paths were pasted. Other text is left to the message.
func (m *model) dropped(text string) bool {
	if m.conv == nil && m.draft == nil || strings.HasPrefix(m.ed.text, "/") {
		return false
	}
	readings := pathsIn(text, false, m.o.Env)
	if len(readings) == 0 {
		return false
	}
	files, err := findSoon(readings)
	if err != nil {
		return false
	}
	files[len(files)-1].pasted = text
	m.say("It goes with your message. Backspace makes it text again.")
	m.attach(files)
	return true
}

// detachLast takes the last file off, if the cursor is at the beginning of the message.
func (m *model) detachLast() bool {
	n := len(m.attached)
	if n == 0 || m.ed.at > 0 {
		return false
	}
	f := m.attached[n-1]
	m.attached = m.attached[:n-1]
	if f.pasted != "" {
		m.ed.insert(strings.TrimSpace(f.pasted))
	}
	return true
}

// attachedFiles lists what goes with the next message, to take files off.
func (m *model) attachedFiles() tea.Cmd {
	if len(m.attached) == 0 {
		m.say("/attach PATH attaches a file. A file that is dropped on the terminal is attached, too.")
		return nil
	}
	l := &list1{title: "These go with your next message. Enter takes one off."}
	for i, f := range m.attached {
		l.add(fmt.Sprint(i), oneLine(f.name), size(f.size))
	}
	return m.pickOne(l, "", func(m *model, id string) tea.Cmd {
		if i, err := strconv.Atoi(id); err == nil && i < len(m.attached) {
			m.attached = slices.Delete(m.attached, i, i+1)
		}
		return nil
	})
}

// uploading is how far the files of a message are.
type uploading struct {
	sent  atomic.Int64
	total int64
}

func (u *uploading) text() string {
	if u.total == 0 {
		return ""
	}
	if n := u.sent.Load(); n < u.total {
		return fmt.Sprintf("%d %%", n*100/u.total)
	}
	return "the server reads it"
}
