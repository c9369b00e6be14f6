package store

import (
	"context"
	"fmt"

	"steward/internal/store/dbsqlc"
)

// SealedIn is where sealed values are kept. Values that an account's data key
// sealed are not among them: their key is.
type SealedIn string

// The tables, by the first part of their values' places.
const (
	SealedSecrets     SealedIn = "cluster"
	SealedAccountKeys SealedIn = "account"
	SealedFactors     SealedIn = "user"
)

// AllSealed are all of them.
var AllSealed = []SealedIn{SealedSecrets, SealedAccountKeys, SealedFactors}

// SealedValue is a value as it lies in the store.
type SealedValue struct {
	In    SealedIn
	Owner int64
	Name  string
	Value []byte
}

// Place is what is bound into the value.
func (v SealedValue) Place() string { return fmt.Sprintf("%s/%d/%s", v.In, v.Owner, v.Name) }

// SealedAfter are the next values behind one, in a fixed order; the zero value
// of a table stands before its first.
func (q queries) SealedAfter(ctx context.Context, after SealedValue, most int) ([]SealedValue, error) {
	var found []SealedValue
	switch after.In {
	case SealedSecrets:
		rows, err := q.q.SecretsAfter(ctx, dbsqlc.SecretsAfterParams{Owner: after.Owner, Name: after.Name, Most: int32(most)})
		for _, r := range rows {
			found = append(found, SealedValue{after.In, r.Owner, r.Name, r.Sealed})
		}
		return found, classify(err)
	case SealedFactors:
		rows, err := q.q.FactorsAfter(ctx, after.Owner, int32(most))
		for _, r := range rows {
			found = append(found, SealedValue{after.In, r.Owner, factorName, r.Sealed})
		}
		return found, classify(err)
	}
	rows, err := q.q.AccountKeysAfter(ctx, dbsqlc.AccountKeysAfterParams{Owner: after.Owner, Name: after.Name, Most: int32(most)})
	for _, r := range rows {
		found = append(found, SealedValue{after.In, r.Owner, r.Name, r.Sealed})
	}
	return found, classify(err)
}

// Reseal puts the same value, sealed anew, in the place of one. false when that
// isn't there any more: somebody has written another value meanwhile.
func (t *Tx) Reseal(ctx context.Context, v SealedValue, fresh []byte) (bool, error) {
	switch v.In {
	case SealedSecrets:
		n, err := t.q.SecretReseal(ctx, dbsqlc.SecretResealParams{Fresh: fresh, Owner: v.Owner, Name: v.Name, Old: v.Value})
		return n > 0, classify(err)
	case SealedFactors:
		n, err := t.q.FactorReseal(ctx, dbsqlc.FactorResealParams{Fresh: fresh, Owner: v.Owner, Old: v.Value})
		return n > 0, classify(err)
	}
	n, err := t.q.AccountKeyReseal(ctx, dbsqlc.AccountKeyResealParams{Fresh: fresh, Owner: v.Owner, Name: v.Name, Old: v.Value})
	return n > 0, classify(err)
}
