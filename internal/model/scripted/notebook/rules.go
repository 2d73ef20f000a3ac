package notebook

import (
	"strings"
	"sync"

	"github.com/parley-server/parley/internal/pattern"
)

// rule answers requests of one form. m are its groups, as the request has them.
type rule struct {
	form *pattern.Regexp
	raw  bool // the form is of the request as it was written
	do   func(u *turn, m []string) (say string, ok bool)
}

func form(text string) *pattern.Regexp { return pattern.New(`(?is)^(?:` + text + `)$`) }

// Parts of forms.
const (
	listed = `(?:on|in|to|onto|into|under|at|from|off)`
	own    = `(?:(?:the|my|our|a|an|this|that) )?`
	quoted = `"?(.+?)"?`
	nets   = `(?:the )?(?:web|internet|net|online|google)`
	links  = `(?:to|on|at|in) linked ?in`
)

// rules are those of all requests.
var rules = sync.OnceValue(allRules)

// allRules makes the rules. The first whose form fits answers. Those about LinkedIn and the web come
// first, since their texts may be about anything.
func allRules() []rule {
	return []rule{
		{form: form(`(?:hi|hello|hey|hallo|good (?:morning|afternoon|evening|day)|moin|servus|yo)(?: there| parley)?`), do: (*turn).hello},
		{form: form(`(?:thanks|thank you|thx|cheers|great|perfect|super|nice|cool|ok|okay|good|well done|awesome|wonderful|got it|fine|good job)(?: (?:a lot|very much|so much|you|job|thanks))*`), do: (*turn).thanks},
		{form: form(`(?:bye|goodbye|good night|see you|that's all|that is all|nothing|no)(?: (?:later|then|thanks))?`), do: (*turn).bye},
		{form: form(`(?:who|what) are you|what(?:'s| is) your name|are you (?:a |an )?(?:human|person|bot|robot|ai|real|scripted|language model|chatgpt|claude|llm).*|which model.*|what model.*`), do: (*turn).who},
		{form: form(`help(?: me)?|what can (?:you|i) (?:do|ask|say)(?: here)?(?: for me)?|what do you (?:do|know)|how does (?:this|it) work|what are you (?:able|good) .*|commands|how (?:do|can) (?:you|i) (?:help|use) (?:me|you|this)`), do: (*turn).help},
		{form: form(`how are you(?: doing)?(?: today)?|what's up|how's it going`), do: (*turn).fine},
		{form: form(`(?:undo|revert|reverse|roll back|take back|cancel)(?: (?:that|it|this|them|everything|(?:the|your|my) last (?:change|edit|one|step|thing)|the change|the changes|what you (?:just )?did))?|(?:remove|delete|take out|drop) (?:that|it|this|them)|take (?:that|it|this) (?:back|off|out)|put (?:that|it) back(?: (?:as it was|how it was))?`), do: (*turn).undo},

		{raw: true, form: form(`(?:post|publish|share|write)(?: (?:this|that|the following|a post|an update|something))?(?: ` + links + `)?(?: that(?: says)?| saying)?\s*:\s*(.+)`), do: (*turn).post},
		{raw: true, form: form(`(?:make|create|write) a linked ?in post(?: that says| saying)?\s*:\s*(.+)`), do: (*turn).post},
		{raw: true, form: form(`(?:post|publish|share) ` + links + ` (?:that|saying) (.+)`), do: (*turn).post},
		{raw: true, form: form(`(?:post|publish|share) "([^"]+)"(?: ` + links + `)?[.!]?`), do: (*turn).post},
		{form: form(`(?:post|publish|share|put) (it|that|this|the (?:summary|text|answer|note|result|page)|them)(?: ` + links + `)?`), do: (*turn).postLast},
		{form: form(`(?:post|publish|share|put) (?:the |my )?(first|second|third|fourth|fifth|last)? ?(?:idea|entry|item|line|point)?(?: (?:of|from|in))? ?` + own + `(.+?) ` + links), do: (*turn).postNote},
		{raw: true, form: form(`(?:reply|respond|answer)(?: (?:to|on))? (.+?)(?: (?:with|saying|that))?\s*:\s*(.+)`), do: (*turn).reply},
		{raw: true, form: form(`(?:reply|respond|answer)(?: (?:to|on))? (.+?) (?:with|saying)? ?"([^"]+)"[.!]?`), do: (*turn).reply},
		{raw: true, form: form(`(?:leave a comment|add a comment|write a comment|comment)(?: (?:on|to|under) (.+?))?(?: (?:with|saying|that))?\s*:\s*(.+)`), do: (*turn).comment},
		{form: form(`(?:(?:read|show|list|get|check|see|are there|any|what are|how many|what's in)(?: me)? )?(?:(?:the|any|new|all|my) )*(?:comments?|reactions?|replies)(?: (?:are|is) there)?(?: (?:on|to|for|of|about|under) (.+))?`), do: (*turn).comments},
		{form: form(`(?:what|who)(?: (?:do|did|have|has))?(?: (?:people|others|they|anybody|anyone|somebody))? (?:say|said|write|written|wrote|comment|commented|react|reacted|answer|answered|think)(?: (?:about|on|to|under) (.+?))?`), do: (*turn).comments},
		{form: form(`(?:has|did|have) (?:anybody|anyone|somebody|people) (?:commented?|replied|reply|reacted|react|answered?)(?: (?:on|to) (.+))?`), do: (*turn).comments},
		{form: form(`(?:what (?:have|did) i (?:post|posted|publish|published|share|shared).*|(?:(?:show|list)(?: me)? )?(?:all )?my (?:linked ?in )?posts(?: on linked ?in)?)`), do: (*turn).posted},
		{form: form(`(?:delete|remove|unpublish|take down|edit|change) (?:the |my |that |this )?(?:last )?(?:linked ?in )?(?:post|comment|reply).*`), do: (*turn).noUnpost},
		{form: form(`(?:draft|write|compose|make|create|suggest)(?: me)? (?:a |an )?(?:linked ?in )?(?:post|update)(?: (?:about|on|for) .+)?|.*write something (?:about|for) .*linked ?in.*`), do: (*turn).noWriting},

		{form: form(`.*?(https?://\S+).*`), do: (*turn).fetch},
		{form: form(`(?:look up|look|search|google|find(?: out)?|check|research)(?: for)? ` + listed + ` ` + nets + `(?: for| about)? (.+)`), do: (*turn).web},
		{form: form(`(?:search|google|ask) ` + nets + `(?: for| about)? (.+)`), do: (*turn).web},
		{form: form(`google (.+)`), do: (*turn).web},
		{form: form(`(?:look up|look for|search(?: for)?|find(?: out)?|check|research|look|what does it say|what is there|is there (?:anything|something)) (?:about )?(.+?)(?: up)? (?:on|in) ` + nets), do: (*turn).web},
		{form: form(`what does ` + nets + ` say (?:about|on) (.+)`), do: (*turn).web},
		{form: form(`(?:what is|what's) the (?:weather|time|news|date)\b.*|what (?:time|day|date) is it.*|(?:how is|how's) the weather.*|will it rain.*`), do: (*turn).outside},

		{form: form(`(?:write|compose|draft|make up|invent|generate|tell|sing)(?: me)? (?:a |an |some |another )?(?:short |funny |nice |little )*(?:poem|song|story|joke|essay|email|e-mail|mail|letter|blog ?post|article|speech|haiku|limerick|text|message)\b.*`), do: (*turn).noWriting},
		{form: form(`(?:a |an |some |another )?(?:joke|story|poem|song|riddle)s?(?: .*)?`), do: (*turn).noWriting},
		{form: form(`(?:translate|rewrite|rephrase|improve|proofread|correct the (?:spelling|grammar)|paraphrase)\b.*`), do: (*turn).noWriting},
		{form: form(`(?:send|call|phone|email|e-mail|text|book|order|buy|pay|set an? (?:alarm|timer)|schedule|invite)\b.*`), do: (*turn).noHands},
		{form: form(`(?:delete|remove|erase|trash|throw away)(?: ` + own + `)?(?: ?(?:note|file|page|folder))? ?` + quoted + `(?: (?:note|file|page|folder))?`), do: (*turn).deleting},
		{form: form(`(?:move|drag|shift)(?: ` + own + `)?(?:note|file|page|folder)? ?` + quoted + ` (?:to|into|in) ` + own + `(.+)`), do: (*turn).noMoving},
		{form: form(`rename ` + own + `(?:note|file|page|folder) ` + quoted + ` (?:to|into|as) ` + quoted), do: (*turn).noMoving},

		{form: form(`(?:rename|change|retitle|replace) (?:the )?(?:heading|headline|section|title|subheading)(?: of)? ` + quoted + ` (?:to|into|as|with|by) ` + quoted + `(?: in ` + own + `(.+?))?`), do: (*turn).heading},
		{form: form(`in ` + own + `(.+?),? (?:rename|change) (?:the )?(?:heading|headline|section|title) ` + quoted + ` (?:to|into|as) ` + quoted), do: func(u *turn, m []string) (string, bool) { return u.heading([]string{m[0], m[2], m[3], m[1]}) }},
		{form: form(`(?:(?:find|search) and )?(?:replace|change|correct|update|rename|swap) ` + quoted + ` (?:with|by|to|into|for) ` + quoted + `(?: (everywhere|in (?:all|every|each)(?: of)?(?: my)?(?: \w+)?|across (?:all )?(?:my )?notes|throughout(?: .+)?)| in ` + own + `(.+?))?`), do: (*turn).replace},

		{form: form(`(?:write|save|put|store|note|jot|keep|add|record)(?: (?:that|this|it|them|the (?:summary|answer|result|text|facts?|list)(?: of (.+?))?|a summary of (.+?)))(?: down)? (?:in|into|to|as|under|on)(?: (?:a|an|another))?(?: new)? note(?: (?:called|named|titled|with the (?:name|title)|about) ` + quoted + `)?`), do: (*turn).saveNew},
		{form: form(`(?:write|save|put|store|note|jot|keep|add|record|append)(?: (?:that|this|it|them|the (?:summary|answer|result|text|facts?)))(?: down)? (?:in|into|to|under|on) ` + own + `(.+)`), do: (*turn).saveTo},
		{form: form(`(?:write|save|note|jot|put) (?:that|this|it) down|save (?:that|this|it)`), do: func(u *turn, _ []string) (string, bool) { return u.saveNew([]string{"", "", "", ""}) }},

		{raw: true, form: form(`(?:add|write|put|note|append)(?: (?:an? )?(?:entry|line|this|the following))?(?: (?:to|in|into))? (?:my|the|today's)(?: \w+)? (?:journal|diary)(?: entry)?(?: (?:for|of) today)?(?:\s*:\s*|,? that )(.+)`), do: (*turn).journal},
		{raw: true, form: form(`(?:add|write|put|note|append) (.+?) (?:to|in|into) (?:my|the|today's) (?:journal|diary)(?: entry)?(?: (?:for|of) today)?[.!]?`), do: (*turn).journal},
		{raw: true, form: form(`(?:journal|diary)(?: entry)?(?: for today)?\s*:\s*(.+)`), do: (*turn).journal},
		{raw: true, form: form(`(?:add|put|write|append)(?: (?:a|an|the|another|one))?(?: (?:new|more))? (?:task|to-?do|item|point|entry|line|bullet)(?: (?:to|in|on|into|for) ` + own + `(.+?))?\s*:\s*(.+)`), do: (*turn).task},
		{raw: true, form: form(`(?:(?:create|make|start|begin|write|open|add)(?: me)?(?: (?:a|an|another|the))?(?: new)?|new) (note|file|page|list|(?:packing|to-?do|shopping|reading|guest|check|wish|gift|task|book|watch) ?list)(?: (?:called|named|titled|with the (?:name|title)|about|on|for|of))? ?(.*)`), do: (*turn).create},
		{raw: true, form: form(`(?:note|remember|write down|jot down|make a note|take a note|keep in mind)(?: that| to self)?\s*[:,]?\s*(.+)`), do: (*turn).inbox},
		{raw: true, form: form(`(?:remind me|don't let me forget|do not let me forget)(?: to| that| about)? (.+)`), do: (*turn).remind},

		{form: form(`(?:i(?:'ve| have)?|we(?:'ve| have)?) (?:just |already )?(?:bought|got|done|did|finished|completed|packed|ordered) (.+?)`), do: (*turn).bought},
		{form: form(`(?:tick|check|cross|strike|mark)(?: off| out)? ` + own + `(.+?)(?: (?:off|as (?:done|bought|finished|completed)|done|bought))?(?: (?:on|in|from|of) ` + own + `(.+))?`), do: (*turn).tick},
		{form: form(`(?:un-?tick|un-?check|reopen) ` + own + `(.+?)(?: (?:on|in|from|of) ` + own + `(.+))?`), do: (*turn).untick},
		{form: form(`(?:remove|delete|take|drop|strike|cross) ` + own + `(.+?) (?:from|off|out of|off of) ` + own + `(.+)`), do: (*turn).remove},
		{form: form(`(?:i|we) (?:also |still )?(?:need|want|are out of|ran out of|must buy|have to buy) (.+?)(?:,? (?:so )?(?:put|add) (?:it|them|that) (?:on|to|under|in) ` + own + `(.+))?`), do: (*turn).need},
		{form: form(`(?:add|put|include|append|insert|enter|write) (.+?) ` + listed + ` ` + own + `(.+)`), do: (*turn).add},
		{form: form(`(?:and|also|plus|add)(?: also)? (.+?)(?: too| as well)?`), do: (*turn).also},
		{form: form(`(.+?) (?:too|as well)`), do: (*turn).also},

		{form: form(`.*\b(?:his|her|their|[A-Z]\w+'s) (?:notes?|journal|diary|vault|files|shopping list|inbox)\b.*`), do: (*turn).others},
		{form: form(`(?:what|which|list|show)?(?: me)?(?: (?:are|all|of))*(?: (?:the|my|all))*(?: (?:still )?(?:open|undone|unfinished|outstanding|remaining))? ?(?:tasks?|to-?dos?|to do list|todo list)(?: (?:are|is) (?:still )?(?:open|left|there|undone))?(?: (?:in|of|for|about) ` + own + `(.+?))?(?: do i have)?`), do: (*turn).tasks},
		{form: form(`what (?:do i|must i|should i|is there|do we) (?:still )?(?:have )?(?:to )?do(?: (?:for|on|in|about|with) ` + own + `(.+))?`), do: (*turn).tasks},
		{form: form(`what(?:'s| is| are)? (?:still )?(?:missing|left|open|remaining|to be done|to do|due)(?: to (?:be )?do(?:ne)?)?(?: (?:for|on|in|about|with|from) ` + own + `(.+))?`), do: (*turn).tasks},
		{form: form(`how many (?:notes|files|pages) (?:do i have|are there|have i got|are in (?:my|the) vault)(?: (?:in|about) ` + own + `(.+))?`), do: (*turn).howMany},
		{form: form(`(?:list|show|what are|which are)(?: me)?(?: all)?(?: (?:the|my|of my))*(?: notes| files| pages| folders)(?: do i have| are there)?|what (?:notes|files|folders) (?:do i have|are there)|what do i have`), do: (*turn).list},
		{form: form(`(?:(?:list|show)(?: me)? )?(?:what (?:have|did) i (?:change|changed|write|written|wrote|edit|edited) (?:last|lately|recently)|(?:my |the )?(?:latest|newest|most recent|last changed|last|recent) (?:notes?|changes|files))`), do: (*turn).recent},
		{form: form(`(?:what|which)(?: notes?| pages?)? links? to ` + own + `(?:note |page )?(.+)|(?:backlinks|links) (?:of|to|for) ` + own + `(.+)`), do: (*turn).backlinks},
		{form: form(`(?:list|show(?: me)?|what)(?: all)?(?: (?:the|my))* (\w+?)(?: (?:do i have|are there|have i got|notes))`), do: (*turn).kind},
		{form: form(`(?:what(?:'s| is| are)? in|list|show(?: me)?)(?: everything in)? ` + own + `(.+?) folder|(?:what(?:'s| is)? in|list) the folder (.+)`), do: (*turn).folder},
		{form: form(`(?:which|what) ([a-z]+)(?: (?:is|are|have|has|do i have with|do i have for|use|uses|contain|contains|with|need|needs|for|take|takes))+ (?:tagged |marked )?(.+)`), do: (*turn).ofKind},

		{form: form(`(?:which|what|find|list|show)?(?: me)?(?: all)?(?: of)?(?: (?:the|my|our))*(?: notes?| files?| pages?)(?: that| which)?(?: (?:do i have|have i got|are there))?(?: (?:mention|mentions|mentioning|contain|contains|containing|are about|is about|about|on|speak of|talk about|talks about|with|for|have|name|refer to|is|are))+ (?:the word )?(.+)`), do: (*turn).mention},
		{form: form(`where (?:did|do|have) i (?:write|written|wrote|mention|mentioned|note|noted|put)(?: down)?(?: something)?(?: about| of| on)? (.+)`), do: (*turn).mention},
		{form: form(`where (?:is|are) (.+?) (?:mentioned|written|noted)`), do: (*turn).mention},
		{form: form(`(?:find|search|grep|look|search for|look for)(?: (?:in|through))?(?: (?:all|my|the|all my))* (?:notes?|vault|files)(?: (?:for|about|on|with))? (.+)`), do: (*turn).mention},
		{form: form(`(?:find|search for|search|grep for|grep|look for|look up)(?: (?:everything|anything|something|all))?(?: (?:about|on|for))? (.+?)(?: in (?:all )?(?:my |the )?notes)?`), do: (*turn).mention},
		{form: form(`(?:is there|do i have|have i got|did i write|is)(?: (?:anything|something|any notes?|a note|notes))?(?: (?:about|on|of|for)) (.+?)(?: in (?:my |the )?notes)?`), do: (*turn).mention},

		{form: form(`(?:summari[sz]e|sum up|give me (?:a |an )?(?:short |brief |quick )?(?:summary|overview) of|(?:a )?(?:short )?summary of|overview of|brief me on|tl;?dr(?: of)?|the gist of)(?: (?:all|everything))?(?: (?:about|on|in))? (.+)`), do: (*turn).summarise},
		{form: form(`what (?:did|have) (?:i|we) (?:do|done|write|written|wrote|note|noted)(?: in (?:my|the) journal)? (.+)|(?:(?:show|read|open)(?: me)? )?(?:my |the )?(?:journal|diary)(?: entr(?:y|ies))?(?: (?:of|for|from))? (.+)|(?:show|read|open)(?: me)? (.+?)(?:'s|s')? (?:journal|diary)(?: entry)?|what happened (.+)`), do: (*turn).days},
		{form: form(`(?:show|open|read|display|print|get|view)(?: me)?(?: the (?:note|file|page|content|contents)(?: (?:of|about|on))?)? ` + own + `(.+?)`), do: (*turn).show},
		{form: form(`(?:what|who)(?:'s| is| are|s)? (?:there )?(?:on|in|inside) ` + own + `(.+?)`), do: (*turn).show},
		{form: form(`how (?:do|does|can|should|to) ?(?:i|we|you|one)? ?(?:make|cook|bake|prepare|do|use|feed)? ?` + own + `(.+?)|(?:what(?:'s| is) )?(?:the|my) recipe (?:for|of) (.+)`), do: (*turn).howTo},
		{form: form(`what does ` + own + `(.+?) (?:say|contain|tell)(?: me)?`), do: (*turn).show},
		{form: form(`(?:more|go on|in full|the whole thing|all of it|the rest|everything)`), do: func(u *turn, _ []string) (string, bool) { return u.show([]string{"", "it"}) }},
		{form: form(`(?:the )?(first|second|third|fourth|fifth|last)(?: one| note)?`), do: func(u *turn, m []string) (string, bool) { return u.show([]string{"", "the " + m[1] + " one"}) }},
	}
}

