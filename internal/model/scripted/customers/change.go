package customers

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// change proposes what a request asks to change. The call is the proposal: the user is asked outside
// of here, and what comes back says what became of it.
func (u *turn) change(text string) (string, bool) {
	end := bare(text)
	if m := noteOn.FindStringSubmatch(text); m != nil {
		return u.note(m[1], m[2])
	}
	if m := noteFor.FindStringSubmatch(text); m != nil {
		return u.note(m[1], m[2])
	}
	if m := making.FindStringSubmatch(end); m != nil {
		return u.make(plural(m[1]), m[2])
	}
	if everything.MatchString(end) && !withNoun.MatchString(end) && !inID.MatchString(end) && resourceIn(end) != "" && pattern.New(`(?i)\b(?:all|every|each|everything|leads|companies|projects)\b`).MatchString(end) {
		return "I change one record at a time, so that you can confirm each. Tell me which one.", true
	}
	if m := leaving.FindStringSubmatch(end); m != nil {
		return u.unsubscribe(m[1])
	}
	if m := deleting.FindStringSubmatch(end); m != nil && !unassign.MatchString(end) {
		return u.delete(m[1])
	}
	name, changes := "", map[string]string{}
	// "mark her as won and assign her to Jonas": several changes of one record are one request.
	for _, part := range parts(end) {
		n, field, value, ok := u.amended(part)
		if !ok {
			return "", false
		}
		if field == "" {
			n, field, value = changeIn(part)
		}
		if m := makeIt.FindStringSubmatch(part); m != nil && field == "" {
			if id, last := u.lastField(); last != "" {
				n, field, value = "`"+id+"`", fieldName(last), m[1]
			}
		}
		if field == "" {
			return "I did not understand what to change. For example: “Set the score of Ana Ruiz to 80”, “Mark her as won”, “Assign her to Jonas”.", true
		}
		if n != "" && (name == "" || !pronoun.MatchString(n)) {
			name = n
		}
		changes[field] = value
	}
	return u.update(name, changes)
}

var jointly = pattern.New(`(?i),? and (?:then )?(?:also )?(mark|set|assign|change|update|move|give|raise|lower|rename|put|unassign)\b`)

func parts(text string) (list []string) {
	start := 0
	for _, m := range jointly.FindAllStringSubmatchIndex(text, -1) {
		list = append(list, strings.TrimSpace(text[start:m[0]]))
		start = m[2]
	}
	return append(list, strings.TrimSpace(text[start:]))
}

// changeIn is the change of one field.
func changeIn(text string) (name, field, value string) {
	if m := settingIts.FindStringSubmatch(text); m != nil {
		return "it", fieldName(m[1]), m[2]
	}
	if m := setting.FindStringSubmatch(text); m != nil {
		return m[2], fieldName(m[1]), m[3]
	}
	if m := settingOf.FindStringSubmatch(text); m != nil {
		return m[1], fieldName(m[2]), m[3]
	}
	if m := unassign.FindStringSubmatch(text); m != nil {
		return m[1] + m[2], "owner", ""
	}
	if m := assigning.FindStringSubmatch(text); m != nil {
		if m[1] != "" {
			return m[1], "owner", m[2]
		}
		return m[4], "owner", m[3]
	}
	if m := moving.FindStringSubmatch(text); m != nil {
		return m[1], "project", m[2]
	}
	if m := marking.FindStringSubmatch(text); m != nil {
		field = "status"
		if slices.Contains([]string{"free", "trial", "team", "enterprise"}, strings.ToLower(m[2])) {
			field = "plan"
		}
		return strings.TrimPrefix(m[1], "the status of "), field, strings.ToLower(m[2])
	}
	if m := pausing.FindStringSubmatch(text); m != nil {
		return "project " + m[2], "status", map[string]string{"pause": "paused", "resume": "active", "finish": "done", "complete": "done", "activate": "active", "start": "active"}[strings.ToLower(m[1])]
	}
	if m := closing.FindStringSubmatch(text); m != nil {
		return m[1], "status", strings.ToLower(m[2])
	}
	if m := upgrading.FindStringSubmatch(text); m != nil {
		return m[1], "plan", strings.ToLower(m[2])
	}
	if m := renaming.FindStringSubmatch(text); m != nil {
		return m[1], "name", m[2]
	}
	if m := isNow.FindStringSubmatch(text); m != nil {
		return m[1], "status", strings.ToLower(m[2])
	}
	return "", "", ""
}

