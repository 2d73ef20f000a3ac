package extract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/parley-server/parley/internal/extract"
)

// answer is a module of WebAssembly with a function that returns n.
func answer(n byte) []byte {
	return slices.Concat(
		[]byte("\x00asm\x01\x00\x00\x00"), []byte("\x01\x05\x01\x60\x00\x01\x7f"), []byte("\x03\x02\x01\x00"),
		[]byte("\x07\x05\x01\x01f\x00\x00"), []byte{0x0a, 0x06, 0x01, 0x04, 0x00, 0x41, n & 0x3f, 0x0b},
	)
}

// run compiles a module with a cache in the folder and calls its function.
func run(t *testing.T, dir string, n byte) {
	t.Helper()
	var got []uint64
	err := extract.Cached(dir, func(c wazero.CompilationCache) error {
		ctx := context.Background()
		rc := wazero.NewRuntimeConfigCompiler()
		if c != nil {
			rc = rc.WithCompilationCache(c)
		}
		r := wazero.NewRuntimeWithConfig(ctx, rc)
		defer r.Close(ctx)
		m, err := r.Instantiate(ctx, answer(n))
		if err != nil {
			return err
		}
		got, err = m.ExportedFunction("f").Call(ctx)
		return err
	})
	if err != nil || len(got) != 1 || got[0] != uint64(n) {
		t.Errorf("got %v, %v", got, err)
	}
}

// kept are the files of a folder, besides the note.
func kept(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && name != extract.NoteName {
			list = append(list, filepath.Join(dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestCache: whatever became of the cache, the parser is right, and afterwards there is one good file.
func TestCache(t *testing.T) {
	t.Parallel()
	change := func(t *testing.T, path string, f func([]byte) []byte) {
		t.Helper()
		body, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, f(body), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[(at+len(b))%len(b)] ^= 0xff; return b }
	}
	file := func(t *testing.T, dir string) string { return kept(t, dir)[0] }
	for name, c := range map[string]struct {
		do     func(t *testing.T, dir string)
		module byte // that is compiled afterwards
		reused bool
	}{
		"nothing":            {func(*testing.T, string) {}, 7, true},
		"removed":            {func(t *testing.T, dir string) { _ = os.RemoveAll(dir) }, 7, false},
		"half a file":        {func(t *testing.T, dir string) { change(t, file(t, dir), func(b []byte) []byte { return b[:len(b)/2] }) }, 7, false},
		"an empty file":      {func(t *testing.T, dir string) { change(t, file(t, dir), func([]byte) []byte { return nil }) }, 7, false},
		"a damaged head":     {func(t *testing.T, dir string) { change(t, file(t, dir), flip(0)) }, 7, false},
		"a damaged function": {func(t *testing.T, dir string) { change(t, file(t, dir), flip(-1)) }, 7, false},
		"a damaged middle": {func(t *testing.T, dir string) {
			change(t, file(t, dir), func(b []byte) []byte { return flip(len(b) / 2)(b) })
		}, 7, false},
		"longer":  {func(t *testing.T, dir string) { change(t, file(t, dir), func(b []byte) []byte { return append(b, 1) }) }, 7, false},
		"no note": {func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, extract.NoteName)) }, 7, false},
		"an empty note": {func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, extract.NoteName), func([]byte) []byte { return nil })
		}, 7, false},
		"a note that leads out": {func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, extract.NoteName), func([]byte) []byte { return []byte("../../etc/passwd x") })
		}, 7, false},
		"another parser": {func(*testing.T, string) {}, 8, false},
		"a file of another version": {func(t *testing.T, dir string) {
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, "wazero-v0"), 0o700), os.WriteFile(filepath.Join(dir, "wazero-v0", "x"), []byte("x"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}, 7, true},
		"a file left by a killed process": {func(t *testing.T, dir string) {
			left := file(t, dir) + ".1.tmp"
			long := time.Now().Add(-2 * time.Hour)
			if err := errors.Join(os.WriteFile(left, []byte("x"), 0o600), os.Chtimes(left, long, long)); err != nil {
				t.Fatal(err)
			}
		}, 7, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "cache")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			run(t, dir, 7)
			long := time.Now().Add(-time.Hour)
			made := func() bool { // since it was asked last
				t.Helper()
				info, err := os.Stat(file(t, dir))
				if err == nil {
					err = os.Chtimes(file(t, dir), long, long)
				}
				if err != nil {
					t.Fatal(err)
				}
				return info.ModTime().After(long.Add(time.Minute))
			}
			if !made() {
				t.Error("it was not made")
			}
			c.do(t, dir)
			if name == "removed" {
				run(t, dir, c.module)
				return // nobody makes the folder again but who has it made
			}
			if files := kept(t, dir); len(files) == 1 {
				if err := os.Chtimes(files[0], long, long); err != nil {
					t.Fatal(err)
				}
			}
			run(t, dir, c.module)
			left := kept(t, dir)
			if len(left) != 1 {
				t.Fatalf("there are %q", left)
			}
			if made() == c.reused {
				t.Errorf("it was used again: %v, want %v", !c.reused, c.reused)
			}
			if run(t, dir, c.module); made() {
				t.Error("the mended one is not used")
			}
		})
	}
}

func TestCacheElsewhere(t *testing.T) {
	t.Parallel()
	run(t, "", 7)
	run(t, filepath.Join(t.TempDir(), "missing"), 7)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, file, 7)
	if body, _ := os.ReadFile(file); string(body) != "x" {
		t.Errorf("the file is %q", body)
	}
}

// TestCacheAtOnce: processes that begin together disturb each other in nothing.
func TestCacheAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 10 {
				run(t, dir, byte(7+i%2))
			}
		})
	}
	all.Wait()
	run(t, dir, 7)
	run(t, dir, 7)
	if left := kept(t, dir); len(left) != 1 {
		t.Errorf("there are %q", left)
	}
}

// cacheVariable has this program read a PDF with a cache in a folder.
const cacheVariable = "EXTRACT_TEST_CACHE"

func reader(dir string) int {
	extract.Cache(func() (string, error) { return dir, nil })
	began := time.Now()
	if err := extract.Ready(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	d, err := extract.PDF(context.Background(), single(say("Hello")), extract.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(d.Pages[0].Text)
	fmt.Fprint(os.Stderr, time.Since(began).Round(time.Millisecond))
	status, _ := os.ReadFile("/proc/self/status") // where there is one
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM:") {
			fmt.Fprint(os.Stderr, ", most memory "+strings.TrimSpace(strings.TrimPrefix(line, "VmHWM:")))
		}
	}
	return 0
}

// TestCacheOfTheParser: a second process reads the compiled parser of the first.
func TestCacheOfTheParser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() []byte {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), cacheVariable+"="+dir)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil || strings.TrimSpace(string(out)) != "Hello" {
			t.Fatalf("got %q, %v: %s", out, err, &errs)
		}
		usage := cmd.ProcessState
		t.Logf("%s, processor %s", &errs, usage.UserTime()+usage.SystemTime())
		return out
	}
	start()
	files := kept(t, dir)
	if len(files) != 1 {
		t.Fatalf("there are %q", files)
	}
	first, err := os.Stat(files[0])
	if err != nil || first.Size() > 64<<20 {
		t.Fatalf("%d bytes, %v", first.Size(), err)
	}
	t.Logf("%d MB", first.Size()>>20)
	start()
	if second, err := os.Stat(files[0]); err != nil || !second.ModTime().Equal(first.ModTime()) {
		t.Errorf("it was compiled again: %v", err)
	}
}
