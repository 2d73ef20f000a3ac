package customers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// sort of a request.
type sortOf string

const (
	small    sortOf = "small"
	cannot   sortOf = "cannot"
	changing sortOf = "change"
	detail   sortOf = "detail"
	reading  sortOf = "read"
)

func form(text string) *pattern.Regexp { return pattern.New(`(?is)^(?:` + text + `)$`) }

var talk = []struct {
	form *pattern.Regexp
	say  string
}{
	{form(`(?:hi|hello|hey|good (?:morning|afternoon|evening)|moin)(?: there)?`), "Hello! Ask me about your leads, companies, projects and notes, or tell me what to change."},
	{form(`(?:thanks|thank you|thx|cheers|great|perfect|super|nice|cool|ok|okay|good|well done|got it|fine)(?: (?:a lot|very much|so much|you|job|thanks))*`), "You are welcome."},
	{form(`(?:bye|goodbye|good night|see you|that's all|nothing|never mind|nevermind|no|no thanks)`), "All right."},
	{form(`(?:who|what) are you|what(?:'s| is) your name|are you (?:a |an )?(?:human|person|bot|robot|ai|real|scripted|language model|chatgpt|claude|llm).*|which model.*|what model.*`), "I am a script that follows rules, and no language model. I read and change the records of your CRM."},
	{form(`help(?: me)?|what can (?:you|i) (?:do|ask|say|change)(?: (?:here|with|about|to) ?.*)?|what do you (?:do|know)|how does (?:this|it) work|what are you able .*`), helpText},
	{form(`(?:yes|yep|yeah|sure|do it|go ahead|confirm|confirmed)`), "There is nothing that waits for a yes. A change that I propose has buttons to confirm or cancel it."},
	{form(`(?:undo|revert|roll back|take back|restore)(?: (?:that|it|this|the last (?:change|one)))?`), "I cannot take back what was changed. Tell me what it should be, and I propose that change."},
}

const helpText = `I can look up what your CRM has, and change it when you confirm it. For example:

- How many leads do we have, by status?
- Which qualified leads in Germany are worth most?
- Tell me about the second one.
- What was said about Spreewerk?
- Create a lead Ana Ruiz at Spreewerk.
- Mark her as contacted and assign her to Jonas.
- Add a note to her: wants a demo in June.`

