package customers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// A question of which a part is not understood would be answered with too many records, as if that
// part had not been said. So each word must be one that some rule has read, or one that says nothing.

// fill are words that say nothing about which records are asked for.
var fill = words(`a an the this that these those there here it its it's that's them they their he she his her him i me my mine we us our you your who whom whose which what
	where when how why's what's who's is are was were be been being am do does did done has have had can could would should will shall may might must of in on at to from with by for
	about as than into out up and or but if so not no nor n't isn't aren't don't doesn't didn't haven't hasn't any anyone anybody somebody someone everyone every each all both some other
	another only just also still yet already ever even now currently please again more further next many much number numbers count total list show give find tell get see look display search fetch want
	need know like one ones kind sort order call called name named names record records entry entries data crm system database have got exist exists existing registered listed available
	most least fewest best worst first last top new old recent latest newest oldest made make makes came come comes coming added add created entered written wrote write writes
	said noted says say work works working worked sit sits based live located belong belongs looked after owned owner owners assigned own owns responsible person colleague user users charge
	status stage stages source sources city cities town country countries region industry industries plan plans score scores value values worth target pipeline
	money euro euros eur amount sum average mean combined together overall altogether by per between above over below under least more less fewer greater higher lower bigger smaller exactly
	looking going doing well currently today's sorted ordered ranked grouped compare compared versus vs difference breakdown overview distribution statistics stats funnel split spread
	contacted contact spoken talked talk heard due ending end ends start starts starting begin begins deadline since before after until during within in date day days week weeks month months quarter year years
	time times ago long longest far mention mentions mentioning containing contains matching side list lists left rest others page pages open win wins lose loses
	two three four five six seven eight nine ten`)

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// readers are the rules whose whole match is read when it is found.
func readers() []*pattern.Regexp {
	return []*pattern.Regexp{
		howMany, sums, averages, byField, spread, whoMost, mostBy, compares, addUp, furtherOnes, orders, superlative, top, edges, span, recent, since, months, longAgo, longest, noCall, unowned, lacking, mine,
		compare, counted, betweens, quoted, mention, openOnes, nationality, columns, share, late, noMail, updated, polite,
	}
}

var aWord = pattern.New(`[\p{L}\d][\p{L}\p{M}\d'.&-]*`)

// unread are the words of a question that no rule has read.
func (a *asked) unread(r *resource, text string) (left []string) {
	if len(text) > 1<<10 {
		return []string{"so long a text"}
	}
	said := strings.ToLower(strings.Join([]string{a.owner, a.company, a.project, a.noun(1), a.noun(2), a.sorted, strings.Join(a.keys, " "), strings.ReplaceAll(a.of, "_", " ")}, " "))
	read := words(strings.NewReplacer("“", " ", "”", " ", ",", " ", ".", " ").Replace(said))
	if ends := superlative.FindAllString(text, -1); len(ends) > 1 && !strings.EqualFold(ends[0], ends[1]) {
		left = ends // one order is asked for, or it is another question
	}
	for _, p := range readers() {
		text = p.ReplaceAllString(text, " , ")
	}
	for _, w := range aWord.FindAllString(text, -1) {
		w = strings.TrimRight(strings.ToLower(w), ".'&-")
		stem := strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "s")
		switch {
		case fill[w], fill[stem], read[w], read[stem], r.hasValue(w), countries[w] != "", !strings.ContainsFunc(w, isLetter):
		case resourceIn(w) != "" && (resourceIn(w) == a.resource || resourceIn(w) == "users" || a.filters[strings.TrimSuffix(noun(resourceIn(w), 1), " of the organisation")+"_id"] != nil || a.company != "" || a.project != ""):
		case strings.HasPrefix(said, stem) || strings.Contains(said, " "+stem):
		case !slices.Contains(left, w):
			left = append(left, w)
		}
	}
	return left
}

func isLetter(c rune) bool { return c >= 'a' && c <= 'z' || c > 0x7f }

// partly is the answer to a question of which a part is not understood.
func (a *asked) partly(r *resource) string {
	var by []string
	for _, name := range []string{"status", "plan", "industry", "source", "city", "country", "region", "owner_id", "company_id", "project_id", "lead_id", "author_id", "min_score", "min_value", "min_active_users", "due_from", "last_contact_from", "created_from"} {
		if r.takes(r.list(), name) {
			by = append(by, map[string]string{"owner_id": "owner", "company_id": "company", "project_id": "project", "lead_id": "lead", "author_id": "author", "min_score": "score", "min_value": "value", "min_active_users": "active users", "due_from": "due date", "last_contact_from": "last contact", "created_from": "the day they were added"}[name])
			if by[len(by)-1] == "" {
				by[len(by)-1] = name
			}
		}
	}
	slices.Sort(by)
	if n := len(by); n > 1 {
		by = append(by[:n-2], by[n-2]+" and "+by[n-1])
	}
	return fmt.Sprintf("I did not understand all of that: I do not know what to do with “%s”, and an answer without it might be wrong. I can pick %s by %s.", strings.Join(a.left[:min(len(a.left), 5)], "”, “"), noun(a.resource, 2), strings.Join(by, ", "))
}

// holding narrows a question to the records that have the words that no rule has read, such as a job.
// found is false if there are none.
func (u *turn) holding(a *asked) (found, ok bool) {
	r := u.known[a.resource]
	if !r.takes(r.list(), "q") || a.filters["q"] != nil || a.intent == grouping || a.intent == comparing || a.intent == sharing || len(a.left) > 3 || slices.ContainsFunc(a.left, nameless.MatchString) {
		return false, true
	}
	text := strings.Join(a.left, " ")
	for _, t := range []string{text, strings.TrimSuffix(text, "s")} {
		answers, ok := u.fetch(get(r.path(), map[string]any{"q": t, "page_size": 1, "fields": "id"}))
		if !ok {
			return false, false
		}
		if answers[0].number("total") > 0 {
			a.set("q", t, "with “"+t+"”")
			return true, true
		}
	}
	return false, true
}

// nameless are words that mean something else than records that have them.
var nameless = pattern.New(`^(?:why|else|both|except|besides|rather|instead|never|always|often|usually|percent.*|pays?|paid|notes?|leads?|compan(?:y|ies)|projects?|phone|telephone|e?-?mails?|monday|tuesday|wednesday|thursday|friday|saturday|sunday|tomorrow|yesterday|.* .*)$`)

var properties = words("email e-mail mail phone telephone number address title job role score value city country source status company owner project domain website industry size plan region target description deadline due date name person date's campaign account contact prospect deal")

// unused are the words of a request to make something that are in none of its fields.
func unused(text string, fields map[string]string) (left []string) {
	var in strings.Builder
	for _, v := range fields {
		in.WriteString(strings.ToLower(v) + " ")
	}
	for _, w := range aWord.FindAllString(text, -1) {
		w = strings.TrimRight(strings.ToLower(w), ".'&-")
		if !fill[w] && !properties[w] && countries[w] == "" && strings.ContainsFunc(w, isLetter) && !strings.Contains(in.String(), w) && !slices.Contains(left, w) {
			left = append(left, w)
		}
	}
	return left[:min(len(left), 5)]
}
