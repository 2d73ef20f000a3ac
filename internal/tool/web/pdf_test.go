package web_test

import (
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/extract"
	"github.com/parley-server/parley/internal/tool/web"
)

// TestFetchPDF: the text of a PDF stands inside the fence, and is kept like a page.
func TestFetchPDF(t *testing.T) {
	t.Parallel()
	lease, err := os.ReadFile("../../../apps/notes/demo/lease.pdf")
	if err != nil {
		t.Fatal(err)
	}
	if err := extract.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/pdf")
		if r.URL.Path == "/bad.pdf" {
			_, _ = w.Write([]byte("%PDF-1.7 and nothing"))
			return
		}
		_, _ = w.Write(lease)
	})
	tools := newTools(t, s, web.Options{Now: noon})
	for range 2 {
		out, err := fetch(t, tools, s.at("site.example", "/lease.pdf"))
		if err != nil {
			t.Fatal(err)
		}
		if text, _, note := inside(t, out); note != "" || !strings.Contains(text, "--- page 1 of ") || !strings.Contains(text, "Three months to the end of a month.") {
			t.Errorf("got %q, %q", text, note)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the site was asked %d times", n)
	}
	if out, err := fetch(t, tools, s.at("site.example", "/bad.pdf")); parley.CodeOf(err) != parley.CodeInvalid || !strings.Contains(err.Error(), "the PDF is damaged") {
		t.Errorf("a damaged one: %q, %v", out, err)
	}
}