var (
	impossible = pattern.New(`(?i)^(?:send|e-?mail|mail|write (?:an? )?(?:e-?mail|mail|letter|message)|call|phone|ring|export|download|import|upload|merge|schedule|book|invite|print|forecast|predict|draft|remind|translate|text|message|share|sync|plot|chart|draw)\b`)
	everything = pattern.New(`(?i)^(?:delete|remove|mark|set|change|update|assign|move|close|archive|unsubscribe)\b.*\b(?:all|every|each|everything|everyone|(?:new|lost|won|old) leads|leads (?:in|from|of|with)|leads|companies|projects)\b(?:$| )`)
	noteOn     = form(`(?:add|write|make|create|leave|put|log|attach|save)(?: down)? (?:a |an |the |this )?(?:new |short |quick |pinned )?note(?: (?:to|for|on|about|at|with|under) (.+?)| there| here)?\s*(?::|,? (?:that says|saying|with the text|stating|that))\s*(.+)`)
	noteFor    = form(`(?:note|remember)(?: (?:for|on|about|to) (.+?))?\s*:\s*(.+)`)
	making     = form(`(?:create|add|make|new|register|enter|open|start|set up)(?: (?:a|an|the|another|new))* (lead|company|project|account|contact|prospect|campaign)\b\s*(.*)`)
	deleting   = form(`(?:delete|remove|erase|drop|get rid of) (.+)`)
	leaving    = form(`(?:unsubscribe) (.+?)(?: from (?:all |the )?(?:mails?|e-?mails?|newsletters?))?`)
	marking    = form(`(?:mark|flag|move|set|put|change|update|switch|turn) (.+?)(?:'s)?(?: status| stage)? (?:as|to|into|on|in|for) (?:the )?(?:status |stage |plan )?"?(new|contacted|qualified|proposal|won|lost|planned|active|paused|done|free|trial|team|enterprise)"?`)
	isNow      = form(`(.+?) (?:is|was|has been|has) (?:now |just )?(new|contacted|qualified|won|lost|planned|active|paused|done)(?: now)?`)
	assigning  = form(`(?:assign|give|hand(?: over)?|transfer|reassign) (.+?) (?:to|over to) (.+)|(?:make) (.+?) (?:the )?owner of (.+)`)
	unassign   = form(`unassign (.+)|remove the owner (?:of|from) (.+)`)
	setting    = form(`(?:set|change|update|correct|edit|put|raise|lower|increase|decrease|rename)(?: the)? (name|email|e-mail|phone|phone number|title|job title|job|city|country|score|value|source|last contact|company|project|owner|domain|industry|size|plan|active users|description|region|target|start date|due date|end date|deadline|status) (?:of|for|on|from) (.+?) (?:to|as|=|:) (.+)`)
	settingOf  = form(`(?:set|change|update|correct|edit|raise|lower|increase|decrease) (.+?)(?:'s|s') (name|email|e-mail|phone|phone number|title|job title|job|city|country|score|value|source|last contact|company|project|owner|domain|industry|size|plan|active users|description|region|target|start date|due date|end date|deadline|status) (?:to|as|=|:) (.+)`)
	settingIts = form(`(?:set|change|update|correct|edit|raise|lower|increase|decrease) (?:his|her|its|their|the) (name|email|e-mail|phone|phone number|title|job title|job|city|country|score|value|source|last contact|company|project|owner|domain|industry|size|plan|active users|description|region|target|start date|due date|end date|deadline|status) (?:to|as|=|:) (.+)`)
	pausing    = form(`(pause|resume|finish|complete|activate|start) (?:the )?(?:project |campaign )?(.+)`)
	closing    = form(`close (?:the )?(?:deal |lead )?(?:with |of )?(.+?) as (won|lost)`)
	upgrading  = form(`(?:upgrade|downgrade) (.+?) to (?:the )?(?:plan )?(free|trial|team|enterprise)(?: plan)?`)
	renaming   = form(`rename (.+?) (?:to|as|into) (.+)`)
	moving     = form(`(?:move|add|put) (.+?) (?:to|into|in) the (?:project|campaign) (.+)`)
	anyChange  = pattern.New(`(?i)^(?:pause|resume|finish|complete|activate|upgrade|downgrade|close|create|add|make a|new (?:lead|company|project)|register|enter a|delete|remove|erase|unsubscribe|mark|flag|move|set|change|update|switch|assign|unassign|reassign|rename|correct|edit|note(?: for| on| about| to)?\b.*:|remember\b|raise|lower|increase|decrease|bump|reduce|cut|double|triple|halve|(?:make|let) (?:it|that)\b|rather\b|write (?:a|down)|log a|leave a|put|hand over|transfer|close|pin)\b`)

	about    = form(`(?:who is|who's|who are|tell me (?:more |everything |something )?about|what do (?:we|you) know about|(?:show|open|give|get)(?: me)?(?: (?:the|an?))?(?: (?:full |short )?(?:details?|record|card|profile|summary|overview))?(?: (?:of|for|on|about))?|everything (?:about|on)|summari[sz]e|(?:a )?summary of|(?:the )?details?(?: (?:of|for|on|about))|more (?:about|on)|look up|find|search(?: for)?|describe|info(?:rmation)? (?:on|about)|what about|and|how about) (.+)`)
	fieldOf  = form(`(?:what(?:'s| is| are)|who(?:'s| is)|tell me|give me|show me|do you know|i need)?\s*(?:the )?(email|e-mail|mail|email address|mail address|phone|phone number|telephone|title|job|job title|role|status|stage|score|value|owner|city|country|location|company|employer|source|last contact|domain|website|plan|size|industry|active users|due date|deadline|region|target|project|description)(?: address)? (?:of|for) (.+)`)
	ofField  = form(`(?:and )?(?:what(?:'s| is| are)|who(?:'s| is))?\s*(.+?)(?:'s|s'| his| her) (email|e-mail|mail|email address|phone|phone number|number|title|job|job title|role|status|stage|score|value|owner|city|country|company|source|last contact|domain|website|plan|size|industry|active users|due date|deadline|region|target|project)`)
	itsField = form(`(?:and |what about |how about )?(?:what(?:'s| is| are)|who(?:'s| is))?\s*(?:his|her|its|their|the) (email|e-mail|mail|email address|phone|phone number|number|title|job|job title|role|status|stage|score|value|owner|city|country|company|source|last contact|domain|website|plan|size|industry|active users|due date|deadline|region|target|project)`)
	whoOwns  = form(`who (?:owns|leads|runs|manages|looks after|is responsible for|is in charge of|takes care of) (.+)`)
	whereIs  = form(`where (?:is|does|do) (.+?)(?: (?:work|sit|located|based|live))?`)
	lastTalk = form(`when (?:did|was|have|has) (?:we |i |anybody |somebody )?(?:last )?(?:talk(?:ed)?|speak|spoken|contact(?:ed)?|call(?:ed)?|heard?)(?: (?:to|with|from))? (.+?)(?: last)?(?: contacted)?|when was (.+?) last contacted`)
	doesWhat = form(`what does (.+?) do(?: (?:at|for|there)\b.*)?`)
	isItDone = form(`(?:is|was|has) (?:the (?:lead|project) )?(.+?) (?:been |already |still |now )*(new|contacted|qualified|won|lost|planned|active|paused|done|unsubscribed)`)
	whenDue  = form(`when (?:is|does|will|did|was) (?:the project )?(.+?) (due|end|ends|finish|over|start|starts|begin|created|added)`)
	saidOf   = form(`(?:what (?:was|did we|has been|is) (?:said|agreed|note|noted|written)(?: down)?(?: (?:about|on|with|for|to))|(?:what's|what is|anything|something) new (?:with|at|on|about)|(?:show|list|read|give|find|any|are there|do we have|what are)?(?: me)?\s*(?:all |the |any |latest |last |recent )*notes (?:about|on|of|for|from|with|at)) (.+)`)
	advice   = form(`(?:who|which (?:lead|deal|contact)s?) (?:should|do|shall|can) (?:i|we) (?:call|contact|ring|phone|talk to|speak (?:to|with)|follow up with|chase|look at|work on)(?: first| next| now| again)*(?: today| this week)?|what should (?:i|we) (?:do|work on)(?: first| next| now| today)*|(?:what|who)(?:'s| is) next`)
	nameOnly = pattern.New(`^(?:\p{Lu}[\p{L}.'-]*)(?:\s+(?:de|van|der|von|\p{Lu}[\p{L}.'-]*))*$`)
)

