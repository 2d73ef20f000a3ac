package openai_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/model/openai"
	"github.com/parley-server/parley/internal/seam"
)

var update = flag.Bool("update", false, "rewrite what the streams of testdata become")

// sections returns the parts of a file that follow lines like "-- name --".
func sections(file string) map[string]string {
	out := map[string]string{}
	name, from := "", 0
	for at := 0; at <= len(file); {
		end := strings.IndexByte(file[at:], '\n')
		if end < 0 {
			break
		}
		line := file[at : at+end]
		if strings.HasPrefix(line, "-- ") && strings.HasSuffix(line, " --") {
			out[name] = file[from:at]
			name, from = line[3:len(line)-3], at+end+1
		}
		at += end + 1
	}
	out[name] = file[from:]
	return out
}

// outcome is the result of a stream.
type outcome struct {
	Text     string            `json:"text,omitempty"`
	Thinking string            `json:"thinking,omitempty"`
	Reply    *seam.Reply       `json:"reply,omitempty"`
	Error    *parley.ErrorInfo `json:"error,omitempty"`
}

func read(t testing.TB, m seam.Model, r seam.Request) outcome {
	t.Helper()
	var o outcome
	var text, thinking strings.Builder
	for d, err := range m.Stream(t.Context(), r) {
		if o.Reply != nil || o.Error != nil {
			t.Errorf("the stream went on after its end with %+v, %v", d, err)
		}
		if !utf8.ValidString(d.Text) || !utf8.ValidString(d.Thinking) {
			t.Errorf("got a delta that ends inside a character: %q %q", d.Text, d.Thinking)
		}
		text.WriteString(d.Text)
		thinking.WriteString(d.Thinking)
		o.Reply = d.Reply
		if err != nil {
			e, ok := errors.AsType[*parley.Error](err)
			if !ok || e.Message == "" || e.Hint == "" {
				t.Errorf("got %#v, want an error that explains itself", err)
			}
			in := parley.Info(err)
			o.Error = &in
		}
	}
	o.Text, o.Thinking = text.String(), thinking.String()
	switch {
	case o.Reply == nil && o.Error == nil:
		t.Error("the stream ended with neither a reply nor an error")
	case o.Reply != nil && parley.PartsText(o.Reply.Parts) != o.Text:
		t.Errorf("streamed %q, replied %q", o.Text, parley.PartsText(o.Reply.Parts))
	}
	return o
}

// TestStreams reads streams as servers sent them, or as their documentation has them.
func TestStreams(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/streams/*.txt")
	if err != nil || len(files) < 30 {
		t.Fatalf("got %d streams, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := sections(string(raw))
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", cmp.Or(strings.TrimSpace(s["type"]), "text/event-stream"))
				_, _ = io.WriteString(w, s["stream"])
			}))
			t.Cleanup(srv.Close)
			c := client(t, openai.Options{BaseURL: srv.URL, Key: key, Dialect: openai.Dialect(cmp.Or(strings.TrimSpace(s["dialect"]), "plain"))})
			got, err := json.MarshalIndent(read(t, c.Model(info("m")), modeltest.Ask()), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				before, _, _ := strings.Cut(string(raw), "-- becomes --\n")
				if err := os.WriteFile(file, []byte(before+"-- becomes --\n"+string(got)+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := gocmp.Diff(s["becomes"], string(got)+"\n"); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
