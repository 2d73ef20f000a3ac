package librarian

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// about says that no line answers a question, and which pages have a word of it in their title: the beginning of the one
// with most, and of these the one with the shortest title, if that is half of the words; or else their names.
func about(pages []entity, words []string) string {
	type page struct {
		entity
		has, of int // so many words of the title's
	}
	var near []page
	for _, e := range pages {
		title := wordsOf(e.title)
		p := page{entity: e, of: len(title)}
		for _, w := range words {
			if slices.ContainsFunc(title, func(have string) bool { return matches(have, w) }) {
				p.has++
			}
		}
		if p.has > 0 {
			near = append(near, p)
		}
	}
	if len(near) == 0 {
		return nothing(words)
	}
	slices.SortStableFunc(near, func(a, b page) int { return cmp.Or(cmp.Compare(b.has, a.has), cmp.Compare(a.of, b.of)) })
	best := near[0]
	text := lines(best.body)
	if best.has*2 >= len(words) && len(text) > 0 {
		return fmt.Sprintf("I found no line that answers that. This page is about it:\n\n> %s\n— %s, `%s`", strings.Join(text[:min(len(text), 2)], "\n>\n> "), best.title, best.path)
	}
	var names []string
	for _, p := range near[:min(len(near), 3)] {
		names = append(names, fmt.Sprintf("%s (`%s`)", p.title, p.path))
	}
	return fmt.Sprintf("I found no line that answers that (I looked for: %s). Perhaps one of these pages does: %s.", strings.Join(words, ", "), strings.Join(names, ", "))
}

var fileMeant = pattern.New(`(?i)^(?:the |my |this |that )?(?:attached |uploaded )?(?:file|document|attachment|pdf|picture|image|photo|screenshot)$|^(?:what is |what's )?(?:attached|in (?:it|this|here))$`)

// showFile shows what is there of the file that its user attached last.
func (u *turn) showFile(phrase, q string) (say string, mine bool) {
	i := slices.IndexFunc(u.Attached, func(p Page) bool { return p.File })
	if i < 0 || !fileMeant.MatchString(phrase) && !strings.EqualFold(strings.Trim(phrase, "`"), u.Attached[i].Path) {
		return "", false
	}
	f := u.Attached[i]
	text := lines(f.Text)
	if len(text) == 0 {
		return fmt.Sprintf("I cannot read your file `%s`: there is no text of it here, and I am a script that sees no pictures.", f.Path), true
	}
	if strings.HasPrefix(strings.ToLower(q), "summar") {
		text = text[:min(len(text), 3)]
	}
	return fmt.Sprintf("Your file `%s` says:\n\n> %s", f.Path, strings.Join(text[:min(len(text), 40)], "\n>\n> ")), true
}
