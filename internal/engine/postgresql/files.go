package postgresql

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// Files are postgresql.conf, pg_hba.conf and an empty pg_ident.conf.
func (Driver) Files(n engine.Node) ([]engine.File, error) {
	major, err := majorOf(n.Installation)
	if err != nil {
		return nil, err
	}
	files := []engine.File{
		{Path: filepath.Join(n.Conf, serverConf), Content: renderSettings(settings(n), major)},
		{Path: filepath.Join(n.Conf, accessConf), Content: renderAccess(n.SSLConnection, n.Members > 1)},
		{Path: filepath.Join(n.Conf, identConf), Content: []byte("# Written by steward: nobody is mapped.\n")},
	}
	if n.Role == cluster.Replica {
		files = append(files,
			engine.File{Path: filepath.Join(n.Data, standbySignal), Content: []byte{}},
			engine.File{Path: passFile(n), Content: fmt.Appendf(nil, "*:*:*:%s:%s\n", adminRole, passEscape.Replace(n.AdminPassword))})
	}
	return files, nil
}

func renderSettings(all []setting, major int) []byte {
	var b strings.Builder
	b.WriteString("# Written by steward; changes are overwritten.\n")
	for _, s := range all {
		if major < s.since || s.until != 0 && major > s.until {
			continue
		}
		fmt.Fprintf(&b, "%s = '%s'\n", s.name, strings.ReplaceAll(s.value, "'", "''"))
	}
	return []byte(b.String())
}

// renderAccess lets our own account in by the socket alone, and customers by
// TCP alone. Nobody comes in without a password, and nobody but our own
// account replicates, where there are replicas.
func renderAccess(tlsRequired, replicated bool) []byte {
	replicas := ""
	if replicated {
		replicas = fmt.Sprintf("local    replication  %s  scram-sha-256\n", adminRole)
	}
	customers := "host"
	if tlsRequired {
		customers = "hostssl"
	}
	return fmt.Appendf(nil, `# Written by steward; changes are overwritten.
%[3]slocal    all          %[1]s  scram-sha-256
local    all          all      reject
host     replication  all      all          reject
host     all          %[1]s  all          reject
%-7[2]s  all          all      127.0.0.0/8  scram-sha-256
`, adminRole, customers, replicas)
}

// passEscape quotes what has a meaning in a password file.
var passEscape = strings.NewReplacer(`\`, `\\`, `:`, `\:`)

// majorOf is the release series as a number.
func majorOf(inst engine.Installation) (int, error) {
	major, err := strconv.Atoi(inst.Series)
	if err != nil {
		return 0, fmt.Errorf("release series of %s: %w", inst.ID(), err)
	}
	return major, nil
}
