package notebook

import (
	"fmt"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

const offer = "I can find, read and summarise your notes, keep your lists, write and change notes, look something up on the web, and post at LinkedIn."

func (u *turn) hello([]string) (string, bool) {
	who := ""
	if u.Person != "" {
		who = " " + capital(u.Person)
	}
	return "Hello" + who + "! I work on your notes. Ask me for example: what is on my shopping list?", true
}

func (*turn) thanks([]string) (string, bool) { return "You are welcome.", true }

func (*turn) bye([]string) (string, bool) { return "All right. Your notes are saved.", true }

func (*turn) fine([]string) (string, bool) {
	return "I am a script, so always the same. What can I do with your notes?", true
}

func (*turn) who([]string) (string, bool) {
	return "I am the assistant for your notes, and at the moment a scripted one: I follow rules, and no language model is asked. " + offer, true
}

func (*turn) help([]string) (string, bool) {
	return `I follow rules, so I understand requests of these kinds:

- **find**: "which notes mention Amira?", "find my notes about slugs"
- **ask**: "when is Mia's birthday?", "what is in my inbox?"
- **summarise**: "summarise my journal of this week"
- **lists**: "add milk to the shopping list", "tick off the lemons", "list my open tasks"
- **write**: "create a note called Balcony: …", "add to my journal: …", "replace A with B in all my notes", "rename the heading A to B in the tomatoes note"
- **web**: "look up on the web when to plant tomatoes", or an address to read
- **LinkedIn**: "post to LinkedIn: …", "what are the comments on my last post?", "reply to the first one: …"
- **undo**: "undo that"

What I change is shown as a diff.`, true
}

func (*turn) noWriting([]string) (string, bool) {
	return "I cannot write texts of my own: I am a script and not a language model. I can write down, post or reply what you say word by word, or what a note has.", true
}

func (*turn) noHands([]string) (string, bool) {
	return "I cannot do that: my tools are for your notes, the web and LinkedIn alone. I can write it down for you: say remind me to …", true
}

func (*turn) outside([]string) (string, bool) {
	return "That is not in your notes. I can search for it: say look up on the web …", true
}

func (*turn) noUnpost([]string) (string, bool) {
	return "I cannot change or delete what is published: no tool of mine does that. You can do it at LinkedIn.", true
}

// deleting says that files cannot be deleted, unless an item of a list is meant.
func (u *turn) deleting(m []string) (string, bool) {
	if pattern.New(`(?i) (?:from|off|out of) `).MatchString(m[0]) {
		return "", true
	}
	files, ok := u.find(m[1], anyFile)
	if !ok {
		return "", false
	}
	what := "it"
	if len(files) > 0 {
		what = "`" + files[0] + "`"
	}
	return fmt.Sprintf("I cannot delete %s: no tool of mine deletes files. I can take a line out of a list: say remove … from …", what), true
}

func (u *turn) noMoving(m []string) (string, bool) {
	if pattern.New(`(?i)(?:heading|section)`).MatchString(m[0]) {
		return "", true
	}
	return "I cannot move or rename a file: no tool of mine does that. I can change what is in it, or make a new note.", true
}

var possessive = pattern.New(`\b([A-Z]\w+)(?:'s (?:notes?|journal|diary|vault|files|shopping list|inbox)\b|.* (?:his|her|their) (?:notes?|journal|diary|vault|files|shopping list|inbox)\b)`)

// others says that only the notes of the person can be read.
func (u *turn) others(m []string) (string, bool) {
	of := possessive.FindStringSubmatch(m[0])
	if of == nil || strings.EqualFold(of[1], u.Person) || pattern.New(`^(?:What|Which|Who|Show|Read|Today|Yesterday|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|The|My|Add|Add|Find|Has|Does|Is|List|Open)$`).MatchString(of[1]) {
		return "", true
	}
	return fmt.Sprintf("I see your notes only, not those of %s.", of[1]), true
}
