package tidy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/pattern"
)

// fields are the values of front matter that are asked for, where the other pages of the folder
// have them.
var fields = []string{"title", "kind", "owner", "created"}

// front finds front matter that is missing or cannot be read, and values that it lacks.
func (f *finder) front() (list []Finding) {
	have := map[string]map[string]int{} // by folder and field
	kinds := map[string]map[string]int{}
	count := map[string]int{}
	for _, p := range f.pages {
		if p.Front == nil {
			continue
		}
		dir := p.folder()
		count[dir]++
		if have[dir] == nil {
			have[dir], kinds[dir] = map[string]int{}, map[string]int{}
		}
		for _, name := range fields {
			if p.Front[name] != nil {
				have[dir][name]++
			}
		}
		if k, ok := p.Front["kind"].(string); ok {
			kinds[dir][k]++
		}
	}
	for _, p := range f.pages {
		if p.top() {
			continue
		}
		dir := p.folder()
		usual := func(name string) bool { return count[dir] >= 3 && have[dir][name]*5 >= count[dir]*4 }
		values := map[string]any{}
		fill := func(name string) {
			switch name {
			case "title":
				values["title"] = titleOf(p)
			case "kind":
				if k := most(kinds[dir]); k != "" {
					values["kind"] = k
				}
			case "created":
				if day := dayIn.FindString(p.Path); day != "" {
					values["created"] = day
				}
			}
		}
		x := Finding{Kind: FrontMatter, Path: p.Path, Line: 1}
		unreadable := -1
		if strings.HasPrefix(p.Body, "---\n") {
			unreadable = slices.IndexFunc(p.Faults, func(a fault) bool { return a.Rule == "front-matter" })
		}
		switch {
		case unreadable >= 0:
			x.Line, x.Why = p.Faults[unreadable].Line, p.Faults[unreadable].Message
			if v, ok := p.Front["title"].([]any); ok {
				var words []string
				for _, w := range v {
					words = append(words, fmt.Sprint(w))
				}
				values["title"] = strings.Join(words, ", ")
			} else if body := repaired(p.Body); body != p.Body && lake.Parse(p.Path, []byte(body)).Front != nil {
				x.mend("makes it readable", Edit{Path: p.Path, Base: p.Version, Do: DoWhole, New: body})
			}
		case p.Front == nil:
			x.Why = "it has no front matter"
			for _, name := range fields {
				if usual(name) {
					fill(name)
				}
			}
		default:
			var missing []string
			for _, name := range fields {
				if p.Front[name] == nil && usual(name) {
					missing = append(missing, name)
					fill(name)
				}
			}
			wrong := wrongValues(p)
			if len(missing)+len(wrong) == 0 {
				continue
			}
			if len(missing) > 0 {
				wrong = append([]string{"it has no " + strings.Join(missing, ", no ")}, wrong...)
			}
			x.Why = strings.Join(wrong, "; ")
		}
		if x.Edits == nil && len(values) > 0 {
			raw, err := json.Marshal(values)
			if err == nil {
				e := Edit{Path: p.Path, Base: p.Version, Do: DoFront, New: string(raw)}
				if _, _, err := e.on(p.Body); err == nil {
					x.mend("adds what the other pages of the folder have, as far as it is known", e)
				}
			}
		}
		list = append(list, x)
	}
	return list
}

var (
	dayIn    = pattern.New(`\b20\d\d-\d\d-\d\d\b`)
	headline = pattern.New(`(?m)^# +(.+)$`)
	frontRow = pattern.New(`^[A-Za-z_][\w-]*:( .*)?$`)
)

// wrongValues says which values are not what they have to be.
func wrongValues(p *page) (list []string) {
	for _, name := range []string{"title", "kind", "owner", "status"} {
		if v := p.Front[name]; v != nil {
			if _, ok := v.(string); !ok {
				list = append(list, name+" is not one value")
			}
		}
	}
	for _, name := range []string{"created", "updated"} {
		v := p.Front[name]
		if v == nil {
			continue
		}
		text := fmt.Sprint(v)
		if _, err := time.Parse(time.DateOnly, first(text, 10)); err != nil {
			list = append(list, fmt.Sprintf("%s is %q, which is no day", name, first(text, 60)))
		}
	}
	return list
}

// titleOf is a title for a page that has none.
func titleOf(p *page) string {
	if m := headline.FindStringSubmatch(p.Body); m != nil {
		return strings.TrimSpace(m[1])
	}
	name := strings.TrimSuffix(p.Path[strings.LastIndexByte(p.Path, '/')+1:], ".md")
	name = strings.ReplaceAll(name, "-", " ")
	return strings.ToUpper(name[:1]) + name[1:]
}

func most(count map[string]int) (name string) {
	for _, k := range slices.Sorted(mapKeys(count)) {
		if count[k] > count[name] {
			name = k
		}
	}
	return name
}

// repaired is a page whose front matter can be read: with an end, and with quotes that are closed.
func repaired(body string) string {
	lines := strings.Split(body, "\n")
	if len(lines) < 2 || lines[0] != "---" {
		return body
	}
	end := slices.Index(lines[1:], "---")
	if end < 0 {
		at := 1
		for at < len(lines) && frontRow.MatchString(lines[at]) {
			at++
		}
		if at == 1 {
			return body
		}
		return strings.Join(slices.Insert(lines, at, "---"), "\n")
	}
	for i := 1; i <= end; i++ {
		name, value, ok := strings.Cut(lines[i], ": ")
		if ok && strings.Count(value, `"`) <= 1 && !strings.Contains(value, `\`) && (strings.Contains(value, `"`) || strings.Contains(value, ": ") && !strings.ContainsAny(value[:1], `'[{`)) {
			lines[i] = name + `: "` + strings.ReplaceAll(value, `"`, "") + `"`
		}
	}
	return strings.Join(lines, "\n")
}
