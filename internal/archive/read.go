package archive

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// Limits of [Read]. Zero values mean the defaults.
type Limits struct {
	Bytes  int64 // of all files together, unpacked; 0: 512 MiB. It is less for a small archive: see maxRatio
	Kept   int64 // of what is unpacked and kept in memory; 0: 128 MiB
	Log    int64 // of the log, which is appended in one piece; 0: 64 MiB
	Files  int   // 0: 200,000
	Events int   // of the log; 0: 100,000
	Event  int   // bytes of one event; 0: 32 MiB
}

const (
	// maxRatio is how many times its size an archive may unpack to. Sessions are text:
	// their logs repeat much, but not more than about ten times.
	maxRatio = 64
	// anyRatio is how many bytes any archive may unpack to.
	anyRatio = 16 << 20
	// maxBlank limits the empty lines of a log.
	maxBlank = 1000
)

func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = 512 << 20
	}
	if l.Kept == 0 {
		l.Kept = 128 << 20
	}
	if l.Log == 0 {
		l.Log = 64 << 20
	}
	if l.Files == 0 {
		l.Files = 200_000
	}
	if l.Events == 0 {
		l.Events = 100_000
	}
	if l.Event == 0 {
		l.Event = 32 << 20
	}
	return l
}

// Read checks an archive and returns the session in it, under the ids it had.
//
// Errors: CodeInvalid says which file or event is wrong, CodeTooLarge which
// limit was passed, CodeUpgradeRequired that the log holds something newer than
// this binary.
func Read(r io.ReaderAt, size int64, l Limits) (Session, error) {
	a, blobs, err := unpack(r, size, l)
	if err != nil {
		return Session{}, err
	}
	var events []parley.Event
	f := a.files[eventsFile]
	if f != nil {
		events, err = a.events(f)
	}
	if f == nil || parley.CodeOf(err) == parley.CodeCondensed && a.files[SessionFile] != nil {
		// The state that a condensed log begins with cannot be trusted, and the rest of
		// the log says little more than the turns do.
		events, err = a.rebuild(blobs)
	}
	if err != nil {
		return Session{}, err
	}
	s, err := closed(events)
	if err != nil {
		return Session{}, err
	}
	s.Blobs = blobs
	return s, nil
}

// Log checks an archive and returns its log unchanged, to be viewed or replayed. It must
// not be appended anywhere, because it still has permissions. Errors are those of [Read];
// a log whose steps retention removed is CodeCondensed.
func Log(r io.ReaderAt, size int64, l Limits) (events []parley.Event, blobs map[parley.Digest][]byte, err error) {
	a, blobs, err := unpack(r, size, l)
	if err != nil {
		return nil, nil, err
	}
	f := a.files[eventsFile]
	if f == nil {
		return nil, nil, bad("the archive has no %s", eventsFile).WithHint("only an export of Parley's own has one")
	}
	events, err = a.events(f)
	return events, blobs, err
}

func unpack(r io.ReaderAt, size int64, l Limits) (*zipped, map[parley.Digest][]byte, error) {
	l = l.withDefaults()
	l.Bytes = min(l.Bytes, max(anyRatio, maxRatio*size))
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, nil, bad("this is not a zip file that can be read: %v", err).WithHint("send what GET /v1/sessions/{id}/export gave")
	}
	a, err := open(z, l)
	if err != nil {
		return nil, nil, err
	}
	blobs, err := a.blobs()
	return a, blobs, err
}

func bad(format string, args ...any) *parley.Error {
	return parley.Errorf(parley.CodeInvalid, format, args...).WithHint("send what GET /v1/sessions/{id}/export gave, as it is")
}

// zipped is an archive whose names have been checked.
type zipped struct {
	files map[string]*zip.File
	names []string // in the archive's order
	limit Limits
	left  int64 // bytes that may still be unpacked
}

