//go:build unix

package proc

// KillKeeper kills the keeper as somebody else might, and returns when it is gone.
func KillKeeper() {
	guard.mu.Lock()
	defer guard.mu.Unlock()
	_ = guard.process.Kill()
	<-guard.ended
}

// Adopts says that orphans become children of this process.
func Adopts(yes bool) { adopts = yes }
