package app

import (
	"context"

	"steward/internal/embeddedpg"
	"steward/internal/failpoint"
	"steward/internal/store"
)

func (a *App) openSealer(ctx context.Context) (err error) {
	a.sealer, err = a.dir.OpenSealer(ctx, a.o.Config)
	return err
}

// startServer starts or adopts the store's own server, unless the store is another one's.
func (a *App) startServer(ctx context.Context) (err error) {
	if a.o.Store != "" {
		return nil
	}
	a.server, err = embeddedpg.Start(ctx, embeddedpg.Options{Dir: a.dir.Store(), RunDir: a.dir.StoreRun(), Logger: a.log})
	return err
}

func (a *App) leaveServer() {
	if a.server != nil {
		a.server.Leave()
	}
}

func (a *App) openStore(ctx context.Context) (err error) {
	url := a.o.Store
	if a.server != nil {
		url = a.server.URL()
	}
	a.store, err = store.Open(ctx, store.Options{URL: url, Sealer: a.sealer, Logger: a.log, MaxConns: workers + 16, Now: failpoint.Now})
	return err
}
