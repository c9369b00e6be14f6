package sample

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
)

// fields are the lines of a file of the kernel's, cut at white space.
func fields(t *testing.T, path string) [][]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var lines [][]string
	for s := bufio.NewScanner(file); s.Scan(); {
		lines = append(lines, strings.Fields(strings.Replace(s.Text(), ":", " ", 1)))
	}
	return lines
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// kernel reads what Host is to read, from /proc itself (proc_stat(5), proc_diskstats(5),
// proc_net(5), proc_meminfo(5)).
func kernel(t *testing.T) (busy, disk, in, out map[string]float64, swap float64) {
	t.Helper()
	busy, disk, in, out = map[string]float64{}, map[string]float64{}, map[string]float64{}, map[string]float64{}
	const ticks, sector = 100, 512
	for _, f := range fields(t, "/proc/stat") {
		if strings.HasPrefix(f[0], "cpu") && f[0] != "cpu" {
			// user, nice, system; then idle and iowait; irq, softirq.
			busy[f[0]] = (number(t, f[1]) + number(t, f[2]) + number(t, f[3]) + number(t, f[6]) + number(t, f[7])) / ticks
		}
	}
	for _, f := range fields(t, "/proc/diskstats") {
		disk[f[2]] = (number(t, f[5]) + number(t, f[9])) * sector
	}
	for _, f := range fields(t, "/proc/net/dev")[2:] {
		in[f[0]], out[f[0]] = number(t, f[1]), number(t, f[9])
	}
	memory := map[string]float64{}
	for _, f := range fields(t, "/proc/meminfo") {
		memory[f[0]] = number(t, f[1]) * 1024
	}
	return busy, disk, in, out, memory["SwapTotal"] - memory["SwapFree"]
}

// TestHost: the host's counters lie between what the kernel says before and after.
func TestHost(t *testing.T) {
	t.Parallel()
	busyBefore, diskBefore, inBefore, outBefore, _ := kernel(t)
	got, err := Host(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	busyAfter, diskAfter, inAfter, outAfter, swap := kernel(t)
	between := func(what string, before, after, got map[string]float64, counts func(string) bool, slack float64) {
		for device, v := range got {
			if !counts(device) {
				t.Errorf("%s of %s is counted", what, device)
			}
			if v < before[device]-slack || v > after[device]+slack {
				t.Errorf("%s of %s is %v, the kernel says %v and then %v", what, device, v, before[device], after[device])
			}
		}
		for device := range before {
			if _, found := got[device]; !found && counts(device) {
				t.Errorf("%s of %s is missing", what, device)
			}
		}
	}
	all := func(string) bool { return true }
	disks := func(name string) bool { return countsAsDisk(name, diskBefore) }
	between("time", busyBefore, busyAfter, got.Busy, all, 0.001)
	between("traffic", diskBefore, diskAfter, got.Disk, disks, 0)
	between("input", inBefore, inAfter, got.In, countsAsInterface, 0)
	between("output", outBefore, outAfter, got.Out, countsAsInterface, 0)
	if len(got.Busy) == 0 || got.At.IsZero() {
		t.Errorf("read %+v", got)
	}
	// Others may swap meanwhile.
	if got.Swap == nil || *got.Swap < swap-64<<20 || *got.Swap > swap+64<<20 {
		t.Errorf("swap in use is %v, the kernel says %v", got.Swap, swap)
	}
}
