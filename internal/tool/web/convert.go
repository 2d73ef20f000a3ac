package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"codeberg.org/readeck/go-readability"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/extract"
)

// A page that is searched for its main text has at most so many tags and bytes. The libraries
// for that take time that may grow faster than the page; of a larger one all text is taken.
const (
	maxTags = 50_000
	maxPage = 2 << 20
)

// The forms of what is fetched.
const (
	formHTML = iota
	formText
	formPDF
	formOther
)

func form(kind string) int {
	switch {
	case kind == "text/html" || kind == "application/xhtml+xml":
		return formHTML
	case strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "+json"), strings.HasSuffix(kind, "+xml"),
		slices.Contains([]string{"application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/x-ndjson", "application/jsonl", "application/javascript"}, kind):
		return formText
	case kind == "application/pdf" || kind == "application/x-pdf":
		return formPDF
	}
	return formOther
}

// mediaType is the type in a Content-Type, without parameters.
func mediaType(header string) string {
	kind, _, err := mime.ParseMediaType(header)
	if err != nil {
		kind, _, _ = strings.Cut(header, ";")
	}
	return strings.ToLower(strings.TrimSpace(kind))
}

func unreadable(kind string) error {
	return parley.Errorf(parley.CodeInvalid, "the page is %s, which is not read", parley.Cut(clean(kind), 80)).WithHint("only web pages, PDFs, text and JSON are")
}

// convert makes text of a body: Markdown of HTML, the text of a PDF, and text as it is, decoded
// from its character set.
func convert(ctx context.Context, body []byte, header string, at *url.URL) (title, text string, err error) {
	kind := mediaType(header)
	if kind == "" {
		kind = mediaType(http.DetectContentType(body))
	}
	switch form(kind) {
	case formText:
		return "", string(decoded(body, header)), nil
	case formHTML:
		title, text = readable(decoded(body, header), at)
		return title, text, ctx.Err()
	case formPDF:
		text, err = pages(ctx, body)
		return "", text, err
	}
	return "", "", unreadable(kind)
}

// pages is the text of a PDF, with a line before each page.
func pages(ctx context.Context, body []byte) (string, error) {
	d, err := extract.PDF(ctx, body, extract.Options{MaxText: maxPage})
	switch {
	case err != nil:
		return "", err
	case d.Blank() && !d.More:
		return "", parley.Errorf(parley.CodeInvalid, "the PDF has %d pages and no text; they may be images, as in a scanned document", d.Count).WithHint("look for the information elsewhere")
	}
	text := d.String()
	if d.More {
		text += fmt.Sprintf("\n\n(The PDF has %d pages; the text ends on page %d.)", d.Count, d.Pages[len(d.Pages)-1].Number)
	}
	return text, nil
}

// decoded is a text in UTF-8. Its character set is what its first bytes, its header or its own
// declaration say, in this order.
func decoded(body []byte, header string) []byte {
	r, err := charset.NewReader(bytes.NewReader(body), header)
	if err != nil {
		return body // an unknown character set: what is not UTF-8 is replaced later
	}
	// A character of three bytes in UTF-8 has at least one byte in every character set.
	out, err := io.ReadAll(io.LimitReader(r, 3*maxBody))
	if err != nil {
		return body
	}
	return out
}

// readable returns the title and the main text of a page, as Markdown.
func readable(raw []byte, at *url.URL) (title, text string) {
	if len(raw) > maxPage || tags(raw) > maxTags {
		return plain(raw)
	}
	doc, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		return plain(raw) // nested more deeply than the parser reads
	}
	base := at
	walk(doc, func(n *html.Node) bool {
		switch n.DataAtom {
		case atom.Title:
			if title == "" && n.FirstChild != nil && n.Namespace == "" {
				title = n.FirstChild.Data
			}
		case atom.Base:
			if u, err := at.Parse(attr(n, "href")); err == nil && base == at && attr(n, "href") != "" {
				base = u
			}
		}
		return true
	})
	absolute(doc, base)
	ps := readability.NewParser()
	ps.MaxElemsToParse = maxTags
	whole := strip(doc)
	article, err := ps.ParseDocument(doc, at)
	if err == nil && article.Node != nil {
		if main, ok := markdown(article.Node); ok && enough(main, whole) {
			if article.Title != "" {
				title = article.Title
			}
			return title, main
		}
	}
	if all, ok := markdown(doc); ok {
		return title, all
	}
	_, all := plain(raw)
	return title, all
}

