package api

import (
	"context"
	"math"
	"net/http"
	"time"

	"steward/internal/store"
)

// usageView is what a database was on a day.
type usageView struct {
	Day            string   `json:"day" format:"date" doc:"UTC."`
	Database       int64    `json:"database_id"`
	Label          string   `json:"label"`
	Engine         string   `json:"engine"`
	Type           string   `json:"type"`
	ClusterSize    int      `json:"cluster_size"`
	Hours          float64  `json:"hours" doc:"For how long it was there, with this type and size, and not suspended."`
	SuspendedHours float64  `json:"suspended_hours"`
	UsedDiskBytes  int64    `json:"used_disk_bytes" doc:"The most that its data took."`
	BackupBytes    int64    `json:"backup_bytes" doc:"The most that its backups took."`
	Cost           *float64 `json:"cost" doc:"Hours by nodes by the type's price of now; null for a type that isn't offered any more."`
}

// hoursOf has four digits, which is less than a second.
func hoursOf(d time.Duration) float64 { return round(d.Hours(), 4) }

func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}

func (a *API) showUsage(u store.Usage) usageView {
	v := usageView{
		Day: u.Day.Format(time.DateOnly), Database: int64(u.Cluster), Label: u.Label, Engine: u.Engine, Type: u.Type, ClusterSize: u.Size,
		Hours: hoursOf(u.Running), SuspendedHours: hoursOf(u.Suspended), UsedDiskBytes: u.UsedBytes, BackupBytes: u.BackupBytes,
	}
	if p, known := a.Catalog.Plan(u.Type); known {
		v.Cost = new(round(u.Running.Hours()*float64(u.Size)*p.Hourly, 6))
	}
	return v
}

// registerUsage adds the account's usage.
func (a *API) registerUsage() {
	register(a, endpoint{
		method: http.MethodGet, path: "/v4/account/usage", id: "listUsage", summary: "List what databases were, by day, newest day first", tag: "Account", scope: readAccount,
	}, func(ctx context.Context, c call[Listing, none]) (list[usageView], error) {
		return listPage(c.In, store.UsageFields, a.showUsage, func(q store.ListQuery) ([]store.Usage, int, error) {
			return a.Control.Overview.Usage(ctx, c.Principal, q)
		})
	})
}
