package extract

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
)

// The compiled parser is kept in a folder, from which a later process reads it in a fraction of the
// time. It is machine code, so the folder must be as safe as the program itself.
//
// wazero writes a file under its version, the processor and the digest of what is compiled, at once and
// synced. It checks the code in it when it reads it, but not where its functions begin. So the name and
// the digest of the file are noted in another one, and only a file that is noted is used: half a file, a
// damaged one, or one that another process has just written is removed, and compiled again. The folder
// never keeps more than one.

// noteName is the file in the folder with the name and digest of the compiled parser.
const noteName = "checked"

// staleAfter is when a file that is being written by another process is taken for one that was left.
const staleAfter = time.Hour

var (
	cacheMu sync.Mutex
	cacheIn func() (dir string, err error)
)

// Cache has the compiled parser kept in a folder that find returns and makes. It is for the start of a
// process: once the parser is compiled, it does nothing. An error means that it is not kept.
func Cache(find func() (dir string, err error)) {
	cacheMu.Lock()
	defer cacheMu.Unlock()
	cacheIn = find
}

// cacheFolder is the folder, or "" if there is none.
func cacheFolder() string {
	cacheMu.Lock()
	defer cacheMu.Unlock()
	if cacheIn == nil {
		return ""
	}
	dir, err := cacheIn()
	if err != nil {
		return ""
	}
	return dir
}

// cached calls compile with a cache in the folder, and without one where that does not work.
func cached(dir string, compile func(wazero.CompilationCache) error) error {
	if dir != "" && checkCache(dir) == nil {
		if c, err := wazero.NewCompilationCacheWithDir(dir); err == nil {
			if err := compile(c); err == nil {
				_ = noteCache(dir)
				return nil
			}
			_ = emptyCache(dir)
		}
	}
	return compile(nil)
}

// checkCache removes what is in the folder besides a compiled parser that is as it was noted.
func checkCache(dir string) error {
	note, err := os.ReadFile(filepath.Join(dir, noteName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	name, want, _ := strings.Cut(strings.TrimSpace(string(note)), " ")
	good := false
	if name != "" && filepath.IsLocal(name) {
		sum, err := digest(filepath.Join(dir, name))
		good = err == nil && sum == want
	}
	return sweep(dir, func(at string) bool { return good && at == name })
}

// noteCache notes the compiled parser that the folder has, unless that was done before.
func noteCache(dir string) error {
	note, _ := os.ReadFile(filepath.Join(dir, noteName))
	known, _, _ := strings.Cut(string(note), " ")
	newest, when := "", time.Time{}
	err := walk(dir, func(at string, info fs.FileInfo) error {
		if at != known && !unfinished(at) && info.ModTime().After(when) {
			newest, when = at, info.ModTime()
		}
		return nil
	})
	if err != nil || newest == "" {
		return err // what was noted was used
	}
	sum, err := digest(filepath.Join(dir, newest))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "*.tmp")
	if err != nil {
		return err
	}
	_, err = f.WriteString(newest + " " + sum + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, noteName))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return sweep(dir, func(at string) bool { return at == newest })
}

func emptyCache(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, noteName)), sweep(dir, func(string) bool { return false }))
}

func unfinished(name string) bool { return strings.HasSuffix(name, ".tmp") }

// sweep removes files of the folder, but not those that another process may be writing.
func sweep(dir string, keep func(name string) bool) error {
	return walk(dir, func(at string, info fs.FileInfo) error {
		if keep(at) || unfinished(at) && time.Since(info.ModTime()) < staleAfter {
			return nil
		}
		if err := os.Remove(filepath.Join(dir, at)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = os.Remove(filepath.Join(dir, filepath.Dir(at))) // if it is empty, such as that of another version
		return nil
	})
}

// walk visits the files of the folder except the note. Names are relative to it.
func walk(dir string, visit func(name string, info fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another process has removed it
		}
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == noteName {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return visit(name, info)
	})
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
