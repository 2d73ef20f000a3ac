package push

import "crypto/ecdh"

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
