package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Two runs of this program are compared by running the programs of both commits in turns. What
// disturbs the machine for a while then disturbs both.

const (
	// againstRounds is how often each of the two runs. The figures are medians over the rounds.
	againstRounds = 3
	// worse is the change of a figure that is reported. Less is noise, also on a quiet machine.
	worse = 0.05
)

// figure is one line of a table, as far as it can be compared: its ratio to the floor where it has
// one, because that varies less from run to run, and otherwise its value.
type figure struct {
	value float64
	shown string
	more  bool // more is better
}

var figureLine = func() *regexp.Regexp {
	const amount = `-?[0-9][0-9.e+]*(?:/s| ms| s| KB| MB)?`
	return regexp.MustCompile(`^(\S.*?)\s+(?:-|` + amount + `)\s+(` + amount + `)\s+(-|[0-9.]+x)\s+(?:-|[0-9.]+x|` + amount + `)\s*(?:ok|short)?\s*$`)
}()

// figuresOf reads the table that a run has printed. names are in its order.
func figuresOf(table string) (names []string, figures map[string]figure) {
	figures = map[string]figure{}
	for line := range strings.Lines(table) {
		m := figureLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		shown := m[3]
		if shown == "-" {
			shown = m[2]
		}
		number := strings.TrimSuffix(strings.TrimSuffix(strings.Fields(shown)[0], "x"), "/s")
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			continue
		}
		names = append(names, m[1])
		figures[m[1]] = figure{value, shown, strings.HasSuffix(m[2], "/s")}
	}
	return names, figures
}

// compare runs both programs in turns and prints how each figure has changed. run returns the
// table of one run.
func compare(ctx context.Context, w io.Writer, run func(ctx context.Context, then bool) (string, error)) error {
	var order []string
	before, after := map[string][]figure{}, map[string][]figure{}
	for round := range againstRounds {
		for _, then := range []bool{round%2 == 0, round%2 != 0} { // whoever runs second has a warmer machine
			began := time.Now()
			table, err := run(ctx, then)
			if err != nil {
				return err
			}
			names, figures := figuresOf(table)
			into, who := after, "this tree"
			if then {
				into, who = before, "that commit"
			} else if order == nil {
				order = names
			}
			for name, f := range figures {
				into[name] = append(into[name], f)
			}
			fmt.Fprintf(w, "round %d of %d, %s: %d figures in %s\n", round+1, againstRounds, who, len(figures), time.Since(began).Round(time.Second))
		}
	}
	const columns = "%-74s %12s %12s %9s  %s\n"
	fmt.Fprintf(w, columns, "figure: its ratio to the floor, or its value", "then", "now", "change", "")
	fmt.Fprintln(w, strings.Repeat("-", 120))
	count := 0
	for _, name := range order {
		if len(before[name]) == 0 {
			fmt.Fprintf(w, columns, name, "-", middle(after[name]).shown, "new", "")
			continue
		}
		then, now := middle(before[name]), middle(after[name])
		change, verdict := "-", ""
		if then.value > 0 {
			by := now.value/then.value - 1
			change = fmt.Sprintf("%+.0f%%", 100*by)
			if now.more {
				by = -by
			}
			if by > worse {
				verdict = "worse"
				count++
			}
		} else if now.value > then.value {
			change, verdict = "more", "worse"
			count++
		}
		fmt.Fprintf(w, columns, name, then.shown, now.shown, change, verdict)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if len(after[name]) == 0 {
			fmt.Fprintf(w, columns, name, middle(before[name]).shown, "-", "gone", "")
		}
	}
	fmt.Fprintln(w, strings.Repeat("-", 120))
	fmt.Fprintf(w, "%d worse by more than %.0f%%\n", count, 100*worse)
	return nil
}

// middle is the figure of the median round.
func middle(list []figure) figure {
	list = slices.SortedFunc(slices.Values(list), func(a, b figure) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	return list[len(list)/2]
}

// against builds the programs of a commit in a temporary folder, with the pages of this tree, and
// compares them with this program. The part table measures both built programs in the same rounds.
func against(ctx context.Context, w io.Writer, commit string, b *bench, chosen, args []string) (err error) {
	dir, err := os.MkdirTemp("", "parley-bench-against-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	output := func(in, name string, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = in
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(said.String()))
		}
		return out, nil
	}
	top, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	root, tree := strings.TrimSpace(string(top)), filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return err
	}
	packed := filepath.Join(dir, "tree.tar")
	fmt.Fprintln(w, "building", commit)
	steps := [][]string{
		{"git", "-C", root, "archive", "-o", packed, commit},
		{"tar", "-xf", packed},
		{"cp", "-R", filepath.Join(root, "web", "dist"), "web"},
		{"go", "build", "-trimpath", "-ldflags", "-s -w", "-o", "parley.then", "./cmd/parley"},
	}
	others := slices.DeleteFunc(slices.Clone(chosen), func(name string) bool { return name == "table" })
	if len(others) > 0 {
		steps = append(steps, []string{"go", "build", "-trimpath", "-o", "bench.then", "./internal/bench"})
	}
	for _, step := range steps {
		if _, err := output(tree, step[0], step[1:]...); err != nil {
			return err
		}
	}
	this, err := os.Executable()
	if err != nil {
		return err
	}
	programThen := filepath.Join(tree, "parley.then")
	if len(others) < len(chosen) {
		cmd := exec.CommandContext(ctx, this, append(slices.Clone(args), "-only", "table", "-rows", b.rows, "-parley", b.parley, "-then", programThen)...)
		cmd.Stdout, cmd.Stderr = w, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("table: %w", err)
		}
	}
	if len(others) == 0 {
		return nil
	}
	args = append(slices.Clone(args), "-only", strings.Join(others, ","))
	return compare(ctx, w, func(ctx context.Context, then bool) (string, error) {
		program, its := this, b.parley
		if then {
			program, its = filepath.Join(tree, "bench.then"), programThen
		}
		out, err := output("", program, append(slices.Clone(args), "-parley", its)...)
		return string(out), err
	})
}
