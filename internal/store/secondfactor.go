package store

import (
	"context"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/store/dbsqlc"
)

// factorName is the last part of the place of a second factor's secret.
const factorName = "totp"

func factorPlace(u account.UserID) string {
	return SealedValue{In: SealedFactors, Owner: int64(u), Name: factorName}.Place()
}

// SecondFactor is a user's, with its secret.
type SecondFactor struct {
	Secret  string
	Created time.Time
	// Confirmed is nil until the user has shown a first code: it doesn't count before.
	Confirmed *time.Time
	// LastStep is that of the last code that was taken; Failures are the wrong ones since.
	LastStep int64
	Failures int
	// BlockedUntil is nil while codes are taken.
	BlockedUntil *time.Time
}

// StartFactor gives the user a secret that is to be confirmed, in place of one that wasn't;
// false when one that was is there.
func (t *Tx) StartFactor(ctx context.Context, u account.UserID, secret string) (bool, error) {
	sealed, err := t.sealer.Seal(ctx, []byte(secret), factorPlace(u))
	if err != nil {
		return false, fmt.Errorf("seal a second factor: %w", err)
	}
	n, err := t.q.FactorStart(ctx, dbsqlc.FactorStartParams{UserID: int64(u), Sealed: sealed, Created: t.now()})
	return n > 0, classify(err)
}

// LockFactor reads a user's and keeps others from using it until the transaction ends.
func (t *Tx) LockFactor(ctx context.Context, u account.UserID) (SecondFactor, error) {
	r, err := t.q.FactorLock(ctx, int64(u))
	if err != nil {
		return SecondFactor{}, classify(err)
	}
	secret, err := t.sealer.Unseal(ctx, r.Sealed, factorPlace(u))
	if err != nil {
		return SecondFactor{}, fmt.Errorf("unseal a second factor: %w", err)
	}
	return SecondFactor{string(secret), r.Created, r.Confirmed, r.LastStep, int(r.Failures), r.BlockedUntil}, nil
}

// HasFactor reports whether the user logs in with a second factor.
func (q queries) HasFactor(ctx context.Context, u account.UserID) (bool, error) {
	has, err := q.q.FactorConfirmed(ctx, int64(u))
	return has, classify(err)
}

// ConfirmFactor has the second factor count from now on, with new recovery codes.
func (t *Tx) ConfirmFactor(ctx context.Context, u account.UserID, step int64, codes []TokenHash) error {
	n, err := t.q.FactorConfirm(ctx, dbsqlc.FactorConfirmParams{UserID: int64(u), Now: t.now(), LastStep: step})
	if err := oneRow(n, err); err != nil {
		return err
	}
	if err := t.q.RecoveryCodesClear(ctx, int64(u)); err != nil {
		return classify(err)
	}
	hashes := make([][]byte, len(codes))
	for i := range codes {
		hashes[i] = codes[i][:]
	}
	return classify(t.q.RecoveryCodesAdd(ctx, int64(u), hashes))
}

// UseFactor notes that a code of a step was taken; 0 for a recovery code.
func (t *Tx) UseFactor(ctx context.Context, u account.UserID, step int64) error {
	n, err := t.q.FactorUsed(ctx, step, int64(u))
	return oneRow(n, err)
}

// FailFactor notes how many wrong codes there were, and until when none is taken.
func (t *Tx) FailFactor(ctx context.Context, u account.UserID, failures int, blocked *time.Time) error {
	return classify(t.q.FactorFailed(ctx, dbsqlc.FactorFailedParams{UserID: int64(u), Failures: int32(failures), BlockedUntil: blocked}))
}

// UseRecoveryCode takes a recovery code away; false when the user has none such.
func (t *Tx) UseRecoveryCode(ctx context.Context, u account.UserID, code TokenHash) (bool, error) {
	n, err := t.q.RecoveryCodeUse(ctx, int64(u), code[:])
	return n > 0, classify(err)
}

// DropFactor takes the user's second factor away; NotFound when there is none.
func (q queries) DropFactor(ctx context.Context, u account.UserID) error {
	n, err := q.q.FactorDelete(ctx, int64(u))
	return oneRow(n, err)
}

// AddLoginStep notes a log-in to a client that waits for a code.
func (q queries) AddLoginStep(ctx context.Context, hash TokenHash, u account.UserID, client account.ClientID, expiry time.Time) error {
	if err := q.q.LoginStepsPurge(ctx, q.now()); err != nil {
		return classify(err)
	}
	return classify(q.q.LoginStepAdd(ctx, dbsqlc.LoginStepAddParams{Hash: hash[:], UserID: int64(u), ClientID: string(client), Expiry: expiry}))
}

// LoginStep is the user of a log-in to a client that waits for a code.
func (q queries) LoginStep(ctx context.Context, hash TokenHash, client account.ClientID) (account.User, error) {
	row, err := q.q.LoginStepGet(ctx, dbsqlc.LoginStepGetParams{Hash: hash[:], ClientID: string(client), Now: q.now()})
	return toUser(row), classify(err)
}

// UseLoginStep ends it; NotFound when somebody has.
func (t *Tx) UseLoginStep(ctx context.Context, hash TokenHash) error {
	n, err := t.q.LoginStepUse(ctx, hash[:])
	return oneRow(n, err)
}
