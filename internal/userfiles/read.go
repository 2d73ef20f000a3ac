package userfiles

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
)

// MaxText is the most bytes of a text that is read at once.
const MaxText = 1 << 20

// Read reads lines of a text file, from one, counted from 1. lines is how many; 0: as many as
// there are. It stops after whole lines of [MaxText] bytes together, and holds no more of the file.
func (f *Files) Read(at At, name string, line, lines int) (c parley.FileContent, err error) {
	root, _, err := f.open(at)
	if err != nil {
		return c, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	file, in, err := files.Of(root).Open(name)
	if err != nil {
		return c, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	c.FileInfo = infoOf(in)
	if c.Size > files.MaxFile {
		return c, parley.Errorf(parley.CodeTooLarge, "%s has %d MB; the limit is %d MB", c.Path, c.Size>>20, files.MaxFile>>20).
			WithHint("ask for its content instead, which can be read in parts")
	}
	start := make([]byte, head)
	n, err := io.ReadFull(file, start)
	if err == nil || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return c, parley.Errorf(parley.CodeUnavailable, "read %s: %w", c.Path, cause(err))
	}
	return content(c, file, start[:n], line, lines)
}

// content fills in what r has, which begins with start.
func content(c parley.FileContent, r io.Reader, start []byte, line, lines int) (parley.FileContent, error) {
	part := window{first: max(line, 1), most: lines, valid: true}
	sum := sha256.New()
	var err error
	if c.Size, err = io.Copy(io.MultiWriter(sum, &part), r); err != nil {
		return c, parley.Errorf(parley.CodeUnavailable, "read %s: %w", c.Path, cause(err))
	}
	c.Version, c.MediaType = parley.Digest(hex.EncodeToString(sum.Sum(nil))), mediaType(c.Path, start)
	if !part.text() {
		return c, nil
	}
	c.Line, c.Lines = part.first, part.all()
	if c.Line > max(c.Lines, 1) {
		return c, parley.Errorf(parley.CodeInvalid, "%s has %d lines; line %d is beyond its end", c.Path, c.Lines, c.Line).WithField("line")
	}
	text := string(part.taken)
	c.Text, c.Cut = &text, part.cut
	if next := c.Line + part.whole(); next <= c.Lines {
		c.NextLine = next
	}
	return c, nil
}

// cause leaves the path out of an error, which is the operator's.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Content opens a file to send its bytes. Its version is "" if it is larger than [files.MaxFile]:
// it is not read first. The caller closes it.
func (f *Files) Content(at At, name string) (*os.File, parley.FileInfo, error) {
	root, _, err := f.open(at)
	if err != nil {
		return nil, parley.FileInfo{}, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	file, in, err := files.Of(root).Open(name)
	if err != nil {
		return nil, parley.FileInfo{}, err
	}
	info := infoOf(in)
	start := make([]byte, head)
	n, err := io.ReadFull(file, start)
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	info.MediaType = mediaType(info.Path, start[:n])
	if err == nil && info.Size <= files.MaxFile {
		if _, err = file.Seek(0, io.SeekStart); err == nil {
			info.Version, err = files.VersionFrom(file)
		}
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return nil, parley.FileInfo{}, parley.Errorf(parley.CodeUnavailable, "read %s: %w", info.Path, cause(err))
	}
	return file, info, nil
}

func infoOf(in files.Info) parley.FileInfo {
	return parley.FileInfo{Path: in.Path, Size: in.Size, Modified: in.Modified.UTC()}
}

// stat describes a file, but for its version.
func stat(tree files.Tree, name string) (parley.FileInfo, error) {
	file, in, err := tree.Open(name)
	if err != nil {
		return parley.FileInfo{}, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	start := make([]byte, head)
	n, _ := io.ReadFull(file, start)
	info := infoOf(in)
	info.MediaType = mediaType(info.Path, start[:n])
	return info, nil
}

// head is how many bytes say what a file is.
const head = 8 << 10

// isText reports whether a file is text in UTF-8.
func isText(body []byte) bool { return utf8.Valid(body) && bytes.IndexByte(body, 0) < 0 }

// mediaType is what a file is sent as, by its first bytes. Whatever is text is sent as plain text,
// so that nothing in it runs; but a picture may be SVG, which runs nothing in a picture.
func mediaType(name string, start []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(start), ";")
	switch {
	case kind == "application/pdf", strings.HasPrefix(kind, "image/"), strings.HasPrefix(kind, "audio/"), strings.HasPrefix(kind, "video/"):
		return kind
	}
	if len(start) == head { // it may end within a character
		for i := 1; i < utf8.UTFMax && i < len(start); i++ {
			if utf8.RuneStart(start[len(start)-i]) {
				if !utf8.FullRune(start[len(start)-i:]) {
					start = start[:len(start)-i]
				}
				break
			}
		}
	}
	switch {
	case !isText(start):
		return "application/octet-stream"
	case strings.EqualFold(path.Ext(name), ".svg") && bytes.Contains(start, []byte("<svg")):
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8"
}
