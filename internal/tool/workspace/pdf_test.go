package workspace_test

import (
	"os"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/extract"
)

// TestPDF reads the pages of a PDF. What was read counts as seen.
func TestPDF(t *testing.T) {
	t.Parallel()
	lease, err := os.ReadFile("../../../apps/notes/demo/lease.pdf")
	if err != nil {
		t.Fatal(err)
	}
	if err := extract.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, map[string]string{"lease.pdf": string(lease), "odd.PDF": "\n" + string(lease), "notes.md": "%PDF- is how a PDF begins.\n", "bad.pdf": "%PDF-1.7\nnothing"})
	for _, file := range []string{"lease.pdf", "odd.PDF"} {
		got := d.ok("Read", in{"file_path": file}).Output
		if !strings.HasPrefix(got, "--- page 1 of ") || !strings.Contains(got, "Three months to the end of a month.") {
			t.Errorf("%s is read as %q", file, got)
		}
	}
	for _, pages := range []string{"1", "1-1", " 1 - ", "1-900"} {
		if got := d.ok("Read", in{"file_path": "lease.pdf", "pages": pages}).Output; !strings.HasPrefix(got, "--- page 1 of ") {
			t.Errorf("pages %q: %q", pages, got)
		}
	}
	for _, pages := range []string{"0", "-3", "3-2", "2-0", "all", "1-2-3", "99999999999999999999"} {
		d.refused("Read", in{"file_path": "lease.pdf", "pages": pages}, "are not pages")
	}
	d.refused("Read", in{"file_path": "lease.pdf", "pages": "99"}, "page 99 is beyond its end")
	d.refused("Read", in{"file_path": "lease.pdf", "offset": 2}, "choose pages")
	d.refused("Read", in{"file_path": "notes.md", "pages": "1"}, "is not a PDF")
	d.refused("Read", in{"file_path": "bad.pdf"}, "bad.pdf: the PDF is damaged")
	if got := d.ok("Read", in{"file_path": "notes.md"}).Output; !strings.Contains(got, "1\t%PDF- is how") {
		t.Errorf("a text about PDFs is read as %q", got)
	}
	d.refused("Write", in{"file_path": "bad.pdf", "content": "x"}, "read")
	d.ok("Write", in{"file_path": "lease.pdf", "content": "x"}) // it has been read
}
