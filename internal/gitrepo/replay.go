package gitrepo

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
)

// object is a commit as it is stored.
type object struct {
	hash    string
	tree    string
	parents []string
	lines   []string // author, committer and encoding, as they are
	message string
}

// subject is the first line of the message.
func (o object) subject() string {
	first, _, _ := strings.Cut(strings.TrimSpace(o.message), "\n")
	return parley.Cut(first, 200)
}

// isOurs reports whether a commit was made here.
func (o object) isOurs() bool { return strings.Contains(o.message, "\nParley-") }

// objects reads commits.
func (r *Repo) objects(ctx context.Context, hashes []string) (list []object, err error) {
	if len(hashes) == 0 {
		return nil, nil
	}
	out, err := r.git(ctx, "", []byte(strings.Join(hashes, "\n")+"\n"), "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	for _, hash := range hashes {
		head, rest, ok := bytes.Cut(out, []byte("\n"))
		f := strings.Fields(string(head))
		if !ok || len(f) != 3 || f[1] != "commit" {
			return nil, parley.Errorf(parley.CodeUnavailable, "the commit %s cannot be read", short(hash)).WithHint("check the repository with git fsck")
		}
		size, err := strconv.Atoi(f[2])
		if err != nil || size < 0 || size+1 > len(rest) {
			return nil, parley.Errorf(parley.CodeInternal, "the commit %s cannot be read", short(hash))
		}
		list = append(list, parse(hash, string(rest[:size])))
		out = rest[size+1:]
	}
	return list, nil
}

// parse reads a commit. A signature is left out: it would not hold for a commit with other parents.
func parse(hash, text string) object {
	o := object{hash: hash}
	head, message, _ := strings.Cut(text, "\n\n")
	o.message = message
	for l := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(l, " ")
		switch key {
		case "tree":
			o.tree = value
		case "parent":
			o.parents = append(o.parents, value)
		case "author", "committer", "encoding":
			o.lines = append(o.lines, l)
		}
	}
	return o
}

// write stores a commit with another tree and other parents.
func (r *Repo) write(ctx context.Context, o object, tree string, parents ...string) (string, error) {
	var b strings.Builder
	b.WriteString("tree " + tree + "\n")
	for _, p := range parents {
		b.WriteString("parent " + p + "\n")
	}
	b.WriteString(strings.Join(o.lines, "\n") + "\n\n" + o.message)
	return line(r.git(ctx, "", []byte(b.String()), "hash-object", "-t", "commit", "-w", "--stdin"))
}

// scratch is what commits have that only serve to compare trees.
var scratch = object{lines: []string{"author Parley <parley@localhost> 0 +0000", "committer Parley <parley@localhost> 0 +0000"}}

// merge merges two trees that came from one. conflict lists the files that do not fit together.
func (r *Repo) merge(ctx context.Context, base, ours, theirs string) (tree string, conflict []string, err error) {
	switch base {
	case ours:
		return theirs, nil, nil
	case theirs:
		return ours, nil, nil
	}
	if ours == theirs {
		return ours, nil, nil
	}
	root, err := r.write(ctx, scratch, base)
	if err != nil {
		return "", nil, err
	}
	var sides [2]string
	for i, tree := range []string{ours, theirs} {
		if sides[i], err = r.write(ctx, scratch, tree, root); err != nil {
			return "", nil, err
		}
	}
	return r.mergeCommits(ctx, sides[0], sides[1])
}

// mergeCommits merges two commits without a working tree.
func (r *Repo) mergeCommits(ctx context.Context, a, b string) (tree string, conflict []string, err error) {
	out, err := r.git(ctx, "", nil, "merge-tree", "--write-tree", "--no-messages", "--name-only", "-z", a, b)
	if exits(err, 1) {
		f := err.(*failure) //nolint:errcheck,errorlint // exits says so
		out, err = f.out, nil
		for _, name := range strings.Split(string(out), "\x00")[1:] {
			if name != "" {
				conflict = append(conflict, name)
			}
		}
		if len(conflict) == 0 {
			conflict = []string{"a file"}
		}
		return "", conflict, nil
	}
	if err != nil {
		return "", nil, err
	}
	tree, _, _ = strings.Cut(string(out), "\x00")
	tree = strings.TrimSpace(tree)
	if !hashOf.MatchString(tree) {
		return "", nil, parley.Errorf(parley.CodeInternal, "git's merge cannot be read")
	}
	return tree, nil, nil
}