// write proposes a request, and says what became of it.
func (u *turn) write(method, path, title, summary string, body map[string]any, done func(answer record) string) (string, bool) {
	in := map[string]any{"method": method, "path": path, "title": title, "summary": summary}
	if body != nil {
		in["body"] = body
	}
	results, ok := u.do(Call{Tool: "api_request", Input: in})
	if !ok {
		return "", false
	}
	r := results[0]
	switch {
	case !r.Failed:
	case strings.HasPrefix(r.Output, "Failed: "): // whatever words the API has for it
		return "That was not done. The CRM says: " + said(r.Output), true
	case strings.Contains(r.Output, "confirmed that it took effect"):
		return "It was done, as you say.", true
	case strings.Contains(r.Output, "confirmed that it took no effect"):
		return "It was not done, as you say. Ask for it again if you still want it.", true
	case strings.Contains(r.Output, "It is unknown whether") || strings.Contains(r.Output, "Do not repeat it"):
		return "It is not known whether that was done: the answer was lost. Look at the record before you ask for it again.", true
	default:
		if id := inID.FindString(path); id != "" {
			return "All right, nothing was changed about `" + id + "`.", true
		}
		return "All right, nothing was changed.", true
	}
	var a record
	_ = json.NewDecoder(strings.NewReader(r.Output)).Decode(&a) // a deletion has no answer
	return done(a), true
}

// said is what an API says of a mistake.
func said(output string) string {
	if at := strings.Index(output, "{"); at >= 0 {
		var e struct{ Detail any }
		if json.NewDecoder(strings.NewReader(output[at:])).Decode(&e) == nil {
			switch d := e.Detail.(type) {
			case string:
				return d
			case []any:
				var list []string
				for _, p := range d {
					if m, ok := p.(map[string]any); ok {
						loc, _ := m["loc"].([]any)
						text := fmt.Sprint(m["msg"])
						if len(loc) > 1 {
							text = fmt.Sprint(loc[len(loc)-1], ": ", text)
						}
						list = append(list, text)
					}
				}
				return strings.Join(list, " ")
			}
		}
	}
	return oneLine(output)
}

func (u *turn) note(about, text string) (string, bool) {
	f, ok := u.entity(about)
	if !ok || !u.learned("notes") {
		return "", false
	}
	if f.resource == "notes" {
		return "A note can be about a lead, a company or a project.", true
	}
	text = upper(strings.TrimSpace(text))
	body := map[string]any{"text": text, f.id()[:strings.Index(f.id(), "-")] + "_id": f.id()}
	return u.write("POST", "/api/notes", "Add a note to "+f.name(), "Adds the note “"+oneLine(text)+"”.", body, func(a record) string {
		return fmt.Sprintf("Added the note (`%s`) to **%s** (`%s`): “%s”", a.text("id"), f.name(), f.id(), oneLine(text))
	})
}

