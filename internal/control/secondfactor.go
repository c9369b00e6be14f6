package control

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"image/png"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// Bounds of second factors. After so many wrong codes in a row none is taken for some time, so that who knows the
// password and guesses finds a code in two years rather than in three weeks; recovery codes are too long to be guessed.
const (
	// FactorLifetime is how long a new secret can be confirmed.
	FactorLifetime = 15 * time.Minute
	// stepLifetime is how long a log-in waits for its code.
	stepLifetime  = 5 * time.Minute
	mostWrong     = 5
	blockedFor    = 15 * time.Minute
	recoveryCodes = 10
	// codePeriod is how long a code is good, in seconds; one before and one after are taken, too, as clocks differ.
	codePeriod = 30
)

// ownFactor is nil for who may change the caller's second factor: the user itself, and no application that was lent a
// token, which would lock its user out.
func ownFactor(p account.Principal) error {
	if p.Client != "" && p.Client != account.ConsoleClient {
		return fault.NewForbidden()
	}
	return nil
}

// NewFactor is what a user sets up an authenticator with, once.
type NewFactor struct {
	Secret, URL string
	// Picture is the URL as a QR code: a data URL of a PNG.
	Picture string
	Expiry  time.Time
}

// HasFactor reports whether the user logs in with a second factor.
func (s *Logins) HasFactor(ctx context.Context, u account.User) (bool, error) {
	return s.Store.HasFactor(ctx, u.ID)
}

// StartFactor makes a secret for the caller. It counts once a code of it was given.
func (s *Logins) StartFactor(ctx context.Context, p account.Principal) (NewFactor, error) {
	if err := ownFactor(p); err != nil {
		return NewFactor{}, err
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: "steward", AccountName: p.User.Username, Period: codePeriod})
	if err != nil {
		return NewFactor{}, fmt.Errorf("make a second factor: %w", err)
	}
	picture, err := qr(key)
	if err != nil {
		return NewFactor{}, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		made, err := tx.StartFactor(ctx, p.User.ID, key.Secret())
		if err == nil && !made {
			return fault.NewPrecondition("You have a second factor already; disable it first.")
		}
		return err
	})
	return NewFactor{key.Secret(), key.URL(), picture, s.Now().Add(FactorLifetime)}, err
}

func qr(key *otp.Key) (string, error) {
	image, err := key.Image(240, 240)
	if err != nil {
		return "", fmt.Errorf("draw a second factor: %w", err)
	}
	var text bytes.Buffer
	if err := png.Encode(&text, image); err != nil {
		return "", fmt.Errorf("draw a second factor: %w", err)
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(text.Bytes()), nil
}

// ConfirmFactor has the caller's new secret count, when the code is of it. It answers recovery codes, each of which
// serves once in place of a code.
func (s *Logins) ConfirmFactor(ctx context.Context, p account.Principal, code string, faults fault.Faults) ([]string, error) {
	if err := ownFactor(p); err != nil {
		return nil, err
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	codes, hashes, err := newRecoveryCodes()
	if err != nil {
		return nil, err
	}
	wrong := false
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		f, err := tx.LockFactor(ctx, p.User.ID)
		switch {
		case fault.IsKind(err, fault.NotFound) || err == nil && f.Confirmed == nil && s.Now().Sub(f.Created) > FactorLifetime:
			return fault.NewPrecondition("Ask for a secret first; one can be confirmed for a quarter of an hour.")
		case err != nil:
			return err
		case f.Confirmed != nil:
			return fault.NewPrecondition("You have a second factor already.")
		case s.blocked(f):
			return fault.NewTooMany()
		}
		step := s.stepOf(f, code)
		if step == 0 {
			wrong = true
			return s.failFactor(ctx, tx, p.User.ID, f)
		}
		if err := tx.ConfirmFactor(ctx, p.User.ID, step, hashes); err != nil {
			return err
		}
		return Happened(ctx, tx, p.User.Username, OfUser(operation.FactorEnabled, p.User))
	})
	if err == nil && wrong {
		err = fault.NewInvalid("tfa_code", "The code is wrong")
	}
	if err != nil {
		return nil, err
	}
	return codes, nil
}

// DisableFactor takes the caller's second factor away.
func (s *Logins) DisableFactor(ctx context.Context, p account.Principal) error {
	if err := ownFactor(p); err != nil {
		return err
	}
	if err := s.dropFactor(ctx, p.User.Username, p.User); err != nil && !fault.IsKind(err, fault.NotFound) {
		return err
	}
	return nil
}

// DropFactor takes a user's second factor away. It is the operator's, for one that was lost.
func (s *Logins) DropFactor(ctx context.Context, u account.User) error {
	return s.dropFactor(ctx, "", u)
}

