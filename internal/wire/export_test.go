package wire

// Within returns o with a budget of its own in the place of the process's.
func Within(o Options, bytes int) Options {
	o.held = newBudget(bytes)
	return o
}

// Used is what the writes under way hold of it.
func (o Options) Used() int {
	o.held.mu.Lock()
	defer o.held.mu.Unlock()
	return o.held.used
}
