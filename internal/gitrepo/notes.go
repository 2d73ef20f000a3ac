package gitrepo

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

const notes = "refs/parley/notes/"

// Note is a text that is kept in the repository beside its branches, and its version; "": there is none.
func (r *Repo) Note(ctx context.Context, name string) (body []byte, version string, err error) {
	if !isName(name) {
		return nil, "", parley.Errorf(parley.CodeInvalid, "%q is no name of a note", parley.Cut(name, 80))
	}
	err = r.do(ctx, func(ctx context.Context) error {
		out, err := line(r.git(ctx, "", nil, "rev-parse", "-q", "--verify", notes+name+"^{blob}"))
		if exits(err, 1) {
			return nil
		}
		if err != nil {
			return err
		}
		version = out
		body, err = r.git(ctx, "", nil, "cat-file", "blob", version)
		return err
	})
	return body, version, said(err)
}

// SetNote keeps a text in the place of one with a version. CodeConflict: it has another by now.
func (r *Repo) SetNote(ctx context.Context, name, version string, body []byte) error {
	if !isName(name) {
		return parley.Errorf(parley.CodeInvalid, "%q is no name of a note", parley.Cut(name, 80))
	}
	return said(r.do(ctx, func(ctx context.Context) error {
		hash, err := line(r.git(ctx, "", body, "hash-object", "-w", "-t", "blob", "--stdin"))
		if err != nil || hash == version {
			return err
		}
		was := version
		if was == "" {
			was = strings.Repeat("0", len(hash))
		}
		if err := r.point("noted"); err != nil {
			return err
		}
		if _, err := r.git(ctx, "", nil, "update-ref", notes+name, hash, was); err != nil {
			return parley.Errorf(parley.CodeConflict, "somebody else has changed it at the same time: %w", err)
		}
		return nil
	}))
}

// DropNote removes a note. One that is not there is no error.
func (r *Repo) DropNote(ctx context.Context, name string) error {
	if !isName(name) {
		return parley.Errorf(parley.CodeInvalid, "%q is no name of a note", parley.Cut(name, 80))
	}
	return said(r.do(ctx, func(ctx context.Context) error {
		_, err := r.git(ctx, "", nil, "update-ref", "-d", notes+name)
		return err
	}))
}

// StackTip is the last commit of a branch that [Repo.Stack] has made, or that somebody else has given such a name.
type StackTip struct {
	Commit string
	At     time.Time
}

// Stacks are the branches that begin so, by their names.
func (r *Repo) Stacks(ctx context.Context, prefix string) (tips map[string]StackTip, err error) {
	tips = map[string]StackTip{}
	err = r.do(ctx, func(ctx context.Context) error {
		out, err := r.git(ctx, "", nil, "for-each-ref", "--format=%(objectname) %(committerdate:unix) %(refname)", heads+prefix)
		if err != nil {
			return err
		}
		for row := range strings.SplitSeq(string(out), "\n") {
			f := strings.SplitN(row, " ", 3)
			if len(f) < 3 || !isHash.MatchString(f[0]) {
				continue
			}
			if name, ours := strings.CutPrefix(f[2], heads); ours {
				at, _ := strconv.ParseInt(f[1], 10, 64) // git prints it
				tips[name] = StackTip{f[0], time.Unix(at, 0).UTC()}
			}
		}
		return nil
	})
	return tips, said(err)
}

// DropStack removes a branch that is not checked out, if it is at that commit. One that is not there is no error.
func (r *Repo) DropStack(ctx context.Context, name, commit string) error {
	if !isName(name) || !isHash.MatchString(commit) {
		return parley.Errorf(parley.CodeInvalid, "a branch %q at %q cannot be removed", parley.Cut(name, 80), parley.Cut(commit, 80))
	}
	return said(r.do(ctx, func(ctx context.Context) error {
		if now, err := r.branch(); err == nil && now == name {
			return parley.Errorf(parley.CodeConflict, "the branch %s is checked out", name)
		}
		now, err := r.tip(ctx, heads+name)
		if err != nil || now == "" {
			return err
		}
		if _, err := r.git(ctx, "", nil, "update-ref", "-d", heads+name, commit); err != nil {
			return parley.Errorf(parley.CodeConflict, "the branch %s has other commits by now: %w", name, err)
		}
		return r.point("dropped")
	}))
}

