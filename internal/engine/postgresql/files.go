package postgresql

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// Files are postgresql.conf, pg_hba.conf, an empty pg_ident.conf, and for a
// replica its password and what makes it start as one. The server itself removes
// the latter when it is promoted.
func (Driver) Files(n engine.Node) ([]engine.File, error) {
	major, err := majorOf(n.Installation)
	if err != nil {
		return nil, err
	}
	files := []engine.File{
		{Path: filepath.Join(n.Conf, serverConf), Content: renderSettings(settings(n), major)},
		{Path: filepath.Join(n.Conf, accessConf), Content: renderAccess(n)},
		{Path: filepath.Join(n.Conf, identConf), Content: []byte("# Written by steward: nobody is mapped.\n")},
	}
	files = append(files, scripts(n)...)
	if n.Role == cluster.Replica {
		files = append(files,
			engine.File{Path: filepath.Join(n.Run, passFile), Content: renderPassword(n.AdminPassword)},
			engine.File{Path: filepath.Join(n.Data, standbySignal)})
	}
	return files, nil
}

// quoted writes a value as it stands between quotes in postgresql.conf.
var quoted = strings.NewReplacer(`'`, `''`, `\`, `\\`)

func renderSettings(all []setting, major int) []byte {
	var b strings.Builder
	b.WriteString("# Written by steward; changes are overwritten.\n")
	for _, s := range all {
		if !s.concerns(major) {
			continue
		}
		fmt.Fprintf(&b, "%s = '%s'\n", s.name, quoted.Replace(s.value))
	}
	return []byte(b.String())
}

// renderAccess lets our own account in by the socket alone, and customers by
// TCP alone. Nobody logs in without a password, and nobody replicates but we
// ourselves, in a cluster of several nodes.
func renderAccess(n engine.Node) []byte {
	customers := "host"
	if n.SSLConnection {
		customers = "hostssl"
	}
	ours := ""
	if n.ClusterSize > 1 {
		ours = fmt.Sprintf("local    replication  %s  scram-sha-256\n", adminRole)
	}
	content := fmt.Appendf(nil, `# Written by steward; changes are overwritten.
local    all          %[1]s  scram-sha-256
%[2]slocal    all          all      reject
host     replication  all      all          reject
host     all          %[1]s  all          reject
`, adminRole, ours)
	if n.Pooler.IsValid() { // what it says was encrypted on the way to it
		content = fmt.Appendf(content, "host     all          all      %s/%d  scram-sha-256\n", n.Pooler, n.Pooler.BitLen())
	}
	clients := n.Clients
	if len(clients) == 0 {
		clients = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)}
	}
	for _, c := range clients {
		content = fmt.Appendf(content, "%-7s  all          all      %s  scram-sha-256\n", customers, c)
	}
	return content
}

// majorOf is the release series as a number.
func majorOf(inst engine.Installation) (int, error) {
	major, err := strconv.Atoi(inst.Series)
	if err != nil {
		return 0, fmt.Errorf("release series of %s: %w", inst.ID(), err)
	}
	return major, nil
}
