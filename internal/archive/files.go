package archive

import (
	"iter"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/steps"
)

// Files folds a session's log, event by event, into the session's files: those that
// [Write] packs, and those kept on disk while a session goes on. It holds the open turns,
// and of ended turns only when they ran and for how long.
//
// If retention removed the data of steps and no archive has them, the files lack these
// steps, and the fold needs what [Kept] returns.
type Files struct {
	fold      parley.Session
	kept      parley.Condensed
	messages  []message // also those that were taken back
	steps     steps.Log
	open      []*Turn // in the order in which they began
	artifacts []parley.ArtifactRef
	apps      []parley.Digest // that turns began with
	have      map[string]bool // artifacts and apps
}

// Kept collects what retention left of the steps that it removed from a log.
func Kept(events iter.Seq2[parley.Event, error]) (kept parley.Condensed, err error) {
	for e, err := range events {
		if err == nil {
			err = kept.Add(e)
		}
		if err != nil {
			return kept, err
		}
	}
	return kept, nil
}

// NewFiles returns the files of a session before its first event. kept comes from the
// whole log; without it, an event whose data was removed is CodeCondensed.
func NewFiles(kept parley.Condensed) *Files {
	return &Files{kept: kept, have: map[string]bool{}}
}

// Seq is the number of the last event applied.
func (f *Files) Seq() int64 { return f.fold.Seq }

// ID names the session.
func (f *Files) ID() parley.SessionID { return f.fold.ID }

// App names the session's app.
func (f *Files) App() string { return f.fold.App }

// Running reports whether a turn is open and does not wait for a human.
func (f *Files) Running() bool {
	return f.fold.Turn != nil && f.fold.Turn.Status != parley.StatusInterrupted && len(f.fold.Interactions) == 0
}

// Size is about how many bytes of memory the Files use.
func (f *Files) Size() int {
	n := 8<<10 + f.fold.HistoryBytes + 128*(len(f.messages)+len(f.artifacts))
	for _, t := range f.open {
		n += t.size
	}
	return n
}

// Apply adds one event, and returns the turn that it belongs to. Files no longer uses a
// turn that has ended; the caller may keep it.
func (f *Files) Apply(e parley.Event) (*Turn, error) {
	if e.Seq != f.fold.Seq+1 {
		return nil, parley.Errorf(parley.CodeInternal, "session %s: event %d follows %d", e.Session, e.Seq, f.fold.Seq)
	}
	p, err := e.Payload()
	switch parley.CodeOf(err) {
	case parley.CodeUpgradeRequired: // by a newer version: what is known of the session is shown
		p, err = nil, nil
		f.fold.Skip(e)
	case parley.CodeCondensed:
		if len(f.kept.Events) > 0 {
			p, err = nil, f.fold.ApplyCondensed(e, f.kept)
		}
	case "":
		err = f.fold.ApplyCondensed(e, f.kept)
	}
	if err != nil {
		return nil, err
	}
	switch p := p.(type) {
	case parley.TurnStarted:
		f.messages = append(f.messages, meta(parley.RoleUser, e, p.Message.Text()))
		if p.App != "" && f.isNew("app "+string(p.App)) {
			f.apps = append(f.apps, p.App)
		}
	case parley.TurnCompleted:
		f.messages = append(f.messages, meta(parley.RoleAssistant, e, p.Response.Message))
	case parley.ArtifactStored:
		f.artifact(p.ArtifactRef)
	case parley.ToolEnded:
		if p.Artifact != nil {
			f.artifact(*p.Artifact)
		}
	}
	if e.Turn == "" {
		return nil, nil
	}
	at := slices.IndexFunc(f.open, func(t *Turn) bool { return t.c.ID == string(e.Turn) })
	if at < 0 {
		at = len(f.open)
		f.open = append(f.open, &Turn{c: continuation{
			ID: string(e.Turn), SessionID: string(e.Session), CreatedAt: millis(e.Time), StepLog: []stepLogEntry{},
		}})
	}
	t := f.open[at]
	t.size += len(e.Data)
	t.c.apply(e, p, &f.steps)
	if t.Ended() {
		f.open = slices.Delete(f.open, at, at+1)
	}
	return t, nil
}

func (f *Files) isNew(name string) bool {
	was := f.have[name]
	f.have[name] = true
	return !was
}

func (f *Files) artifact(a parley.ArtifactRef) {
	if f.isNew(string(a.ID)) {
		f.artifacts = append(f.artifacts, a)
	}
}

// Open are the turns that have not ended, in the order in which they began.
func (f *Files) Open() []*Turn { return f.open }

// Artifacts are all large results so far, in their order.
func (f *Files) Artifacts() []parley.ArtifactRef { return f.artifacts }

// Session is session.json.
func (f *Files) Session() ([]byte, error) { return encode(f.session(), " ") }

// Turn is one turn with its two files, as far as the log goes.
type Turn struct {
	c    continuation
	size int
}

// ID names the turn.
func (t *Turn) ID() parley.TurnID { return parley.TurnID(t.c.ID) }

// Ended reports whether nothing more comes.
func (t *Turn) Ended() bool { return parley.TurnStatus(t.c.Status).Ended() }

// Steps counts the lines of its log.
func (t *Turn) Steps() int { return len(t.c.StepLog) }

// Record is turns/{id}.json.
func (t *Turn) Record() ([]byte, error) { return encode(t.c, " ") }

// Log is the content of logs/{id}.log after the given number of lines.
func (t *Turn) Log(after int) ([]byte, error) {
	var out []byte
	for _, step := range t.c.StepLog[after:] {
		line, err := encode(step, "")
		if err != nil {
			return nil, err
		}
		out = append(out, line...)
	}
	return out, nil
}

// Names of the files, from the folder that holds sessions or from the root of a
// zip file.
const (
	SessionFile     = "session.json"
	TurnFolder      = "turns"
	LogFolder       = "logs"
	ArtifactsFolder = "artifacts"
)

// TurnFile and LogFile are the names of a turn's files.
func TurnFile(t parley.TurnID) string { return TurnFolder + "/" + string(t) + ".json" }

// LogFile is where a turn's steps are.
func LogFile(t parley.TurnID) string { return LogFolder + "/" + string(t) + ".log" }

// IsID reports whether name has the form of an id that the engine assigns. Nothing else
// may become a file name.
func IsID[T ~string](name T) bool { return id.MatchString(string(name)) }
