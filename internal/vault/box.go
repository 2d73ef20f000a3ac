package vault

import (
	"encoding/hex"
	"encoding/json"

	"github.com/parley-server/parley"
)

// Seal encrypts a text that its caller stores, outside the vault. What it is about, such as its kind and its
// owner, is authenticated with it.
func (v *Vault) Seal(about []string, plain []byte) ([]byte, error) {
	if err := v.Ready(); err != nil {
		return nil, err
	}
	k := v.keys[0]
	return k.aead.Seal(append([]byte{}, k.id[:]...), nil, plain, boundTo(about)), nil
}

// Unseal decrypts what [Vault.Seal] returned. newest is false if it was encrypted with an older key. A key that the
// vault does not have is CodeUnavailable.
func (v *Vault) Unseal(about []string, sealed []byte) (plain []byte, newest bool, err error) {
	damaged := parley.Errorf(parley.CodeInternal, "encrypted data is damaged, or was moved").WithHint("restore the database")
	if len(sealed) < idSize {
		return nil, false, damaged
	}
	for i, k := range v.keys {
		if [idSize]byte(sealed) != k.id {
			continue
		}
		plain, err := k.aead.Open(nil, nil, sealed[idSize:], boundTo(about))
		if err != nil {
			return nil, false, damaged
		}
		return plain, i == 0, nil
	}
	return nil, false, parley.Errorf(parley.CodeUnavailable, "it was encrypted with the key %s, which the server does not have", hex.EncodeToString(sealed[:idSize])).
		WithHint("it is not lost: add that key to vault.keys after the current one")
}

// boundTo differs from what the vault's own entries are bound to.
func boundTo(about []string) []byte {
	raw, err := json.Marshal(map[string][]string{"about": about})
	if err != nil {
		panic(err) // strings always encode
	}
	return raw
}
