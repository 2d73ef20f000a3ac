package program

import (
	"context"
	"log/slog"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/vault"
)

// openVault opens the vault, and encrypts with the newest key what was encrypted with an older
// one. A missing key only affects the secrets that need it.
func (p *plan) openVault(ctx context.Context, store vault.Store, log *slog.Logger) error {
	v, err := vault.Open(store, vault.ParseKeys(p.settings.Vault.Keys))
	if err != nil {
		return usage(parley.Errorf(parley.CodeInvalid, "vault.keys: %w", err).WithHint("%s", parley.Info(err).Hint))
	}
	p.vault.Store(v)
	if v.Ready() != nil {
		return nil
	}
	done, left, err := v.Reseal(ctx)
	if err != nil {
		return err
	}
	if done > 0 {
		log.Info("stored secrets were encrypted with the newest key of the vault", "secrets", done)
	}
	if left > 0 {
		log.Warn("stored secrets cannot be decrypted: vault.keys lacks the key that encrypted them; add it after the current one", "secrets", left)
	}
	return nil
}
