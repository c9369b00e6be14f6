package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// floorName is the target that others are compared with.
const floorName = "by hand"

// Result is what the runs on one target came to.
type Result struct {
	Target string `json:"target"`
	Engine string `json:"engine"`
	// Bytes is how much data the server says it has, Stored how large the backup is.
	Bytes    int64  `json:"bytes"`
	Stored   int64  `json:"stored_bytes"`
	Backups  []Run  `json:"backups"`
	Restores []Run  `json:"restores,omitempty"`
	Loads    []Load `json:"loads,omitempty"`
	// The medians by the floor's.
	Backup  Ratio `json:"backup_by_floor"`
	Restore Ratio `json:"restore_by_floor"`
}

// Run is one backup or restore: seconds, and bytes of memory.
type Run struct {
	Wall float64 `json:"wall_s"`
	CPU  float64 `json:"cpu_s"`
	Peak int64   `json:"peak_bytes,omitempty"`
}

func (r Run) String() string {
	text := fmt.Sprintf("%.1f s, cpu %.1f s", r.Wall, r.CPU)
	if r.Peak > 0 {
		text += fmt.Sprintf(", peak %d MiB", r.Peak>>20)
	}
	return text
}

// Load is what writers got, in writes a second, around and during a backup.
type Load struct {
	Before float64 `json:"before"`
	During float64 `json:"during"`
	After  float64 `json:"after"`
	// Kept is During by the mean of the others.
	Kept   float64 `json:"kept"`
	Backup Run     `json:"backup"`
}

// Ratio is a target's median by the floor's, 0 for the floor itself.
type Ratio struct {
	Wall float64 `json:"wall,omitempty"`
	CPU  float64 `json:"cpu,omitempty"`
}

// middle is the median of each figure by itself, by nearest rank, and the
// largest peak.
func middle(runs []Run) Run {
	if len(runs) == 0 {
		return Run{}
	}
	var wall, cpu []float64
	var m Run
	for _, r := range runs {
		wall, cpu, m.Peak = append(wall, r.Wall), append(cpu, r.CPU), max(m.Peak, r.Peak)
	}
	slices.Sort(wall)
	slices.Sort(cpu)
	m.Wall, m.CPU = wall[(len(wall)-1)/2], cpu[(len(cpu)-1)/2]
	return m
}

// keptOf is the median of what writers kept.
func keptOf(loads []Load) float64 {
	var kept []float64
	for _, l := range loads {
		kept = append(kept, l.Kept)
	}
	slices.Sort(kept)
	return kept[(len(kept)-1)/2]
}

// compare sets the ratios of all but the floors.
func compare(results []Result) {
	for i := range results {
		r := &results[i]
		at := slices.IndexFunc(results, func(f Result) bool { return f.Target == floorName && f.Engine == r.Engine })
		if at < 0 || r.Target == floorName {
			continue
		}
		r.Backup = by(middle(r.Backups), middle(results[at].Backups))
		r.Restore = by(middle(r.Restores), middle(results[at].Restores))
	}
}

func by(a, floor Run) Ratio {
	if floor.Wall == 0 || floor.CPU == 0 {
		return Ratio{}
	}
	return Ratio{a.Wall / floor.Wall, a.CPU / floor.CPU}
}

func printTable(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "engine\ttarget\tdata\tstored\tbackup\tcpu\tby floor\tcpu by floor\trestore\tcpu\tby floor\tcpu by floor\tpeak memory\twriters keep")
	for _, r := range results {
		backup, restore := middle(r.Backups), middle(r.Restores)
		peak, kept := max(backup.Peak, restore.Peak), "-"
		for _, l := range r.Loads {
			peak, kept = max(peak, l.Backup.Peak), fmt.Sprintf("%.2f", keptOf(r.Loads))
		}
		memory := "-"
		if peak > 0 {
			memory = fmt.Sprintf("%d MiB", peak>>20)
		}
		fmt.Fprintf(t, "%s\t%s\t%d MB\t%d MB\t%.1f s\t%.1f s\t%s\t%s\t%.1f s\t%.1f s\t%s\t%s\t%s\t%s\n", r.Engine, r.Target, r.Bytes/1e6, r.Stored/1e6,
			backup.Wall, backup.CPU, ratio(r.Backup.Wall), ratio(r.Backup.CPU), restore.Wall, restore.CPU, ratio(r.Restore.Wall), ratio(r.Restore.CPU), memory, kept)
	}
	return t.Flush()
}

func ratio(r float64) string {
	if r == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", r)
}
