// Package sample reads how busy machines are: this one from its kernel, others
// from the text of their Prometheus node_exporter.
package sample

import (
	"regexp"
	"strings"
)

// A device that stands for others must not be counted beside them.
var (
	// virtualDisk are those that lie in memory, in files or upon other disks.
	virtualDisk = regexp.MustCompile(`^(loop|ram|zram|fd|sr|dm-|md|nbd)`)
	// partition is one of the disk that its first group names.
	partition = regexp.MustCompile(`^((?:[hsv]|xv)d[a-z]+|(?:nvme\d+n|mmcblk)\d+)p?\d+$`)
	// virtualInterface are loops, bridges, tunnels, bundles, and the ends of containers'
	// and machines' links: what goes through them goes through a real one, too, or stays here.
	virtualInterface = regexp.MustCompile(`^(lo\d*$|veth|docker|br-|br\d|virbr|vnet|tap|tun|wg|dummy|ifb|bond|team|cni|cali|flannel|vxlan|geneve|gre|sit|ip6|podman|lxc|kube)`)
)

// countsAsDisk reports whether a disk is counted; all holds every disk there is. A
// partition counts where its disk isn't shown, as on some virtual machines.
func countsAsDisk[V any](name string, all map[string]V) bool {
	if virtualDisk.MatchString(name) {
		return false
	}
	if part := partition.FindStringSubmatch(name); part != nil {
		_, shown := all[part[1]]
		return !shown
	}
	return true
}

// countsAsInterface reports whether a network interface is counted. One with a
// dot is a VLAN on another one.
func countsAsInterface(name string) bool {
	return !virtualInterface.MatchString(name) && !strings.Contains(name, ".")
}
