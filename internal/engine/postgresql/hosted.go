package postgresql

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"steward/internal/engine"
	"steward/internal/scram"
)

var _ engine.Told = Driver{}

// FirstDatabase implements engine.Told.
func (Driver) FirstDatabase() (name, owner string) { return firstDatabase, customerRole }

// operatorRole is what CloudNativePG's servers follow each other as. A primary that was looks, as this role, into the administration's database of the one that
// is, with pg_rewind, before it follows: the guards would shut it out, since the operator makes the role only after them.
const operatorRole = "streaming_replica"

// superuser is who CloudNativePG itself logs in as.
const superuser = "postgres"

// Birth implements engine.Told. The databases that nobody works in become ours, as in a template: whatever is somebody
// else's is opened to customers who closed it.
func (Driver) Birth(n engine.Node) (engine.Birth, error) {
	major, err := majorOf(n.Installation)
	if err != nil {
		return engine.Birth{}, err
	}
	admin, err := scram.Verifier(n.AdminPassword, scram.OwnRounds)
	if err != nil {
		return engine.Birth{}, fmt.Errorf("password of %s: %w", adminRole, err)
	}
	root, err := scram.Verifier(n.RootPassword, scram.CustomerRounds)
	if err != nil {
		return engine.Birth{}, fmt.Errorf("password of %s: %w", customerRole, err)
	}
	guards, err := guardsOf(major)
	if err != nil {
		return engine.Birth{}, err
	}
	return engine.Birth{
		Administration: fmt.Sprintf(`DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '%[1]s') THEN CREATE ROLE %[1]s SUPERUSER LOGIN PASSWORD '%[2]s'; END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '%[3]s') THEN CREATE ROLE %[3]s LOGIN; END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '%[7]s') THEN CREATE ROLE %[7]s LOGIN REPLICATION; END IF;
END $$;
GRANT CONNECT ON DATABASE %[6]s TO %[7]s;
ALTER ROLE %[3]s LOGIN %[4]s PASSWORD '%[5]s';
ALTER DATABASE template0 OWNER TO %[1]s;
ALTER DATABASE template1 OWNER TO %[1]s;
ALTER DATABASE %[6]s OWNER TO %[1]s;
`, adminRole, admin, customerRole, rightsOf(major), root, adminDatabase, operatorRole),
		Template: guards,
		First:    closeFirstDatabase(major),
	}, nil
}

// closeFirstDatabase is what createFirstDatabase does beyond making it.
func closeFirstDatabase(major int) string {
	if major >= 16 {
		return ""
	}
	return fmt.Sprintf("REVOKE ALL ON DATABASE %s FROM PUBLIC;\n", firstDatabase)
}

// Settings implements engine.Told.
func (Driver) Settings(n engine.Node) (map[string]string, error) {
	major, err := majorOf(n.Installation)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, s := range settings(n) {
		if s.concerns(major) {
			all[s.name] = s.value
		}
	}
	return all, nil
}

// Access implements engine.Told. What isn't let in is refused: an operator may add a line that lets all in.
func (Driver) Access(n engine.Node, ours []netip.Prefix) []string {
	customers := "host"
	if n.SSLConnection {
		customers = "hostssl"
	}
	var rules []string
	for _, p := range ours {
		rules = append(rules, fmt.Sprintf("hostssl all %s,%s %s scram-sha-256", adminRole, customerRole, p))
	}
	rules = append(rules, fmt.Sprintf("host all %s all reject", adminRole))
	for _, p := range n.Clients {
		rules = append(rules, fmt.Sprintf("%s all all %s scram-sha-256", customers, p))
	}
	return append(rules, "host all all all reject")
}

// markSetting is one that means nothing to the server.
const markSetting = "steward.mark"

// Mark implements engine.Told. The rule is for a database that there isn't, and refuses.
func (Driver) Mark(mark string) (setting, value, rule string) {
	return markSetting, mark, fmt.Sprintf("host %s all 255.255.255.255/32 reject", mark)
}

// Marked implements engine.Told. The rules are seen as they lie on the disk: that the server has read them too is sure
// once it has been told to afterwards.
func (Driver) Marked(ctx context.Context, n engine.Node, mark string) (bool, error) {
	look := fmt.Sprintf(`SELECT coalesce(pg_catalog.current_setting('%s', true), '') = '%s',
		EXISTS (SELECT FROM pg_catalog.pg_hba_file_rules WHERE '%[2]s' = ANY (database))`, markSetting, literal(mark))
	row, err := askOne(ctx, n, look)
	if err != nil {
		return false, fmt.Errorf("look for what was read: %w", err)
	}
	if row[0] != "t" || row[1] != "t" {
		return false, nil
	}
	restart, err := Driver{}.Reload(ctx, n)
	return err == nil && !restart, err
}

// KeepSessions implements engine.Hosted.
func (Driver) KeepSessions(ctx context.Context, n engine.Node, from []netip.Prefix) error {
	allowed := make([]string, len(from))
	for i, p := range from {
		allowed[i] = "'" + p.String() + "'"
	}
	_, err := ask(ctx, n, fmt.Sprintf(`SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
		WHERE %s AND client_addr IS NOT NULL AND NOT client_addr <<= ANY (ARRAY[%s]::inet[])`, customersSessions, strings.Join(allowed, ", ")))
	if err != nil {
		return fmt.Errorf("end sessions from elsewhere: %w", err)
	}
	return nil
}

// Seal implements engine.Told. The message is one of logical decoding, which nobody here does.
func (Driver) Seal(ctx context.Context, n engine.Node) (string, error) {
	if _, err := ask(ctx, n, "SELECT pg_catalog.pg_logical_emit_message(true, 'steward', ''::pg_catalog.text)"); err != nil {
		return "", fmt.Errorf("commit a message: %w", err)
	}
	row, err := askOne(ctx, n, "SELECT pg_catalog.pg_walfile_name(pg_catalog.pg_switch_wal())")
	if err != nil {
		return "", fmt.Errorf("end a file of WAL: %w", err)
	}
	return row[0], nil
}

// UsedBytes implements engine.Hosted.
func (Driver) UsedBytes(ctx context.Context, n engine.Node) (int64, error) {
	row, err := askOne(ctx, n, `SELECT ((SELECT pg_catalog.sum(pg_catalog.pg_tablespace_size(oid)) FROM pg_catalog.pg_tablespace)
		+ (SELECT coalesce(pg_catalog.sum(size), 0) FROM pg_catalog.pg_ls_waldir()))::bigint`)
	if err != nil {
		return 0, fmt.Errorf("ask for the data's size: %w", err)
	}
	return strconv.ParseInt(row[0], 10, 64)
}
