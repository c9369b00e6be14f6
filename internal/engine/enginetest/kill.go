package enginetest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"

	"steward/internal/await"
)

// killTree kills a process and all its descendants. The first one is stopped
// before they are listed, so that none is born meanwhile; children in sessions
// of their own, as PostgreSQL's are, are found by their parent.
func killTree(t *testing.T, pid int) {
	t.Helper()
	syscall.Kill(pid, syscall.SIGSTOP)
	await.True(t, fmt.Sprintf("process %d stands still", pid), func() bool { return !running(pid) }) // a signal is seen a moment later
	pids := append(descendants(pid), pid)
	for _, p := range pids {
		syscall.Kill(p, syscall.SIGKILL)
	}
	for _, p := range pids {
		await.True(t, fmt.Sprintf("process %d ends after SIGKILL", p), func() bool { return !alive(p) })
	}
}

func descendants(pid int) []int {
	children := map[int][]int{}
	for _, child := range processes() {
		if _, parent, ok := readStat("/proc/" + strconv.Itoa(child) + "/stat"); ok {
			children[parent] = append(children[parent], child)
		}
	}
	var all []int
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		all = append(all, children[queue[0]]...)
		queue = append(queue, children[queue[0]]...)
	}
	return all
}

func processes() (pids []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// running is false for what is stopped, too.
func running(pid int) bool {
	state, _, ok := readStat("/proc/" + strconv.Itoa(pid) + "/stat")
	return ok && state != "T" && state != "t" && state != "Z" && state != "X"
}

// alive is false for zombies: they hold nothing.
func alive(pid int) bool {
	state, _, ok := readStat("/proc/" + strconv.Itoa(pid) + "/stat")
	return ok && state != "Z" && state != "X"
}

func readStat(name string) (state string, parent int, ok bool) {
	content, err := os.ReadFile(name)
	if err != nil {
		return "", 0, false
	}
	// The command's name, in brackets, may hold anything.
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return string(fields[0]), parent, err == nil
}
