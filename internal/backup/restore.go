package backup

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/parley-server/parley"
)

// maxList is the most bytes of the list that are read.
const maxList = 1 << 30

// Restore makes the data folder dir of a backup. It must not exist, or be empty. The folder
// appears once everything was read, compared with the list and synced.
func Restore(ctx context.Context, file, dir string) (c Contents, err error) {
	in, err := os.Open(file)
	if err != nil {
		return c, parley.Errorf(parley.CodeNotFound, "open the backup: %w", err)
	}
	defer in.Close()
	if have, err := os.ReadDir(dir); err == nil && len(have) > 0 {
		return c, parley.Errorf(parley.CodeConflict, "%s is not empty", dir).WithHint("name a new folder, or move this one away")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	work, done, err := workFolder(dir)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, done()) }()
	half := filepath.Join(work, "data")
	if err := os.Mkdir(half, 0o700); err != nil {
		return c, err
	}
	if c, err = extract(ctx, in, half); err != nil {
		return c, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	if err := os.Rename(half, dir); err != nil {
		return c, err
	}
	return c, syncDir(filepath.Dir(dir))
}

func bad(format string, args ...any) error {
	return parley.Errorf(parley.CodeInvalid, "the backup is damaged or incomplete: "+format, args...).WithHint("use another backup; nothing was restored")
}

// extract writes the files of a backup into a folder, and compares them with its list.
func extract(ctx context.Context, in io.Reader, dir string) (c Contents, err error) {
	buffered := bufio.NewReaderSize(in, 256<<10)
	var plain io.Reader = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return c, bad("%w", err)
		}
		plain = z
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return c, err
	}
	defer root.Close()
	have := map[string]File{}
	var made []*tar.Header // folders, whose modes are set at the end
	listed := false
	for files := tar.NewReader(plain); ; {
		if ctx.Err() != nil {
			return c, parley.Errorf(parley.CodeCancelled, "the backup was not restored: %w", context.Cause(ctx))
		}
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		switch {
		case err != nil:
			return c, bad("%w", err)
		case listed:
			return c, bad("there is something behind its list")
		case h.Name == List:
			raw, err := io.ReadAll(io.LimitReader(files, maxList))
			if err == nil {
				err = json.Unmarshal(raw, &c)
			}
			if err != nil {
				return c, bad("its list: %w", err)
			}
			listed = true
			continue
		}
		f, err := put(root, files, h)
		if err != nil {
			return c, err
		}
		if h.Typeflag == tar.TypeDir {
			made = append(made, h)
		}
		if _, twice := have[f.Name]; twice {
			return c, bad("%s is there twice", f.Name)
		}
		have[f.Name] = f
	}
	// The end of what is compressed has its checksum.
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return c, bad("%w", err)
	}
	switch {
	case !listed:
		return c, bad("it has no list at its end")
	case c.Format != format:
		return c, parley.Errorf(parley.CodeUpgradeRequired, "the backup has form %d, and this Parley knows form %d", c.Format, format).WithHint("use the version of Parley that made it: %s", c.Version)
	case len(c.Files) != len(have):
		return c, bad("it has %d files and lists %d", len(have), len(c.Files))
	}
	for _, f := range c.Files {
		if have[f.Name] != f {
			return c, bad("%s is not as the list says", f.Name)
		}
	}
	for i := len(made) - 1; i >= 0; i-- {
		name := strings.TrimSuffix(made[i].Name, "/")
		if err := errors.Join(root.Chmod(name, fs.FileMode(made[i].Mode).Perm()), root.Chtimes(name, made[i].ModTime, made[i].ModTime), syncDir(filepath.Join(dir, name))); err != nil {
			return c, err
		}
	}
	return c, syncDir(dir)
}

// source is a reader that keeps its error, which is the backup's and not the disk's.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// put writes one entry.
func put(root *os.Root, in io.Reader, h *tar.Header) (f File, err error) {
	name := strings.TrimSuffix(h.Name, "/")
	if name == "" || name != path.Clean(name) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return f, bad("it has the name %q", parley.Cut(h.Name, 80))
	}
	f = File{Name: h.Name}
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, 0o700); err != nil {
			return f, fmt.Errorf("restore %s: %w", name, err)
		}
	case tar.TypeSymlink:
		f.Link = h.Linkname
		if err := root.Symlink(h.Linkname, name); err != nil {
			return f, fmt.Errorf("restore %s: %w", name, err)
		}
	case tar.TypeReg:
		out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return f, fmt.Errorf("restore %s: %w", name, err)
		}
		sum, from := sha256.New(), &source{r: in}
		f.Size, err = io.Copy(io.MultiWriter(out, sum), from)
		f.SHA256 = hex.EncodeToString(sum.Sum(nil))
		if err := errors.Join(err, out.Chmod(mode), out.Sync(), out.Close()); from.err != nil {
			return f, bad("%s: %w", name, from.err)
		} else if err != nil {
			return f, fmt.Errorf("restore %s: %w", name, err)
		}
		if err := root.Chtimes(name, h.ModTime, h.ModTime); err != nil {
			return f, err
		}
	default:
		return f, bad("%s is of the kind %q", name, h.Typeflag)
	}
	return f, nil
}
