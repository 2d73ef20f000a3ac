package scripted

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// surveys reports whether a question is about the sources themselves, all of
// them: what was decided, what contradicts what, what somebody said.
func (s *script) surveys(v view) bool {
	return s.everything(v) || s.conflicting(v) || s.counting(v) || voice(v.Question) != "" || s.verbatim(v)
}

// counting reports whether a question asks which pages, channels or messages there are, without
// a topic.
func (s *script) counting(v view) bool {
	yes, err := s.asks("inventory", v.Question)
	return err == nil && yes && len(s.about(v.Question)) == 0 && len(v.History) == 0
}

// inventory returns everything there is: pages, messages, or both.
func (s *script) inventory(rs []record, sub subject) weight {
	w := s.latest(rs, sub)
	w.Kind = "inventory"
	pages, messages := ofPages(sub.question), ofMessages(sub.question)
	w.All = slices.DeleteFunc(w.All, func(x *weighed) bool {
		return pages != messages && (x.User == "") != pages
	})
	for _, x := range w.All { // it is in the sources; only a record that decides something is a decision
		c, old := s.conflict(rs, x.record)
		switch {
		case old && x.Title != "":
			x.Verdict = "overridden by " + c.Best.whose()
		case !x.Dated():
			x.Verdict = "undated"
		case x.Kind != statement:
			x.Verdict = x.Kind + ", no decision"
		case x.User == "":
			x.Verdict = "not compared"
		default:
			x.Verdict = "said"
		}
	}
	w.Best = nil
	if len(w.All) > 0 {
		w.Best = w.All[0]
	}
	return w
}

// verbatim reports whether a question that begins a conversation asks for the words of the
// sources, without a topic.
func (s *script) verbatim(v view) bool {
	yes, err := s.asks("wording", v.Question)
	return err == nil && yes && len(v.History) == 0 && len(s.about(v.Question)) == 0
}

// conflicting reports whether a question asks, without a topic, whether sources contradict one
// another or are out of date.
func (s *script) conflicting(v view) bool {
	if trusts, _ := s.asks("correct", v.Question); !(trusts && s.faint(s.about(v.Question))) && len(s.about(v.Question)) > 0 || len(v.History) > 0 && s.leans(v.Question) {
		return false
	}
	names := []string{"conflicts", "current", "apart"}
	if sourceWord.MatchString(v.Question) {
		names = append(names, "order", "correct", "contact")
	}
	return s.topicless(v) || slices.ContainsFunc(names, func(name string) bool {
		yes, err := s.asks(name, v.Question)
		return err == nil && yes
	})
}

// topicless reports whether a question that begins a conversation asks who, why, when and the like
// and names nothing: it is about whatever was changed.
func (s *script) topicless(v view) bool {
	return len(v.History) == 0 && len(s.about(v.Question)) == 0 && !s.everything(v) && !s.leans(v.Question) &&
		slices.ContainsFunc([]string{"who", "why", "when", "before", "touched"}, func(name string) bool {
			yes, err := s.asks(name, v.Question)
			return err == nil && yes
		})
}

// conflicts returns, for each page that something newer overrides, what holds now. The weight of
// a single conflict contains all of it.
func (s *script) conflicts(rs []record, sub subject) weight {
	w := weight{Subject: sub, Kind: "conflicts"}
	for _, page := range rs {
		if page.Title == "" {
			continue
		}
		if c, ok := s.conflict(rs, page); ok {
			w.Conflicts = append(w.Conflicts, c)
		}
	}
	if len(w.Conflicts) == 1 {
		one := w.Conflicts[0]
		one.Kind, one.Conflicts, one.Subject.question = w.Kind, w.Conflicts, sub.question
		return one
	}
	for _, r := range rs {
		w.All = append(w.All, s.look(r, sub))
	}
	return w
}

// conflict returns what overrides a page, concerning a sentence of it or else its title.
func (s *script) conflict(rs []record, page record) (weight, bool) {
	var texts []string
	for _, sen := range page.sentences[:min(len(page.sentences), maxCovered)] {
		texts = append(texts, sen.text)
	}
	for _, text := range append(texts, page.Title) {
		own := s.about(text)
		c := s.direct(rs, subject{Own: own, question: text, terms: s.terms(own, false)}, false)
		if c.Best != nil && slices.ContainsFunc(c.Overridden, func(x *weighed) bool { return x.Line == page.Line }) {
			c.Page = page
			return c, true
		}
	}
	return weight{}, false
}

