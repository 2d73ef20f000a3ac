package notebook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// unfinished matches what a note says about something that is not there yet.
var unfinished = pattern.New(`(?i)\b(?:missing|not yet|unclear|to do|todo)\b|^(?:next|open):`)

// tasks lists open tasks: of all notes, or of those about something.
func (u *turn) tasks(m []string) (string, bool) {
	about := strings.TrimSpace(m[1])
	if itself.MatchString(about) || pattern.New(`(?i)^(?:today|now|me|my notes|this week|all|everything)?$`).MatchString(about) && about != "" {
		about = ""
	}
	u.note = "I look for open tasks."
	if about == "" {
		r, ok := u.one(Call{Tool: "Grep", Input: map[string]any{"pattern": `^\s*[-*+] \[ \] `, "output_mode": "content", "glob": "*.md", "head_limit": 400}})
		if !ok {
			return "", false
		}
		hits := hitsOf(r)
		if len(hits) == 0 {
			return "Your notes have no open tasks: no line that begins with - [ ].", true
		}
		var files []string
		of := map[string][]string{}
		for _, h := range hits {
			if !slices.Contains(files, h.file) {
				files = append(files, h.file)
			}
			of[h.file] = append(of[h.file], strings.TrimPrefix(unmarked(h.text), "☐ "))
		}
		var out []string
		for _, f := range files[:min(len(files), 25)] {
			out = append(out, fmt.Sprintf("`%s`\n%s", f, bullets(of[f][:min(len(of[f]), 15)])))
		}
		return fmt.Sprintf("%s in %s:\n\n%s", capital(counted(len(hits), "open task")), counted(len(files), "note"), strings.Join(out, "\n\n")), true
	}
	words := topics(about)
	all, ok := u.candidates(words)
	if !ok {
		return "", false
	}
	var files []string
	for _, f := range all {
		if ends(f, ".md") && fit(f, words) > 0 {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		files, ok = u.find(about, noteFile)
		if !ok {
			return "", false
		}
	}
	if len(files) == 0 {
		return "", true // it is a question
	}
	slices.SortStableFunc(files, func(a, b string) int {
		return map[bool]int{true: -1, false: 1}[fit(a, words) > fit(b, words)]
	})
	list, ok := u.read(files[:min(len(files), 8)]...)
	if !ok {
		return "", false
	}
	var out []string
	for _, t := range list {
		var open []string
		for _, e := range t.entries() {
			if e.box && !e.done {
				open = append(open, unmarked(e.text))
			}
		}
		for _, p := range t.passages() {
			switch {
			case strings.HasPrefix(p.text, "☐") || strings.HasPrefix(p.text, "☑"):
			case strings.HasSuffix(p.text, ":"):
			case unfinished.MatchString(p.text) && !slices.Contains(open, p.text):
				open = append(open, clipped(p.text, 160))
			case pattern.New(`(?i)^open questions?$`).MatchString(p.heading) && item.MatchString(t.lines[p.line]):
				open = append(open, "question: "+p.text)
			}
		}
		if len(open) > 0 {
			out = append(out, fmt.Sprintf("`%s`\n%s", t.file, bullets(open)))
		}
	}
	if len(out) == 0 {
		return fmt.Sprintf("I found nothing open about %s in %s.", about, enumerated(ticked(files[:min(len(files), 4)]))), true
	}
	return "This is open:\n\n" + strings.Join(out, "\n\n"), true
}
