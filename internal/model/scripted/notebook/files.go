package notebook

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/parley-server/parley/internal/pattern"
)

// names are those of the files.
type names struct {
	list []string // those that changed last first
	all  bool     // list is complete
	more int      // how many it lacks
}

func glob(pattern string) Call {
	return Call{Tool: "Glob", Input: map[string]any{"pattern": pattern}}
}

var globMore = pattern.New(`(?m)^\((\d+) more; .*\)$`)

// listing reads the result of a Glob.
func listing(r Result) (n names) {
	n.all = true
	if r.Failed || strings.HasPrefix(r.Output, "No file has such a name") {
		return n
	}
	for line := range strings.SplitSeq(r.Output, "\n") {
		if m := globMore.FindStringSubmatch(line); m != nil {
			n.all = false
			n.more, _ = strconv.Atoi(m[1])
			continue
		}
		if line != "" {
			n.list = append(n.list, line)
		}
	}
	return n
}

// files returns the names of the files, or of the newest if there are many.
func (u *turn) files() (names, bool) {
	if u.names == nil {
		r, ok := u.one(glob("**/*"))
		if !ok {
			return names{}, false
		}
		n := listing(r)
		u.names = &n
	}
	return *u.names, true
}

// candidates returns the names of files that have one of the words in their name or folder.
func (u *turn) candidates(words []string) ([]string, bool) {
	n, ok := u.files()
	if !ok {
		return nil, false
	}
	if n.all || len(words) == 0 {
		return n.list, true
	}
	var calls []Call
	for _, w := range words[:min(len(words), 4)] {
		calls = append(calls, glob("**/*"+folded(stem(w))+"*"), glob("**/*"+folded(stem(w))+"*/**"))
	}
	found, ok := u.do(calls...)
	if !ok {
		return nil, false
	}
	list := slices.Clone(n.list)
	for _, r := range found {
		for _, name := range listing(r).list {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list, true
}

// folded is a part of a pattern that matches a word in upper and lower case.
func folded(word string) string {
	var b strings.Builder
	for _, r := range word {
		switch up, low := unicode.ToUpper(r), unicode.ToLower(r); {
		case up != low:
			b.WriteString("[" + string(low) + string(up) + "]")
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

// base is the name of a file without folder and ending.
func base(file string) string {
	file = file[strings.LastIndexByte(file, '/')+1:]
	if i := strings.LastIndexByte(file, '.'); i > 0 {
		file = file[:i]
	}
	return file
}

func folder(file string) string {
	if i := strings.LastIndexByte(file, '/'); i >= 0 {
		return file[:i]
	}
	return ""
}

func ends(file string, with ...string) bool {
	return slices.ContainsFunc(with, func(e string) bool { return strings.HasSuffix(strings.ToLower(file), e) })
}

// filler are words around the name of a note.
var filler = pattern.New(`(?i)\b(?:the|my|our|a|an|note|notes|file|files|page|document|called|named|titled|about|on|of|for|that|this|current|latest|entry|all|entries)\b|\.md\b`)

// fit says how well a file's name fits words; 0: not at all.
func fit(file string, words []string) (score float64) {
	own, around := nameWords(base(file)), nameWords(folder(file))
	hit := 0
	for _, w := range words {
		switch {
		case has(own, w):
			score += 3
			hit++
		case has(around, w):
			score++
			hit++
		}
	}
	if hit == 0 || hit*2 < len(words) {
		return 0
	}
	score *= float64(hit) / float64(len(words))
	score += 2 * float64(hit) / float64(max(len(own), hit)) // names without other words are better
	if ends(file, ".md") {
		score += 0.3
	}
	return score
}

// nameWords are the words of a name, in which hyphens and the like separate them.
func nameWords(s string) []string {
	return wordsOf(strings.NewReplacer("-", " ", "_", " ", ".", " ").Replace(s))
}

// has reports whether a word is among others, but for its ending.
func has(list []string, w string) bool {
	return slices.ContainsFunc(list, func(o string) bool { return stem(o) == stem(w) })
}

var (
	ordinal = pattern.New(`(?i)^(?:the )?(first|second|third|fourth|fifth|last)(?: (?:one|note|file|comment))?$`)
	itself  = pattern.New(`(?i)^(?:it|that|this|them|there|the same(?: note| list)?|that (?:note|list|file)|this (?:note|list|file)|the (?:note|list|file)|same (?:note|list))$`)
	count   = map[string]int{"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4}
)

// find finds the files that somebody means, the best first. Those that follow fit equally well.
func (u *turn) find(said string, may func(file string) bool) (files []string, ok bool) {
	said = strings.Trim(strings.TrimSpace(said), "`\".,!?")
	if m := ordinal.FindStringSubmatch(said); m != nil {
		list := slices.DeleteFunc(u.mentioned(), func(f string) bool { return !may(f) })
		at, known := count[strings.ToLower(m[1])]
		if !known {
			at = len(list) - 1
		}
		if at >= 0 && at < len(list) {
			return list[at : at+1], true
		}
		return nil, true
	}
	if itself.MatchString(said) {
		for _, f := range u.mentioned() {
			if may(f) {
				return []string{f}, true
			}
		}
		return nil, true
	}
	named := said
	if pdfEnding.MatchString(said) { // "the heating-inspection.pdf" is about heating and inspection
		named = strings.NewReplacer("-", " ", "_", " ").Replace(pdfEnding.ReplaceAllString(said, ""))
	}
	words := wordsOf(filler.ReplaceAllString(strings.TrimSuffix(named, "'s"), " "))
	if len(words) == 0 {
		words = wordsOf(said)
	}
	list, ok := u.candidates(words)
	if !ok {
		return nil, false
	}
	list = slices.DeleteFunc(slices.Clone(list), func(f string) bool { return !may(f) })
	for _, f := range list {
		if strings.EqualFold(f, said) || strings.EqualFold(f, said+".md") {
			return []string{f}, true
		}
	}
	if day, is := u.day(said); is {
		for _, f := range list {
			if strings.HasPrefix(base(f), day) {
				files = append(files, f)
			}
		}
		if len(files) > 0 {
			return files[:1], true
		}
	}
	type rated struct {
		file  string
		score float64
	}
	rate := func(words []string) (all []rated) {
		for _, f := range list {
			if s := fit(f, words); s > 0 {
				all = append(all, rated{f, s})
			}
		}
		slices.SortStableFunc(all, func(a, b rated) int { return cmp.Or(cmp.Compare(b.score, a.score), len(a.file)-len(b.file)) })
		return all
	}
	all := rate(words)
	if len(all) == 0 {
		all = rate(mended(words, list))
	}
	for _, r := range all {
		if r.score > all[0].score-0.05 {
			files = append(files, r.file)
		}
	}
	return files, true
}

// anyFile and noteFile say which files are meant.
func anyFile(string) bool       { return true }
func noteFile(file string) bool { return ends(file, ".md", ".txt") }

// oneNote finds the one note that is meant, or asks.
func (u *turn) oneNote(said string, may func(string) bool) (file, ask string, ok bool) {
	files, ok := u.find(said, may)
	switch {
	case !ok:
		return "", "", false
	case len(files) == 0:
		return "", fmt.Sprintf("I found no note that is called %q.", said), true
	case len(files) > 1:
		return "", fmt.Sprintf("Which one do you mean?\n\n%s", bullets(ticked(files[:min(len(files), 6)]))), true
	}
	return files[0], "", true
}

func ticked(files []string) (list []string) {
	for _, f := range files {
		list = append(list, "`"+f+"`")
	}
	return list
}

func bullets(list []string) string { return "- " + strings.Join(list, "\n- ") }

// text is a file as a Read shows it.
type text struct {
	file  string
	lines []string
	wrong string // why it could not be read
	whole bool   // all lines are there, each of them complete
}

var (
	numbered = pattern.New(`^ *(\d+)\t(.*)$`)
	rest     = pattern.New(`^\(.* has \d+ lines; these are \d+ to \d+\. Read more with offset \d+\.\)$`)
	cutLine  = pattern.New(`\(\d+ more bytes in this line\)$`)
)

func reading(file string) Call { return Call{Tool: "Read", Input: map[string]any{"file_path": file}} }

// read reads files. A second time they are read again, since they may have changed.
func (u *turn) read(files ...string) (list []text, ok bool) {
	var calls []Call
	for _, f := range files {
		calls = append(calls, reading(f))
	}
	found, ok := u.do(calls...)
	if !ok {
		return nil, false
	}
	for i, r := range found {
		list = append(list, textOf(files[i], r))
	}
	return list, true
}

func textOf(file string, r Result) text {
	t := text{file: file, whole: true}
	if r.Failed {
		t.wrong = plain(r.Output)
		return t
	}
	if ends(file, ".pdf") {
		return document(file, r.Output)
	}
	for line := range strings.SplitSeq(r.Output, "\n") {
		m := numbered.FindStringSubmatch(line)
		switch {
		case m != nil:
			t.lines = append(t.lines, m[2])
			t.whole = t.whole && !cutLine.MatchString(m[2])
		case rest.MatchString(line):
			t.whole = false
		case len(t.lines) == 0: // it is empty, or an image
			t.lines = append(t.lines, line)
			t.whole = false
		}
	}
	return t
}

// pdfEnding is that of a document's name, whose words are those before it.
var pdfEnding = pattern.New(`(?i)\.pdf\b`)

var (
	pageLine = pattern.New(`^--- page \d+ of \d+ ---$`)
	section  = pattern.New(`^(?:§ ?)?\d{1,2}\.? +\p{Lu}[^.:,]{0,40}$`)
)

// document is a PDF: its lines have no numbers, and its headings are not marked. It is never whole,
// since it cannot be changed like a note.
func document(file, out string) text {
	t := text{file: file}
	for line := range strings.SplitSeq(out, "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "" || pageLine.MatchString(line):
		case len(t.lines) == 0:
			t.lines = append(t.lines, "# "+line)
		case section.MatchString(line):
			t.lines = append(t.lines, "## "+line)
		default:
			t.lines = append(t.lines, line)
		}
	}
	return t
}

// plain is an error of a tool in one sentence.
func plain(out string) string {
	out = strings.TrimSpace(out)
	for _, p := range []string{"Failed: ", "Error: ", "Denied: "} {
		out = strings.TrimPrefix(out, p)
	}
	out, _, _ = strings.Cut(out, "\n")
	return strings.TrimSuffix(out, ".") + "."
}
