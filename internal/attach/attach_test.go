//go:build unix

package attach_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"image"
	"image/png"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/attach"
)

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestSpeed) })
	for name, text := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func docx(t *testing.T, body string) []byte {
	return zipped(t, map[string]string{
		"[Content_Types].xml": "<Types/>",
		"word/document.xml":   `<?xml version="1.0"?><w:document xmlns:w="w"><w:body>` + body + `</w:body></w:document>`,
	})
}

func wide(text string, big bool, mark string) []byte {
	out := []byte(mark)
	for _, u := range utf16.Encode([]rune(text)) {
		if big {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return out
}

const para = `<w:p><w:r><w:t>%s</w:t></w:r></w:p>`

// TestRead: the text of each kind of file, by its content; what cannot be read says why.
func TestRead(t *testing.T) {
	t.Parallel()
	r := attach.New()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 20, 10))); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("word ", attach.MaxText/5+100)
	for name, c := range map[string]struct {
		file      string
		body      []byte
		kind      string
		text, why string // the beginning
	}{
		"text":                      {"a.txt", []byte("hello\r\nworld\n"), "text/plain; charset=utf-8", "hello\nworld", ""},
		"Markdown":                  {"a.md", []byte("# Hello"), "text/markdown; charset=utf-8", "# Hello", ""},
		"CSV":                       {"a.csv", []byte("a,b\n1,2"), "text/csv; charset=utf-8", "a,b\n1,2", ""},
		"TSV":                       {"a.tsv", []byte("a\tb"), "text/tab-separated-values; charset=utf-8", "a\tb", ""},
		"UTF-8 with a mark":         {"a.txt", []byte("\xef\xbb\xbfhällo"), "text/plain; charset=utf-8", "hällo", ""},
		"UTF-16":                    {"a.txt", wide("hällo €", false, "\xff\xfe"), "text/plain; charset=utf-8", "hällo €", ""},
		"UTF-16, big end first":     {"a.txt", wide("hällo 😀", true, "\xfe\xff"), "text/plain; charset=utf-8", "hällo 😀", ""},
		"UTF-16 without a mark":     {"a.txt", wide("just some plain text", false, ""), "", "just some plain text", ""},
		"Windows-1252":              {"a.txt", []byte("h\xe4llo \x80 5"), "text/plain; charset=utf-8", "hällo € 5", ""},
		"hidden characters":         {"a.txt", []byte("a\u202eb\u2066c\U000e0041d"), "", "abcd", ""},
		"HTML":                      {"a.txt", []byte("<!DOCTYPE html><title>x</title><h1>Head</h1><p>Some <b>bold</b> text<script>evil()</script>"), "text/html", "# Head\n\nSome **bold** text", ""},
		"hidden HTML":               {"a.html", []byte(`<html><p hidden>a<p>Seen<div style="color:red; DISPLAY : none !important"><p>b</div><span style="visibility:hidden">c</span><template>d</template><p hidden="until-found">found`), "text/html", "Seen\n\nfound", ""},
		"HTML with a character set": {"a.html", []byte("<html><head><meta charset=iso-8859-1></head><body><p>h\xe4llo</p>"), "text/html", "hällo", ""},
		"Word": {
			"a.bin", docx(t, `<w:p><w:pPr><w:pStyle w:val="Heading2"/></w:pPr><w:r><w:t>Head</w:t></w:r></w:p>`+fmt.Sprintf(para, "One &amp; two")+
				`<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t xml:space="preserve">item </w:t></w:r><w:r><w:tab/><w:t>more</w:t></w:r></w:p><w:del><w:r><w:t>gone</w:t></w:r></w:del>`+
				`<w:tbl><w:tr><w:tc>`+fmt.Sprintf(para, "a|b")+`</w:tc><w:tc>`+fmt.Sprintf(para, "c")+`</w:tc></w:tr></w:tbl>`),
			"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "## Head\n\nOne & two\n\n- item \tmore\n| a\\|b | c |\n| --- | --- |", "",
		},
		"Excel": {"a.xlsx", zipped(t, map[string]string{
			"xl/workbook.xml":            `<workbook xmlns:r="r"><sheets><sheet name="Sales" r:id="rId1"/></sheets></workbook>`,
			"xl/_rels/workbook.xml.rels": `<Relationships><Relationship Id="rId1" Target="worksheets/sheet1.xml"/></Relationships>`,
			"xl/sharedStrings.xml":       `<sst><si><t>Name</t></si><si><r><t>two, </t></r><r><t>parts</t></r></si></sst>`,
			"xl/worksheets/sheet1.xml":   `<worksheet><sheetData><row><c r="A1" t="s"><v>0</v></c><c r="C1"><v>1.5</v></c></row><row><c r="A2" t="s"><v>1</v></c><c r="B2" t="inlineStr"><is><t>in</t></is></c><c r="C2" t="b"><v>1</v></c></row></sheetData></worksheet>`,
		}), "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "--- sheet Sales ---\nName,,1.5\n\"two, parts\",in,TRUE", ""},
		"nothing":                  {"a.txt", nil, "", "", "It is empty."},
		"white space":              {"a.txt", []byte(" \n\n "), "", "", "It has no text."},
		"an archive":               {"a.txt", zipped(t, map[string]string{"x": "y"}), "application/zip", "", "It is an archive"},
		"a presentation":           {"a.docx", zipped(t, map[string]string{"ppt/presentation.xml": "<x/>"}), "", "", "It is a presentation"},
		"an old Word file":         {"a.doc", []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 more"), "", "", "It is an Office file of an old form"},
		"a program":                {"a.txt", append([]byte("\x7fELF"), make([]byte, 1000)...), "", "", "It is of a kind that is not known"},
		"sound":                    {"a.txt", append([]byte("ID3\x03"), make([]byte, 1000)...), "audio/mpeg", "", "It is of the kind audio/mpeg"},
		"a damaged archive":        {"a.docx", []byte("PK\x03\x04 and no more"), "", "", "It is a damaged archive."},
		"damaged XML":              {"a.docx", docx(t, "<w:p>"), "", "", "Its XML is damaged."},
		"an entity from elsewhere": {"a.docx", zipped(t, map[string]string{"word/document.xml": `<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><w:document xmlns:w="w"><w:p><w:r><w:t>&x;</w:t></w:r></w:p></w:document>`}), "", "", "Its XML is damaged."},
		"entities that grow":       {"a.docx", zipped(t, map[string]string{"word/document.xml": `<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><w:document xmlns:w="w"><w:p><w:r><w:t>&b;</w:t></w:r></w:p></w:document>`}), "", "", "Its XML is damaged."},
		"deep XML":                 {"a.docx", docx(t, strings.Repeat("<w:p>", 1000)+strings.Repeat("</w:p>", 1000)), "", "", "Its elements are nested more than 200 deep."},
		"a bomb":                   {"a.docx", docx(t, "<!--"+strings.Repeat(" ", 130<<20)+"-->"), "", "", "It unpacks to more than 128 MB."},
		"too many files":           {"a.zip", zipped(t, many(6000)), "", "", "It is an archive of 6000 files"},
		"deep HTML":                {"a.html", []byte("<html>" + strings.Repeat("<div>", 200_000) + "x"), "text/html", "", "Its HTML cannot be read"},
		"a long text":              {"a.txt", []byte(long), "", "word word", ""},
		"a damaged PDF":            {"a.pdf", []byte("%PDF-1.7 and no more"), "application/pdf", "", "The PDF"},
		"a damaged image":          {"a.png", picture.Bytes()[:40], "image/png", "", "The"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := r.Read(t.Context(), parley.Principal{User: name}, c.file, c.body)
			for err == nil && strings.Contains(d.Why, "not ready yet") { // it is as busy as the machine: 20 s each time
				d, err = r.Read(t.Context(), parley.Principal{User: name}, c.file, c.body)
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.kind != "" && d.MediaType != c.kind || !strings.HasPrefix(d.Text, c.text) || !strings.HasPrefix(d.Why, c.why) || (c.why == "") != (d.Why == "") {
				t.Errorf("got %q, %.200q, %q", d.MediaType, d.Text, d.Why)
			}
			if len(d.Text) > attach.MaxText || d.Cut != (name == "a long text") {
				t.Errorf("%d bytes, cut: %v", len(d.Text), d.Cut)
			}
		})
	}
	d, err := r.Read(t.Context(), parley.Local, "photo.txt", picture.Bytes())
	if err != nil || d.MediaType != "image/png" || !bytes.Equal(d.Image, picture.Bytes()) || d.Text+d.Why != "" {
		t.Errorf("an image: %+v, %v", d, err)
	}
}

func many(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprint(i)] = ""
	}
	return files
}

// TestRead_is_stopped: a reader that takes too long ends with its call.
func TestRead_is_stopped(t *testing.T) {
	t.Parallel()
	r := attach.New()
	began := time.Now()
	var b strings.Builder
	b.WriteString("<html><table>")
	for range 20_000 {
		b.WriteString("<tr><td><b><i>x")
	}
	d, err := r.Read(t.Context(), parley.Local, "a.html", []byte(b.String()))
	if err != nil || time.Since(began) > 40*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	t.Logf("%d bytes, %q, after %s", len(d.Text), d.Why, time.Since(began))
}