var (
	aProperty = pattern.New(`(?i)^(?:(?:an?|the|his|her|its) )?(email|e-mail|mail|phone|title|job|score|value|city|country|source|status|company|owner|project|domain|industry|size|plan|region|target|description|deadline)(?: address| date)?\s*(?::|=|of|is|on|by)?\s*(.+)$`)
	between   = pattern.New(`(?i)\s*(?:,|;|\band\b|\bwith\b)\s*`)
	mailWords = pattern.New(`(?i)(?:\bwith (?:the )?)?(?:\be-?mail(?: address)?\b\s*(?:is|:)?\s*)?[\w.+-]+@[\w-]+(?:\.[\w-]+)+`)
	anEmail   = pattern.New(`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`)
	euros     = pattern.New(`(?i)(?:worth|value(?: of)?|for)\s*(?:€|eur)?\s*(\d[\d.,]*)\s*(k|m|thousand|million)?(?:\s*(?:€|euros?|eur))?`)
	named     = pattern.New(`(?i)^(?:for|called|named|with the name|:)?\s*"?([^",]+?)"?(?:\s*,.*|\s+(?:with|at|from|in|who|whose|worth|as|and|of|owned|assigned|email|phone|due|for)\b.*)?$`)
	firm      = pattern.New(`\b(?i:at|of|from) (\p{Lu}[\p{L}.'&-]*(?:\s+\p{Lu}[\p{L}.'&-]*)*)`)
	town      = pattern.New(`\b(?i:in|for) (\p{Lu}[\p{L}.'-]*(?:\s+\p{Lu}[\p{L}.'-]*)*)`)
	jobs      = pattern.New(`(?i),? (?:who is|as|is) (?:an? |the |their )?([\p{L} ]+?)(?: (?:at|of|in|with)\b|,|$)`)
	lookedBy  = pattern.New(`(?i)\b(?:owned by|assigned to|owner:?) (\p{L}+(?: \p{Lu}\p{L}+)?)`)
	dueOn     = pattern.New(`(?i)\b(?:due|until|deadline)(?: on| by)? (\d{4}-\d\d-\d\d|\d{1,2}\.? (?:January|February|March|April|May|June|July|August|September|October|November|December)(?: \d{4})?)`)
)

func (u *turn) make(resource, text string) (string, bool) {
	if !u.learned(resource) {
		return "", false
	}
	r := u.known[resource]
	if !r.can(r.create()) {
		return "The CRM creates no " + noun(resource, 2) + ".", true
	}
	text = strings.TrimSpace(text)
	m := named.FindStringSubmatch(text)
	if m == nil || strings.TrimSpace(m[1]) == "" {
		return "What is the name of the " + noun(resource, 1) + "? For example: “Create a " + noun(resource, 1) + " Ana Ruiz”.", true
	}
	want := map[string]string{"name": strings.TrimSpace(m[1])}
	rest := strings.Replace(text, m[1], "", 1)
	can := func(field string) bool { return r.takes(r.create(), field) }
	if e := anEmail.FindString(rest); e != "" && can("email") {
		want["email"] = e
		rest = mailWords.ReplaceAllString(rest, "")
	}
	for i, part := range between.Split(rest, -1) {
		if part = strings.TrimSpace(part); i > 0 && nameOnly.MatchString(part) && can("city") && want["city"] == "" && countries[strings.ToLower(part)] == "" {
			want["city"] = part
		}
		if country := countries[strings.ToLower(part)]; i > 0 && country != "" && can("country") {
			want["country"] = country
		}
		if p := aProperty.FindStringSubmatch(strings.TrimSpace(part)); p != nil && want[fieldName(p[1])] == "" {
			want[fieldName(p[1])] = strings.Trim(strings.TrimSpace(p[2]), `"`)
		}
	}
	if d := dueOn.FindStringSubmatch(rest); d != nil && can("due_on") {
		want["due_on"] = d[1]
	}
	if e := euros.FindStringSubmatch(rest); e != nil && can("value") {
		want["value"] = e[1] + e[2]
	}
	if c := firm.FindStringSubmatch(rest); c != nil && can("company_id") && want["company"] == "" {
		want["company"] = c[1]
	}
	if c := town.FindStringSubmatch(rest); c != nil && want["city"] == "" {
		switch country := countries[strings.ToLower(c[1])]; {
		case country != "" && can("country"):
			want["country"] = country
		case can("city"):
			want["city"] = c[1]
		case can("region") && want["region"] == "":
			want["region"] = c[1]
		}
	}
	if j := jobs.FindStringSubmatch(rest); j != nil && can("title") && want["title"] == "" {
		want["title"] = upper(strings.TrimSpace(j[1]))
	}
	if o := lookedBy.FindStringSubmatch(rest); o != nil && can("owner_id") {
		want["owner"] = o[1]
	}
	for _, field := range []string{"status", "source", "plan", "industry"} {
		for _, v := range r.requests[r.create()][field].values {
			if want[field] == "" && v != "new" && pattern.New(`(?i)\b`+regexp.QuoteMeta(v)+`\b`).MatchString(rest) {
				want[field] = v
			}
		}
	}
	body, words, ok := u.body(r, r.create(), want)
	if !ok {
		return "", false
	}
	with, left := "", ""
	if words != "" {
		with = " with " + words
	}
	if list := unused(rest, want); len(list) > 0 {
		left = " I did not use “" + strings.Join(list, "”, “") + "”."
	}
	return u.write("POST", r.path(), "Create the "+noun(resource, 1)+" "+want["name"], "Creates a "+noun(resource, 1)+with+"."+left, body, func(a record) string {
		return fmt.Sprintf("Created the %s **%s** (`%s`)%s.", noun(resource, 1), oneLine(a.text("name")), a.text("id"), with) + left
	})
}

