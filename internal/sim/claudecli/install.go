package claudecli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// script names the file with the plays, for the program that [Install] makes.
const script = "PARLEY_SIM_CLAUDE"

// Install makes an executable in a folder that is this program with [Main] as its first call: a test
// binary. Its n-th start does the n-th of the plays, and later ones the last. Every file that it
// writes about itself is in the folder.
func Install(dir string, plays ...Play) (path string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(plays)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "plays.json"), raw, 0o600); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "claude")
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	text := fmt.Sprintf("#!/bin/sh\n%s=%s exec %s \"$@\"\n", script, quoted(dir), quoted(self))
	return path, os.WriteFile(path, []byte(text), 0o700)
}

// Main is the program that [Install] has made, and does not return if that is what this process is.
func Main() {
	dir := os.Getenv(script)
	if dir == "" {
		return
	}
	os.Exit(main(dir))
}

func main(dir string) int {
	_ = os.Unsetenv(script) // what it starts is something else
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		return Run(Options{Args: os.Args[1:], Out: os.Stdout})
	}
	raw, err := os.ReadFile(filepath.Join(dir, "plays.json"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	var plays []Play
	if err := json.Unmarshal(raw, &plays); err != nil || len(plays) == 0 {
		fmt.Fprintln(os.Stderr, "plays.json:", err)
		return 3
	}
	n, err := start(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	go func() {
		if <-stop == os.Interrupt {
			os.Exit(0)
		}
		os.Exit(143)
	}()
	work, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return Run(Options{
		Args: os.Args[1:], Env: environment(), Dir: work, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Play: plays[min(n, len(plays)-1)],
		Note: func(file, line string) {
			f, err := os.OpenFile(filepath.Join(dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return
			}
			_, _ = fmt.Fprintln(f, line)
			_ = f.Close()
		},
		Kill: func() {
			if p, err := os.FindProcess(os.Getpid()); err == nil {
				_ = p.Kill()
			}
			select {}
		},
	})
}

// start counts this start, from 0.
func start(dir string) (int, error) {
	for n := 0; ; n++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("start-%d", n)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		return n, f.Close()
	}
}
