package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"steward/internal/gateway"
	"steward/internal/nft"
)

// The table, for a database at port 21000:
//
//	way in (prerouting, output; before addresses are translated)
//	  original direction, to the primary address:   port → chain by the map to_primary
//	  original direction, to the secondary address: port → chain by the map to_reads
//	in-21000    source in the set allow4-21000 or allow6-21000: on to new-21000; others are reset, but for
//	            what belongs to a connection, which is dropped: its server is to say why it ends
//	new-21000   new connections alone: how fast; on to crowd-21000 when few places are left, and to last-21000
//	crowd-21000 those of sources that have some are reset
//	last-21000  those beyond the last place are reset
//	in-r-21000 and so on: the same for the end of reads, where that has servers of its own
//	translate (prerouting, output)
//	  to the primary address:   port → server by the map primary
//	  to the secondary address: a random number and the port → server by the map spread, port → server by the map reads
//	leave (postrouting)
//	  clients from loopback look like this machine to the servers

// Names of chains and sets that all databases share.
const (
	chainWayIn, chainWayOut    = "way-in", "way-out"
	chainTranslate, chainOwn   = "translate", "translate-own"
	chainLeave                 = "leave"
	chainArrive, chainCrowd    = "arrive", "crowd"
	chainCount                 = "count"
	mapToPrimary, mapToReads   = "to_primary", "to_reads"
	mapPrimary, mapReads       = "primary", "reads"
	mapSpread                  = "spread"
	setArrivals4, setArrivals6 = "arrivals4", "arrivals6"
	setSources4, setSources6   = "sources4", "sources6"
)

const (
	// spread is how many slots the servers of reads share: a multiple of each
	// number of them, so that each gets as many.
	spreadSlots = 6
	// beforeTranslation is a priority between that of connection tracking and that of address translation.
	beforeTranslation = -110
	// Registers, as the kernel shows them: four of 16 bytes, and the second and later quarters of the first.
	register, second = 1, 9
	// beyond16 is the one after the first 16 bytes.
	beyond16 = 2
	// trackedMost is how many sources' connections are counted at once.
	trackedMost = 65536
)

// A source that has more than few connections gets none of the last ones of a
// database: spare are for others.
const (
	few   = 4
	spare = 4
)

// destinationTranslated is the kernel's mark of connections that it led elsewhere (IPS_DST_NAT).
const destinationTranslated = 1 << 5

// forgetAfter is how long a source that connects no more is remembered.
const forgetAfter = time.Minute

// loopback stands for addresses in a trial.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// plan is all that the table depends on but for the routes.
type plan struct {
	primary, secondary netip.Addr
	// rate is how many new connections a source may make in a second.
	rate uint32
}

var (
	portType    = nftables.TypeInetService
	verdictType = nftables.TypeVerdict
	serverType  = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)
	// A slot is of a type whose size the nft program knows: it can't list a whole machine's tables otherwise.
	slotType = nftables.MustConcatSetType(nftables.TypeMark, nftables.TypeInetService)
)

// sharedSets are those that all databases have elements in.
func sharedSets() map[string]nft.Set {
	toChain := nft.Set{Key: portType, Value: &verdictType}
	toServer := nft.Set{Key: portType, Value: &serverType}
	return map[string]nft.Set{
		mapToPrimary: toChain, mapToReads: toChain,
		mapPrimary: toServer, mapReads: toServer,
		mapSpread: {Key: slotType, Value: &serverType},
	}
}

