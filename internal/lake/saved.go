package lake

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
)

const (
	maxSaved     = 200       // files of a commit that are described
	maxSavedBody = 16 << 20  // bytes of their contents
	maxDiff      = 16 << 10  // bytes of a diff
	maxDiffInput = 256 << 10 // bytes of a file that is compared
)

// Saved describes what a commit changed, as the log of a session has it.
func (l *Lake) Saved(ctx context.Context, commit string) (list []parley.FileSaved, err error) {
	r, err := l.versions(ctx)
	if err != nil {
		return nil, err
	}
	all, err := r.Contents(ctx, commit, maxSaved, maxSavedBody)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		s := parley.FileSaved{Path: c.Path}
		if c.Was != nil {
			s.Before = files.VersionOf(c.Was)
		}
		if c.Is != nil {
			s.After = files.VersionOf(c.Is)
		}
		compare(&s, c.Was, c.Is)
		list = append(list, s)
	}
	return list, nil
}

// compare adds the diff.
func compare(s *parley.FileSaved, was, is []byte) {
	if len(was)+len(is) > maxDiffInput || !isPlain(was) || !isPlain(is) {
		return
	}
	from, to := "a/"+s.Path, "b/"+s.Path
	if was == nil {
		from = "/dev/null"
	}
	if is == nil {
		to = "/dev/null"
	}
	d, err := udiff.ToUnifiedDiff(from, to, string(was), udiff.Lines(string(was), string(is)), 3)
	if err != nil {
		return
	}
	for _, h := range d.Hunks {
		for _, line := range h.Lines {
			switch line.Kind {
			case udiff.Insert:
				s.Added++
			case udiff.Delete:
				s.Removed++
			}
		}
	}
	if text := d.String(); len(text) <= maxDiff {
		s.Diff = text
	}
}

func isPlain(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }
