package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/monitor"
	"steward/internal/store/dbsqlc"
)

// ServiceFields are what services can be filtered and ordered by.
var ServiceFields = filter.Fields{
	"id": filter.Number, "label": filter.Text, "status": filter.Text, "service_type": filter.Text,
	"created": filter.Time, "updated": filter.Time, "consultation_group": filter.Text, "region": filter.Text,
}

var serviceColumns = columns{
	"id": "id", "label": "label", "status": "status", "service_type": "service_type",
	"created": shown("created"), "updated": shown("updated"), "consultation_group": "consultation_group", "region": "region",
}

const selectService = `SELECT id, account_id, label, service_type, address, timeout, body, consultation_group, notes, region, check_interval,
	status, since, reason, certificate_ends, generation, created, updated,
	ARRAY(SELECT c.credential_id FROM service_credentials c WHERE c.service_id = services.id ORDER BY c.position)`

func scanService(row pgx.Row, more ...any) (monitor.Service, error) {
	var s monitor.Service
	err := row.Scan(append([]any{
		&s.ID, &s.Account, &s.Label, &s.Type, &s.Address, &s.Timeout, &s.Body, &s.Group, &s.Notes, &s.Region, &s.Interval,
		&s.Status, &s.Since, &s.Reason, &s.CertificateEnds, &s.Generation, &s.Created, &s.Updated, &s.Credentials,
	}, more...)...)
	return s, err
}

// CreateService adds a service; its credentials are the account's own.
func (t *Tx) CreateService(ctx context.Context, s monitor.Service) (monitor.Service, error) {
	s.Created = t.now()
	s.Updated, s.Since, s.Generation = s.Created, s.Created, 1
	id, err := t.q.ServiceCreate(ctx, dbsqlc.ServiceCreateParams{
		AccountID: int64(s.Account), Label: s.Label, ServiceType: string(s.Type), Address: s.Address, Host: s.Host(), Timeout: int32(s.Timeout), Body: s.Body,
		ConsultationGroup: s.Group, Notes: s.Notes, Region: s.Region, CheckInterval: int32(s.Interval), Status: string(s.Status), Now: s.Created,
	})
	if err != nil {
		return s, classify(err)
	}
	s.ID = monitor.ServiceID(id)
	if err := t.setCredentials(ctx, s); err != nil {
		return s, err
	}
	return s, t.q.ShardTouch(ctx, int32(s.ID.Shard()))
}

// UpdateService writes s over the row that ServiceForUpdate read.
func (t *Tx) UpdateService(ctx context.Context, s monitor.Service) (monitor.Service, error) {
	s.Updated = t.now()
	n, err := t.q.ServiceUpdate(ctx, dbsqlc.ServiceUpdateParams{
		ID: int64(s.ID), Generation: s.Generation, Label: s.Label, ServiceType: string(s.Type), Address: s.Address, Host: s.Host(), Timeout: int32(s.Timeout),
		Body: s.Body, ConsultationGroup: s.Group, Notes: s.Notes, Region: s.Region, CheckInterval: int32(s.Interval),
		Status: string(s.Status), Since: s.Since, Reason: s.Reason, Updated: s.Updated,
	})
	if err := changedOne(n, err); err != nil {
		return s, err
	}
	s.Generation++
	return s, t.setCredentials(ctx, s)
}

// setCredentials replaces those of the service.
func (t *Tx) setCredentials(ctx context.Context, s monitor.Service) error {
	if err := t.q.ServiceCredentialsClear(ctx, int64(s.ID)); err != nil {
		return err
	}
	ids := numbers(s.Credentials)
	n, err := t.q.ServiceCredentialsSet(ctx, dbsqlc.ServiceCredentialsSetParams{ServiceID: int64(s.ID), Ids: ids, AccountID: int64(s.Account)})
	if err != nil {
		return classify(err)
	}
	if int(n) != len(ids) {
		return fault.NotValid("credentials")
	}
	return nil
}

// HasCredentials reports whether all of the credentials are the account's.
func (q queries) HasCredentials(ctx context.Context, of account.ID, ids []monitor.CredentialID) (bool, error) {
	n, err := q.q.CredentialsThere(ctx, int64(of), numbers(ids))
	return int(n) == len(ids), classify(err)
}

// ChecksOfAccount is how often a minute the account's services are checked, but
// for one of them. usual is the time between checks of those that have none of
// their own.
func (q queries) ChecksOfAccount(ctx context.Context, of account.ID, but monitor.ServiceID, usual time.Duration) (float64, error) {
	n, err := q.q.ChecksOfAccount(ctx, dbsqlc.ChecksOfAccountParams{AccountID: int64(of), OthersThan: int64(but), Usual: usual.Seconds()})
	return n, classify(err)
}