// base is what the table holds without any route.
func (p plan) base() nft.Ruleset {
	r := nft.NewRuleset()
	r.Sets = sharedSets()
	filter := func(at *nftables.ChainHook) *nft.Hook {
		return &nft.Hook{Type: nftables.ChainTypeFilter, At: at, Priority: beforeTranslation}
	}
	nat := func(at *nftables.ChainHook, priority *nftables.ChainPriority) *nft.Hook {
		return &nft.Hook{Type: nftables.ChainTypeNAT, At: at, Priority: int32(*priority)}
	}
	wayIn := []nft.Rule{
		append(p.toEnd(p.primary), portInto(register), lookup(register, mapToPrimary, 0)),
		append(p.toEnd(p.secondary), portInto(register), lookup(register, mapToReads, 0)),
	}
	for i := range wayIn {
		wayIn[i] = append(nft.Rule{
			&expr.Ct{Key: expr.CtKeyDIRECTION, Register: register}, equal([]byte{0}), // the original one
		}, wayIn[i]...)
	}
	r.Chains[chainWayIn] = nft.Chain{Hook: filter(nftables.ChainHookPrerouting), Rules: wayIn}
	r.Chains[chainWayOut] = nft.Chain{Hook: filter(nftables.ChainHookOutput), Rules: wayIn}
	var translate []nft.Rule
	if p.primary.Is4() {
		translate = append(translate, append(p.toEnd(p.primary), portInto(register), lookup(register, mapPrimary, register), translation()))
	}
	if p.secondary.Is4() {
		translate = append(translate,
			append(p.toEnd(p.secondary), &expr.Numgen{Register: register, Modulus: spreadSlots, Type: unix.NFT_NG_RANDOM},
				portInto(second), lookup(register, mapSpread, register), translation()),
			append(p.toEnd(p.secondary), portInto(register), lookup(register, mapReads, register), translation()))
	}
	r.Chains[chainTranslate] = nft.Chain{Hook: nat(nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest), Rules: translate}
	r.Chains[chainOwn] = nft.Chain{Hook: nat(nftables.ChainHookOutput, nftables.ChainPriorityNATDest), Rules: translate}
	r.Chains[chainLeave] = nft.Chain{Hook: nat(nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource), Rules: []nft.Rule{p.leave()}}
	p.counting(r)
	return r
}

// counting are the chains that new connections of all databases pass.
func (p plan) counting(r nft.Ruleset) {
	arrive, crowd, count := nft.Chain{}, nft.Chain{}, nft.Chain{}
	for _, v6 := range []bool{false, true} {
		address, arrivals, sources := nftables.TypeIPAddr, setArrivals4, setSources4
		if v6 {
			address, arrivals, sources = nftables.TypeIP6Addr, setArrivals6, setSources6
		}
		key := nftables.MustConcatSetType(address, portType)
		r.Sets[arrivals] = nft.Set{Key: key, Dynamic: true, Timeout: true, Size: trackedMost}
		r.Sets[sources] = nft.Set{Key: key, Dynamic: true, Size: trackedMost}
		from := append(ofFamily(v6), sourceInto(v6, register), portInto(behind(v6)))
		arrive.Rules = append(arrive.Rules, append(clone(from), &expr.Dynset{
			SrcRegKey: register, SetName: arrivals, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: forgetAfter,
			Exprs: []expr.Any{&expr.Limit{Type: expr.LimitTypePkts, Rate: uint64(p.rate), Unit: expr.LimitTimeSecond, Burst: 2 * p.rate, Over: true}},
		}, reset()))
		counted := append(clone(from), &expr.Dynset{
			SrcRegKey: register, SetName: sources, Operation: unix.NFT_DYNSET_OP_ADD,
			Exprs: []expr.Any{over(few)},
		})
		count.Rules = append(count.Rules, counted)
		crowd.Rules = append(crowd.Rules, append(clone(counted), reset()))
	}
	r.Chains[chainArrive], r.Chains[chainCrowd], r.Chains[chainCount] = arrive, crowd, count
}

func clone(r nft.Rule) nft.Rule { return append(nft.Rule(nil), r...) }

// behind is the register after an address.
func behind(v6 bool) uint32 {
	if v6 {
		return beyond16
	}
	return second
}

// toEnd matches TCP packets to one of the gateway's addresses.
func (p plan) toEnd(end netip.Addr) nft.Rule {
	offset := uint32(16)
	if end.Is6() {
		offset = 24
	}
	return append(ofFamily(end.Is6()),
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(end.BitLen() / 8)}, equal(end.AsSlice()),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, equal([]byte{unix.IPPROTO_TCP}))
}

