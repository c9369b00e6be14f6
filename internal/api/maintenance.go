package api

import (
	"context"
	"net/http"

	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/filter"
	"steward/internal/operation"
)

// maintenanceView is one thing that waits for a database's maintenance window,
// in the members that clients of accounts' maintenance read.
type maintenanceView struct {
	Entity       entityView `json:"entity"`
	Type         string     `json:"type" enum:"version_update,certificate_renewal,restart"`
	Status       string     `json:"status" enum:"pending,started" doc:"started while the window's work goes on."`
	Reason       string     `json:"reason" doc:"What is done, and from which version to which."`
	Description  string     `json:"description" enum:"scheduled"`
	Source       string     `json:"source" enum:"platform"`
	When         *string    `json:"when" format:"date-time" doc:"When the window opens; null while the database is suspended."`
	NotBefore    *string    `json:"not_before" format:"date-time" doc:"The same."`
	StartTime    *string    `json:"start_time" format:"date-time" doc:"The same."`
	CompleteTime *string    `json:"complete_time" format:"date-time" doc:"When the window ends."`
	Deadline     *string    `json:"deadline" format:"date-time" doc:"By when it must be done; null when it can wait."`
	PolicySet    *string    `json:"maintenance_policy_set" doc:"Always null: a database's own window says when."`
}

var maintenanceTypes = map[cluster.TaskKind]string{
	cluster.TaskUpdate: "version_update", cluster.TaskCertificate: "certificate_renewal", cluster.TaskRestart: "restart",
}

func showMaintenance(p control.Planned) maintenanceView {
	v := maintenanceView{
		Entity: entityView{int64(p.ID), p.Label, string(operation.Database), instanceURI(p.Engine, p.ID)},
		Type:   maintenanceTypes[p.Kind], Status: "pending", Reason: p.Description(), Description: "scheduled", Source: "platform",
		When: plannedFor(p), NotBefore: plannedFor(p), StartTime: plannedFor(p), Deadline: optionalTime(p.Deadline),
	}
	if v.When != nil {
		v.CompleteTime = optionalTime(&p.End)
	}
	if p.Begun {
		v.Status = "started"
	}
	return v
}

// plannedFor is when the window opens. What rests is worked on in no window.
func plannedFor(p control.Planned) *string {
	if p.Cluster.Status.Resting() {
		return nil
	}
	return optionalTime(&p.Start)
}

// maintenanceInMemory is what is planned, which follows from the clock.
func maintenanceInMemory(planned []control.Planned) inMemory[control.Planned] {
	fields := filter.Fields{
		"entity.id": filter.Number, "entity.label": filter.Text, "entity.type": filter.Text,
		"type": filter.Text, "status": filter.Text, "reason": filter.Text, "when": filter.Time,
	}
	return inMemory[control.Planned]{planned, fields, func(p control.Planned, field string) any {
		v := showMaintenance(p)
		switch field {
		case "entity.id":
			return v.Entity.ID
		case "entity.label":
			return v.Entity.Label
		case "entity.type":
			return v.Entity.Type
		case "type":
			return v.Type
		case "status":
			return v.Status
		case "reason":
			return v.Reason
		}
		if v.When == nil {
			return nil
		}
		return p.Start
	}}
}

func (a *API) registerMaintenance() {
	register(a, endpoint{
		method: http.MethodGet, path: "/v4/account/maintenance", id: "listMaintenance",
		summary: "List what waits for the maintenance windows of all databases", tag: "Account", scope: readAccount,
	}, func(ctx context.Context, c call[Listing, none]) (list[maintenanceView], error) {
		planned, err := a.Control.Maintenance.List(ctx, c.Principal)
		if err != nil {
			return list[maintenanceView]{}, err
		}
		return listInMemory(maintenanceInMemory(planned), c.In, showMaintenance)
	})
}
