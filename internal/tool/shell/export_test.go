//go:build unix

package shell

import "runtime"

// Ended is closed when a command in the background has ended.
func (t *Toolset) Ended(id string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shells[id].command.done
}

// Settled waits until it is known of all commands that have ended that they have.
func (t *Toolset) Settled() {
	for {
		t.mu.Lock()
		open := false
		for _, b := range t.shells {
			select {
			case <-b.command.done:
				open = open || b.ended.IsZero()
			default:
			}
		}
		t.mu.Unlock()
		if !open {
			return
		}
		runtime.Gosched()
	}
}
