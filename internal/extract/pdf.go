package extract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/klippa-app/go-pdfium"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/parley-server/parley"
)

// The compiled parser is the process's: it has no state of a document, and compiling it twice would
// cost its time and memory twice.
var (
	compileOnce sync.Once
	compileDone = make(chan struct{})
	sandboxes   pdfium.Pool
	errCompile  error
)

// Ready waits until the parser is compiled.
func Ready(ctx context.Context) error {
	_, err := compiled(ctx)
	return err
}

// started is compiled for a caller that cannot wait long.
func started(ctx context.Context) (pdfium.Pool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxStart, parley.Errorf(parley.CodeUnavailable, "the reader of PDFs is not ready yet").WithHint("try again in a few seconds"))
	defer cancel()
	return compiled(ctx)
}

// compiled returns the sandboxes. Compiling goes on when a caller gives up, for the next one.
func compiled(ctx context.Context) (pdfium.Pool, error) {
	compileOnce.Do(func() {
		go func() {
			defer close(compileDone)
			errCompile = cached(cacheFolder(), func(c wazero.CompilationCache) (err error) {
				sandboxes, err = initParser(c)
				return err
			})
		}()
	})
	select {
	case <-compileDone:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if errCompile != nil {
		return nil, parley.Errorf(parley.CodeUnavailable, "PDFs cannot be read on this machine: %w", errCompile)
	}
	return sandboxes, nil
}

func initParser(c wazero.CompilationCache) (pdfium.Pool, error) {
	rc := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling).
		WithMemoryLimitPages(maxMemory >> 16).
		WithCloseOnContextDone(true)
	if c != nil {
		rc = rc.WithCompilationCache(c)
	}
	return webassembly.Init(webassembly.Config{
		Context:       experimental.WithCompilationWorkers(context.Background(), runtime.GOMAXPROCS(0)),
		MaxTotal:      maxAtOnce, // none is kept: each document has a new one
		FSConfig:      wazero.NewFSConfig(),
		Stdout:        io.Discard,
		Stderr:        io.Discard,
		RuntimeConfig: rc,
	})
}

// read reads pages in a sandbox. What it returns besides an error was read before that.
func read(ctx context.Context, in pdfium.Pdfium, body []byte, o Options) (d Document, err error) {
	defer func() {
		if p := recover(); p != nil { // the sandbox answered something that the library does not expect
			err = fmt.Errorf("read a PDF: %v", p)
		}
		if err != nil && ctx.Err() == nil && !errors.As(err, new(*parley.Error)) && len(d.Pages) == 0 {
			err = damaged(err)
		}
	}()
	doc, err := in.OpenDocument(&requests.OpenDocument{File: &body})
	if err != nil {
		return d, err
	}
	n, err := in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil {
		return d, err
	}
	if d.Count = n.PageCount; d.Count <= 0 {
		return d, parley.Errorf(parley.CodeInvalid, "the PDF has no pages")
	}
	first, last := max(o.First, 1), d.Count
	if o.Last > 0 {
		last = min(o.Last, d.Count)
	}
	if o.Last > 0 && o.Last < first {
		return d, parley.Errorf(parley.CodeInvalid, "page %d comes before page %d", o.Last, first)
	}
	if first > d.Count {
		return d, parley.Errorf(parley.CodeInvalid, "the PDF has %d pages; page %d is beyond its end", d.Count, first)
	}
	room := o.MaxText
	for i := first; i <= last; i++ {
		if room <= 0 {
			d.More = true
			break
		}
		p, err := page(in, doc.Document, i, room)
		if err != nil {
			return d, err
		}
		d.Pages = append(d.Pages, p)
		room -= len(p.Text) + 32 // a page without text takes room, too: for its heading
		d.More = p.Cut
	}
	return d, nil
}

// page reads one page. A page that is damaged has no text.
func page(in pdfium.Pdfium, doc references.FPDF_DOCUMENT, number, room int) (Page, error) {
	p := Page{Number: number}
	loaded, err := in.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: doc, Index: number - 1})
	if err != nil {
		return p, lost(err)
	}
	text, err := in.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: requests.Page{ByReference: &loaded.Page}})
	if err != nil {
		return p, lost(err)
	}
	n, err := in.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: text.TextPage})
	if err != nil {
		return p, lost(err)
	}
	if count := min(n.Count, room); count > 0 {
		got, err := in.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: text.TextPage, Count: count})
		if err != nil {
			return p, lost(err)
		}
		p.Text, p.Cut = clean(got.Text), count < n.Count
		if len(p.Text) > room {
			p.Text, p.Cut = start(p.Text, room), true
		}
	}
	if _, err = in.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: text.TextPage}); err != nil {
		return p, lost(err)
	}
	_, err = in.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page})
	return p, lost(err)
}

// lost is nil for what PDFium says of one page, after which it can go on with the next.
func lost(err error) error {
	for _, one := range []error{pdferrors.ErrPage, pdferrors.ErrFormat, pdferrors.ErrUnknown, pdferrors.ErrSuccess} {
		if errors.Is(err, one) {
			return nil
		}
	}
	return err
}

func damaged(err error) error {
	switch {
	case errors.Is(err, pdferrors.ErrPassword):
		return parley.Errorf(parley.CodeInvalid, "the PDF is encrypted and opens only with a password").WithHint("ask the user for a copy without one")
	case errors.Is(err, pdferrors.ErrSecurity):
		return parley.Errorf(parley.CodeInvalid, "the PDF is encrypted in a way that cannot be read").WithHint("ask the user for a copy without encryption")
	}
	return parley.Errorf(parley.CodeInvalid, "the PDF is damaged or needs more than %d MB to be read", maxMemory>>20).WithHint("ask for the text in another form")
}