// body makes the body of a request of the words for its fields.
func (u *turn) body(r *resource, request string, want map[string]string) (body map[string]any, words string, ok bool) {
	body = map[string]any{}
	var said []string
	to := " "
	if request == r.update() {
		to = " to "
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value := strings.Trim(strings.TrimSpace(want[name]), `"`)
		field := name
		switch name {
		case "owner":
			field = "owner_id"
		case "company", "project":
			field = name + "_id"
		}
		if !r.takes(request, field) {
			u.failed = fmt.Sprintf("A %s has no %s that could be set.", noun(r.name, 1), strings.ReplaceAll(name, "_", " "))
			return nil, "", false
		}
		v := r.requests[request][field]
		switch {
		case field == "owner_id" && value == "":
			body[field] = nil
			said = append(said, "the owner to nobody")
			continue
		case field == "owner_id":
			if pattern.New(`(?i)^(?:me|myself)$`).MatchString(value) {
				value = "me"
			}
			id, full, ok := u.user(value)
			if !ok {
				return nil, "", false
			}
			if id == "" {
				u.failed = "Nobody here is called “" + value + "”."
				return nil, "", false
			}
			body[field], value = id, full
		case field == "company_id" || field == "project_id":
			f, ok := u.entity(value, plural(name))
			if !ok {
				return nil, "", false
			}
			body[field], value = f.id(), f.name()
		case v.kind == "integer":
			m := pattern.New(`(?i)(\d[\d.,]*)\s*(k|m|thousand|million)?`).FindStringSubmatch(value)
			if m == nil {
				u.failed = fmt.Sprintf("“%s” is no number for the %s.", value, name)
				return nil, "", false
			}
			n := amount(m[1], m[2])
			body[field], value = n, grouped(n)
		case strings.HasPrefix(v.kind, "day"):
			for _, form := range []string{"2 January 2006", "2 January"} {
				if at, err := time.Parse(form, strings.ReplaceAll(value, ".", "")); err == nil {
					if at.Year() == 0 {
						if at = at.AddDate(u.Now.Year(), 0, 0); at.Before(u.Now) {
							at = at.AddDate(1, 0, 0)
						}
					}
					value = at.Format(time.DateOnly)
				}
			}
			switch strings.ToLower(value) {
			case "today":
				value = u.Now.Format("2006-01-02")
			case "yesterday":
				value = u.Now.AddDate(0, 0, -1).Format("2006-01-02")
			}
			body[field] = value
		case len(v.values) > 0:
			value = strings.ToLower(value)
			if !slices.Contains(v.values, value) {
				u.failed = fmt.Sprintf("The %s can be %s, and not “%s”.", name, strings.Join(v.values, ", "), value)
				return nil, "", false
			}
			body[field] = value
		default:
			body[field] = value
		}
		if name == "name" && request == r.create() {
			continue // which the title says
		}
		if name == "value" {
			value = "€" + value
		}
		label := map[string]string{"due_on": "due date", "starts_on": "first day", "last_contact_on": "last contact"}[name]
		if label == "" {
			label = strings.ReplaceAll(name, "_", " ")
		}
		said = append(said, "the "+label+to+"“"+value+"”")
	}
	if n := len(said); n > 1 {
		said = append(said[:n-2], said[n-2]+" and "+said[n-1])
	}
	return body, strings.Join(said, ", "), true
}

