//go:build unix

package attach

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

const (
	maxEntries  = 5000
	maxUnpacked = 128 << 20 // bytes of all parts of a document that are read
	maxNested   = 200       // elements of XML inside one another
	maxRows     = 20_000    // of a sheet
	maxColumns  = 500
)

// parse reads a file in the helper's process.
func parse(form string, body []byte) (Document, error) {
	if form == "html" {
		d := Document{MediaType: "text/html"}
		text, err := markdown(body)
		d.Text = text
		return d, err
	}
	d := Document{MediaType: "application/zip"}
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return d, errors.New("it is a damaged archive")
	}
	if len(z.File) > maxEntries {
		return d, fmt.Errorf("it is an archive of %d files, more than %d", len(z.File), maxEntries)
	}
	p := &pack{files: map[string]*zip.File{}, room: maxUnpacked}
	for _, f := range z.File {
		p.files[f.Name] = f
	}
	switch {
	case p.files["word/document.xml"] != nil:
		d.MediaType = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
		d.Text, d.Cut, err = word(p)
	case p.files["xl/workbook.xml"] != nil:
		d.MediaType = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
		d.Text, d.Cut, err = excel(p)
	case p.files["ppt/presentation.xml"] != nil:
		d.MediaType = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
		d.Why = "It is a presentation, of which no text is taken. Save it as PDF."
	case p.files["mimetype"] != nil && p.files["content.xml"] != nil:
		d.MediaType = "application/vnd.oasis.opendocument"
		d.Why = "It is an OpenDocument file, which is not read. Save it as .docx, .xlsx or PDF."
	default:
		d.Why = "It is an archive, whose files are not read. Attach them one by one."
	}
	return d, err
}

// markdown is the text of a page. Its character set is what the page says.
func markdown(body []byte) (string, error) {
	r, err := charset.NewReader(bytes.NewReader(body), "")
	if err != nil {
		r = bytes.NewReader(body)
	}
	raw, err := io.ReadAll(io.LimitReader(r, 3*int64(len(body))+16))
	if err != nil {
		return "", errors.New("its character set is not known")
	}
	doc, err := html.Parse(bytes.NewReader(raw))
	if err != nil {
		return "", fmt.Errorf("its HTML cannot be read: %w", err)
	}
	unhide(doc)
	c := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()))
	text, err := c.ConvertNode(doc)
	if err != nil {
		return "", fmt.Errorf("its HTML cannot be read: %w", err)
	}
	return string(text), nil
}

// unhide takes out what no reader of the page sees: a text that is hidden from people is not for the model either.
func unhide(n *html.Node) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.ElementNode && isHidden(c) {
			n.RemoveChild(c)
		} else {
			unhide(c)
		}
		c = next
	}
}

func isHidden(n *html.Node) bool {
	if n.Data == "template" {
		return true
	}
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool {
		switch a.Key {
		case "hidden":
			return !strings.EqualFold(a.Val, "until-found") // a search on the page shows that
		case "style":
			for rule := range strings.SplitSeq(strings.ToLower(a.Val), ";") {
				name, value, _ := strings.Cut(rule, ":")
				value = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "!important"))
				if name = strings.TrimSpace(name); name == "display" && value == "none" || name == "visibility" && value == "hidden" {
					return true
				}
			}
		}
		return false
	})
}

// pack is the files of an archive.
type pack struct {
	files map[string]*zip.File
	room  int64
}

var errUnpacked = fmt.Errorf("it unpacks to more than %d MB", maxUnpacked>>20)

// open opens a part. What is read of all parts is limited.
func (p *pack) open(name string) (io.ReadCloser, error) {
	f := p.files[name]
	if f == nil {
		return nil, fmt.Errorf("it has no part %s", path.Base(name))
	}
	r, err := f.Open()
	if err != nil {
		return nil, errors.New("it is damaged, or has a password")
	}
	return struct {
		io.Reader
		io.Closer
	}{&metered{r, p}, r}, nil
}

