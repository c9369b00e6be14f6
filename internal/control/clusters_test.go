package control_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	spec := b.spec()
	spec.AllowList = cluster.AllowList{"10.0.0.1", "10.0.0.0/8", "10.0.0.1"}
	c, err := b.Clusters.Create(t.Context(), p, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Status != cluster.Provisioning || c.Port != 21000 || c.Account != p.Account || c.Hosts != (cluster.Hosts{}) {
		t.Errorf("%+v", c)
	}
	if c.Replication != cluster.ReplicationNone || c.Commit != cluster.CommitLocal || c.Updates != cluster.DefaultWindow(c.ID) {
		t.Errorf("defaults: %+v", c.Spec)
	}
	if !slices.Equal(c.AllowList, []string{"10.0.0.1", "10.0.0.0/8"}) {
		t.Errorf("allow_list %v", c.AllowList)
	}
	if read := b.view(p, c.ID); read.Status != c.Status || read.Updates != c.Updates || read.Label != c.Label {
		t.Errorf("read %+v, answered %+v", read, c)
	}
	o, err := b.store.OperationForWork(t.Context(), b.woken[0])
	if err != nil || len(b.woken) != 1 || o.Action != operation.Create || o.Cluster != c.ID || o.Status != operation.Scheduled || o.Username != "one" || o.Label != c.Label {
		t.Errorf("woken %v: %+v, %v", b.woken, o, err)
	}
	for _, name := range []platform.SecretName{platform.RootPassword, platform.AdminPassword, platform.CACert, platform.CAKey} {
		if secret, err := b.store.Secret(t.Context(), c.ID, name); err != nil || len(secret) == 0 {
			t.Errorf("secret %s: %v", name, err)
		}
	}
	if _, err := b.store.Secret(t.Context(), c.ID, platform.AtRestKey); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("a key for what isn't encrypted: %v", err)
	}
}

func TestCreateEncrypted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	spec := b.spec()
	spec.Engine, spec.Series, spec.Encrypted = cluster.MySQL, "10.11", true
	c, err := b.Clusters.Create(t.Context(), b.tenant("one"), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := b.store.Secret(t.Context(), c.ID, platform.AtRestKey); err != nil || len(key) != 32 {
		t.Errorf("key of %d bytes, %v", len(key), err)
	}
}

