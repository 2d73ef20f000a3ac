package userfiles

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/wiki"
)

// What is looked through for the links to a file. Beyond these limits the answer is partial.
const (
	maxLinkFiles = 50_000          // files and folders of the workspace
	maxLinkNote  = 1 << 20         // bytes of a note
	maxLinkBytes = 64 << 20        // bytes of all notes
	linksWithin  = 5 * time.Second // for all of them
	maxLinks     = 200             // in the answer
	maxLinkText  = 200             // bytes of a line
	maxLinkLines = 4 * maxLinks    // lines that may have a link, until all files are known
)

// Backlinks lists the notes of a workspace that link to a file: in Markdown, relative to the note, or
// as wikis do, by the file's name. Links mean the file that the page would open. Links in code are
// none.
func (f *Files) Backlinks(ctx context.Context, at At, name string) (parley.Backlinks, error) {
	b := parley.Backlinks{Links: []parley.Backlink{}}
	root, _, err := f.open(at)
	if err != nil {
		return b, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	tree := files.Of(root)
	target, err := tree.Stat(name)
	if err != nil {
		return b, err
	}
	k := linker{target: target.Path, name: wiki.Key(target.Path)}
	k.run = longestRun(k.name)
	limited, stop := context.WithTimeout(ctx, linksWithin)
	defer stop()
	err = tree.Walk(limited, ".", files.Walk{Most: maxLinkFiles}, k.file)
	switch {
	case ctx.Err() != nil:
		return b, context.Cause(ctx)
	case err != nil && limited.Err() == nil && parley.CodeOf(err) != parley.CodeTooLarge:
		return b, err
	}
	b.Partial = k.partial || err != nil
	for _, l := range k.lines {
		if !slices.ContainsFunc(l.to, func(to wiki.Link) bool { return wiki.Resolve(l.Path, to, k.alike) == k.target }) {
			continue
		}
		if len(b.Links) == maxLinks {
			b.Partial = true
			break
		}
		b.Links = append(b.Links, l.Backlink)
	}
	return b, nil
}

// linker finds the lines that may link to a file. Which file a link means is known when all files
// with the same name are.
type linker struct {
	target  string
	name    string // of the target, as names are compared
	run     string // a part of it that is in every text with a link to it
	alike   []string
	lines   []linkLine
	bytes   int
	partial bool
}

type linkLine struct {
	parley.Backlink
	to []wiki.Link
}

// file looks at one file of the workspace.
func (k *linker) file(e files.Entry) error {
	if wiki.Key(e.Path) == k.name {
		k.alike = append(k.alike, e.Path)
	}
	if e.Path == k.target || !wiki.IsNote(e.Path) || k.bytes >= maxLinkBytes || len(k.lines) >= maxLinkLines {
		k.partial = k.partial || k.bytes >= maxLinkBytes || len(k.lines) >= maxLinkLines
		return nil
	}
	f, err := e.Open()
	if err != nil {
		return nil // gone, or not readable
	}
	defer f.Close() //nolint:errcheck // nothing was written
	body, err := io.ReadAll(io.LimitReader(f, maxLinkNote+1))
	if err != nil {
		return nil
	}
	if len(body) > maxLinkNote {
		k.partial = true
		return nil
	}
	if k.bytes += len(body); !bytes.Contains(bytes.ToLower(body), []byte(k.run)) {
		return nil
	}
	lines := strings.Split(string(body), "\n")
	last := 0
	for _, l := range wiki.Parse(body, 1, 0).Links {
		if l.To == "" || wiki.Key(l.To) != k.name || l.Line > len(lines) {
			continue
		}
		if l.Line == last {
			at := &k.lines[len(k.lines)-1]
			at.to = append(at.to, l)
			continue
		}
		last = l.Line
		text := parley.Cut(strings.ToValidUTF8(strings.TrimSpace(lines[l.Line-1]), "\uFFFD"), maxLinkText)
		k.lines = append(k.lines, linkLine{parley.Backlink{Path: e.Path, Line: l.Line, Text: text}, []wiki.Link{l}})
	}
	return nil
}

// longestRun is the longest part of a name that is written the same in every way to write it.
func longestRun(name string) string {
	best := ""
	for run := range strings.FieldsFuncSeq(name, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }) {
		if len(run) > len(best) {
			best = run
		}
	}
	return best
}
