package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/operation"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

// behind puts servers behind a database, as if it had been provisioned.
func (b *bench) behind(id int64, change func(*memplatform.Cluster)) {
	b.t.Helper()
	c := memplatform.Cluster{
		ID: cluster.ID(id), Port: 21000, Size: 1, Version: "15.2", Running: true, Bootstrapped: true, Routed: true,
		Started: time.Date(2026, 1, 31, 18, 4, 5, 0, time.UTC),
	}
	change(&c)
	b.world.Put(c)
	b.is(id, cluster.Active)
}

// happened records an event of a database's.
func (b *bench) happened(id int64, action operation.Action, params operation.Params, message string) {
	b.t.Helper()
	err := b.store.InTx(b.t.Context(), func(tx *store.Tx) error {
		_, err := tx.CreateOperation(b.t.Context(), operation.Operation{
			Account: b.account, Cluster: cluster.ID(id), Engine: cluster.PostgreSQL, Action: action, Status: operation.Notification, Message: message, Params: params,
		})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// grant gives the restricted user a grant on a database, or takes it away.
func (b *bench) grant(id int64, permission string) {
	b.t.Helper()
	body := fmt.Sprintf(`{"database":[{"id":%d,"permissions":"%s"}]}`, id, permission)
	if permission == "" {
		body = fmt.Sprintf(`{"database":[{"id":%d,"permissions":null}]}`, id)
	}
	if r := b.send("PUT", "/v4/account/users/limited/grants", b.full, body); r.StatusCode != 200 {
		b.t.Fatalf("grant: %d %s", r.StatusCode, r.body)
	}
}

type nodes struct {
	Sleeping bool
	Data     []struct {
		Node         int
		Role, Health string
		Since        *string
		LagSeconds   *float64 `json:"lag_seconds"`
		LagBytes     *int64   `json:"lag_bytes"`
	}
}

func (n nodes) String() string {
	var all []string
	for _, one := range n.Data {
		text := fmt.Sprint(one.Node, " ", one.Role, " ", one.Health)
		if one.LagSeconds != nil && one.LagBytes != nil {
			text += fmt.Sprint(" lags ", *one.LagSeconds, " s ", *one.LagBytes, " bytes")
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestNodes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d/nodes", id)
	look := func(want string) (n nodes) {
		t.Helper()
		b.decode(b.send("GET", one, b.readOnly, ""), &n)
		if n.String() != want {
			t.Errorf("nodes: %s\nwant:  %s", n, want)
		}
		return n
	}
	look("") // it isn't provisioned
	b.behind(id, func(c *memplatform.Cluster) { c.Size = 3 })
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET size = 3, created = '2026-01-01T00:00:00Z' WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	n := look("0 primary healthy, 1 replica healthy lags 0 s 0 bytes, 2 replica healthy lags 0 s 0 bytes")
	for _, node := range n.Data {
		if node.Since == nil || *node.Since != "2026-01-01T00:00:00" {
			t.Errorf("since the database was made: %+v", node)
		}
	}
	b.driver.LosePrimary(cluster.ID(id))
	b.happened(id, operation.Failover, operation.Params{Primary: &cluster.PrimaryChange{From: 0, To: 1, Took: 1500 * time.Millisecond}}, "Node 1 took over.")
	n = look("0 replica down, 1 primary healthy, 2 replica healthy lags 0 s 0 bytes")
	if n.Data[0].Since == nil || *n.Data[0].Since == *n.Data[2].Since || *n.Data[0].Since != *n.Data[1].Since {
		t.Errorf("since the failover: %+v", n.Data)
	}
	b.happened(id, operation.Failover, operation.Params{Primary: &cluster.PrimaryChange{From: 1, To: 2, Planned: true}}, "Node 1 handed over.")
	b.happened(id, operation.Failover, operation.Params{}, "An older steward's.")
	var history struct {
		Results int
		Data    []struct {
			Kind     string
			From, To *int
			Seconds  *float64
			Message  string
		}
	}
	b.decode(b.send("GET", one+"/history?page_size=25", b.readOnly, ""), &history)
	var got []string
	for _, h := range history.Data {
		text := h.Kind
		if h.From != nil {
			text += fmt.Sprint(" ", *h.From, " ", *h.To)
		}
		if h.Seconds != nil {
			text += fmt.Sprint(" ", *h.Seconds)
		}
		got = append(got, text)
	}
	if strings.Join(got, ", ") != "failover, handover 1 2, failover 0 1 1.5" || history.Results != 3 {
		t.Errorf("%d: %v", history.Results, got)
	}
	// Nothing wakes a database that sleeps.
	b.behind(id, func(c *memplatform.Cluster) { c.Running, c.SleepingSince = false, time.Now() })
	if n = look("0 primary asleep"); !n.Sleeping {
		t.Errorf("%+v", n)
	}
	b.behind(id, func(c *memplatform.Cluster) { c.Running, c.Suspended = false, true })
	look("0 primary suspended")
	// A platform that doesn't answer holds nothing up for long.
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepObserve, Delay: time.Hour})
	began := time.Now()
	if r := b.send("GET", one, b.readOnly, ""); r.StatusCode != 400 || !strings.Contains(r.body, "doesn't answer") || time.Since(began) > time.Minute {
		t.Errorf("%d %s after %s", r.StatusCode, r.body, time.Since(began))
	}
}
