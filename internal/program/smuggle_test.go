package program_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestOddRequests sends raw requests that can be read in two ways or could inject something
// into an answer. Each gets one answer, and a request hidden in a body gets none.
func TestOddRequests(t *testing.T) {
	t.Parallel()
	s := newPlace(t, "PARLEY_SCRIPTED_PACE=0s").serve()
	const hidden = "GET /v1/apps HTTP/1.1\r\nHost: localhost\r\n\r\n"
	const head = "POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		say    string
		status []int // of all answers, in order
	}{
		"length and chunks":          {head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 5+len(hidden)) + hidden, []int{404}},
		"chunks and length":          {head + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n" + hidden, []int{404}},
		"an odd coding":              {head + "Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n\r\nabcd" + hidden, []int{501}},
		"a coding with a tab":        {head + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + hidden, []int{404}},
		"a name with a space":        {head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden, []int{400}},
		"a folded header":            {head + "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\nabcd", []int{404}},
		"two lengths":                {head + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", []int{400}},
		"a list of lengths":          {head + "Content-Length: 4, 5\r\n\r\nabcde", []int{400}},
		"a length with a sign":       {head + "Content-Length: +4\r\n\r\nabcd", []int{400}},
		"a length in hexadecimals":   {head + "Content-Length: 0x4\r\n\r\nabcd", []int{400}},
		"a chunk of a bad size":      {head + "Transfer-Encoding: chunked\r\n\r\n-1\r\n" + hidden, []int{404}},
		"a chunk beyond all sizes":   {head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + hidden, []int{404}},
		"two hosts":                  {"GET /v1/apps HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", []int{400}},
		"a host in the line":         {"GET http://evil.example/v1/apps HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{403}},
		"two origins":                {"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\nContent-Length: 2\r\n\r\n{}", []int{403}},
		"a star":                     {"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{400}},
		"the preface of another":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{403}},
		"a line in a path":           {"GET /apps/a%0d%0aSet-Cookie:x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{307}},
		"a tunnel":                   {"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{405}},
		"a line in a header":         {"GET /v1/apps HTTP/1.1\r\nHost: localhost\r\nX: a\rSet-Cookie: x=1\r\n\r\n", []int{400}},
		"a zero in a header":         {"GET /v1/apps HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n", []int{400}},
		"many cookies":               {"GET /v1/apps HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("Cookie: a=b; c=d\r\n", 5000) + "\r\n", []int{431}},
		"some cookies":               {"GET /v1/apps HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("Cookie: a=b; c=d\r\n", 500) + "\r\n", []int{200}},
		"a packed body":              {head + "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00", []int{415}},
		"an unwanted body":           {head + "Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n", []int{404}},
		"pipelined":                  {hidden + hidden + "GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" + hidden, []int{200, 200, 404, 200}},
		"an upgrade to nothing":      {"GET /v1/apps HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", []int{200}},
		"another method in disguise": {"GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nX-HTTP-Method-Override: DELETE\r\n\r\n", []int{200}},
	} {
		t.Run(name, func(t *testing.T) { // not parallel: the server would wait while other tests run
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(within))
			go func() { _, _ = io.WriteString(conn, c.say) }()
			r := bufio.NewReader(conn)
			for _, want := range c.status {
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				a := answer{resp.StatusCode, resp.Header, b}
				if a.status != want {
					t.Errorf("got %.300s, want %d", a, want)
				}
				if a.status >= 400 {
					problemOf(t, a)
				}
				if a.header.Get("Set-Cookie") != "" {
					t.Errorf("it set a cookie: %v", a.header)
				}
			}
			// No other answer follows: the server waits for a request, or has closed the
			// connection.
			_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
			if more, err := r.Peek(1); err == nil {
				rest, _ := r.Peek(r.Buffered())
				t.Errorf("there is another answer: %s%.300s", more, rest)
			}
		})
	}
}
