package postgresql

import (
	"archive/tar"
	"fmt"
	"io"
	"slices"

	"steward/internal/engine"
)

// exportedServer listens where nobody else does: a socket in the data folder.
const exportedServer = `# Written by steward backup export; it is yours to change. To let clients
# connect over the network: listen_addresses = '*', and a line in pg_hba.conf.
listen_addresses = ''
unix_socket_directories = '.'
unix_socket_permissions = 0700
`

const exportedAccess = `# Written by steward backup export; it is yours to change.
local all all scram-sha-256
host  all all samenet scram-sha-256
`

// Export implements engine.Exporter.
func (Driver) Export(c engine.Copied, r io.Reader, w *tar.Writer) error {
	replaced := func(name string) bool { return slices.Contains(leftovers, name) }
	if err := engine.Retar(r, w, c, "data", replaced); err != nil {
		return err
	}
	for _, f := range []engine.File{
		{Path: "data/" + serverConf, Content: []byte(exportedServer)},
		{Path: "data/" + accessConf, Content: []byte(exportedAccess)},
		{Path: "data/" + identConf},
	} {
		if err := engine.AddFile(w, c, f.Path, f.Content); err != nil {
			return err
		}
	}
	return nil
}

// Instructions implements engine.Exporter.
func (Driver) Instructions(c engine.Copied) string {
	return fmt.Sprintf(`You need PostgreSQL %[1]s, %[2]s or a later %[1]s.x (on Debian its programs are in
/usr/lib/postgresql/%[1]s/bin). data/ is a data folder with the write-ahead log that
belongs to it. The server replays that when it first starts, and is ready then:

    pg_ctl -D data -l data/server.log -w -t 3600 start

Connect as dbadmin, with the password of the time of the backup:

    psql -h "$PWD/data" -U dbadmin defaultdb

Stop it again:

    pg_ctl -D data stop

Without the password: write trust instead of scram-sha-256 in the first line of
data/pg_hba.conf, and connect as the superuser steward.

The server listens on a socket in data/ only. data/postgresql.conf and
data/pg_hba.conf are where to change that. If the full name of the folder is longer
than 90 letters, unpack it where it is shorter: sockets have short names.

On a system with another C library than the one the data was written on, texts may
sort otherwise: run REINDEX DATABASE in each database first.
`, c.Series, c.Version)
}
