package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/parley-server/parley"
)

// keysFile is the format of the file. An older program refuses a file with a newer
// version. Version 2 has keys for one app, which a program that only knows version 1 would
// accept for everything, and version 3 keys with scopes or an end; without such keys an earlier
// version is written.
type keysFile struct {
	Version int   `json:"version"`
	Keys    []Key `json:"keys"`
}

// refresh reads the file if it changed. If the file cannot be read, no key is valid: the
// file may just have revoked one.
func (k *Keys) refresh() error {
	info, err := os.Stat(k.file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		info, err = nil, nil // whoever needs the folder reports what is wrong with it
	}
	if err != nil {
		k.read = false
		k.replace(nil)
		return unreadable(err)
	}
	if k.read && same(k.seen, info) {
		return nil
	}
	var list []Key
	if info != nil {
		if list, err = readKeys(k.file); err != nil {
			k.read = false
			k.replace(nil)
			return err
		}
	}
	k.replace(list)
	k.seen, k.read = info, true
	return nil
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// replace makes list the known keys. Requests and streams under keys that stay are not
// ended.
func (k *Keys) replace(list []Key) {
	next := make([]held, 0, len(list))
	for _, key := range list {
		if i := slices.IndexFunc(k.known, func(h held) bool {
			return h.Hash == key.Hash && h.User == key.User && h.Org == key.Org && h.Metrics == key.Metrics && h.App == key.App && slices.Equal(h.Scopes, key.Scopes) && h.Expires.Equal(key.Expires)
		}); i >= 0 {
			old := k.known[i]
			k.known = slices.Delete(k.known, i, i+1)
			if key.Used.Before(old.Used) {
				key.Used = old.Used
			}
			old.Key = key
			next = append(next, old)
			continue
		}
		next = append(next, hold(key))
	}
	for _, gone := range k.known {
		gone.end()
	}
	k.known = next
}

func readKeys(file string) ([]Key, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil // as in refresh
	}
	if err != nil {
		return nil, unreadable(err)
	}
	var f keysFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, unreadable(err)
	}
	if f.Version < 1 || f.Version > 3 {
		return nil, parley.Errorf(parley.CodeUpgradeRequired, "%s is of version %d, which this program does not know", filepath.Base(file), f.Version).
			WithHint("use the program that wrote it, or a newer one")
	}
	for _, key := range f.Keys {
		if sum, err := hex.DecodeString(string(key.Hash)); err != nil || len(sum) != sha256.Size || checkUser(key.User) != nil {
			return nil, unreadable(errors.New("the key " + parley.Cut(key.Name, 60) + " is incomplete"))
		}
	}
	return f.Keys, nil
}

func unreadable(err error) error {
	return parley.Errorf(parley.CodeUnavailable, "the keys cannot be read: %w", err).WithHint("repair or remove keys.json in the data folder")
}

// change replaces the file by the keys that f returns. Programs that change it at the same
// time wait for each other; a reader sees the old file or the new one. If f refuses the
// change, no folder is created.
func (k *Keys) change(f func([]Key) ([]Key, error)) error {
	now, err := readKeys(k.file)
	if err != nil {
		return err
	}
	if _, err = f(now); err != nil {
		return err
	}
	dir := filepath.Dir(k.file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return unwritable(err)
	}
	lock, err := os.OpenFile(k.file+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return unwritable(err)
	}
	defer lock.Close() // releases the lock
	for {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return unwritable(err)
	}
	list, err := readKeys(k.file) // which may be another by now
	if err != nil {
		return err
	}
	if list, err = f(list); err != nil {
		return err
	}
	version := 1
	if slices.ContainsFunc(list, func(key Key) bool { return key.App != "" }) {
		version = 2
	}
	if slices.ContainsFunc(list, func(key Key) bool { return len(key.Scopes) > 0 || !key.Expires.IsZero() }) {
		version = 3
	}
	raw, err := json.MarshalIndent(keysFile{version, list}, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(k.file, append(raw, '\n')); err != nil {
		return unwritable(err)
	}
	return nil
}

func unwritable(err error) error {
	return parley.Errorf(parley.CodeUnavailable, "the keys cannot be written: %w", err).WithHint("check who may write to the data folder, and that it has room")
}

// writeFile replaces a JSON file.
func writeFile(file string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return replaceFile(file, append(raw, '\n'))
}

// readFile reads a JSON file.
func readFile(file string, into any) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// replaceFile writes a new file that only its owner may read, and renames it: after a
// crash there is the old file or the new one.
func replaceFile(file string, body []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*") // of mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(body)
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), file); err != nil {
		return err
	}
	if d, derr := os.Open(filepath.Dir(file)); derr == nil {
		_ = d.Sync() // some file systems cannot; the rename is done
		_ = d.Close()
	}
	return nil
}
