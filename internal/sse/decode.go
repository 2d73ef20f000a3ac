package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// ErrTooLarge is the cause when a frame is longer than the reader allowed.
var ErrTooLarge = errors.New("sse: frame too large")

// Decode yields the frames of r that are events, as a browser would dispatch them: those
// with data. Retry is set on the next such frame; comments are skipped. A frame without
// its blank line at the end of r is dropped, as the standard requires: the connection was
// cut within it.
//
// The consumer may keep Data. A frame longer than maxBytes, counting all its lines and
// comments, ends the stream with an error that is [ErrTooLarge]; a failing r ends it with
// that failure. The end of r ends it without an error. Apart from a buffer, the stream is
// read no further than the consumer asks.
func Decode(r io.Reader, maxBytes int) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		l := lines{r: r, max: maxBytes, buf: make([]byte, 0, min(maxBytes+1, 4096))}
		var id, event string // id is kept from frame to frame
		var data []byte
		var retry time.Duration
		has := false // data, if empty
		for {
			line, err := l.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Frame{}, err)
				}
				return
			}
			if len(line) == 0 {
				l.used = 0
				if has {
					f := Frame{ID: id, Event: event, Data: data, Retry: retry}
					if !yield(f, nil) {
						return
					}
					retry = 0
				}
				event, data, has = "", nil, false
				continue
			}
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "data":
				if has {
					data = append(data, '\n')
				} else {
					data = make([]byte, 0, len(value))
				}
				data, has = append(data, value...), true
			case "event":
				if event != string(value) {
					event = string(value)
				}
			case "id":
				if bytes.IndexByte(value, 0) < 0 && id != string(value) {
					id = string(value)
				}
			case "retry":
				if d, ok := milliseconds(value); ok {
					retry = d
				}
			}
		}
	}
}

// lines reads lines that end in LF, CR LF or CR.
type lines struct {
	r    io.Reader
	max  int
	buf  []byte // read and not yet taken: buf[at:]
	at   int
	used int // bytes of the present frame's lines before this one

	begun  bool // past the byte order mark
	crlf   bool // the last line ended in CR: an LF that follows belongs to it
	failed error
}

// next returns the next line without its end, valid until the next call. It
// returns as soon as the end is there: after a CR it does not wait for an LF.
func (l *lines) next() ([]byte, error) {
	if !l.begun {
		if err := l.begin(); err != nil {
			return nil, err
		}
	}
	seen := 0 // of the line, without an end in them
	for {
		if l.crlf && l.at < len(l.buf) {
			if l.buf[l.at] == '\n' {
				l.at++
			}
			l.crlf = false
		}
		rest := l.buf[l.at:]
		if n := bytes.IndexAny(rest[seen:], "\r\n"); n >= 0 {
			n += seen
			if l.used += n + 1; l.used > l.max {
				return nil, l.tooLarge()
			}
			l.at += n + 1
			l.crlf = rest[n] == '\r'
			return rest[:n], nil
		}
		if seen = len(rest); l.used+seen > l.max {
			return nil, l.tooLarge()
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

func (l *lines) tooLarge() error {
	return fmt.Errorf("%w: more than %d bytes before its blank line", ErrTooLarge, l.max)
}

// begin skips a byte order mark, reading no more than it needs to tell.
func (l *lines) begin() error {
	const mark = "\xef\xbb\xbf"
	for len(l.buf) < len(mark) && strings.HasPrefix(mark, string(l.buf)) {
		if err := l.fill(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if strings.HasPrefix(string(l.buf), mark) {
		l.at = len(mark)
	}
	l.begun = true
	return nil
}

// fill reads more.
func (l *lines) fill() error {
	if l.failed != nil {
		return l.failed
	}
	if l.at > 0 {
		l.buf = l.buf[:copy(l.buf, l.buf[l.at:])]
		l.at = 0
	}
	if len(l.buf) == cap(l.buf) {
		l.buf = append(l.buf, 0)[:len(l.buf)]
	}
	for range 100 { // as bufio does: a reader that gives nothing a hundred times is broken
		n, err := l.r.Read(l.buf[len(l.buf):cap(l.buf)])
		l.buf = l.buf[:len(l.buf)+n]
		l.failed = err
		switch {
		case n > 0:
			return nil
		case err != nil:
			return err
		}
	}
	l.failed = io.ErrNoProgress
	return l.failed
}