// FileOf is a file as any commit of the repository has it. ok is false if it has no such file.
func (r *Repo) FileOf(ctx context.Context, commit, name string, most int64) (body []byte, ok bool, err error) {
	if !isHash.MatchString(commit) {
		return nil, false, parley.Errorf(parley.CodeNotFound, "there is no such commit")
	}
	err = r.do(ctx, func(ctx context.Context) (err error) {
		body, ok, err = Base{r: r, tip: commit, have: map[string]entry{}}.Read(ctx, name, nil, most)
		return err
	})
	return body, ok, said(err)
}

// KeyedAll finds the commits of the branch since another commit with a trailer whose value begins so, by that value. The newest counts.
func (r *Repo) KeyedAll(ctx context.Context, trailer, prefix, since string) (found map[string]Entry, err error) {
	found = map[string]Entry{}
	err = r.do(ctx, func(ctx context.Context) error {
		_, tip, err := r.head(ctx)
		if err != nil || tip == "" {
			return err
		}
		args := []string{"log", "-z", "--format=%H %(trailers:key=" + trailer + ",valueonly,unfold)", "--fixed-strings", "--grep=" + trailer + ": " + prefix, tip}
		if isHash.MatchString(since) {
			if known, err := r.tip(ctx, since); err == nil && known != "" {
				args = append(args, "^"+since)
			}
		}
		out, err := r.git(ctx, "", nil, append(args, "--")...)
		if err != nil {
			return err
		}
		values := map[string]string{}
		var hashes []string
		for one := range strings.SplitSeq(string(out), "\x00") {
			hash, rest, _ := strings.Cut(strings.TrimSpace(one), " ")
			for value := range strings.SplitSeq(rest, "\n") {
				if value = strings.TrimSpace(value); strings.HasPrefix(value, prefix) && isHash.MatchString(hash) {
					values[hash] = value
					hashes = append(hashes, hash)
				}
			}
		}
		list, err := r.entries(ctx, hashes)
		if err != nil {
			return err
		}
		for _, e := range list {
			if v := values[e.Hash]; found[v].Hash == "" {
				found[v] = e
			}
		}
		return nil
	})
	return found, said(err)
}

// maxSince is how many commits are looked through for trailers.
const maxSince = 1000

// TrailedSince is the last commit of the branch, and whether one since another has trailers that are not known. Merges have the trailers of
// what they merge. If the branch does not have the other commit, or there are too many, there is one.
func (r *Repo) TrailedSince(ctx context.Context, since string, trailers []string, known func(values []string) bool) (head string, others bool, err error) {
	err = r.do(ctx, func(ctx context.Context) error {
		branch, err := r.branch()
		if err != nil {
			return err
		}
		if head, err = r.tip(ctx, heads+branch); err != nil || head == "" || head == since {
			return err
		}
		if in, err := r.contains(ctx, head, since); err != nil || !in { // of what is no commit, too
			others = true
			return nil
		}
		format := "--format=%H"
		for _, t := range trailers {
			format += "%n%(trailers:key=" + t + ",valueonly,unfold,separator=%x20)"
		}
		out, err := r.git(ctx, "", nil, "log", "-z", format, "--no-merges", "-n", strconv.Itoa(maxSince+1), head, "^"+since, "--")
		if err != nil {
			return err
		}
		commits := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		others = len(commits) > maxSince
		for _, one := range commits {
			if one == "" {
				continue
			}
			lines := strings.Split(one, "\n")
			others = others || len(lines) != len(trailers)+1 || !known(lines[1:])
		}
		return nil
	})
	return head, others, said(err)
}
