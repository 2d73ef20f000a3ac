package homeassistant

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	expression = regexp.MustCompile(`\{\{\s*(.*?)\s*\}\}`)
	function   = regexp.MustCompile(`^(states|state_attr|is_state|now)\(\s*(?:'([^']*)'|"([^"]*)")?\s*(?:,\s*(?:'([^']*)'|"([^"]*)"))?\s*\)$`)
)

// render evaluates the functions that read states, which are the most commonly used.
func (h *House) render(template string) (out string, about []string, err error) {
	out = expression.ReplaceAllStringFunc(template, func(s string) string {
		inner := expression.FindStringSubmatch(s)[1]
		m := function.FindStringSubmatch(inner)
		if m == nil {
			err = fmt.Errorf("TemplateSyntaxError: unexpected %s", strconv.Quote(inner))
			return ""
		}
		id, arg := m[2]+m[3], m[4]+m[5]
		if m[1] == "now" {
			return h.now().Format("2006-01-02 15:04:05.000000+00:00")
		}
		about = append(about, id)
		e := h.entities[id]
		switch {
		case m[1] == "is_state":
			if e != nil && e.now().state == arg {
				return "True"
			}
			return "False"
		case e == nil && m[1] == "states":
			return "unknown"
		case m[1] == "states":
			return e.now().state
		case e == nil || e.now().attrs[arg] == nil:
			return "None"
		}
		return fmt.Sprint(e.now().attrs[arg])
	})
	if err == nil && (strings.Contains(out, "{%") || strings.Contains(out, "{{")) {
		err = fmt.Errorf("TemplateSyntaxError: this house knows only expressions that read states")
	}
	return out, about, err
}
