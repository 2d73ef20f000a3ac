package scripted

import "fmt"

// deepest limits templates that use one another by the function text, which text/template does
// not detect.
const deepest = 8

// text executes a template of the script.
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
