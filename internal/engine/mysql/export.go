package mysql

import (
	"archive/tar"
	"encoding/hex"
	"fmt"
	"io"

	"steward/internal/engine"
)

// Names in an exported archive.
const (
	exportedConf   = "my.cnf"
	exportedStream = "backup.xbstream"
	exportedKeys   = "keys"
	exportedRing   = "keyring"
)

// Export implements engine.Exporter. MariaDB's stream stays what it is: the files
// in it come in segments, whose sizes nobody knows before its end.
func (d *Driver) Export(c engine.Copied, r io.Reader, w *tar.Writer) error {
	if err := engine.AddFile(w, c, exportedConf, []byte(exportedServer(c))); err != nil {
		return err
	}
	if c.Flavour == engine.FlavourMariaDB {
		return exportMariaDB(c, r, w)
	}
	if c.Encrypted {
		if err := engine.AddFile(w, c, exportedRing, c.Keyring); err != nil {
			return err
		}
	}
	return engine.Retar(r, w, c, "data", func(string) bool { return false })
}

func exportMariaDB(c engine.Copied, r io.Reader, w *tar.Writer) error {
	if c.Encrypted {
		if err := engine.AddFile(w, c, exportedKeys, []byte("1;"+hex.EncodeToString(c.AtRestKey)+"\n")); err != nil {
			return err
		}
	}
	header := &tar.Header{Name: exportedStream, Mode: 0o600, Size: engine.ContentBytes(c.Bytes), ModTime: c.Taken, Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s: %w", exportedStream, err)
	}
	if _, err := io.Copy(w, engine.NewArchiveReader(r)); err != nil {
		return fmt.Errorf("write %s: %w", exportedStream, err)
	}
	return nil
}

// exportedServer is what a server has to be told of the data. It listens where
// nobody else does: on a socket in the data folder.
func exportedServer(c engine.Copied) string {
	text := `# Written by steward backup export; it is yours to change. To let clients connect
# over the network: bind_address and port instead of skip_networking.
[mysqld]
skip_networking
skip_name_resolve
socket = mysql.sock
pid_file = mysql.pid
log_error = server.log
character_set_server = utf8mb4
innodb_data_file_path = ` + systemTablespace + "\n"
	if c.Flavour == engine.FlavourMariaDB {
		return text + fmt.Sprintf("innodb_undo_tablespaces = %d\n", mariaDBUndoFiles)
	}
	return text + "partial_revokes = ON\nmysqlx = OFF\nsecure_file_priv = NULL\nskip_replica_start = ON\n"
}

// Instructions implements engine.Exporter.
func (d *Driver) Instructions(c engine.Copied) string {
	if c.Flavour == engine.FlavourMariaDB {
		return mariaDBInstructions(c)
	}
	return mySQLInstructions(c)
}

func mariaDBInstructions(c engine.Copied) string {
	relocated, options := "", ""
	if c.Encrypted {
		relocated = `
The data is encrypted at rest, and the file keys opens it. Say where that is:

    sed -i "s|^file_key_management_filename=.*|file_key_management_filename=$PWD/keys|" data/backup-my.cnf
`
		options = ` --plugin-load-add=file_key_management --file-key-management-filename="$PWD/keys" --file-key-management-encryption-algorithm=AES_CTR`
	}
	return fmt.Sprintf(`You need MariaDB %[1]s, %[2]s or a later %[1]s.x, with mariadb-backup and mbstream (Debian:
mariadb-server and mariadb-backup). backup.xbstream is what mariadb-backup wrote.
Unpack it:

    mkdir data && mbstream -x -C data < backup.xbstream
%[3]s
Bring it to the moment at which the backup ended:

    mariadb-backup --prepare --target-dir=data

Start a server on it; data/server.log tells how it goes:

    mariadbd --defaults-file="$PWD/my.cnf" --datadir="$PWD/data"%[4]s &

Connect as dbadmin, with the password of the time of the backup:

    mariadb --socket="$PWD/data/mysql.sock" -u dbadmin -p defaultdb

If the server says that it found prepared transactions, nobody was told that they
were committed: start it once with --tc-heuristic-recover=ROLLBACK added. Without the
password: start it with --skip-grant-tables added.
`, c.Series, c.Version, relocated, options)
}

func mySQLInstructions(c engine.Copied) string {
	keyring := ""
	if c.Encrypted {
		keyring = `
The data is encrypted at rest, and the file keyring opens it. The server loads its
component_keyring_file when a file mysqld.my beside the mysqld program says
{"read_local_manifest": true}, and component_keyring_file.cnf in the folder of its plugins
{"read_local_config": true}. Then:

    echo '{"components": "file://component_keyring_file"}' > data/mysqld.my
    echo "{\"path\": \"$PWD/keyring\", \"read_only\": false}" > data/component_keyring_file.cnf
`
	}
	return fmt.Sprintf(`You need MySQL %[1]s, %[2]s or a later %[1]s.x. data/ is a data folder, as a clone has it.
%[3]s
Start a server on it; data/server.log tells how it goes:

    mysqld --defaults-file="$PWD/my.cnf" --datadir="$PWD/data" &

Connect as dbadmin, with the password of the time of the backup:

    mysql --socket="$PWD/data/mysql.sock" -u dbadmin -p defaultdb

Without the password: start it with --skip-grant-tables added.
`, c.Series, c.Version, keyring)
}
