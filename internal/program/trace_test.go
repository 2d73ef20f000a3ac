package program

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/telemetry"
)

// TestTraces: when a command ends, it has sent its turn's trace to the address in the settings,
// with the key that they refer to.
func TestTraces(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var spans []*tracepb.Span
	auth := map[string]bool{}
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		raw, err := io.ReadAll(z)
		var data tracepb.TracesData
		if err != nil || proto.Unmarshal(raw, &data) != nil || r.URL.Path != "/otel/v1/traces" {
			http.Error(w, "not a trace", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		auth[r.Header.Get("Authorization")] = true
		for _, rs := range data.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				spans = append(spans, ss.Spans...)
			}
		}
	}))
	defer collector.Close()
	p := newProgram(t, "PARLEY_ENABLED=chaos", "COLLECTOR_AUTH=hunter2")
	settings := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(p.dir, "parley.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings("telemetry:\n  otlp_endpoint: " + collector.URL + "/otel\n  headers: {Authorization: \"Basic ${COLLECTOR_AUTH}\"}\n")
	code, out, errs := p.run("run", "What is the final spec for the login?")
	if code != 0 || strings.Contains(out+errs, "hunter2") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	turn := regexp.MustCompile(`turn ([0-9A-Z]{26})`).FindStringSubmatch(out + errs)
	if turn == nil {
		t.Fatalf("no turn is named in\n%s%s", out, errs)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(auth) != 1 || !auth["Basic hunter2"] {
		t.Errorf("the collector was asked with %v", auth)
	}
	var names []string
	for _, s := range spans {
		names = append(names, s.Name)
		if id := telemetry.TraceID(parley.TurnID(turn[1])); id != hex.EncodeToString(s.TraceId) {
			t.Errorf("%s is in trace %x, want %s", s.Name, s.TraceId, id)
		}
	}
	for _, name := range []string{"invoke_agent interface", "invoke_agent scavenger", "invoke_agent synthesizer", "execute_tool read_slack_mock", "execute_tool read_notion_mock", "chat chaos"} {
		if !slices.Contains(names, name) {
			t.Errorf("no span %s in %v", name, names)
		}
	}

	settings("")
	p.env = append(p.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_EXPORTER_OTLP_HEADERS=hunter2")
	code, out, errs = p.run("run", "What is the final spec for the login?")
	if code != exitUsage || !strings.Contains(errs, "OTEL_EXPORTER_OTLP_HEADERS") || strings.Contains(out+errs, "hunter2") {
		t.Errorf("a malformed header: exit %d\n%s%s", code, out, errs)
	}
}
