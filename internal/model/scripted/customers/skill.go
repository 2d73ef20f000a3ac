package customers

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// resource is what a skill says of a resource, as parley skill from-openapi writes it.
type resource struct {
	name     string
	requests map[string]map[string]value // parameters or properties, by request and name
}

// value is what a parameter or a property takes.
type value struct {
	kind   string
	values []string
	needed bool
}

var (
	heading = pattern.New("^### `([A-Z]+ [^`]+)`$")
	bullet  = pattern.New("^- `([^`]+)` ([^,:]+)(.*)$")
	same    = pattern.New("^- as of `([^`]+)`: (.+)$")
	coded   = pattern.New("`([^`]+)`")
)

// learn reads a skill.
func learn(name, text string) *resource {
	r := &resource{name, map[string]map[string]value{}}
	var now map[string]value
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := heading.FindStringSubmatch(line); m != nil {
			now = map[string]value{}
			r.requests[m[1]] = now
			continue
		}
		if now == nil {
			continue
		}
		if m := same.FindStringSubmatch(line); m != nil {
			for _, n := range coded.FindAllStringSubmatch(m[2], -1) {
				now[n[1]] = r.requests[m[1]][n[1]]
			}
			continue
		}
		m := bullet.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		rest, _, _ := strings.Cut(m[3], ": “")
		v := value{kind: m[2], needed: strings.Contains(rest, ", needed")}
		if _, list, ok := strings.Cut(rest, "one of "); ok {
			for _, c := range coded.FindAllStringSubmatch(list, -1) {
				v.values = append(v.values, c[1])
			}
		}
		now[m[1]] = v
	}
	return r
}

func (r *resource) path() string { return "/api/" + r.name }

// takes reports whether a request has a parameter or property.
func (r *resource) takes(request, name string) bool {
	_, ok := r.requests[request][name]
	return ok
}

func (r *resource) list() string    { return "GET " + r.path() }
func (r *resource) summary() string { return "GET " + r.path() + "/summary" }
func (r *resource) create() string  { return "POST " + r.path() }
func (r *resource) update() string  { return "PUT " + r.path() + "/{id}" }
func (r *resource) remove() string  { return "DELETE " + r.path() + "/{id}" }

// hasValue reports whether a filter may have a value.
func (r *resource) hasValue(v string) bool {
	for name, p := range r.requests[r.list()] {
		if name != "fields" && name != "sort" && slices.Contains(p.values, v) {
			return true
		}
	}
	return false
}

// can reports whether the skill has a request.
func (r *resource) can(request string) bool { return r.requests[request] != nil }

// fieldsOf are those of names that a list may be asked for.
func (r *resource) fieldsOf(names ...string) string {
	known := r.requests[r.list()]["fields"].values
	return strings.Join(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(known, n) }), ",")
}
