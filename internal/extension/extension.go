// Package extension finds what folders of files add to an app: skills, instructions, slash
// commands and hooks, in the formats that other agents use as well.
//
// Folders have levels: the platform's, the app's, the user's and the workspace's. Of what
// has the same name, the nearest level's counts, and in a level that below .agents before
// that below .claude. Instructions of all levels count, the nearest last.
//
// Except for hooks, what is found is text for a model and grants nothing. A skill's
// allowed-tools do not count, and the commands that a slash command or skill would have run
// are left as they stand. Hooks of all levels count; those of the user and the workspace run
// only as package approval lets them.
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

// Places are what a level's folder may have.
var Places = []string{".agents", ".claude", "AGENTS.md", "CLAUDE.md", "CLAUDE.local.md"}

// A Level is one folder that adds to an app.
type Level struct {
	Name string // for people: platform, app, user or workspace
	// Open opens the folder, and close ends its use. The error is fs.ErrNotExist if the
	// level has no folder now. No path may lead out of it.
	Open func() (folder fs.FS, close func(), err error)
	// Dir is where the folder is on disk now, for hooks. Nil or empty: it is not on disk.
	Dir func() string
}

// ofOperator reports whether the level is the operator's.
func (l Level) ofOperator() bool { return l.Name != "user" && l.Name != "workspace" }

// Options configure a Set.
type Options struct {
	Levels []Level // the farthest first
	Hooks  *Hooks  // nil: hooks do not run
	Logger *slog.Logger
}

// recheck is for how long what was found counts as current.
const recheck = 2 * time.Second

// Set is what the levels of one scope add. It is a seam.Toolset with the one tool [Tool].
// Its methods are safe for concurrent use.
type Set struct {
	o Options

	mu      sync.Mutex
	found   *found
	at      time.Time // when the folders were last looked at
	changes int64
	cache   map[place]cached // of the last look
}

// place is a file of a level.
type place struct {
	level string
	path  string
}

// cached is a file as it was read. It is read again when its size or time has changed.
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
				s.o.Logger.Warn("an extension is not used as it stands", "problem", p)
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
		panic("extension: " + err.Error()) // it has nothing but text
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

// look is one look at the folders.
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
	// What is found later replaces what was found before.
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

// short is err without the path of the machine.
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
