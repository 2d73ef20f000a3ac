package lake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
	"zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/wiki"
)

// Change is a change of an entity, and of those that link to it when it is moved.
type Change struct {
	Path string
	To   string // the new path, for Move
	Body string // the whole new content, for Create and Update
	// Base is the version that the change is based on. Update needs it; Move and Delete are refused if it is given and the entity has
	// another.
	Base string
	// Exact refuses an update of an entity that has another version, in place of merging the changes.
	Exact  bool
	Author Author
	Reason string // the commit's message
	// Key names the change: a second one with it is not made, and returns what the first one did. At most 200 bytes. "": none.
	Key string
	// Turn is that of a session in which the change is made. "": none.
	Turn parley.TurnID
}

// Made is what a change did.
type Made struct {
	Commit  string // "": nothing had to be changed
	Path    string // of the entity, after a move the new one
	Version string // of the entity; "" when it was deleted
	Merged  bool   // somebody else's change of the entity is in it, too
	// Rewritten are the other entities whose links were changed by a move.
	Rewritten []string
	Repeated  bool // a change with the key was made before
}

const (
	maxReason = 4000 // bytes
	maxKey    = 200  // bytes
	// maxRewritten is how many entities a move may change.
	maxRewritten = 2000
)

// reserved finds lines that look like our trailers; the first one of a message counts.
var reserved = regexp.MustCompile(`(?im)^\s*Parley-`)

const (
	keyTrailer  = "Parley-Key"
	turnTrailer = "Parley-Turn"
	bodyTrailer = "Parley-Change"
)

// Create makes an entity. CodeConflict: there is one.
func (l *Lake) Create(ctx context.Context, c Change) (Made, error) { return l.change(ctx, "create", c) }

// Update changes the content of an entity. If it has another version than Base, the changes of both are merged by lines.
// CodeConflict: they do not fit, see [Conflict].
func (l *Lake) Update(ctx context.Context, c Change) (Made, error) { return l.change(ctx, "update", c) }

// Move gives an entity another path. The links that lead to it lead to the new path afterwards, those in it where they led before.
func (l *Lake) Move(ctx context.Context, c Change) (Made, error) { return l.change(ctx, "move", c) }

// Delete deletes an entity. Links to it are broken then.
func (l *Lake) Delete(ctx context.Context, c Change) (Made, error) { return l.change(ctx, "delete", c) }

// digest identifies what a change is to do, and why.
func (c Change) digest(verb string) string {
	raw, _ := json.Marshal([]string{verb, c.Path, c.To, c.Body, c.Base, strings.TrimSpace(c.Reason)}) // strings only: it cannot fail
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:12])
}

