package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// clockTick is USER_HZ, fixed at 100 on Linux for what /proc shows.
const clockTick = 100

// CPUSeconds is the processor time the processes have used so far.
func CPUSeconds(pids ...int) float64 {
	var ticks float64
	for _, pid := range pids {
		fields := statFields(pid)
		if len(fields) < 13 {
			continue
		}
		user, _ := strconv.ParseFloat(fields[11], 64)
		system, _ := strconv.ParseFloat(fields[12], 64)
		ticks += user + system
	}
	return ticks / clockTick
}

// TreeCPUSeconds is what processes and all that they have started have used, those of their own children included that have ended.
func TreeCPUSeconds(pids ...int) float64 {
	sum := CPUSeconds(Descendants(pids...)...)
	for _, pid := range pids {
		if fields := statFields(pid); len(fields) >= 15 {
			user, _ := strconv.ParseFloat(fields[13], 64)
			system, _ := strconv.ParseFloat(fields[14], 64)
			sum += (user + system) / clockTick
		}
	}
	return sum
}

// statFields are those of /proc/PID/stat after the command's name.
func statFields(pid int) []string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.Fields(rest)
}

// Descendants are the processes themselves and all that they started.
func Descendants(roots ...int) []int {
	children := map[int][]int{}
	paths, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range paths {
		pid, _ := strconv.Atoi(filepath.Base(path))
		if fields := statFields(pid); len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	all := append([]int{}, roots...)
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// ResidentBytes is the memory a process holds.
func ResidentBytes(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// ProportionalBytes is the memory that processes hold, of what several share their part: that counts once when all of them are named.
func ProportionalBytes(pids ...int) (sum int64) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(text), "\nPss:")
		fields := strings.Fields(after)
		if len(fields) == 0 {
			continue
		}
		kilobytes, _ := strconv.ParseInt(fields[0], 10, 64)
		sum += kilobytes << 10
	}
	return sum
}

// node is one line of `steward node list --json`.
type node struct {
	Cluster int64  `json:"cluster"`
	Address string `json:"address"`
	PID     int    `json:"pid"`
}

// NodeAddress is the loopback address of a database's first node, behind the gateway.
func (s *Server) NodeAddress(d Database) string {
	s.t.Helper()
	out, err := s.Command("node", "list", "--data", s.Data, "--cluster", fmt.Sprint(d.ID), "--json")
	if err != nil {
		s.t.Fatalf("node list: %v\n%s", err, out)
	}
	var nodes []node
	if err := json.Unmarshal([]byte(out), &nodes); err != nil || len(nodes) == 0 {
		s.t.Fatalf("node list printed %s: %v", out, err)
	}
	host, _, _ := strings.Cut(nodes[0].Address, ":")
	return host
}

// StoreURL is how to connect to the server's embedded store.
func (s *Server) StoreURL() string {
	s.t.Helper()
	password, err := os.ReadFile(filepath.Join(s.Data, "store", "password"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, line := range s.Processes() {
		if _, after, ok := strings.Cut(line, " -k "); ok && strings.Contains(line, filepath.Join(s.Data, "store")) {
			socket, _, _ := strings.Cut(after, " ")
			return "host=" + socket + " user=steward dbname=steward password=" + strings.TrimSpace(string(password))
		}
	}
	s.t.Fatal("the store isn't running")
	return ""
}

// Fill puts a file of that size beside a database's own, which counts as its data does.
func (s *Server) Fill(d Database, bytes int64) {
	s.t.Helper()
	f, err := os.Create(filepath.Join(s.Data, "clusters", fmt.Sprint(d.ID), "node-0", "log", "filler"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, bytes); err != nil {
		s.t.Fatal(err)
	}
}