// replayed is a branch with the local commits on top of those of the remote.
type replayed struct {
	tip  string
	left []Left // commits that do not fit
}

// Left is a local commit that does not fit the remote's.
type Left struct {
	Hash, Subject string
	Files         []string // that do not fit
	Trailers      map[string]string
}

// replay puts the commits that local has and onto has not on top of onto.
func (r *Repo) replay(ctx context.Context, onto, local string) (p replayed, err error) {
	out, err := line(r.git(ctx, "", nil, "rev-list", "--reverse", "--topo-order", local, "^"+onto, "--"))
	if err != nil {
		return p, err
	}
	list, err := r.objects(ctx, strings.Fields(out))
	if err != nil {
		return p, err
	}
	for _, o := range list {
		if len(o.parents) > 1 {
			return r.join(ctx, onto, local)
		}
	}
	read := []string{onto}
	for _, o := range list {
		read = append(read, o.parents...)
	}
	around, err := r.objects(ctx, read)
	if err != nil {
		return p, err
	}
	trees := map[string]string{}
	for _, o := range around {
		trees[o.hash] = o.tree
	}
	empty, err := r.emptyTree(ctx)
	if err != nil {
		return p, err
	}
	p.tip = onto
	at := trees[onto]
	for _, o := range list {
		base := empty
		if len(o.parents) == 1 {
			base = trees[o.parents[0]]
		}
		tree, conflict, err := r.merge(ctx, base, at, o.tree)
		switch {
		case err != nil:
			return p, err
		case conflict != nil && !o.isOurs():
			return p, diverged(o, conflict)
		case conflict != nil:
			p.left = append(p.left, Left{o.hash, o.subject(), conflict, trailers(o.message)})
			continue
		case tree == at && o.tree != base:
			continue // the remote has the same change already
		}
		if p.tip, err = r.write(ctx, o, tree, p.tip); err != nil {
			return p, err
		}
		at = tree
	}
	return p, nil
}

// join merges, because somebody has merged here, too: a merge cannot be put on top of others.
func (r *Repo) join(ctx context.Context, onto, local string) (p replayed, err error) {
	tree, conflict, err := r.mergeCommits(ctx, local, onto)
	if err != nil {
		return p, err
	}
	list, err := r.objects(ctx, []string{local, onto})
	if err != nil {
		return p, err
	}
	if conflict != nil {
		return p, diverged(list[0], conflict)
	}
	o := object{message: "Merge what was changed elsewhere\n\nParley-Merge: " + onto + "\n"}
	// Whose commit it is and when: of the newer side, so that the same merge is the same commit.
	newer := list[0]
	if newer.time() < list[1].time() {
		newer = list[1]
	}
	who := strings.Join(scratch.lines, "\n")
	o.lines = strings.Split(strings.ReplaceAll(who, " 0 +0000", " "+strconv.FormatInt(newer.time(), 10)+" +0000"), "\n")
	p.tip, err = r.write(ctx, o, tree, local, onto)
	return p, err
}

// time is when a commit was made, in seconds.
func (o object) time() int64 {
	for _, l := range o.lines {
		if f := strings.Fields(l); len(f) > 2 && f[0] == "committer" {
			n, _ := strconv.ParseInt(f[len(f)-2], 10, 64)
			return n
		}
	}
	return 0
}

// trailers are the lines at the end of a message that we wrote.
func trailers(message string) map[string]string {
	m := map[string]string{}
	_, last, _ := strings.Cut(strings.TrimSpace(message), "\n\n")
	if i := strings.LastIndex(last, "\n\n"); i >= 0 {
		last = last[i+2:]
	}
	for l := range strings.Lines(last) {
		if key, value, ok := strings.Cut(strings.TrimSpace(l), ": "); ok && strings.HasPrefix(key, "Parley-") {
			m[key] = value
		}
	}
	return m
}

func diverged(o object, conflict []string) error {
	return parley.Errorf(parley.CodeConflict, "the commit %s (%s) does not fit what was pushed from elsewhere, in %s", short(o.hash), o.subject(), trim(conflict)).
		WithHint("it is not Parley's, so it is left as it is: resolve it there with git pull --rebase; until then nothing is pulled or pushed")
}
