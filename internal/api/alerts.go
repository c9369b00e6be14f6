package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"steward/internal/alert"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/measure"
	"steward/internal/store"
)

const (
	alertsPath   = "/v4/monitor/services/" + dbaas + "/alert-definitions"
	channelsPath = "/v4/monitor/alert-channels"
	alertTag     = "Alerts"
)

// alertView is a rule, as the cloud's API shows it.
type alertView struct {
	ID          int64              `json:"id"`
	Label       string             `json:"label"`
	Description string             `json:"description"`
	Severity    int                `json:"severity" minimum:"0" maximum:"3" doc:"0 is severe, 1 medium, 2 low, 3 info."`
	Type        string             `json:"type" enum:"system,user"`
	ServiceType string             `json:"service_type" enum:"dbaas"`
	Status      string             `json:"status" enum:"enabled,disabled"`
	Criteria    criteriaView       `json:"rule_criteria"`
	Trigger     triggerView        `json:"trigger_conditions"`
	Channels    []alertChannelLink `json:"alert_channels" nullable:"false"`
	Scope       string             `json:"scope" enum:"entity,account,region"`
	Regions     []string           `json:"regions" nullable:"false"`
	EntityIDs   []string           `json:"entity_ids" nullable:"false" doc:"The databases that it is for, where scope is entity."`
	Entities    alertEntitiesView  `json:"entities"`
	Class       string             `json:"class" doc:"Empty: databases have no classes of alerts."`
	Created     *string            `json:"created" format:"date-time" doc:"null of a system alert."`
	Updated     *string            `json:"updated" format:"date-time" doc:"null of a system alert that wasn't changed."`
	CreatedBy   string             `json:"created_by"`
	UpdatedBy   string             `json:"updated_by"`
}

type criteriaView struct {
	Rules []ruleView `json:"rules" nullable:"false"`
}

type ruleView struct {
	Aggregate string                `json:"aggregate_function"`
	Filters   []dimensionFilterView `json:"dimension_filters" nullable:"false"`
	Label     string                `json:"label"`
	Metric    string                `json:"metric"`
	Operator  string                `json:"operator"`
	Threshold float64               `json:"threshold"`
	Clear     float64               `json:"clear_threshold" doc:"What the value has to get past for the alert to end."`
	Unit      string                `json:"unit"`
}

type dimensionFilterView struct {
	Dimension string `json:"dimension_label"`
	Label     string `json:"label"`
	Operator  string `json:"operator"`
	Value     string `json:"value"`
}

type triggerView struct {
	Condition   string `json:"criteria_condition" enum:"ALL"`
	Period      int    `json:"evaluation_period_seconds"`
	Polling     int    `json:"polling_interval_seconds"`
	Occurrences int    `json:"trigger_occurrences"`
}

type alertChannelLink struct {
	ID    int64  `json:"id"`
	Label string `json:"label"`
	Type  string `json:"type"`
	URL   string `json:"url"`
}

type alertEntitiesView struct {
	URL   string `json:"url"`
	Count int    `json:"count"`
	More  bool   `json:"has_more_resources"`
}

// computedMetrics are what of the defaults' metrics isn't measured.
var computedMetrics = map[string]string{alert.BackupAge: "Age of the newest proven backup", alert.DiskFullIn: "Time until the disk is full"}

var dimensionLabels = map[string]string{alert.ByRole: "Node Type", alert.ByNode: "Node", alert.ByEntity: "Entity"}

func showAlert(d control.DefinedAlert) alertView {
	r := d.Rule
	v := alertView{
		ID: int64(r.ID), Label: r.Label, Description: r.Description, Severity: int(r.Severity), Type: "user", ServiceType: dbaas, Status: "disabled",
		Criteria: criteriaView{Rules: []ruleView{}}, Scope: string(r.Scope), Regions: append([]string{}, r.Regions...), EntityIDs: []string{},
		Trigger:  triggerView{"ALL", int(r.Trigger.Period.Seconds()), int(r.Trigger.Polling.Seconds()), r.Trigger.Occurrences},
		Channels: []alertChannelLink{}, Entities: alertEntitiesView{URL: fmt.Sprintf("%s/%d/entities", alertsPath, r.ID), Count: len(d.Entities)},
		CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy,
	}
	if r.ID.System() {
		v.Type, v.CreatedBy = "system", "system"
	}
	if v.UpdatedBy == "" {
		v.UpdatedBy = v.CreatedBy
	}
	if r.Enabled {
		v.Status = "enabled"
	}
	if !r.Created.IsZero() && !r.ID.System() {
		v.Created = new(showTime(r.Created))
	}
	if !r.Updated.IsZero() {
		v.Updated = new(showTime(r.Updated))
	}
	for _, c := range r.Criteria {
		v.Criteria.Rules = append(v.Criteria.Rules, showCriterion(c))
	}
	if r.Scope == alert.OfEntities {
		for _, e := range d.Entities {
			v.EntityIDs = append(v.EntityIDs, strconv.FormatInt(int64(e.ID), 10))
		}
	}
	for _, c := range d.Channels {
		v.Channels = append(v.Channels, alertChannelLink{int64(c.ID), c.Label, "channel", fmt.Sprintf("%s/%d", channelsPath, c.ID)})
	}
	return v
}

