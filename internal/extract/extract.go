// Package extract takes the text out of PDFs, one page at a time.
//
// A document comes from a stranger, so its parser is PDFium in a WebAssembly sandbox: no file, no
// network, no more memory than maxMemory, and no more time than maxTime. What the parser does to
// itself ends with its sandbox; each document gets a new one. At most maxAtOnce are open in the
// process, and further calls wait.
//
// The first call compiles the parser, which takes a few seconds of processor time and about 400 MB
// for that moment, or reads it from a folder where an earlier process has kept it (see [Cache]), which
// takes a tenth of a second. A process that reads no document does neither. A call that has waited
// maxStart for it fails as unavailable; the compiling goes on.
//
// An error's message is for the model: the document is encrypted, damaged, or too large.
package extract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

const (
	maxMemory = 256 << 20        // of one sandbox, with the document in it
	maxTime   = 15 * time.Second // for one document
	maxAtOnce = 2
	maxStart  = 20 * time.Second // that a call waits for the compiling: less than its tool may take
)

// Longest is how long a call of [PDF] takes at most, without what it waits for other documents.
const Longest = maxStart + maxTime

// Options say what to read of a document.
type Options struct {
	First, Last int           // pages, counted from 1; 0: the first and the last one there are
	MaxText     int           // bytes of text, about; 0: 1 MiB
	MaxTime     time.Duration // 0, or more than maxTime: maxTime
}

// Page is the text of a page. It is UTF-8 and has no control characters but tabs and line breaks.
type Page struct {
	Number int
	Text   string
	Cut    bool // the page has more text
}

// Document is what was read of a document.
type Document struct {
	Count int    // how many pages it has
	Pages []Page // in order, without gaps
	More  bool   // pages that were asked for are missing, or the last one is cut
	Late  bool   // that is because the time was up
}

// IsPDF reports whether a file says that it is a PDF.
func IsPDF(body []byte) bool {
	version, ok := bytes.CutPrefix(body, []byte("%PDF-"))
	return ok && len(version) > 0 && '0' <= version[0] && version[0] <= '9'
}

// Blank reports whether no page has text, as in a scanned document.
func (d Document) Blank() bool {
	for _, p := range d.Pages {
		if p.Text != "" {
			return false
		}
	}
	return true
}

// String is the text with a line before each page.
func (d Document) String() string {
	var b strings.Builder
	for i, p := range d.Pages {
		if i > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "--- page %d of %d ---\n", p.Number, d.Count)
		if p.Text == "" {
			b.WriteString("(This page has no text. It may be an image.)")
		}
		b.WriteString(p.Text)
		if p.Cut {
			b.WriteString("\n(The text of this page is cut here.)")
		}
	}
	return b.String()
}

// PDF reads a PDF. Its errors have the codes invalid, too_large, timeout and unavailable, or are ctx's.
func PDF(ctx context.Context, body []byte, o Options) (Document, error) {
	if o.MaxText <= 0 {
		o.MaxText = 1 << 20
	}
	if o.MaxTime <= 0 || o.MaxTime > maxTime {
		o.MaxTime = maxTime
	}
	if len(body) > maxMemory/2 {
		return Document{}, errTooLarge
	}
	pool, err := started(ctx)
	if err != nil {
		return Document{}, err
	}
	in, err := pool.GetInstanceWithContext(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return Document{}, context.Cause(ctx)
		}
		return Document{}, parley.Errorf(parley.CodeUnavailable, "the reader of PDFs does not start: %w", err)
	}
	limit, cancel := context.WithTimeout(ctx, o.MaxTime)
	defer cancel()
	killed := make(chan struct{})
	stop := context.AfterFunc(limit, func() {
		defer close(killed)
		_ = in.Kill() // ends the call that runs in it
	})
	d, err := read(limit, in, body, o)
	if stop() {
		_ = in.Close()
	} else {
		<-killed
	}
	switch {
	case ctx.Err() != nil:
		return Document{}, context.Cause(ctx)
	case limit.Err() != nil && len(d.Pages) > 0:
		d.More, d.Late = true, true
		return d, nil
	case limit.Err() != nil:
		return Document{}, parley.Errorf(parley.CodeTimeout, "the PDF could not be read within %s", o.MaxTime).WithHint("it may be damaged; ask for the text in another form")
	case err != nil && len(d.Pages) > 0 && !errors.As(err, new(*parley.Error)):
		d.More = true // the sandbox is gone, what came before it is good
		return d, nil
	}
	return d, err
}

var errTooLarge = parley.Errorf(parley.CodeTooLarge, "the PDF needs more than %d MB to be read", maxMemory>>20).WithHint("split it into smaller files")

// clean makes text for a model of what a parser returned.
func clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return '\n'
		case r < ' ' || 0x7f <= r && r < 0xa0, r == '\ufeff', r == '\ufffe', r == '\uffff', 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069, 0xe0000 <= r && r <= 0xe007f:
			return -1 // 2 is PDFium's hyphen at the end of a line, whose word goes on
		}
		return r
	}, text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// start is the beginning of a text, up to a whole character.
func start(text string, most int) string {
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