// kindOfRequest says what a message is, without looking anything up.
func kindOfRequest(text string) sortOf {
	end := bare(text)
	for _, t := range talk {
		if t.form.MatchString(end) {
			return small
		}
	}
	switch {
	case whatDone.MatchString(end):
		return small
	case fieldOf.MatchString(end):
		return detail
	case noteFor.MatchString(text) && !asks.MatchString(text), noteOn.MatchString(text), assigning.MatchString(end) && !pattern.New(`(?i)^give me\b`).MatchString(end):
		return changing
	case impossible.MatchString(end):
		return cannot
	case anyChange.MatchString(end), isNow.MatchString(end) && !asks.MatchString(end):
		return changing
	case isDetail(end):
		return detail
	}
	return reading
}

func isDetail(text string) bool {
	if m := isItDone.FindStringSubmatch(text); m != nil && one(m[1]) {
		return true
	}
	if m := doesWhat.FindStringSubmatch(text); m != nil && one(m[1]) {
		return true
	}
	if m := whenDue.FindStringSubmatch(text); m != nil && resourceIn(m[1]) == "" {
		return true
	}
	if fieldOf.MatchString(text) || itsField.MatchString(text) || whoOwns.MatchString(text) && !whoMost.MatchString(text+" ") || lastTalk.MatchString(text) || saidOf.MatchString(text) || ordinal.MatchString(text) || inID.MatchString(text) {
		return true
	}
	if m := whereIs.FindStringSubmatch(text); m != nil && resourceIn(m[1]) == "" {
		return true
	}
	if m := ofField.FindStringSubmatch(text); m != nil && resourceIn(m[1]) == "" && !pattern.New(`(?i)^(?:which|how|show|list|find)\b`).MatchString(m[1]) {
		return true
	}
	if m := about.FindStringSubmatch(text); m != nil {
		return one(m[1])
	}
	return nameOnly.MatchString(text) && !asks.MatchString(text)
}

