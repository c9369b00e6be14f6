//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Enabled reports whether this build can be killed at a failpoint.
const Enabled = true

var (
	hits atomic.Int64
	// wanted is the hit that kills, by its ordinal (0 kills never) or its name.
	wanted     = os.Getenv("STEWARD_FAILPOINT")
	ordinal, _ = strconv.ParseInt(wanted, 10, 64)
	logPath    = os.Getenv("STEWARD_FAILPOINT_LOG")
	armPath    = os.Getenv("STEWARD_FAILPOINT_ARMED")
	// ahead is by how much the clock is moved.
	ahead, _ = time.ParseDuration(os.Getenv("STEWARD_CLOCK_AHEAD"))
)

// Now is the clock, moved ahead by STEWARD_CLOCK_AHEAD.
func Now() time.Time { return time.Now().Add(ahead) }

// Here kills the process with SIGKILL when this is the wanted hit: STEWARD_FAILPOINT
// is its ordinal, or a name, of which it is the first hit then. Hits count
// from the moment the file named by STEWARD_FAILPOINT_ARMED exists (at once
// when none is named); each counted hit is appended to STEWARD_FAILPOINT_LOG.
func Here(name string) {
	if armPath != "" {
		if _, err := os.Stat(armPath); err != nil {
			return
		}
	}
	n := hits.Add(1)
	if logPath != "" {
		if f, err := os.OpenFile(logPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
			fmt.Fprintf(f, "%d %s\n", n, name)
			f.Close()
		}
	}
	if n == ordinal || name == wanted {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
