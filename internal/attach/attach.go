//go:build unix

// Package attach reads the files that users attach to messages: what kind they are, and their text.
//
// The kind follows from the content; of a name, only the end of a text's is asked, to tell Markdown, CSV
// and plain text apart. Text in UTF-8, UTF-16 or an older character set is decoded here, images
// are made fit for models by package picture, and PDFs are read in the sandbox of package extract. HTML, Word and Excel files come from strangers, too, and
// their readers are ordinary code. So a process of its own reads each: this program as a helper,
// ended with maxTime, and with no more memory than maxMemory. Entities outside a document are not
// known to Go's XML reader, and what a file unpacks to is limited.
//
// What cannot be read is no error: a [Document] says why in words for the user and the model.
//
// Any program with this package can be the helper, a test, too: its init function sees that it was started as
// one, and main is not reached.
package attach

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/extract"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/picture"
	"github.com/parley-server/parley/internal/proc"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// MaxText is the most text that is taken from a file, in bytes.
	MaxText    = 4 << 20
	maxTime    = 20 * time.Second
	maxMemory  = 768 << 20
	maxAtOnce  = 2
	maxWaiting = 100
)

// Document is what was read of a file.
type Document = seam.Document

// Reader reads files. The zero value is not usable, see [New].
type Reader struct{ turns *fair.Turns }

// New makes a reader.
func New() *Reader {
	return &Reader{&fair.Turns{Slots: maxAtOnce, Each: 1, Queued: maxWaiting}}
}

// Read reads a file. Its error is ctx's, or [fair.ErrFull].
func (r *Reader) Read(ctx context.Context, who parley.Principal, name string, body []byte) (Document, error) {
	leave, err := r.turns.Enter(ctx, who)
	if err != nil {
		return Document{}, err
	}
	defer leave()
	d, err := read(ctx, name, body)
	if ctx.Err() != nil {
		return Document{}, context.Cause(ctx)
	}
	if err != nil {
		d.Text, d.Image, d.Why = "", nil, sentence(err)
	}
	if len(d.Text) > MaxText {
		d.Text, d.Cut = start(d.Text, MaxText), true
	}
	d.Text = clean(d.Text)
	if d.Why == "" && d.Image == nil && strings.TrimSpace(d.Text) == "" {
		d.Why = "It has no text."
	}
	return d, nil
}

func read(ctx context.Context, name string, body []byte) (Document, error) {
	kind := http.DetectContentType(body)
	switch {
	case len(body) == 0:
		return Document{MediaType: "application/octet-stream", Why: "It is empty."}, nil
	case extract.IsPDF(body):
		return pdf(ctx, body)
	case strings.HasPrefix(kind, "image/"):
		p, err := picture.Fit(ctx, body)
		if err != nil {
			return Document{MediaType: kind}, err
		}
		return Document{MediaType: p.MediaType, Image: p.Body}, nil
	case bytes.HasPrefix(body, []byte("PK\x03\x04")):
		return helped(ctx, "zip", body)
	case bytes.HasPrefix(body, []byte{0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1}):
		return Document{MediaType: "application/x-ole-storage", Why: "It is an Office file of an old form, or one with a password. Save it as .docx or .xlsx without a password."}, nil
	}
	text, ok := decode(body)
	if !ok {
		if kind == "application/octet-stream" || strings.HasPrefix(kind, "text/") {
			return Document{MediaType: "application/octet-stream", Why: "It is of a kind that is not known here."}, nil
		}
		return Document{MediaType: kind, Why: fmt.Sprintf("It is of the kind %s, of which no text is taken.", kind)}, nil
	}
	switch head := strings.ToLower(start(strings.TrimSpace(text), 500)); {
	case strings.HasPrefix(head, "<!doctype html"), strings.HasPrefix(head, "<html"), strings.HasPrefix(kind, "text/html") && strings.Contains(head, "<"):
		return helped(ctx, "html", body)
	}
	return Document{MediaType: textType(name), Text: text}, nil
}

