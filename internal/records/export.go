package records

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/parley-server/parley"
)

// Limits on reading an export. It is unpacked in memory, one file at a time, and a small
// archive can hold much.
const (
	maxExportFiles = 200_000
	maxExportBytes = 512 << 20
	maxZip         = 512 << 20
)

// Export is an export from some service: a folder or an archive of it.
type Export struct {
	fsys  fs.FS
	name  string // for people
	close func() error
}

// Open finds the export in a folder: unpacked, or else as an archive. It returns nil when
// there is none.
func (f Folder) Open(dir, archive string) (*Export, error) {
	if f.FS == nil {
		return nil, nil //nolint:nilnil // said above
	}
	if info, err := fs.Stat(f.FS, dir); err == nil && info.IsDir() {
		sub, err := fs.Sub(f.FS, dir)
		if err != nil {
			return nil, bad(f.Path(dir), "%s", reason(err))
		}
		return &Export{fsys: sub, name: f.Path(dir), close: func() error { return nil }}, nil
	}
	info, err := fs.Stat(f.FS, archive)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // said above
	}
	at := f.Path(archive)
	switch {
	case err != nil:
		return nil, bad(at, "the file cannot be read: %s", reason(err))
	case !info.Mode().IsRegular():
		return nil, bad(at, "is not a file")
	}
	file, err := f.FS.Open(archive)
	if err != nil {
		return nil, bad(at, "the file cannot be read: %s", reason(err))
	}
	ra, ok := file.(io.ReaderAt)
	size := info.Size()
	if !ok {
		b, err := f.File(archive, maxZip)
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		ra, size = bytes.NewReader(b), int64(len(b))
	}
	z, err := zip.NewReader(ra, size)
	if err != nil {
		_ = file.Close()
		return nil, bad(at, "not a zip archive: %s", err)
	}
	return &Export{fsys: z, name: at, close: file.Close}, nil
}

// Close closes the archive.
func (e *Export) Close() error { return e.close() }

// Folder returns the export as a folder, for files at known paths.
func (e *Export) Folder() Folder { return Folder{FS: e.fsys, Name: e.name} }

// Each calls f with each regular file whose path want accepts, in lexical order. It also
// opens archives inside the archive, one level deep, because large exports come in such
// parts.
func (e *Export) Each(ctx context.Context, want func(string) bool, f func(at string, info fs.FileInfo, body []byte) error) error {
	b := budget{maxExportFiles, maxExportBytes}
	return e.each(ctx, &b, want, f, true)
}

type budget struct {
	files int
	bytes int64
}

func (e *Export) each(ctx context.Context, b *budget, want func(string) bool, f func(string, fs.FileInfo, []byte) error, parts bool) error {
	return fs.WalkDir(e.fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return bad(path.Join(e.name, p), "%s", reason(err))
		case ctx.Err() != nil:
			return ctx.Err()
		case !d.Type().IsRegular() || strings.HasPrefix(p, "__MACOSX/"):
			return nil
		}
		if b.files--; b.files < 0 {
			return bad(e.name, "has more than %d files", maxExportFiles)
		}
		part := parts && strings.HasSuffix(strings.ToLower(p), ".zip")
		if !part && !want(p) {
			return nil
		}
		limit := int64(MaxFile)
		if part {
			limit = maxZip / 2
		}
		body, err := Folder{e.fsys, e.name}.File(p, min(limit, b.bytes))
		if err != nil {
			return err
		}
		b.bytes -= int64(len(body))
		if part {
			z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
			if err != nil {
				return bad(path.Join(e.name, p), "not a zip archive: %s", err)
			}
			return (&Export{fsys: z, name: path.Join(e.name, p)}).each(ctx, b, want, f, false)
		}
		info, err := d.Info()
		if err != nil {
			return bad(path.Join(e.name, p), "%s", reason(err))
		}
		return f(p, info, body)
	})
}

// Bad returns an error about a file of an export.
func (e *Export) Bad(p, format string, args ...any) *parley.Error {
	return parley.Errorf(parley.CodeTool, "%s: "+format, append([]any{path.Join(e.name, p)}, args...)...).
		WithHint("mend the file, or take it out of the export")
}
