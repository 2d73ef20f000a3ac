package livefiles

// Die stops the writing in the middle, as a crash would.
func (f *Files) Die() {
	f.die()
	f.stop()
	<-f.heard
	<-f.ended
}

// InMemory returns the number of sessions in memory. The writing must have ended.
func (f *Files) InMemory() int { return len(f.w.open) }
