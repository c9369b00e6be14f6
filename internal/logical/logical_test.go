package logical_test

import (
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/logical"
)

// TestNames: what a server, its pooler or steward gives a meaning is refused, in any case; hostile text is not, where the
// server takes it.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		engine   cluster.Engine
		name     string
		user, db bool
	}{
		{cluster.PostgreSQL, "app", true, true},
		{cluster.PostgreSQL, `a"; DROP ROLE x; --'\`, true, true},
		{cluster.PostgreSQL, "größe 1", true, true},
		{cluster.PostgreSQL, strings.Repeat("ä", 31), true, true},
		{cluster.PostgreSQL, strings.Repeat("ä", 32), false, false},
		{cluster.PostgreSQL, "", false, false},
		{cluster.PostgreSQL, "a/b", false, false},
		{cluster.PostgreSQL, "..", false, false},
		{cluster.PostgreSQL, " a", false, false},
		{cluster.PostgreSQL, "a\nb", false, false},
		{cluster.PostgreSQL, "a\u202eb", false, false},
		{cluster.PostgreSQL, "a\xff", false, false},
		{cluster.PostgreSQL, "Steward_x", false, false},
		{cluster.PostgreSQL, "PG_monitor", false, false},
		{cluster.PostgreSQL, "pgbouncer", false, false},
		{cluster.PostgreSQL, "postgres", false, false},
		{cluster.PostgreSQL, "template1", false, false},
		{cluster.PostgreSQL, "dbadmin", false, false},
		{cluster.PostgreSQL, "replication", false, false},
		{cluster.PostgreSQL, "pgx", true, true},
		{cluster.MySQL, "app", true, true},
		{cluster.MySQL, "a-b_c1", true, true},
		{cluster.MySQL, "a$b", false, true},
		{cluster.MySQL, "_a", false, true},
		{cluster.MySQL, "a`b", false, false},
		{cluster.MySQL, "a'b", false, false},
		{cluster.MySQL, "a%", false, false},
		{cluster.MySQL, "app\n", false, false},
		{cluster.MySQL, strings.Repeat("a", 33), false, true},
		{cluster.MySQL, strings.Repeat("a", 65), false, false},
		{cluster.MySQL, "stewardess", false, false},
		{cluster.MySQL, "mysql", false, false},
		{cluster.MySQL, "Sys", false, false},
		{cluster.MySQL, "root", false, true},
		{cluster.MySQL, "dbadmin", false, true},
		{cluster.MySQL, "information_schema", true, false},
		{cluster.MySQL, "undo001", true, false},
		{cluster.MySQL, "ib_logfile0", true, false},
	} {
		if f := logical.CheckUser(c.engine, "username", c.name); (f == nil) != c.user {
			t.Errorf("user %q of %s: %v", c.name, c.engine, f)
		}
		if f := logical.CheckDatabase(c.engine, "name", c.name); (f == nil) != c.db {
			t.Errorf("database %q of %s: %v", c.name, c.engine, f)
		}
	}
	if !logical.Reserved(cluster.MySQL, "mysql.sys") || !logical.Reserved(cluster.MySQL, "steward_replica") || !logical.Reserved(cluster.PostgreSQL, "dbadmin") || logical.Reserved(cluster.PostgreSQL, "app") {
		t.Error("who is reserved")
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	faults := logical.CheckGrants("grants", []logical.Grant{{"a", logical.Read}, {"a", logical.Write}, {"", logical.Read}, {"b", "all"}, {"c", logical.Owner}})
	if len(faults) != 3 {
		t.Errorf("%v", faults)
	}
	u := logical.User{Grants: []logical.Grant{{"a", logical.Read}}}
	if u.In("a") != logical.Read || u.In("b") != "" {
		t.Error("grants")
	}
}
