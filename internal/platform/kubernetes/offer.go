package kubernetes

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/platform/kubernetes/cnpg"
)

// offerFresh is for how long what was read of the image catalog counts for who only looks: each database is looked at
// every ten seconds for what waits for its window.
const offerFresh = 15 * time.Second

// askTime bounds a single question to the API server.
const askTime = 5 * time.Second

// Check asks the API server for what is offered, and whether it has the operator's kind; the error says that it can't be reached, doesn't let us, or
// knows nothing of the operator.
func (d *Driver) Check(ctx context.Context) error {
	if _, err := d.images(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	// One that there is none of: to list them takes an API server long when there are many.
	if err := unlessGone(d.live.Get(ctx, client.ObjectKey{Namespace: d.o.Namespace, Name: claimName}, &cnpg.Cluster{})); err != nil {
		return fmt.Errorf("ask for a database's object: %w", explained(err))
	}
	return nil
}

// Abilities are what databases in this region can have done to them; the rest isn't built.
func (d *Driver) Abilities() catalog.Abilities {
	keeps := d.o.ObjectStore != ""
	return catalog.Abilities{Engines: d.Engines(), Backups: keeps, KeepsBackups: keeps, Logs: true, Restarts: true, Switchovers: true}
}

// Engines implements platform.Driver: the major versions that there was an image for when that was asked last.
func (d *Driver) Engines() []catalog.Engine {
	missing := ""
	if d.o.EncryptedStorageClass == "" {
		missing = "This region has no encrypted storage."
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []catalog.Engine
	for _, i := range d.offer {
		all = append(all, catalog.Engine{Engine: cluster.PostgreSQL, Series: strconv.Itoa(i.Major), EncryptionMissing: missing})
	}
	return all
}

// images are those of the catalog, as it is now.
func (d *Driver) images(ctx context.Context) ([]cnpg.CatalogImage, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	found := &cnpg.ImageCatalog{}
	if err := d.live.Get(ctx, client.ObjectKey{Namespace: d.o.Namespace, Name: d.o.ImageCatalog}, found); err != nil {
		return nil, fmt.Errorf("read the image catalog %s: %w", d.o.ImageCatalog, explained(err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offer, d.offered = found.Spec.Images, d.o.Now()
	return d.offer, nil
}

// recentImages are those of the catalog, as it was a moment ago.
func (d *Driver) recentImages(ctx context.Context) ([]cnpg.CatalogImage, error) {
	d.mu.Lock()
	offer, at := d.offer, d.offered
	d.mu.Unlock()
	if age := d.o.Now().Sub(at); age >= 0 && age < offerFresh {
		return offer, nil
	}
	return d.images(ctx)
}

// newest is the image of a series among those of the catalog.
func (d *Driver) newest(series string, images []cnpg.CatalogImage) (string, error) {
	for _, i := range images {
		if strconv.Itoa(i.Major) == series {
			return i.Image, nil
		}
	}
	return "", &permanentError{fmt.Errorf("the image catalog %s has no image of PostgreSQL %s any more", d.o.ImageCatalog, series)}
}