func showCriterion(c alert.Criterion) ruleView {
	v := ruleView{
		Aggregate: string(c.Aggregate), Metric: c.Metric, Operator: string(c.Operator), Threshold: c.Threshold, Clear: c.Clear,
		Filters: []dimensionFilterView{}, Label: computedMetrics[c.Metric], Unit: string(measure.Seconds),
	}
	if d, ok := measure.Find(c.Metric); ok {
		v.Label, v.Unit = d.Label, string(d.Unit)
	}
	for _, f := range c.Filters {
		v.Filters = append(v.Filters, dimensionFilterView{f.Dimension, dimensionLabels[f.Dimension], f.Operator, f.Value})
	}
	return v
}

// alertCreate is what a rule is made of. Bounds that aren't here are with the rules (alert.Rule.Validate).
type alertCreate struct {
	Label       string        `json:"label" minLength:"1" maxLength:"100"`
	Description *string       `json:"description,omitempty" maxLength:"500" doc:"For people: what to do. It is told with the alert."`
	Severity    int           `json:"severity" minimum:"0" maximum:"3" doc:"0 is severe, 1 medium, 2 low, 3 info."`
	Criteria    alertCriteria `json:"rule_criteria"`
	Trigger     alertTrigger  `json:"trigger_conditions"`
	ChannelIDs  []int64       `json:"channel_ids" nullable:"true" maxItems:"100" doc:"Who is told beside the operator; 1 are the account's contacts."`
	EntityIDs   []string      `json:"entity_ids,omitempty" nullable:"true" maxItems:"100" doc:"The databases that it is for, where scope is entity."`
	Scope       string        `json:"scope,omitempty" enum:"entity,account,region" doc:"entity when left out."`
	Regions     []string      `json:"regions,omitempty" nullable:"true" maxItems:"100" doc:"Of which regions' databases it is, where scope is region."`
}

// alertUpdate is what is to change of a rule.
type alertUpdate struct {
	Label       *string        `json:"label,omitempty" minLength:"1" maxLength:"100"`
	Description *string        `json:"description,omitempty" maxLength:"500"`
	Severity    *int           `json:"severity,omitempty" minimum:"0" maximum:"3"`
	Status      *string        `json:"status,omitempty" enum:"enabled,disabled"`
	Criteria    *alertCriteria `json:"rule_criteria,omitempty"`
	Trigger     *alertTrigger  `json:"trigger_conditions,omitempty"`
	ChannelIDs  []int64        `json:"channel_ids,omitempty" nullable:"true" maxItems:"100" doc:"null leaves them."`
	EntityIDs   []string       `json:"entity_ids,omitempty" nullable:"true" maxItems:"100" doc:"null leaves them."`
	Scope       *string        `json:"scope,omitempty" enum:"entity,account,region"`
	Regions     []string       `json:"regions,omitempty" nullable:"true" maxItems:"100" doc:"null leaves them."`
}

type alertCriteria struct {
	Rules []alertRule `json:"rules" nullable:"false" maxItems:"5"`
}

type alertRule struct {
	Metric    string            `json:"metric" minLength:"1" maxLength:"64"`
	Aggregate string            `json:"aggregate_function" enum:"avg,max,min,sum" doc:"Over the evaluation period, of each node; the worst node counts."`
	Operator  string            `json:"operator" enum:"gt,gte,lt,lte,eq"`
	Threshold float64           `json:"threshold"`
	Filters   []dimensionFilter `json:"dimension_filters,omitempty" nullable:"true" maxItems:"5" doc:"Which nodes count; all when left out."`
}

