package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Table is one table. It is safe for concurrent use.
type Table struct {
	name  string
	table *nftables.Table

	mu   sync.Mutex
	conn *nftables.Conn
	// own is for what the library doesn't ask.
	own *netlink.Conn
}

// buffers are large enough for the longest allow lists in one transaction.
const buffers = 64 << 20

// Open prepares work on a table of the calling thread's network namespace, which
// needs not be there yet. Close must follow.
func Open(name string) (*Table, error) {
	large := func(c *netlink.Conn) error {
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		var set error
		err = raw.Control(func(fd uintptr) {
			set = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, buffers),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffers))
		})
		return errors.Join(err, set)
	}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(large))
	if err != nil {
		return nil, fmt.Errorf("open nf_tables: %w", err)
	}
	own, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("open nf_tables: %w", errors.Join(err, conn.CloseLasting()))
	}
	return &Table{name: name, table: &nftables.Table{Name: name, Family: family}, conn: conn, own: own}, nil
}

// Close ends work on the table, which stays as it is.
func (t *Table) Close() error { return errors.Join(t.conn.CloseLasting(), t.own.Close()) }

// Name is the table's, as `nft list tables` has it.
func (t *Table) Name() string { return t.name }

// Exists reports whether the table is there.
func (t *Table) Exists() (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exists()
}

func (t *Table) exists() (bool, error) {
	tables, err := t.conn.ListTablesOfFamily(family)
	if err != nil {
		return false, fmt.Errorf("list tables: %w", err)
	}
	return slices.ContainsFunc(tables, func(other *nftables.Table) bool { return other.Name == t.name }), nil
}

// Delete removes the table with all it holds.
func (t *Table) Delete() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	there, err := t.exists()
	if err != nil || !there {
		return err
	}
	t.conn.DelTable(t.table)
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("delete table %s: %w", t.name, err)
	}
	return nil
}

// Generation grows with every change to any table of the namespace.
func (t *Table) Generation() (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.generationNow()
}

func (t *Table) generationNow() (uint32, error) {
	answers, err := t.own.Execute(netlink.Message{
		Header: netlink.Header{Type: message(unix.NFT_MSG_GETGEN), Flags: netlink.Request},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
	})
	if err != nil {
		return 0, fmt.Errorf("ask for the generation: %w", err)
	}
	for _, a := range answers {
		attributes, err := netlink.NewAttributeDecoder(a.Data[4:])
		if err != nil {
			return 0, fmt.Errorf("ask for the generation: %w", err)
		}
		attributes.ByteOrder = binary.BigEndian
		for attributes.Next() {
			if attributes.Type() == unix.NFTA_GEN_ID {
				return attributes.Uint32(), nil
			}
		}
	}
	return 0, errors.New("ask for the generation: no answer")
}

func message(kind int) netlink.HeaderType {
	return netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind)
}

// Read is all that the table holds, but for what rules put into dynamic sets.
func (t *Table) Read() (Ruleset, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := NewRuleset()
	there, err := t.exists()
	if err != nil || !there {
		return r, err
	}
	var chains []*nftables.Chain
	var sets []*nftables.Set
	err = t.undisturbed(func() (err error) { chains, err = t.conn.ListChainsOfTableFamily(family); return err })
	if err != nil {
		return r, fmt.Errorf("list chains: %w", err)
	}
	if err = t.undisturbed(func() (err error) { sets, err = t.conn.GetSets(t.table); return err }); err != nil {
		return r, fmt.Errorf("list sets: %w", err)
	}
	for _, c := range chains {
		if c.Table.Name != t.name {
			continue
		}
		rules, err := t.rules(c.Name)
		if err != nil {
			return r, err
		}
		r.Chains[c.Name] = Chain{Hook: hookOf(c), Rules: rules}
	}
	for _, s := range sets {
		kind := Set{Interval: s.Interval, Dynamic: s.Dynamic, Timeout: s.HasTimeout, Size: s.Size}
		if s.IsMap {
			kind.Value = &s.DataType
		}
		r.Sets[s.Name] = kind
		if s.Dynamic {
			continue
		}
		// The library takes a map's data type of verdicts for its key's.
		if err := t.elements(s.Name, s.IsMap && s.KeyType.Name == nftables.TypeVerdict.Name, r.Elements); err != nil {
			return r, err
		}
	}
	return r, nil
}

