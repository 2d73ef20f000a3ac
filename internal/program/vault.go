package program

import (
	"context"
	"log/slog"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/vault"
)

// openVault opens the vault over the store, and seals with the newest key what an older one
// has sealed. A key that is missing keeps nothing else from working.
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
		log.Info("kept secrets are sealed with the newest key of the vault", "secrets", done)
	}
	if left > 0 {
		log.Warn("kept secrets cannot be opened: vault.keys lacks the key that sealed them; add it behind the present one", "secrets", left)
	}
	return nil
}
