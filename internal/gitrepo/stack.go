package gitrepo

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Tree returns the last commit of the branch, and the hashes of the files that it has.
func (r *Repo) Tree(ctx context.Context) (tip string, hashes map[string]string, err error) {
	hashes = map[string]string{}
	err = r.do(ctx, func(ctx context.Context) error {
		branch, err := r.branch()
		if err != nil {
			return err
		}
		if tip, err = r.tip(ctx, heads+branch); err != nil || tip == "" {
			return err
		}
		out, err := r.git(ctx, "", nil, "ls-tree", "-r", "-z", tip)
		if err != nil {
			return err
		}
		for row := range strings.SplitSeq(string(out), "\x00") {
			head, name, ok := strings.Cut(row, "\t")
			if f := strings.Fields(head); ok && len(f) == 3 && f[1] == "blob" {
				hashes[name] = f[2]
			}
		}
		return nil
	})
	if err != nil && parley.CodeOf(err) == "" {
		err = unavailable(err)
	}
	return tip, hashes, err
}

// Stacked is a commit of a branch that nobody has checked out.
type Stacked struct {
	Edits   []Edit
	Message string
	Author  Ident
	When    time.Time
}

// Stack makes a branch of its own with commits one on the other, on top of one that is there. Nothing else is changed. The same
// commits are made by the same call, so that a repetition changes nothing; a branch of that name with others is CodeConflict.
func (r *Repo) Stack(ctx context.Context, name, from string, list []Stacked) (commits []string, err error) {
	if !isName(name) || !isHash.MatchString(from) || len(list) == 0 {
		return nil, parley.Errorf(parley.CodeInvalid, "a branch %q on %q cannot be made", parley.Cut(name, 80), parley.Cut(from, 80))
	}
	err = r.do(ctx, func(ctx context.Context) error {
		// The objects are made first, below a name that is not a branch. Then the branch is there, whole.
		work := "refs/parley/stack/" + name
		var in bytes.Buffer
		for i, c := range list {
			fmt.Fprintf(&in, "commit %s\nmark :%d\n", work, i+1)
			when := fmt.Sprintf("%d %s", c.When.Unix(), c.When.Format("-0700"))
			text := strings.TrimSpace(message(c.Message)) + "\n"
			fmt.Fprintf(&in, "author %s %s\ncommitter %s %s\ndata %d\n%s\n", c.Author, when, c.Author, when, len(text), text)
			if i == 0 {
				fmt.Fprintf(&in, "from %s\n", from)
			}
			for _, e := range c.Edits {
				if strings.ContainsAny(e.Path, "\n\"") {
					return parley.Errorf(parley.CodeInvalid, "%q is not a path that a proposal can change", parley.Cut(e.Path, 200))
				}
				if e.Gone {
					fmt.Fprintf(&in, "D %s\n", e.Path)
					continue
				}
				fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n", e.Path, len(e.Body))
				in.Write(e.Body)
				in.WriteByte('\n')
			}
			in.WriteByte('\n')
		}
		for i := range list {
			fmt.Fprintf(&in, "get-mark :%d\n", i+1)
		}
		in.WriteString("done\n")
		out, err := r.git(ctx, "", in.Bytes(), "fast-import", "--quiet", "--done", "--force", "--cat-blob-fd=1")
		if err != nil {
			return err
		}
		if commits = strings.Fields(string(out)); len(commits) != len(list) {
			return parley.Errorf(parley.CodeInternal, "git fast-import printed %d commits of %d", len(commits), len(list))
		}
		if err := r.point("stacked"); err != nil {
			return err
		}
		last := commits[len(commits)-1]
		now, err := r.tip(ctx, heads+name)
		switch {
		case err != nil:
			return err
		case now == "":
			if err := r.move(ctx, heads+name, "", last, "propose"); err != nil {
				return err
			}
		case now != last:
			return parley.Errorf(parley.CodeConflict, "there is a branch %s already, with other commits", name)
		}
		if err := r.point("branched"); err != nil {
			return err
		}
		_, err = r.git(ctx, "", nil, "update-ref", "-d", work)
		return err
	})
	if err != nil && parley.CodeOf(err) == "" {
		err = unavailable(err)
	}
	return commits, err
}
