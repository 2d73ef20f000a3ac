package gitrepo

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// Revision is a commit that changed a file.
type Revision struct {
	Hash    string
	At      time.Time
	Author  string // the name, as the commit has it
	Subject string
	Gone    bool // it deleted the file
	// From is the path that the file had before, if the commit moved it; see [Follow].
	From string

	made bool // it has the file, and the commit before has not
}

// Follow says whether the history of a file goes on under another path, from which a commit moved it. nil: it never does. What is there may not
// be for whoever may read the file.
type Follow func(old string) bool

var isHash = pattern.New(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// History lists the commits of the branch that changed a file, the newest first, at most so many.
// After is the hash of the last one that is known; "": none. The path is relative to the working
// tree, with slashes.
func (r *Repo) History(ctx context.Context, path, after string, most int, follow Follow) (list []Revision, err error) {
	if after != "" && !isHash.MatchString(after) {
		return nil, parley.Errorf(parley.CodeInvalid, "%q is no commit", parley.Cut(after, 80)).WithField("after")
	}
	err = r.do(ctx, func(ctx context.Context) error {
		_, from, err := r.head(ctx)
		if err != nil || from == "" {
			return err
		}
		skip := 0
		if after != "" {
			if known, err := r.contains(ctx, from, after); err != nil || !known { // of what is no commit, too
				return parley.Errorf(parley.CodeNotFound, "there is no commit %s in the branch", short(after)).WithField("after")
			}
			before := ""
			if path, before, err = r.pathAt(ctx, from, path, after, follow); err != nil {
				return err
			}
			if from, skip = after, 1; before != "" {
				path, from, skip = before, after+"^", 0
			}
		}
		for hops := 0; ; hops++ {
			part, err := r.changed(ctx, path, from, most-len(list), skip)
			if err != nil {
				return err
			}
			moved := ""
			for i := range part {
				if !part[i].made || hops == maxHops {
					continue
				}
				if part[i].From, err = r.movedFrom(ctx, part[i].Hash, path, follow); err != nil {
					return err
				}
				if part[i].From != "" {
					moved, from, skip = part[i].From, part[i].Hash+"^", 0
					part = part[:i+1]
					break
				}
			}
			list = append(list, part...)
			if path = moved; moved == "" || len(list) >= most {
				return nil
			}
		}
	})
	return list, said(err)
}

// maxHops is how many moves of a file are followed.
const maxHops = 100

// changed lists the commits up to one that changed a path.
func (r *Repo) changed(ctx context.Context, path, from string, most, skip int) ([]Revision, error) {
	out, err := r.git(ctx, "", nil, "log", "-z", "--format=%H%n%cI%n%an%n%s", "--name-status", "--no-renames", "--no-ext-diff", "-n", strconv.Itoa(most), "--skip="+strconv.Itoa(skip), from, "--", path)
	if err != nil {
		return nil, err
	}
	return revisions(string(out))
}

// movedFrom is the path from which a commit moved what it has at a path; "": it is new there. A copy is new.
func (r *Repo) movedFrom(ctx context.Context, commit, path string, follow Follow) (string, error) {
	if follow == nil {
		return "", nil
	}
	out, err := r.git(ctx, "", nil, "diff-tree", "-r", "-z", "--no-commit-id", "--name-status", "--no-ext-diff", "-M", "-l1000", "--diff-filter=R", commit)
	if err != nil {
		return "", err
	}
	for t := strings.Split(string(out), "\x00"); len(t) >= 3; t = t[3:] {
		if t[2] == path && follow(t[1]) {
			return t[1], nil
		}
	}
	return "", nil
}

// pathAt is the path that a file had in a commit which the tip contains, and that from which this commit moved it; "": it did not.
func (r *Repo) pathAt(ctx context.Context, tip, path, commit string, follow Follow) (at, before string, err error) {
	if follow == nil {
		return path, "", nil
	}
	for hops, from := 0, tip; hops < maxHops; hops++ {
		out, err := r.git(ctx, "", nil, "log", "-z", "--format=%H%n%cI%n%an%n%s", "--name-status", "--no-renames", "--no-ext-diff", "--diff-filter=A", from, "--", path)
		if err != nil {
			return "", "", err
		}
		list, err := revisions(string(out))
		if err != nil {
			return "", "", err
		}
		next := ""
		for _, a := range list {
			old, err := r.movedFrom(ctx, a.Hash, path, follow)
			if err != nil {
				return "", "", err
			}
			if old == "" {
				continue
			}
			if a.Hash == commit {
				return path, old, nil
			}
			if in, err := r.contains(ctx, commit, a.Hash); err != nil || in {
				return path, "", err
			}
			path, from, next = old, a.Hash+"^", old
			break
		}
		if next == "" {
			break
		}
	}
	return path, "", nil
}

// revisions reads what git log -z printed: a commit, and then the status and the path of the file,
// which commits that merge do not have.
func revisions(out string) (list []Revision, err error) {
	tokens := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i < len(tokens); i++ {
		if status, is := strings.CutPrefix(tokens[i], "\n"); is && len(list) > 0 {
			list[len(list)-1].Gone, list[len(list)-1].made = status == "D", status == "A"
			i++ // the path
			continue
		}
		if tokens[i] == "" {
			continue
		}
		lines := strings.SplitN(tokens[i], "\n", 4)
		if len(lines) < 4 || !isHash.MatchString(lines[0]) {
			return nil, errors.New("git log printed something else than commits")
		}
		at, err := time.Parse(time.RFC3339, lines[1])
		if err != nil {
			return nil, err
		}
		list = append(list, Revision{
			Hash: lines[0], At: at.UTC(), Author: parley.Cut(oneLine(lines[2]), 200), Subject: parley.Cut(oneLine(lines[3]), 300),
		})
	}
	return list, nil
}

// oneLine is a text of a commit for people.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// Content returns what a file had in a commit of the branch, where it may have had another path. CodeNotFound: the commit has no such
// file, or what it has there is a link. CodeTooLarge: it has more bytes than most.
func (r *Repo) Content(ctx context.Context, commit, path string, most int64, follow Follow) (body []byte, err error) {
	missing := parley.Errorf(parley.CodeNotFound, "there is no such version of the file")
	if !isHash.MatchString(commit) {
		return nil, missing
	}
	err = r.do(ctx, func(ctx context.Context) error {
		_, tip, err := r.head(ctx)
		if err != nil || tip == "" {
			return err
		}
		if in, err := r.contains(ctx, tip, commit); err != nil || !in { // of what is no commit, too
			return missing
		}
		out, err := r.git(ctx, "", nil, "ls-tree", "-l", "-z", "--full-tree", commit, "--", path)
		if err == nil && len(out) == 0 && follow != nil {
			old, _, perr := r.pathAt(ctx, tip, path, commit, follow)
			if perr != nil || old == path {
				return errors.Join(perr, missing)
			}
			path = old
			out, err = r.git(ctx, "", nil, "ls-tree", "-l", "-z", "--full-tree", commit, "--", path)
		}
		if err != nil {
			return err
		}
		about, name, _ := strings.Cut(strings.TrimSuffix(string(out), "\x00"), "\t")
		fields := strings.Fields(about)
		if len(fields) != 4 || name != path || fields[1] != "blob" || !strings.HasPrefix(fields[0], "100") {
			return missing
		}
		if size, err := strconv.ParseInt(fields[3], 10, 64); err != nil || size > most {
			return parley.Errorf(parley.CodeTooLarge, "this version has more than %d MB", most>>20)
		}
		body, err = r.blob(ctx, fields[2])
		return err
	})
	if err == nil && body == nil {
		body = []byte{}
	}
	return body, said(err)
}

// said is an error in our own form.
func said(err error) error {
	if _, ours := errors.AsType[*parley.Error](err); err == nil || ours {
		return err
	}
	return unavailable(err)
}