type metered struct {
	r io.Reader
	p *pack
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	if m.p.room -= int64(n); m.p.room < 0 {
		return 0, errUnpacked
	}
	return n, err
}

// tokens calls f for each start (with true) and end of an element, and with character data. It ends when f
// returns false.
func (p *pack) tokens(name string, f func(t xml.Token) bool) error {
	r, err := p.open(name)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // nothing was written
	d := xml.NewDecoder(r)
	depth := 0
	for {
		t, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errUnpacked):
			return errUnpacked
		case err != nil:
			return errors.New("its XML is damaged")
		}
		switch t.(type) {
		case xml.StartElement:
			if depth++; depth > maxNested {
				return fmt.Errorf("its elements are nested more than %d deep", maxNested)
			}
		case xml.EndElement:
			depth--
		}
		if !f(t) {
			return nil
		}
	}
}

func attr(s xml.StartElement, name string) string {
	for _, a := range s.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// word is the text of a Word file: headings, lists and tables as Markdown.
func word(p *pack) (string, bool, error) {
	var out, para, cell strings.Builder
	var row []string
	heading, list, tables, first := 0, false, 0, false
	deleted, in := 0, false
	err := p.tokens("word/document.xml", func(t xml.Token) bool {
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "p":
				para.Reset()
				heading, list = 0, false
			case "pStyle":
				if n, ok := strings.CutPrefix(strings.ToLower(attr(t, "val")), "heading"); ok {
					heading, _ = strconv.Atoi(strings.TrimSpace(n))
				} else if strings.EqualFold(attr(t, "val"), "title") {
					heading = 1
				}
			case "numPr":
				list = true
			case "t":
				in = true
			case "tab":
				para.WriteByte('\t')
			case "br", "cr":
				para.WriteByte('\n')
			case "tbl":
				tables++
				first = true
			case "tr":
				row = nil
			case "tc":
				cell.Reset()
			case "del", "moveFrom":
				deleted++
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "t":
				in = false
			case "del", "moveFrom":
				deleted--
			case "p":
				text := strings.TrimSpace(para.String())
				switch {
				case tables > 0:
					if cell.Len() > 0 && text != "" {
						cell.WriteByte(' ')
					}
					cell.WriteString(strings.ReplaceAll(text, "\n", " "))
				case text == "":
				case heading > 0:
					fmt.Fprintf(&out, "%s %s\n\n", strings.Repeat("#", min(heading, 6)), text)
				case list:
					out.WriteString("- " + text + "\n")
				default:
					out.WriteString(text + "\n\n")
				}
			case "tc":
				row = append(row, strings.ReplaceAll(cell.String(), "|", `\|`))
			case "tr":
				if tables == 1 && len(row) > 0 {
					out.WriteString("| " + strings.Join(row, " | ") + " |\n")
					if first {
						out.WriteString("|" + strings.Repeat(" --- |", len(row)) + "\n")
					}
					first = false
				}
			case "tbl":
				if tables--; tables == 0 {
					out.WriteByte('\n')
				}
			}
		case xml.CharData:
			if in && deleted == 0 {
				para.Write(t)
			}
		}
		return out.Len() <= MaxText
	})
	return strings.TrimSpace(out.String()), out.Len() > MaxText, err
}

// excel is the text of an Excel file: each sheet as CSV, as its cells' values are stored. Dates are
// numbers of days then.
func excel(p *pack) (string, bool, error) {
	shared, err := sharedStrings(p)
	if err != nil {
		return "", false, err
	}
	names, err := sheets(p)
	if err != nil {
		return "", false, err
	}
	var out strings.Builder
	cut := false
	for _, s := range names {
		if out.Len() > MaxText {
			return out.String(), true, nil
		}
		fmt.Fprintf(&out, "--- sheet %s ---\n", s.name)
		more, err := sheet(p, s.part, shared, &out)
		if err != nil {
			return "", false, err
		}
		cut = cut || more
		out.WriteByte('\n')
	}
	return out.String(), cut, nil
}