func hookOf(c *nftables.Chain) *Hook {
	if c.Hooknum == nil || c.Priority == nil {
		return nil
	}
	return &Hook{
		Type: c.Type, At: c.Hooknum, Priority: int32(*c.Priority),
		Drop: c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop,
	}
}

func (t *Table) rules(chain string) ([]Rule, error) {
	found, err := t.conn.GetRules(t.table, &nftables.Chain{Name: chain})
	if err != nil {
		return nil, fmt.Errorf("read chain %s: %w", chain, err)
	}
	rules := make([]Rule, len(found))
	for i, r := range found {
		rules[i] = r.Exprs
	}
	return rules, nil
}

// elements reads those of a set, or of a map that leads to chains.
func (t *Table) elements(set string, jumps bool, into map[Key]Value) error {
	found, err := t.conn.GetSetElements(&nftables.Set{Table: t.table, Name: set})
	if err != nil {
		return fmt.Errorf("read set %s: %w", set, err)
	}
	for _, e := range found {
		into[Key{Set: set, Key: string(e.Key), End: e.IntervalEnd}] = valueOf(e.Val, jumps)
	}
	return nil
}

// valueOf reads an element's data: bytes, or a verdict, of which only jumps are used.
func valueOf(data []byte, jump bool) Value {
	if !jump {
		return Value{Data: string(data)}
	}
	chain, _ := attribute(data, unix.NFTA_VERDICT_CHAIN)
	return Value{Jump: strings.TrimRight(string(chain), "\x00")}
}

// attribute is the first of a kind among several.
func attribute(b []byte, kind uint16) ([]byte, bool) {
	d, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return nil, false
	}
	for d.Next() {
		if d.Type() == kind {
			return d.Bytes(), true
		}
	}
	return nil, false
}

