package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/account"
	"steward/internal/operation"
	"steward/internal/store"
)

var (
	readEvents   = account.Scope{Area: account.AreaEvents, Access: account.ReadOnlyAccess}
	writeEvents  = account.Scope{Area: account.AreaEvents, Access: account.ReadWriteAccess}
	readAccount  = account.Scope{Area: account.AreaAccount, Access: account.ReadOnlyAccess}
	writeAccount = account.Scope{Area: account.AreaAccount, Access: account.ReadWriteAccess}
)

type entityView struct {
	ID    int64  `json:"id" doc:"0 where no number names it, as an oauth_client; url names it."`
	Label string `json:"label"`
	Type  string `json:"type"`
	URL   string `json:"url"`
}

// eventView is an event as existing clients read it.
type eventView struct {
	ID              int64       `json:"id"`
	Action          string      `json:"action"`
	Status          string      `json:"status" enum:"scheduled,started,finished,failed,notification"`
	Created         string      `json:"created" format:"date-time"`
	Username        *string     `json:"username"`
	Entity          entityView  `json:"entity"`
	SecondaryEntity *entityView `json:"secondary_entity"`
	PercentComplete int         `json:"percent_complete"`
	Duration        *float64    `json:"duration" doc:"Seconds."`
	TimeRemaining   *int        `json:"time_remaining"`
	Rate            *string     `json:"rate"`
	Message         *string     `json:"message"`
	Seen            bool        `json:"seen"`
	Read            bool        `json:"read"`
}

// TransformSchema documents that most events have one entity only.
func (*eventView) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	orNullObject(s, "secondary_entity")
	return s
}

func (a *API) showEvent(o operation.Operation) eventView {
	v := eventView{
		ID: int64(o.ID), Action: string(o.Action), Status: string(o.Status), Created: showTime(o.Created),
		Entity:          showEntity(o),
		PercentComplete: o.Percent, Seen: o.Seen, Read: o.Read,
	}
	if o.Params.Backup != 0 {
		v.SecondaryEntity = new(showBackupOf(o))
	}
	if o.Username != "" {
		v.Username = &o.Username
	}
	if o.Message != "" {
		v.Message = &o.Message
	}
	if o.Started != nil {
		v.Duration = new(seconds(o.Duration(a.Now())))
	}
	return v
}

// keyPaths are where those can be seen that a path names otherwise than by a number.
var keyPaths = map[operation.EntityType]string{operation.Person: "/v4/account/users/", operation.Client: "/v4/account/oauth-clients/"}

// entityPaths are where what events are of can be seen.
var entityPaths = map[operation.EntityType]string{
	operation.Service: "/v4/managed/services/", operation.Contact: "/v4/managed/contacts/", operation.Credential: "/v4/managed/credentials/",
	operation.Machine: "/v4/managed/compute-settings/", operation.Ticket: "/v4/support/tickets/",
	operation.StatusPage: statusPagesPath + "/",
	operation.Token:      "/v4/profile/tokens/",
	operation.Alert:      alertsPath + "/", operation.Channel: channelsPath + "/",
}

func showEntity(o operation.Operation) entityView {
	if o.Entity.Type == operation.Account {
		return entityView{o.Entity.ID, o.Label, string(operation.Account), "/v4/account"}
	}
	if path, ok := keyPaths[o.Entity.Type]; ok {
		return entityView{o.Entity.ID, o.Label, string(o.Entity.Type), path + o.Entity.Key}
	}
	if path, ok := entityPaths[o.Entity.Type]; ok {
		return entityView{o.Entity.ID, o.Label, string(o.Entity.Type), path + strconv.FormatInt(o.Entity.ID, 10)}
	}
	return entityView{int64(o.Cluster), o.Label, string(operation.Database), instanceURI(o.Engine, o.Cluster)}
}

// showBackupOf is the backup that an event takes, deletes, restores or tries out.
func showBackupOf(o operation.Operation) entityView {
	id := int64(o.Params.Backup)
	return entityView{id, o.Params.BackupLabel, "database_backup", fmt.Sprintf("%s/backups/%d", instanceURI(o.Engine, o.Cluster), id)}
}

type eventPath struct {
	ID int64 `path:"eventId" minimum:"1"`
}

func (a *API) registerEvents() {
	events := a.Control.Events
	const all, one = "/v4/account/events", "/v4/account/events/{eventId}"
	registerList(a, endpoint{method: http.MethodGet, path: all, id: "listEvents", summary: "List events, newest first", tag: "Events", scope: readEvents},
		store.EventFields, events.List, a.showEvent)
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewEvent", summary: "View an event", tag: "Events", scope: readEvents},
		func(ctx context.Context, c call[eventPath, none]) (eventView, error) {
			found, err := events.View(ctx, c.Principal, operation.ID(c.In.ID))
			return a.showEvent(found), err
		})
	mark := func(verb, summary string, do func(context.Context, account.Principal, operation.ID) error) {
		register(a, endpoint{method: http.MethodPost, path: one + "/" + verb, id: verb + "Event", summary: summary, tag: "Events", scope: writeEvents},
			func(ctx context.Context, c call[eventPath, none]) (empty, error) {
				return empty{}, do(ctx, c.Principal, operation.ID(c.In.ID))
			})
	}
	mark("seen", "Mark an event and all older ones as seen", events.Seen)
	mark("read", "Mark an event as read", events.Read)
}
