package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/cluster"
	"steward/internal/platform/kubernetes/barman"
	"steward/internal/platform/kubernetes/cnpg"
)

// errNoStore is returned of a region that has no place for backups, or none for those of an engine. Who asks is told before by what the region can.
var errNoStore = errors.New("the region has no place for the database's backups")

// reference is how a backup is found again: Kept.Ref as JSON. It outlives the operator's object, which goes with the namespace.
type reference struct {
	// Archive is the name of the folder that it is in: PostgreSQL's with the WAL that goes on from it, where ID is barman's, and MariaDB's by itself.
	Archive string `json:"archive"`
	ID      string `json:"id"`
	// Begin and End are the first and the last file of WAL that PostgreSQL needs.
	Begin string `json:"begin,omitempty"`
	End   string `json:"end,omitempty"`
}

// parseReference refuses what isn't a cluster's own: its folder is read and removed by it.
func parseReference(text string, of cluster.Cluster) (r reference, err error) {
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("a backup's reference can't be read: %w", err)
	}
	if !strings.HasPrefix(r.Archive, archivePrefix(of)) || r.ID == "" || strings.ContainsRune(r.Archive+r.ID, '/') {
		return r, fmt.Errorf("the reference %s is of no backup of cluster %d", text, of.ID)
	}
	return r, nil
}

func (r reference) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // it is strings
	}
	return string(text)
}

// store opens the bucket as it is described in the namespace now. The caller closes it.
func (d *Driver) store(ctx context.Context) (*barman.Store, error) {
	if d.o.ObjectStore == "" {
		return nil, errNoStore
	}
	return openStore(ctx, d.live, d.o)
}

func openStore(ctx context.Context, c client.Client, o Options) (*barman.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_, options, err := describedStore(ctx, c, o)
	if err != nil {
		return nil, err
	}
	opened, err := barman.Open(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("the object store %s: %w", o.ObjectStore, err)
	}
	return opened, nil
}

// describedStore is what the object says of the bucket, and with what the secrets say that it names.
func describedStore(ctx context.Context, c client.Client, o Options) (cnpg.BarmanConfiguration, barman.Options, error) {
	said := &cnpg.ObjectStore{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.ObjectStore}, said); err != nil {
		return said.Spec.Configuration, barman.Options{}, fmt.Errorf("read the object store %s: %w", o.ObjectStore, err)
	}
	options, err := bucketOf(ctx, c, o.Namespace, said.Spec.Configuration)
	if err != nil {
		return said.Spec.Configuration, options, fmt.Errorf("the object store %s: %w", o.ObjectStore, err)
	}
	return said.Spec.Configuration, options, nil
}

// bucketOf reads the secrets that a configuration names.
func bucketOf(ctx context.Context, c client.Client, namespace string, said cnpg.BarmanConfiguration) (barman.Options, error) {
	o := barman.Options{Destination: said.DestinationPath, Endpoint: said.EndpointURL}
	keys := said.S3Credentials
	if keys == nil {
		keys = &cnpg.S3Credentials{}
	}
	for _, part := range []struct {
		of   *cnpg.KeyReference
		into func(value []byte)
	}{
		{keys.AccessKeyID, func(v []byte) { o.AccessKey = string(v) }},
		{keys.SecretAccessKey, func(v []byte) { o.SecretKey = string(v) }},
		{keys.SessionToken, func(v []byte) { o.Token = string(v) }},
		{keys.Region, func(v []byte) { o.Region = string(v) }},
		{said.EndpointCA, func(v []byte) { o.CA = v }},
	} {
		if part.of == nil {
			continue
		}
		var s corev1.Secret
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: part.of.Name}, &s); err != nil {
			return o, fmt.Errorf("read the secret %s: %w", part.of.Name, err)
		}
		value, ok := s.Data[part.of.Key]
		if !ok {
			return o, fmt.Errorf("the secret %s has no key %s", part.of.Name, part.of.Key)
		}
		part.into(value)
	}
	return o, nil
}