// HoldsChains reports whether the chains of a part of the table hold their rules. Nothing else of the table is read, so that it takes
// as long for a large one.
func (t *Table) HoldsChains(part Ruleset) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range part.Chains {
		if same, err := t.sameRules(name, part); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// Change makes what the table holds of have into want, in one transaction, reads
// back what it touched, and says what it did. Neither needs to be all of the table, but both the same part
// of it; Sets describes those that elements of the part are in, when the part doesn't.
func (t *Table) Change(have, want Ruleset, shared map[string]Set) (string, error) {
	d, err := compare(have, want)
	if err != nil {
		return "", fmt.Errorf("table %s: %w", t.name, err)
	}
	if d.empty() {
		return "", nil
	}
	if d.rebuild {
		return "", ErrRebuild
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.commit(d, have, want, shared, false); err != nil {
		return "", err
	}
	return d.String(), t.verify(d, want, shared)
}

// Repair makes the whole table what is wanted, whatever it holds, and says what was
// wrong with it. The generation is the one that it leads to, unless others changed
// tables meanwhile: then the kernel's is another, and it has to be looked at again.
func (t *Table) Repair(want Ruleset) (said string, generation uint32, err error) {
	before, err := t.Generation()
	if err != nil {
		return "", 0, err
	}
	have, err := t.Read()
	if errors.Is(err, ErrBusy) {
		return "", 0, err
	}
	if err == nil {
		said, err = t.Change(have, want, nil)
	}
	if err != nil { // what can't be read or changed can be replaced
		said, err = err.Error(), t.Replace(want)
	}
	if err != nil || said == "" {
		return said, before, err
	}
	return said, before + 1, nil
}

// ErrBusy says that others changed tables all the while.
var ErrBusy = errors.New("others change tables all the time")

// undisturbed has list ask for something while nobody changes any table: lists of
// chains and sets go on by number from part to part, through those of all tables.
func (t *Table) undisturbed(list func() error) error {
	for range 20 {
		before, err := t.generationNow()
		if err != nil {
			return err
		}
		if err := list(); err != nil {
			return err
		}
		after, err := t.generationNow()
		if err != nil || before == after {
			return err
		}
	}
	return ErrBusy
}

// ErrRebuild says that chains or sets are there that can't become those that are
// wanted: [Table.Replace] helps.
var ErrRebuild = errors.New("the table has chains or sets of another kind")

// Replace puts a new table in the place of whatever is there, in one transaction.
func (t *Table) Replace(want Ruleset) error {
	d, err := compare(NewRuleset(), want)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	there, err := t.exists()
	if err != nil {
		return err
	}
	if err := t.commit(d, NewRuleset(), want, nil, there); err != nil {
		return err
	}
	return t.verify(d, want, nil)
}

// commit sends the transaction. Nothing refers to what isn't there at any step:
// new chains and sets come first, and old ones go last.
func (t *Table) commit(d difference, have, want Ruleset, shared map[string]Set, replace bool) error {
	if replace {
		t.conn.DelTable(t.table)
	}
	t.conn.AddTable(t.table)
	sets := map[string]*nftables.Set{}
	set := func(name string) *nftables.Set {
		if sets[name] == nil {
			sets[name] = definition(name, want.Sets, shared, have.Sets).library(t.table, name)
		}
		return sets[name]
	}
	for _, name := range d.newSets {
		if err := t.conn.AddSet(set(name), nil); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	for _, name := range d.newChains {
		t.conn.AddChain(want.Chains[name].library(t.table, name))
	}
	if err := inBatches(d.goneElements, have, set, t.conn.SetDeleteElements); err != nil {
		return err
	}
	for _, name := range slices.Concat(d.changedChains, d.goneChains) {
		t.conn.FlushChain(&nftables.Chain{Table: t.table, Name: name})
	}
	for _, name := range slices.Concat(d.newChains, d.changedChains) {
		for _, r := range want.Chains[name].Rules {
			t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: &nftables.Chain{Name: name}, Exprs: r})
		}
	}
	if err := inBatches(d.newElements, want, set, t.conn.SetAddElements); err != nil {
		return err
	}
	for _, name := range d.goneChains {
		t.conn.DelChain(&nftables.Chain{Table: t.table, Name: name})
	}
	for _, name := range d.goneSets {
		t.conn.DelSet(set(name))
	}
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("change table %s: %w", t.name, err)
	}
	return nil
}

// definition is a set's in the first of those that have one of its name.
func definition(name string, in ...map[string]Set) Set {
	for _, sets := range in {
		if s, known := sets[name]; known {
			return s
		}
	}
	return Set{}
}

// inBatches has elements of sets, as they are in a ruleset, changed: those of a set in as many messages as they need.
func inBatches(of map[string][]Key, in Ruleset, set func(name string) *nftables.Set, change func(*nftables.Set, []nftables.SetElement) error) error {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		for batch := range slices.Chunk(of[name], perMessage) {
			if err := change(set(name), elements(batch, in)); err != nil {
				return fmt.Errorf("set %s: %w", name, err)
			}
		}
	}
	return nil
}

// perMessage keeps a message's list of elements below 64 KiB, the most that an
// attribute can hold.
const perMessage = 500

// setID numbers sets within a transaction. The library's own count isn't safe for concurrent use.
var setID atomic.Uint32

func (s Set) library(table *nftables.Table, name string) *nftables.Set {
	l := &nftables.Set{
		Table: table, Name: name, ID: setID.Add(1), KeyType: s.Key, Interval: s.Interval, Dynamic: s.Dynamic, HasTimeout: s.Timeout, Size: s.Size,
	}
	if s.Value != nil {
		l.IsMap, l.DataType = true, *s.Value
	}
	return l
}

func (c Chain) library(table *nftables.Table, name string) *nftables.Chain {
	l := &nftables.Chain{Table: table, Name: name}
	if c.Hook != nil {
		policy := nftables.ChainPolicyAccept
		if c.Hook.Drop {
			policy = nftables.ChainPolicyDrop
		}
		l.Type, l.Hooknum, l.Priority, l.Policy = c.Hook.Type, c.Hook.At, new(nftables.ChainPriority(c.Hook.Priority)), &policy
	}
	return l
}

