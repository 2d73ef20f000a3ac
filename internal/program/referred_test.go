package program

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestReferred: a value that a program gets from a file or a variable is a secret if it looks
// like one. A path, the host of an address and a mode are not secrets.
func TestReferred(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "here")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string][]string{
		"tok-12345678":                   {"tok-12345678"},
		"/9j4AAQSkZJRg==":                {"/9j4AAQSkZJRg=="},
		"production":                     nil,
		"8080":                           nil,
		file:                             nil,
		filepath.Join(dir, "absent.txt"): nil,
		"http://127.0.0.1:9000":          nil,
		"https://crm.example.com/api":    nil,
		"https://me:hunter22@crm.example.com/api/T024BE7LD/Xq8?key=k-4711-0815": {"hunter22", "T024BE7LD", "k-4711-0815", "Xq8"},
	} {
		got := slices.DeleteFunc(referred([]string{value}, isFile), func(s string) bool { return s == "" })
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
	for _, name := range []string{"TOKEN", "key", "SECRET", "PASSWORD", "MY_TOKEN"} {
		if got := secrets([]string{name + "=tok-12345678"}, isFile); !slices.Equal(got, []string{"tok-12345678"}) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := secrets([]string{"MONKEY=tok-12345678", "KEY=created_at"}, isFile); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}
