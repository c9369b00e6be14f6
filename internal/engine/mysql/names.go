package mysql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"

	"steward/internal/engine"
)

// A database of MariaDB's is a folder beside the server's files. Where one stands
// in the place of a file that a start or mariadb-backup makes, the server doesn't
// start any more, or its backups can't be restored. MySQL has no such files, or
// refuses the names itself.
//
// fileNames are the patterns of such names in a grant. One with more text before
// its first wildcard beats `%`, so what they give is all that dbadmin has there:
// enough to move tables away and to drop the database, not to create one.
var fileNames = []string{`xtrabackup\_%`, `mariadb\_backup\_%`, `ib\_logfile%`, `undo0__`, `undo1__`}

// fileNamePattern matches the same as fileNames, filePattern those among them that do harm.
const fileNamePattern = `^(xtrabackup_|mariadb_backup_|ib_logfile|undo[01]..$)`

var filePattern = regexp.MustCompile(`^(ib_logfile[0-9]+|undo[01][0-9][0-9]|(xtrabackup|mariadb_backup)_` +
	`(binlog_info|binlog_pos_innodb|checkpoints|info|slave_info|galera_info|logfile))$`)

// withoutCreate are the grants that keep dbadmin from making such databases.
func withoutCreate() []string {
	var grants []string
	for _, pattern := range fileNames {
		grants = append(grants, "GRANT SELECT, DELETE, DROP, ALTER, LOCK TABLES, SHOW VIEW, TRIGGER ON `"+pattern+"`.* TO 'dbadmin'@'%'")
	}
	return grants
}

// CheckNames implements engine.Driver.
func (d *Driver) CheckNames(n engine.Node) error {
	if n.Installation.Flavour != engine.FlavourMariaDB {
		return nil
	}
	entries, err := os.ReadDir(n.Data)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for databases in the place of files: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && filePattern.MatchString(e.Name()) {
			return &engine.ReservedNameError{Database: e.Name()}
		}
	}
	return nil
}

// grantedFileNames are the users of customers that may make such a database, by
// a grant from when there was one.
const grantedFileNames = `SELECT User, Host, Db FROM mysql.db WHERE Create_priv = 'Y' AND REPLACE(Db, '\\', '') REGEXP '` + fileNamePattern + `'`

func (s *session) withholdFileNames(ctx context.Context) error {
	if err := s.exec(ctx, withoutCreate()...); err != nil {
		return fmt.Errorf("withhold names of files: %w", err)
	}
	rows, err := s.rows(ctx, grantedFileNames)
	if err != nil {
		return err
	}
	for _, r := range rows {
		account := identifier(r[0]) + "@" + identifier(r[1])
		if err := s.exec(ctx, "REVOKE CREATE ON "+identifier(r[2])+".* FROM "+account); err != nil {
			return fmt.Errorf("fence %s in: %w", account, err)
		}
	}
	return nil
}
