package librarian

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	itself = pattern.New(`(?i)^(?:it|that|this|the page|this page|that page|the first one|the first|this one|that one|them|the entity|the note|the decision|the attached page|the attachment|the attached entity)$`)
	second = pattern.New(`(?i)^(?:the )?(?:second|other|last)(?: one| page)?$`)
	filler = pattern.New(`(?i)^(?:the |our |my |a |an )?(?:page |note |entity |document |doc |file )?(?:on |about |for |called |named |of )?(?:the )?`)
	ofKind = pattern.New(`(?i)^(?:the |our |my )?(decision|meeting|incident|customer|project|role|person|term|note) (?:notes? )?(?:on|about|for|with|of) (.+)$`)
	behind = pattern.New(`(?i)\s+(?:page|note|entity|document|doc)$`)
)

// which finds the page that a phrase means. If several may be meant, it asks; why then says what was answered instead.
func (u *turn) which(phrase string) (e entity, why string, ok bool) {
	phrase = strings.Trim(strings.TrimSpace(phrase), `"'.,`)
	if itself.MatchString(phrase) || second.MatchString(phrase) || phrase == "" {
		list := u.mentioned()
		at := 0
		if second.MatchString(phrase) {
			at = 1
		}
		if len(list) <= at {
			return e, "I do not know which page you mean. Name it by its title or its path.", true
		}
		return u.readPath(list[at])
	}
	if strings.HasSuffix(phrase, ".md") || strings.Contains(phrase, "/") {
		return u.readPath(strings.Trim(phrase, "`"))
	}
	kind := ""
	if m := ofKind.FindStringSubmatch(phrase); m != nil {
		kind, phrase = kinds[strings.ToLower(m[1])], m[2]
	}
	name := behind.ReplaceAllString(filler.ReplaceAllString(phrase, ""), "")
	if strings.TrimSpace(name) == "" {
		name = phrase
	}
	found, ok := u.one("lake_search", map[string]any{"query": name, "limit": 10})
	if !ok {
		return e, "", false
	}
	list := entities(found.Output)
	if kind != "" {
		list = slices.DeleteFunc(list, func(e entity) bool { return e.kind != kind })
	}
	best, many := closest(list, name)
	switch {
	case best.path != "":
		return u.readPath(best.path)
	case len(many) > 1:
		return u.choose(phrase, many)
	}
	for _, p := range u.Attached {
		if !p.File && folded(p.Title) == folded(name) {
			return u.readPath(p.Path)
		}
	}
	return e, fmt.Sprintf("I found no page that is called %q.", phrase) + nearest(list), true
}

func nearest(list []entity) string {
	if len(list) == 0 {
		return ""
	}
	var names []string
	for _, e := range list[:min(len(list), 3)] {
		names = append(names, fmt.Sprintf("%s (`%s`)", e.title, e.path))
	}
	return " Near to it are " + strings.Join(names, ", ") + "."
}

// closest is the entity with a name, or those that it may be.
func closest(list []entity, name string) (best entity, many []entity) {
	want := strings.Join(wordsOf(name), " ")
	slug := func(e entity) string {
		base := e.path[strings.LastIndexByte(e.path, '/')+1:]
		return strings.Join(wordsOf(strings.TrimSuffix(base, ".md")), " ")
	}
	for _, exact := range []func(e entity) bool{
		func(e entity) bool { return strings.Join(wordsOf(e.title), " ") == want },
		func(e entity) bool { return slug(e) == want },
		func(e entity) bool { return all(wordsOf(e.title+" "+slug(e)), wordsOf(name)) },
	} {
		var fit []entity
		for _, e := range list {
			if exact(e) {
				fit = append(fit, e)
			}
		}
		switch {
		case len(fit) == 1:
			return fit[0], nil
		case len(fit) > 1:
			return entity{}, fit
		}
	}
	if len(list) == 1 && len(wordsOf(name)) <= 2 {
		return list[0], nil
	}
	return entity{}, nil
}

// all reports whether a text has all words.
func all(text, words []string) bool {
	for _, w := range words {
		if !stops[w] && !slices.ContainsFunc(text, func(have string) bool { return matches(have, w) }) {
			return false
		}
	}
	return len(words) > 0
}

