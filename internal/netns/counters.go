package netns

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// endCounting closes the socket that counters are asked for by.
func (n *Network) endCounting() {
	n.counting.Lock()
	defer n.counting.Unlock()
	if n.counter != nil {
		n.counter.Close()
		n.counter = nil
	}
}

// Counters are how many bytes a node has received and sent by its network since that was made.
func (n *Network) Counters(number int) (received, sent uint64, err error) {
	n.counting.Lock()
	if n.counter == nil {
		if n.counter, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			n.counter = nil
			n.counting.Unlock()
			return 0, 0, fmt.Errorf("counters of network %d: %w", number, err)
		}
	}
	link, err := n.counter.LinkByName(n.linkName(number))
	n.counting.Unlock()
	if err != nil {
		return 0, 0, fmt.Errorf("counters of network %d: %w", number, err)
	}
	s := link.Attrs().Statistics
	if s == nil {
		return 0, 0, fmt.Errorf("counters of network %d: the kernel has none", number)
	}
	return s.TxBytes, s.RxBytes, nil // the link's other end is the node's
}
