package notebook

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	aTime   = pattern.New(`(?i)^(?:when|what (?:day|date|time)|until when|by when|how long)\b`)
	amounts = pattern.New(`(?i)^(?:how (?:much|many|long|far|big|thick|hot|old|often|fast|large|high)|what (?:price|cost|budget|amount))\b|\bcosts?\b|\bprice\b|\bcheap|\bexpensive\b`)
	dateish = pattern.New(`(?i)\d{1,2}\.? (?:january|february|march|april|may|june|july|august|september|october|november|december)|\d{4}-\d\d-\d\d|\d{1,2}:\d\d|monday|tuesday|wednesday|thursday|friday|saturday|sunday`)
	howMany = pattern.New(`(?i)\bhow many (\w+)`)
	digit   = pattern.New(`\d`)
	nextNow = pattern.New(`(?i)\b(?:at the moment|currently|now|right now|present)\b`)
)

// passage is a line of a note, with what stands around it.
type passage struct {
	file, heading, text string
	line                int
	score               float64
	has                 map[string]bool
}

// question looks in the notes for what a question is about.
func (u *turn) question(r request) (string, bool) {
	q := r.tidy
	if say, ok := u.ofTable(q); !ok || say != "" {
		return say, ok
	}
	words := topics(q)
	if m := howMany.FindStringSubmatch(q); m != nil && !slices.Contains(words, strings.ToLower(m[1])) {
		words = append(words, strings.ToLower(m[1]))
	}
	refers := pattern.New(`(?i)\b(?:it|them|him|her|that|there|they|this)\b`).MatchString(q)
	context := []string{}
	if refers || len(words) < 2 {
		context = u.mentioned()
		context = context[:min(len(context), 3)]
	}
	if len(words) == 0 && len(context) == 0 {
		return "I did not understand that. " + offer, true
	}
	u.note = "I look in your notes."
	files, ok := u.relevant(words, context)
	if !ok {
		return "", false
	}
	nothing := func() (string, bool) {
		if len(words) == 0 || !asking.MatchString(q) && len(words) < 2 && len(u.Earlier) == 0 {
			return "I did not understand that. " + offer, true
		}
		return fmt.Sprintf("I found nothing about that in your notes (I looked for: %s). I can search the web: say look up on the web …", strings.Join(words, ", ")), true
	}
	if len(files) == 0 {
		return nothing()
	}
	list, ok := u.read(files...)
	if !ok {
		return "", false
	}
	found := passages(list, words, context, q)
	if len(found) == 0 {
		return nothing()
	}
	best := found[0].score
	var out []string
	for _, p := range found {
		if p.score < best*0.75 || len(p.has) < len(found[0].has) || len(out) == 3 {
			break
		}
		where := "`" + p.file + "`"
		if p.heading != "" && !strings.EqualFold(p.heading, base(p.file)) {
			where += ", " + p.heading
		}
		out = append(out, fmt.Sprintf("%s\n%s", where, quote(p.text)))
	}
	say := "Your notes have this:"
	if len(found[0].has) < len(words) && len(words) > 1 {
		var lacks []string
		for _, w := range words {
			if !found[0].has[w] {
				lacks = append(lacks, w)
			}
		}
		say = fmt.Sprintf("I found no line about all of that (%s is missing). The nearest is this:", strings.Join(lacks, ", "))
		if len(found[0].has)*2 < len(words) {
			return nothing()
		}
	}
	return say + "\n\n" + strings.Join(out, "\n\n"), true
}

// variants are the words that may stand for a word.
func variants(w string) []string {
	list := []string{stem(w)}
	for _, k := range kin[stem(w)] {
		list = append(list, stem(k))
	}
	if more, ok := kin[w]; ok {
		for _, k := range more {
			list = append(list, stem(k))
		}
	}
	return list
}

// relevant are the files that a question may be about, the best first.
func (u *turn) relevant(words, context []string) (files []string, ok bool) {
	var calls []Call
	for _, w := range words[:min(len(words), 6)] {
		var alt []string
		for _, v := range variants(w) {
			alt = append(alt, `\b`+escaped(v))
		}
		calls = append(calls, Call{Tool: "Grep", Input: map[string]any{"pattern": strings.Join(alt, "|"), "-i": true, "glob": "*.{md,csv}", "output_mode": "count", "head_limit": 400}})
	}
	calls = append(calls, glob("**/*"))
	found, ok := u.do(calls...)
	if !ok {
		return nil, false
	}
	n := listing(found[len(found)-1])
	if u.names == nil {
		u.names = &n
	}
	score := map[string]float64{}
	for i, w := range words[:min(len(words), 6)] {
		in := countedIn(found[i])
		weight := 1 + math.Log(1+300/float64(1+len(in))) // rare words say more
		for f := range in {
			score[f] += weight
		}
		for _, f := range n.list {
			if ends(f, ".md", ".csv", ".pdf") && (has(wordsOf(base(f)), w) || slices.ContainsFunc(variants(w), func(v string) bool { return has(wordsOf(base(f)), v) })) {
				score[f] += 1.2 * weight
			}
			if ends(f, ".md", ".csv") && has(wordsOf(folder(f)), w) {
				score[f] += 0.4 * weight
			}
		}
	}
	for _, f := range context {
		if ends(f, ".md", ".csv") && slices.Contains(n.list, f) {
			score[f] += 3
		}
	}
	for f := range score {
		if strings.HasPrefix(f, "linkedin/") {
			score[f] /= 3
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(score[b], score[a]), strings.Compare(a, b)) })
	return files[:min(len(files), 8)], true
}

