package linkedin

// What tests look at.
var (
	Escaped = escaped
	Shown   = shown
	Encoded = encoded
	Plain   = plain
)
