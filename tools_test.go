package parley

import (
	"fmt"
	"testing"
)

// TestNewestCallIsFoundFirst: the fold of an event finds the call that it is about without
// looking at the calls of older chunks, which this turn does not even have.
func TestNewestCallIsFoundFirst(t *testing.T) {
	var turn Turn
	for i := range 1000 {
		turn.addTool(Tool{Call: CallID(fmt.Sprint("c", i))})
	}
	clear(turn.Tools.chunks[:len(turn.Tools.chunks)-1])
	for _, i := range []int{999, 995} {
		if c := turn.Tool(CallID(fmt.Sprint("c", i))); c == nil || c.Call != CallID(fmt.Sprint("c", i)) {
			t.Errorf("call %d: got %v", i, c)
		}
	}
}
