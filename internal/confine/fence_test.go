//go:build linux && (amd64 || arm64)

package confine_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/confine"
	"github.com/parley-server/parley/internal/proc"
)

// TestFence: a program inside a fence does its work there, and reaches nothing else by any name.
func TestFence(t *testing.T) {
	t.Parallel()
	if !confine.CanFence() {
		if os.Getenv("CI") != "" {
			t.Fatal("this kernel has no Landlock")
		}
		t.Skip("this kernel has no Landlock")
	}
	dir := t.TempDir()
	own, other, tool := filepath.Join(dir, "own"), filepath.Join(dir, "other"), filepath.Join(dir, "tool")
	for _, d := range []string{own, other, tool} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "file"), []byte("content of "+filepath.Base(d)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(own, "link")); err != nil {
		t.Fatal(err)
	}
	var ports []int
	for range 2 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:errcheck // nothing was written
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	f := confine.Fence{Read: []string{tool}, Write: []string{own}, Ports: ports[:1]}
	for script, want := range map[string]string{
		"read line; echo got $line":                               "got input",
		"pwd; echo $NAME":                                         own + "\nvalue",
		"cat file; cat ../tool/file":                              "content of owncontent of tool",
		"echo x > new; mkdir d; mv new d/new; cat d/new; rm -r d": "x",
		"exit 7": "exit status 7",
		"exec 3<> /dev/tcp/127.0.0.1/" + fmt.Sprint(ports[0]) + " && echo in": "in",
		"cat ../other/file":                                   "denied",
		"cat link/file":                                       "denied",
		"echo x > link/new":                                   "denied",
		"echo x > ../tool/new":                                "denied",
		"ln -s " + other + " l2; cat l2/file":                 "denied",
		"ln ../other/file hard":                               "denied",
		"cat /proc/" + fmt.Sprint(os.Getpid()) + "/environ":   "denied",
		"ls /root /home /var":                                 "denied",
		"cat /etc/shadow":                                     "denied",
		"kill -0 " + fmt.Sprint(os.Getpid()):                  "denied",
		"(setsid sh -c 'cat ../other/file')":                  "denied",
		"exec 3<> /dev/tcp/127.0.0.1/" + fmt.Sprint(ports[1]): "denied",
	} {
		args, err := f.Around([]string{"/bin/bash", "-c", script})
		if err != nil {
			t.Fatal(err)
		}
		var out, said bytes.Buffer
		p, err := proc.Start(t.Context(), proc.Spec{
			Args: args, Dir: own, Env: []string{"PATH=/usr/bin:/bin", "NAME=value"}, Stdin: strings.NewReader("input\n"), Stdout: &out, Stderr: &said,
		})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Wait()
		got := strings.TrimSpace(out.String())
		switch lower := strings.ToLower(said.String()); {
		case err != nil && (strings.Contains(lower, "denied") || strings.Contains(lower, "not permitted") || strings.Contains(lower, "cross-device")) && got == "":
			got = "denied"
		case err != nil:
			got = got + err.Error() + said.String()
		}
		if got != want {
			t.Errorf("%s\ngot  %q\nwant %q", script, got, want)
		}
	}
	if list, err := os.ReadDir(other); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
}
