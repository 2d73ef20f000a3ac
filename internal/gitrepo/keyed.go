package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

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
		_, tip, err := r.head(ctx)
		if err == nil {
			k, err = Base{r, tip, nil}.Keyed(ctx, trailer, value)
		}
		return err
	})
	return k, said(err)
}

// keys are the values of a trailer in the commits up to one, so that most look-ups run no program.
type keys struct {
	mu      sync.Mutex
	trailer string
	tip     string
	commits map[string]string // by value
}

// maxKeys is how many commits are looked through for a key, the newest.
const maxKeys = 100_000

// Keyed finds the newest commit up to this one with a trailer of that value, among the last 100,000.
func (b Base) Keyed(ctx context.Context, trailer, value string) (k Keyed, err error) {
	if b.tip == "" {
		return k, nil
	}
	hash, err := b.r.keyed(ctx, b.tip, trailer, value)
	if err != nil || hash == "" {
		return k, err
	}
	k.Hash = hash
	message, err := b.r.git(ctx, "", nil, "log", "-1", "--format=%B", hash, "--")
	if err != nil {
		return k, err
	}
	k.Message = string(message)
	k.Files, err = b.r.touched(ctx, hash)
	return k, err
}

func (r *Repo) keyed(ctx context.Context, tip, trailer, value string) (string, error) {
	r.keys.mu.Lock()
	defer r.keys.mu.Unlock()
	k := &r.keys
	if k.tip == tip && k.trailer == trailer {
		return k.commits[value], nil
	}
	args := []string{"log", "-z", "--format=%H%n%(trailers:key=" + trailer + ",valueonly,unfold)", "-n", strconv.Itoa(maxKeys), tip}
	only := false // those behind the tip that is known
	if k.tip != "" && k.trailer == trailer {
		var err error
		if only, err = r.contains(ctx, tip, k.tip); err != nil {
			return "", err
		}
	}
	if only {
		args = append(args, "^"+k.tip)
	} else {
		k.commits = map[string]string{}
	}
	k.tip = ""
	out, err := r.git(ctx, "", nil, append(args, "--")...)
	if err != nil {
		return "", err
	}
	fresh := map[string]bool{}
	for one := range strings.SplitSeq(string(out), "\x00") {
		hash, values, _ := strings.Cut(one, "\n")
		for v := range strings.FieldsSeq(values) {
			if !fresh[v] { // the newest comes first
				fresh[v], k.commits[v] = true, hash
			}
		}
	}
	if len(k.commits) > 2*maxKeys {
		k.commits = nil // the next look-up begins anew
		return "", parley.Errorf(parley.CodeUnavailable, "there are too many commits to look through")
	}
	k.tip, k.trailer = tip, trailer
	return k.commits[value], nil
}

// keep notes the key of a commit that was just made on top of another.
func (k *keys) keep(from, to, message string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tip != from || k.trailer == "" {
		return
	}
	if v := (Keyed{Message: message}).Trailer(k.trailer); v != "" {
		k.commits[v] = to
	}
	k.tip = to
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
		list, err = r.contents(ctx, all, most, bytesMost)
		return err
	})
	return list, said(err)
}

// ContentsOf is Contents for several commits, by commit. What is more than so many bytes altogether is left out, commit by commit.
func (r *Repo) ContentsOf(ctx context.Context, commits []string, most int, bytesMost int64) (all map[string][]Content, err error) {
	all = map[string][]Content{}
	err = r.do(ctx, func(ctx context.Context) error {
		commits = slices.DeleteFunc(slices.Clone(commits), func(hash string) bool { return !isHash.MatchString(hash) })
		entries, err := r.entries(ctx, commits)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(entries, 20) { // what one command prints is bounded
			var list []change
			for _, e := range some {
				list = append(list, e.changes...)
			}
			got, err := r.contents(ctx, list, most, bytesMost)
			if err != nil {
				return err
			}
			for _, c := range got {
				bytesMost -= int64(len(c.Was) + len(c.Is))
			}
			for _, e := range some {
				n := len(plainPaths(e.changes))
				if n > len(got) {
					return nil
				}
				all[e.Hash], got = got[:n], got[n:]
			}
		}
		return nil
	})
	return all, said(err)
}

// plainPaths are changes without those of names that are not made by us.
func plainPaths(list []change) []change {
	return slices.DeleteFunc(slices.Clone(list), func(c change) bool { return strings.ContainsRune(c.path, '\n') })
}

// contents reads what files had and have. It ends where they are too many, or have too many bytes.
func (r *Repo) contents(ctx context.Context, all []change, most int, bytesMost int64) (list []Content, err error) {
	all = plainPaths(all)
	all = all[:min(len(all), most)]
	if len(all) == 0 {
		return nil, nil
	}
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
		return nil, err
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
				return nil, err
			}
		}
		if strings.HasPrefix(c.nowMode, "100") {
			if one.Is, err = next(); err != nil {
				return nil, err
			}
		}
		if bytesMost -= int64(len(one.Was) + len(one.Is)); bytesMost < 0 {
			return list, nil
		}
		list = append(list, one)
	}
	return list, nil
}
