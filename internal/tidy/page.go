package tidy

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/kljensen/snowball/english"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/pattern"
)

// page is an entity while the lake is looked at.
type page struct {
	parley.Entity
	text    string // without front matter and markup
	words   map[string]bool
	own     map[string]bool // those that not all pages of its kind have
	numbers map[string]bool
	settled bool // it is as the last commit has it
}

// folder is the folder that a page is in.
func (p *page) folder() string {
	if i := strings.LastIndexByte(p.Path, '/'); i >= 0 {
		return p.Path[:i]
	}
	return ""
}

// top reports whether a page is in the first folder, whose pages, such as README.md, stand for
// themselves.
func (p *page) top() bool { return !strings.Contains(p.Path, "/") }

// maxPages is how many pages are looked at.
const maxPages = 20_000

// load reads all pages. tree has the versions that the last commit has.
func load(ctx context.Context, l *lake.Lake, tree map[string]string) (list []*page, err error) {
	after := ""
	for {
		found, err := l.List(ctx, lake.Filter{}, lake.Page{After: after, Limit: 500})
		if err != nil {
			return nil, err
		}
		for _, e := range found.Entities {
			if len(list) == maxPages {
				return nil, parley.Errorf(parley.CodeTooLarge, "the lake has more than %d pages", maxPages)
			}
			whole, err := l.Read(ctx, e.Path)
			if parley.CodeOf(err) == parley.CodeNotFound {
				continue // it has gone since
			}
			if err != nil {
				return nil, err
			}
			list = append(list, newPage(whole, tree[whole.Path] == whole.Version))
		}
		if found.Next == "" {
			break
		}
		after = found.Next
	}
	slices.SortFunc(list, func(a, b *page) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

func newPage(e parley.Entity, settled bool) *page {
	p := &page{Entity: e, settled: settled}
	p.text = plain(afterFront(e.Body))
	p.words, p.numbers = map[string]bool{}, map[string]bool{}
	for _, w := range stems(p.text) {
		p.words[w] = true
	}
	for _, n := range digits.FindAllString(p.text, -1) {
		p.numbers[n] = true
	}
	return p
}

// afterFront is a page without its front matter.
func afterFront(body string) string {
	if !strings.HasPrefix(body, "---\n") {
		return body
	}
	if i := strings.Index(body[4:], "\n---\n"); i >= 0 {
		return body[4+i+5:]
	}
	return body
}

var (
	fenced   = pattern.New("(?s)```.*?(```|$)|<!--.*?(-->|$)")
	wikiLink = pattern.New(`!?\[\[([^\]|#\n]+)(?:#[^\]|\n]*)?(?:\|([^\]\n]*))?\]\]`)
	mdLink   = pattern.New(`!?\[([^\]\n]*)\]\([^)\n]*\)`)
	digits   = pattern.New(`\d+(?:[.,:-]\d+)*`)
	word     = pattern.New(`[\pL][\pL'’]*`)
)

// plain is text without markup.
func plain(text string) string {
	text = fenced.ReplaceAllString(text, " ")
	text = wikiLink.ReplaceAllStringFunc(text, func(s string) string {
		m := wikiLink.FindStringSubmatch(s)
		if m[2] != "" {
			return m[2]
		}
		return strings.ReplaceAll(m[1][strings.LastIndexByte(m[1], '/')+1:], "-", " ")
	})
	text = mdLink.ReplaceAllString(text, "$1")
	return strings.NewReplacer("`", "", "*", "", "_", " ").Replace(text)
}

// folded is text as it is compared: small letters without accents.
func folded(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(s))
}

// common are words that say nothing of what a text is about.
var common = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`a an the and or but of in on at to for from by with without is are was were be been it its this that these those as
		has have had not no nor he she they them their his her we our us you your i my me who whoever which what when where how why than then there here
		if so do does did can could may might must shall should will would all any both each few more most other some such only own same too very also
		about after before between into out over under up down again see use used one two three four five`) {
		m[w] = true
	}
	return m
}()

// stems are the stems of a text's words, without common ones.
func stems(text string) (list []string) {
	for _, w := range word.FindAllString(folded(text), -1) {
		w = strings.TrimSuffix(strings.TrimSuffix(strings.ReplaceAll(w, "’", "'"), "'s"), "'")
		if common[w] || len(w) < 2 {
			continue
		}
		list = append(list, english.Stem(w, false))
	}
	return list
}

// squeezed is a title as titles are compared: stems without anything between them.
func squeezed(title string) string {
	var b strings.Builder
	for _, r := range folded(title) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			b.WriteRune(r)
		}
	}
	return english.Stem(b.String(), false)
}
