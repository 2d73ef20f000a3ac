package turncommit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// session is what is known of a session whose files are in the repository.
type session struct {
	id     parley.SessionID
	folder string
	seq    int64 // up to which it was read
	turns  map[parley.TurnID]*turn
}

// turn is a turn that has not ended.
type turn struct {
	id      parley.TurnID
	asked   string
	tools   []string        // that have effects
	paths   map[string]bool // of files that it announced or changed, in the folder
	touched bool            // it may have changed files
	idle    bool            // it was interrupted, and does not go on by itself
}

// job is a commit to be made.
type job struct {
	key     string // of the trailer that says what it is of
	value   string
	session parley.SessionID
	folder  string
	subject string
	status  string // of a turn
	paths   map[string]bool
	at      time.Time
	unsure  bool // it may have been made by an earlier process
}

// read reads what is new in a session.
func (w *worker) read(ctx context.Context, id parley.SessionID) error {
	s := w.known[id]
	if s == nil {
		if w.foreign[id] {
			return nil
		}
		info, err := w.c.o.Store.Session(ctx, parley.System(), id)
		if errors.Is(err, parley.ErrNotFound) || parley.CodeOf(err) == parley.CodeNotFound && err != nil {
			return nil
		}
		if err != nil {
			return err
		}
		folder := ""
		if info.App == w.c.o.App {
			folder = w.c.o.Folder(info.Workspace)
		}
		if folder == "" {
			if len(w.foreign) > 4*maxMarks {
				clear(w.foreign)
			}
			w.foreign[id] = true
			return nil
		}
		s = &session{id: id, folder: folder, turns: map[parley.TurnID]*turn{}}
		if s.seq, err = w.from(ctx, id); err != nil {
			return err
		}
		w.known[id] = s
	}
	for e, err := range w.c.o.Log.Whole(ctx, parley.System(), id, s.seq) {
		if parley.CodeOf(err) == parley.CodeNotFound && err != nil {
			delete(w.known, id) // it was deleted
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.apply(ctx, s, e); err != nil {
			return err
		}
		s.seq = e.Seq
	}
	return nil
}

// from is the number after which a session has to be read: that of the event before the oldest turn
// that is open, or ended not long before this process or the last one stopped.
func (w *worker) from(ctx context.Context, id parley.SessionID) (int64, error) {
	from := int64(-1)
	for q := (seam.TurnQuery{Session: id, Limit: 50}); ; {
		page, err := w.c.o.Store.Turns(ctx, parley.System(), q)
		if err != nil {
			return 0, err
		}
		for _, t := range page {
			if from >= 0 && t.Status.Ended() && t.EndedAt.Before(w.cutoff) {
				return from, nil
			}
			if t.FirstSeq > 0 && (from < 0 || t.FirstSeq-1 < from) {
				from = t.FirstSeq - 1
			}
		}
		if len(page) == 0 || len(page) < q.Limit {
			return max(from, 0), nil
		}
		q.After = q.Mark(page[len(page)-1])
	}
}

// apply follows an event. After an error it is to be called with the same event again.
func (w *worker) apply(ctx context.Context, s *session, e parley.Event) error {
	if e.Turn == "" {
		return w.outside(ctx, s, e)
	}
	p, err := e.Payload()
	if err != nil {
		return nil // of a newer version
	}
	t := s.turns[e.Turn]
	switch p := p.(type) {
	case parley.TurnStarted:
		s.turns[e.Turn] = &turn{id: e.Turn, asked: asked(p.TurnRequest), paths: map[string]bool{}}
		w.c.s.want() // what others pushed
		return nil
	case parley.TurnCompleted:
		w.ends(s, t, e, "completed")
	case parley.TurnFailed:
		w.ends(s, t, e, "failed")
	case parley.TurnCancelled:
		w.ends(s, t, e, "cancelled")
	case parley.TurnExpired:
		w.ends(s, t, e, "expired")
	}
	if t == nil {
		return nil
	}
	switch p := p.(type) {
	case parley.TurnInterrupted:
		t.idle = !p.Resumes
	case parley.TurnResumed:
		t.idle = false
	case parley.FilesAnnounced:
		t.add(p.Paths...)
	case parley.FilesSaved:
		for _, f := range p.Files {
			t.add(f.Path)
		}
	case parley.ToolStarted:
		if p.Effect != parley.EffectRead {
			t.touched = true
			if !slices.Contains(t.tools, p.Name) && len(t.tools) < 5 {
				t.tools = append(t.tools, p.Name)
			}
		}
	}
	return nil
}

func (t *turn) add(paths ...string) {
	t.touched = true
	for _, p := range paths {
		if len(t.paths) < maxPaths {
			t.paths[path.Clean(p)] = true
		}
	}
}

// asked is what a turn was asked, on one line.
func asked(r parley.TurnRequest) string {
	if r.Call != nil {
		return r.Call.Name
	}
	return strings.Join(strings.Fields(r.Message.Text()), " ")
}

// ends makes the job of a turn that has ended.
func (w *worker) ends(s *session, t *turn, e parley.Event, status string) {
	delete(s.turns, e.Turn)
	if t == nil || !t.touched {
		return
	}
	subject := t.asked
	if subject == "" {
		subject = strings.Join(t.tools, ", ")
	}
	w.put(job{
		key: "Parley-Turn", value: string(t.id), session: s.id, folder: s.folder, subject: subject, status: status, paths: t.paths, at: e.Time,
	})
}

// outside makes the job of an event that changed files outside of any turn, such as a rewind.
func (w *worker) outside(ctx context.Context, s *session, e parley.Event) error {
	var d struct {
		Files  []struct{ Path string } `json:"files"`
		Turn   parley.TurnID           `json:"turn"`
		Undoes int64                   `json:"undoes"`
	}
	if e.Data == nil || json.Unmarshal(e.Data, &d) != nil || len(d.Files) == 0 {
		return nil
	}
	paths := map[string]bool{}
	for _, f := range d.Files {
		if f.Path != "" && len(paths) < maxPaths {
			paths[path.Clean(f.Path)] = true
		}
	}
	subject := string(e.Type)
	switch {
	case e.Type == "session.rewound" && d.Undoes != 0:
		subject = "Undo a rewind"
	case e.Type == "session.rewound":
		of, err := w.c.o.Store.Turn(ctx, parley.System(), d.Turn)
		if err != nil && parley.CodeOf(err) != parley.CodeNotFound {
			return err
		}
		if subject = "Go back to before turn " + string(d.Turn); of.Message != "" {
			subject = "Go back to before: " + of.Message
		}
	}
	w.put(job{key: "Parley-Event", value: fmt.Sprintf("%s:%d", s.id, e.Seq), session: s.id, folder: s.folder, subject: subject, paths: paths, at: e.Time})
	return nil
}

// put adds a job, unless it is known to be done.
func (w *worker) put(j job) {
	name := j.key + j.value
	if w.done[name] || j.at.Before(w.cutoff) {
		return
	}
	if len(w.done) > 4*maxJobs {
		clear(w.done)
	}
	w.done[name] = true
	j.unsure = j.at.Before(w.began)
	if len(w.jobs) >= maxJobs {
		w.c.o.Logger.Warn("commits of turns: too many wait; the changes of a turn go with those of the next in its folder", "turn", j.value)
		return
	}
	w.jobs = append(w.jobs, j)
	slices.SortStableFunc(w.jobs, func(a, b job) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.value, b.value)) // ids are in the order of time
	})
}

