package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp/syntax"
	"strings"
	"time"
	"unicode/utf8"
)

// ripgrep is the program rg. It only says which files may hold a match: it searches all files, as
// bytes, for texts that every match contains. Our own walk and search then open these files and no
// others. They decide what is ignored, hidden or a link, and what matches. So the result is the same
// with rg and without it, and no output of rg reaches a model directly.
type ripgrep struct{ program string } // "" : there is none

const (
	rgTime   = 10 * time.Second // after which our own search is as good
	rgOutput = 4 << 20          // bytes of names; with more candidates nothing is saved
	rgTexts  = 32               // texts to search for at once
)

// findRipgrep looks for rg in the folders of $PATH. A name that is found relative to the current
// folder does not count.
func findRipgrep() ripgrep {
	at, err := exec.LookPath("rg")
	if err != nil || !path.IsAbs(at) {
		return ripgrep{}
	}
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		return ripgrep{} // see candidates
	}
	return ripgrep{at}
}

// candidates is a set of files, and of the folders above them.
type candidates struct{ files, dirs map[string]bool }

// candidates returns the files below a folder that may hold a match of q. ok is false if rg cannot
// tell, or is not there.
func (p ripgrep) candidates(ctx context.Context, root *os.Root, q query, hidden bool) (c candidates, ok bool) {
	if p.program == "" || root == nil {
		return c, false
	}
	texts, fold, ok := required(q.re.String())
	if !ok {
		return c, false
	}
	// The folder is given by its handle, so that rg searches the folder of our own walk, even if the
	// path is changed meanwhile. This needs the kernel's names for handles.
	dir, err := root.Open(q.from)
	if err != nil {
		return c, false
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	args := []string{
		"--no-config", "--no-ignore", "--no-messages", "--color=never", "--files-with-matches", "--null", "--fixed-strings", "--text", "--encoding=none", "--no-follow",
		"--max-filesize", fmt.Sprint(maxGrepIn), "--glob=!.git",
	}
	if hidden {
		args = append(args, "--hidden")
	}
	if fold {
		args = append(args, "--ignore-case")
	}
	for _, t := range texts {
		args = append(args, "--regexp="+t)
	}
	ctx, cancel := context.WithTimeout(ctx, rgTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.program, append(args, "--", "./")...)
	cmd.Dir = fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	cmd.Env = []string{"LC_ALL=C.UTF-8"} // nothing of ours, and no RIPGREP_CONFIG_PATH
	out := &bounded{most: rgOutput, stop: cancel}
	cmd.Stdout, cmd.WaitDelay = out, time.Second
	err = cmd.Run()
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == 1 && out.Len() == 0 {
		err = nil // nothing was found
	}
	if err != nil || out.full {
		return c, false // also if one file could not be read: our search may find it readable
	}
	c = candidates{map[string]bool{}, map[string]bool{}}
	for name := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		name = path.Join(q.from, strings.TrimPrefix(name, "./"))
		c.files[name] = true
		for d := path.Dir(name); d != "." && !c.dirs[d]; d = path.Dir(d) {
			c.dirs[d] = true
		}
	}
	return c, true
}

// bounded is a buffer that calls stop when it is full.
type bounded struct {
	bytes.Buffer
	most int
	full bool
	stop func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		b.full = true
		b.stop()
		return 0, io.ErrShortWrite
	}
	return b.Buffer.Write(p)
}

// required returns texts for an expression: every match contains at least one of them. fold says
// that the case of their letters does not count. ok is false if no useful ones are known.
func required(expr string) (texts []string, fold, ok bool) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, false, false
	}
	texts = parts(re, &fold)
	if len(texts) == 0 || len(texts) > rgTexts {
		return nil, false, false
	}
	for _, t := range texts {
		// The case of other letters depends on the version of Unicode, which may differ in rg.
		if fold && strings.ContainsFunc(t, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return nil, false, false
		}
	}
	return texts, fold, true
}

// parts is required for a part of an expression. nil: not known.
func parts(re *syntax.Regexp, fold *bool) []string {
	switch re.Op {
	case syntax.OpLiteral:
		text := string(re.Rune)
		// U+FFFD matches bytes that are not UTF-8, and rg matches within a line.
		if len(text) < 2 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) {
			return nil
		}
		if re.Flags&syntax.FoldCase != 0 {
			*fold = true
		}
		return []string{text}
	case syntax.OpCapture, syntax.OpPlus:
		return parts(re.Sub[0], fold)
	case syntax.OpRepeat:
		if re.Min > 0 {
			return parts(re.Sub[0], fold)
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if texts := parts(sub, fold); texts != nil && (best == nil || shortest(texts) > shortest(best)) {
				best = texts
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			texts := parts(sub, fold)
			if texts == nil {
				return nil
			}
			all = append(all, texts...)
		}
		return all
	}
	return nil
}

// shortest is the length of the shortest text: the longer it is, the fewer files have it.
func shortest(texts []string) int {
	n := len(texts[0])
	for _, t := range texts {
		n = min(n, len(t))
	}
	return n
}
