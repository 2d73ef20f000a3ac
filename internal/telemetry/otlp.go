package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/parley-server/parley"
)

const (
	tracesPath = "/v1/traces"
	timeout    = 10 * time.Second // of one request, as OpenTelemetry's specification has it
	attempts   = 3
	// maxRetryAfter limits how long a collector may make us wait, because spans pile up
	// meanwhile.
	maxRetryAfter = 30 * time.Second
)

// target is where traces are sent: OTLP over HTTP in its binary form, which every
// collector accepts.
//
// Langfuse accepts them at https://cloud.langfuse.com/api/public/otel, or the same path of
// a self-hosted one, with the headers "Authorization: Basic …", the base64 of
// "pk-lf-…:sk-lf-…", and "x-langfuse-ingestion-version: 4", without which its view lags
// behind.
type target struct {
	url      string
	headers  http.Header
	gzip     bool
	timeout  time.Duration
	client   *http.Client
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
}

// environment reads OpenTelemetry's variables.
type environment func(string) (string, bool)

func (env environment) get(name string) string {
	v, _ := env(name)
	return strings.TrimSpace(v)
}

// otlp looks up a setting of the exporter: the one for traces first, then the one for all
// signals.
func (env environment) otlp(name string) (value, variable string) {
	for _, v := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if value := env.get(v); value != "" {
			return value, v
		}
	}
	return "", "OTEL_EXPORTER_OTLP_" + name
}

// newTarget returns nil when there is no endpoint. Its errors never quote a value, which
// may be a key in the wrong place.
func newTarget(o TraceOptions) (*target, error) {
	env := environment(o.Env)
	if strings.EqualFold(env.get("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	endpoint, where, headers, whose := o.Endpoint, "telemetry.otlp_endpoint", o.Headers, "telemetry.headers"
	path := tracesPath
	if endpoint == "" {
		if listed(env.get("OTEL_TRACES_EXPORTER"), "none") {
			return nil, nil
		}
		endpoint, where = env.otlp("ENDPOINT")
		if endpoint == "" {
			return nil, nil
		}
		if where == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" {
			path = "" // that one is the whole address
		}
		if p, name := env.otlp("PROTOCOL"); p != "" && p != "http/protobuf" {
			// The variable may be meant for other programs on this machine, so the server
			// starts without traces instead of failing.
			o.Logger.Warn(name+" is not served: traces are sent by http/protobuf", "hint", "a collector takes that on another port than gRPC, as a rule 4318; name it in OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
		}
		var list string
		var err error
		list, whose = env.otlp("HEADERS")
		if headers, err = pairs(list); err != nil {
			return nil, wrong(whose, "%w", err)
		}
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, wrong(where, "is not an address; write it like https://collector.example.com:4318")
	case u.User != nil:
		return nil, wrong(where, "holds a user or a password; put them in a header")
	}
	if path != "" && !strings.HasSuffix(strings.TrimRight(u.Path, "/"), path) {
		u = u.JoinPath(path)
	}
	t := &target{url: u.String(), headers: http.Header{}, gzip: true, timeout: timeout}
	for name, value := range headers {
		if !headerName.MatchString(name) || !headerValue.MatchString(value) {
			return nil, wrong(whose, "a header cannot be sent: its name or value has characters that none may have")
		}
		t.headers.Set(name, value)
	}
	if c, name := env.otlp("COMPRESSION"); c == "none" {
		t.gzip = false
	} else if c != "" && c != "gzip" {
		return nil, wrong(name, "is neither gzip nor none")
	}
	if ms, name := env.otlp("TIMEOUT"); ms != "" {
		n, err := strconv.Atoi(ms)
		if err != nil || n <= 0 {
			return nil, wrong(name, "is not a number of milliseconds")
		}
		t.timeout = time.Duration(n) * time.Millisecond
	}
	transport := o.Transport
	if transport == nil {
		made := http.DefaultTransport.(*http.Transport).Clone()
		if made.TLSClientConfig, err = certificates(env); err != nil {
			return nil, err
		}
		made.MaxIdleConns = 2
		transport = made
	}
	t.client = &http.Client{
		Transport: transport,
		// The headers are for this address and no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.scope = &commonpb.InstrumentationScope{Name: "github.com/parley-server/parley", Version: o.Version}
	t.resource, err = resource(env, o.Version)
	return t, err
}

var (
	headerName  = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")
	headerValue = regexp.MustCompile(`^[\t\x20-\x7e\x80-\xff]*$`)
)

func wrong(where, format string, args ...any) error {
	return parley.Errorf(parley.CodeInvalid, where+": "+format, args...)
}

// listed reports whether a comma-separated list has the word.
func listed(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.TrimSpace(w), word) {
			return true
		}
	}
	return false
}

// pairs reads name=value,name=value with percent-escapes.
func pairs(list string) (map[string]string, error) {
	out := map[string]string{}
	for one := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		name, value, ok := strings.Cut(one, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, errors.New("expected name=value,name=value, with %20 and the like for what is special")
		}
		out[name] = value
	}
	return out, nil
}