// ChecksOfHost is the same of the services of all accounts at a host.
func (q queries) ChecksOfHost(ctx context.Context, host string, but monitor.ServiceID, usual time.Duration) (float64, error) {
	n, err := q.q.ChecksOfHost(ctx, dbsqlc.ChecksOfHostParams{Host: host, OthersThan: int64(but), Usual: usual.Seconds()})
	return n, classify(err)
}

// AskCheck asks for a check of a service that ServiceForUpdate read, at once; false when one was asked for since a
// moment before.
func (t *Tx) AskCheck(ctx context.Context, id monitor.ServiceID, before time.Time) (bool, error) {
	n, err := t.q.ServiceAskCheck(ctx, dbsqlc.ServiceAskCheckParams{Now: t.now(), ID: int64(id), Before: before})
	return n > 0, classify(err)
}

// DeleteService removes a service that ServiceForUpdate read; its issues stay.
func (t *Tx) DeleteService(ctx context.Context, id monitor.ServiceID) error {
	if err := t.q.CheckDaysForgetService(ctx, int64(id)); err != nil {
		return classify(err)
	}
	n, err := t.q.ServiceDelete(ctx, int64(id))
	return oneRow(n, err)
}

// Service is one service of the account.
func (q queries) Service(ctx context.Context, of account.ID, id monitor.ServiceID) (monitor.Service, error) {
	s, err := scanService(q.db.QueryRow(ctx, selectService+" FROM services WHERE account_id = $1 AND id = $2", int64(of), int64(id)))
	return s, classify(err)
}

// ServiceForUpdate is one service of the account, which nobody else changes
// until the transaction ends. Its shard is locked first, as by those who check
// it: two who take both in another order would wait for each other.
func (t *Tx) ServiceForUpdate(ctx context.Context, of account.ID, id monitor.ServiceID) (monitor.Service, error) {
	if err := t.q.ShardTouch(ctx, int32(id.Shard())); err != nil {
		return monitor.Service{}, classify(err)
	}
	s, err := scanService(t.db.QueryRow(ctx, selectService+" FROM services WHERE account_id = $1 AND id = $2 FOR UPDATE", int64(of), int64(id)))
	return s, classify(err)
}

// Services is one page of the account's services, and how many match.
func (q queries) Services(ctx context.Context, of account.ID, list ListQuery) ([]monitor.Service, int, error) {
	l := listing[monitor.Service]{sqlBuilder: sqlBuilder{columns: serviceColumns}, what: selectService, own: "id", scan: scanService}
	l.from = "services WHERE account_id = " + l.arg(int64(of))
	return l.page(ctx, q.db, list)
}

// ServiceJudged records what checks found of a service of this generation; false
// when it was changed meanwhile, or has that status already.
func (t *Tx) ServiceJudged(ctx context.Context, id monitor.ServiceID, generation int64, status monitor.Status, since time.Time, reason string) (bool, error) {
	n, err := t.q.ServiceJudged(ctx, dbsqlc.ServiceJudgedParams{
		ID: int64(id), Generation: generation, Status: string(status), Since: since, Reason: reason,
	})
	return n == 1, classify(err)
}

// CertificatesShown records when the certificates end that services showed.
func (q queries) CertificatesShown(ctx context.Context, ends map[monitor.ServiceID]time.Time) error {
	ids := slices.Collect(maps.Keys(ends))
	times := make([]time.Time, len(ids))
	for i, id := range ids {
		times[i] = ends[id]
	}
	return classify(q.q.ServicesShownCertificates(ctx, numbers(ids), times))
}

// Watched is a service as its checks need it.
type Watched struct {
	monitor.Service
	// Downs are when it went down since the moment asked for, oldest first.
	Downs []time.Time
	// Asked is when somebody last asked for a check at once; nil for never.
	Asked *time.Time
}

// WatchedOf are all services of the shards that are not disabled.
func (q queries) WatchedOf(ctx context.Context, shards []int, lately time.Time) ([]Watched, error) {
	rows, err := q.q.ServicesOfShards(ctx, lately, int32s(shards))
	if err != nil {
		return nil, classify(err)
	}
	found := make([]Watched, len(rows))
	for i, r := range rows {
		found[i] = Watched{Downs: r.Downs, Asked: r.CheckAsked, Service: monitor.Service{
			ID: monitor.ServiceID(r.ID), Account: account.ID(r.AccountID), Label: r.Label, Type: monitor.ServiceType(r.ServiceType),
			Address: r.Address, Timeout: int(r.Timeout), Body: r.Body, Region: r.Region, Interval: int(r.CheckInterval),
			Status: monitor.Status(r.Status), Generation: r.Generation, CertificateEnds: r.CertificateEnds,
		}}
	}
	return found, nil
}

func int32s(list []int) []int32 {
	converted := make([]int32, len(list))
	for i, n := range list {
		converted[i] = int32(n)
	}
	return converted
}