// known matches all names that an archive may contain. Nothing is ever written under
// these names, but an archive with others is not ours.
var known = pattern.New(`^(session\.json|events\.ndjson|turns/[0-9A-Za-z_-]{1,64}\.json|logs/[0-9A-Za-z_-]{1,64}\.log|artifacts/[0-9A-Za-z_-]{1,64}|blobs/[0-9a-f]{64})$`)

func open(z *zip.Reader, l Limits) (*zipped, error) {
	if len(z.File) > l.Files {
		return nil, parley.Errorf(parley.CodeTooLarge, "the archive has %d files; at most %d are allowed", len(z.File), l.Files)
	}
	a := &zipped{files: map[string]*zip.File{}, limit: l, left: min(l.Bytes, l.Kept)}
	claimed := uint64(0)
	for _, f := range z.File {
		// Header sizes are only claims. False ones are refused while unpacking, and
		// honest ones that are too large before that.
		if claimed += min(f.UncompressedSize64, 1<<40); claimed > uint64(l.Bytes) {
			return nil, tooMuch(l)
		}
		switch f.Name {
		case "turns/", "logs/", "artifacts/", "blobs/":
			continue // some packers name the folders
		}
		if !known.MatchString(f.Name) {
			return nil, bad("the archive has a file %q, which does not belong to an exported session", parley.Cut(f.Name, 100))
		}
		if !f.Mode().IsRegular() {
			return nil, bad("%s is no plain file", f.Name)
		}
		if a.files[f.Name] != nil {
			return nil, bad("the archive has %s twice", f.Name)
		}
		if f.Name == eventsFile && f.UncompressedSize64 > uint64(l.Log) {
			return nil, tooLongLog(l)
		}
		a.files[f.Name] = f
		a.names = append(a.names, f.Name)
	}
	return a, nil
}

func tooMuch(l Limits) error {
	return parley.Errorf(parley.CodeTooLarge, "the archive unpacks to more than %d bytes, the limit for an archive of its size", l.Bytes)
}

func tooLongLog(l Limits) error {
	return parley.Errorf(parley.CodeTooLarge, "%s has more than %d bytes or %d events, the limit of one import", eventsFile, l.Log, l.Events).
		WithHint("fork the session at an earlier event where it is, and export the fork")
}

// budget counts what is actually unpacked, since header sizes are only claims.
type budget struct {
	r io.Reader
	a *zipped
}

func (b budget) Read(p []byte) (int, error) {
	if b.a.left <= 0 {
		l := b.a.limit
		l.Bytes = min(l.Bytes, l.Kept)
		return 0, tooMuch(l)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.a.left)])
	b.a.left -= int64(n)
	return n, err
}

func (a *zipped) read(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, bad("%s cannot be opened: %v", f.Name, err)
	}
	defer r.Close()
	b, err := io.ReadAll(budget{r, a})
	if err != nil {
		return nil, unpacking(f, err)
	}
	return b, nil
}

func unpacking(f *zip.File, err error) error {
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return e
	}
	return bad("%s cannot be unpacked: %v", f.Name, err)
}

func (a *zipped) blobs() (map[parley.Digest][]byte, error) {
	out := map[parley.Digest][]byte{}
	for _, name := range a.names {
		claim, isBlob := strings.CutPrefix(name, "blobs/")
		if !isBlob && !strings.HasPrefix(name, "artifacts/") {
			continue
		}
		b, err := a.read(a.files[name])
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(b)
		d := parley.Digest(hex.EncodeToString(sum[:]))
		if isBlob && claim != string(d) {
			return nil, bad("%s holds other bytes than its name says", name)
		}
		out[d] = b
	}
	return out, nil
}

