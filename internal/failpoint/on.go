//go:build failpoint

package failpoint

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Enabled reports whether this build can be killed at a failpoint.
const Enabled = true

var (
	// fromStart is the hit that kills, by its ordinal (0 kills never) or its name.
	fromStart = os.Getenv("STEWARD_FAILPOINT")
	logPath   = os.Getenv("STEWARD_FAILPOINT_LOG")
	armPath   = os.Getenv("STEWARD_FAILPOINT_ARMED")
	// ahead is by how much the clock is moved.
	ahead, _ = time.ParseDuration(os.Getenv("STEWARD_CLOCK_AHEAD"))
	// minute is what idle minutes are measured in, if it is set.
	minute, _ = time.ParseDuration(os.Getenv("STEWARD_MINUTE"))
	// readings is how many are taken of a database for each one that is kept, if it is set.
	readings, _ = strconv.Atoi(os.Getenv("STEWARD_READINGS"))
)

// counter counts the hits since the armed file has had its content.
var counter struct {
	sync.Mutex
	armed string
	hits  int64
}

// Minute is a minute, or STEWARD_MINUTE.
func Minute() time.Duration { return cmp.Or(minute, time.Minute) }

// Readings is how many are taken of a database for each one that is kept: 1, or STEWARD_READINGS.
func Readings() int { return max(1, readings) }

// Now is the clock, moved ahead by STEWARD_CLOCK_AHEAD.
func Now() time.Time { return time.Now().Add(ahead) }

// Here kills the process with SIGKILL when this is the wanted hit: STEWARD_FAILPOINT
// is its ordinal, or a name, of which it is the first hit then. Hits count
// from the moment the file named by STEWARD_FAILPOINT_ARMED exists (at once
// when none is named); each counted hit is appended to STEWARD_FAILPOINT_LOG.
// The first line of that file, if it holds anything, takes the place of
// STEWARD_FAILPOINT; when what the file holds changes, hits count from 1 again.
func Here(name string) {
	wanted, n := count()
	if n == 0 {
		return
	}
	if logPath != "" {
		if f, err := os.OpenFile(logPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
			fmt.Fprintf(f, "%d %s\n", n, name)
			f.Close()
		}
	}
	if strconv.FormatInt(n, 10) == wanted || name == wanted {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// count returns which hit kills, and which this one is: 0 when hits don't count.
func count() (wanted string, n int64) {
	wanted, armed := fromStart, ""
	if armPath != "" {
		text, err := os.ReadFile(armPath)
		if err != nil {
			return "", 0
		}
		armed = string(text)
		if first, _, _ := strings.Cut(armed, "\n"); first != "" {
			wanted = first
		}
	}
	counter.Lock()
	defer counter.Unlock()
	if counter.armed != armed {
		counter.armed, counter.hits = armed, 0
	}
	counter.hits++
	return wanted, counter.hits
}
