package userfiles

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/pattern"
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
	k := linker{target: target.Path, name: bare(plain(path.Base(target.Path)))}
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
		if !slices.ContainsFunc(l.to, func(to link) bool { return k.leads(l.Path, to) }) {
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
	to []link
}

// link is where a link leads, as it is written.
type link struct {
	wiki bool
	to   string
}

// file looks at one file of the workspace.
func (k *linker) file(e files.Entry) error {
	base := plain(path.Base(e.Path))
	if bare(base) == k.name {
		k.alike = append(k.alike, e.Path)
	}
	if e.Path == k.target || bare(base) == base || k.bytes >= maxLinkBytes || len(k.lines) >= maxLinkLines {
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
	fence := ""
	n := 0
	for line := range strings.Lines(string(body)) {
		n++
		if fence = fenced(line, fence); fence != "" {
			continue
		}
		if to := k.links(line); to != nil {
			text := parley.Cut(strings.ToValidUTF8(strings.TrimSpace(line), "\uFFFD"), maxLinkText)
			k.lines = append(k.lines, linkLine{parley.Backlink{Path: e.Path, Line: n, Text: text}, to})
		}
	}
	return nil
}

var (
	aFence = pattern.New("^ {0,3}(`{3,}|~{3,})")
	aCode  = pattern.New("`+[^`]*`+")
	// These are as in web/src/files/links.ts.
	aWiki = pattern.New(`\[\[([^\[\]|#\n]{0,300})(?:#[^\[\]|\n]{0,300})?(?:\|[^\[\]\n]{0,300})?\]\]`)
	// An inline link, and the definition of one.
	aLink = pattern.New(`\]\(\s*(?:<([^<>\n]{1,1000})>|([^\s()<>]{1,1000}(?:\([^\s()<>]{0,300}\)[^\s()<>]{0,300})*))|^ {0,3}\[[^\[\]]{1,300}\]:\s*(?:<([^<>\n]{1,1000})>|(\S{1,1000}))`)
)

// fenced returns the fence of the code that the text after a line is in; "": it is in none. Of the
// line that ends the code it returns "", since there is no link in it.
func fenced(line, in string) string {
	m := aFence.FindStringSubmatch(line)
	switch {
	case m == nil:
		return in
	case in == "":
		return m[1]
	case m[1][0] == in[0] && len(m[1]) >= len(in) && strings.TrimSpace(line) == m[1]:
		return ""
	}
	return in
}

// links are the links of a line whose last element has the target's name.
func (k *linker) links(line string) (to []link) {
	if strings.Contains(line, "`") {
		line = aCode.ReplaceAllString(line, "``")
	}
	for _, m := range aWiki.FindAllStringSubmatch(line, -1) {
		if note := strings.TrimSpace(m[1]); bare(path.Base(plain(note))) == k.name {
			to = append(to, link{true, note})
		}
	}
	for _, m := range aLink.FindAllStringSubmatch(line, -1) {
		href := m[1] + m[2] + m[3] + m[4]
		if scheme.MatchString(href) {
			continue
		}
		href, _, _ = strings.Cut(href, "#")
		href, _, _ = strings.Cut(href, "?")
		if decoded, err := url.PathUnescape(href); err == nil {
			href = decoded
		}
		if href != "" && bare(path.Base(plain(href))) == k.name {
			to = append(to, link{false, href})
		}
	}
	return to
}

var scheme = pattern.New(`(?i)^[a-z][a-z0-9+.-]*:|^//`)

// leads reports whether a link in the note from leads to the target.
func (k *linker) leads(from string, l link) bool {
	if l.wiki {
		return k.wiki(from, l.to) == k.target
	}
	at := path.Join(path.Dir(from), l.to)
	if strings.HasPrefix(l.to, "/") {
		at = path.Join(strings.TrimLeft(l.to, "/"))
	}
	if at == ".." || strings.HasPrefix(at, "../") {
		return false // it leads out
	}
	ways := []string{at}
	if !ending.MatchString(at) {
		ways = append(ways, at+".md")
	}
	for _, way := range ways {
		if slices.Contains(k.alike, way) {
			return way == k.target
		}
	}
	i := slices.IndexFunc(k.alike, func(p string) bool { return plain(p) == plain(at) || plain(p) == plain(at+".md") })
	return i >= 0 && k.alike[i] == k.target
}

var ending = pattern.New(`\.[A-Za-z0-9]{1,8}$`)

// wiki is the file that a wiki link means: the one with this path, or with this name, the nearest
// first; "": none.
func (k *linker) wiki(from, note string) string {
	wanted := plain(strings.TrimLeft(note, "/"))
	for strings.HasPrefix(wanted, "./") {
		wanted = wanted[2:]
	}
	here := folder(from)
	far := func(p string) int {
		switch {
		case (plain(p) == wanted || bare(plain(p)) == wanted) && strings.Contains(wanted, "/"):
			return 0
		case plain(p) == wanted || bare(plain(p)) == wanted:
			return 2
		case folder(p) == here:
			return 1
		case strings.HasPrefix(here, folder(p)):
			return 3
		}
		return 4
	}
	best := ""
	for _, p := range k.alike {
		full := plain(p)
		if full != wanted && bare(full) != wanted && !strings.HasSuffix(full, "/"+wanted) && !strings.HasSuffix(bare(full), "/"+wanted) {
			continue
		}
		if best == "" || far(p) < far(best) || far(p) == far(best) && (len(p) < len(best) || len(p) == len(best) && p < best) {
			best = p
		}
	}
	return best
}

// folder is the folder of a path with a slash at its end; "" is the workspace.
func folder(p string) string { return p[:strings.LastIndexByte(p, '/')+1] }

// plain is a name as names are compared.
func plain(s string) string { return strings.ToLower(norm.NFC.String(s)) }

// bare is a plain name without the ending of a note.
func bare(s string) string {
	for _, end := range []string{".md", ".markdown"} {
		if cut, ok := strings.CutSuffix(s, end); ok {
			return cut
		}
	}
	return s
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