func elements(keys []Key, of Ruleset) []nftables.SetElement {
	list := make([]nftables.SetElement, len(keys))
	for i, k := range keys {
		list[i] = nftables.SetElement{Key: []byte(k.Key), IntervalEnd: k.End}
		switch v := of.Elements[k]; {
		case v.Jump != "":
			list[i].VerdictData = &expr.Verdict{Kind: expr.VerdictJump, Chain: v.Jump}
		case v.Data != "":
			list[i].Val = []byte(v.Data)
		}
	}
	return list
}

// verify reads back what a transaction touched.
func (t *Table) verify(d difference, want Ruleset, shared map[string]Set) error {
	for _, name := range slices.Concat(d.newChains, d.changedChains) {
		same, err := t.sameRules(name, want)
		if err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("table %s: chain %s isn't what was sent", t.name, name)
		}
	}
	for name, keys := range d.newElements {
		found := map[Key]Value{}
		var err error
		if _, isShared := shared[name]; isShared {
			err = t.find(name, keys, found)
		} else {
			err = t.elements(name, want.Elements[keys[0]].Jump != "", found)
		}
		if err != nil {
			return err
		}
		for _, k := range keys {
			if v, there := found[k]; !there || v != want.Elements[k] {
				return fmt.Errorf("table %s: set %s isn't what was sent", t.name, name)
			}
		}
	}
	return nil
}

// sameRules reports whether a chain holds the rules that are wanted; it doesn't when it isn't there.
func (t *Table) sameRules(chain string, want Ruleset) (bool, error) {
	found, err := t.rules(chain)
	if err != nil {
		return false, err
	}
	return sameRules(found, want.Chains[chain].Rules)
}

// find reads single elements of a set without ranges.
func (t *Table) find(set string, keys []Key, into map[Key]Value) error {
	for _, k := range keys {
		body := netlink.NewAttributeEncoder()
		body.String(unix.NFTA_SET_ELEM_LIST_TABLE, t.name)
		body.String(unix.NFTA_SET_ELEM_LIST_SET, set)
		body.Nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func(list *netlink.AttributeEncoder) error {
			list.Nested(unix.NFTA_LIST_ELEM, func(e *netlink.AttributeEncoder) error {
				e.Nested(unix.NFTA_SET_ELEM_KEY, func(v *netlink.AttributeEncoder) error {
					v.Bytes(unix.NFTA_DATA_VALUE, []byte(k.Key))
					return nil
				})
				return nil
			})
			return nil
		})
		data, err := body.Encode()
		if err != nil {
			return fmt.Errorf("read set %s: %w", set, err)
		}
		answers, err := t.own.Execute(netlink.Message{
			Header: netlink.Header{Type: message(unix.NFT_MSG_GETSETELEM), Flags: netlink.Request},
			Data:   append([]byte{byte(family), unix.NFNETLINK_V0, 0, 0}, data...),
		})
		if err != nil {
			return fmt.Errorf("read set %s: %w", set, err)
		}
		for _, a := range answers {
			if v, ok := elementValue(a.Data[4:]); ok {
				into[k] = v
			}
		}
	}
	return nil
}

// elementValue is that of the one element in a message.
func elementValue(b []byte) (Value, bool) {
	for _, kind := range []uint16{unix.NFTA_SET_ELEM_LIST_ELEMENTS, unix.NFTA_LIST_ELEM} {
		inner, ok := attribute(b, kind)
		if !ok {
			return Value{}, false
		}
		b = inner
	}
	data, _ := attribute(b, unix.NFTA_SET_ELEM_DATA)
	if verdict, ok := attribute(data, unix.NFTA_DATA_VERDICT); ok {
		return valueOf(verdict, true), true
	}
	plain, _ := attribute(data, unix.NFTA_DATA_VALUE)
	return valueOf(plain, false), true
}