var countLine = pattern.New(`^(.+\.[A-Za-z0-9]{1,5}):(\d+)$`)

// countedIn are the files that a Grep found something in.
func countedIn(r Result) map[string]bool {
	in := map[string]bool{}
	for line := range strings.SplitSeq(r.Output, "\n") {
		if m := countLine.FindStringSubmatch(line); m != nil && !r.Failed {
			in[m[1]] = true
		}
	}
	return in
}

// passages are the lines of texts that answer a question, the best first.
func passages(texts []text, words, context []string, q string) (found []passage) {
	rare := map[string]float64{}
	for _, w := range words {
		n := 0
		for _, t := range texts {
			for _, l := range t.lines {
				if mentions(l, w) {
					n++
				}
			}
		}
		rare[w] = 1 + math.Log(1+30/float64(1+n))
	}
	for _, t := range texts {
		if t.wrong != "" {
			continue
		}
		for _, p := range t.passages() {
			p.has = map[string]bool{}
			direct := 0
			for _, w := range words {
				switch {
				case mentions(p.text, w):
					p.score += 2 * rare[w]
					p.has[w] = true
					direct++
				case amounts.MatchString(q) && digit.MatchString(p.text) && slices.Contains([]string{"cost", "price", "pay", "paid", "much", "cheap", "cheapest"}, w): // a figure may be it
					p.has[w] = true
				case mentions(base(p.file), w): // the whole note is about it
					p.score += 2.1 * rare[w]
					p.has[w] = true
				case mentions(p.heading, w):
					p.score += 1.3 * rare[w]
					p.has[w] = true
				}
			}
			if len(p.has) == 0 && !slices.Contains(context, p.file) || direct == 0 && len(words) > 0 && !slices.Contains(context, p.file) && len(p.has) < len(words) {
				continue
			}
			if slices.Contains(context, p.file) {
				p.score += 2.2
			}
			if aTime.MatchString(q) && dateish.MatchString(p.text) || amounts.MatchString(q) && digit.MatchString(p.text) {
				p.score += 1.8
			}
			if m := howMany.FindStringSubmatch(q); m != nil && pattern.New(`(?i)\d+ (?:\w+ )?`+escaped(stem(m[1]))).MatchString(p.text) {
				p.score += 4
			}
			if nextNow.MatchString(q) && strings.EqualFold(p.heading, "now") {
				p.score += 6
			}
			if strings.HasPrefix(p.file, "linkedin/") {
				p.score /= 2
			}
			p.score += 1 / float64(2+len(p.text)/60) // short ones say it better
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b passage) int {
		return cmp.Or(cmp.Compare(len(b.has), len(a.has)), cmp.Compare(b.score, a.score))
	})
	return found
}

// mentions reports whether a text has a word, or one that stands for it.
func mentions(line, w string) bool {
	own := wordsOf(line)
	return slices.ContainsFunc(variants(w), func(v string) bool {
		return slices.ContainsFunc(own, func(o string) bool { return stem(o) == v || len(v) > 4 && strings.HasPrefix(o, v) })
	})
}

// passages are the lines of a text that say something, each with its heading. A row of a table has
// the names of its columns, and front matter its keys.
func (t text) passages() (list []passage) {
	heading := ""
	var columns []string
	csv := ends(t.file, ".csv")
	front := len(t.lines) > 0 && t.lines[0] == "---"
	for i, l := range t.lines {
		add := func(text string) {
			if text = strings.TrimSpace(text); text != "" {
				list = append(list, passage{file: t.file, heading: heading, text: text, line: i})
			}
		}
		m := head.FindStringSubmatch(l)
		switch {
		case front:
			if front = i == 0 || l != "---"; i > 0 && front && !strings.HasPrefix(l, "tags:") {
				add(l)
			} else if i > 0 && front {
				add("tags: " + strings.Trim(strings.TrimPrefix(l, "tags:"), " []"))
			}
		case m != nil:
			heading, columns = m[2], nil
		case csv && i == 0:
			columns = strings.Split(l, ",")
		case csv:
			add(row(columns, strings.Split(l, ",")))
		case divider.MatchString(l):
		case strings.HasPrefix(strings.TrimSpace(l), "|"):
			cells := strings.Split(strings.Trim(strings.TrimSpace(l), "|"), "|")
			if columns == nil {
				columns = cells
				continue
			}
			add(row(columns, cells))
		default:
			columns = nil
			text := unmarked(l)
			if len(text) > 260 { // a sentence at a time
				for text != "" {
					s := sentences(text, 1)
					add(s)
					text = strings.TrimSpace(strings.TrimPrefix(text, s))
				}
				continue
			}
			add(text)
		}
	}
	return list
}

// row is a row of a table in words.
func row(columns, cells []string) string {
	var out []string
	for i, c := range cells {
		c = unmarked(c)
		if c == "" {
			continue
		}
		if i < len(columns) && strings.TrimSpace(columns[i]) != "" {
			c = strings.TrimSpace(columns[i]) + ": " + c
		}
		out = append(out, c)
	}
	return strings.Join(out, " · ")
}
