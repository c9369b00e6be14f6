package netns

import (
	"encoding/binary"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"steward/internal/nft"
)

// Names in the table.
const (
	chainForward, chainInput, chainOutput = "forward", "input", "output"
	chainFrom, chainTo, chainLeave        = "from-node", "to-node", "leave"
	setNodes, setPeers, setOpen           = "nodes", "peers", "open"
)

// Registers, as the kernel shows them.
const register, second, third = 1, 9, 10

func sharedSets() map[string]nft.Set {
	address := nftables.TypeIPAddr
	return map[string]nft.Set{
		// nodes are the links and addresses that belong together.
		setNodes: {Key: nftables.MustConcatSetType(nftables.TypeIFName, address)},
		// peers are who may connect to whom, at which port.
		setPeers: {Key: nftables.MustConcatSetType(address, address, nftables.TypeInetService)},
		// open are nodes that may connect to the world outside.
		setOpen: {Key: address},
	}
}

// base is what the table holds without any node.
func (n *Network) base() nft.Ruleset {
	r := nft.NewRuleset()
	r.Sets = sharedSets()
	accept, refuse := &expr.Verdict{Kind: expr.VerdictAccept}, nft.Rule{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}
	hook := func(at *nftables.ChainHook) *nft.Hook {
		return &nft.Hook{Type: nftables.ChainTypeFilter, At: at, Priority: 0}
	}
	going := func(key expr.MetaKey, to string) nft.Rule {
		return append(n.link(key), &expr.Verdict{Kind: expr.VerdictGoto, Chain: to})
	}
	known := append(ct(expr.CtKeySTATE, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED), accept)
	led := append(ct(expr.CtKeySTATUS, destinationTranslated), accept)
	source := &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
	forward := []nft.Rule{going(expr.MetaKeyIIFNAME, chainFrom), going(expr.MetaKeyOIFNAME, chainTo)}
	if n.forwards {
		// The machine didn't forward before, and others' packets aren't to profit.
		forward = append(forward, nft.Rule{&expr.Verdict{Kind: expr.VerdictDrop}})
	}
	r.Chains[chainForward] = nft.Chain{Hook: hook(nftables.ChainHookForward), Rules: forward}
	r.Chains[chainFrom] = nft.Chain{Rules: []nft.Rule{
		{
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register},
			&expr.Payload{DestRegister: 2, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
			&expr.Lookup{SourceRegister: register, SetName: setNodes, Invert: true},
			&expr.Verdict{Kind: expr.VerdictDrop},
		},
		known,
		{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, equal([]byte{unix.IPPROTO_TCP}),
			source, &expr.Payload{DestRegister: second, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
			&expr.Payload{DestRegister: third, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Lookup{SourceRegister: register, SetName: setPeers}, accept,
		},
		append(n.link(expr.MetaKeyOIFNAME), refuse...),
		{source, &expr.Lookup{SourceRegister: register, SetName: setOpen}, accept},
		refuse,
	}}
	r.Chains[chainTo] = nft.Chain{Rules: []nft.Rule{known, led, refuse}}
	r.Chains[chainInput] = nft.Chain{Hook: hook(nftables.ChainHookInput), Rules: []nft.Rule{
		append(append(n.link(expr.MetaKeyIIFNAME), ct(expr.CtKeySTATE, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED)...), accept),
		append(n.link(expr.MetaKeyIIFNAME), refuse...),
	}}
	r.Chains[chainOutput] = nft.Chain{Hook: hook(nftables.ChainHookOutput), Rules: []nft.Rule{
		append(append(n.link(expr.MetaKeyOIFNAME), ct(expr.CtKeySTATE, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED)...), accept),
		append(append(n.link(expr.MetaKeyOIFNAME), ct(expr.CtKeySTATUS, destinationTranslated)...), accept),
		append(n.link(expr.MetaKeyOIFNAME), &expr.Meta{Key: expr.MetaKeySKUID, Register: register}, equal(make([]byte, 4)), accept),
		append(n.link(expr.MetaKeyOIFNAME), refuse...),
	}}
	// Nodes' addresses mean nothing outside.
	r.Chains[chainLeave] = nft.Chain{
		Hook: &nft.Hook{Type: nftables.ChainTypeNAT, At: nftables.ChainHookPostrouting, Priority: int32(*nftables.ChainPriorityNATSource)},
		Rules: []nft.Rule{append(ipv4(),
			&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: register}, &expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: []byte(n.prefix)},
			source, &expr.Lookup{SourceRegister: register, SetName: setOpen}, &expr.Masq{})},
	}
	return r
}

// ipv4 matches its packets: others have no such addresses where these are looked for.
func ipv4() nft.Rule {
	return nft.Rule{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register}, equal([]byte{unix.NFPROTO_IPV4})}
}

// destinationTranslated is the kernel's mark of connections that it led elsewhere (IPS_DST_NAT).
const destinationTranslated = 1 << 5

// link matches those of nodes.
func (n *Network) link(key expr.MetaKey) nft.Rule {
	return nft.Rule{&expr.Meta{Key: key, Register: register}, equal([]byte(n.prefix))}
}

// ct matches connections that have one of the bits.
func ct(key expr.CtKey, bits uint32) nft.Rule {
	return nft.Rule{
		&expr.Ct{Key: key, Register: register},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: make([]byte, 4)},
	}
}

func equal(b []byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: b} }

// part is what a node adds to the table.
func (n *Network) part(node Node) nft.Ruleset {
	r := nft.NewRuleset()
	address := string(n.Address(node.Number).AsSlice())
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, n.linkName(node.Number))
	r.Elements[nft.Key{Set: setNodes, Key: string(name) + address}] = nft.Value{}
	port := string(binary.BigEndian.AppendUint16(nil, uint16(node.Port))) + "\x00\x00"
	for _, peer := range node.Peers {
		if peer != node.Number {
			// Each tells of those that it connects to.
			r.Elements[nft.Key{Set: setPeers, Key: address + string(n.Address(peer).AsSlice()) + port}] = nft.Value{}
		}
	}
	if node.Outside {
		r.Elements[nft.Key{Set: setOpen, Key: address}] = nft.Value{}
	}
	return r
}