// textType is the media type of a text, by the end of its name.
func textType(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".markdown":
		return "text/markdown; charset=utf-8"
	case ".csv":
		return "text/csv; charset=utf-8"
	case ".tsv", ".tab":
		return "text/tab-separated-values; charset=utf-8"
	case ".json":
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

func pdf(ctx context.Context, body []byte) (Document, error) {
	d := Document{MediaType: "application/pdf"}
	doc, err := extract.PDF(ctx, body, extract.Options{MaxText: MaxText})
	switch {
	case err != nil:
		return d, err
	case doc.Blank() && !doc.More:
		d.Why = fmt.Sprintf("It has %d pages and no text. They may be images, as in a scanned document.", doc.Count)
		return d, nil
	}
	d.Text, d.Cut = doc.String(), doc.More
	return d, nil
}

// decode is a text in UTF-8, of a file that is one. A byte order mark decides; otherwise UTF-8 is tried
// first, then UTF-16 without a mark, then Windows-1252, in which any bytes are characters: so control
// characters show that a file is no text.
func decode(body []byte) (string, bool) {
	switch {
	case bytes.HasPrefix(body, []byte{0xef, 0xbb, 0xbf}):
		body = body[3:]
	case bytes.HasPrefix(body, []byte{0xff, 0xfe}):
		return wide(body[2:], false)
	case bytes.HasPrefix(body, []byte{0xfe, 0xff}):
		return wide(body[2:], true)
	}
	if utf8.Valid(body) && printable(string(body)) {
		return string(body), true
	}
	sample := body[:min(len(body), 4<<10)&^1]
	low, high := 0, 0
	for i := 0; i+1 < len(sample); i += 2 {
		if sample[i] == 0 {
			high++
		}
		if sample[i+1] == 0 {
			low++
		}
	}
	switch half := len(sample) / 2; {
	case half > 0 && low > half*3/4 && high == 0:
		return wide(body, false)
	case half > 0 && high > half*3/4 && low == 0:
		return wide(body, true)
	}
	text, err := charmap.Windows1252.NewDecoder().String(string(body))
	return text, err == nil && printable(text)
}

// wide decodes UTF-16.
func wide(body []byte, big bool) (string, bool) {
	units := make([]uint16, len(body)/2)
	for i := range units {
		a, b := uint16(body[2*i]), uint16(body[2*i+1])
		if big {
			a, b = b, a
		}
		units[i] = a | b<<8
	}
	text := string(utf16.Decode(units))
	return text, printable(text)
}

// printable reports whether a text has no control characters that texts do not have.
func printable(text string) bool {
	bad := 0
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f' && r != 0x1b || r == utf8.RuneError || 0x7f <= r && r < 0xa0 && r != 0x85 {
			bad++
		}
	}
	return bad*200 <= utf8.RuneCountInString(text)
}

// argument is the first argument of the helper.
const argument = "read-document"

// Not every main function could be relied on to begin with a call: those of tests are strangers'.
func init() {
	if len(os.Args) != 3 || os.Args[1] != argument {
		return
	}
	body, err := io.ReadAll(os.Stdin)
	var d Document
	if err == nil {
		d, err = parse(os.Args[2], body)
	}
	if err != nil {
		d.Text, d.Why = "", sentence(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(d)
	os.Exit(0)
}

// helped reads a file in a process of its own.
func helped(ctx context.Context, form string, body []byte) (Document, error) {
	self, err := os.Executable()
	if err != nil {
		return Document{}, err
	}
	d := Document{MediaType: map[string]string{"zip": "application/zip", "html": "text/html"}[form]}
	limit, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	var out, errs bytes.Buffer
	p, err := proc.Start(limit, proc.Spec{
		Args: []string{self, argument, form}, Dir: "/", Env: []string{"GOMAXPROCS=1", "GOMEMLIMIT=512MiB"}, Memory: maxMemory,
		Stdin: bytes.NewReader(body), Stdout: &capped{&out, 2*MaxText + 1<<20}, Stderr: &capped{&errs, 1 << 10},
	})
	if err != nil {
		return d, err
	}
	err = p.Wait()
	switch {
	case limit.Err() != nil:
		d.Why = fmt.Sprintf("It could not be read within %s.", maxTime)
	case err != nil:
		d.Why = fmt.Sprintf("It could not be read with %d MB of memory; it may be damaged.", maxMemory>>20)
	case json.Unmarshal(out.Bytes(), &d) != nil:
		d.Why = "It could not be read; it may be damaged."
	}
	return d, nil
}

// capped drops what is beyond its limit.
type capped struct {
	to   *bytes.Buffer
	most int
}

func (c *capped) Write(p []byte) (int, error) {
	if room := c.most - c.to.Len(); room > 0 {
		c.to.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// sentence says an error as one.
func sentence(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*parley.Error](err); ok {
		text = e.Message
	}
	if text = strings.TrimRight(strings.TrimSpace(text), "."); text == "" {
		return "It could not be read."
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// start is the beginning of a text, up to a whole character.
func start(text string, most int) string {
	if most >= len(text) {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// clean makes text of what a file had: valid, with line breaks of one kind, and without characters that
// hide or reorder others.
func clean(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(text, "\ufffd"))
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ' || 0x7f <= r && r < 0xa0, r == '\ufeff', 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069, 0xe0000 <= r && r <= 0xe007f:
			return -1
		}
		return r
	}, text)
}
