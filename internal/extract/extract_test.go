package extract_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/extract"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(cacheVariable); dir != "" {
		os.Exit(reader(dir))
	}
	if err := extract.Ready(context.Background()); err != nil { // no test waits for it
		panic(err)
	}
	os.Exit(m.Run())
}

// file makes a PDF of objects, numbered from 1. The first one is its catalog.
func file(trailer string, objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	at := make([]int, len(objects))
	for i, o := range objects {
		at[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, trailer, xref)
	return b.Bytes()
}

func stream(dict, body string) string {
	return fmt.Sprintf("<<%s/Length %d>>\nstream\n%s\nendstream", dict, len(body), body)
}

// deflate packs a text that repeats.
func deflate(text []byte, times int) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	for range times {
		_, _ = w.Write(text)
	}
	_ = w.Close()
	return b.Bytes()
}

const (
	catalog = "<</Type/Catalog/Pages 2 0 R>>"
	pages   = "<</Type/Pages/Count 1/Kids[3 0 R]>>"
	onePage = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>/XObject<</X 6 0 R>>>>>>"
	font    = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
	form    = "/Type/XObject/Subtype/Form/BBox[0 0 600 800]/Resources<</XObject<</X 6 0 R>>>>"
)

func say(text string) string { return "BT /F 12 Tf 50 700 Td (" + text + ") Tj ET" }

// single is a PDF of one page with that content.
func single(content string) []byte {
	return file("", catalog, pages, onePage, stream("", content), font, stream(form, ""))
}

func many(n int) []byte {
	kids := make([]string, n)
	objects := []string{catalog, "", font}
	for i := range n {
		kids[i] = fmt.Sprintf("%d 0 R", 4+2*i)
		objects = append(objects,
			fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents %d 0 R/Resources<</Font<</F 3 0 R>>>>>>", 5+2*i),
			stream("", say(fmt.Sprintf("This is sheet %d.", i+1))))
	}
	objects[1] = fmt.Sprintf("<</Type/Pages/Count %d/Kids[%s]>>", n, strings.Join(kids, " "))
	return file("", objects...)
}

