package engine

// HeldInputs is how many bytes of inputs are held in memory.
func (e *Engine) HeldInputs() int {
	e.inputs.mu.Lock()
	defer e.inputs.mu.Unlock()
	return e.inputs.bytes
}
