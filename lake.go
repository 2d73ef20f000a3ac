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
	Path   string `json:"path,omitempty"` // the file that it leads to, or the folder, which ends with a slash; empty: it is broken
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
	// MovedFrom is the path that it had before, if the commit moved it.
	MovedFrom string `json:"moved_from,omitempty"`
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

// WriteEntity is the new text of an entity.
type WriteEntity struct {
	Path string `json:"path,omitempty"` // of an entity that is made
	Body string `json:"body"`           // the whole file, with its front matter
	// Version is the version that the text is based on. Empty: the entity is made.
	Version string `json:"version,omitempty"`
	Reason  string `json:"reason,omitempty"` // why, for the history
}

// MoveEntity gives an entity another path.
type MoveEntity struct {
	To      string `json:"to"`
	Version string `json:"version,omitempty"` // of the entity that is moved; empty: any
	Reason  string `json:"reason,omitempty"`
}

// EntityChanged is what a change of an entity did.
type EntityChanged struct {
	Path    string `json:"path"`
	Version string `json:"version,omitempty"` // empty: the entity was deleted
	Commit  string `json:"commit,omitempty"`  // empty: nothing had to be changed
	Merged  bool   `json:"merged,omitempty"`  // what somebody else has changed since is in it, too
	// Rewritten are the other entities whose links were changed by a move.
	Rewritten []string `json:"rewritten"`
	Repeated  bool     `json:"repeated,omitempty"` // the change was made before, with the same key
}

// EntityList is a page of entities, in the order of the bytes of their paths.
type EntityList struct {
	Entities []Entity `json:"entities"`
	Next     string   `json:"next,omitempty"` // what to ask for next; empty: this is the last page
}

// EntityHits is a page of what a search found, the best first.
type EntityHits struct {
	Hits []EntityHit `json:"hits"`
	Next string      `json:"next,omitempty"`
	// Partial says that no entity has all words; these have some of them.
	Partial bool `json:"partial,omitempty"`
}

// EntityBacklinks is a page of the links that lead to an entity.
type EntityBacklinks struct {
	Links []EntityBacklink `json:"links"`
	Next  string           `json:"next,omitempty"`
}

// EntityHistory is a page of the commits that changed an entity, the newest first.
type EntityHistory struct {
	Revisions []EntityRevision `json:"revisions"`
	Next      string           `json:"next,omitempty"`
}

// EntityFaults is a page of what is wrong, in the order of the entities and their lines.
type EntityFaults struct {
	Faults []EntityFault `json:"faults"`
	Next   string        `json:"next,omitempty"`
}

// EntityFolder is a folder of a lake, with how many entities are in it at any depth.
type EntityFolder struct {
	Path     string `json:"path"`
	Entities int    `json:"entities"`
}

// EntityTree is what is directly in a folder of a lake.
type EntityTree struct {
	Folders  []EntityFolder `json:"folders"`
	Entities []Entity       `json:"entities"`
	Next     string         `json:"next,omitempty"` // of the entities
}

// EntityNode is an entity in a graph.
type EntityNode struct {
	Path  string `json:"path"`
	Title string `json:"title"`
	Kind  string `json:"kind"`
}

// EntityEdge says how many links lead from one entity to another.
type EntityEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	N    int    `json:"n"`
}

// EntityGraph is the entities of a lake and the links among them. It is whole; Cut says that there is more.
type EntityGraph struct {
	Nodes  []EntityNode `json:"nodes"`
	Edges  []EntityEdge `json:"edges"`
	Broken int          `json:"broken"` // links that lead nowhere
	Cut    bool         `json:"cut,omitempty"`
}

// LakeFeed is a page of the changes of a lake, the oldest first.
type LakeFeed struct {
	Changes []LakeChange `json:"changes"`
	Cursor  string       `json:"cursor"` // for the next page, also when this one is empty
	More    bool         `json:"more,omitempty"`
	// Reset says that the cursor is not known any more, because somebody has replaced the history:
	// the changes begin with the first.
	Reset bool `json:"reset,omitempty"`
}