// leave makes clients from loopback, which can't leave the machine as such, look like
// the machine's address on the way to the server.
func (p plan) leave() nft.Rule {
	return append(ofFamily(false),
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 1}, equal([]byte{127}),
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: register}, &expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: interfaceName("lo")},
		&expr.Ct{Key: expr.CtKeySTATUS, Register: register},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(destinationTranslated), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: make([]byte, 4)},
		&expr.Masq{})
}

func interfaceName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

// part is what a route adds to the table.
func (p plan) part(route gateway.Route) nft.Ruleset {
	r := nft.NewRuleset()
	number := strconv.Itoa(route.Port)
	port := string(portBytes(route.Port))
	in := "in-" + number
	r.Chains[in] = nft.Chain{Rules: p.allowed(r, route, "new-"+number)}
	fresh(r, number, route.Connections)
	r.Elements[nft.Key{Set: mapToPrimary, Key: port}] = nft.Value{Jump: in}
	if !route.SharesPrimary() {
		// Both ends have a bound of their own: their servers are different ones.
		in = "in-r-" + number
		r.Chains[in] = nft.Chain{Rules: p.allowed(r, route, "new-r-"+number)}
		fresh(r, "r-"+number, route.Connections*max(1, len(route.Reads)))
	}
	r.Elements[nft.Key{Set: mapToReads, Key: port}] = nft.Value{Jump: in}
	if p.primary.Is4() && leadsTo(route.Primary) {
		r.Elements[nft.Key{Set: mapPrimary, Key: port}] = nft.Value{Data: serverBytes(route.Primary)}
	}
	if p.secondary.Is4() {
		p.readers(r, route, port)
	}
	return r
}

// readers spread the end of reads over its servers. If one of them is none that the
// kernel leads to, all are left to the holder.
func (p plan) readers(r nft.Ruleset, route gateway.Route, port string) {
	for _, server := range route.Reads {
		if !leadsTo(server) {
			return
		}
	}
	switch len(route.Reads) {
	case 0:
	case 1:
		r.Elements[nft.Key{Set: mapReads, Key: port}] = nft.Value{Data: serverBytes(route.Reads[0])}
	default:
		for slot := range uint32(spreadSlots) {
			key := string(binaryutil.NativeEndian.PutUint32(slot)) + port + "\x00\x00"
			r.Elements[nft.Key{Set: mapSpread, Key: key}] = nft.Value{Data: serverBytes(route.Reads[int(slot)%len(route.Reads)])}
		}
	}
}

// leadsTo reports whether the kernel can lead connections to a server: not to
// loopback, where packets from outside must not come, and not from IPv4 to IPv6.
func leadsTo(server netip.AddrPort) bool {
	return server.IsValid() && server.Addr().Is4() && !server.Addr().IsLoopback()
}

// allowed lets listed sources through to the next chain, and no others, and puts the lists in r.
func (p plan) allowed(r nft.Ruleset, route gateway.Route, next string) (rules []nft.Rule) {
	for _, v6 := range []bool{false, true} {
		if p.primary.Is6() != v6 && p.secondary.Is6() != v6 {
			continue
		}
		name, address := fmt.Sprintf("allow4-%d", route.Port), nftables.TypeIPAddr
		if v6 {
			name, address = fmt.Sprintf("allow6-%d", route.Port), nftables.TypeIP6Addr
		}
		list := spans(route.Allow, v6)
		if len(list) == 0 {
			continue
		}
		r.Sets[name] = nft.Set{Key: address, Interval: true}
		for _, s := range list {
			r.Elements[nft.Key{Set: name, Key: string(s.first.AsSlice())}] = nft.Value{}
			if s.after.IsValid() {
				r.Elements[nft.Key{Set: name, Key: string(s.after.AsSlice()), End: true}] = nft.Value{}
			}
		}
		rules = append(rules, append(ofFamily(v6), sourceInto(v6, register), lookup(register, name, 0),
			&expr.Verdict{Kind: expr.VerdictGoto, Chain: next}))
	}
	return append(rules,
		append(inState(expr.CtStateBitESTABLISHED), &expr.Verdict{Kind: expr.VerdictDrop}),
		nft.Rule{reset()})
}