type dimensionFilter struct {
	Dimension string `json:"dimension_label" enum:"node_type,node_id,entity_id"`
	Operator  string `json:"operator" enum:"eq,neq,startswith,endswith,in"`
	Value     string `json:"value" minLength:"1" maxLength:"100"`
}

type alertTrigger struct {
	Condition   string `json:"criteria_condition" enum:"ALL" doc:"All rules must hold."`
	Period      int    `json:"evaluation_period_seconds" doc:"Of how long the values are that are looked at together: 30, 60, 300, 600, 900, 1800 or 3600."`
	Polling     int    `json:"polling_interval_seconds" doc:"How far looks are apart: 30, 60, 300, 600, 900, 1800 or 3600."`
	Occurrences int    `json:"trigger_occurrences" doc:"How many looks in a row must find it bad, and well for the end (two at least): 1-30."`
}

func (c alertCriteria) criteria() *[]alert.Criterion {
	all := []alert.Criterion{}
	for _, r := range c.Rules {
		one := alert.Criterion{Metric: r.Metric, Aggregate: alert.Aggregate(r.Aggregate), Operator: alert.Operator(r.Operator), Threshold: r.Threshold}
		for _, f := range r.Filters {
			one.Filters = append(one.Filters, alert.Filter(f))
		}
		all = append(all, one)
	}
	return &all
}

func (t alertTrigger) trigger() *alert.Trigger {
	seconds := func(n int) time.Duration { return time.Duration(min(max(n, -1), 1<<20)) * time.Second }
	return &alert.Trigger{Period: seconds(t.Period), Polling: seconds(t.Polling), Occurrences: t.Occurrences}
}

// change is what control is asked; faults get ids that are none.
func (b alertUpdate) change(faults *fault.Faults) control.AlertChange {
	in := control.AlertChange{Label: b.Label, Description: b.Description}
	if b.Severity != nil {
		in.Severity = new(alert.Severity(*b.Severity))
	}
	if b.Status != nil {
		in.Enabled = new(*b.Status == "enabled")
	}
	if b.Criteria != nil {
		in.Criteria = b.Criteria.criteria()
	}
	if b.Trigger != nil {
		in.Trigger = b.Trigger.trigger()
	}
	if b.Scope != nil {
		in.Scope = new(alert.Scope(*b.Scope))
	}
	if b.Regions != nil {
		in.Regions = &b.Regions
	}
	if b.ChannelIDs != nil {
		ids := []alert.ChannelID{}
		for _, id := range b.ChannelIDs {
			ids = append(ids, alert.ChannelID(id))
		}
		in.Channels = &ids
	}
	if b.EntityIDs != nil {
		ids := []cluster.ID{}
		for _, text := range b.EntityIDs {
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil || id < 1 {
				faults.Add("entity_ids", "%s is no id of a database", fault.Quote([]string{text}))
				continue
			}
			ids = append(ids, cluster.ID(id))
		}
		in.Entities = &ids
	}
	return in
}

type alertPath struct {
	Type string `path:"serviceType" doc:"dbaas is the only one."`
	ID   int64  `path:"alertId" minimum:"1"`
}

func (in alertPath) check() error { return serviceTypePath{in.Type}.check() }

type alertEntitiesInput struct {
	Type string `path:"serviceType" doc:"dbaas is the only one."`
	ID   int64  `path:"alertId" minimum:"1"`
	Listing
}

var alertEntityFields = filter.Fields{"id": filter.Number, "label": filter.Text}

var alertFields = filter.Fields{
	"id": filter.Number, "label": filter.Text, "severity": filter.Number, "type": filter.Text, "status": filter.Text, "scope": filter.Text,
	"service_type": filter.Text, "created_by": filter.Text, "updated_by": filter.Text,
}

func alertMember(d control.DefinedAlert, field string) any {
	v := showAlert(d)
	return map[string]any{
		"id": v.ID, "label": v.Label, "severity": int64(v.Severity), "type": v.Type, "status": v.Status, "scope": v.Scope, "service_type": v.ServiceType,
		"created_by": v.CreatedBy, "updated_by": v.UpdatedBy,
	}[field]
}

// alertEntityView is a database that a rule is for.
type alertEntityView struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	URL   string `json:"url"`
	Type  string `json:"type" enum:"dbaas"`
}

func showAlertEntity(e store.AlertEntity) alertEntityView {
	return alertEntityView{strconv.FormatInt(int64(e.ID), 10), e.Label, instanceURI(e.Engine, e.ID), dbaas}
}

