package claudecli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// stored is a message in a session's file. The last one of the file is where the session goes on.
type stored struct {
	Type       string `json:"type"`
	UUID       string `json:"uuid"`
	ParentUUID string `json:"parentUuid"`
	SessionID  string `json:"sessionId"`
	Message    Line   `json:"message"`
}

// file is where a session is kept. An existing one is found from every folder.
func (p *program) file(session string) string {
	if found, _ := filepath.Glob(filepath.Join(p.config(), "projects", "*", session+".jsonl")); len(found) > 0 {
		return found[0]
	}
	return filepath.Join(p.config(), "projects", strings.ReplaceAll(p.o.Dir, "/", "-"), session+".jsonl")
}

// openSession finds the session that the command line names, or makes one.
func (p *program) openSession() error {
	captured := ""
	for _, e := range p.t.Entries {
		if id := text(e.Line, "session_id"); id != "" && !e.In {
			captured = id
			break
		}
	}
	own, chosen := p.flag("session-id")
	from, resume := p.flag("resume")
	_, fork := p.flag("fork-session")
	switch {
	case chosen && !isID(own):
		return p.startup("Error: Invalid session ID. Must be a valid UUID.")
	case chosen && resume && !fork:
		return p.startup("Error: --session-id with --continue or --resume also needs --fork-session.")
	case chosen:
		if _, err := os.Stat(p.file(own)); err == nil {
			return p.startup("Error: Session ID " + own + " is already in use.")
		}
		p.session = own
	case resume && !fork && isID(from):
		p.session = from
	default:
		p.session = newID()
	}
	if captured != "" {
		p.ids[captured] = p.session
	}
	if !resume {
		return nil
	}
	if !isID(from) {
		return p.missing(fmt.Sprintf("Error: --resume requires a valid session ID or session title when used with --print. Usage: claude -p --resume <session-id|title>. Provided value %q is not a UUID and does not match any session title.", from))
	}
	all, err := p.load(from)
	if errors.Is(err, fs.ErrNotExist) {
		return p.missing("No conversation found with session ID: " + from)
	}
	if err != nil {
		return err
	}
	for _, s := range all { // also of what is not gone on from
		p.seen[s.UUID] = s.Type == "user"
	}
	leaf := ""
	if len(all) > 0 {
		leaf = all[len(all)-1].UUID
	}
	if at, ok := p.flag("resume-session-at"); ok {
		leaf = at
	}
	history, ok := chain(all, leaf)
	if !ok {
		return p.missing("No message found with message.uuid of: " + leaf)
	}
	p.leaf = leaf
	for _, s := range history {
		p.histories[""] = append(p.histories[""], s.Message)
		if fork {
			s.SessionID = p.session
			if err := p.append(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func isID(s string) bool { return idLike.FindString(s) == s && len(s) == 36 }

// startup refuses to start.
func (p *program) startup(why string) error {
	fmt.Fprintln(p.o.Err, why)
	return exit(1)
}

// missing refuses to start, with a result in place of the answer to initialize.
func (p *program) missing(why string) error {
	fmt.Fprintln(p.o.Err, why)
	l := template("10-resume-g-missing", func(l Line) bool { return l["type"] == "result" })
	if err := p.write(with(l, Line{"errors": []any{why}, "session_id": p.session, "uuid": newID()})); err != nil {
		return err
	}
	return exit(1)
}

// load reads a session's messages.
func (p *program) load(session string) ([]stored, error) {
	f, err := os.Open(p.file(session))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []stored
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var s stored
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			continue // cut off when the program was killed
		}
		all = append(all, s)
	}
	return all, lines.Err()
}

// chain returns the messages up to one of them.
func chain(all []stored, leaf string) ([]stored, bool) {
	by := map[string]stored{}
	for _, s := range all {
		by[s.UUID] = s
	}
	var back []stored
	for at := leaf; at != ""; at = by[at].ParentUUID {
		s, ok := by[at]
		if !ok {
			return nil, false
		}
		back = append([]stored{s}, back...)
	}
	return back, true
}

// note adds a message to what the model is told, and to the session's file.
func (p *program) note(kind, agent string, m Line, uuid string) error {
	p.histories[agent] = append(p.histories[agent], m)
	if agent != "" {
		return nil
	}
	if uuid == "" {
		uuid = newID()
	}
	s := stored{Type: kind, UUID: uuid, ParentUUID: p.leaf, SessionID: p.session, Message: m}
	p.leaf = uuid
	return p.append(s)
}

func (p *program) append(s stored) error {
	if _, off := p.flag("no-session-persistence"); off || p.config() == "" || p.o.Dir == "" {
		return nil
	}
	path := p.file(s.SessionID)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(raw, '\n')); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
