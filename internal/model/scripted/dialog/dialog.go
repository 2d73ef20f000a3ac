// Package dialog has what those that answer by rules share: what they are told of a session, and what they reply. Each has a
// Turn of its own, since what else they know differs.
package dialog

// Exchange is an earlier request with its answer.
type Exchange struct{ Question, Answer string }

// Result is the result of a call.
type Result struct {
	Tool   string
	Input  map[string]any
	Output string
	Failed bool
}

// Call asks for a tool.
type Call struct {
	Tool  string
	Input map[string]any
}

// Reply has calls, or the answer.
type Reply struct {
	Say   string
	Calls []Call
}

// EnglishOnly answers a request in another language.
const EnglishOnly = "I understand English only, since I am a script and not a language model. Ask me in English, please."
