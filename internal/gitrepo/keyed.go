package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
)

// Keyed is a commit that was found by a trailer.
type Keyed struct {
	Hash    string // "": there is none
	Message string
	Files   []Touched
}

// Touched is how a commit changed a file.
type Touched struct {
	Path string
	What byte   // A, M or D, as git says it
	Blob string // the new content; "" for D
}

// Trailer is the value of a trailer.
func (k Keyed) Trailer(key string) string {
	for l := range strings.Lines(k.Message) {
		if v, is := strings.CutPrefix(strings.TrimSpace(l), key+": "); is {
			return v
		}
	}
	return ""
}

// Keyed finds the newest commit of the branch with a trailer of that value.
func (r *Repo) Keyed(ctx context.Context, trailer, value string) (k Keyed, err error) {
	err = r.do(ctx, func(ctx context.Context) error {
		branch, err := r.branch()
		if err != nil {
			return err
		}
		tip, err := r.tip(ctx, heads+branch)
		if err == nil {
			k, err = Base{r, tip}.Keyed(ctx, trailer, value)
		}
		return err
	})
	return k, said(err)
}

// Keyed finds the newest commit up to this one with a trailer of that value.
func (b Base) Keyed(ctx context.Context, trailer, value string) (k Keyed, err error) {
	if b.tip == "" {
		return k, nil
	}
	out, err := b.r.git(ctx, "", nil, "log", "-z", "--format=%H%n%B", "--fixed-strings", "--grep="+trailer+": "+value, b.tip, "--")
	if err != nil {
		return k, err
	}
	for one := range strings.SplitSeq(string(out), "\x00") {
		hash, message, _ := strings.Cut(one, "\n")
		if k = (Keyed{Hash: hash, Message: message}); hash != "" && k.Trailer(trailer) == value {
			k.Files, err = b.r.touched(ctx, hash)
			return k, err
		}
	}
	return Keyed{}, nil
}

// touched lists what a commit changed since its first parent.
func (r *Repo) touched(ctx context.Context, commit string) (list []Touched, err error) {
	parent, err := r.tip(ctx, commit+"^1")
	if err != nil {
		return nil, err
	}
	all, err := r.between(ctx, parent, commit)
	for _, c := range all {
		t := Touched{Path: c.path, What: c.status, Blob: c.is}
		if c.nowMode == absent {
			t.Blob = ""
		}
		list = append(list, t)
	}
	return list, err
}

// Content is a file that a commit changed, as it was in the working tree before and after it; nil: there was none.
type Content struct {
	Path    string
	Was, Is []byte
}

// Contents returns what a commit changed since its first parent: at most so many files, with at most so many bytes
// altogether.
func (r *Repo) Contents(ctx context.Context, commit string, most int, bytesMost int64) (list []Content, err error) {
	if !isHash.MatchString(commit) {
		return nil, parley.Errorf(parley.CodeNotFound, "there is no such commit")
	}
	err = r.do(ctx, func(ctx context.Context) error {
		parent, err := r.tip(ctx, commit+"^1")
		if err != nil {
			return err
		}
		all, err := r.between(ctx, parent, commit)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(c change) bool { return strings.ContainsRune(c.path, '\n') }) // not made by us
		all = all[:min(len(all), most)]
		var in bytes.Buffer
		for _, c := range all {
			for _, side := range [][2]string{{c.wasMode, c.was}, {c.nowMode, c.is}} {
				if strings.HasPrefix(side[0], "100") {
					in.WriteString(side[1] + " " + c.path + "\n")
				}
			}
		}
		out, err := r.git(ctx, "", in.Bytes(), "cat-file", "--batch", "--filters")
		if err != nil {
			return err
		}
		next := func() ([]byte, error) {
			head, rest, ok := bytes.Cut(out, []byte("\n"))
			f := strings.Fields(string(head))
			if !ok || len(f) != 3 {
				return nil, errors.New("git cat-file printed something else than contents")
			}
			size, err := strconv.Atoi(f[2])
			if err != nil || size < 0 || size >= len(rest) {
				return nil, errors.New("git cat-file printed something else than contents")
			}
			out = rest[size+1:]
			return append([]byte{}, rest[:size]...), nil
		}
		for _, c := range all {
			one := Content{Path: c.path}
			if strings.HasPrefix(c.wasMode, "100") {
				if one.Was, err = next(); err != nil {
					return err
				}
			}
			if strings.HasPrefix(c.nowMode, "100") {
				if one.Is, err = next(); err != nil {
					return err
				}
			}
			if bytesMost -= int64(len(one.Was) + len(one.Is)); bytesMost < 0 {
				return nil
			}
			list = append(list, one)
		}
		return nil
	})
	return list, said(err)
}
