package kernel

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"steward/internal/nft"
)

// Tracked is how many connections the kernel tracks, of all programs, and how many it can.
func Tracked() (now, most int, err error) {
	for name, into := range map[string]*int{"nf_conntrack_count": &now, "nf_conntrack_max": &most} {
		content, err := os.ReadFile("/proc/sys/net/netfilter/" + name)
		if err != nil {
			return 0, 0, fmt.Errorf("tracked connections: %w", err)
		}
		if *into, err = strconv.Atoi(strings.TrimSpace(string(content))); err != nil {
			return 0, 0, fmt.Errorf("tracked connections: %w", err)
		}
	}
	return now, most, nil
}

// Available is nil when this process can use the kernel's tables, and says why not.
func Available() error {
	if os.Geteuid() != 0 {
		return errors.New("the kernel's tables need root")
	}
	// One that nobody else has, and that is gone at once.
	table, err := nft.Open(fmt.Sprintf("steward-try-%d", os.Getpid()))
	if err != nil {
		return fmt.Errorf("the kernel's tables (nf_tables) can't be used: %w", err)
	}
	defer table.Close()
	if err := table.Replace(plan{primary: loopback, secondary: loopback, rate: 1}.base()); err != nil {
		return fmt.Errorf("the kernel's tables (nf_tables) don't take what is needed: %w", errors.Join(err, table.Delete()))
	}
	// Rules that need modules of the kernel have it load them.
	if _, _, err := Tracked(); err != nil {
		return errors.Join(err, table.Delete())
	}
	return table.Delete()
}
