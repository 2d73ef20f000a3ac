package customers

import (
	"fmt"
	"strings"
)

// lines shows records as a numbered list. The ids are for what follows: "the second one".
// columns are shown beside what is always shown.
func lines(resource string, items []record, columns ...string) string {
	var b strings.Builder
	for i, r := range items {
		fmt.Fprintf(&b, "%d. %s\n", i+1, line(resource, r, columns))
	}
	return strings.TrimSpace(b.String())
}

func line(resource string, r record, columns []string) string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	head := fmt.Sprintf("**%s** (`%s`)", oneLine(r.text("name")), r.text("id"))
	switch resource {
	case "leads":
		switch title, company := r.text("title"), r.text("company"); {
		case title != "" && company != "":
			add(title + " at " + company)
		default:
			add(title + company)
		}
		add(r.text("city"))
		add(r.text("status"))
		if _, ok := r["score"]; ok {
			add(fmt.Sprintf("score %d", r.number("score")))
		}
		if _, ok := r["value"]; ok {
			add("€" + grouped(r.number("value")))
		}
		add(r.text("owner"))
	case "companies":
		add(r.text("industry"))
		add(r.text("city"))
		if p := r.text("plan"); p != "" {
			add("plan " + p)
		}
		if _, ok := r["active_users"]; ok {
			add(grouped(r.number("active_users")) + " active users")
		}
	case "projects":
		add(r.text("status"))
		add(r.text("region"))
		if d := r.text("due_on"); d != "" {
			add("due " + nice(d))
		}
		add(r.text("owner"))
	case "notes":
		head = fmt.Sprintf("“%s” (`%s`)", oneLine(r.text("text")), r.text("id"))
		for _, about := range []string{"lead", "company", "project"} {
			if n := r.text(about); n != "" {
				add("about " + n)
			}
		}
		add(r.text("author"))
		if at := r.text("created_at"); at != "" {
			add(nice(at))
		}
	}
	for _, c := range columns {
		label := ""
		for _, l := range labels {
			if l[0] == c {
				label = l[1]
			}
		}
		if v := shownValue(c, r[c]); v != "" {
			add(label + " " + v)
		} else {
			add("no " + label)
		}
	}
	if len(parts) == 0 {
		return head
	}
	return head + ": " + strings.Join(parts, ", ")
}

// labels are the fields of a record in their order, with the words for them.
var labels = [][2]string{
	{"title", "job"},
	{"company", "company"},
	{"email", "email"},
	{"phone", "phone"},
	{"domain", "domain"},
	{"industry", "industry"},
	{"size", "size"},
	{"region", "region"},
	{"city", "city"},
	{"country", "country"},
	{"status", "status"},
	{"plan", "plan"},
	{"active_users", "active users"},
	{"source", "source"},
	{"score", "score"},
	{"value", "value"},
	{"target", "target"},
	{"owner", "owner"},
	{"project", "project"},
	{"starts_on", "starts on"},
	{"due_on", "due on"},
	{"last_contact_on", "last contact"},
	{"created_at", "created"},
	{"unsubscribed", "unsubscribed"},
	{"description", "description"},
}

// shownValue is a value for people; "" if there is none.
func shownValue(name string, v any) string {
	switch v := v.(type) {
	case string:
		if strings.HasSuffix(name, "_on") || strings.HasSuffix(name, "_at") {
			return nice(v)
		}
		return oneLine(v)
	case float64:
		if name == "value" {
			return "€" + grouped(int(v))
		}
		return grouped(int(v))
	case bool:
		if v {
			return "yes"
		}
		if name == "unsubscribed" {
			return ""
		}
		return "no"
	}
	return ""
}

func card(f found, notes []record, total int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** (`%s`)\n\n", oneLine(f.name()), f.id())
	for _, l := range labels {
		if v := shownValue(l[0], f.record[l[0]]); v != "" {
			fmt.Fprintf(&b, "- %s: %s\n", upper(l[1]), v)
		}
	}
	if total > 0 {
		fmt.Fprintf(&b, "\n%d %s", total, noun("notes", total))
		if total > len(notes) {
			fmt.Fprintf(&b, ", the newest %d", len(notes))
		}
		b.WriteString(":\n\n")
		for _, n := range notes {
			fmt.Fprintf(&b, "- %s: “%s” (%s)\n", nice(n.text("created_at")), oneLine(n.text("text")), n.text("author"))
		}
	}
	return strings.TrimSpace(b.String())
}
