package linkedin

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/seam"
)

// LogPath is where the activity log is, in the workspace of the person.
const LogPath = "linkedin/posts.csv"

// maxLog is how many bytes the log may have: about 10,000 long posts.
const maxLog = 16 << 20

var logHead = []string{"timestamp", "action", "post_urn", "comment_urn", "text", "response"}

var actions = map[string]string{Post: "post", PostComment: "comment", ReplyComment: "reply"}

// response is the last column of a row. Its call tells rows apart whose text is the same.
type response struct {
	Status int           `json:"status,omitempty"` // 0: it was found afterwards
	ID     string        `json:"id,omitempty"`
	Code   string        `json:"code,omitempty"`
	Call   parley.CallID `json:"call,omitempty"`
}

// row is an entry of the log.
type row struct {
	action, post, comment string
	response
}

// made is the URN of what the row is about.
func (r row) made() string {
	if r.action == "post" {
		return r.post
	}
	return r.comment
}

// activity is the log as it was read.
type activity struct {
	tree files.Tree
	body []byte
	was  files.Version
	rows []row
}

// openLog reads the log of a call's workspace, and says why it cannot be kept.
func openLog(r seam.Run) (*activity, error) {
	if r.ReadOnly {
		return nil, parley.Errorf(parley.CodeForbidden, "the workspace is read-only, so what is posted cannot be logged; nothing was done")
	}
	in, err := tree(r)
	if err != nil {
		return nil, err
	}
	l := &activity{tree: in}
	return l, l.load()
}

func (l *activity) load() error {
	body, err := l.tree.Read(LogPath, maxLog)
	l.body, l.was, l.rows = body, "", nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case parley.CodeOf(err) == parley.CodeTooLarge:
		return parley.Errorf(parley.CodeTooLarge, "%s is full", LogPath).WithHint("rename the file; a new one is begun")
	case err != nil:
		return err
	}
	l.was = files.VersionOf(body)
	in := csv.NewReader(bytes.NewReader(body))
	in.FieldsPerRecord, in.LazyQuotes = -1, true // a person may have edited it
	for {
		rec, err := in.Read()
		if err != nil {
			return nil //nolint:nilerr // the end, or from there on it is not ours to judge
		}
		if len(rec) < len(logHead) || rec[0] == logHead[0] {
			continue
		}
		v := row{action: rec[1], post: rec[2], comment: rec[3]}
		_ = json.Unmarshal([]byte(rec[5]), &v.response)
		l.rows = append(l.rows, v)
	}
}

// of returns the row of the call that made something.
func (l *activity) of(c parley.CallID) (row, bool) {
	for _, v := range l.rows {
		if v.Call == c && v.Code == "" {
			return v, true
		}
	}
	return row{}, false
}

// has reports whether the log names what was made.
func (l *activity) has(urn string) bool {
	for _, v := range l.rows {
		if v.made() == urn {
			return true
		}
	}
	return false
}

// plain is a text that a spreadsheet shows and does not compute: one that could be a formula gets
// an apostrophe in front, which spreadsheets hide.
func plain(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}

// add adds a row, unless there is one for what was made.
func (l *activity) add(ctx context.Context, r seam.Run, at time.Time, w wish, m made, resp response) (saved *parley.FileSaved, err error) {
	if r.Changes != nil {
		if err := r.Changes(ctx, LogPath); err != nil {
			return nil, err
		}
	}
	urn := m.comment
	if w.tool == Post {
		urn = m.post
	}
	raw, err := json.Marshal(resp)
	if err != nil {
		return nil, err
	}
	for range 5 { // somebody else may change the file meanwhile
		if urn != "" && l.has(urn) {
			return nil, nil
		}
		var b bytes.Buffer
		b.Write(l.body)
		if n := len(l.body); n > 0 && l.body[n-1] != '\n' {
			b.WriteByte('\n')
		}
		out := csv.NewWriter(&b)
		if len(l.body) == 0 {
			_ = out.Write(logHead) // into memory
		}
		_ = out.Write([]string{at.UTC().Format(time.RFC3339), actions[w.tool], m.post, m.comment, plain(w.Text), string(raw)})
		out.Flush()
		_, err = l.tree.Apply(files.Change{Path: LogPath, Body: b.Bytes(), Was: l.was, Tag: string(r.Call)})
		if err == nil {
			saved = &parley.FileSaved{Path: LogPath, Before: l.was, After: files.VersionOf(b.Bytes()), Added: 1}
			return saved, nil
		}
		if !files.IsChanged(err) {
			return nil, err
		}
		if err := l.load(); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// done logs what a call has made, and returns its result.
func (t *Toolset) done(ctx context.Context, r seam.Run, w wish, l *activity, m made) parley.ToolResult {
	res := parley.ToolResult{Outcome: parley.OutcomeOK, Output: said(w.tool, m)}
	id := m.comment
	if w.tool == Post {
		id = m.post
	}
	saved, err := l.add(context.WithoutCancel(ctx), r, t.o.Now(), w, m, response{Status: m.status, ID: id, Call: r.Call})
	if err != nil {
		t.o.Logger.Error("what was done at LinkedIn could not be logged", "person", w.person, "action", actions[w.tool], "urn", id, "err", err)
		res.Output += "\nThe activity log " + LogPath + " could not be written."
	}
	if saved != nil {
		res.Saved = []parley.FileSaved{*saved}
	}
	return res
}

// found logs a post that LinkedIn has and the log does not: an earlier call made it, and its
// answer was lost.
func (t *Toolset) found(ctx context.Context, r seam.Run, w wish, l *activity, urn string) {
	if _, err := l.add(context.WithoutCancel(ctx), r, t.o.Now(), w, made{post: urn}, response{Status: 422, ID: urn, Code: "DUPLICATE_POST", Call: r.Call}); err != nil {
		t.o.Logger.Error("a post found at LinkedIn could not be logged", "person", w.person, "urn", urn, "err", err)
	}
}
