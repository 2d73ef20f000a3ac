package redact

// Stream redacts text that arrives in fragments. It holds back only bytes that may still
// turn out to be secret: the part of a known value seen so far, and of a shape what
// follows its prefix, at most 128 bytes. Plain text passes at once. When a secret is
// recognised before its end, the rest is dropped as it arrives, so the held text does not
// grow.
type Stream struct {
	r     *Redactor
	buf   []byte
	from  int // what stands before is only looked back at
	done  int // buf[:done] was handed out
	spans []span
	w     writer
}

// lookback is how many bytes before a position a rule may look at: for the beginning of
// a parameter's name, and for &amp; before it.
const lookback = longestName + 5

// chunk is how many bytes of fragments that did not pass whole share one
// allocation. They are written once, behind one another, and never again: that is
// what allows handing them out without a copy.
const chunk = 512

// NewStream returns a stream at the beginning of a text.
func (r *Redactor) NewStream() *Stream { return &Stream{r: r} }

// Use makes the stream use the redactor r, beginning with the next fragment.
func (s *Stream) Use(r *Redactor) { s.r = r }

// Write takes the next fragment and returns what can be shown by now, which may
// be nothing. A fragment that passes whole is returned as it is, without allocating.
func (s *Stream) Write(fragment string) (safe string) { return s.step(fragment, false) }

// Close says that no more comes, and returns what was held back. The
// stream is then at the beginning of another text.
func (s *Stream) Close() (tail string) {
	tail = s.step("", true)
	*s = Stream{r: s.r, buf: s.buf[:0], w: writer{out: s.w.out}}
	return tail
}

func (s *Stream) step(fragment string, final bool) string {
	whole := s.done == len(s.buf)
	s.buf = append(s.buf, fragment...)
	b := view(s.buf)
	for i := range s.spans {
		if s.spans[i].open {
			s.spans[i].extend(b, final)
		}
	}
	var keep, hold int
	s.spans, keep, hold = s.r.table.Load().scan(b, s.from, true, final, s.spans)
	if whole && len(s.spans) == 0 && hold == len(b) {
		s.w.red = s.w.red && fragment == ""
		s.done = len(b)
		s.drop(keep)
		return fragment
	}
	if cap(s.w.out)-len(s.w.out) < len(b) {
		s.w.out = make([]byte, 0, chunk+len(b))
	}
	start := len(s.w.out)
	s.done = s.w.write(b, s.done, hold, s.spans)
	out := view(s.w.out[start:])
	s.drop(keep)
	return out
}

// drop forgets bytes that neither a position to judge nor an unfinished span needs. Spans found
// from keep on will be found again.
func (s *Stream) drop(keep int) {
	cut := max(0, min(keep-lookback, s.done))
	kept := s.spans[:0]
	for _, sp := range s.spans {
		if sp.pos < keep && (sp.open || sp.e > s.done) {
			sp.pos, sp.s, sp.e = sp.pos-cut, max(0, sp.s-cut), sp.e-cut
			kept = append(kept, sp)
		}
	}
	s.spans = kept
	if cut > 0 {
		s.buf = s.buf[:copy(s.buf, s.buf[cut:])]
	}
	s.from, s.done = keep-cut, s.done-cut
}
