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
}

var isHash = pattern.New(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// History lists the commits of the branch that changed a file, the newest first, at most so many.
// After is the hash of the last one that is known; "": none. The path is relative to the working
// tree, with slashes.
func (r *Repo) History(ctx context.Context, path, after string, most int) (list []Revision, err error) {
	if after != "" && !isHash.MatchString(after) {
		return nil, parley.Errorf(parley.CodeInvalid, "%q is no commit", parley.Cut(after, 80)).WithField("after")
	}
	err = r.do(ctx, func(ctx context.Context) error {
		_, from, err := r.head(ctx)
		if err != nil || from == "" {
			return err
		}
		args := []string{"log", "-z", "--format=%H%n%cI%n%an%n%s", "--name-status", "--no-renames", "--no-ext-diff", "-n", strconv.Itoa(most)}
		if after != "" {
			if known, err := r.contains(ctx, from, after); err != nil || !known { // of what is no commit, too
				return parley.Errorf(parley.CodeNotFound, "there is no commit %s in the branch", short(after)).WithField("after")
			}
			args = append(args, "--skip=1")
			from = after
		}
		out, err := r.git(ctx, "", nil, append(args, from, "--", path)...)
		if err == nil {
			list, err = revisions(string(out))
		}
		return err
	})
	return list, said(err)
}

// revisions reads what git log -z printed: a commit, and then the status and the path of the file,
// which commits that merge do not have.
func revisions(out string) (list []Revision, err error) {
	tokens := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i < len(tokens); i++ {
		if status, is := strings.CutPrefix(tokens[i], "\n"); is && len(list) > 0 {
			list[len(list)-1].Gone = status == "D"
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

// Content returns what a file had in a commit of the branch. CodeNotFound: the commit has no such
// file, or what it has there is a link. CodeTooLarge: it has more bytes than most.
func (r *Repo) Content(ctx context.Context, commit, path string, most int64) (body []byte, err error) {
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