// events reads events.ndjson. Every event is decoded, so that nothing that can
// not be folded gets into a store.
func (a *zipped) events(f *zip.File) ([]parley.Event, error) {
	r, err := f.Open()
	if err != nil {
		return nil, bad("%s cannot be opened: %v", f.Name, err)
	}
	defer r.Close()
	var events []parley.Event
	blank, bytesRead := 0, int64(0)
	lines := lineReader{r: budget{r, a}, max: a.limit.Event}
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, unpacking(f, err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			if blank++; blank > maxBlank {
				return nil, bad("%s has more than %d empty lines", f.Name, maxBlank)
			}
			continue
		}
		// In addition to the header's claim, the log is counted as it is read.
		if bytesRead += int64(len(line)); bytesRead > a.limit.Log || len(events) >= a.limit.Events {
			return nil, tooLongLog(a.limit)
		}
		e, err := decodeEvent(line, len(events)+1)
		if err != nil {
			return nil, err
		}
		if len(events) > 0 && e.Session != events[0].Session {
			return nil, bad("event %d belongs to another session", e.Seq)
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil, bad("%s has no events", f.Name)
	}
	return events, nil
}

func decodeEvent(line []byte, want int) (parley.Event, error) {
	var e parley.Event
	if !utf8.Valid(line) {
		return e, bad("event %d is not UTF-8", want)
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return e, bad("event %d is not JSON: %v", want, err)
	}
	switch {
	case e.Seq != int64(want):
		return e, bad("event %d is missing: the next one has number %d", want, e.Seq)
	case !id.MatchString(string(e.Session)):
		return e, bad("event %d has no proper session id", want)
	case e.Turn != "" && !id.MatchString(string(e.Turn)):
		return e, bad("event %d has no proper turn id", want)
	case len(e.Agent) > 500:
		return e, bad("event %d has an agent path of %d characters", want, len(e.Agent))
	case e.Time.IsZero() || e.Time.Year() < 1970 || e.Time.Year() > 9999:
		return e, bad("event %d has no proper time", want)
	case (e.Type == parley.SessionCreated{}.EventType()) != (want == 1):
		return e, bad("event %d is %s; session.created is the first of a log, and only that", want, parley.Cut(string(e.Type), 60))
	}
	e.Time = parley.Now(e.Time)
	if string(e.Data) == "null" {
		e.Data = nil
	}
	if e.Data != nil { // a line of NDJSON may hold a CR, a wire's frame must not
		var b bytes.Buffer
		if err := json.Compact(&b, e.Data); err != nil {
			return e, bad("event %d is not JSON: %v", want, err)
		}
		e.Data = b.Bytes()
	}
	if _, err := e.Payload(); err != nil {
		if parley.CodeOf(err) == parley.CodeInternal {
			return e, bad("%v", err)
		}
		return e, err
	}
	return e, nil
}

// id is the form of a ULID. Any other id might name something that belongs to somebody
// else.
var id = pattern.New(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// lineReader reads lines of bounded length.
type lineReader struct {
	r   io.Reader
	max int
	buf []byte
	at  int
	end error
}

func (l *lineReader) next() ([]byte, error) {
	seen := 0
	for {
		rest := l.buf[l.at:]
		if n := bytes.IndexByte(rest[seen:], '\n'); n >= 0 {
			l.at += seen + n + 1
			return rest[:seen+n], nil
		}
		if seen = len(rest); seen > l.max {
			return nil, parley.Errorf(parley.CodeTooLarge, "an event has more than %d bytes", l.max)
		}
		if l.end != nil {
			l.at = len(l.buf)
			if errors.Is(l.end, io.EOF) && seen > 0 {
				return rest, nil
			}
			return nil, l.end
		}
		if l.at > 0 {
			l.buf = l.buf[:copy(l.buf, rest)]
			l.at = 0
		}
		if len(l.buf) == cap(l.buf) {
			l.buf = append(l.buf, make([]byte, max(64<<10, len(l.buf)))...)[:len(l.buf)]
		}
		n, err := l.r.Read(l.buf[len(l.buf):cap(l.buf)])
		l.buf, l.end = l.buf[:len(l.buf)+n], err
	}
}
