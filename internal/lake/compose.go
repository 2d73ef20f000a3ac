package lake

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
	"github.com/parley-server/parley/internal/wiki"
)

// SetFront sets values of an entity's front matter; null removes one. Everything else in it stays as it is written. An entity without
// front matter gets one.
func SetFront(body string, values map[string]json.RawMessage) (string, error) {
	raw, rest, _ := splitFront([]byte(body))
	end := "\n"
	if strings.Contains(body, "\r\n") {
		end = "\r\n"
	}
	var lines []string
	switch {
	case raw != nil:
		p := parsed{}
		if p.front(raw); unreadable(p.Faults) {
			return "", parley.Errorf(parley.CodeInvalid, "the front matter has to be repaired first: %s", p.Faults[0].Message).WithField("front").WithHint("replace it as text")
		}
		lines = strings.SplitAfter(string(raw), "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
	case rest == nil:
		return "", parley.Errorf(parley.CodeInvalid, "the front matter has no end").WithField("front").WithHint("replace it as text")
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !frontName.MatchString(name) {
			return "", parley.Errorf(parley.CodeInvalid, "%q cannot be a name in front matter", parley.Cut(name, 60)).WithField("front").WithHint("use letters, digits, - and _")
		}
		text, err := written(values[name], 0)
		if err != nil {
			return "", err
		}
		var now []string
		if string(values[name]) != "null" {
			now = []string{name + ": " + text + end}
		}
		from := slices.IndexFunc(lines, func(l string) bool { k, _, ok := strings.Cut(l, ":"); return ok && strings.Trim(k, `"'`) == name })
		if from < 0 {
			lines = append(lines, now...)
			continue
		}
		to := from + 1
		for to < len(lines) && (strings.HasPrefix(lines[to], " ") || strings.HasPrefix(lines[to], "\t") || strings.HasPrefix(lines[to], "- ") || strings.TrimSpace(lines[to]) == "-") {
			to++
		}
		lines = slices.Replace(lines, from, to, now...)
	}
	head := strings.Join(lines, "")
	if raw == nil {
		if head == "" {
			return body, nil
		}
		return "---" + end + head + "---" + end + end + strings.TrimPrefix(body, "\ufeff"), nil
	}
	at := strings.Index(body, "\n") + 1
	return body[:at] + head + body[at+len(raw):], nil
}

var (
	frontName = pattern.New(`^[A-Za-z_][A-Za-z0-9_-]{0,59}$`)
	plainText = pattern.New(`^[\p{L}\p{N}][\p{L}\p{N} ._/@+()-]*$`)
	aDay      = pattern.New(`^\d{4}-\d\d-\d\d$`)
)

// written is a value as people write it in YAML, on one line.
func written(raw json.RawMessage, depth int) (string, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil || depth > maxDepth {
		return "", parley.Errorf(parley.CodeInvalid, "a value for the front matter cannot be read").WithField("front")
	}
	switch v := v.(type) {
	case string:
		var back any
		if plainText.MatchString(v) && v == strings.TrimSpace(v) && len(v) <= 200 {
			if err := yaml.Load([]byte(v), &back); err == nil && (back == v || aDay.MatchString(v)) {
				return v, nil
			}
		}
		return string(raw), nil // JSON is YAML
	case []any:
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return "", err
		}
		parts := make([]string, 0, len(list))
		for _, e := range list {
			text, err := written(e, depth+1)
			if err != nil {
				return "", err
			}
			parts = append(parts, text)
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	}
	return string(raw), nil
}

var aHeading = pattern.New(`^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*\r?\n?$`)

// AddItem adds an item to the list below a heading of an entity. A heading that is missing is added at the end.
func AddItem(body, heading, item string) string {
	end := "\n"
	if strings.Contains(body, "\r\n") {
		end = "\r\n"
	}
	lines := strings.SplitAfter(body, "\n")
	level, at, code := 0, -1, ""
	for i, l := range lines {
		if f := strings.TrimLeft(l, " "); len(l)-len(f) <= 3 && (strings.HasPrefix(f, "```") || strings.HasPrefix(f, "~~~")) {
			switch {
			case code == "":
				code = f[:3]
			case strings.HasPrefix(f, code):
				code = ""
			}
		}
		m := aHeading.FindStringSubmatch(l)
		if code != "" || m == nil {
			if level > 0 && strings.TrimSpace(l) != "" {
				at = i
			}
			continue
		}
		if level > 0 && len(m[1]) <= level {
			break
		}
		if level == 0 && wiki.Fold(m[2]) == wiki.Fold(heading) {
			level = len(m[1])
		}
		if level > 0 {
			at = i
		}
	}
	if at < 0 {
		text := strings.TrimRight(body, " \t\r\n")
		if text != "" {
			text += end + end
		}
		return text + "## " + heading + end + end + "- " + item + end
	}
	if !strings.HasSuffix(lines[at], "\n") {
		lines[at] += end
	}
	add := "- " + item + end
	if t := strings.TrimLeft(lines[at], " "); !strings.HasPrefix(t, "- ") && !strings.HasPrefix(t, "* ") {
		add = end + add
	}
	return strings.Join(slices.Insert(lines, at+1, add), "")
}

// LinkTo is how an entity links to another file of the lake: by its name if that is enough, else by its whole path. text is what is shown; "": the name.
func (l *Lake) LinkTo(ctx context.Context, from, to, text string) (link string, err error) {
	text = strings.Join(strings.Fields(text), " ")
	if strings.ContainsAny(text, "[]|") {
		return "", parley.Errorf(parley.CodeInvalid, "the text of a link has no brackets and bars").WithField("text")
	}
	bare := to
	if wiki.IsNote(to) {
		bare = strings.TrimSuffix(to, path.Ext(to))
	}
	if strings.ContainsAny(bare, "[]|#") {
		target := escape(relative(from, to))
		if text == "" {
			text = strings.NewReplacer("[", "", "]", "", "|", " ").Replace(path.Base(bare))
		}
		return "[" + text + "](" + target + ")", nil
	}
	err = l.x.with(ctx, func(c *sqlite.Conn) error {
		a := alikes{c, map[string][]string{}}
		for _, name := range []string{path.Base(bare), bare, "/" + bare} {
			is, err := a.resolve(from, wiki.Link{Wiki: true, To: name})
			if err != nil {
				return err
			}
			if link = name; is == to {
				break
			}
		}
		return nil
	})
	if text != "" && text != link {
		link += "|" + text
	}
	return "[[" + link + "]]", err
}
