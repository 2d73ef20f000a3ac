package push

import (
	"crypto/ecdh"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Ring makes Run look at the store, as when its clock has moved on.
func (p *Push) Ring() { p.ring() }

// Encrypt is encrypt without padding.
func Encrypt(message, p256dh, auth []byte, ephemeral *ecdh.PrivateKey, salt []byte) ([]byte, error) {
	return encrypt(message, p256dh, auth, ephemeral, salt, 0)
}

// QuietUntil is quietUntil.
var QuietUntil = quietUntil

// Covers is covers.
var Covers = covers

// Offers are the answers that a notification of an interaction offers.
func Offers(in parley.Interaction) []string {
	rows := []seam.InteractionRow{{Interaction: in, Open: true}}
	n, _ := withInteraction(notice{Type: "interaction.opened"}, seam.Batch{Index: seam.Index{Interactions: rows}}, in.ID)
	return n.show().Choices
}

// Plain is an answer as a notification shows it.
func Plain(answer string) string { return plain(answer) }

// Sealed is what a browser is sent of a turn that has ended, before it is encrypted.
func Sealed(title, answer string) []byte {
	return (&Push{}).shownAs(notice{Type: "turn.completed", Title: title, Text: answer})
}
