package notion_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/records"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/notion"
)

const demo = `{
  "docs": [
    {
      "id": "doc_1",
      "title": "MVP Authentication Specs",
      "last_updated": "2026-01-15",
      "content": "For the MVP, we will implement a standard Email and Password authentication system. Do not use third-party providers yet to save time."
    }
  ]
}
`

func ask(t *testing.T, data records.Folder, query string) parley.ToolResult {
	t.Helper()
	in, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	res, err := notion.New(data).Run(t.Context(), seam.Run{Name: notion.Tool, Input: in})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func folder(files map[string]string) records.Folder {
	fsys := fstest.MapFS{}
	for name, body := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(body), ModTime: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	}
	return records.Folder{FS: fsys, Name: "data"}
}

const found = "[Notion | MVP Authentication Specs | Last updated: 2026-01-15] For the MVP, we will implement a standard Email and Password authentication system. Do not use third-party providers yet to save time."

func TestSearch(t *testing.T) {
	t.Parallel()
	many := `{"docs":[
		{"title":"Old","last_updated":"2025-12-31","content":"alpha"},
		{"title":"New","last_updated":"2026-02-01","content":"first line\n\n  second ALPHA line\r\n"},
		{"title":"Undated alpha","last_updated":"some day","content":""},
		{"title":"Other","last_updated":"2026-02-02","content":"beta"},
		{"title":"Same day","last_updated":"2026-02-01","content":"alpha"}]}`
	for name, c := range map[string]struct{ data, query, want string }{
		"the demo":             {demo, "login system", found},
		"in the title":         {demo, "SPECS", found},
		"a part of a word":     {demo, "auth", found},
		"punctuation":          {demo, "password?!", found},
		"no keyword occurs":    {demo, "billing", "No relevant Notion document found for query: billing"},
		"stop words only":      {demo, "what is the", "No relevant Notion document found for query: what is the"},
		"nothing asked":        {demo, "", "No relevant Notion document found for query: "},
		"all, newest first":    {many, "Alpha", "[Notion | New | Last updated: 2026-02-01] first line second ALPHA line\n[Notion | Same day | Last updated: 2026-02-01] alpha\n[Notion | Old | Last updated: 2025-12-31] alpha\n[Notion | Undated alpha | Last updated: some day] "},
		"the date is no field": {demo, "2026-01-15", "No relevant Notion document found for query: 2026-01-15"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, folder(map[string]string{"mock_notion.json": c.data}), c.query)
			if diff := cmp.Diff(parley.ToolResult{Outcome: parley.OutcomeOK, Output: c.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBadFileIsAToolError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"missing":    {nil, "data/mock_notion.json: the file is missing"},
		"malformed":  {map[string]string{"mock_notion.json": "{\n \"docs\": [}\n"}, "data/mock_notion.json:2:11: not JSON: "},
		"wrong type": {map[string]string{"mock_notion.json": `{"docs":[{"title":5}]}`}, "data/mock_notion.json:1:19: docs[0].title is a number, and has to be text"},
		"no field":   {map[string]string{"mock_notion.json": `{"docs":[{"title":"x","content":""}]}`}, `data/mock_notion.json:1:10: docs[0] has no "last_updated"`},
		"no zip":     {map[string]string{"notion_export.zip": "hello"}, "data/notion_export.zip: not a zip archive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, folder(c.files), "login")
			if got.Outcome != parley.OutcomeError || !strings.HasPrefix(got.Output, c.want) || got.Error == nil || got.Error.Code != parley.CodeTool || got.Error.Hint == "" {
				t.Errorf("got %+v (%+v), want %q", got, got.Error, c.want)
			}
		})
	}
}

func TestFileIsReadAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := records.Folder{FS: os.DirFS(dir), Name: dir}
	if got := ask(t, data, "login system"); got.Outcome != parley.OutcomeError || !strings.Contains(got.Output, filepath.Join(dir, "mock_notion.json")) {
		t.Fatalf("got %+v, want an error that names the file", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "mock_notion.json"), []byte(demo), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, data, "login system"); got.Output != found {
		t.Fatalf("got %+v", got)
	}
}

var pages = map[string]string{
	"Specs 0123456789abcdef0123456789abcdef.md":                                           "# Login Specs\n\nOwner: Ana\nLast edited: February 27, 2026 10:00 AM\n\nUse *OAuth*.\n\n- one\n",
	"Specs 0123456789abcdef0123456789abcdef/Sub page 00112233445566778899aabbccddeeff.md": "---\nlast_updated: 2026-01-02\ntitle: Front\n---\nOAuth later\n",
	"Plain 00112233445566778899aabbccddee00.md":                                           "Decision: OAuth\n",
	"table 00112233445566778899aabbccddee01.csv":                                          "OAuth,1\n",
}

// The files were written in March, after every page that has a date: a page
// without one must not come before them for that.
const exported = "[Notion | Login Specs | Last updated: 2026-02-27] Owner: Ana Use *OAuth*. - one\n" +
	"[Notion | Front | Last updated: 2026-01-02] OAuth later\n" +
	"[Notion | Plain | Last updated: unknown] Decision: OAuth"

func pack(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, body := range files {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExport(t *testing.T) {
	t.Parallel()
	dir := map[string]string{}
	for name, body := range pages {
		dir["notion_export/"+name] = body
	}
	both := map[string]string{"notion_export.zip": pack(t, pages), "mock_notion.json": `{"docs":[{"title":"T","last_updated":"2026-05-05","content":"oauth"}]}`}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a folder":       {dir, exported},
		"an archive":     {map[string]string{"notion_export.zip": pack(t, pages)}, exported},
		"in parts":       {map[string]string{"notion_export.zip": pack(t, map[string]string{"ExportBlock-Part-1.zip": pack(t, pages)})}, exported},
		"beside records": {both, "[Notion | T | Last updated: 2026-05-05] oauth\n" + exported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, folder(c.files), "OAuth")
			if diff := cmp.Diff(parley.ToolResult{Outcome: parley.OutcomeOK, Output: c.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCancelEndsTheSearch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := notion.New(folder(map[string]string{"notion_export/a.md": "x"})).Run(ctx, seam.Run{Input: json.RawMessage(`{"query":"x"}`)})
	if err == nil {
		t.Error("got no error")
	}
}
