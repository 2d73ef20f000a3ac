package telemetry_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/telemetry"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func env(vars ...string) func(string) (string, bool) {
	m := map[string]string{}
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		m[name] = value
	}
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

// oneTurn appends a turn that ends at once.
func oneTurn(t *testing.T, s seam.Store, id parley.TurnID, started parley.TurnStarted) {
	t.Helper()
	session := parley.SessionID("s" + id)
	made := parley.NewEvent("", "", parley.SessionCreated{App: "test", User: "ana"})
	begun := parley.NewEvent(id, "", started)
	ended := parley.NewEvent(id, "", parley.TurnCompleted{Response: parley.Response{Message: "done"}})
	events := []parley.Event{made, begun, ended}
	for i := range events {
		events[i].Session, events[i].Seq, events[i].Time = session, int64(i)+1, time.Unix(1000, 0).UTC()
	}
	info := parley.SessionInfo{ID: session, App: "test", User: "ana", Status: parley.Active, CreatedAt: events[0].Time, UpdatedAt: events[0].Time}
	if err := s.Append(context.Background(), parley.Principal{User: "ana"}, seam.Batch{
		Session: session, Create: true, Owner: "n", Events: events, Index: seam.Index{Session: &info},
	}); err != nil {
		t.Fatal(err)
	}
}

