package parley

// Limits of what a command may carry, in one place for the engine, which holds
// them, and for the doors, wires and pages that say them beforehand. They are
// generous against any honest client and small against memory.
const (
	// MaxMessage is the bytes of one message, unless a server's settings say
	// otherwise; they may up to MaxMessageSetting.
	MaxMessage        = 256 << 10
	MaxMessageSetting = 4 << 20

	MaxTitle     = 200   // characters
	MaxOutsideID = 128   // characters of a client's own id of a session
	MaxKey       = 255   // characters of an idempotency key
	MaxReason    = 2000  // characters
	MaxAnswer    = 4096  // characters of an answer in a person's own words
	MaxPin       = 32768 // bytes of a pin's label and text
)