func (s *Logins) dropFactor(ctx context.Context, by string, u account.User) error {
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.DropFactor(ctx, u.ID); err != nil {
			return err
		}
		return Happened(ctx, tx, by, OfUser(operation.FactorDisabled, u))
	})
}

// BeginStep is the secret of a step between password and code; "" for a user who has no second factor.
func (s *Logins) BeginStep(ctx context.Context, u account.User, client account.ClientID) (string, error) {
	has, err := s.Store.HasFactor(ctx, u.ID)
	if err != nil || !has {
		return "", err
	}
	secret, err := newToken()
	if err != nil {
		return "", err
	}
	return secret, s.Store.AddLoginStep(ctx, sha256.Sum256([]byte(secret)), u.ID, client, s.Now().Add(stepLifetime))
}

// FinishStep ends a step by a code or a recovery code. NotFound: the step is over, and the log-in begins anew. A wrong
// code is Unauthenticated, and TooMany after some; the user is still told, for the audit trail.
func (s *Logins) FinishStep(ctx context.Context, secret string, client account.ClientID, code string) (account.User, error) {
	if len(secret) != tokenLength {
		return account.User{}, fault.NewNotFound()
	}
	hash := store.TokenHash(sha256.Sum256([]byte(secret)))
	user, err := s.Store.LoginStep(ctx, hash, client)
	if err != nil {
		return user, err
	}
	refused := error(nil)
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		f, err := tx.LockFactor(ctx, user.ID)
		if err != nil || f.Confirmed == nil {
			return fault.NewNotFound() // it was taken away meanwhile: the next log-in needs none
		}
		if refused, err = s.takeCode(ctx, tx, user.ID, f, code); err != nil || refused != nil {
			return err
		}
		return tx.UseLoginStep(ctx, hash)
	})
	if err == nil {
		err = refused
	}
	return user, err
}

// takeCode takes a code that is right away, and counts one that is wrong.
func (s *Logins) takeCode(ctx context.Context, tx *store.Tx, u account.UserID, f store.SecondFactor, code string) (refused, err error) {
	if hash, ok := recoveryHash(code); ok {
		found, err := tx.UseRecoveryCode(ctx, u, hash)
		if err != nil {
			return nil, err
		}
		if found {
			return nil, tx.UseFactor(ctx, u, 0)
		}
	}
	if s.blocked(f) {
		return fault.NewTooMany(), nil
	}
	if step := s.stepOf(f, code); step != 0 {
		return nil, tx.UseFactor(ctx, u, step)
	}
	return fault.NewUnauthenticated(), s.failFactor(ctx, tx, u, f)
}

func (s *Logins) blocked(f store.SecondFactor) bool {
	return f.BlockedUntil != nil && s.Now().Before(*f.BlockedUntil)
}

// failFactor counts a wrong code.
func (s *Logins) failFactor(ctx context.Context, tx *store.Tx, u account.UserID, f store.SecondFactor) error {
	failures := f.Failures + 1
	if failures%mostWrong == 0 {
		return tx.FailFactor(ctx, u, failures, new(s.Now().Add(blockedFor)))
	}
	return tx.FailFactor(ctx, u, failures, nil)
}

// stepOf is the step that a code is of: now, one before or one after, and none that a code was taken of. 0: of none.
func (s *Logins) stepOf(f store.SecondFactor, code string) (found int64) {
	code = strings.ReplaceAll(strings.TrimSpace(code), " ", "")
	now := s.Now().Unix() / codePeriod
	for step := now - 1; step <= now+1; step++ {
		want, err := totp.GenerateCodeCustom(f.Secret, time.Unix(step*codePeriod, 0), totp.ValidateOpts{Period: codePeriod, Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
		if err == nil && subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 && step > f.LastStep {
			found = step
		}
	}
	return found
}

// A recovery code is eighty bits in sixteen letters and digits, by fours.
const recoveryBytes = 10

func newRecoveryCodes() (codes []string, hashes []store.TokenHash, err error) {
	for range recoveryCodes {
		raw := make([]byte, recoveryBytes)
		if _, err := rand.Read(raw); err != nil {
			return nil, nil, fmt.Errorf("make recovery codes: %w", err)
		}
		text := strings.ToLower(base32.StdEncoding.EncodeToString(raw))
		codes = append(codes, text[:4]+"-"+text[4:8]+"-"+text[8:12]+"-"+text[12:])
		hash, _ := recoveryHash(text)
		hashes = append(hashes, hash)
	}
	return codes, hashes, nil
}

// recoveryHash is what is kept of a recovery code, however it is written; false for what is none.
func recoveryHash(code string) (store.TokenHash, bool) {
	text := strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(strings.TrimSpace(code)))
	raw, err := base32.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != recoveryBytes {
		return store.TokenHash{}, false
	}
	return sha256.Sum256(raw), true
}
