package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/wiki"
)

const (
	maxFiles = 200_000 // files and folders of a lake
	batch    = 200     // files that are written to the index together
	// granule is longer than the steps in which file systems count time. Of a file that was changed so shortly
	// before it was read, the time does not say whether it was changed again.
	granule = 50 * time.Millisecond
)

// read is a file that was read, or is gone.
type read struct {
	path  string
	stamp string
	racy  bool
	gone  bool
	p     *parsed // nil: it is no entity
}

// stampOf changes whenever a file does, see granule.
func stampOf(in files.Info) string {
	return fmt.Sprintf("%d %d %d %d", in.Size, in.Modified.UnixNano(), in.Changed.UnixNano(), in.ID)
}

// follow brings the index up to date with the files, unless it was shortly before. Of several callers one does it.
func (x *index) follow(ctx context.Context, fresh time.Duration) error {
	asked := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.ended:
		return parley.Errorf(parley.CodeUnavailable, "the lake is closed")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case x.conn == nil:
		if err := x.open(); err != nil {
			if err := x.renew(); err != nil {
				return parley.Errorf(parley.CodeUnavailable, "the search index of the lake: %w", err)
			}
		}
	}
	switch {
	case x.last.After(asked), fresh > 0 && !x.last.IsZero() && time.Since(x.last) < fresh:
		return nil
	}
	return x.look(ctx)
}

// touch has the next reader look at the files.
func (x *index) touch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = time.Time{}
}

// look looks at all files. The lock is held.
func (x *index) look(ctx context.Context) error {
	began := time.Now()
	err := x.walk(ctx, began)
	if err != nil && isDatabase(err) && ctx.Err() == nil {
		x.o.Logger.Warn("the search index of a lake was damaged and is made again", "err", err)
		if err = x.again(); err == nil {
			err = x.walk(ctx, began)
		}
	}
	if err == nil {
		x.last = began
	}
	return err
}

// databaseError is an error of the index itself.
type databaseError struct{ err error }

func (e *databaseError) Error() string { return e.err.Error() }
func (e *databaseError) Unwrap() error { return e.err }

func isDatabase(err error) bool { _, is := errors.AsType[*databaseError](err); return is }

// again makes the index again. The lock is held.
func (x *index) again() error {
	_ = x.shut()
	return x.renew()
}

func (x *index) walk(ctx context.Context, began time.Time) error {
	seen := make(map[string]bool, len(x.known))
	tree, done, err := x.in.use()
	if err != nil {
		return err
	}
	defer done()
	var list []read
	flush := func() error {
		if err := x.put(list); err != nil {
			x.known = map[string]known{}
			return &databaseError{err}
		}
		list = list[:0]
		return nil
	}
	err = tree.Walk(ctx, ".", files.Walk{Most: maxFiles}, func(e files.Entry) error {
		seen[e.Path] = true
		have, ok := x.known[e.Path]
		info, err := e.Stat()
		if err != nil {
			seen[e.Path] = false // a link, or gone, or not readable
			return nil
		}
		if ok && !have.racy && have.stamp == stampOf(info) {
			return nil
		}
		r, ok := one(tree, e.Path, began)
		if !ok {
			seen[e.Path] = false
			return nil
		}
		if list = append(list, r); len(list) >= batch {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name := range x.known {
		if !seen[name] {
			list = append(list, read{path: name, gone: true})
		}
	}
	return flush()
}

// one reads a file. ok is false if there is none that can be read.
func one(tree files.Tree, name string, began time.Time) (r read, ok bool) {
	r.path = name
	info, err := tree.Stat(name)
	if err != nil || info.Dir {
		return r, false
	}
	r.stamp = stampOf(info)
	r.racy = began.Add(-granule).Before(info.Modified) || began.Add(-granule).Before(info.Changed)
	if !wiki.IsNote(name) {
		r.racy = false // its content does not matter
		return r, true
	}
	var body []byte
	if info.Size > MaxEntity {
		body = make([]byte, MaxEntity+1) // its length is all that matters
		p := parse(name, body)
		p.Size, p.Version = info.Size, ""
		r.p = &p
		return r, true
	}
	if body, err = tree.Read(name, MaxEntity); err != nil {
		return r, false
	}
	p := parse(name, body)
	r.p = &p
	return r, true
}

// wrote has the index follow files that were just changed.
func (x *index) wrote(paths []string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn == nil {
		return nil
	}
	return x.these(paths)
}

func (x *index) these(paths []string) error {
	tree, done, err := x.in.use()
	if err != nil {
		x.last = time.Time{}
		return err
	}
	defer done()
	began := time.Now()
	var list []read
	for _, name := range paths {
		r, ok := one(tree, name, began)
		r.gone = !ok
		list = append(list, r)
	}
	if err := x.put(list); err != nil {
		x.last = time.Time{}
		x.known = map[string]known{}
		return x.again()
	}
	return nil
}

// body reads an entity.
func (l *Lake) body(name string) ([]byte, error) {
	body, err := l.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(name)
	}
	return body, err
}

func notFound(name string) error {
	return parley.Errorf(parley.CodeNotFound, "there is no entity %q", parley.Cut(name, 200)).WithHint("search for it, or list what there is")
}
