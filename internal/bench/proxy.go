package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// serveProxy is the floor of relaying: a reverse proxy that passes on each read at once without
// interpreting it. It reads the request's body before it forwards the request; a proxy that did
// not was seen to cut off fast streams.
//
// Its /hold is the floor of an idle stream.
func serveProxy(ctx context.Context, args []string, ready func(string, func() int)) error {
	to := args[0]
	mux := http.NewServeMux()
	forward := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxAsk))
		if err != nil {
			return
		}
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, to+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		relayTo(w, resp.Body)
	}
	mux.HandleFunc("POST /tokens", forward)
	mux.HandleFunc("POST "+chatPath, forward)
	mux.HandleFunc("GET /hold", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": hello\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	return serve(ctx, mux, ready, func() int { return 0 })
}

func relayTo(w http.ResponseWriter, from io.Reader) {
	flush := http.NewResponseController(w)
	buf := make([]byte, 32<<10) // as net/http/httputil has it
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			if err := flush.Flush(); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// client keeps as many connections as there are streams.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000, DisableCompression: true}}
