//go:build !race

package enginetest

// Raced reports whether the race detector is on.
const Raced = false
