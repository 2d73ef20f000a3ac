package claudecli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// promptID is the id of a message that we send to the CLI. Its beginning names the turn, so that a
// transcript tells which turns it contains; the rest tells the messages of a turn apart.
func promptID(turn parley.TurnID, what string) string {
	return uuid(turnMark(turn), digest(what)[:12])
}

// turnMark is how the ids of a turn's messages begin.
func turnMark(turn parley.TurnID) string {
	d := digest("turn " + string(turn))
	return d[:12] + "8" + d[13:20] // the version of UUIDs whose form is one's own
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum)
}

// uuid writes 20 and 12 hexadecimal digits as a UUID.
func uuid(mark, rest string) string {
	d := mark + rest
	return d[:8] + "-" + d[8:12] + "-" + d[12:16] + "-" + d[16:20] + "-" + d[20:32]
}

// markOf is the beginning of an id without its dashes, as turnMark returns it.
func markOf(id string) string {
	d := strings.ReplaceAll(id, "-", "")
	if len(d) != 32 {
		return ""
	}
	return d[:20]
}

// entry is a line of a CLI's transcript. Everything else in it is opaque.
type entry struct {
	Type      string `json:"type"`
	UUID      string `json:"uuid"`
	Parent    string `json:"parentUuid"`
	Session   string `json:"sessionId"`
	Sidechain bool   `json:"isSidechain"`

	open bool // it has a call of a tool without a result
	ends bool // a turn may end with it
}

// interruptMark is how the message begins with which the CLI ends a turn that was interrupted.
const interruptMark = "[Request interrupted by user"

// read reads the content of an entry. It adds the calls of tools that it contains to asked, and the calls
// of which it contains the results to answered.
func (e *entry) read(content json.RawMessage, asked map[string][]string, answered map[string]bool) {
	e.ends = e.Type == "assistant"
	for _, b := range blocks(content) {
		switch b.Type {
		case "tool_use":
			asked[e.UUID] = append(asked[e.UUID], b.ID)
		case "tool_result":
			answered[b.ToolUseID] = true
		}
		switch e.Type {
		case "assistant":
			e.ends = e.ends && b.Type != "tool_use" && b.Type != "thinking" && b.Type != "redacted_thinking"
		case "user":
			e.ends = e.ends || b.Type == "text" && !isPrompt(e.UUID) && strings.HasPrefix(b.Text, interruptMark)
		}
	}
}

// chain returns the conversation of a transcript, oldest entry first, and the CLI's id of the
// session. It follows the parents from the last entry, as the CLI does.
func chain(body []byte) (list []entry, session string) {
	byID, asked, answered := map[string]entry{}, map[string][]string{}, map[string]bool{}
	leaf := ""
	r := bufio.NewScanner(bytes.NewReader(body))
	r.Buffer(nil, maxLine)
	for r.Scan() {
		var l struct {
			entry
			Message struct {
				Content json.RawMessage `json:"content"`
			} `json:"message"`
		}
		if json.Unmarshal(r.Bytes(), &l) != nil {
			continue // a line that was being written when the CLI ended
		}
		e := l.entry
		if e.Session != "" {
			session = e.Session
		}
		if e.UUID == "" || e.Sidechain {
			continue
		}
		if e.Type == "user" || e.Type == "assistant" {
			leaf = e.UUID
			e.read(l.Message.Content, asked, answered)
		}
		byID[e.UUID] = e
	}
	for id := leaf; id != ""; {
		e, ok := byID[id]
		if !ok {
			break
		}
		delete(byID, id)                                                                           // a circle ends
		e.open = slices.ContainsFunc(asked[id], func(call string) bool { return !answered[call] }) // results may be beside the chain
		list = append(list, e)
		id = e.Parent
	}
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list, session
}

// upTo finds how much of a conversation a session can continue from: everything up to the end of the
// newest of its turns that the conversation contains as a whole. A turn whose process was ended before it
// had written everything is not whole: it may ask for calls without their results, which models refuse, and
// lack what took effect. turns are those of the session's history, oldest first. known says how many of them
// the conversation contains in this way; 0: none.
func upTo(list []entry, turns []parley.TurnID) (at string, known int) {
	of := map[string]int{}
	for i, id := range turns {
		of[turnMark(id)] = i + 1
	}
	seen := 0
	for i, e := range list {
		n := of[markOf(e.UUID)]
		if e.Type != "user" || n <= seen {
			continue
		}
		seen = n
		var last entry
		open := false
		for _, later := range list[i:] {
			if later.Type == "user" && isPrompt(later.UUID) && of[markOf(later.UUID)] != n {
				break
			}
			open = open || later.open
			if later.Type == "user" || later.Type == "assistant" {
				last = later
			}
		}
		if !open && last.ends {
			at, known = last.UUID, n
		}
	}
	return at, known
}

// isPrompt reports whether an id may be one of ours: the CLI's own are random UUIDs of version 4.
func isPrompt(id string) bool { return len(id) == 36 && id[14] == '8' }

var notWord = regexp.MustCompile(`[^A-Za-z0-9]`)

// transcript returns the file with the CLI's transcript of a session, or "".
func transcript(config, session string) string {
	found, err := filepath.Glob(filepath.Join(config, "projects", "*", session+".jsonl"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0]
}

// sessionFile has the CLI's id of a session.
const sessionFile = "session"

// resumable finds the conversation that a new process can continue, in the session's own folder or
// in what was stored of it.
func (t *turn) resumable(ctx context.Context, s *parley.Session, home, dir string) (cli, at string, known int) {
	config := filepath.Join(home, "config")
	turns := make([]parley.TurnID, len(s.History))
	for i, x := range s.History {
		turns[i] = x.Turn
	}
	if id, err := os.ReadFile(filepath.Join(home, sessionFile)); err == nil && isUUID(string(id)) {
		if file := transcript(config, string(id)); file != "" {
			if body, err := os.ReadFile(file); err == nil {
				list, _ := chain(body)
				if at, known = upTo(list, turns); known > 0 {
					return string(id), at, known
				}
			}
		}
	}
	if s.Kept == nil || s.Kept.Runtime != t.app.Runtime {
		return "", "", 0
	}
	body, err := t.h.Kept(ctx)
	if err != nil {
		return "", "", 0
	}
	list, cli := chain(body)
	if at, known = upTo(list, turns); known == 0 || !isUUID(cli) {
		return "", "", 0
	}
	folder := filepath.Join(config, "projects", notWord.ReplaceAllString(dir, "-"))
	if os.MkdirAll(folder, 0o700) != nil || os.WriteFile(filepath.Join(folder, cli+".jsonl"), body, 0o600) != nil {
		return "", "", 0
	}
	return cli, at, known
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func isUUID(id string) bool { return uuidForm.MatchString(id) }