// TestCreateAnswersAllFaultsTogether: those of the door, those found here, and
// the label that is taken; and nothing is done.
func TestCreateAnswersAllFaultsTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	taken := b.create(p)
	b.woken = nil
	_, err := b.Clusters.Create(t.Context(), p, cluster.Spec{
		Label: taken.Label, Engine: cluster.PostgreSQL, Series: "9", Region: "moon", Type: "old", Size: 2,
		AllowList: cluster.AllowList{"1.2.3", "::x"}, Encrypted: true,
	}, fault.Faults{fault.Required("region"), fault.NewInvalid("ssl_connection", "Must be true or false")})
	want := []string{
		"region: region is required", "ssl_connection: Must be true or false",
		"allow_list: Invalid IPv4 address(es) or range(s): 1.2.3", "allow_list: Invalid IPv6 address(es) or range(s): ::x",
		"engine: engine is not valid; offered: postgresql/15", "cluster_size: Must be one of 1, 3", "type: type is not valid",
		"label: Label must be unique among your databases",
	}
	if diff := cmp.Diff(want, texts(err)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if _, n, err := b.Clusters.List(t.Context(), p, "", store.ListQuery{}); err != nil || n != 1 || len(b.woken) != 0 {
		t.Errorf("%d databases, woken %v, %v", n, b.woken, err)
	}
	spec := b.spec()
	spec.Label = taken.Label
	if _, err := b.Clusters.Create(t.Context(), p, spec, nil); !errors.Is(err, cluster.LabelTaken()) {
		t.Errorf("a taken label alone: %v", err)
	}
	if _, err := b.Clusters.Create(t.Context(), b.tenant("two"), spec, nil); err != nil {
		t.Errorf("another account's label: %v", err)
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	seen := map[string]bool{}
	for range 30 {
		c := b.in(p, cluster.Active)
		answer, err := b.Clusters.Credentials(t.Context(), p, c.Engine, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		admin, err := b.store.Secret(t.Context(), c.ID, platform.AdminPassword)
		if err != nil {
			t.Fatal(err)
		}
		for _, password := range []string{answer.Password, string(admin)} {
			if len(password) != 24 || strings.Trim(password, "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789") != "" || seen[password] {
				t.Errorf("password %q", password)
			}
			seen[password] = true
		}
		if answer.Username != "dbadmin" {
			t.Errorf("user %s", answer.Username)
		}
	}
}

func TestCertificate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	var serials []string
	for range 2 {
		c := b.in(p, cluster.Active)
		text, err := b.Clusters.Certificate(t.Context(), p, c.Engine, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		block, rest := pem.Decode(text)
		if block == nil || block.Type != "CERTIFICATE" || len(rest) > 0 {
			t.Fatalf("%s", text)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !certificate.IsCA {
			t.Errorf("%v, %v", certificate, err)
		}
		serials = append(serials, certificate.SerialNumber.String())
	}
	if serials[0] == serials[1] {
		t.Error("two databases share a CA")
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	other := b.create(p)
	list := func(items ...string) *[]string { return &items }
	for _, c := range []struct {
		name   string
		in     control.UpdateCluster
		door   fault.Faults
		action operation.Action
		status cluster.Status
		faults []string
	}{
		{"nothing", control.UpdateCluster{}, nil, operation.Update, cluster.Active, nil},
		{"the same again", control.UpdateCluster{Type: new("small")}, nil, operation.Update, cluster.Active, nil},
		{"the same list", control.UpdateCluster{AllowList: list("192.0.2.1", "192.0.2.1")}, nil, operation.Update, cluster.Active, nil},
		{"label", control.UpdateCluster{Label: new("renamed")}, nil, operation.Update, cluster.Active, nil},
		{"window", control.UpdateCluster{Updates: &cluster.WindowChange{HourOfDay: new(5)}}, nil, operation.Update, cluster.Active, nil},
		{"allow_list", control.UpdateCluster{AllowList: list("192.0.2.0/24")}, nil, operation.Update, cluster.Updating, nil},
		{"allow_list and label", control.UpdateCluster{AllowList: list(), Label: new("renamed-2")}, nil, operation.Update, cluster.Updating, nil},
		{"resize", control.UpdateCluster{Type: new("large")}, nil, operation.Resize, cluster.Updating, nil},
		{"another plan of the same size", control.UpdateCluster{Type: new("same")}, nil, operation.Resize, cluster.Updating, nil},
		{"unknown type", control.UpdateCluster{Type: new("huge")}, nil, "", "", []string{"type: type is not valid"}},
		{"deprecated type", control.UpdateCluster{Type: new("old")}, nil, "", "", []string{"type: type is not valid"}},
		{"allow_list beside the type that it has", control.UpdateCluster{Type: new("small"), AllowList: list("10.0.0.1")}, nil, operation.Update, cluster.Updating, nil},
		{"taken label", control.UpdateCluster{Label: &other.Label}, nil, "", "", []string{"label: Label must be unique among your databases"}},
		{
			"all wrong",
			control.UpdateCluster{Label: new("-x-"), Type: new("huge"), AllowList: list("nowhere"), Updates: &cluster.WindowChange{Duration: new(9)}},
			fault.Faults{fault.Range("updates.duration", 1, 3)},
			"", "",
			[]string{
				"updates.duration: Must be 1-3", "label: May only contain letters, digits, - and _, and must start with a letter or a digit",
				"allow_list: Invalid IPv4 address(es) or range(s): nowhere",
				"type: type is not valid",
			},
		},
		{"taken label and more", control.UpdateCluster{Label: &other.Label, Type: new("huge")}, nil, "", "", []string{"type: type is not valid", "label: Label must be unique among your databases"}},
	} {
		db := b.in(p, cluster.Active)
		got, err := b.Clusters.Update(t.Context(), p, db.Engine, db.ID, c.in, c.door)
		if diff := cmp.Diff(c.faults, texts(err)); diff != "" || (err != nil) != (c.faults != nil) {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
		after, events := b.view(p, db.ID), b.events(p, db.ID)
		if c.faults != nil {
			if diff := cmp.Diff(db, after); diff != "" || len(events) != 0 || len(b.woken) != 0 {
				t.Errorf("%s: refused, but it did something: %s %v", c.name, diff, events)
			}
			continue
		}
		after.Created, got.Created, after.Updated, got.Updated = db.Created, db.Created, db.Updated, db.Updated
		if diff := cmp.Diff(got, after); diff != "" || got.Status != c.status {
			t.Errorf("%s: %s; answered and read differ:\n%s", c.name, got.Status, diff)
		}
		if len(events) != 1 || events[0].Action != c.action {
			t.Errorf("%s: events %+v", c.name, events)
			continue
		}
		if e := events[0]; (c.status == cluster.Active) != (e.Status == operation.Finished && e.Percent == 100) || (c.status == cluster.Updating) != (len(b.woken) == 1) {
			t.Errorf("%s: event %+v, woken %v", c.name, e, b.woken)
		}
	}
}

// TestSmallerType: data that has room moves to a smaller plan, of which the answer has the figures otherwise.
func TestSmallerType(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	for _, c := range []struct {
		used  string
		in    control.UpdateCluster
		fault string
	}{
		{"20480 * 1048576::bigint", control.UpdateCluster{Type: new("small")}, ""}, // 80 % of 25 GB
		{"20480 * 1048576::bigint + 1", control.UpdateCluster{Type: new("small")}, "type: Must have room: the data takes 20481 MB, and may take 20480 MB, 80 % of the 25 GB of small"},
		{"NULL", control.UpdateCluster{Type: new("small")}, "type: How much disk the data takes isn't known yet; try again soon"},
		{"1", control.UpdateCluster{Type: new("small"), Size: new(3)}, "type: A smaller type and another cluster_size can't be had at once; send one after the other"},
	} {
		db := b.in(p, cluster.Active)
		if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET type = 'large', used_bytes = "+c.used+" WHERE id = $1", int64(db.ID)); err != nil {
			t.Fatal(err)
		}
		got, err := b.Clusters.Update(t.Context(), p, db.Engine, db.ID, c.in, nil)
		switch {
		case c.fault == "" && (err != nil || got.Type != "small" || got.Status != cluster.Updating):
			t.Errorf("%s: %+v %v", c.used, got, err)
		case c.fault != "" && !slices.Contains(texts(err), c.fault):
			t.Errorf("%s: %v, want %s", c.used, err, c.fault)
		}
	}
}

// TestResizeBesideAnUpdateHasTwoEvents: clients wait for the event of each kind of
// change. That of an update that takes work ends with the resize that does it.
func TestResizeBesideAnUpdateHasTwoEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	for name, c := range map[string]struct {
		in     control.UpdateCluster
		update operation.Status // "": no event
	}{
		"label":      {control.UpdateCluster{Label: new("renamed")}, operation.Finished},
		"window":     {control.UpdateCluster{Updates: &cluster.WindowChange{HourOfDay: new(5)}}, operation.Finished},
		"allow_list": {control.UpdateCluster{AllowList: &[]string{"10.0.0.1"}, Label: new("renamed-2")}, operation.Scheduled},
		"unchanged":  {control.UpdateCluster{AllowList: &[]string{"192.0.2.1"}, Updates: &cluster.WindowChange{Duration: new(3)}}, ""},
	} {
		db := b.in(p, cluster.Active)
		c.in.Type = new("large")
		if _, err := b.Clusters.Update(t.Context(), p, db.Engine, db.ID, c.in, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		events := b.events(p, db.ID)
		resize := events[len(events)-1]
		if resize.Action != operation.Resize || resize.Status != operation.Scheduled || !slices.Equal(b.woken, []operation.ID{resize.ID}) {
			t.Errorf("%s: resize %+v, woken %v", name, resize, b.woken)
		}
		var companion operation.ID
		switch {
		case c.update == "":
			if len(events) != 1 {
				t.Errorf("%s: events %+v", name, events)
			}
		case len(events) != 2 || events[0].Action != operation.Update || events[0].Status != c.update:
			t.Errorf("%s: events %+v", name, events)
		case !c.update.Done():
			companion = events[0].ID
		}
		if resize.Params.Companion != companion {
			t.Errorf("%s: the resize carries %d along, want %d", name, resize.Params.Companion, companion)
		}
	}
}

func TestResizeRemembersWhatItWas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	if _, err := b.Clusters.Update(t.Context(), p, "", c.ID, control.UpdateCluster{Type: new("large")}, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(operation.Params{Type: "large", OldType: "small"}, b.events(p, c.ID)[0].Params); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestNodesThatComeRememberWhatThereWas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	if _, err := b.Clusters.Update(t.Context(), p, "", c.ID, control.UpdateCluster{Size: new(3), Label: new("renamed")}, nil); err != nil {
		t.Fatal(err)
	}
	var resize operation.Operation
	for _, e := range b.events(p, c.ID) {
		if e.Action == operation.Resize {
			resize = e
		}
	}
	before := c.Nodes()
	if diff := cmp.Diff(operation.Params{Before: &before}, resize.Params); diff != "" || resize.Status != operation.Scheduled {
		t.Errorf("%s: -want +got\n%s", resize.Status, diff)
	}
	if now := b.view(p, c.ID); now.Size != 3 || now.Replication == c.Replication || now.Status != cluster.Updating {
		t.Errorf("%+v", now)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	before, err := b.Clusters.Credentials(t.Context(), p, c.Engine, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Clusters.ResetCredentials(t.Context(), p, c.Engine, c.ID); err != nil {
		t.Fatal(err)
	}
	after, err := b.Clusters.Credentials(t.Context(), p, c.Engine, c.ID)
	if err != nil || after.Password == before.Password {
		t.Errorf("the password is still the old one: %v", err)
	}
	if got := b.view(p, c.ID); got.Status != cluster.Updating || len(b.woken) != 1 || b.events(p, c.ID)[0].Action != operation.CredentialsReset {
		t.Errorf("%s, woken %v", got.Status, b.woken)
	}
	if err := b.Clusters.ResetCredentials(t.Context(), p, c.Engine, c.ID); kind(err) != fault.Precondition {
		t.Errorf("a second one meanwhile: %v", err)
	}
	again, err := b.Clusters.Credentials(t.Context(), p, c.Engine, c.ID)
	if err != nil || again != after {
		t.Error("a refused reset changed the password")
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	if err := b.Clusters.Delete(t.Context(), p, c.Engine, c.ID, false); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Clusters.View(t.Context(), p, "", c.ID); kind(err) != fault.NotFound {
		t.Errorf("view: %v", err)
	}
	if err := b.Clusters.Delete(t.Context(), p, c.Engine, c.ID, false); kind(err) != fault.NotFound {
		t.Errorf("delete again: %v", err)
	}
	if kept, err := b.store.ClusterForWork(t.Context(), c.ID); err != nil || kept.Deleted == nil {
		t.Errorf("workers must still see it: %v", err)
	}
	if e := b.events(p, c.ID); len(e) != 1 || e[0].Action != operation.Delete || e[0].Label != c.Label || len(b.woken) != 1 {
		t.Errorf("%+v, woken %v", e, b.woken)
	}
	spec := b.spec()
	spec.Label = c.Label
	if _, err := b.Clusters.Create(t.Context(), p, spec, nil); err != nil {
		t.Errorf("its label again: %v", err)
	}
}

// use is a use case of one database, by a caller.
type use struct {
	name  string
	write bool
	// unrestricted reports whether grants aren't enough.
	unrestricted bool
	statuses     []cluster.Status
	call         func(b *bench, p account.Principal, engine cluster.Engine, id cluster.ID) error
}

var (
	everywhere = cluster.Statuses
	serving    = []cluster.Status{cluster.Active, cluster.Updating, cluster.BackingUp, cluster.Degraded}
	active     = []cluster.Status{cluster.Active}
)

var uses = []use{
	{"view", false, false, everywhere, func(b *bench, p account.Principal, engine cluster.Engine, id cluster.ID) error {
		_, err := b.Clusters.View(b.t.Context(), p, engine, id)
		return err
	}},
	{"credentials", false, false, serving, func(b *bench, p account.Principal, engine cluster.Engine, id cluster.ID) error {
		_, err := b.Clusters.Credentials(b.t.Context(), p, engine, id)
		return err
	}},
	{"certificate", false, false, serving, func(b *bench, p account.Principal, engine cluster.Engine, id cluster.ID) error {
		_, err := b.Clusters.Certificate(b.t.Context(), p, engine, id)
		return err
	}},
	{"update", true, false, active, func(b *bench, p account.Principal, engine cluster.Engine, id cluster.ID) error {
		_, err := b.Clusters.Update(b.t.Context(), p, engine, id, control.UpdateCluster{AllowList: &[]string{"10.9.8.7"}}, nil)
		return err
	}},
	{"patch", true, false, active, func(b *bench, p account.Principal, engine cluster.Engine, id cluster.ID) error {
		return b.Clusters.Patch(b.t.Context(), p, engine, id)
	}},
	{"suspend", true, false, active, func(b *bench, p account.Principal, engine cluster.Engine, id cluster.ID) error {
		return b.Clusters.Suspend(b.t.Context(), p, engine, id)
	}},
	{"resume", true, false, []cluster.Status{cluster.Suspended}, func(b *bench, p account.Principal, engine cluster.Engine, id cluster.ID) error {
		return b.Clusters.Resume(b.t.Context(), p, engine, id)
	}},
	{"reset", true, true, active, func(b *bench, p account.Principal, engine cluster.Engine, id cluster.ID) error {
		return b.Clusters.ResetCredentials(b.t.Context(), p, engine, id)
	}},
	{"delete", true, true, []cluster.Status{cluster.Active, cluster.Failed, cluster.Degraded, cluster.Suspended}, func(b *bench, p account.Principal, engine cluster.Engine, id cluster.ID) error {
		return b.Clusters.Delete(b.t.Context(), p, engine, id, false)
	}},
}

// TestPreconditions tries every use case in every status.
func TestPreconditions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	for _, u := range uses {
		for _, status := range cluster.Statuses {
			c := b.in(p, status)
			err := u.call(b, p, c.Engine, c.ID)
			if allowed := slices.Contains(u.statuses, status); allowed != (err == nil) || err != nil && kind(err) != fault.Precondition {
				t.Errorf("%s while %s: %v", u.name, status, err)
			}
			if err != nil && (!strings.Contains(err.Error(), string(status)) || len(b.woken) > 0 || b.view(p, c.ID).Status != status) {
				t.Errorf("%s while %s, refused with %q, woke %v", u.name, status, err, b.woken)
			}
			if _, err := b.store.Pool().Exec(t.Context(), "DELETE FROM clusters WHERE id = $1", c.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestTenancy: to another account, and by the other engine's path, a database
// isn't there, whatever is asked of it.
func TestTenancy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner, stranger := b.tenant("owner"), b.tenant("stranger")
	stray := b.restricted(stranger.Account, "stray")
	c := b.in(owner, cluster.Active)
	for _, u := range uses {
		if err := u.call(b, stranger, c.Engine, c.ID); kind(err) != fault.NotFound {
			t.Errorf("%s by a stranger: %v", u.name, err)
		}
		want := fault.NotFound
		if u.unrestricted {
			want = fault.Forbidden // for any id: it tells nothing
		}
		if err := u.call(b, stray, c.Engine, c.ID); kind(err) != want {
			t.Errorf("%s by a restricted stranger: %v", u.name, err)
		}
		if err := u.call(b, owner, cluster.MySQL, c.ID); kind(err) != fault.NotFound {
			t.Errorf("%s by the path of another engine: %v", u.name, err)
		}
		for _, id := range []cluster.ID{0, -1, c.ID + 1, 1 << 62} {
			if err := u.call(b, owner, c.Engine, id); kind(err) != fault.NotFound {
				t.Errorf("%s of %d: %v", u.name, id, err)
			}
		}
	}
	if got := b.view(owner, c.ID); got.Status != cluster.Active || len(b.woken) > 0 {
		t.Errorf("%s, woken %v", got.Status, b.woken)
	}
	if found, n, err := b.Clusters.List(t.Context(), stranger, "", store.ListQuery{}); err != nil || n != 0 || len(found) != 0 {
		t.Errorf("list: %v, %d, %v", found, n, err)
	}
}

// TestGrants: what a restricted user may do with and without a grant.
func TestGrants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner := b.tenant("owner")
	p := b.restricted(owner.Account, "limited")
	for _, permission := range []account.Permission{account.NoPermission, account.ReadOnly, account.ReadWrite} {
		for _, u := range uses {
			c := b.in(owner, u.statuses[0])
			b.grant(p, c.ID, permission)
			want := fault.Kind(0)
			switch {
			case u.unrestricted:
				want = fault.Forbidden
			case permission == account.NoPermission:
				want = fault.NotFound
			case u.write && permission == account.ReadOnly:
				want = fault.Forbidden
			}
			if err := u.call(b, p, c.Engine, c.ID); kind(err) != want {
				t.Errorf("%s with %q: %v", u.name, permission, err)
			}
		}
	}
}

func TestRestrictedCreate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner := b.tenant("owner")
	p := b.restricted(owner.Account, "limited")
	if _, err := b.Clusters.Create(t.Context(), p, cluster.Spec{}, fault.Faults{fault.Required("label")}); kind(err) != fault.Forbidden {
		t.Errorf("without add_databases: %v", err)
	}
	maker := b.user(owner.Account, account.User{Username: "maker", Restricted: true, AddDatabases: true})
	c := b.create(maker)
	if permission, err := b.store.Grant(t.Context(), maker.User.ID, c.ID); err != nil || permission != account.ReadWrite {
		t.Errorf("the creator has %q, %v", permission, err)
	}
	for who, want := range map[*account.Principal]int{&maker: 1, &p: 0, &owner: 1} {
		if found, n, err := b.Clusters.List(t.Context(), *who, "", store.ListQuery{}); err != nil || n != want || len(found) != want {
			t.Errorf("%s sees %d, %v", who.User.Username, n, err)
		}
		if _, n, err := b.Events.List(t.Context(), *who, store.ListQuery{}); err != nil || n != want {
			t.Errorf("%s sees %d events, %v", who.User.Username, n, err)
		}
	}
	// The label clash of a database that the user can't see is told: labels are the account's.
	spec := b.spec()
	spec.Label = b.create(owner).Label
	if _, err := b.Clusters.Create(t.Context(), maker, spec, nil); !errors.Is(err, cluster.LabelTaken()) {
		t.Errorf("%v", err)
	}
}

// TestManyChangesAtOnce: of several changes that need work one is taken, the
// others wait their turn by being refused; all label changes get through.
func TestManyChangesAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Clusters.Enqueue = func(_ ctx, _ *store.Tx, _ operation.ID) error { return nil }
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	var wait sync.WaitGroup
	errs := make(chan error, 16)
	for i := range 8 {
		wait.Go(func() {
			_, err := b.Clusters.Update(t.Context(), p, "", c.ID, control.UpdateCluster{Label: new("label-" + string(rune('a'+i)))}, nil)
			errs <- err
		})
	}
	wait.Wait()
	for range 8 {
		if err := <-errs; err != nil {
			t.Errorf("label: %v", err)
		}
	}
	for range 8 {
		wait.Go(func() { errs <- b.Clusters.Patch(t.Context(), p, "", c.ID) })
	}
	wait.Wait()
	taken := 0
	for range 8 {
		switch err := <-errs; kind(err) {
		case 0:
			taken++
		case fault.Precondition:
		default:
			t.Errorf("patch: %v", err)
		}
	}
	if taken != 1 {
		t.Errorf("%d patches were taken", taken)
	}
}

func TestNoPortsLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Clusters.Ports = [2]int{21000, 21001}
	p := b.tenant("one")
	b.create(p)
	b.create(p)
	if _, err := b.Clusters.Create(t.Context(), p, b.spec(), nil); kind(err) != fault.Precondition {
		t.Errorf("%v", err)
	}
}

// TestACreateThatCannotWakeAWorkerDidNothing: row, secrets, operation and
// wake-up are one transaction.
func TestACreateThatCannotWakeAWorkerDidNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Clusters.Enqueue = func(_ ctx, _ *store.Tx, _ operation.ID) error { return errors.New("no queue") }
	p := b.tenant("one")
	if _, err := b.Clusters.Create(t.Context(), p, b.spec(), nil); kind(err) != -1 {
		t.Errorf("%v", err)
	}
	var rows int
	err := b.store.Pool().QueryRow(t.Context(), "SELECT (SELECT count(*) FROM clusters) + (SELECT count(*) FROM cluster_secrets) + (SELECT count(*) FROM operations)").Scan(&rows)
	if err != nil || rows != 0 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// TestNodesForATypeThatIsGone: with a type that isn't offered any more no node comes,
// unless another type is asked for with it.
func TestNodesForATypeThatIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	for i := range b.Clusters.Catalog.Plans {
		if b.Clusters.Catalog.Plans[i].ID == c.Type {
			b.Clusters.Catalog.Plans[i].Deprecated = true
		}
	}
	_, err := b.Clusters.Update(t.Context(), p, "", c.ID, control.UpdateCluster{Size: new(3)}, nil)
	if err == nil || !strings.Contains(err.Error(), "cluster_size: The type small isn't offered any more") {
		t.Errorf("%v", err)
	}
	if _, err := b.Clusters.Update(t.Context(), p, "", c.ID, control.UpdateCluster{Size: new(3), Type: new("large")}, nil); err != nil {
		t.Errorf("with another type: %v", err)
	}
}
