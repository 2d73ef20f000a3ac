package userfiles

import (
	"bytes"
	"unicode/utf8"
)

// window takes lines out of a text that is written to it piece by piece.
type window struct {
	first, most int // from which line on, counted from 1, and how many; 0: all

	breaks int    // line breaks so far
	open   bool   // the last line has no line break yet
	valid  bool   // what came so far is text in UTF-8, but for tail
	tail   []byte // the beginning of a character that the last piece ended in

	taken []byte
	got   int  // complete lines in taken
	end   int  // where the last of them ends
	full  bool // no further line is taken
	cut   bool // the line that was taken is longer than fits
}

// Write implements io.Writer.
func (w *window) Write(piece []byte) (int, error) {
	w.check(piece)
	for rest := piece; len(rest) > 0; {
		line := rest
		at := bytes.IndexByte(rest, '\n')
		if at >= 0 {
			line = rest[:at+1]
		}
		rest = rest[len(line):]
		w.take(line, at >= 0)
		if w.open = at < 0; !w.open {
			w.breaks++
		}
	}
	return len(piece), nil
}

// take takes a part of the line that is being read. last says that the line ends with it.
func (w *window) take(part []byte, last bool) {
	if w.full || w.breaks+1 < w.first {
		return
	}
	if len(w.taken)+len(part) > MaxText {
		if w.full = true; w.got > 0 {
			w.taken = w.taken[:w.end]
			return
		}
		w.taken = append(w.taken, part[:MaxText-len(w.taken)]...)
		for i := 1; i < utf8.UTFMax && i < len(w.taken); i++ { // it may end within a character
			if b := w.taken[len(w.taken)-i]; utf8.RuneStart(b) {
				if !utf8.FullRune(w.taken[len(w.taken)-i:]) {
					w.taken = w.taken[:len(w.taken)-i]
				}
				break
			}
		}
		w.got, w.cut = 1, true
		return
	}
	w.taken = append(w.taken, part...)
	if last {
		w.got, w.end = w.got+1, len(w.taken)
		w.full = w.most > 0 && w.got == w.most
	}
}

// check looks whether a piece goes on as text.
func (w *window) check(piece []byte) {
	if !w.valid {
		return
	}
	if bytes.IndexByte(piece, 0) >= 0 {
		w.valid = false
		return
	}
	for len(w.tail) > 0 && len(piece) > 0 && !utf8.FullRune(w.tail) {
		w.tail = append(w.tail, piece[0])
		piece = piece[1:]
	}
	if len(w.tail) > 0 && utf8.FullRune(w.tail) {
		w.valid = utf8.Valid(w.tail)
		w.tail = w.tail[:0]
	}
	end := len(piece)
	for i := 1; i < utf8.UTFMax && i <= len(piece); i++ {
		if utf8.RuneStart(piece[len(piece)-i]) {
			if !utf8.FullRune(piece[len(piece)-i:]) {
				end -= i
			}
			break
		}
	}
	w.valid = w.valid && utf8.Valid(piece[:end])
	w.tail = append(w.tail, piece[end:]...)
}

// text reports whether all of it was text.
func (w *window) text() bool { return w.valid && len(w.tail) == 0 }

// all is how many lines there are.
func (w *window) all() int {
	if w.open {
		return w.breaks + 1
	}
	return w.breaks
}

// whole is how many lines were taken.
func (w *window) whole() int {
	if !w.full && w.open && len(w.taken) > w.end {
		return w.got + 1 // the last one has no line break
	}
	return w.got
}
