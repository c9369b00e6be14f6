package mysql_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/engine/mysql"
)

// silentlyDiverged gives the nodes other values for the same column. Before that
// they are the same, also while customers write.
func silentlyDiverged(t *testing.T, c *threeNodes) {
	b := c.Bench
	statement := "ALTER TABLE kept ADD u VARCHAR(36) DEFAULT (UUID())"
	if !onlyMariaDB(b) {
		refused(t, c.nodes[0].DB(t, c.nodes[0].Login()), "dbadmin", statement)
		return
	}
	c.nodes[0].Exec(t, "CREATE TABLE `odd ``name; 10%` (v double, w json, x bit(3), PRIMARY KEY (v))",
		"INSERT INTO `odd ``name; 10%` VALUES (0.1, '{}', b'101'), (1e300, NULL, NULL)", "CREATE TABLE hollow (v int)")
	w := writing(t, c)
	compared := 0
	await.True(t, "replicas compared while customers write", func() bool {
		if c.compare(t, 1) {
			compared++
		}
		return compared == 3
	})
	w.check(t, c.nodes[0])
	c.agree(t)
	c.nodes[0].Exec(t, statement)
	c.agree(t)
	var err error
	await.True(t, "the difference to be found", func() bool {
		_, err = b.Driver.(*mysql.Driver).Compare(t.Context(), c.nodes[1].Node)
		return err != nil
	})
	if !errors.Is(err, engine.ErrDiverged) || !strings.Contains(err.Error(), "defaultdb.kept") {
		t.Errorf("compare: %v", err)
	}
	// Nothing is left behind that would be in the way of customers.
	started := time.Now()
	c.nodes[0].Exec(t, "ALTER TABLE kept DROP u", "DROP TABLE hollow")
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("a table's columns could be changed after %v", took)
	}
	c.recopy(t, 1)
	c.recopy(t, 2)
	for _, i := range c.replicas() {
		c.follow(t, i)
		c.streams(t, i)
	}
	await.True(t, "the new copy compared", func() bool { return c.compare(t, 1) })
}

// compare demands that no difference is found, and reports whether all was compared.
func (c *threeNodes) compare(t *testing.T, i int) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	whole, err := c.Driver.(*mysql.Driver).Compare(ctx, c.nodes[i].Node)
	noError(t, err)
	return whole
}
