package chat_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/tui/chat"
)

// Words that are typed into an open question are the answer in other words, to the letter; nothing
// is allowed by the Enter behind them.
func TestScreen_types_into_question(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := chat.Sit(t, d.options(), 80, 24)
	p.Sees("The desk")
	ask := func(message, title string) {
		t.Helper()
		p.Types(message)
		p.Presses("enter")
		p.Asked(title)
	}
	kept := func(text string) func() bool {
		return func() bool {
			return !p.Looks().Running && slices.ContainsFunc(p.Looks().Kept, func(s string) bool { return strings.Contains(s, text) })
		}
	}

	ask("pay", "pay")
	p.Types("just 1 moment: ask Jo first")
	p.Sees("Why not, for the agent", "just 1 moment: ask Jo first", "enter denies")
	if p.Looks().Sent {
		t.Fatalf("it is answered:\n%s", p.Screen())
	}
	p.Presses("enter")
	p.Until("it is denied", kept("Denied: just 1 moment: ask Jo first"))

	ask("pay", "pay")
	p.Types("no")
	p.Presses("esc") // back to the choices, at the one that denies
	p.Sees("enter or a number answers")
	p.Presses("enter")
	p.Sees("Why not, for the agent")
	p.Pastes("because\nof that")
	p.Presses("enter")
	p.Until("it is denied", kept("Denied: because of that"))

	ask("pay", "pay")
	p.Pastes("not you")
	p.Sees("Why not, for the agent", "not you")
	p.Presses("ctrl+c", "esc", "1")
	p.Asked("PIN")
	p.Types("123456") // a digit chooses, and 1 is to give it
	p.Sees("what you type is not shown", "•••••")
	p.Presses("esc")
	p.Types("x123")
	p.Sees("what you type is not shown", "••••")
	if p.Looks().Written != "" {
		t.Errorf("the message is %q", p.Looks().Written)
	}
	p.Presses("esc", "esc", "esc")
	p.Until("it is stopped", func() bool { return !p.Looks().Running })

	ask("ask", "Which colours?")
	p.Presses("space") // chooses
	p.Types("keen on green")
	p.Sees("Your answer:", "keen on green")
	p.Presses("enter")
	p.Sees("2 of 2: Where?")
	p.Types("/usage") // a command is no answer
	p.Sees("ctrl+r goes back")
	p.Presses("enter")
	p.Sees("What this session has used")
	p.Presses("esc")
	p.Rests()
	p.Asked("2 of 2: Where?")
	p.Presses("1")
	p.Until("it is answered", kept("Answered: Red, keen on green; Here"))
}

// A question does not take the keyboard from a message that is half written, however long the
// person thinks about it: Enter sends the message, and allows nothing.
func TestScreen_half_written(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := chat.Sit(t, d.options(), 80, 24)
	p.Sees("The desk")
	for i, keys := range [][]string{{"enter"}, {"ctrl+r", "3", "enter"}} {
		p.Types("pay")
		p.Presses("enter")
		p.Types("no, ")
		p.Until("the question", func() bool { return p.Looks().Asks })
		p.Rests()
		if p.Looks().Armed {
			t.Fatalf("the question has the keyboard of a message:\n%s", p.Screen())
		}
		p.Sees("enter declines and sends your message", "ctrl+r goes back")
		p.Types("wait")
		if got := p.Looks().Written; got != "no, wait" {
			t.Fatalf("the message is %q", got)
		}
		p.Presses(keys...)
		p.Until("it is denied", func() bool {
			return !p.Looks().Running && p.Looks().Turns == i+1 && slices.ContainsFunc(p.Looks().Kept, func(s string) bool { return strings.Contains(s, "Denied") })
		})
	}
	if got := p.Looks().Written; got != "no, wait" {
		t.Errorf("the message that was not sent is %q", got)
	}
}
