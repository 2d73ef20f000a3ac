package parley

// Limits of commands, in one place for the engine, which enforces them, and for the
// doors, wires and pages, which state them. They are far above what honest clients need
// and small compared to memory.
const (
	// MaxMessage is the default limit of a message in bytes. A server's settings may
	// raise it up to MaxMessageSetting.
	MaxMessage        = 256 << 10
	MaxMessageSetting = 4 << 20

	MaxTitle     = 200   // characters
	MaxOutsideID = 128   // characters of a client's own session id
	MaxKey       = 255   // characters of an idempotency key
	MaxReason    = 2000  // characters
	MaxAnswer    = 4096  // characters of a free-text answer
	MaxPin       = 32768 // bytes of a pin's label and text

	MaxCredentials = 16      // credentials in one command
	MinCredential  = 6       // bytes of a credential
	MaxCredential  = 8 << 10 // bytes of a credential; a signed token of many claims has a few thousand

	MaxCallerTools     = 16       // tools that a caller may offer with one message
	MaxCallerToolBytes = 64 << 10 // total size of these tools as JSON

	MinToken = 22  // characters of a claimer's token: 128 random bits in base64
	MaxToken = 128 // characters of a claimer's token
)

// MaxDescription limits an API's OpenAPI description, in bytes, wherever it is read from.
// GitHub's, the largest we know of, has 13 MB.
const MaxDescription = 32 << 20
