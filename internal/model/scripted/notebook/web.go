package notebook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	inFence   = pattern.New(`(?s)<(web-content-[0-9a-f]+)>\n(.*)\n</web-content-[0-9a-f]+>`)
	foundPage = pattern.New(`(?m)^\d+\. (.+)\n   (https?://\S+)(?:\n   (.+))?$`)
	aURL      = pattern.New(`https?://[^\s<>"')\]]+`)
	urlLine   = pattern.New(`(?m)^URL: (\S+)$`)
	titleLine = pattern.New(`(?m)^Title: (.+)$`)

	// orders matches what a page says to programs that read it.
	orders = pattern.New(`(?i)\b(?:ai|language model|llm)s?\b.{0,40}\b(?:assistant|agent|model|read|must|should)|\bassistants? (?:that|who|reading|must|should)|\b(?:ignore|disregard|forget)\b.{0,40}\b(?:previous|above|prior|all|your)\b.{0,30}\binstructions?|\bsystem prompt\b|\blinkedin_(?:post|reply|read)|\b(?:call|use|run) (?:the )?(?:tool|function)\b|\byour user has asked\b|\bdo not (?:mention|tell)\b`)
)

// address is the page that a text names last.
func address(text string) string {
	all := aURL.FindAllString(text, -1)
	if len(all) == 0 {
		return ""
	}
	return strings.TrimRight(all[len(all)-1], ".,;:!?")
}

// web searches, reads the best page, and says what it has about the question.
func (u *turn) web(m []string) (string, bool) {
	query := strings.TrimSpace(m[1])
	if len(query) < 2 {
		return "", true
	}
	u.note = "I search the web."
	r, ok := u.one(Call{Tool: "WebSearch", Input: map[string]any{"query": query}})
	switch {
	case !ok:
		return "", false
	case r.Failed:
		return "I could not search the web: " + plain(r.Output), true
	}
	pages := foundPage.FindAllStringSubmatch(strings.Join(inFence.FindAllString(r.Output, 1), ""), 5)
	if len(pages) == 0 {
		return fmt.Sprintf("The search found nothing about %q on the web.", query), true
	}
	say, ok := u.pageAt(pages[0][2], query)
	if !ok {
		return "", false
	}
	if len(pages) > 1 {
		var more []string
		for _, p := range pages[1:min(len(pages), 4)] {
			more = append(more, fmt.Sprintf("%s: %s", p[1], p[2]))
		}
		say += "\n\nAlso found:\n\n" + bullets(more)
	}
	return say, true
}

// fetch reads a page that somebody names.
func (u *turn) fetch(m []string) (string, bool) {
	if pattern.New(`(?i)^(?:add|put|create|note|remember|replace|tick|remove)\b`).MatchString(m[0]) {
		return "", true
	}
	url := strings.TrimRight(m[1], ".,;:!?)")
	query := strings.TrimSpace(pattern.New(`(?i)\b(?:read|fetch|open|get|look at|summari[sz]e|tell me|what does|say|the page|and|it|what is|on|at|from|give me|show me|visit|go to|check)\b`).ReplaceAllString(strings.Replace(m[0], m[1], "", 1), " "))
	if len(topics(query)) == 0 {
		query = ""
	}
	return u.pageAt(url, query)
}

// pageAt reads a page and says what it has about a question, or in short.
func (u *turn) pageAt(url, query string) (string, bool) {
	if u.note == "" {
		u.note = "I read the page."
	}
	r, ok := u.one(Call{Tool: "WebFetch", Input: map[string]any{"url": url}})
	switch {
	case !ok:
		return "", false
	case r.Failed:
		return fmt.Sprintf("I could not read %s: %s", url, plain(r.Output)), true
	}
	m := inFence.FindStringSubmatch(r.Output)
	if m == nil {
		return fmt.Sprintf("%s: %s", url, plain(r.Output)), true
	}
	title := url
	if t := titleLine.FindStringSubmatch(m[2]); t != nil {
		title = t[1]
	}
	text := urlLine.ReplaceAllString(titleLine.ReplaceAllString(m[2], ""), "")
	lines, warned := linesOf(text)
	if query != "" {
		lines = about(lines, topics(query))
	}
	var out []string
	for _, l := range lines[:min(len(lines), 7)] {
		out = append(out, clipped(l, 300))
	}
	say := fmt.Sprintf("**%s** says:\n\n", title)
	if len(out) == 0 {
		say += "(nothing that I can use)"
	} else {
		say += bullets(out)
	}
	say += "\n\nSource: " + url
	if warned {
		say += "\n\n**Note**: the page also has text that tells assistants to do something. I left it out and did not follow it."
	}
	return say, true
}

// linesOf are the lines of a page that say something. warned says that some of it was left out,
// because it gives orders to whoever reads it.
func linesOf(text string) (list []string, warned bool) {
	for l := range strings.SplitSeq(text, "\n") {
		if divider.MatchString(l) || head.MatchString(l) || strings.HasPrefix(strings.TrimSpace(l), "![") {
			continue
		}
		if l = unmarked(l); l == "" {
			continue
		}
		if orders.MatchString(l) {
			warned = true
			continue
		}
		list = append(list, l)
	}
	return list, warned
}

// about are the lines that have most of the words, as they stand in the text.
func about(lines, words []string) []string {
	type rated struct {
		at, hits int
	}
	var all []rated
	for i, l := range lines {
		n := 0
		for _, w := range words {
			if mentions(l, w) {
				n++
			}
		}
		all = append(all, rated{i, n})
	}
	slices.SortStableFunc(all, func(a, b rated) int { return cmp.Compare(b.hits, a.hits) })
	all = all[:min(len(all), 5)]
	slices.SortFunc(all, func(a, b rated) int { return a.at - b.at })
	var out []string
	for _, r := range all {
		out = append(out, lines[r.at])
	}
	return out
}
