package chat

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/parley-server/parley"
)

// shortDiff is how many lines of changes are shown without being asked for.
const shortDiff = 12

func ansiCut(s string, from, to int) string { return ansi.Cut(s, from, to) }

func diffLines(files []parley.FileSaved) int {
	n := 0
	for _, f := range files {
		if f.Diff == "" {
			return shortDiff + 1 // there is nothing to show
		}
		n += f.Added + f.Removed
	}
	return n
}

// saved draws changes of files that belong to no call that is shown.
func (d drawing) saved(it *item, open bool) []string {
	in := strings.Repeat("  ", it.agent.Depth())
	var out []string
	for _, f := range it.files {
		out = append(out, in+d.good.of(d.ok)+" "+d.changed(f, d.width-len(in)-2))
		if open {
			out = append(out, d.diff(f, in+"  "+d.bar.of(d.look.signs.bar)+" ", d.width-len(in)-4)...)
		}
	}
	return out
}

// changed is a line about a change of a file.
func (d drawing) changed(f parley.FileSaved, w int) string {
	verb := "changed"
	switch {
	case f.Before == "":
		verb = "created"
	case f.After == "":
		verb = "deleted"
	}
	line := verb + " " + oneLine(f.Path)
	if f.Added+f.Removed > 0 {
		line += fmt.Sprintf(" +%d −%d", f.Added, f.Removed)
	}
	return cut(line, w)
}

// diff draws a unified diff: the lines with their numbers, and nothing of its notation but the
// signs.
func (d drawing) diff(f parley.FileSaved, in string, w int) []string {
	out := []string{in + d.faint.of(d.changed(f, w))}
	if f.Diff == "" {
		return out
	}
	before, after := 0, 0
	lines := diffOf(f.Diff)
	last := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "@@") {
			b, a := starts(line)
			last = max(last, a, b)
		}
		last++
	}
	wide := len(fmt.Sprint(last))
	hunks := 0
	for _, line := range lines {
		if len(out) > mostOutput {
			return append(out, in+d.faint.of("…"))
		}
		if strings.HasPrefix(line, "@@") {
			before, after = starts(line)
			if hunks++; hunks > 1 {
				out = append(out, in+d.faint.of(strings.Repeat(" ", wide)+" …"))
			}
			continue
		}
		sign, text, p, n := " ", line, d.soft, after
		switch {
		case strings.HasPrefix(line, "+"):
			sign, text, p = "+", line[1:], d.added
			after++
		case strings.HasPrefix(line, "-"):
			sign, text, p, n = "-", line[1:], d.removed, before
			before++
		case strings.HasPrefix(line, "\\"):
			continue
		default:
			text = strings.TrimPrefix(line, " ")
			before, after = before+1, after+1
		}
		number := cut(fmt.Sprintf("%*d ", wide, n), wide+1)
		for i, piece := range wrap(tidy(text), w-wide-3) {
			if i > 0 {
				number, sign = strings.Repeat(" ", wide+1), " "
			}
			out = append(out, in+d.faint.of(number)+p.of(sign+" "+piece))
		}
	}
	return out
}

// diffOf are the lines of a unified diff, without the names of the files.
func diffOf(text string) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "@@") {
			return lines[i:]
		}
	}
	return lines
}

// starts are the first lines of a hunk, before and after.
func starts(line string) (before, after int) {
	var n int
	if _, err := fmt.Sscanf(line, "@@ -%d,%d +%d", &before, &n, &after); err != nil {
		if _, err = fmt.Sscanf(line, "@@ -%d +%d", &before, &after); err != nil {
			_, _ = fmt.Sscanf(line, "@@ -%d", &before)
			after = before
		}
	}
	return before, after
}

// cutDiff splits a text whose end is a difference: after an empty line, or from the beginning, nothing but lines
// that are added, removed or around those.
func cutDiff(text string) (before, diff string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	from, changes := len(lines), 0
	for from > 0 && lines[from-1] != "" && strings.ContainsRune("+- @\\", rune(lines[from-1][0])) {
		if from--; lines[from][0] == '+' || lines[from][0] == '-' {
			changes++
		}
	}
	if changes == 0 || from > 0 && lines[from-1] != "" {
		return text, ""
	}
	return strings.Join(lines[:from], "\n"), strings.Join(lines[from:], "\n")
}
