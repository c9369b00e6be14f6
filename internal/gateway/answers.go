package gateway

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// parseInfo reads `show info`.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			info[key] = value
		}
	}
	return info
}

// parseACL reads the entries of `show acl NAME`.
func parseACL(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		// 0x55a928f0c190 127.0.0.1/32
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(fields[0], "0x") {
			list = append(list, fields[1])
		}
	}
	return list
}

// forcedMaintenance is the bit of a server's state that the runtime API sets.
const forcedMaintenance = 0x01

// parseServers reads `show servers state BACKEND`, by server name.
func parseServers(text string) (map[string]server, error) {
	found := map[string]server{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 19 || strings.HasPrefix(line, "#") {
			continue
		}
		address, errAddress := netip.ParseAddr(fields[4])
		state, errState := strconv.Atoi(fields[6])
		port, errPort := strconv.ParseUint(fields[18], 10, 16)
		if err := errors.Join(errAddress, errState, errPort); err != nil {
			return nil, fmt.Errorf("state of server %s: %w", fields[3], err)
		}
		found[fields[3]] = server{
			address:     netip.AddrPortFrom(address, uint16(port)),
			maintenance: state&forcedMaintenance != 0,
		}
	}
	return found, nil
}

// backendID is the number of the backend that `show servers state` tells of. By
// name HAProxy would find the frontend, which is called the same.
func backendID(text string) string {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 19 && !strings.HasPrefix(line, "#") {
			return fields[0]
		}
	}
	return "0"
}

// parseLimits reads how many connections servers take from `show stat BACKEND 4 -1`.
func parseLimits(text string, servers map[string]server) error {
	rows, column, err := parseStatistics(text)
	if err != nil {
		return err
	}
	for _, row := range rows {
		s, limit := servers[row[column["svname"]]], row[column["slim"]]
		if s.connections = 0; limit != "" {
			if s.connections, err = strconv.Atoi(limit); err != nil {
				return fmt.Errorf("statistics of %s: %w", row[0], err)
			}
		}
		servers[row[column["svname"]]] = s
	}
	return nil
}

// parseStatistics reads what `show stat` answers, and which column is which.
func parseStatistics(text string) (rows [][]string, column map[string]int, err error) {
	rows, err = csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "# "))).ReadAll() // as many columns in all rows
	if err != nil {
		return nil, nil, fmt.Errorf("statistics: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil, nil
	}
	column = map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	for _, name := range []string{"svname", "scur", "slim", "status"} {
		if column[name] == 0 {
			return nil, nil, fmt.Errorf("statistics: there is no column %s", name)
		}
	}
	return rows[1:], column, nil
}

// session is an open connection of a customer.
type session struct {
	id       string
	frontend string
	source   netip.AddrPort
}

// parseSessions reads the TCP sessions of `show sess`.
func parseSessions(text string) ([]session, error) {
	var list []session
	for line := range strings.Lines(text) {
		// 0x55bbe444bf50: proto=tcpv4 src=127.0.0.1:47501 fe=primary-29000 be=…
		id, rest, ok := strings.Cut(line, ": ")
		if !ok || !strings.HasPrefix(id, "0x") || !strings.HasPrefix(rest, "proto=tcp") {
			continue
		}
		source, err := parseAddrPort(field(rest, "src="))
		if err != nil {
			return nil, fmt.Errorf("source of session %s: %w", id, err)
		}
		list = append(list, session{id: id, frontend: field(rest, "fe="), source: source})
	}
	return list, nil
}

// parseServerAddress reads the address a session's server connection goes to
// from `show sess ID`; false while there is none.
func parseServerAddress(text string) (netip.AddrPort, bool) {
	for line := range strings.Lines(text) {
		// server=s0 (id=1) addr=127.0.77.1:29000
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "server=") {
			address, err := parseAddrPort(field(line, "addr="))
			return address, err == nil
		}
	}
	return netip.AddrPort{}, false
}

// frontend is a line of `show stat` about one.
type frontend struct {
	open     bool
	sessions int
}

// parseFrontends reads `show stat -1 1 -1`, by name.
func parseFrontends(text string) (map[string]frontend, error) {
	rows, column, err := parseStatistics(text)
	if err != nil {
		return nil, err
	}
	found := map[string]frontend{}
	for _, row := range rows {
		sessions, err := strconv.Atoi(row[column["scur"]])
		if err != nil {
			return nil, fmt.Errorf("statistics of %s: %w", row[0], err)
		}
		found[row[0]] = frontend{open: row[column["status"]] == "OPEN", sessions: sessions}
	}
	return found, nil
}

// field is the value of a "name=value" in a line of them.
func field(line, name string) string {
	for f := range strings.FieldsSeq(line) {
		if value, ok := strings.CutPrefix(f, name); ok {
			return value
		}
	}
	return ""
}

// parseAddrPort reads an address as HAProxy writes it: IPv6 without brackets.
func parseAddrPort(s string) (netip.AddrPort, error) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", s)
	}
	address, errAddress := netip.ParseAddr(s[:i])
	port, errPort := strconv.ParseUint(s[i+1:], 10, 16)
	if err := errors.Join(errAddress, errPort); err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(address, uint16(port)), nil
}