// speaker matches the person whose words a question asks for.
var speaker = pattern.New(`(?i)^\W*(?:(?:and|so|but|ok)\W+)?what (?:did|does|do|has|have) (?:the |our )?((?:head of )?[\w.]+(?: [\w.]+)?) (?:say|said|write|written|announced?|post(?:ed)?|think|want|wanted|suggest(?:ed)?|propose[d]?|ask(?:ed)? for)\W*$|^\W*what (?:was|is|has been) (?:said|written|posted|announced) (?:in|on|by) (?:the )?([#\w.-]+(?: [\w.-]+)?)\W*$`)

// voice returns the person, office or channel whose words a question asks for.
func voice(question string) string {
	question = within.ReplaceAllString(since.ReplaceAllString(timeless(question), ""), "")
	m := speaker.FindStringSubmatch(strings.TrimSpace(question))
	if m == nil {
		return ""
	}
	name := strings.ToLower(m[1] + m[2])
	if slices.Contains(strings.Fields("it this that they he she we you notion slack sources one"), strings.Fields(name)[0]) || pageWord.MatchString(name) {
		return ""
	}
	return name
}

var (
	sourceWord = pattern.New(`(?i)\b(?:slack|notion)\b`)
	pageWord   = pattern.New(`(?i)\b(?:pages?|docs?|documents?|specs?)\b`)

	messageWord = pattern.New(`(?i)\b(?:messages?|channels?)\b`)
	boss        = pattern.New(`(?i)^(?:boss|management|leadership)$`)
)

// ofPages and ofMessages report which sort of source a question names.
func ofPages(question string) bool { return pageWord.MatchString(question) || has(question, "notion") }

func ofMessages(question string) bool {
	return messageWord.MatchString(question) || has(question, "slack")
}

// said returns the records of a voice, all of which are shown.
func (s *script) said(name string, rs []record, sub subject) weight {
	w := weight{Subject: sub, Kind: "voice", Name: name}
	for _, r := range rs {
		if r.User == "" && name != "" {
			continue
		}
		by := name == "" && (strings.Contains(strings.ToLower(sub.question), strings.ToLower(r.Source)) || !sourceWord.MatchString(sub.question)) || boss.MatchString(name) && r.rank() == 3 || r.spoken(name) || name != "" && strings.TrimPrefix(r.Channel, "#") == strings.TrimPrefix(name, "#")
		if by {
			x := s.look(r, sub)
			x.Verdict = x.Kind
			if x.Kind == statement {
				x.Verdict = "said"
			}
			w.All = append(w.All, x)
		}
	}
	return w
}

// Wished reports whether all records are wishes.
func (w weight) Wished() bool {
	return !slices.ContainsFunc(w.All, func(x *weighed) bool { return x.Kind != wish })
}

// covered lists what the sources contain: pages, channels and speakers.
func covered(rs []record) string {
	var pages, channels []string
	for _, r := range rs {
		switch {
		case r.Title != "":
			pages = add(pages, `"`+r.Title+`"`)
		case r.Channel != "":
			channels = add(channels, r.Channel)
		}
	}
	var out []string
	if len(pages) > 0 {
		out = append(out, "Notion has the "+plural("page", pages)+" "+upTo(pages))
	}
	if len(channels) > 0 {
		out = append(out, "Slack has messages in "+upTo(channels))
	}
	return strings.Join(out, "; ")
}

func plural(word string, list []string) string {
	if len(list) == 1 {
		return word
	}
	return word + "s"
}

const maxCovered = 12

func upTo(list []string) string {
	if len(list) > maxCovered {
		return strings.Join(list[:maxCovered], ", ") + fmt.Sprintf(" and %d more", len(list)-maxCovered)
	}
	return strings.Join(list, ", ")
}

// apart returns how many days lie between two records.
func apart(a, b record) string {
	d := int(a.at.Sub(b.at).Abs() / (24 * time.Hour))
	switch {
	case !a.Dated() || !b.Dated():
		return "an unknown time"
	case d == 1:
		return "1 day"
	case d < 14:
		return fmt.Sprintf("%d days", d)
	}
	return fmt.Sprintf("%d days (about %d weeks)", d, (d+3)/7)
}

// within matches a month that a question names with "in".
var within = pattern.New(`(?i)\b(?:in|during) (` + months + `)(?: (\d{4}))?\b`)

// until returns the end of the time that a question asks about; zero if there is none.
func until(question string, from time.Time) time.Time {
	if from.IsZero() || !within.MatchString(question) {
		return time.Time{}
	}
	return from.AddDate(0, 1, 0)
}
