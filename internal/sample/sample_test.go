package sample

import (
	"testing"
)

func TestWhichDisksCount(t *testing.T) {
	t.Parallel()
	all := map[string]int{}
	counted := []string{"sda", "sdab", "vda", "xvda", "hda", "nvme0n1", "mmcblk0", "vdb1", "nvme1n1p2", "cciss/c0d0"}
	others := []string{"sda1", "sdab12", "xvda2", "nvme0n1p1", "mmcblk0p2", "loop0", "ram0", "zram0", "dm-3", "md127", "sr0", "fd0"}
	for _, name := range append(counted, others...) {
		all[name] = 0
	}
	for _, name := range counted {
		if !countsAsDisk(name, all) {
			t.Errorf("%s isn't counted", name)
		}
	}
	for _, name := range others {
		if countsAsDisk(name, all) {
			t.Errorf("%s is counted beside what it lies upon", name)
		}
	}
}

func TestWhichInterfacesCount(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"eth0", "enp3s0", "ens18", "eno1", "wlan0", "wlp2s0", "usb0", "venet0", "ib0"} {
		if !countsAsInterface(name) {
			t.Errorf("%s isn't counted", name)
		}
	}
	for _, name := range []string{"lo", "lo0", "veth12ab", "docker0", "br-1a2b", "br0", "virbr0", "tap0", "tun0", "wg0", "bond0", "eth0.100", "ifb0", "dummy0", "cali12", "flannel.1", "vnet3"} {
		if countsAsInterface(name) {
			t.Errorf("%s is counted beside what it goes through", name)
		}
	}
}
