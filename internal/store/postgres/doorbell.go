package postgres

import (
	"encoding/json"
	"unicode/utf8"
)

// Channel is what a flush is announced on, for LISTEN. A payload is a Doorbell
// as JSON.
const Channel = "parley"

// maxPayload is the limit of NOTIFY: less than 8,000 bytes.
const maxPayload = 7_999

// Doorbell says which sessions have changed.
type Doorbell struct {
	From string `json:"from"` // the connection that wrote; a node recognizes its own
	// At maps each changed session to the last number of its log. If it is absent, the
	// flush was too large to list: check every session you follow.
	At map[string]int64 `json:"at,omitempty"`
}

func (o *output) doorbell(from string) string {
	d := Doorbell{From: from, At: map[string]int64{}}
	for n, s := range o.sessions {
		if !utf8.ValidString(n[0]) {
			d.At = nil // json.Marshal would substitute them, naming another session
			break
		}
		d.At[n[0]] = s.at.seq
	}
	text := encodeDoorbell(d)
	if len(text) > maxPayload {
		d.At = nil
		text = encodeDoorbell(d)
	}
	return text
}

func encodeDoorbell(d Doorbell) string {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // cannot happen with strings and numbers
	}
	return string(text)
}
