package kubernetes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/catalog"
	"steward/internal/cluster"
)

// offerFresh is for how long what was read of the image catalog counts for who only looks: each database is looked at
// every ten seconds for what waits for its window.
const offerFresh = 15 * time.Second

// askTime bounds a single question to the API server.
const askTime = 5 * time.Second

// Check asks the API server for what is offered, and whether it has the operators' kinds; the error says that it can't be reached, doesn't let us, or
// knows nothing of an operator.
func (d *Driver) Check(ctx context.Context) error {
	for _, op := range d.operators {
		if _, err := op.images(ctx, false); err != nil {
			return err
		}
		// One that there is none of: to list them takes an API server long when there are many.
		asking, cancel := context.WithTimeout(ctx, askTime)
		err := unlessGone(d.live.Get(asking, client.ObjectKey{Namespace: d.o.Namespace, Name: claimName}, op.blank()))
		cancel()
		if err != nil {
			return fmt.Errorf("ask for a database's object: %w", explained(err))
		}
	}
	return nil
}

// Abilities are what databases in this region can have done to them; the rest isn't built.
func (d *Driver) Abilities() catalog.Abilities {
	keeps := d.o.ObjectStore != ""
	return catalog.Abilities{Engines: d.Engines(), Backups: keeps, KeepsBackups: keeps, Logs: true, Restarts: true, Switchovers: true}
}

// Engines implements platform.Driver: the series that there was an image for when that was asked last.
func (d *Driver) Engines() []catalog.Engine {
	missing := ""
	if d.o.EncryptedStorageClass == "" {
		missing = "This region has no encrypted storage."
	}
	var all []catalog.Engine
	for _, op := range d.operators {
		for _, i := range op.known() {
			all = append(all, catalog.Engine{Engine: op.engine(), Series: i.series, EncryptionMissing: missing, Lacks: op.lacks()})
		}
	}
	return all
}

// newest is the image of a series among those that there are.
func (d *Driver) newest(e cluster.Engine, series string, images []offered) (string, error) {
	for _, i := range images {
		if i.series == series {
			return i.image, nil
		}
	}
	return "", &permanentError{fmt.Errorf("there is no image of %s/%s in this region any more", e, series)}
}

// offer is what there was of images when somebody looked last.
type offer struct {
	mu     sync.Mutex
	images []offered
	at     time.Time
}

// read looks, unless recent will do and somebody has looked a moment ago.
func (f *offer) read(now func() time.Time, recent bool, look func() ([]offered, error)) ([]offered, error) {
	f.mu.Lock()
	images, at := f.images, f.at
	f.mu.Unlock()
	if age := now().Sub(at); recent && age >= 0 && age < offerFresh {
		return images, nil
	}
	images, err := look()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images, f.at = images, now()
	return images, nil
}

// known are the images as somebody saw them last.
func (f *offer) known() []offered {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.images
}
