package parley

import "time"

// Entity is a Markdown file of a lake, which is a git repository of such files.
type Entity struct {
	Path  string `json:"path"` // from the lake's folder, with slashes
	Kind  string `json:"kind"` // of its front matter, or else by its folder: role, doc, note or page
	Title string `json:"title"`
	// Tags are sorted, without the sign #.
	Tags []string `json:"tags"`
	// Created and Updated are as the front matter has them: a day, or a time in RFC 3339.
	Created string `json:"created,omitempty"`
	Updated string `json:"updated,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Status  string `json:"status,omitempty"`
	// Version identifies the content: the hash that git has for it.
	Version string `json:"version"`
	Size    int64  `json:"size"` // bytes
	// Front, Links, Faults and Body are those of a single entity; lists leave them out.
	Front  map[string]any `json:"front,omitempty"`
	Links  []EntityLink   `json:"links,omitempty"`
	Faults []EntityFault  `json:"faults,omitempty"`
	// Body is the whole file, with its front matter.
	Body string `json:"body,omitempty"`
}

// EntityLink is a link of an entity.
type EntityLink struct {
	Text   string `json:"text,omitempty"` // what is shown, if it is not the target
	Target string `json:"target"`         // as it is written, without the heading
	Head   string `json:"heading,omitempty"`
	Path   string `json:"path,omitempty"` // the file that it leads to; empty: it is broken
	Line   int    `json:"line"`           // from 1
	Kind   string `json:"kind"`           // wiki or markdown
	Broken bool   `json:"broken,omitempty"`
}

// EntityBacklink is a link that leads to an entity.
type EntityBacklink struct {
	Path  string `json:"path"` // of the entity that has it
	Title string `json:"title"`
	Line  int    `json:"line"`           // from 1
	Text  string `json:"text,omitempty"` // the line, or its beginning
}

// EntityFault is something that is wrong in an entity.
type EntityFault struct {
	Path    string `json:"path"`
	Line    int    `json:"line"` // from 1
	Rule    string `json:"rule"` // such as broken-link, front-matter
	Message string `json:"message"`
}

// EntityHit is an entity that a search found.
type EntityHit struct {
	Entity
	// Snippet is the part of its text that fits best, with the words that were found between ** and **.
	Snippet string  `json:"snippet,omitempty"`
	Score   float64 `json:"score"` // the higher the better
}

// EntityRevision is a commit that changed an entity.
type EntityRevision struct {
	Commit  string    `json:"commit"`
	At      time.Time `json:"at"`
	Author  string    `json:"author"`
	Reason  string    `json:"reason"` // the first line of the commit's message
	Deleted bool      `json:"deleted,omitempty"`
}

// LakeChange is a commit of a lake, as the feed of changes has it.
type LakeChange struct {
	Commit  string        `json:"commit"`
	Cursor  string        `json:"cursor"` // to go on behind this change
	At      time.Time     `json:"at"`
	Author  string        `json:"author"`
	Reason  string        `json:"reason"`
	Changed []LakeTouched `json:"changed"`
	Cut     bool          `json:"cut,omitempty"` // it changed more files than are listed
}

// LakeTouched is a file of a change.
type LakeTouched struct {
	Path string `json:"path"`
	What string `json:"what"` // created, updated or deleted
}
