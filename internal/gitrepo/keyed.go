package gitrepo

import (
	"context"
	"strings"
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
