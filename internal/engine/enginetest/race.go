//go:build race

package enginetest

// raced reports whether the race detector is on.
const raced = true
