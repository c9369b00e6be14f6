package datadir

import (
	"errors"
	"strings"
	"testing"

	"steward/internal/platform/host"
)

func TestChooseDriver(t *testing.T) {
	t.Parallel()
	not := errors.New("the kernel's tables need root")
	for name, test := range map[string]struct {
		asked           string
		available       error
		running         host.Running
		driver, why, no string
	}{
		"auto":                             {asked: "auto", driver: "kernel", why: "allows"},
		"auto, where it can't":             {asked: "auto", available: not, driver: "haproxy", why: "need root"},
		"auto, beside servers of HAProxy":  {asked: "auto", running: host.Running{OnLoopback: 2}, driver: "haproxy", why: "stop --all"},
		"auto, beside servers in networks": {asked: "auto", running: host.Running{Networked: 2}, driver: "kernel", why: "allows"},
		"auto, and it can't any more":      {asked: "auto", available: not, running: host.Running{Networked: 2}, no: "need root"},
		"asked for":                        {asked: "kernel", driver: "kernel", why: "configured"},
		"asked for, where it can't":        {asked: "kernel", available: not, no: "gateway.driver is kernel: the kernel's tables need root"},
		"asked for, beside HAProxy's":      {asked: "kernel", running: host.Running{OnLoopback: 1}, no: "stop --all"},
		"HAProxy":                          {asked: "haproxy", available: not, driver: "haproxy", why: "configured"},
		"HAProxy, beside networks":         {asked: "haproxy", available: not, running: host.Running{Networked: 1}, no: "stop --all"},
	} {
		driver, why, err := chooseDriver(test.asked, test.available, test.running)
		if driver != test.driver || !strings.Contains(why, test.why) || (err != nil) != (test.no != "") || err != nil && !strings.Contains(err.Error(), test.no) {
			t.Errorf("%s: %q, %q, %v", name, driver, why, err)
		}
	}
}
