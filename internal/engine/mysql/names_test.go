package mysql_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

// takenNames are those that broke backups or starts of MariaDB's, in some series.
var takenNames = []string{
	"ib_logfile1", "ib_logfile101", "undo003", "undo101",
	"xtrabackup_info", "xtrabackup_binlog_info", "xtrabackup_binlog_pos_innodb", "xtrabackup_checkpoints", "xtrabackup_slave_info", "xtrabackup_galera_info", "xtrabackup_logfile",
	"mariadb_backup_info", "mariadb_backup_binlog_info", "mariadb_backup_checkpoints", "mariadb_backup_slave_info", "mariadb_backup_galera_info",
}

// harmlessNames look like files of servers and break nothing.
var harmlessNames = []string{
	"xtrabackupXinfo", "ibXlogfile1", "undo_003", "undo3", "ibdata2", "aria_log", "tc.log", "backup-my.cnf", "Xtrabackup_info", "mysql_upgrade_info",
}

// harmlessNamed has a customer name databases as files of the server are named: they survive a backup and starts.
func harmlessNamed(t *testing.T, s *enginetest.Server) {
	b := s.Bench
	names := harmlessNames
	if !onlyMariaDB(b) {
		names = slices.Concat(names, takenNames[2:])
	}
	for _, name := range names {
		s.Exec(t, "CREATE DATABASE `"+name+"`", "CREATE TABLE `"+name+"`.t (v int)", "INSERT INTO `"+name+"`.t VALUES (1)")
	}
	if err := b.Driver.CheckNames(s.Node); err != nil {
		t.Error(err)
	}
	restored := s.Copied(t)
	restored.Start(t)
	s.Restart(t)
	s.Kill(t)
	s.Start(t)
	for _, name := range names {
		for _, of := range []*enginetest.Server{s, restored} {
			if got := of.Text(t, "SELECT COUNT(*) FROM `"+name+"`.t"); got != "1" {
				t.Errorf("%s: %s rows", name, got)
			}
		}
	}
}

// logsNamed are databases that MySQL itself refuses.
func logsNamed(t *testing.T, s *enginetest.Server) {
	refused(t, s.DB(t, s.Login()), "dbadmin", "CREATE DATABASE ib_logfile1", "CREATE DATABASE ib_logfile101")
}

func takenNamed(t *testing.T, s *enginetest.Server) {
	for _, name := range takenNames {
		refused(t, s.DB(t, s.Login()), "dbadmin", "CREATE DATABASE "+name, "CREATE OR REPLACE DATABASE "+name, "CREATE DATABASE IF NOT EXISTS "+name)
		if _, err := asAdmin(t, s).ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
			t.Fatal(err)
		}
		var blocked *engine.ReservedNameError
		if err := s.TryBackup(t); !errors.As(err, &blocked) || blocked.Database != name {
			t.Errorf("backup with a database %s: %v", name, err)
		}
		s.Exec(t, "DROP DATABASE "+name)
	}
	if err := s.TryBackup(t); err != nil {
		t.Errorf("backup when all are gone: %v", err)
	}
}

// takenBefore has a server of before the names were refused.
func takenBefore(t *testing.T, s *enginetest.Server) {
	b := s.Bench
	admin := asAdmin(t, s)
	for _, q := range []string{"DELETE FROM mysql.db WHERE Db LIKE 'xtra%' OR Db LIKE 'mariadb%' OR Db LIKE 'ib%'", "FLUSH PRIVILEGES"} {
		if _, err := admin.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	s.Exec(t, "CREATE DATABASE ib_logfile101", "CREATE TABLE ib_logfile101.t (v int)", "CREATE DATABASE saved",
		"CREATE DATABASE ib_logfileX", "CALL steward.create_user('carol', 'carol-password-1')")
	refused(t, s.DB(t, s.Login()), "dbadmin", "CALL steward.grant_database('ib_logfile101', 'carol')")
	if _, err := admin.ExecContext(t.Context(), "GRANT ALL ON `ib\\_logfile101`.* TO carol"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Driver.Fence(t.Context(), s.Node); err != nil {
			t.Fatal(err)
		}
	}
	err := b.Driver.CheckNames(s.Node)
	if err == nil || !strings.Contains(err.Error(), "database ib_logfile101 ") {
		t.Errorf("a start isn't refused: %v", err)
	}
	s.Exec(t, "ALTER TABLE ib_logfile101.t RENAME TO saved.t")
	carol := s.DB(t, enginetest.Login{User: "carol", Password: "carol-password-1", CA: s.CA})
	if _, err := carol.ExecContext(t.Context(), "DROP DATABASE ib_logfile101"); err != nil {
		t.Error(err)
	}
	refused(t, carol, "carol", "CREATE DATABASE ib_logfile101")
	refused(t, s.DB(t, s.Login()), "dbadmin", "CREATE DATABASE ib_logfile101")
	if err := b.Driver.CheckNames(s.Node); err != nil {
		t.Errorf("when it is gone: %v", err)
	}
	s.Restart(t)
}
