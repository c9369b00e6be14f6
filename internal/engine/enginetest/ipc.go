package enginetest

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// removeSharedMemory removes what a killed PostgreSQL leaves in the kernel: a
// segment of System V's shared memory that only its next start would remove.
func removeSharedMemory(t *testing.T, creator int) {
	t.Helper()
	content, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		return // a kernel without System V's shared memory has none to remove
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] != strconv.Itoa(creator) {
			continue
		}
		id, err := strconv.Atoi(fields[1])
		must(t, err, "read list of shared memory")
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		must(t, err, "remove shared memory")
	}
}
