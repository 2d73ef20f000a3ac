package parley

import (
	"strings"
	"time"
)

// Workspace names the folder of files that a session works in. "vault" is one of the
// session's user. "shared/handbook" is one that the app's file shares with all its users.
// Empty: the session has none. Another user's workspace has no name here, so it cannot be
// reached.
type Workspace string

// Shared returns the name of a workspace that an app shares. For a user's own, ok is
// false.
func (w Workspace) Shared() (name string, ok bool) {
	return strings.CutPrefix(string(w), "shared/")
}

// WorkspaceKind says why a user may work in a workspace.
type WorkspaceKind string

const (
	WorkspaceOwn     WorkspaceKind = "own"     // it is the user's
	WorkspaceShared  WorkspaceKind = "shared"  // the app shares it with all its users
	WorkspaceGranted WorkspaceKind = "granted" // the app grants it to the user
)

// WorkspaceInfo describes a workspace that a user may work in.
type WorkspaceInfo struct {
	App      string        `json:"app"`
	Name     Workspace     `json:"name"`
	Kind     WorkspaceKind `json:"kind"`
	ReadOnly bool          `json:"read_only,omitempty"`
	// Default says that sessions that name no workspace get this one. If it is the user's own,
	// it is made when it is first used.
	Default bool `json:"default,omitempty"`
	Lake    bool `json:"lake,omitempty"` // its Markdown files are entities of a lake
}

// CreateWorkspace makes a workspace of the user's own.
type CreateWorkspace struct {
	App  string    `json:"app"`
	Name Workspace `json:"name"` // at most 64 letters, digits, spaces and . _ -
}

// FileKind says what a name in a workspace stands for.
type FileKind string

const (
	FileRegular FileKind = "file"
	FileFolder  FileKind = "folder"
	FileLink    FileKind = "link"  // a symbolic link, which is never followed
	FileOther   FileKind = "other" // such as a pipe; it cannot be read
)

// FileEntry is one line of a workspace's tree.
type FileEntry struct {
	Path     string    `json:"path"` // relative to the workspace, with slashes
	Kind     FileKind  `json:"kind"`
	Size     int64     `json:"size,omitempty"` // bytes; of a file only
	Modified time.Time `json:"modified,omitzero"`
	// Ignored says that a .gitignore or .ignore file names it, or that it is hidden because its
	// name begins with a dot, or that it is in such a folder.
	Ignored bool `json:"ignored,omitempty"`
}

// FileTree is a page of a workspace's tree. A folder comes right before what is in it; within a
// folder, entries are in the order of the bytes of their names.
type FileTree struct {
	Entries []FileEntry `json:"entries"`
	Next    string      `json:"next,omitempty"` // what to ask for next; empty: this is the last page
}

// FileInfo describes a file.
type FileInfo struct {
	Path      string    `json:"path"`
	Version   Digest    `json:"version"` // the SHA-256 of its content
	Size      int64     `json:"size"`    // bytes
	Modified  time.Time `json:"modified"`
	MediaType string    `json:"media_type"` // what its content is sent as
}

// FileContent is a file with its text, or a part of it.
type FileContent struct {
	FileInfo
	// Text is nil if the file is not text in UTF-8. Line ends are as they are in the file.
	Text  *string `json:"text,omitempty"`
	Line  int     `json:"line,omitempty"`  // the number of the first line of the text, from 1
	Lines int     `json:"lines,omitempty"` // of the whole file
	// NextLine is the line after the text; 0: it goes to the end of the file.
	NextLine int `json:"next_line,omitempty"`
	// Cut says that a line was too long, so that not all of it is in the text.
	Cut bool `json:"cut,omitempty"`
}

// WriteFile is the new content of a file: a text, or any bytes.
type WriteFile struct {
	Text   *string `json:"text,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
	// Version is the version that the new content is based on. Empty: there must be no such file
	// yet.
	Version Digest `json:"version,omitempty"`
}

// MoveFile gives a file another path.
type MoveFile struct {
	To      string `json:"to"`
	Version Digest `json:"version"` // of the file that is moved
}

// FileVersion is a version of a file in its history.
type FileVersion struct {
	// ID names it: a commit's hash, or the call of a session that made it.
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// Author and Subject are those of a commit.
	Author  string `json:"author,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Session and Turn made it, if it is not from a commit.
	Session SessionID `json:"session,omitempty"`
	Turn    TurnID    `json:"turn,omitempty"`
	Deleted bool      `json:"deleted,omitempty"` // the file was deleted
	// MovedFrom is the path that the file had before, if the commit moved it.
	MovedFrom string `json:"moved_from,omitempty"`
}

// Backlinks are the notes of a workspace that link to a file, in the order of their paths.
type Backlinks struct {
	Links   []Backlink `json:"links"`
	Partial bool       `json:"partial,omitempty"` // not all notes were looked at, or there are more
}

// Backlink is a line of a note with a link to a file.
type Backlink struct {
	Path string `json:"path"`
	Line int    `json:"line"` // from 1
	Text string `json:"text"` // the line, or its beginning
}

// FileHistory is a page of the versions of a file, the newest first. Where the workspace is in a git
// repository they are commits; elsewhere they are changes by the user's own sessions.
type FileHistory struct {
	Versions []FileVersion `json:"versions"`
	Next     string        `json:"next,omitempty"` // what to ask for next; empty: this is the last page
}
