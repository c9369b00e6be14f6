package netns

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// Counters are how many bytes a node has received and sent by its network since that was made.
func (n *Network) Counters(number int) (received, sent uint64, err error) {
	link, err := netlink.LinkByName(n.linkName(number))
	if err != nil {
		return 0, 0, fmt.Errorf("counters of network %d: %w", number, err)
	}
	s := link.Attrs().Statistics
	if s == nil {
		return 0, 0, fmt.Errorf("counters of network %d: the kernel has none", number)
	}
	return s.TxBytes, s.RxBytes, nil // the link's other end is the node's
}