func sharedStrings(p *pack) (list []string, err error) {
	if p.files["xl/sharedStrings.xml"] == nil {
		return nil, nil
	}
	var b strings.Builder
	in, phonetic := false, false
	err = p.tokens("xl/sharedStrings.xml", func(t xml.Token) bool {
		switch t := t.(type) {
		case xml.StartElement:
			in = in || t.Name.Local == "t"
			phonetic = phonetic || t.Name.Local == "rPh"
		case xml.EndElement:
			switch t.Name.Local {
			case "t":
				in = false
			case "rPh":
				phonetic = false
			case "si":
				list = append(list, b.String())
				b.Reset()
			}
		case xml.CharData:
			if in && !phonetic {
				b.Write(t)
			}
		}
		return true
	})
	return list, err
}

type sheetPart struct{ name, part string }

// sheets are the sheets in their order.
func sheets(p *pack) (list []sheetPart, err error) {
	parts := map[string]string{}
	if p.files["xl/_rels/workbook.xml.rels"] != nil {
		err = p.tokens("xl/_rels/workbook.xml.rels", func(t xml.Token) bool {
			if s, ok := t.(xml.StartElement); ok && s.Name.Local == "Relationship" {
				to := attr(s, "Target")
				if !strings.HasPrefix(to, "/") {
					to = "/xl/" + to
				}
				parts[attr(s, "Id")] = strings.TrimPrefix(path.Clean(to), "/")
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	err = p.tokens("xl/workbook.xml", func(t xml.Token) bool {
		if s, ok := t.(xml.StartElement); ok && s.Name.Local == "sheet" {
			for _, a := range s.Attr {
				if a.Name.Local == "id" && parts[a.Value] != "" {
					list = append(list, sheetPart{attr(s, "name"), parts[a.Value]})
				}
			}
		}
		return len(list) < 200
	})
	return list, err
}

// sheet writes a sheet as CSV. more says that it has more rows or columns.
func sheet(p *pack, part string, shared []string, out *strings.Builder) (more bool, err error) {
	var row []string
	var value strings.Builder
	kind, column, rows, in := "", 0, 0, false
	err = p.tokens(part, func(t xml.Token) bool {
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "row":
				row = row[:0]
				column = 0
			case "c":
				kind = attr(t, "t")
				if at := columnOf(attr(t, "r")); at > 0 {
					column = at
				} else {
					column++
				}
				value.Reset()
			case "v", "t":
				in = true
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "v", "t":
				in = false
			case "c":
				if column > maxColumns {
					more = true
					break
				}
				for len(row) < column {
					row = append(row, "")
				}
				row[column-1] = cellText(kind, value.String(), shared)
			case "row":
				if slices.ContainsFunc(row, func(s string) bool { return s != "" }) {
					out.WriteString(strings.Join(row, ",") + "\n")
				}
				if rows++; rows >= maxRows || out.Len() > MaxText {
					more = true
					return false
				}
			}
		case xml.CharData:
			if in {
				value.Write(t)
			}
		}
		return true
	})
	return more, err
}

func cellText(kind, value string, shared []string) string {
	switch kind {
	case "s":
		if i, err := strconv.Atoi(value); err == nil && 0 <= i && i < len(shared) {
			value = shared[i]
		}
	case "b":
		value = map[string]string{"1": "TRUE", "0": "FALSE"}[value]
	}
	if strings.ContainsAny(value, ",\"\n\r") {
		value = `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
	}
	return value
}

// columnOf is the number of the column in the name of a cell, such as 28 for AB7; 0: it has none.
func columnOf(cell string) (n int) {
	for _, r := range cell {
		if r < 'A' || r > 'Z' || n > 1<<20 {
			break
		}
		n = n*26 + int(r-'A') + 1
	}
	return n
}