func certificates(env environment) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file, name := env.otlp("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file) //nolint:gosec // the owner names it
		if err != nil {
			return nil, wrong(name, "%w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, wrong(name, "the file holds no certificate")
		}
	}
	cert, name := env.otlp("CLIENT_CERTIFICATE")
	key, _ := env.otlp("CLIENT_KEY")
	if cert != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, wrong(name, "%w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// resource says who sends.
func resource(env environment, version string) (*resourcepb.Resource, error) {
	attrs, err := pairs(env.get("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, wrong("OTEL_RESOURCE_ATTRIBUTES", "%w", err)
	}
	set := func(key, value string) {
		if attrs[key] == "" && value != "" {
			attrs[key] = value
		}
	}
	if name := env.get("OTEL_SERVICE_NAME"); name != "" {
		attrs["service.name"] = name
	}
	set("service.name", "parley")
	set("service.version", version)
	set("telemetry.sdk.name", "parley")
	set("telemetry.sdk.language", "go")
	r := &resourcepb.Resource{}
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		r.Attributes = append(r.Attributes, text(key, attrs[key]))
	}
	return r, nil
}

// send sends spans in one request. It retries when the collector asks for it; when the
// server is stopping, it retries only once. It returns how many spans were refused.
func (t *target) send(ctx context.Context, stopping <-chan struct{}, spans []*tracepb.Span) (refused int, err error) {
	body, err := t.encode(spans)
	if err != nil {
		return 0, err
	}
	for n := 1; ; n++ {
		again, after := false, time.Duration(0)
		refused, again, after, err = t.post(ctx, body)
		if err == nil || !again || n == attempts {
			return refused, err
		}
		wait := time.NewTimer(max(after, time.Duration(n)*time.Second))
		select {
		case <-wait.C:
		case <-stopping:
			wait.Stop()
			n = attempts - 1 // once more, now
		case <-ctx.Done():
			wait.Stop()
			return 0, err
		}
	}
}

// encode returns the bytes of an ExportTraceServiceRequest. TracesData has the same form,
// which the protocol guarantees, and its package does not need gRPC.
func (t *target) encode(spans []*tracepb.Span) ([]byte, error) {
	raw, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: t.resource, SchemaUrl: schemaURL,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: t.scope, Spans: spans, SchemaUrl: schemaURL}},
	}}})
	if err != nil || !t.gzip {
		return raw, err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(raw)
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}

func (t *target) post(ctx context.Context, body []byte) (refused int, again bool, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return 0, false, 0, errors.New("the endpoint is not a valid URL")
	}
	r.Header = t.headers.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	if t.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	res, err := t.client.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address, which may hold a key
		}
		return 0, true, 0, err
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	switch {
	case res.StatusCode/100 == 2:
		return rejected(answer), false, 0, nil
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusBadGateway,
		res.StatusCode == http.StatusServiceUnavailable, res.StatusCode == http.StatusGatewayTimeout:
		again = true
		if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
			after = min(time.Duration(min(s, 3600))*time.Second, maxRetryAfter)
		}
	}
	return 0, again, after, fmt.Errorf("the collector answered %d %s", res.StatusCode, http.StatusText(res.StatusCode))
}

// rejected returns how many spans a collector refused, from its answer, an
// ExportTraceServiceResponse: partial_success is field 1, and in it rejected_spans is
// field 1. An answer of another form counts as none refused.
func rejected(answer []byte) int {
	partial := field(answer, 1, protowire.BytesType)
	n, size := protowire.ConsumeVarint(field(partial, 1, protowire.VarintType))
	if size < 0 || n > maxSpans {
		return 0
	}
	return int(n) //nolint:gosec // bounded
}

// field is the value of the first field with that number and type.
func field(b []byte, want protowire.Number, kind protowire.Type) []byte {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, typ, b)
		if size < 0 {
			return nil
		}
		if number == want && typ == kind {
			if kind == protowire.BytesType {
				v, _ := protowire.ConsumeBytes(b)
				return v
			}
			return b[:size]
		}
		b = b[size:]
	}
	return nil
}

func (t *target) close() { t.client.CloseIdleConnections() }
