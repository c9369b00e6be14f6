package postgresql

import (
	"path/filepath"

	"steward/internal/engine"
)

// serverConf and accessConf are the files in Node.Conf.
const (
	serverConf = "postgresql.conf"
	accessConf = "pg_hba.conf"
	identConf  = "pg_ident.conf"
)

// passFile is in Node.Run, whose files are the server's alone: libpq ignores
// passwords that a group can read.
const passFile = "source.pass"

// standbySignal in Node.Data makes a server start as a replica.
const standbySignal = "standby.signal"

// Process is the command line of the server: the postmaster itself, no pg_ctl.
func (Driver) Process(n engine.Node) engine.Process {
	return engine.Process{
		Argv: n.Installation.Program("postgres", "-D", n.Data,
			"-c", "config_file="+filepath.Join(n.Conf, serverConf)),
		Env: append(environment(),
			// The platform protects the first process from the kernel's
			// out-of-memory killer; the children, which use the memory, give
			// that protection up.
			"PG_OOM_ADJUST_FILE=/proc/self/oom_score_adj", "PG_OOM_ADJUST_VALUE=0"),
	}
}

func environment() []string {
	return []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"}
}