func TestTracer_sends_where_it_is_told(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString([]byte("pk-lf-1:sk-lf-2"))
	for name, tc := range map[string]struct {
		o    telemetry.TraceOptions
		env  []string
		want string // address, then some of the headers
		warn string // expected in the log
	}{
		"nowhere": {},
		"a setting": {
			o:    telemetry.TraceOptions{Endpoint: "http://collector:4318"},
			want: "http://collector:4318/v1/traces gzip",
		},
		"Langfuse": {
			o: telemetry.TraceOptions{Endpoint: "https://cloud.langfuse.com/api/public/otel/", Headers: map[string]string{
				"Authorization": "Basic " + key, "x-langfuse-ingestion-version": "4",
			}},
			want: "https://cloud.langfuse.com/api/public/otel/v1/traces gzip Basic " + key + " 4",
		},
		"a whole address": {
			o:    telemetry.TraceOptions{Endpoint: "https://h/otel/v1/traces"},
			want: "https://h/otel/v1/traces gzip",
		},
		"the environment": {
			env:  []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://all:4318/x", "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Basic%20abc%3D, x-langfuse-ingestion-version=4", "OTEL_EXPORTER_OTLP_COMPRESSION=none"},
			want: "http://all:4318/x/v1/traces Basic abc= 4",
		},
		"the environment's own for traces": {
			env:  []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://all:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://traces:1/here", "OTEL_EXPORTER_OTLP_HEADERS=Authorization=all", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=Authorization=traces"},
			want: "http://traces:1/here gzip traces",
		},
		"the keys of the environment stay there": {
			o:    telemetry.TraceOptions{Endpoint: "http://mine:1"},
			env:  []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://all:4318", "OTEL_EXPORTER_OTLP_HEADERS=Authorization=all"},
			want: "http://mine:1/v1/traces gzip",
		},
		"another protocol": {
			env:  []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://all:4318", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
			want: "http://all:4318/v1/traces gzip",
			warn: "OTEL_EXPORTER_OTLP_PROTOCOL is not served",
		},
		"another protocol for traces": {
			env:  []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://all:4318", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json"},
			want: "http://all:4318/v1/traces gzip",
			warn: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is not served",
		},
		"off by the environment": {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://all:4318", "OTEL_TRACES_EXPORTER=none"}},
		"off for good":           {o: telemetry.TraceOptions{Endpoint: "http://mine:1"}, env: []string{"OTEL_SDK_DISABLED=true"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			var log bytes.Buffer
			tc.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			tc.o.Env = env(tc.env...)
			tc.o.Transport = transport(func(r *http.Request) (*http.Response, error) {
				got = strings.Join(strings.Fields(fmt.Sprint(r.URL, " ", r.Header.Get("Content-Encoding"), " ", r.Header.Get("Authorization"), " ", r.Header.Get("X-Langfuse-Ingestion-Version"))), " ")
				return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
			})
			tr, err := telemetry.NewTracer(tc.o)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), tc.warn) || tc.warn == "" && log.Len() > 0 {
				t.Errorf("the log says %q, want %q", log.String(), tc.warn)
			}
			oneTurn(t, tr.Store(mem.New()), "t", parley.TurnStarted{})
			flush(t, tr)
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTracer_refuses_settings_without_repeating_them(t *testing.T) {
	t.Parallel()
	const key = "sk-planted-0123456789"
	for name, tc := range map[string]struct {
		o    telemetry.TraceOptions
		env  []string
		want string
	}{
		"no address":     {o: telemetry.TraceOptions{Endpoint: key}, want: "telemetry.otlp_endpoint: is not an address; write it like https://collector.example.com:4318"},
		"a key in it":    {o: telemetry.TraceOptions{Endpoint: "https://u:" + key + "@host"}, want: "telemetry.otlp_endpoint: holds a user or a password; put them in a header"},
		"a bad header":   {o: telemetry.TraceOptions{Endpoint: "http://h", Headers: map[string]string{"A": key + "\n"}}, want: "telemetry.headers: a header cannot be sent: its name or value has characters that none may have"},
		"no header":      {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://h", "OTEL_EXPORTER_OTLP_HEADERS=" + key}, want: "OTEL_EXPORTER_OTLP_HEADERS: expected name=value,name=value, with %20 and the like for what is special"},
		"a bad escape":   {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://h", "OTEL_EXPORTER_OTLP_HEADERS=A=" + key + "%"}, want: "OTEL_EXPORTER_OTLP_HEADERS: expected name=value,name=value, with %20 and the like for what is special"},
		"no time":        {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://h", "OTEL_EXPORTER_OTLP_TIMEOUT=10s"}, want: "OTEL_EXPORTER_OTLP_TIMEOUT: is not a number of milliseconds"},
		"no certificate": {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://h", "OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere"}, want: "OTEL_EXPORTER_OTLP_CERTIFICATE: open /nowhere: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.o.Env = env(tc.env...)
			_, err := telemetry.NewTracer(tc.o)
			if err == nil || err.Error() != tc.want || parley.CodeOf(err) != parley.CodeInvalid {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// TestSecrets plants keys where a trace could pick them up. No key is in the data sent, with or without
// content, and the collector's own key is not in our log.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const mine = "hunter2-collector-key"
	key := "sk-ant-api03-" + strings.Repeat("aB3dE5gH", 10)
	for _, content := range []bool{false, true} {
		c := newCollector(t)
		c.status = []int{401}
		var log bytes.Buffer
		tr := tracer(t, c, func(o *telemetry.TraceOptions) {
			o.Content, o.Headers, o.Logger = content, map[string]string{"Authorization": "Bearer " + mine}, slog.New(slog.NewTextHandler(&log, nil))
		})
		model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if len(enginetest.Results(r)) > 0 {
				say("the key is " + key)
				return seam.Reply{State: []byte(`{"sealed":"` + key + `"}`)}, nil
			}
			return seam.Reply{Parts: []parley.Part{
				{Type: parley.PartThinking, Text: "I see " + key, Signature: []byte(`"c2lnbmF0dXJl"`)},
				enginetest.Call("look", text("weather")),
			}}, nil
		}
		rig := enginetest.Over(t, tr.Store(mem.New()), &enginetest.Service{}, model, enginetest.App())
		s := rig.Session()
		turn := rig.Send(s.ID, "my key is "+key)
		rig.Await(turn.ID)
		rig.Close()
		flush(t, tr)
		if len(c.requests) == 0 || c.requests[0].Header.Get("Authorization") != "Bearer "+mine {
			t.Fatal("the collector was not asked with its key")
		}
		raw := string(c.raw)
		for _, secret := range []string{key, key[20:50], mine, "c2lnbmF0dXJl"} {
			if strings.Contains(raw, secret) {
				t.Errorf("content %v: %q is in the trace", content, secret)
			}
		}
		for _, word := range []string{"my key is", "the key is", "I see", "seen weather"} {
			if strings.Contains(raw, word) != content {
				t.Errorf("content %v: it holds %q: %v", content, word, !content)
			}
		}
		if strings.Contains(log.String(), mine) || !strings.Contains(log.String(), "the collector answered 401 Unauthorized") {
			t.Errorf("the log says %s", &log)
		}
	}
}

func TestTracer_tries_again_and_counts_what_was_refused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
		answer := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
		var asked []time.Duration
		began := time.Now()
		m := telemetry.New(telemetry.Labels{Models: []string{"test/model"}, Tools: []string{"mail"}})
		tr, err := telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://h", Metrics: m, Transport: transport(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, time.Since(began))
			switch len(asked) {
			case 1:
				return nil, io.ErrUnexpectedEOF
			case 2:
				return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"7"}}, Body: http.NoBody}, nil
			case 3:
				return &http.Response{StatusCode: 200, Body: io.NopCloser(bytes.NewReader(answer))}, nil
			}
			return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"http://elsewhere"}}, Body: http.NoBody}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		store := tr.Store(mem.New())
		oneTurn(t, store, "one", parley.TurnStarted{})
		oneTurn(t, store, "two", parley.TurnStarted{})
		time.Sleep(20 * time.Second)
		oneTurn(t, store, "three", parley.TurnStarted{}) // it is redirected, and the redirect is not followed
		flush(t, tr)
		if diff := cmp.Diff([]time.Duration{2 * time.Second, 3 * time.Second, 10 * time.Second, 20 * time.Second}, asked); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		got := scrape(m)
		if sent, dropped := got[`parley_trace_spans_total{outcome="sent"}`], got[`parley_trace_spans_total{outcome="dropped"}`]; sent != "1" || dropped != "2" {
			t.Errorf("sent %s, dropped %s", sent, dropped)
		}
	})
}