func (u *turn) readPath(path string) (e entity, why string, ok bool) {
	r, ok := u.one("lake_read", map[string]any{"path": path})
	if !ok {
		return e, "", false
	}
	if e, ok = readEntity(r); !ok {
		return e, fmt.Sprintf("I could not read `%s`: %s", path, firstLine(r.Output)), true
	}
	return e, "", true
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// choose asks which page is meant.
func (u *turn) choose(phrase string, many []entity) (e entity, why string, ok bool) {
	if !slices.Contains(u.Tools, "AskUserQuestion") {
		var names []string
		for _, e := range many[:min(len(many), 6)] {
			names = append(names, fmt.Sprintf("- %s, `%s`", e.title, e.path))
		}
		return e, fmt.Sprintf("Several pages may be meant by %q. Name one of them:\n%s", phrase, strings.Join(names, "\n")), true
	}
	question := fmt.Sprintf("Which page do you mean by %q?", phrase)
	var options []any
	for _, e := range many[:min(len(many), 4)] {
		label := e.title
		if slices.ContainsFunc(options, func(o any) bool { return o.(map[string]any)["label"] == label }) {
			label = e.path
		}
		options = append(options, map[string]any{"label": label, "description": strings.Trim(e.kind+", "+e.path+", owner "+e.owner, ", ")})
	}
	r, ok := u.one("AskUserQuestion", map[string]any{"questions": []any{map[string]any{"question": question, "header": "Page", "options": options, "multiSelect": false}}})
	if !ok {
		return e, "", false
	}
	said := answerIn(r.Output)
	if r.Failed || said == "" {
		return e, "You did not say which page you mean, so I leave it.", true
	}
	for _, m := range many {
		if folded(said) == folded(m.title) || said == m.path {
			return u.readPath(m.path)
		}
	}
	if strings.HasSuffix(said, ".md") {
		return u.readPath(said)
	}
	return e, fmt.Sprintf("I know no page %q. Name it by its path.", said), true
}

var answered = pattern.New(`answered: ".*?"="(.*?)"(?:[.,;]|$)`)

// answerIn is what a person answered to a question.
func answerIn(output string) string {
	var got struct {
		Answers map[string]string `json:"answers"`
	}
	if json.Unmarshal([]byte(output), &got) != nil {
		if m := answered.FindStringSubmatch(output); m != nil { // the Claude CLI's words
			return m[1]
		}
		return ""
	}
	for _, a := range got.Answers {
		return a
	}
	return ""
}

var (
	aTime   = pattern.New(`(?i)^(?:when|what (?:day|date|time)|until when|by when|since when)\b`)
	amounts = pattern.New(`(?i)\bhow (?:much|many|long|far|big|old|often|high|late|accurate)\b|\bprice\b|\bcosts?\b|\bbudget\b`)
	persons = pattern.New(`(?i)^(?:who|whom|whose)\b`)
	dateish = pattern.New(`\d{4}-\d\d-\d\d|\d{1,2}:\d\d|(?i)\b(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)s?\b`)
	digits  = pattern.New(`\d`)
	naming  = pattern.New(`\p{Lu}\p{Ll}+ \p{Lu}\p{Ll}+`)
	pronoun = pattern.New(`(?i)\b(?:it|its|them|their|him|her|they|that|this|there)\b`)
)

// aboutIt asks what a page, or who is on it, is about.
var aboutIt = pattern.New(`(?i)^(?:what|who|tell|more)\b.*\b(?:it|this|that|he|she|they|him|her|them)\b`)

// passage is a line of a page that may answer a question.
type passage struct {
	path, title, text string
	score             float64
	has               int
	file              bool // it is of a file that its user attached to a message
	over              bool // its page is not in force any more
}

// question looks in the lake for what a question is about. What is attached comes first.
func (u *turn) question(q string) (string, bool) {
	words := topics(q)
	var context []string
	if pronoun.MatchString(q) || len(words) < 2 {
		context = u.mentioned()
		context = context[:min(len(context), 2)]
	}
	if len(words) == 0 {
		if len(context) == 0 || !aboutIt.MatchString(q) {
			return "I did not understand that. " + offer, true
		}
		e, why, ok := u.readPath(context[0])
		if !ok || why != "" {
			return why, ok
		}
		return page(e, 3), true
	}
	if len(u.Attached) > 0 {
		var found []passage
		for _, p := range u.Attached {
			list := passages(entity{path: p.Path, title: p.Title, body: p.Text}, words, q)
			for i := range list {
				list[i].file = p.File
			}
			found = append(found, list...)
		}
		rank(found)
		if len(found) > 0 && (found[0].has*3 >= len(words)*2 || found[0].file && found[0].has*2 >= len(words)) {
			return said(found, words, "What is attached says:"), true
		}
	}
	var calls []Call
	if len(words) > 0 {
		calls = append(calls, Call{Tool: "lake_search", Input: map[string]any{"query": strings.Join(words[:min(len(words), 8)], " "), "limit": 8}})
	}
	if len(words) > 1 { // a page may have other words for some of them
		for _, w := range words[:min(len(words), 5)] {
			calls = append(calls, Call{Tool: "lake_search", Input: map[string]any{"query": stem(w), "limit": 4}})
		}
	}
	hits, ok := u.do(calls...)
	if !ok {
		return "", false
	}
	paths := slices.Clone(context)
	for i, h := range hits {
		for _, e := range entities(h.Output) {
			if e.path != "INDEX.md" && !slices.Contains(paths, e.path) && (len(paths) < 7 || i > 0 && len(paths) < 14) {
				paths = append(paths, e.path)
			}
		}
	}
	if len(paths) == 0 {
		return nothing(words), true
	}
	calls = nil
	for _, p := range paths {
		calls = append(calls, Call{Tool: "lake_read", Input: map[string]any{"path": p}})
	}
	read, ok := u.do(calls...)
	if !ok {
		return "", false
	}
	var found []passage
	var pages []entity
	for i, r := range read {
		if e, ok := readEntity(r); ok {
			pages = append(pages, e)
			list := passages(e, words, q)
			for k := range list {
				list[k].score += 0.3 / float64(1+i)
				if slices.Contains(context, e.path) {
					list[k].score++
				}
			}
			found = append(found, list...)
		}
	}
	if slices.ContainsFunc(found, func(p passage) bool { return !p.over && p.has*3 >= len(words)*2 }) {
		found = slices.DeleteFunc(found, func(p passage) bool { return p.over })
	}
	rank(found)
	if len(found) == 0 || found[0].has*3 < len(words)*2 {
		return about(pages, words), true
	}
	return said(found, words, "The lake says:"), true
}

func nothing(words []string) string {
	return fmt.Sprintf("I found nothing in the lake about that (I looked for: %s). If you find out, I can write it down: say “create a note called …: …”.", strings.Join(words, ", "))
}

func rank(list []passage) {
	slices.SortStableFunc(list, func(a, b passage) int { return cmp.Compare(b.score, a.score) })
}

// said is an answer of the best passages.
func said(found []passage, words []string, head string) string {
	best := found[0]
	var out, seen []string
	for _, p := range found {
		if p.score < best.score*0.8 || p.has < best.has || len(out) == 3 {
			break
		}
		if slices.Contains(seen, p.text) {
			continue
		}
		seen = append(seen, p.text)
		out = append(out, fmt.Sprintf("> %s\n— %s, `%s`", p.text, p.title, p.path))
	}
	if best.has < len(words) && len(words) > 2 {
		head = "I found no line about all of that. Nearest is this:"
	}
	return head + "\n\n" + strings.Join(out, "\n\n")
}

// passages are the lines of a page that have words of a question.
func passages(e entity, words []string, q string) (list []passage) {
	title := wordsOf(e.title + " " + strings.ReplaceAll(e.path, "/", " "))
	inTitle := 0
	for _, w := range words {
		if has(title, w) {
			inTitle++
		}
	}
	for _, l := range lines(e.body) {
		text := wordsOf(l)
		p := passage{path: e.path, title: e.title, text: l}
		inLine := 0
		for _, w := range words {
			line := has(text, w)
			if line {
				inLine++
				p.score++
			}
			if line || has(title, w) {
				p.has++
				p.score += 0.6
			}
		}
		if inLine == 0 && (inTitle < len(words) || inTitle == 0) {
			continue
		}
		switch {
		case aTime.MatchString(q) && dateish.MatchString(l), amounts.MatchString(q) && digits.MatchString(l), persons.MatchString(q) && naming.MatchString(l):
			p.score += 1.5
		}
		if strings.HasPrefix(l, "Before it: ") || strings.Count(l, "?") > 2 { // a way to other pages, or a list of questions
			p.score -= 2
		}
		p.over = e.status == "superseded" || e.status == "archived"
		if len(p.text) > 600 {
			p.text = strings.ToValidUTF8(p.text[:600], "") + " …"
		}
		list = append(list, p)
	}
	return list
}