// one reports whether a text names one record.
func one(text string) bool {
	text = strings.Trim(text, `"' `)
	if pronoun.MatchString(text) {
		return !pattern.New(`(?i)^(?:them|they)$`).MatchString(text)
	}
	if ordinal.MatchString(text) || withNoun.MatchString(text) && resourceIn(strings.ToLower(withNoun.FindStringSubmatch(text)[2])) == "" && pattern.New(`^\P{Ll}`).MatchString(withNoun.FindStringSubmatch(text)[2]) {
		return true
	}
	return nameOnly.MatchString(strings.TrimPrefix(strings.TrimPrefix(text, "the "), "The "))
}

func (u *turn) answer(text string) (string, bool) {
	end := bare(text)
	switch kindOfRequest(text) {
	case small:
		if whatDone.MatchString(end) {
			return u.done(), true
		}
		for _, t := range talk {
			if t.form.MatchString(end) {
				return t.say, true
			}
		}
	case cannot:
		return "I cannot do that here. I can list, count, compare and look up leads, companies, projects and notes, and create, change or delete them when you confirm it.", true
	case changing:
		return u.change(text)
	case detail:
		return u.one(end)
	case reading:
	}
	if end == "" {
		return helpText, true
	}
	if advice.MatchString(end) {
		say, ok := u.answer("Which of my open leads have not been contacted for the longest?")
		return "I decide nothing by myself. What may help: " + say, ok
	}
	known := resourceIn(text) != "" || follows.MatchString(text) || ofThose.MatchString(text)
	if !known && !asks.MatchString(text) {
		return "I did not understand that. " + helpText, true
	}
	a, ok := u.understand(text, u.Earlier)
	if !ok {
		return "", false
	}
	if !a.own && len(a.filters) == 0 && a.owner == "" && a.company == "" && a.sort == "" && a.intent == list && !follows.MatchString(text) {
		return "I did not understand that. " + helpText, true
	}
	if len(a.left) > 0 && a.filters["city"] != nil && a.resource == "leads" {
		if done, say, ok := u.inProject(a, a.left...); done || !ok {
			return say, ok
		}
	}
	if len(a.left) > 0 {
		switch found, ok := u.holding(a); {
		case !ok:
			return "", false
		case found:
			return u.report(a)
		}
	}
	if len(a.left) > 0 {
		return a.partly(u.known[a.resource]), true
	}
	if a.intent == sharing {
		if !u.named(a.query) {
			return "", false
		}
		return u.shares(a, text)
	}
	return u.report(a)
}

var fieldNames = map[string]string{
	"e-mail": "email", "mail": "email", "email address": "email", "mail address": "email", "phone number": "phone", "number": "phone", "telephone": "phone", "job": "title", "job title": "title", "role": "title", "stage": "status",
	"location": "city", "employer": "company", "last contact": "last_contact_on", "website": "domain", "active users": "active_users", "due date": "due_on", "end date": "due_on", "deadline": "due_on", "start date": "starts_on",
}

func fieldName(word string) string {
	word = strings.ToLower(word)
	if n := fieldNames[word]; n != "" {
		return n
	}
	return word
}