func alertEntityMember(e store.AlertEntity, field string) any {
	if field == "label" {
		return e.Label
	}
	return int64(e.ID)
}

func (a *API) registerAlerts() {
	alerts := a.Control.Alerts
	const every, of, one = "/v4/monitor/alert-definitions", "/v4/monitor/services/{serviceType}/alert-definitions", "/v4/monitor/services/{serviceType}/alert-definitions/{alertId}"
	read := func(path, id, summary string) endpoint {
		return endpoint{method: http.MethodGet, path: path, id: id, summary: summary, tag: alertTag, scope: readDatabases}
	}
	write := func(method, path, id, summary string) endpoint {
		return endpoint{method: method, path: path, id: id, summary: summary, tag: alertTag, scope: writeDatabases}
	}
	page := func(ctx context.Context, c call[Listing, none]) (list[alertView], error) {
		all, err := alerts.List(ctx, c.Principal)
		if err != nil {
			return list[alertView]{}, err
		}
		return listInMemory(inMemory[control.DefinedAlert]{all, alertFields, alertMember}, c.In, showAlert)
	}
	register(a, read(every, "listAllAlertDefinitions", "List all alert definitions"), page)
	register(a, read(of, "listAlertDefinitions", "List the alert definitions of a type of service"),
		func(ctx context.Context, c call[definitionsInput, none]) (list[alertView], error) {
			if err := (serviceTypePath{c.In.Type}).check(); err != nil {
				return list[alertView]{}, err
			}
			return page(ctx, call[Listing, none]{Principal: c.Principal, In: c.In.Listing})
		})
	register(a, write(http.MethodPost, of, "createAlertDefinition", "Create an alert definition"),
		func(ctx context.Context, c call[serviceTypePath, alertCreate]) (alertView, error) {
			if err := c.In.check(); err != nil {
				return alertView{}, err
			}
			b := alertUpdate{
				Label: &c.Body.Label, Description: c.Body.Description, Severity: &c.Body.Severity, Criteria: &c.Body.Criteria, Trigger: &c.Body.Trigger,
				ChannelIDs: c.Body.ChannelIDs, EntityIDs: c.Body.EntityIDs, Regions: c.Body.Regions,
			}
			if c.Body.Scope != "" {
				b.Scope = &c.Body.Scope
			}
			made, err := alerts.Create(ctx, c.Principal, b.change(&c.Faults), c.Faults)
			return showAlert(made), err
		})
	register(a, read(one, "viewAlertDefinition", "View an alert definition"),
		func(ctx context.Context, c call[alertPath, none]) (alertView, error) {
			if err := c.In.check(); err != nil {
				return alertView{}, err
			}
			found, err := alerts.View(ctx, c.Principal, alert.ID(c.In.ID))
			return showAlert(found), err
		})
	register(a, write(http.MethodPut, one, "updateAlertDefinition", "Update an alert definition; what is left out stays"),
		func(ctx context.Context, c call[alertPath, alertUpdate]) (alertView, error) {
			if err := c.In.check(); err != nil {
				return alertView{}, err
			}
			in := c.Body.change(&c.Faults)
			changed, err := alerts.Update(ctx, c.Principal, alert.ID(c.In.ID), in, c.Faults)
			return showAlert(changed), err
		})
	register(a, write(http.MethodDelete, one, "deleteAlertDefinition", "Delete an alert definition of the account's own"),
		func(ctx context.Context, c call[alertPath, none]) (empty, error) {
			if err := c.In.check(); err != nil {
				return empty{}, err
			}
			return empty{}, alerts.Delete(ctx, c.Principal, alert.ID(c.In.ID))
		})
	register(a, read(one+"/entities", "listAlertDefinitionEntities", "List the databases that an alert definition is for"),
		func(ctx context.Context, c call[alertEntitiesInput, none]) (list[alertEntityView], error) {
			if err := (serviceTypePath{c.In.Type}).check(); err != nil {
				return list[alertEntityView]{}, err
			}
			if _, err := c.In.query(alertEntityFields); err != nil { // before it is looked for
				return list[alertEntityView]{}, err
			}
			found, err := alerts.View(ctx, c.Principal, alert.ID(c.In.ID))
			if err != nil {
				return list[alertEntityView]{}, err
			}
			return listInMemory(inMemory[store.AlertEntity]{found.Entities, alertEntityFields, alertEntityMember}, c.In.Listing, showAlertEntity)
		})
}
