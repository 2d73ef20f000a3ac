package gemini_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/model/gemini"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/sse"
)

const perStream = 1000

// pieces is a stream of perStream chunks as the provider sends them.
func pieces() []byte {
	const one = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \" token\"}],\"role\": \"model\"},\"index\": 0}],\"usageMetadata\": {\"promptTokenCount\": 1205,\"candidatesTokenCount\": 9,\"totalTokenCount\": 1214,\"promptTokensDetails\": [{\"modality\": \"TEXT\",\"tokenCount\": 1205}]},\"modelVersion\": \"gemini-3.8-flash\",\"responseId\": \"Il0taoSYJ5Cez7IP5e6Q0Ak\"}\r\n\r\n"
	return []byte(strings.Repeat(one, perStream) + frames(last("STOP")))
}

// BenchmarkToken measures one chunk, from a response's bytes to what Stream yields.
func BenchmarkToken(b *testing.B) {
	c, err := gemini.New(gemini.Options{Key: key, HTTP: &http.Client{Transport: answering(pieces())}})
	if err != nil {
		b.Fatal(err)
	}
	m, r := c.Model(known(own)), modeltest.Ask()
	b.ReportAllocs()
	for n := 0; n < b.N; n += perStream {
		for _, err := range m.Stream(b.Context(), r) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkFloor is the lower bound for reading these bytes: it only finds their frames.
func BenchmarkFloor(b *testing.B) {
	body := pieces()
	b.ReportAllocs()
	for n := 0; n < b.N; n += perStream {
		for _, err := range sse.Decode(bytes.NewReader(body), 1<<20) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
