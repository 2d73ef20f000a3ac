package extension

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

const (
	maxInstructions = 32 << 10 // bytes of all levels together
	maxHops         = 4        // how deep files may include other files
)

// instructions reads the level's files with instructions for agents.
func (r *reader) instructions() {
	seen := map[string]bool{}
	var texts []string
	for _, file := range []string{"AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md"} {
		text, err := r.text(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			r.problem(r.level, file, err)
			continue
		}
		if text = strings.TrimSpace(text); text == "" || seen[file] || seen["="+text] {
			continue // another file has included it, or is a link to it
		}
		seen[file], seen["="+text] = true, true
		more := named(r.folder, path.Dir(file), text, seen, maxInstructions)
		texts = append(texts, fmt.Sprintf("# %s (%s)\n\n%s%s", file, r.level, text, more))
	}
	if texts == nil {
		return
	}
	text := strings.Join(texts, "\n\n")
	if room := maxInstructions - r.length; len(text) > room {
		r.problem(r.level, "AGENTS.md or CLAUDE.md", fmt.Errorf("it is cut off: the instructions of all levels together may have at most %d bytes", maxInstructions))
		text = cutAt(text, max(room, 0)) + "\n[cut off]"
	}
	r.length += len(text)
	r.look.instructions = append(r.look.instructions, text)
}

func cutAt(text string, n int) string {
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:min(n, len(text))]
}

// named returns the content of the files that a text includes with @, and of the files that
// those include. Paths are relative to dir. A name that is not a file in the folder is left as
// text. Each file is included once, and all of them have at most limit bytes.
func named(folder fs.FS, dir, text string, seen map[string]bool, limit int) string {
	var out strings.Builder
	type from struct {
		dir, text string
		hops      int
	}
	for todo := []from{{dir, text, 0}}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		if at.hops == maxHops {
			continue
		}
		for _, p := range mentions(at.text) {
			p = path.Join(at.dir, p)
			if seen[p] {
				continue
			}
			text, err := readText(folder, p, maxFile)
			if text = strings.TrimSpace(text); err != nil || text == "" || out.Len()+len(text) > limit {
				continue
			}
			seen[p], seen["="+text] = true, true
			fmt.Fprintf(&out, "\n\n# %s\n\n%s", p, text)
			todo = append(todo, from{path.Dir(p), text, at.hops + 1})
		}
	}
	return out.String()
}

// mentions returns the relative paths that follow an @ outside of code.
func mentions(text string) (list []string) {
	fence := ""
	for line := range strings.Lines(text) {
		mark := strings.TrimSpace(line)
		if len(mark) >= 3 && (mark[:3] == "```" || mark[:3] == "~~~") {
			switch fence {
			case "":
				fence = mark[:3]
			case mark[:3]:
				fence = ""
			}
			continue
		}
		if fence != "" {
			continue
		}
		for i, piece := range strings.Split(line, "`") {
			if i%2 == 1 {
				continue // code
			}
			for _, word := range strings.Fields(piece) {
				p, ok := strings.CutPrefix(word, "@")
				p = strings.TrimRight(p, ".,;:)!?")
				if p = strings.TrimPrefix(p, "./"); ok && p != "" && !path.IsAbs(p) && !strings.HasPrefix(p, "~") {
					list = append(list, p)
				}
			}
		}
	}
	return list
}