func (c *Change) check(verb string) error {
	clean, err := files.Clean(c.Path)
	if err != nil {
		return err
	}
	c.Path = clean
	switch {
	case len(c.Key) > maxKey || strings.ContainsFunc(c.Key, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return parley.Errorf(parley.CodeInvalid, "the key has more than %d bytes, or a space", maxKey).WithField("key")
	case len(c.Reason) > maxReason:
		return parley.Errorf(parley.CodeTooLarge, "the reason has more than %d bytes", maxReason).WithField("reason")
	case reserved.MatchString(c.Reason):
		return parley.Errorf(parley.CodeInvalid, "a line of the reason begins with %q, which is how a change is found again", "Parley-").WithField("reason").
			WithHint("begin the line with another word")
	case len(c.Body) > MaxEntity:
		return parley.Errorf(parley.CodeTooLarge, "the entity has %d KB; at most %d KB are possible", len(c.Body)>>10, MaxEntity>>10).WithField("body")
	case (verb == "create" || verb == "update") && !isText(c.Body):
		return parley.Errorf(parley.CodeInvalid, "the content is not text in UTF-8").WithField("body")
	case verb == "update" && c.Base == "":
		return parley.Errorf(parley.CodeInvalid, "the version that the change is based on is missing").WithField("version").WithHint("read the entity first")
	}
	if c.Author == (Author{}) {
		c.Author = Author{Name: "Parley", Email: "parley@localhost"}
	}
	if _, err := gitrepo.ParseIdent(c.Author.String()); err != nil {
		return err
	}
	switch verb {
	case "move":
		if c.To, err = files.Clean(c.To); err != nil {
			return about("to", err)
		}
		c.To = norm.NFC.String(c.To)
		return about("to", mayBe(c.To))
	case "create":
		c.Path = norm.NFC.String(c.Path)
		return mayBe(c.Path)
	}
	return nil
}

// Vet says what is wrong with the paths of a change, whatever the lake has. to is that of a move, or "".
func Vet(verb, path, to string) error {
	clean, err := files.Clean(path)
	if err != nil {
		return about("path", err)
	}
	if verb != "create" && !wiki.IsNote(clean) {
		clean += ".md" // it may be left out
	}
	if err := mayBe(norm.NFC.String(clean)); err != nil || verb != "move" {
		return err
	}
	if clean, err = files.Clean(to); err == nil {
		err = mayBe(norm.NFC.String(clean))
	}
	return about("to", err)
}

// about is an error about another field.
func about(field string, err error) error {
	e, ours := errors.AsType[*parley.Error](err)
	if !ours {
		return err
	}
	named := *e
	named.Field = field
	return &named
}

func isText(s string) bool { return strings.ToValidUTF8(s, "") == s && !strings.ContainsRune(s, 0) }

// mayBe says why an entity cannot have a path.
func mayBe(p string) error {
	switch {
	case !wiki.IsNote(p):
		return parley.Errorf(parley.CodeInvalid, "%q is not the name of an entity", parley.Cut(p, 200)).WithField("path").WithHint("entities are Markdown files: end the name with .md")
	case files.Guarded(p):
		return parley.Errorf(parley.CodeForbidden, "%s is not changed as an entity, because it says what agents do", p).WithField("path").WithHint("change it with the tools for files")
	}
	for elem := range strings.SplitSeq(p, "/") {
		if strings.HasPrefix(elem, ".") {
			return parley.Errorf(parley.CodeInvalid, "%q is hidden; entities are not", parley.Cut(p, 200)).WithField("path")
		}
	}
	return nil
}

func (l *Lake) change(ctx context.Context, verb string, c Change) (made Made, err error) {
	if err := c.check(verb); err != nil {
		return made, err
	}
	k := changer{l: l, verb: verb, c: c, at: c.Path}
	r, err := l.git(ctx, true)
	if err != nil {
		return made, err
	}
	git, err := r.Change(ctx, gitrepo.Change{Plan: k.plan, Message: k.message, Author: c.Author, When: l.o.Now()})
	// Also after an error: files may have been taken in, or somebody else's changes seen.
	if len(git.Files) > 0 {
		if err := l.x.wrote(git.Files); err != nil {
			l.o.Logger.Warn("the search index of a lake cannot be written", "err", err)
		}
	} else {
		l.x.touch()
	}
	if blocked := gitrepo.Uncommitted(err); blocked != nil {
		return made, parley.Errorf(parley.CodeConflict, "%s has changes that are not committed, and the change does not fit them", strings.Join(blocked[:min(len(blocked), 5)], ", ")).
			WithHint("commit them, or undo them")
	}
	if err != nil {
		return made, err
	}
	if k.before != nil {
		return *k.before, nil
	}
	made = k.made
	made.Commit = git.Hash
	return made, nil
}

// changer plans one change.
type changer struct {
	l      *Lake
	verb   string
	c      Change
	at     string // of the entity, as it is spelt
	made   Made
	before *Made // a change with the key was made before
}

func (k *changer) message([]string) string {
	reason := strings.TrimSpace(k.c.Reason)
	if reason == "" {
		reason = strings.ToUpper(k.verb[:1]) + k.verb[1:] + " " + k.at
		if k.verb == "move" {
			reason += " to " + k.c.To
		}
	}
	if k.c.Key == "" {
		return reason
	}
	text := reason + "\n\n" + keyTrailer + ": " + k.c.Key + "\n" + bodyTrailer + ": " + k.c.digest(k.verb)
	if k.c.Turn != "" {
		text += "\n" + turnTrailer + ": " + string(k.c.Turn)
	}
	return text
}

// plan says what the change does to the files, with the repository locked.
func (k *changer) plan(ctx context.Context, b gitrepo.Base) (p gitrepo.Plan, err error) {
	k.made, k.before = Made{}, nil
	if k.c.Key != "" {
		if k.before, err = k.l.madeBefore(ctx, b, k.verb, k.c); err != nil || k.before != nil {
			return p, err
		}
	}
	if err := k.find(ctx); err != nil {
		return p, err
	}
	if err := mayBe(k.at); err != nil {
		return p, err
	}
	if k.verb == "move" {
		return k.move(ctx, b)
	}
	e, err := k.l.working(ctx, b, k.at)
	if err != nil {
		return p, err
	}
	switch k.verb {
	case "create":
		return k.create(e)
	case "delete":
		return k.remove(e)
	}
	return k.update(ctx, b, e)
}

// find finds how the entity is spelt, and refuses names that others are like.
func (k *changer) find(ctx context.Context) error {
	return k.l.x.with(ctx, func(c *sqlite.Conn) error {
		if k.verb != "create" {
			f, err := find(c, k.c.Path)
			switch {
			case err == nil:
				k.at = f.Path
			case parley.CodeOf(err) != parley.CodeNotFound:
				return err
			}
		}
		to := map[string]string{"create": k.c.Path, "move": k.c.To}[k.verb]
		if to == "" {
			return nil
		}
		alike := ""
		err := each(c, `SELECT path FROM file WHERE fold = ? AND path <> ? AND path <> ? LIMIT 1`, []any{wiki.Fold(to), to, k.at}, func(st *sqlite.Stmt) error { alike = st.ColumnText(0); return nil })
		if err == nil && alike != "" {
			field := "path"
			if k.verb == "move" {
				field = "to"
			}
			err = parley.Errorf(parley.CodeConflict, "there is %s already, whose name differs only in case or Unicode form", alike).WithField(field)
		}
		return err
	})
}

// state is an entity in the working tree and in the last commit.
type state struct {
	path           string
	work, head     []byte
	there, commits bool // in the working tree; in the commit
}

func (s state) version() string {
	if !s.there {
		return ""
	}
	return VersionOf(s.work)
}

// clean reports whether the working tree has what is committed.
func (s state) clean() bool { return s.there == s.commits && string(s.work) == string(s.head) }

// working reads a file in both places.
func (l *Lake) working(ctx context.Context, b gitrepo.Base, name string) (s state, err error) {
	s.path = name
	s.work, err = l.read(name)
	switch {
	case err == nil:
		s.there = true
	case !errors.Is(err, fs.ErrNotExist):
		return s, err
	}
	s.head, s.commits, err = b.Read(ctx, name, s.work, MaxEntity)
	return s, err
}

func (k *changer) create(s state) (p gitrepo.Plan, err error) {
	switch {
	case s.there:
		e := parley.Errorf(parley.CodeConflict, "there is an entity %s already", s.path).WithField("path").WithHint("read it, and update it; or choose another name")
		e.Current = parley.Digest(s.version())
		return p, e
	case s.commits:
		return p, parley.Errorf(parley.CodeConflict, "somebody has deleted %s and not committed that yet", s.path).WithField("path")
	}
	k.made = Made{Path: s.path, Version: VersionOf([]byte(k.c.Body))}
	p.Edits = []gitrepo.Edit{{Path: s.path, Body: []byte(k.c.Body)}}
	return p, nil
}

func (k *changer) update(ctx context.Context, b gitrepo.Base, s state) (p gitrepo.Plan, err error) {
	if !s.there {
		if s.commits {
			return p, conflict(s.path, "", nil)
		}
		return p, notFound(s.path)
	}
	body := k.c.Body
	if k.c.Base != s.version() {
		if k.c.Exact {
			return p, conflict(s.path, s.version(), nil)
		}
		base, ok, err := b.Blob(ctx, k.c.Base, s.path, MaxEntity)
		if err != nil {
			return p, err
		}
		if !ok {
			return p, conflict(s.path, s.version(), nil)
		}
		merged, lines := merge(string(base), body, string(s.work))
		if lines != nil {
			return p, conflict(s.path, s.version(), lines)
		}
		k.made.Merged = true
		body = merged
	}
	k.made.Path, k.made.Version = s.path, VersionOf([]byte(body))
	return k.put(p, s, body)
}

// put adds a new content of a file to a plan. What is in the file and not committed stays uncommitted if it fits.
func (k *changer) put(p gitrepo.Plan, s state, body string) (gitrepo.Plan, error) {
	switch {
	case body == string(s.work):
	case s.clean():
		p.Edits = append(p.Edits, gitrepo.Edit{Path: s.path, Body: []byte(body)})
	case !s.commits:
		p.TakeIn = append(p.TakeIn, s.path)
	default:
		// Only the change is committed.
		committed, lines := merge(string(s.work), body, string(s.head))
		// Git makes the working tree of the commit and what is not committed; it must be what was asked for.
		if lines == nil {
			if back, no := merge(string(s.head), committed, string(s.work)); no == nil && back == body {
				p.Edits = append(p.Edits, gitrepo.Edit{Path: s.path, Body: []byte(committed)})
				return p, nil
			}
		}
		if k.c.Base != "" && k.c.Base != s.version() {
			if lines == nil {
				lines = []Lines{{1, 1 + strings.Count(string(s.work), "\n")}}
			}
			return p, parley.Errorf(parley.CodeConflict, "%s has changes that are not committed, in %s, and the change does not fit them", s.path, linesText(lines)).
				WithField("version").WithHint("read it again, and base the change on what it has now")
		}
		p.TakeIn = append(p.TakeIn, s.path) // its author has seen them
	}
	return p, nil
}

func (k *changer) remove(s state) (p gitrepo.Plan, err error) {
	switch {
	case !s.there && !s.commits:
		return p, notFound(s.path)
	case !s.there:
		return p, parley.Errorf(parley.CodeConflict, "somebody has deleted %s and not committed that yet", s.path)
	case k.c.Base != "" && k.c.Base != s.version():
		return p, conflict(s.path, s.version(), nil)
	case !s.clean() && k.c.Base == "":
		return p, parley.Errorf(parley.CodeConflict, "%s has changes that are not committed", s.path).WithField("version").WithHint("read it, and give its version")
	case !s.clean():
		p.TakeIn = []string{s.path} // so that it can be brought back
		return p, nil
	}
	k.made = Made{Path: s.path}
	p.Edits = []gitrepo.Edit{{Path: s.path, Gone: true}}
	return p, nil
}

// Made says whether a change with a key was made, and what it did. After a crash it is made or not: what was
// under way is completed first.
func (l *Lake) Made(ctx context.Context, key string) (made Made, ok bool, err error) {
	if key == "" || len(key) > maxKey {
		return made, false, nil
	}
	r, err := l.git(ctx, false)
	if errors.Is(err, gitrepo.ErrNone) {
		return made, false, nil
	}
	if err != nil {
		return made, false, err
	}
	k, err := r.Keyed(ctx, keyTrailer, key)
	if err != nil || k.Hash == "" {
		return made, false, err
	}
	l.x.touch()
	return l.madeOf(k), true, nil
}

// madeBefore finds a change with the same key.
func (l *Lake) madeBefore(ctx context.Context, b gitrepo.Base, verb string, c Change) (*Made, error) {
	k, err := b.Keyed(ctx, keyTrailer, c.Key)
	if err != nil || k.Hash == "" {
		return nil, err
	}
	if d := k.Trailer(bodyTrailer); d != "" && d != c.digest(verb) {
		return nil, parley.Errorf(parley.CodeKeyReused, "the key was already used for another change").WithField("key").WithHint("use a new key for another change")
	}
	made := l.madeOf(k)
	return &made, nil
}

// madeOf says what a commit did.
func (l *Lake) madeOf(k gitrepo.Keyed) Made {
	made := Made{Commit: k.Hash, Repeated: true}
	var gone string
	for _, f := range k.Files {
		switch {
		case !wiki.IsNote(f.Path):
		case f.What == 'A':
			made.Path, made.Version = f.Path, f.Blob
		case f.What == 'D':
			gone = f.Path
		}
	}
	for _, f := range k.Files {
		if f.What != 'M' || !wiki.IsNote(f.Path) {
			continue
		}
		if made.Path == "" && gone == "" {
			made.Path, made.Version = f.Path, f.Blob
		} else {
			made.Rewritten = append(made.Rewritten, f.Path)
		}
	}
	if made.Path == "" {
		made.Path = gone
	}
	slices.Sort(made.Rewritten)
	return made
}

// relative is a path seen from the folder of another.
func relative(from, to string) string {
	dir := path.Dir(from)
	if dir == "." {
		return to
	}
	a, b := strings.Split(dir, "/"), strings.Split(to, "/")
	for len(a) > 0 && len(b) > 1 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	return strings.Repeat("../", len(a)) + strings.Join(b, "/")
}

// Commit commits what is changed in the working tree and not committed, in some files and folders; none: everywhere. It is for changes that
// were made with tools for files.
func (l *Lake) Commit(ctx context.Context, paths []string, by Author, reason string) (commit string, err error) {
	r, err := l.git(ctx, true)
	if err != nil {
		return "", err
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	for i, p := range paths {
		if paths[i], err = files.Clean(p); err != nil {
			return "", err
		}
	}
	made, err := r.Commit(ctx, gitrepo.Commit{Paths: paths, Author: by, When: l.o.Now(), Message: func(list []string) string {
		if reason != "" {
			return reason
		}
		return "Change " + strings.Join(list[:min(len(list), 5)], ", ")
	}})
	l.x.touch()
	return made.Hash, err
}
