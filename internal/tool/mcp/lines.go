//go:build unix

package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/time/rate"
)

// lines reads the messages of a program, one per line. It skips lines that are not messages,
// because many programs print other things as well. It limits the length of a line and the number
// of messages per second. An answer that is too long becomes an error of its own call, because the
// program also serves others.
type lines struct {
	from *io.PipeReader
	buf  *bufio.Reader
	pace *rate.Limiter
	life context.Context // ends at Close, and ends all waiting
	end  context.CancelFunc
	rest []byte
	once sync.Once
}

func newLines(from *io.PipeReader) *lines {
	l := &lines{from: from, buf: bufio.NewReaderSize(from, 64<<10), pace: rate.NewLimiter(perSecond, burst)}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if err := l.pace.Wait(l.life); err != nil {
			return 0, io.EOF
		}
		line, err := l.line()
		if err != nil {
			return 0, err
		}
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) || bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")) {
			l.rest = append(line, '\n')
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// maxSkipped is how many bytes of a message that is too long are skipped. After that its end is
// not waited for.
const maxSkipped = 16 * maxMessage

// errTooLarge ends the connection: the message is not an answer to a call, or it has no end.
var errTooLarge = fmt.Errorf("it sent a message of more than %d bytes", maxMessage)

func (l *lines) line() ([]byte, error) {
	var line []byte
	for {
		part, err := l.buf.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			return l.skip(line, part, err)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// skip reads the rest of a line, whose beginning and next part are given, without keeping it. err is
// what reading the part returned. If the line was an answer, skip returns an error answer instead.
func (l *lines) skip(begin, part []byte, err error) ([]byte, error) {
	var o outline
	o.read(begin)
	for n := len(begin); ; part, err = l.buf.ReadSlice('\n') {
		o.read(part)
		if n += len(part); n > maxSkipped || o.broken {
			return nil, errTooLarge
		}
		switch {
		case err == nil && !o.answer():
			return nil, errTooLarge
		case err == nil:
			return notRead(o.id)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// notRead is an answer in place of one that is too large to be read.
func notRead(id json.RawMessage) ([]byte, error) {
	return json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": codeTooLarge, "message": errNotRead.Error()}})
}

var errNotRead = fmt.Errorf("its answer has more than %d bytes and was not read", maxMessage)

// codeTooLarge is our own code for an answer that was not read. It does not say whether the
// call was made.
const codeTooLarge = -32099

// outline finds the id of a JSON-RPC message that is read in parts and not kept.
type outline struct {
	id     json.RawMessage // as it was sent
	broken bool            // it is no JSON object

	depth           int
	ended           bool
	quoted, escaped bool
	name, text      []byte // of the field of the message that is being read, cut to maxField
	result          bool
}

// maxField is the most bytes of a name, or of an id, that are kept.
const maxField = 256

// answer reports whether a whole message was read that answers a request.
func (o *outline) answer() bool {
	return o.ended && o.result && len(o.id) > 0 && len(o.id) < maxField && json.Valid(o.id)
}

func (o *outline) read(part []byte) {
	for _, c := range part {
		switch {
		case o.quoted:
			o.keep(c)
			switch {
			case o.escaped:
				o.escaped = false
			case c == '\\':
				o.escaped = true
			case c == '"':
				o.quoted = false
			}
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case o.ended || o.depth == 0 && c != '{':
			o.broken = true
			return
		case c == '"':
			o.quoted = true
			o.keep(c)
		case c == '{' || c == '[':
			o.depth++
		case c == '}' || c == ']':
			if o.depth--; o.depth == 0 {
				o.field()
				o.ended = true
			}
		case c == ':' && o.depth == 1:
			o.name, o.text = o.text, nil
		case c == ',' && o.depth == 1:
			o.field()
		default:
			o.keep(c)
		}
	}
}

func (o *outline) keep(c byte) {
	if o.depth == 1 && len(o.text) < maxField {
		o.text = append(o.text, c)
	}
}

// field ends a field of the message.
func (o *outline) field() {
	switch string(o.name) {
	case `"id"`:
		o.id = o.text
	case `"result"`, `"error"`:
		o.result = true
	}
	o.name, o.text = nil, nil
}

func (l *lines) Close() error {
	l.once.Do(func() {
		l.end()
		_ = l.from.Close()
	})
	return nil
}