// inState matches packets of connections in a state.
func inState(bit uint32) nft.Rule {
	return nft.Rule{
		&expr.Ct{Key: expr.CtKeySTATE, Register: register},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bit), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: make([]byte, 4)},
	}
}

// fresh are the chains that judge new connections of an end that may have so many; 0 for
// any number. What is refused is counted too, for a moment. So the last bound is
// for those alone who passed the others: who keeps knocking can't fill it.
func fresh(r nft.Ruleset, end string, connections int) {
	state := binaryutil.NativeEndian.PutUint32(expr.CtStateBitNEW)
	rules := []nft.Rule{
		{
			&expr.Ct{Key: expr.CtKeySTATE, Register: register},
			&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: state, Xor: make([]byte, 4)},
			equal(make([]byte, 4)), &expr.Verdict{Kind: expr.VerdictReturn},
		},
		{&expr.Verdict{Kind: expr.VerdictJump, Chain: chainArrive}},
	}
	if connections > 0 {
		crowd, last := "crowd-"+end, "last-"+end
		to := func(kind expr.VerdictKind, chain string) nft.Rule {
			return nft.Rule{&expr.Verdict{Kind: kind, Chain: chain}}
		}
		rules = append(rules,
			append(nft.Rule{over(uint32(max(0, connections-spare)))}, to(expr.VerdictGoto, crowd)...),
			to(expr.VerdictJump, chainCount), to(expr.VerdictGoto, last))
		r.Chains[crowd] = nft.Chain{Rules: []nft.Rule{to(expr.VerdictJump, chainCrowd), to(expr.VerdictGoto, last)}}
		r.Chains[last] = nft.Chain{Rules: []nft.Rule{{over(uint32(connections)), reset()}}}
	}
	r.Chains["new-"+end] = nft.Chain{Rules: rules}
}

// over matches connections beyond a number of them.
func over(n uint32) *expr.Connlimit {
	return &expr.Connlimit{Count: n, Flags: expr.NFT_CONNLIMIT_F_INV}
}

func reset() *expr.Reject { return &expr.Reject{Type: unix.NFT_REJECT_TCP_RST} }

func equal(b []byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: b} }

func ofFamily(v6 bool) nft.Rule {
	proto := byte(unix.NFPROTO_IPV4)
	if v6 {
		proto = unix.NFPROTO_IPV6
	}
	return nft.Rule{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register}, equal([]byte{proto})}
}

func sourceInto(v6 bool, into uint32) *expr.Payload {
	if v6 {
		return &expr.Payload{DestRegister: into, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 16}
	}
	return &expr.Payload{DestRegister: into, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
}

func portInto(into uint32) *expr.Payload {
	return &expr.Payload{DestRegister: into, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

// lookup looks a register up in a set or map. What a map leads to is put into a
// register, 0 for a verdict.
func lookup(from uint32, set string, into uint32) *expr.Lookup {
	l := &expr.Lookup{SourceRegister: from, SetName: set}
	if into != 0 || set == mapToPrimary || set == mapToReads {
		l.DestRegister, l.IsDestRegSet = into, true
	}
	return l
}

// translation leads to the address and port in the registers.
func translation() *expr.NAT {
	return &expr.NAT{
		Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, Specified: true,
		RegAddrMin: register, RegAddrMax: register, RegProtoMin: second, RegProtoMax: second,
	}
}

func portBytes(port int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(port)) }

func serverBytes(s netip.AddrPort) string {
	return string(s.Addr().AsSlice()) + string(portBytes(int(s.Port()))) + "\x00\x00"
}
