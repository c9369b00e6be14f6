package api

import (
	"context"
	"net/http"

	"steward/internal/monitor"
	"steward/internal/store"
)

type sshView struct {
	Access bool    `json:"access" doc:"Whether support staff may log in."`
	User   *string `json:"user" doc:"null: root."`
	IP     string  `json:"ip" doc:"The address to log in at, or any."`
	Port   *int    `json:"port" doc:"null: 22."`
}

type computeView struct {
	ID    int64   `json:"id"`
	Label string  `json:"label"`
	Group string  `json:"group" doc:"For display only."`
	SSH   sshView `json:"ssh"`
}

func showCompute(c monitor.Machine) computeView {
	v := computeView{int64(c.ID), c.Label, c.Group, sshView{Access: c.SSH.Access, IP: c.SSH.IP}}
	if c.SSH.User != "" {
		v.SSH.User = &c.SSH.User
	}
	if c.SSH.Port != 0 {
		v.SSH.Port = &c.SSH.Port
	}
	return v
}

type sshUpdate struct {
	Access *bool            `json:"access,omitempty"`
	User   optional[string] `json:"user,omitzero" minLength:"1" maxLength:"32" doc:"null: root."`
	IP     *string          `json:"ip,omitempty" doc:"An IPv4 or IPv6 address, or any."`
	Port   optional[int]    `json:"port,omitzero" minimum:"1" maximum:"65535" doc:"null: 22."`
}

type computeUpdate struct {
	SSH *sshUpdate `json:"ssh,omitempty" doc:"What is left out stays."`
}

func (b computeUpdate) change() monitor.SSHChange {
	if b.SSH == nil {
		return monitor.SSHChange{}
	}
	return monitor.SSHChange{Access: b.SSH.Access, User: b.SSH.User.orZero(), IP: b.SSH.IP, Port: b.SSH.Port.orZero()}
}

type computePath struct {
	ID int64 `path:"computeId" minimum:"1"`
}

func (a *API) registerComputes() {
	a.registerComputeSettings("/v4/managed/compute-settings", "ComputeSettings", "")
	a.registerComputeSettings("/v4/managed/linode-settings", "LinodeSettings", " (the same as compute-settings)")
}

// registerComputeSettings adds the operations below one of their paths.
func (a *API) registerComputeSettings(all, name, alias string) {
	machines := a.Control.Machines
	const tag = "Managed compute instances"
	one := all + "/{computeId}"
	registerList(a, endpoint{method: http.MethodGet, path: all, id: "list" + name, summary: "List how staff log in to the machines" + alias, tag: tag, scope: readAccount},
		store.MachineFields, machines.List, showCompute)
	register(a, endpoint{method: http.MethodGet, path: one, id: "view" + name, summary: "View how staff log in to a machine" + alias, tag: tag, scope: readAccount},
		func(ctx context.Context, c call[computePath, none]) (computeView, error) {
			found, err := machines.View(ctx, c.Principal, monitor.MachineID(c.In.ID))
			return showCompute(found), err
		})
	register(a, endpoint{method: http.MethodPut, path: one, id: "update" + name, summary: "Change how staff log in to a machine" + alias, tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[computePath, computeUpdate]) (computeView, error) {
			changed, err := machines.Update(ctx, c.Principal, monitor.MachineID(c.In.ID), c.Body.change(), c.Faults)
			return showCompute(changed), err
		})
}
