//go:build unix

// Package filestest has paths that must lead out of no folder, and a folder to try them in.
package filestest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Outside are paths from a vault that [Furnish] made to what is not in it, or is git's. SECRET is in all files there.
var Outside = []string{
	"..", "../secret", "../other/secret.md", "./../secret", "a/../../secret", "a/b/../../../secret", "a/./../../secret", "a/../a/../../secret", "missing/../../secret", "a//..//..//secret", "../vault/../secret", "../vault-evil/secret.md",
	"a/" + strings.Repeat("../", 40) + "etc/passwd", "..//secret", ".././secret", "../secret/", "../secret/.", "../../../../../../../../etc/hostname",
	"/etc/passwd", "//etc/passwd", "///etc/passwd", "/", "/proc/self/environ", "/proc/self/cwd/../secret", "/dev/stdin", "/..", "/../etc/passwd", "/./etc/passwd", "~/secret", "~root/secret", "$HOME/secret", "${HOME}/secret", "%2e%2e/secret", "%2e%2e%2fsecret", "..%2fsecret",
	"..%c0%afsecret", "..%252fsecret", "file:///etc/passwd", "file:../secret", "....//secret", "..././secret", "..;/secret", ".. /secret", ". ./secret", "..\u200b/secret", "\u2024\u2024/secret", "\uff0e\uff0e/secret", "..\u2215secret", "..\uff0fsecret", "..\u2044secret", "\u202e../secret",
	`..\secret`, `a\..\..\secret`, `\\server\share\secret`, `C:\secret`, "C:/secret", "C:secret", `\\?\C:\secret`, `//?/C:/secret`, "NUL", "CON/../../secret", "secret::$DATA", "../secret\x00.md", "a\x00/../../secret", "..\x00/secret", "..\n/secret", "..\r/secret", "..\t/secret", "\x1b[A../secret", "\xff/../../secret", "..\xc0\xafsecret", "\xed\xa0\x80/../secret",
	".git", ".git/config", ".GIT/config", ".Git/config", "sub/.git/config", ".git./config", ".git /config", ".git. . /config", ".git::$INDEX_ALLOCATION/config", "git~1/config", "GIT~1/config", ".g\u200cit/config", ".gi\u200dt/config", "\ufeff.git/config", ".git\u200e/config", ".\u202egit/config", "a/../.git/config", "./.git/config", ".git//config", ".git/../.git/config",
	"link", "link/secret.md", "chain", "chain/secret.md", "abs", "rel", "loop", "loop/x", "dangling", "sub/up", "sub/up/secret", "sub/deep/link/secret.md", "gitlink/config", "inlink/../../secret", "inlink/c.md", "procroot/etc/passwd", "self", "hard.md", "pipe", "socket", "A/B/C.md/../../../../secret", "link/../../secret", "link/./secret.md", "sub/deep/../up/secret",
	strings.Repeat("a/", 70) + "../secret", strings.Repeat("a", 300), strings.Repeat("ab/", 400) + "x",
}

// Furnish makes a folder "vault" in top, with links and other traps, and secrets outside and in .git.
func Furnish(t testing.TB, top string) (vault string) {
	t.Helper()
	vault = filepath.Join(top, "vault")
	for _, at := range []string{"secret", "other/secret.md", "vault-evil/secret.md", "vault/.git/config", "vault/sub/.git/config"} {
		put(t, filepath.Join(top, at), "SECRET\n")
	}
	for _, at := range []string{"a/b/c.md", "sub/x.md", "sub/deep/y.md", "real/c.md"} {
		put(t, filepath.Join(vault, at), "mine\n")
	}
	for at, to := range map[string]string{
		"link": "../other", "inlink": "real", "chain": "link", "gitlink": ".git", "abs": filepath.Join(top, "secret"), "rel": "../secret", "loop": "loop", "dangling": "../nowhere",
		"sub/up": "../..", "sub/deep/link": "../../../other", "procroot": "/proc/self/root", "self": "/proc/self/environ",
	} {
		if err := os.Symlink(to, filepath.Join(vault, at)); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{os.Link(filepath.Join(top, "secret"), filepath.Join(vault, "hard.md")), syscall.Mkfifo(filepath.Join(vault, "pipe"), 0o600), syscall.Mknod(filepath.Join(vault, "socket"), syscall.S_IFSOCK|0o600, 0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return vault
}

func put(t testing.TB, full, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Everything is what is below a folder: but for what is new below inside and neither git's nor a link's.
func Everything(t testing.TB, dir, inside string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body := e.Type().String()
		if e.Type().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if body = string(b); body == "EVIL" && inside != "" && strings.HasPrefix(p, inside+"/") && !strings.Contains(p, "/.git/") {
				return nil
			}
		}
		all[p] = body
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