func TestPDF(t *testing.T) {
	t.Parallel()
	lease, err := os.ReadFile("../../apps/notes/demo/lease.pdf")
	if err != nil {
		t.Fatal(err)
	}
	d, err := extract.PDF(t.Context(), lease, extract.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--- page 1 of ", "3 Notice\nThree months to the end of a month."} {
		if !strings.Contains(d.String(), want) {
			t.Errorf("the lease has no %q:\n%s", want, d)
		}
	}
	t.Run("a range of pages", func(t *testing.T) {
		t.Parallel()
		d, err := extract.PDF(t.Context(), many(12), extract.Options{First: 3, Last: 4})
		const want = "--- page 3 of 12 ---\nThis is sheet 3.\n\n--- page 4 of 12 ---\nThis is sheet 4."
		if err != nil || d.String() != want || d.More {
			t.Errorf("got %q, more %t, %v; want %q", d, d.More, err, want)
		}
		if _, err := extract.PDF(t.Context(), many(2), extract.Options{First: 3}); parley.CodeOf(err) != parley.CodeInvalid || !strings.Contains(err.Error(), "has 2 pages") {
			t.Errorf("beyond the end: %v", err)
		}
	})
	t.Run("a limit within a page", func(t *testing.T) {
		t.Parallel()
		d, err := extract.PDF(t.Context(), many(2), extract.Options{MaxText: 7})
		if err != nil || len(d.Pages) != 1 || d.Pages[0] != (extract.Page{Number: 1, Text: "This is", Cut: true}) || !d.More {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

// TestHostile reads what is made to harm its reader. Afterwards an honest document is read.
func TestHostile(t *testing.T) {
	t.Parallel()
	bomb := deflate(deflate(bytes.Repeat([]byte("0 0 m "), 1<<18), 400), 1)
	inner := deflate(bytes.Repeat([]byte(" "), 1<<20), 900)
	locked := "/Encrypt<</Filter/Standard/V 1/R 2/Length 40/P -44/O<" + strings.Repeat("a1", 32) + ">/U<" + strings.Repeat("b2", 32) + ">>>/ID[<01><01>]"
	cases := map[string]struct {
		body []byte
		text string // what is read; "": that is left open, as long as it ends
		says string // of the error
	}{
		"deep arrays":              {body: single(strings.Repeat("[", 2_000_000))},
		"deep dictionary":          {body: file("", catalog, strings.Repeat("<</A", 500_000))},
		"deep page tree":           {body: file("", catalog, "<</Type/Pages/Count 9/Kids[2 0 R 2 0 R]>>")},
		"form in itself":           {body: file("", catalog, pages, onePage, stream("", "/X Do "+say("Before the loop.")), font, stream(form, "/X Do /X Do /X Do"))},
		"contents in themselves":   {body: file("", catalog, pages, onePage, "[4 0 R 4 0 R]", font, font)},
		"content that explodes":    {body: file("", catalog, pages, onePage, stream("/Filter[/FlateDecode/FlateDecode]", string(bomb)), font, font)},
		"object stream explodes":   {body: file("", catalog, pages, onePage, stream("/Type/ObjStm/N 1000000/First 10/Filter/FlateDecode", string(inner)), font, font)},
		"length in itself":         {body: file("", catalog, pages, onePage, "<</Length 4 0 R>>\nstream\n"+say("x")+"\nendstream", font, font)},
		"a count that is a lie":    {body: file("", catalog, "<</Type/Pages/Count 2147483647/Kids[3 0 R]>>", onePage, stream("", say("One.")), font, font)},
		"no xref":                  {body: bytes.ReplaceAll(bytes.ReplaceAll(single(say("Found again.")), []byte("xref"), []byte("xxxx")), []byte("startxxxx"), nil), text: "Found again."},
		"xref that points to it":   {body: file("/Prev 9", catalog, pages, onePage, stream("", say("One.")), font, font)},
		"encrypted":                {body: file(locked, catalog, pages, onePage, stream("", say("Secret.")), font, font), says: "encrypted"},
		"unknown encryption":       {body: file("/Encrypt<</Filter/Mine/V 9>>", catalog, pages, onePage, stream("", say("Secret.")), font, font), says: "encrypted"},
		"no text":                  {body: single("0 0 100 100 re f"), text: "This page has no text"},
		"a font without ToUnicode": {body: file("", catalog, pages, onePage, stream("", "BT /F 12 Tf <00010002> Tj ET"), "<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/DescendantFonts[<</Type/Font/Subtype/CIDFontType2/BaseFont/X/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>]>>", font)},
		"cut off":                  {body: single(say("Half."))[:200]},
		"no PDF":                   {body: []byte("%PDF-1.7\nnot at all"), says: "damaged"},
		"empty":                    {says: "damaged"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			d, err := extract.PDF(t.Context(), c.body, extract.Options{MaxTime: 3 * time.Second})
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			t.Logf("%d pages, %.80q, %v", d.Count, d, err)
			switch {
			case err != nil && !errors.As(err, new(*parley.Error)):
				t.Errorf("a raw error: %v", err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("got %v, want an error with %q", err, c.says)
			case c.text != "" && (err != nil || !strings.Contains(d.String(), c.text)):
				t.Errorf("got %q, %v; want %q", d, err, c.text)
			}
		})
	}
	if d, err := extract.PDF(t.Context(), single(say("Honest.")), extract.Options{}); err != nil || d.Pages[0].Text != "Honest." {
		t.Errorf("afterwards: %q, %v", d, err)
	}
}

func TestManyPages(t *testing.T) {
	t.Parallel()
	d, err := extract.PDF(t.Context(), many(10_000), extract.Options{MaxText: 100 << 10})
	if err != nil || d.Count != 10_000 || !d.More || len(d.Pages) == 0 || len(d.String()) > 120<<10 {
		t.Errorf("%d of %d pages in %d bytes, more %t: %v", len(d.Pages), d.Count, len(d.String()), d.More, err)
	}
	d, err = extract.PDF(t.Context(), many(10_000), extract.Options{First: 10_000})
	if err != nil || d.String() != "--- page 10000 of 10000 ---\nThis is sheet 10000." {
		t.Errorf("the last one: %q, %v", d, err)
	}
}

// TestStopped stops what would take long: by its time, and by its caller.
func TestStopped(t *testing.T) {
	t.Parallel()
	long := single(strings.Repeat(say("A long page."), 1_000_000))
	if _, err := extract.PDF(t.Context(), long, extract.Options{MaxTime: 50 * time.Millisecond}); parley.CodeOf(err) != parley.CodeTimeout {
		t.Errorf("the time is up: %v", err)
	}
	gone := errors.New("the caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(gone) })
	if _, err := extract.PDF(ctx, long, extract.Options{}); !errors.Is(err, gone) {
		t.Errorf("cancelled: %v", err)
	}
}

func FuzzPDF(f *testing.F) {
	f.Add(single(say("Hello")))
	f.Add(many(3))
	f.Add(single("/X Do"))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := extract.PDF(t.Context(), body, extract.Options{MaxText: 4 << 10, MaxTime: 2 * time.Second})
		if err != nil && !errors.As(err, new(*parley.Error)) {
			t.Errorf("a raw error: %v", err)
		}
		if err == nil && len(d.String()) > 64<<10 {
			t.Errorf("%d bytes", len(d.String()))
		}
	})
}
