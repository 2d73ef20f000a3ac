// Package extension finds what folders of files add to an app: skills, instructions, slash
// commands and hooks, in the formats that other agents use as well.
//
// Folders belong to levels: platform, app, user and workspace, from the farthest to the
// nearest. If two have something of the same name, the nearer level's is used; within a level,
// .agents goes before .claude. The instructions of all levels are used, the nearest last.
//
// Except for hooks, these files are text for a model and grant nothing. A skill's allowed-tools
// are ignored, and shell commands embedded in a slash command or skill are not run but left as
// text. The hooks of all levels are used; those of the user and the workspace run only if
// package approval allows them.
//
// The formats: agentskills.io (SKILL.md), agents.md (AGENTS.md), and the documentation of
// Claude Code (CLAUDE.md, .claude/commands and further keys of SKILL.md).
package extension

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// Places are the names that are looked for in a level's folder.
var Places = []string{".agents", ".claude", "AGENTS.md", "CLAUDE.md", "CLAUDE.local.md"}

// A Level is one folder that adds to an app.
type Level struct {
	Name string // for people: platform, app, user or workspace
	// Open opens the folder; close must be called after use. The error is fs.ErrNotExist if the
	// level has no folder now. No path, and no link, may lead out of the folder.
	Open func() (folder fs.FS, close func(), err error)
	// Dir is where the folder is on disk now, for hooks. Nil or empty: it is not on disk.
	Dir func() string
}

// ofOperator reports whether the level belongs to the operator.
func (l Level) ofOperator() bool { return l.Name != "user" && l.Name != "workspace" }

// Options configure a Set.
type Options struct {
	Levels []Level // in order, the farthest first
	Hooks  *Hooks  // nil: hooks do not run
	Logger *slog.Logger
}

// recheck is how long the result of a look at the folders counts as current.
const recheck = 2 * time.Second

// Set holds the extensions of one scope's levels. It is a seam.Toolset with two tools, [Tool]
// and [CommandTool].
// Its methods are safe for concurrent use.
type Set struct {
	o Options

	mu      sync.Mutex
	found   *found
	at      time.Time // when the folders were last looked at
	changes int64
	cache   map[place]cached // the files of the last look
}

// place identifies a file of a level.
type place struct {
	level string
	path  string
}

// cached is the content of a file. The file is read again when its size or modification time
// changes.
type cached struct {
	size int64
	at   time.Time
	text string
}

// found is the result of one look at the folders.
type found struct {
	Skills       []skill
	Commands     []command
	Instructions string
	Hooks        []foundHook
	Problems     []string
}

// New makes a Set and looks at its folders.
func New(o Options) *Set {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{o: o}
	s.Refresh(context.Background())
	return s
}

// Stale implements seam.Refresher.
func (s *Set) Stale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.at) >= recheck
}

// Refresh implements seam.Refresher. It looks at the folders again.
func (s *Set) Refresh(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := look{before: s.cache, now: map[place]cached{}}
	for _, level := range s.o.Levels {
		l.level(level)
	}
	now := l.result()
	if s.found == nil || digest(now) != digest(s.found) {
		for _, p := range now.Problems {
			if s.found == nil || !slices.Contains(s.found.Problems, p) {
				s.o.Logger.Warn("an extension file has a problem", "problem", p)
			}
		}
		s.found = now
		s.changes++
	}
	s.cache, s.at = l.now, time.Now()
}

func digest(f *found) [32]byte {
	raw, err := json.Marshal(f)
	if err != nil {
		panic("extension: " + err.Error()) // it contains only text, which cannot fail to encode
	}
	return sha256.Sum256(raw)
}

// Changes implements seam.Changer.
func (s *Set) Changes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// Instructions implements seam.Instructor.
func (s *Set) Instructions() string { return s.current().Instructions }

func (s *Set) current() *found {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found
}

// open opens a level by its name.
func (s *Set) open(level string) (fs.FS, func(), error) {
	for _, l := range s.o.Levels {
		if l.Name == level {
			folder, end, err := l.Open()
			if errors.Is(err, fs.ErrNotExist) {
				err = errGone
			}
			return folder, end, err
		}
	}
	return nil, nil, errGone
}

var errGone = parley.Errorf(parley.CodeNotFound, "its folder is gone")

// look collects what one look at the folders finds.
type look struct {
	before, now  map[place]cached
	skills       map[string]skill   // by name
	commands     map[string]command // by name
	instructions []string
	length       int // bytes of instructions
	hooks        []foundHook
	hooksOff     bool
	problems     []string
}

func (l *look) level(level Level) {
	folder, end, err := level.Open()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		l.problem(level.Name, "", err)
		l.unread(level, "", err)
		return
	}
	defer end()
	in := &reader{look: l, level: level.Name, folder: folder}
	in.instructions()
	in.hooks(level)
	// .agents comes second, because later finds replace earlier ones.
	for _, dir := range []string{".claude", ".agents"} {
		if dir == ".claude" {
			in.commands(dir + "/commands")
		}
		in.skills(dir + "/skills")
	}
}

func (l *look) problem(level, path string, err error) {
	if len(l.problems) < maxProblems {
		l.problems = append(l.problems, fmt.Sprintf("%s of the %s: %v", orFolder(path), level, short(err)))
	}
}

func orFolder(path string) string {
	if path == "" {
		return "the folder"
	}
	return path
}

// short returns err without paths of this machine.
func short(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

func (l *look) result() *found {
	f := &found{Instructions: strings.Join(l.instructions, "\n\n"), Hooks: l.hooks, Problems: l.problems}
	for _, s := range l.skills {
		f.Skills = append(f.Skills, s)
	}
	for _, c := range l.commands {
		f.Commands = append(f.Commands, c)
	}
	slices.SortFunc(f.Skills, func(a, b skill) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(f.Commands, func(a, b command) int { return strings.Compare(a.Name, b.Name) })
	return f
}
