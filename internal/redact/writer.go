package redact

import "io"

// Writer returns a writer that takes the secrets out of what goes to w. Each Write
// is judged by itself, as a whole: it is for those who write a record at a time,
// such as the handlers of log/slog.
func (r *Redactor) Writer(w io.Writer) io.Writer { return lines{r, w} }

// all returns the redactors that a line passes through. Those made by With come first: they
// also know the values of r, and a value must not be broken up before they see it.
func (r *Redactor) all() []*Redactor {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*Redactor, 0, len(r.parts)+1)
	for p := range r.parts {
		list = append(list, p)
	}
	return append(list, r)
}

type lines struct {
	r *Redactor
	w io.Writer
}

func (l lines) Write(b []byte) (int, error) {
	clean := b
	for _, r := range l.r.all() {
		if s, found := r.String(view(clean)); found {
			clean = []byte(s)
		}
	}
	if _, err := l.w.Write(clean); err != nil {
		return 0, err
	}
	return len(b), nil
}