// one answers what is asked about one record.
func (u *turn) one(text string) (string, bool) {
	name, field := "", ""
	if m := saidOf.FindStringSubmatch(text); m != nil {
		return u.said(m[1])
	}
	if m := doesWhat.FindStringSubmatch(text); m != nil {
		text = "title of " + m[1]
	} else if m := isItDone.FindStringSubmatch(text); m != nil && one(m[1]) {
		text = "status of " + m[1]
		if strings.EqualFold(m[2], "unsubscribed") {
			text = m[1]
		}
	} else if m := whenDue.FindStringSubmatch(text); m != nil && resourceIn(m[1]) == "" {
		name = m[1]
		switch word := strings.ToLower(m[2]); {
		case strings.HasPrefix(word, "start"), word == "begin":
			field = "start date"
		case word == "created", word == "added":
			field = "created_at"
		default:
			field = "due date"
		}
	}
	switch m := [][]string{
		itsField.FindStringSubmatch(text), fieldOf.FindStringSubmatch(text), whoOwns.FindStringSubmatch(text), lastTalk.FindStringSubmatch(text), ofField.FindStringSubmatch(text), whereIs.FindStringSubmatch(text), about.FindStringSubmatch(text),
	}; {
	case field != "":
	case m[0] != nil:
		name, field = "it", m[0][1]
	case m[1] != nil:
		name, field = m[1][2], m[1][1]
	case m[2] != nil:
		name, field = m[2][1], "owner"
	case m[3] != nil:
		name, field = m[3][1]+m[3][2], "last contact"
	case m[4] != nil:
		name, field = m[4][1], m[4][2]
	case m[5] != nil:
		name, field = m[5][1], "city"
	case m[6] != nil:
		name = m[6][1]
	default:
		name = text
	}
	f, ok := u.entity(name)
	if !ok {
		return "", false
	}
	if field != "" {
		key := fieldName(field)
		v, has := f.record[key]
		if !has {
			return fmt.Sprintf("A %s has no %s.", noun(f.resource, 1), strings.ToLower(field)), true
		}
		shown := shownValue(key, v)
		if key == "city" && f.text("country") != "" && shown != "" {
			shown += ", " + f.text("country")
		}
		if shown == "" {
			return fmt.Sprintf("**%s** (`%s`) has no %s in the CRM.", f.name(), f.id(), strings.ToLower(field)), true
		}
		return fmt.Sprintf("The %s of **%s** (`%s`): %s.", strings.ToLower(field), f.name(), f.id(), strings.TrimSuffix(shown, ".")), true
	}
	notes, total, ok := u.notesOf(f, noted)
	if !ok {
		return "", false
	}
	return card(f, notes, total), true
}

func (u *turn) notesOf(f found, most int) (notes []record, total int, ok bool) {
	if f.resource == "notes" {
		return nil, 0, true
	}
	if !slices.Contains(u.Skills, "notes") {
		return nil, 0, true
	}
	if !u.learned("notes") {
		return nil, 0, false
	}
	answers, ok := u.fetch(get("/api/notes", map[string]any{f.id()[:strings.Index(f.id(), "-")] + "_id": f.id(), "page_size": most, "fields": u.known["notes"].fieldsOf("id", "text", "author", "created_at")}))
	if !ok {
		return nil, 0, false
	}
	return answers[0].items(), answers[0].number("total"), true
}

// said answers what was noted about a record.
func (u *turn) said(name string) (string, bool) {
	f, ok := u.entity(name)
	if !ok {
		return "", false
	}
	notes, total, ok := u.notesOf(f, shown)
	if !ok {
		return "", false
	}
	if total == 0 {
		return fmt.Sprintf("There are no notes about **%s** (`%s`).", f.name(), f.id()), true
	}
	text := fmt.Sprintf("There %s **%d** %s about **%s** (`%s`):\n\n", map[bool]string{true: "is", false: "are"}[total == 1], total, noun("notes", total), f.name(), f.id())
	for _, n := range notes {
		text += fmt.Sprintf("- %s: “%s” (%s)\n", nice(n.text("created_at")), oneLine(n.text("text")), n.text("author"))
	}
	return strings.TrimSpace(text), true
}