// answer answers a request. ok is false while results are missing.
func (u *turn) answer(r request) (say string, ok bool) {
	if r.tidy == "" {
		return "I did not understand that. " + offer, true
	}
	if again, is := u.followUp(r); is {
		r = again
	}
	for _, rule := range u.rules {
		text := r.tidy
		if rule.raw {
			text = r.raw
		}
		m := rule.form.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		for i := range m {
			m[i] = strings.Trim(strings.TrimSpace(m[i]), `"`)
		}
		say, ok := rule.do(u, m)
		if ok && say == "" {
			continue // it is of the form, and means something else
		}
		return say, ok
	}
	return u.question(r)
}

var (
	instead = pattern.New(`(?is)^(?:and|what about|how about|and what about|and how about|and for|and of|and in) (.+)$`)
	asking  = pattern.New(`(?i)^(?:who|what|when|where|which|how|why|is|are|do|does|did|was|were|has|have)\b`)
)

// followUp completes a question such as "and Jonas's?" by the one before.
func (u *turn) followUp(r request) (request, bool) {
	m := instead.FindStringSubmatch(r.tidy)
	n := len(u.Earlier)
	if m == nil || n == 0 || u.done != "" {
		return r, false
	}
	before := trimmed(u.Earlier[n-1].Question)
	if b := instead.FindStringSubmatch(before.tidy); b != nil && n > 1 {
		before = trimmed(u.Earlier[n-2].Question)
	}
	if !asking.MatchString(before.tidy) {
		return r, false
	}
	if totals.MatchString(m[1]) || most.MatchString(m[1]) {
		return request{r.raw, m[1]}, true
	}
	return trimmed(swapped(before.tidy, m[1])), true
}

var name = pattern.New(`\b[A-Z]\w*(?:'s)?(?: [A-Z]\w*(?:'s)?)*\b`)

// swapped puts what a follow-up names in the place of what the question before named: a name for
// the name, or else the last words.
func swapped(question, by string) string {
	first, rest, _ := strings.Cut(question, " ")
	if at := name.FindStringIndex(rest); at != nil {
		put := by
		if strings.HasSuffix(rest[at[0]:at[1]], "'s") && !strings.HasSuffix(put, "'s") {
			put += "'s"
		}
		return first + " " + rest[:at[0]] + put + rest[at[1]:]
	}
	i := strings.LastIndex(question, " ")
	return question[:max(i, 0)] + " " + by
}
