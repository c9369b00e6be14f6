package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	handles "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Available is nil when this process can make networks, and says why not: in containers root alone isn't enough.
func Available() (err error) {
	if os.Geteuid() != 0 {
		return fmt.Errorf("networks of servers' own need root")
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("networks of servers' own can't be made: %w", err)
		}
	}()
	if now, err := os.ReadFile(forwardSetting); err != nil {
		return err
	} else if strings.TrimSpace(string(now)) == "0" && unix.Access(forwardSetting, unix.W_OK) != nil {
		return fmt.Errorf("%s is 0 and can't be changed", forwardSetting)
	}
	dir, err := os.MkdirTemp("", "steward-network-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "try")
	if err := makeNamespace(path); err != nil {
		return err
	}
	defer func() {
		if left := removeNamespace(path); err == nil {
			err = left
		}
	}()
	there, err := handles.GetFromPath(path)
	if err != nil {
		return err
	}
	defer there.Close()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = fmt.Sprintf("swtry%d", os.Getpid()) // the longest process id fits
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: inner, PeerNamespace: netlink.NsFd(there)}); err != nil {
		return err
	}
	link, err := netlink.LinkByName(attributes.Name)
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}
