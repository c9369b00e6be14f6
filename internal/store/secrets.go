package store

import (
	"context"
	"fmt"

	"steward/internal/cluster"
	"steward/internal/platform"
	"steward/internal/store/dbsqlc"
)

var _ platform.Secrets = (*Store)(nil)

// Secret is a cluster's secret, unsealed; fault.NotFound when there is none.
func (q queries) Secret(ctx context.Context, id cluster.ID, name platform.SecretName) ([]byte, error) {
	sealed, err := q.q.SecretGet(ctx, int64(id), string(name))
	if err != nil {
		return nil, classify(err)
	}
	value, err := q.sealer.Unseal(ctx, sealed, place(id, name))
	if err != nil {
		return nil, fmt.Errorf("unseal %s: %w", name, err)
	}
	return value, nil
}

// Secrets are all of a cluster's, unsealed.
func (q queries) Secrets(ctx context.Context, id cluster.ID) (map[platform.SecretName][]byte, error) {
	rows, err := q.q.SecretsOf(ctx, int64(id))
	if err != nil {
		return nil, classify(err)
	}
	all := map[platform.SecretName][]byte{}
	for _, r := range rows {
		name := platform.SecretName(r.Name)
		if all[name], err = q.sealer.Unseal(ctx, r.Sealed, place(id, name)); err != nil {
			return nil, fmt.Errorf("unseal %s: %w", name, err)
		}
	}
	return all, nil
}

// SaveSecret seals a value and keeps it in place of an older one.
func (q queries) SaveSecret(ctx context.Context, id cluster.ID, name platform.SecretName, value []byte) error {
	sealed, err := q.sealer.Seal(ctx, value, place(id, name))
	if err != nil {
		return fmt.Errorf("seal %s: %w", name, err)
	}
	return classify(q.q.SecretSave(ctx, dbsqlc.SecretSaveParams{ClusterID: int64(id), Name: string(name), Sealed: sealed}))
}

// sealAll seals the secrets that a new cluster is born with.
func (q queries) sealAll(ctx context.Context, id cluster.ID, secrets map[platform.SecretName][]byte) (dbsqlc.SecretsCreateParams, error) {
	all := dbsqlc.SecretsCreateParams{ClusterID: int64(id), Names: []string{}, Sealed: [][]byte{}}
	for name, value := range secrets {
		sealed, err := q.sealer.Seal(ctx, value, place(id, name))
		if err != nil {
			return all, fmt.Errorf("seal %s: %w", name, err)
		}
		all.Names, all.Sealed = append(all.Names, string(name)), append(all.Sealed, sealed)
	}
	return all, nil
}

// place is bound into the sealed value, so that it can't be moved to another row.
func place(id cluster.ID, name platform.SecretName) string {
	return fmt.Sprintf("cluster/%d/%s", id, name)
}