// enough reports whether what was found to be the main text of a page may be all that
// matters: a list of links, say, has no main text, and then a stray paragraph is found.
func enough(main string, whole int) bool {
	n := len(main)
	return n > 200 && n > whole/10 || n > whole/2
}

// strip removes what no reader of the page sees, and returns the size of the text that is left.
func strip(doc *html.Node) (size int) {
	var gone []*html.Node
	walk(doc, func(n *html.Node) bool {
		switch {
		case n.Type == html.TextNode:
			size += len(strings.TrimSpace(n.Data))
		case n.Type == html.CommentNode, n.Type == html.ElementNode && hidden(n):
			gone = append(gone, n)
			return false
		}
		return true
	})
	for _, n := range gone {
		n.Parent.RemoveChild(n)
	}
	return size
}

func hidden(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script:
		return attr(n, "type") != "application/ld+json" // which has title and author, and is no text
	case atom.Style, atom.Template, atom.Svg, atom.Iframe, atom.Object, atom.Embed, atom.Canvas, atom.Dialog, atom.Select, atom.Textarea:
		return true
	}
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			if strings.EqualFold(a.Val, "true") {
				return true
			}
		case "style":
			style := strings.ToLower(strings.Join(strings.Fields(a.Val), ""))
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") || strings.Contains(style, "font-size:0") && !strings.Contains(style, "font-size:0.") {
				return true
			}
		}
	}
	return false
}

// absolute makes the links and pictures of a page absolute, and removes those that lead to no
// page.
func absolute(doc *html.Node, base *url.URL) {
	walk(doc, func(n *html.Node) bool {
		for i := range n.Attr {
			a := &n.Attr[i]
			if a.Key != "href" && a.Key != "src" || n.DataAtom != atom.A && n.DataAtom != atom.Img {
				continue
			}
			u, err := base.Parse(strings.TrimSpace(a.Val))
			if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
				n.Data, n.DataAtom, n.Attr = "span", atom.Span, nil // with its text alone
				break
			}
			a.Val = u.String()
		}
		return true
	})
}

func markdown(n *html.Node) (string, bool) {
	// Nothing is escaped: models read the text, nobody renders it, and looking for what needs to
	// be escaped takes time that grows with the square of a text.
	conv := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled),
		converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()))
	out, err := conv.ConvertNode(n)
	if err != nil {
		return "", false
	}
	return strings.TrimSpace(string(out)), true
}

// tags counts the tags of a page, or what may be tags.
func tags(raw []byte) int { return bytes.Count(raw, []byte("<")) }

// plain returns the title and all text of a page, without its structure. It takes time that
// grows with the page, whatever is in it.
func plain(raw []byte) (title, text string) {
	z := html.NewTokenizer(bytes.NewReader(raw))
	z.SetMaxBuf(maxBody)
	var b strings.Builder
	skipped, inTitle := "", false
	for {
		switch z.Next() {
		case html.ErrorToken:
			return title, b.String()
		case html.StartTagToken:
			name, _ := z.TagName()
			switch tag := string(name); tag {
			case "script", "style", "template", "textarea":
				skipped = tag
			case "title":
				inTitle = true
			case "p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section", "article":
				b.WriteByte('\n')
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			if tag := string(name); tag == skipped {
				skipped = ""
			} else if tag == "title" {
				inTitle = false
			}
		case html.TextToken:
			switch words := oneLine(string(z.Text())); {
			case skipped != "" || words == "":
			case inTitle:
				title = words
			default:
				b.WriteString(words + " ")
			}
		}
	}
}

// walk calls f for n and, while f returns true, for what is in it. It does not recurse: pages
// are nested as deeply as they like.
func walk(n *html.Node, f func(*html.Node) bool) {
	for at := n; at != nil; {
		if f(at) && at.FirstChild != nil {
			at = at.FirstChild
			continue
		}
		for at != n && at.NextSibling == nil {
			at = at.Parent
		}
		if at == n {
			return
		}
		at = at.NextSibling
	}
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
