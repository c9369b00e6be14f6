package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/datadir"
	"steward/internal/store"
)

// firstToken makes the first account, its unrestricted user and its token. Each
// part is found again when a crash came between.
func (a *App) firstToken(ctx context.Context) error {
	return a.store.InTx(ctx, func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(ctx)
		if err != nil {
			return fmt.Errorf("make first user: %w", err)
		}
		if n, err := tx.TokenCount(ctx, admin.ID); err != nil || n > 0 {
			return err
		}
		text, err := datadir.ReadOrMakeToken(a.dir.AdminToken())
		if err != nil {
			return err
		}
		// The first token is kept in the data folder, for who runs the server.
		if _, err := tx.AddOperator(ctx, admin.ID); err != nil {
			return fmt.Errorf("make the first user an operator: %w", err)
		}
		token := control.TokenOf(admin.ID, "first token", text, account.FullScopes(), nil)
		_, err = tx.CreateToken(ctx, token, sha256.Sum256([]byte(text)))
		return err
	})
}

// firstMachine makes this host one of the first account's machines. One that runs no databases may be a Pod, of which there is another at each update.
func (a *App) firstMachine(ctx context.Context) error {
	if !a.onHost {
		return nil
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find this host's name: %w", err)
	}
	return a.store.InTx(ctx, func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(ctx)
		if err != nil {
			return err
		}
		return tx.EnsureHost(ctx, admin.Account, name)
	})
}
