package sample

import (
	"context"
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"

	"steward/internal/monitor"
)

// Host reads this machine's counters.
func Host(ctx context.Context) (monitor.Reading, error) {
	r := monitor.Reading{At: time.Now(), Busy: monitor.Counters{}, Disk: monitor.Counters{}, In: monitor.Counters{}, Out: monitor.Counters{}}
	cores, err := cpu.TimesWithContext(ctx, true)
	if err != nil {
		return r, fmt.Errorf("read times of the cores: %w", err)
	}
	for _, c := range cores {
		// Guests' time is in User's and Nice's already (proc_stat(5)); stolen time
		// was another machine's.
		r.Busy[c.CPU] = c.User + c.Nice + c.System + c.Irq + c.Softirq
	}
	disks, err := disk.IOCountersWithContext(ctx)
	if err != nil {
		return r, fmt.Errorf("read counters of the disks: %w", err)
	}
	for name, d := range disks {
		if countsAsDisk(name, disks) {
			r.Disk[name] = float64(d.ReadBytes) + float64(d.WriteBytes)
		}
	}
	interfaces, err := net.IOCountersWithContext(ctx, true)
	if err != nil {
		return r, fmt.Errorf("read counters of the network: %w", err)
	}
	for _, i := range interfaces {
		if countsAsInterface(i.Name) {
			r.In[i.Name], r.Out[i.Name] = float64(i.BytesRecv), float64(i.BytesSent)
		}
	}
	swap, err := mem.SwapMemoryWithContext(ctx)
	if err != nil {
		return r, fmt.Errorf("read use of swap: %w", err)
	}
	r.Swap = new(float64(swap.Used))
	return r, nil
}
