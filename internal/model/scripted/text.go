package scripted

import "fmt"

// deepest bounds templates that use one another by the function text, which
// text/template does not see.
const deepest = 8

// text is what a template of the script writes.
func (s *script) text(name string, v view) (string, error) {
	t := s.base.Lookup(name)
	if t == nil {
		return "", fmt.Errorf("text: there is no template %q", name)
	}
	if v.depth++; v.depth > deepest {
		return "", fmt.Errorf("text: %q is used inside of itself", name)
	}
	return render(t, v)
}
