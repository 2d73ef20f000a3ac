package openai_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/model/openai"
	"github.com/parley-server/parley/internal/sse"
)

// tokens is a stream of n deltas as OpenAI sends them.
func tokens(n int) []byte {
	var b bytes.Buffer
	frame := func(delta, finish string) {
		fmt.Fprintf(&b, "data: {\"id\":\"chatcmpl-9xYzAbCdEfGhIjKlMnOpQrStUv\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"gpt-4.1-mini-2026-04-14\",\"service_tier\":\"default\",\"system_fingerprint\":null,\"choices\":[{\"index\":0,\"delta\":%s,\"logprobs\":null,\"finish_reason\":%s}],\"usage\":null,\"obfuscation\":\"q7ZtXw\"}\n\n", delta, finish)
	}
	frame(`{"role":"assistant","content":""}`, "null")
	for range n {
		frame(`{"content":" token"}`, "null")
	}
	frame(`{}`, `"stop"`)
	b.WriteString("data: [DONE]\n\n")
	return b.Bytes()
}

const perStream = 1000

// BenchmarkToken measures one delta, from a response's bytes to what Stream yields.
func BenchmarkToken(b *testing.B) {
	body := tokens(perStream)
	c := client(b, openai.Options{BaseURL: "http://h/v1", HTTP: &http.Client{Transport: answers{"text/event-stream", body}}})
	m, r := c.Model(info("m")), modeltest.Ask()
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
	body := tokens(perStream)
	b.ReportAllocs()
	for n := 0; n < b.N; n += perStream {
		for _, err := range sse.Decode(bytes.NewReader(body), 1<<20) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
