package api

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"steward/internal/cluster"
	"steward/internal/operation"
)

// upgradeCheckBody is a request to try an upgrade.
type upgradeCheckBody struct {
	Version string `json:"version" minLength:"1" doc:"A newer release series, or its major version: one that an update of version takes."`
}

// upgradeCheckView is what the last try of an upgrade found.
type upgradeCheckView struct {
	Version      string   `json:"version" doc:"The release series that was tried; empty when none was."`
	Status       string   `json:"status" enum:"none,running,passed,failed,error" doc:"none when nothing was tried yet. failed when the data can't be moved there: reasons say why. error when it couldn't be tried: message says why."`
	PauseSeconds *int     `json:"pause_seconds" doc:"For how long about nobody could write; null unless passed."`
	Reasons      []string `json:"reasons" nullable:"false"`
	Percent      int      `json:"percent" minimum:"0" maximum:"100"`
	Message      string   `json:"message"`
	Created      *string  `json:"created" format:"date-time"`
	Finished     *string  `json:"finished" format:"date-time"`
}

func showUpgradeCheck(o operation.Operation) upgradeCheckView {
	if o.ID == 0 {
		return upgradeCheckView{Status: "none", Reasons: []string{}}
	}
	v := upgradeCheckView{
		Version: o.Params.Series, Status: "running", Percent: o.Percent, Message: o.Message, Created: new(showTime(o.Created)), Reasons: []string{},
	}
	if o.Finished != nil {
		v.Finished = new(showTime(*o.Finished))
	}
	switch found := o.Params.Trial; {
	case !o.Status.Done():
	case found == nil || o.Status != operation.Finished:
		v.Status = "error"
	case len(found.Reasons) > 0:
		v.Status, v.Reasons = "failed", found.Reasons
	default:
		v.Status, v.PauseSeconds = "passed", new(int(math.Ceil(float64(found.PauseMS)/1000)))
	}
	return v
}

// registerUpgrades adds the operations on new versions of one engine's databases.
func (a *API) registerUpgrades(engine cluster.Engine, name string) {
	clusters, path := a.Control.Clusters, fmt.Sprintf("/v4/databases/%s/instances/{instanceId}/upgrade-check", engine)
	register(a, endpoint{
		method: http.MethodPost, path: path, id: "checkUpgradeOf" + name + "Database", tag: name + " databases", scope: writeDatabases,
		summary: "Try the move to a newer version on a copy of the data",
	}, func(ctx context.Context, c call[instancePath, upgradeCheckBody]) (empty, error) {
		return empty{}, clusters.CheckUpgrade(ctx, c.Principal, engine, cluster.ID(c.In.ID), c.Body.Version, c.Faults)
	})
	register(a, endpoint{
		method: http.MethodGet, path: path, id: "viewUpgradeCheckOf" + name + "Database", tag: name + " databases", scope: readDatabases,
		summary: "View what the last try of a newer version found",
	}, func(ctx context.Context, c call[instancePath, none]) (upgradeCheckView, error) {
		found, err := clusters.LastUpgradeCheck(ctx, c.Principal, engine, cluster.ID(c.In.ID))
		return showUpgradeCheck(found), err
	})
}
