package mysql

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"steward/internal/engine"
	"steward/internal/wait"
)

// EncryptionMissing implements engine.Driver.
func (d *Driver) EncryptionMissing(inst engine.Installation) string {
	return flavourOf(inst.Flavour).encryptionMissing(inst)
}

// KeyringContent implements engine.Driver.
func (d *Driver) KeyringContent(n engine.Node) ([]byte, error) {
	file := flavourOf(n.Installation.Flavour).keyring(n)
	if !n.Encrypted || file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read keyring: %w", err)
	}
	return content, nil
}

// MariaDB: pages, redo and binary logs are encrypted under one key that we
// hand over in a file. The server reads it at its start only.

func mariaDBKeyFile(n engine.Node) string { return filepath.Join(n.Keys, "keys") }

func (mariaDB) keyring(engine.Node) string { return "" }

func (mariaDB) encryption(n engine.Node) ([]setting, []engine.File) {
	settings := []setting{
		{"plugin_load_add", "file_key_management", apart},
		{"file_key_management_filename", mariaDBKeyFile(n), apart},
		{"file_key_management_encryption_algorithm", "AES_CTR", apart},
		{"innodb_encrypt_tables", "FORCE", apart},
		{"innodb_encrypt_log", true, fixed},
		{"innodb_encrypt_temporary_tables", true, fixed},
		{"innodb_encryption_threads", 1, apart},
		{"encrypt_binlog", true, fixed},
		{"encrypt_tmp_files", true, fixed},
		{"encrypt_tmp_disk_tables", true, fixed},
		{"aria_encrypt_tables", true, fixed},
		// Other engines write their rows in the clear: Aria into its log, the rest into their files.
		{"enforce_storage_engine", "InnoDB", apart},
	}
	key := "1;" + hex.EncodeToString(n.AtRestKey) + "\n"
	return settings, []engine.File{{Path: mariaDBKeyFile(n), Content: []byte(key)}}
}

func (mariaDB) encryptionMissing(inst engine.Installation) string {
	plugin := filepath.Join(inst.PluginDir, "file_key_management.so")
	if _, err := os.Stat(plugin); err != nil {
		return "Encryption at rest needs the server's plugin file_key_management, which is not installed."
	}
	return ""
}

// encrypt makes the background threads work through what the template
// brought, and rebuilds the system tables, which they leave alone.
func (mariaDB) encrypt(ctx context.Context, s *session) error {
	if err := s.lock(ctx, "steward_encrypt"); err != nil {
		return err
	}
	if err := s.exec(ctx, "SET SESSION enforce_storage_engine = NULL"); err != nil {
		return err
	}
	tables, err := s.rows(ctx, "SELECT TABLE_NAME, CREATE_OPTIONS FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'mysql' AND ENGINE = 'Aria' ORDER BY TABLE_NAME")
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := s.exec(ctx, "ALTER TABLE mysql.`"+t[0]+"` FORCE"); err != nil {
			return err
		}
	}
	if err := s.exec(ctx, "SET GLOBAL innodb_encryption_rotation_iops = 10000", "SET GLOBAL innodb_encryption_threads = 4"); err != nil {
		return err
	}
	if err := waitUntilNone(ctx, s, "SELECT count(*) FROM information_schema.INNODB_TABLESPACES_ENCRYPTION WHERE MIN_KEY_VERSION = 0 OR ROTATING_OR_FLUSHING = 1"); err != nil {
		return err
	}
	return s.exec(ctx, "SET GLOBAL innodb_encryption_threads = 1", "SET GLOBAL innodb_encryption_rotation_iops = 100")
}

// lock waits until no other session has the lock of that name, a minute at most, and keeps it until this session ends. The server may still
// be at the statement of one that was given up: of two that change the number of encryption threads at once, MariaDB tells only one
// when that is done, and the other waits for good.
func (s *session) lock(ctx context.Context, name string) error {
	got, err := s.text(ctx, "SELECT GET_LOCK(?, 60)", name) // seconds
	if err == nil && got != "1" {
		err = fmt.Errorf("another session has the lock %s", name)
	}
	return err
}

// waitUntilNone waits until the count is zero.
func waitUntilNone(ctx context.Context, s *session, count string) error {
	for {
		left, err := s.text(ctx, count)
		if err != nil || left == "0" {
			return err
		}
		if wait.Sleep(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("wait for encryption, %s tablespaces left: %w", left, ctx.Err())
		}
	}
}

// MySQL: the keyring component makes the keys itself and keeps them in a file;
// the platform seals what that file holds. The component is loaded where a
// manifest in the data folder says so.

const (
	keyringComponent = "component_keyring_file"
	globalManifest   = `{"read_local_manifest": true}`
	globalConfig     = `{"read_local_config": true}`
)

func (mySQL) keyring(n engine.Node) string { return filepath.Join(n.Keys, "keyring") }

func (f mySQL) encryption(n engine.Node) ([]setting, []engine.File) {
	settings := []setting{
		{"default_table_encryption", true, live},
		{"table_encryption_privilege_check", true, live},
		{"innodb_redo_log_encrypt", true, live},
		{"innodb_undo_log_encrypt", true, live},
		{"binlog_encryption", true, live},
		// These write their rows in the clear.
		{"disabled_storage_engines", "MyISAM,CSV,ARCHIVE,MRG_MYISAM,FEDERATED", fixed},
	}
	files := []engine.File{
		{Path: filepath.Join(n.Data, "mysqld.my"), Content: []byte(`{"components": "file://` + keyringComponent + `"}`)},
		{
			Path:    filepath.Join(n.Data, keyringComponent+".cnf"),
			Content: fmt.Appendf(nil, `{"path": %q, "read_only": false}`, f.keyring(n)),
		},
	}
	if n.Keyring != nil {
		files = append(files, engine.File{Path: f.keyring(n), Content: n.Keyring, Once: true})
	}
	return settings, files
}

// encryptionMissing looks for what makes the server read a cluster's own
// manifest; without one a cluster isn't affected.
func (mySQL) encryptionMissing(inst engine.Installation) string {
	if _, err := os.Stat(filepath.Join(inst.PluginDir, keyringComponent+".so")); err != nil {
		return "Encryption at rest needs the server's component_keyring_file, which is not installed."
	}
	for _, f := range mySQLManifests(inst) {
		if _, err := os.Stat(f.Path); err != nil {
			return fmt.Sprintf("Encryption at rest needs the file %s with the content %s.", f.Path, f.Content)
		}
	}
	return ""
}

// mySQLManifests are the files beside the programs that let clusters load the
// keyring component.
func mySQLManifests(inst engine.Installation) []engine.File {
	return []engine.File{
		{Path: filepath.Join(filepath.Dir(inst.Bin["mysqld"]), "mysqld.my"), Content: []byte(globalManifest)},
		{Path: filepath.Join(inst.PluginDir, keyringComponent+".cnf"), Content: []byte(globalConfig)},
	}
}

func (mySQL) encrypt(ctx context.Context, s *session) error {
	statements := []string{"ALTER TABLESPACE mysql ENCRYPTION = 'Y'"}
	for _, schema := range []string{"sys", "defaultdb"} {
		statements = append(statements, "ALTER DATABASE `"+schema+"` ENCRYPTION = 'Y'")
	}
	return s.exec(ctx, append(statements, "ALTER TABLE sys.sys_config ENCRYPTION = 'Y'")...)
}