// TestDeadCollector uses a collector that never answers a request. The bubble's clock moves only when
// every goroutine waits, so any delay of an append would be seen. The test ends only when every
// goroutine has ended.
func TestDeadCollector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.New(telemetry.Labels{Models: []string{"test/model"}, Tools: []string{"mail"}})
		tr, err := telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://h", Metrics: m, Transport: transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		if err != nil {
			t.Fatal(err)
		}
		store := tr.Store(m.Store(mem.New()))
		const turns = 12_000 // more than the queue holds
		began := time.Now()
		for i := range turns {
			oneTurn(t, store, parley.TurnID(fmt.Sprint(i)), parley.TurnStarted{})
			if i%1000 == 0 {
				synctest.Wait() // let the sender catch up
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("the appends waited for %s", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began = time.Now()
		tr.Close(ctx)
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("the end took %s", d)
		}
		oneTurn(t, store, "late", parley.TurnStarted{})
		got := scrape(m)
		if n := got[`parley_turns_total{app="test",status="completed"}`]; n != fmt.Sprint(turns+1) {
			t.Errorf("%s turns were counted", n)
		}
		if sent := got[`parley_trace_spans_total{outcome="sent"}`]; sent != "0" {
			t.Errorf("%s spans were sent", sent)
		}
		if n := got[`parley_trace_spans_total{outcome="dropped"}`]; n == "0" || n == "" {
			t.Error("no span was counted as dropped")
		}
		if n := got["parley_trace_appends_dropped_total"]; n == "0" {
			t.Error("the append after the end was not counted as untraced")
		}
	})
}

func TestTracer_links_a_retry_to_what_it_retries(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tr := tracer(t, c)
	store := tr.Store(mem.New())
	const first, second = parley.TurnID("01JZZZZZZZZZZZZZZZZZZZZZZ1"), parley.TurnID("01JZZZZZZZZZZZZZZZZZZZZZZ2")
	oneTurn(t, store, first, parley.TurnStarted{})
	oneTurn(t, store, second, parley.TurnStarted{TurnRequest: parley.TurnRequest{RetryOf: first}})
	flush(t, tr)
	same(t, c.tree(t, first)+c.tree(t, second), "invoke_agent\ninvoke_agent after invoke_agent\n")
	want := ulid.MustParse(string(first))
	if id := telemetry.TraceID(first); id != hex.EncodeToString(want[:]) {
		t.Errorf("the trace of turn %s is %s", first, id)
	}
}

// TestTrace_reads_what_it_missed: an append that was dropped, or that another process made, is read from
// the log.
func TestTrace_reads_what_it_missed(t *testing.T) {
	t.Parallel()
	const turn = parley.TurnID("01JZZZZZZZZZZZZZZZZZZZZZZ1")
	info := parley.SessionInfo{ID: "s", App: "test", User: "ana", Status: parley.Active, CreatedAt: time.Unix(1000, 0), UpdatedAt: time.Unix(1000, 0)}
	row := parley.TurnInfo{ID: turn, SessionID: "s", Status: parley.StatusRunning, FirstSeq: 2, CreatedAt: time.Unix(1000, 0), UpdatedAt: time.Unix(1000, 0)}
	batches := [][]parley.Event{
		{
			parley.NewEvent("", "", parley.SessionCreated{App: "test", User: "ana"}),
			parley.NewEvent(turn, "", parley.TurnStarted{}),
			parley.NewEvent(turn, "lead", parley.AgentStarted{Name: "lead"}),
			parley.NewEvent(turn, "lead", parley.ModelStarted{Call: "m1", Model: "test/model"}),
		},
		{
			parley.NewEvent(turn, "lead", parley.ModelReplied{Call: "m1", Model: "test/model"}),
			parley.NewEvent(turn, "lead", parley.ToolRequested{Call: "t1", Name: "look"}),
		},
		{parley.NewEvent(turn, "lead", parley.ToolStarted{Call: "t1", Name: "look", Attempt: 1})},
		{
			parley.NewEvent(turn, "lead", parley.ToolEnded{Name: "look", ToolResult: parley.ToolResult{Call: "t1", Outcome: parley.OutcomeOK}}),
			parley.NewEvent(turn, "", parley.TurnCompleted{}),
		},
	}
	for _, missed := range []int{0, 1, 2} {
		c := newCollector(t)
		tr := tracer(t, c)
		store := mem.New()
		traced := tr.Store(store)
		seq := int64(0)
		for n, events := range batches {
			b := seam.Batch{Session: "s", Epoch: 1, After: seq, Events: slices.Clone(events)}
			if n == 0 {
				b.Create, b.Owner, b.Index = true, "n", seam.Index{Session: &info, Turns: []parley.TurnInfo{row}}
			}
			for i := range b.Events {
				seq++
				b.Events[i].Session, b.Events[i].Seq, b.Events[i].Time = "s", seq, time.Unix(1000+seq, 0).UTC()
			}
			to := traced
			if n == missed {
				to = store
			}
			if err := to.Append(t.Context(), parley.Principal{User: "ana"}, b); err != nil {
				t.Fatal(err)
			}
		}
		flush(t, tr)
		same(t, c.tree(t, turn), `
invoke_agent lead
  chat model (client)
  execute_tool look
`)
	}
}
