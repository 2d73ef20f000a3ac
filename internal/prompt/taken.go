package prompt

import (
	"fmt"
	"strings"

	"github.com/parley-server/parley"
)

// TakenBack says what was done in a part of the conversation that was taken back, and which files
// are not as the conversation has them; "" if there is nothing to say.
func TakenBack(k *parley.TakenBack) string {
	if k == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("[The user went back to an earlier point of this conversation.")
	if !k.Conversation {
		b.Reset()
		b.WriteString("[The user put files back to what they were at an earlier point.")
	}
	if len(k.Effects) > 0 || k.EffectsMore > 0 {
		b.WriteString(" What you had done after that point is not in the conversation any more, but it stays done. Do not do it again unless the user asks for it again:")
		for _, e := range k.Effects {
			b.WriteString("\n- " + e.Tool)
			if e.Text != "" {
				b.WriteString(" " + e.Text)
			}
			b.WriteString(": " + became(e))
		}
		b.WriteString(more(k.EffectsMore, "call", "calls"))
	}
	if len(k.Files) > 0 || k.FilesMore > 0 {
		if len(k.Effects) > 0 || k.EffectsMore > 0 {
			b.WriteString("\n")
		} else {
			b.WriteString(" ")
		}
		b.WriteString("These files may differ from what this conversation says of them. Read them again before you rely on them or change them:")
		for _, f := range k.Files {
			b.WriteString("\n- " + f)
		}
		b.WriteString(more(k.FilesMore, "file", "files"))
	}
	return b.String() + "]"
}

func became(e parley.EffectLeft) string {
	if e.Outcome == parley.OutcomeOK {
		return "done"
	}
	return Resolved(e.Resolution)
}

// more says how many further things there are.
func more(n int, one, many string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "\n- and one more " + one
	}
	return fmt.Sprintf("\n- and %d more %s", n, many)
}
