package gitrepo

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Entry is a commit of the branch with what it changed since its first parent.
type Entry struct {
	Hash    string
	At      time.Time
	Author  string // the name
	Subject string
	Files   []Touched

	changes []change
}

// Since lists the commits of the branch behind one, the oldest first, at most so many; "" begins with the first. What came
// into the branch by a merge is in the merge. If the commit is not in the branch any more, because others have rewritten it, the list begins
// where the two part; if nothing is known of the commit, again is set, and it begins with the first. So a commit may come
// twice and none is missed. more: there are others.
func (r *Repo) Since(ctx context.Context, after string, most int) (list []Entry, more, again bool, err error) {
	if after != "" && !isHash.MatchString(after) {
		return nil, false, false, parley.Errorf(parley.CodeInvalid, "%q is no commit", parley.Cut(after, 80)).WithField("cursor")
	}
	err = r.do(ctx, func(ctx context.Context) error {
		_, tip, err := r.head(ctx)
		if err != nil || tip == "" {
			again = after != ""
			return err
		}
		what := []string{"rev-list", "--first-parent", "--reverse", tip}
		if after != "" {
			known, err := r.tip(ctx, after)
			if err != nil {
				return err
			}
			if again = known == ""; !again {
				what = append(what, "^"+after)
			}
		}
		out, err := r.git(ctx, "", nil, append(what, "--")...)
		if err != nil {
			return err
		}
		hashes := strings.Fields(string(out))
		if more = len(hashes) > most; more {
			hashes = hashes[:most]
		}
		list, err = r.entries(ctx, hashes)
		return err
	})
	return list, more, again, said(err)
}

// entries reads commits.
func (r *Repo) entries(ctx context.Context, hashes []string) (list []Entry, err error) {
	if len(hashes) == 0 {
		return nil, nil
	}
	in := []byte(strings.Join(hashes, "\n") + "\n")
	const mark = "\x00\x00" // between a commit and its changes there is one zero at most
	out, err := r.git(ctx, "", in, "log", "--stdin", "--ignore-missing", "--no-walk=unsorted", "-z", "--format=%x00%x00%H%n%cI%n%an%n%s", "--raw", "--no-renames", "--no-abbrev", "--diff-merges=first-parent", "--root")
	if err != nil {
		return nil, err
	}
	for one := range bytes.SplitSeq(out, []byte(mark)) {
		head, rest, _ := strings.Cut(strings.TrimLeft(string(one), "\x00"), "\x00")
		lines := strings.SplitN(head, "\n", 4)
		if len(lines) < 4 || !isHash.MatchString(lines[0]) {
			continue
		}
		at, err := time.Parse(time.RFC3339, lines[1])
		if err != nil {
			return nil, err
		}
		e := Entry{Hash: lines[0], At: at.UTC(), Author: parley.Cut(oneLine(lines[2]), 200), Subject: parley.Cut(oneLine(lines[3]), 300)}
		all, err := changes([]byte(strings.TrimLeft(rest, "\x00\n")))
		if err != nil {
			return nil, err
		}
		e.changes = all
		for _, c := range all {
			t := Touched{Path: c.path, What: c.status, Blob: c.is}
			if c.nowMode == absent {
				t.Blob = ""
			}
			e.Files = append(e.Files, t)
		}
		list = append(list, e)
	}
	return list, nil
}

// Head is the last commit of the branch; "": there is none.
func (r *Repo) Head(ctx context.Context) (tip string, err error) {
	err = r.do(ctx, func(ctx context.Context) error {
		branch, err := r.branch()
		if err == nil {
			tip, err = r.tip(ctx, heads+branch)
		}
		return err
	})
	return tip, said(err)
}
