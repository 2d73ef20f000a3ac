package librarian

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/parley-server/parley/internal/pattern"
)

// entity is a line of a result about an entity.
type entity struct {
	path, title, kind, status, owner, updated string
	tags                                      []string
	version, body                             string // of one that was read
}

// entities are those of a result of lake_search or lake_list.
func entities(output string) (list []entity) {
	for line := range strings.SplitSeq(output, "\n") {
		if e, ok := entityIn(line); ok {
			list = append(list, e)
		}
	}
	return list
}

func entityIn(line string) (e entity, ok bool) {
	f := strings.Split(line, " · ")
	if len(f) < 3 || strings.HasPrefix(line, " ") || !strings.HasSuffix(f[0], ".md") {
		return e, false
	}
	e.path, e.title, e.kind = f[0], f[1], f[2]
	for _, v := range f[3:] {
		switch {
		case strings.HasPrefix(v, "owner "):
			e.owner = v[len("owner "):]
		case strings.HasPrefix(v, "updated "):
			e.updated = v[len("updated "):]
		case strings.HasPrefix(v, "#"):
			for t := range strings.FieldsSeq(v) {
				e.tags = append(e.tags, strings.TrimPrefix(t, "#"))
			}
		default:
			e.status = v
		}
	}
	return e, true
}

var (
	versionLine = pattern.New(`(?m)^version ([0-9a-f]{40})$`)
	frontBlock  = pattern.New(`(?s)\A---\n.*?\n---\n`)
	aliased     = pattern.New(`\[\[([^\]|#]+)(?:#[^\]|]*)?(?:\|([^\]]+))?\]\]`)
	markdown    = pattern.New(`\[([^\]]+)\]\([^)]*\)`)
)

// readEntity is what lake_read returned.
func readEntity(r Result) (e entity, ok bool) {
	if r.Failed {
		return e, false
	}
	head, body, _ := strings.Cut(r.Output, "\n\n")
	first, _, _ := strings.Cut(head, "\n")
	if e, ok = entityIn(first); !ok {
		return e, false
	}
	if m := versionLine.FindStringSubmatch(head); m != nil {
		e.version = m[1]
	}
	e.body = body
	return e, true
}

// plain is a text without the signs of links.
func plain(text string) string {
	text = aliased.ReplaceAllStringFunc(text, func(l string) string {
		m := aliased.FindStringSubmatch(l)
		if m[2] != "" {
			return m[2]
		}
		return m[1]
	})
	return markdown.ReplaceAllString(text, "$1")
}

// lines are the lines of a page that say something, without front matter and title.
func lines(body string) (list []string) {
	body = frontBlock.ReplaceAllString(body, "")
	code := false
	for l := range strings.SplitSeq(body, "\n") {
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "```") {
			code = !code
		}
		if l == "" || code || strings.HasPrefix(l, "```") || strings.HasPrefix(l, "# ") || strings.HasPrefix(l, "<!--") || strings.HasPrefix(l, "(Lines ") {
			continue
		}
		list = append(list, plain(l))
	}
	return list
}

// folded is a text as it is compared: small, without accents.
func folded(text string) string {
	var b strings.Builder
	for _, r := range norm.NFD.String(strings.ToLower(text)) {
		if !unicode.Is(unicode.Mn, r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// wordsOf are the words of a text, folded.
func wordsOf(text string) []string {
	return strings.FieldsFunc(folded(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '€' })
}

// stem is a word without common endings.
func stem(w string) string {
	for _, end := range []string{"ies", "ing", "ers", "ed", "es", "s"} {
		if rest, ok := strings.CutSuffix(w, end); ok && len(rest) >= 3 && !strings.HasSuffix(w, "ss") {
			if end == "ies" {
				return rest + "y"
			}
			return rest
		}
	}
	return w
}

var stops = map[string]bool{}

func init() {
	for w := range strings.FieldsSeq(`a an and any are as at about after all also am anybody anyone anything at be been but by can could did do does doing done else ever exactly every find for from get give
		got had has have he her here him his how i if in into is it its just know let like look lake page pages me more most much many my need no not now of on one or our out over please say says said see she should
		show so some somebody something tell than that the their them then there these they thing things this those to today up us use was we were what when where which while who whom whose why will with
		would you your mean means explain describe entity document documents written down information really actually want wants long often far big old say happens happen yes okay`) {
		stops[w] = true
	}
}

// topics are the words of a request that name something.
func topics(q string) (list []string) {
	for _, w := range wordsOf(q) {
		if w = strings.TrimSuffix(w, "'s"); len(w) < 2 && w != "€" || stops[w] || contains(list, w) {
			continue
		}
		list = append(list, w)
	}
	return list
}

func contains(list []string, w string) bool {
	for _, have := range list {
		if have == w {
			return true
		}
	}
	return false
}

// kin are words that people use for what pages call otherwise.
var kin = map[string][]string{
	"cost": {"€", "price"}, "price": {"€", "cost"}, "phone": {"line"}, "telephone": {"line"}, "call": {"line"}, "vacation": {"holiday"}, "holiday": {"days"}, "ends": {"until"}, "end": {"until"}, "expire": {"until"}, "boss": {"managing"},
	"responsible": {"owner", "held"}, "lead": {"leads"}, "buy": {"order"}, "order": {"orders"}, "parts": {"spare"}, "accuracy": {"mm"}, "precise": {"mm"}, "keep": {"kept"}, "kept": {"keep"}, "store": {"kept"}, "answered": {"answer"}, "sick": {"sickness"},
	"backup": {"saved"}, "retention": {"kept"}, "climb": {"height", "mast"}, "wind": {"force"}, "battery": {"lasts"}, "emergency": {"incident"}, "new": {"colleague"}, "hotel": {"hotels"},
}

// matches reports whether a word of a text is a word of a request, in some form.
func matches(word, want string) bool {
	a, b := stem(word), stem(want)
	return a == b || len(b) >= 4 && strings.HasPrefix(a, b) || len(a) >= 4 && strings.HasPrefix(b, a) && len(b)-len(a) <= 3
}

// has reports whether a text has a word of a request, or its kin.
func has(text []string, want string) bool {
	for _, w := range text {
		if matches(w, want) {
			return true
		}
	}
	for _, k := range append(kin[want], kin[stem(want)]...) {
		for _, w := range text {
			if matches(w, k) {
				return true
			}
		}
	}
	return false
}