func (u *turn) update(name string, want map[string]string) (string, bool) {
	f, ok := u.entity(name)
	if !ok {
		return "", false
	}
	r := u.known[f.resource]
	if !r.can(r.update()) {
		return "The CRM changes no " + noun(f.resource, 2) + ".", true
	}
	body, words, ok := u.body(r, r.update(), want)
	if !ok {
		return "", false
	}
	same := true
	for field, v := range body {
		if fmt.Sprint(v) != fmt.Sprint(f.record[field]) {
			same = false
		}
	}
	if same && !u.proposed("PUT", r.path()+"/"+f.id()) {
		return fmt.Sprintf("**%s** (`%s`) has that already.", f.name(), f.id()), true
	}
	return u.write("PUT", r.path()+"/"+f.id(), "Change "+f.name(), "Sets "+words+".", body, func(a record) string {
		name := f.name()
		if n := a.text("name"); n != "" {
			name = n
		}
		return fmt.Sprintf("Changed **%s** (`%s`): set %s.", name, f.id(), words)
	})
}

// proposed reports whether a write was called in this turn, and not yet spoken of.
func (u *turn) proposed(method, path string) bool {
	for i, r := range u.Results {
		if !u.used[i] && r.Input["method"] == method && r.Input["path"] == path {
			return true
		}
	}
	return false
}

func (u *turn) delete(name string) (string, bool) {
	// By now it may be gone, and its name with it.
	for i, r := range u.Results {
		if !u.used[i] && r.Input["method"] == "DELETE" {
			title, _ := r.Input["title"].(string)
			path, _ := r.Input["path"].(string)
			summary, _ := r.Input["summary"].(string)
			return u.write("DELETE", path, title, summary, nil, func(record) string {
				return "Deleted **" + strings.TrimPrefix(title, "Delete ") + "**."
			})
		}
	}
	f, ok := u.entity(name)
	if !ok {
		return "", false
	}
	if r := u.known[f.resource]; !r.can(r.remove()) {
		return "The CRM deletes no " + noun(f.resource, 2) + ".", true
	}
	what := f.name()
	if f.resource == "notes" {
		what = "the note “" + oneLine(f.text("text")) + "”"
		if len(what) > 90 {
			what = strings.ToValidUTF8(what[:80], "") + "…”"
		}
	}
	return u.write("DELETE", "/api/"+f.resource+"/"+f.id(), "Delete "+what, "Deletes the "+noun(f.resource, 1)+" for good.", nil, func(record) string {
		return "Deleted **" + what + "**."
	})
}

func (u *turn) unsubscribe(name string) (string, bool) {
	f, ok := u.entity(name, "leads")
	if !ok {
		return "", false
	}
	if u.known["leads"].takes("PUT /api/leads/{id}", "unsubscribed") {
		return u.write("PUT", "/api/leads/"+f.id(), "Unsubscribe "+f.name(), f.name()+" gets no more mails.", map[string]any{"unsubscribed": true}, func(record) string {
			return fmt.Sprintf("**%s** (`%s`) gets no more mails.", f.name(), f.id())
		})
	}
	return "The CRM cannot unsubscribe people.", true
}
