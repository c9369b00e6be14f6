package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// configName is the rendered file; access lists are in the folder aclDir beside
// it. HAProxy is started in the folder of both: names in the file, which are
// also how the runtime API knows a list, are relative.
const (
	configName = "haproxy.cfg"
	aclDir     = "acl"
	jailDir    = "jail"
)

// config is all that the rendered files depend on.
type config struct {
	// Primary and Secondary are the gateway's own addresses.
	Primary, Secondary netip.Addr
	// Socket is the path of the runtime API.
	Socket  string
	MaxConn int
	// User and Group are whom HAProxy becomes, shut into an empty folder, once
	// it listens; 0 for no change.
	User, Group int
	// Ports have frontends; those without a route are blocked.
	Ports  []int
	Routes map[int]Route
}

func (c config) address(which role) netip.Addr {
	if which == reads {
		return c.Secondary
	}
	return c.Primary
}

// families are the address families of the frontends.
func (c config) families() []family {
	p, s := familyOf(c.Primary), familyOf(c.Secondary)
	if p == s {
		return []family{p}
	}
	return []family{p, s}
}

// proxyName names the frontend and the backend of a port.
func proxyName(which role, port int) string { return fmt.Sprintf("%s-%d", which, port) }

func serverName(slot int) string { return fmt.Sprintf("s%d", slot) }

// sharing is the server of reads that is none: nobody is sent to it, and while
// it is ready, reads go through the primary's backend.
func sharing() string { return serverName(readServers) }

// aclName is the file, and the runtime API's name, of a port's access list.
func aclName(port int, f family) string { return fmt.Sprintf("%s/%d-%d", aclDir, port, f) }

// fingerprint changes with everything a running HAProxy can't be taught through
// the runtime API. A process with another one is replaced.
func (c config) fingerprint() string {
	c.Socket, c.Ports, c.Routes = "", []int{1}, nil
	sum := sha256.Sum256([]byte(c.main("")))
	return "steward-" + hex.EncodeToString(sum[:8])
}

// render is the content of every file that HAProxy reads, by name.
func render(c config) map[string]string {
	files := map[string]string{configName: c.main(c.fingerprint())}
	for _, port := range c.Ports {
		for _, f := range c.families() {
			var list strings.Builder
			for _, p := range c.Routes[port].patterns(f) {
				list.WriteString(p + "\n")
			}
			files[aclName(port, f)] = list.String()
		}
	}
	return files
}

// Source is the address that servers see all customers come from. It is nobody
// else's: an account that a server takes from any other address alone, such as
// that of replicas, is out of customers' reach, whoever knows its password.
const Source = "127.0.78.1"

// Holding: a connection to a database without a server, or whose server refuses,
// is tried again after min(timeout connect, 1 s), up to retries times, each time
// with the server of that moment. Servers are on loopback, where connecting takes
// no time: the short timeout makes a customer who connects in the middle of a
// failover wait a tenth of a second too long at worst, and ten seconds in all.
const defaults = `
defaults
    mode tcp
    timeout connect 100ms
    timeout queue 20s
    retries 100
    option redispatch 1
    timeout client 24d
    timeout server 24d
    timeout client-fin 30s
    timeout server-fin 30s
    option clitcpka
    clitcpka-idle 60s
    clitcpka-intvl 15s
    clitcpka-cnt 4
    option srvtcpka
    srvtcpka-idle 60s
    srvtcpka-intvl 15s
    srvtcpka-cnt 4
    balance leastconn
    source ` + Source + `
`

// A source that has more than fewConnections gets none of the last ones: spare are
// for others. Servers drop who doesn't log in; waiting takes longer than that.
const (
	fewConnections = 4
	spare          = 4
)

// frontendMax bounds the connections of one end of one port, so that none can
// take all of the gateway's.
const frontendMax = 2000

func (c config) main(description string) string {
	var b strings.Builder
	b.WriteString("# Written by steward when this generation of HAProxy was started. Changes since\n" +
		"# then were made through the runtime API; the folder routes has them.\n")
	fmt.Fprintf(&b, "global\n    description %s\n", description)
	fmt.Fprintf(&b, "    stats socket %s mode 600 level admin expose-fd listeners\n    stats timeout 1m\n", c.Socket)
	fmt.Fprintf(&b, "    maxconn %d\n    nbthread 1\n", c.MaxConn)
	if c.User != 0 {
		fmt.Fprintf(&b, "    chroot %s\n    uid %d\n    gid %d\n", jailDir, c.User, c.Group)
	}
	b.WriteString(defaults)
	for _, port := range c.Ports {
		for _, which := range []role{primary, reads} {
			c.proxy(&b, which, port)
		}
	}
	return b.String()
}

// proxy renders the frontend and the backend of one end of a port. They are
// apart so that the frontend alone can be shut down later: connections that
// wait in the backend still find their server.
func (c config) proxy(b *strings.Builder, which role, port int) {
	name, address := proxyName(which, port), c.address(which)
	fmt.Fprintf(b, "\nfrontend %s\n", name)
	fmt.Fprintf(b, "    bind %s\n", netip.AddrPortFrom(address, uint16(port)))
	fmt.Fprintf(b, "    maxconn %d\n", min(frontendMax, c.MaxConn))
	fmt.Fprintf(b, "    tcp-request connection reject unless { src -f %s }\n", aclName(port, familyOf(address)))
	backend := proxyName(which, port)
	fmt.Fprintf(b, "    tcp-request connection track-sc0 src table %s\n", proxyName(primary, port))
	if which == reads {
		shared := fmt.Sprintf("{ srv_is_up(%s/%s) }", backend, sharing())
		c.crowd(b, proxyName(primary, port), " "+shared)
		c.crowd(b, backend, " !"+shared)
		fmt.Fprintf(b, "    use_backend %s if %s\n", proxyName(primary, port), shared)
	} else {
		fmt.Fprintf(b, "    stick-table type ipv6 size 16k expire 1m store conn_cur\n")
		c.crowd(b, backend, "")
	}
	fmt.Fprintf(b, "    default_backend %s\nbackend %s\n", backend, backend)
	for i, s := range c.Routes[port].servers(which) {
		fmt.Fprintf(b, "    server %s %s", serverName(i), s.address)
		if s.connections > 0 {
			fmt.Fprintf(b, " maxconn %d", s.connections)
		}
		if which == reads && serverName(i) == sharing() {
			b.WriteString(" weight 0")
		}
		if s.maintenance {
			b.WriteString(" disabled")
		}
		b.WriteByte('\n')
	}
}

// crowd rejects a source that has some connections while a backend has few left.
// It is a rule of the content, which HAProxy evaluates in the same step as it takes
// a server for the connection: a rule of the connection judges all of a burst before
// the first of them counts.
func (c config) crowd(b *strings.Builder, backend, condition string) {
	fmt.Fprintf(b, "    tcp-request content reject if { sc0_conn_cur gt %d } { be_conn_free(%s) 0:%d }%s\n", fewConnections, backend, spare-1, condition)
}