// except are files in a folder that a commit of j leaves out: those of turns that run, or that have no
// commit yet. also are turns whose files it has as well.
func (w *worker) except(ctx context.Context, j job) (files []string, also []string, err error) {
	open, err := w.c.o.Store.Turns(ctx, parley.System(), seam.TurnQuery{
		Statuses: []parley.TurnStatus{parley.StatusRunning, parley.StatusWaiting, parley.StatusInterrupted}, Limit: -1,
	})
	if err != nil {
		return nil, nil, err
	}
	for _, t := range open {
		if err := w.read(ctx, t.SessionID); err != nil { // what was announced until now
			return nil, nil, err
		}
	}
	if err := w.recent(ctx, j.at.Add(-margin)); err != nil { // and by turns that have ended since
		return nil, nil, err
	}
	out := map[string]bool{}
	with := func(name string, paths map[string]bool) {
		shared := false
		for p := range paths {
			if j.paths[p] {
				shared = true
			} else {
				out[j.folder+"/"+p] = true
			}
		}
		if shared {
			also = append(also, name)
		}
	}
	for _, s := range w.known {
		for _, t := range s.turns {
			if s.folder == j.folder && !t.idle {
				with(string(t.id), t.paths)
			}
		}
	}
	for _, other := range w.jobs {
		if other.folder == j.folder && (other.key != j.key || other.value != j.value) {
			with(other.value, other.paths)
		}
	}
	slices.Sort(also)
	return slices.Sorted(maps.Keys(out)), also, nil
}
