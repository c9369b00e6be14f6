package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"steward/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

var opened atomic.Int32

func open(t *testing.T) *Table {
	t.Helper()
	testnet.Need(t)
	table, err := Open(fmt.Sprintf("try-%d", opened.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(table.Delete(), table.Close()); err != nil {
			t.Error(err)
		}
	})
	return table
}

func port(n int) string { return string(binary.BigEndian.AppendUint16(nil, uint16(n))) }

// sample has a chain that is jumped to by a map, a set and a list of ranges.
func sample(ports ...int) Ruleset {
	r := NewRuleset()
	verdict, portType := nftables.TypeVerdict, nftables.TypeInetService
	r.Sets["way"] = Set{Key: portType, Value: &verdict}
	r.Sets["list"] = Set{Key: nftables.TypeIPAddr, Interval: true}
	r.Elements[Key{Set: "list", Key: "\x0a\x00\x00\x00"}] = Value{}
	r.Elements[Key{Set: "list", Key: "\x0b\x00\x00\x00", End: true}] = Value{}
	for _, n := range ports {
		name := fmt.Sprintf("port-%d", n)
		r.Chains[name] = Chain{Rules: []Rule{{&expr.Connlimit{Count: uint32(n), Flags: expr.NFT_CONNLIMIT_F_INV}, &expr.Verdict{Kind: expr.VerdictDrop}}}}
		r.Elements[Key{Set: "way", Key: port(n)}] = Value{Jump: name}
	}
	r.Chains["in"] = Chain{
		Hook: &Hook{Type: nftables.ChainTypeFilter, At: nftables.ChainHookInput, Priority: 5},
		Rules: []Rule{{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{6}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Lookup{SourceRegister: 1, SetName: "way", IsDestRegSet: true},
		}},
	}
	return r
}

// equals fails unless the table is just that.
func (t *Table) equals(test *testing.T, want Ruleset) {
	test.Helper()
	have, err := t.Read()
	if err != nil {
		test.Fatal(err)
	}
	d, err := compare(have, want)
	if err != nil || !d.empty() {
		test.Errorf("the table differs: %s, %v", d, err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	table := open(t)
	before := NewRuleset()
	for _, want := range []Ruleset{sample(1, 2), sample(2, 3), sample(), sample(1, 2, 3, 4, 5), NewRuleset()} {
		if _, err := table.Change(before, want, nil); err != nil {
			t.Fatal(err)
		}
		table.equals(t, want)
		before = want
	}
	if said, err := table.Change(before, before, nil); err != nil || said != "" {
		t.Errorf("nothing to do: %q, %v", said, err)
	}
}

// TestAFailedChangeChangesNothing: a transaction is taken whole or not at all.
func TestAFailedChangeChangesNothing(t *testing.T) {
	t.Parallel()
	table := open(t)
	if err := table.Replace(sample(1)); err != nil {
		t.Fatal(err)
	}
	broken := sample(1, 2)
	broken.Elements[Key{Set: "way", Key: port(9)}] = Value{Jump: "nowhere"}
	if _, err := table.Change(sample(1), broken, nil); err == nil {
		t.Fatal("a jump to nowhere was taken")
	}
	table.equals(t, sample(1))
}

// TestHoldsChains: it is about the rules of the chains that it is asked for, whatever else the table holds.
func TestHoldsChains(t *testing.T) {
	t.Parallel()
	table := open(t)
	expect := func(when string, want bool) {
		t.Helper()
		if held, err := table.HoldsChains(sample(1)); err != nil || held != want {
			t.Errorf("%s: %v, %v", when, held, err)
		}
	}
	expect("no table is there", false)
	if err := table.Replace(sample(1, 2)); err != nil {
		t.Fatal(err)
	}
	expect("there is more", true)
	for when, do := range map[string]func(){
		"a chain was emptied":   func() { table.conn.FlushChain(&nftables.Chain{Table: table.table, Name: "port-1"}) },
		"a chain has more":      func() { table.conn.AddRule(&nftables.Rule{Table: table.table, Chain: &nftables.Chain{Name: "in"}}) },
		"the table was emptied": func() { table.conn.FlushTable(table.table) },
	} {
		do()
		if err := table.conn.Flush(); err != nil {
			t.Fatal(when, err)
		}
		expect(when, false)
		if err := table.Replace(sample(1, 2)); err != nil {
			t.Fatal(when, err)
		}
	}
	expect("it was put right", true)
}

// TestRepair isn't parallel: others' changes are seen in the generation.
func TestRepair(t *testing.T) {
	table := open(t)
	want := sample(1, 2, 3)
	for name, there := range map[string]Ruleset{"nothing": NewRuleset(), "part": sample(1), "more": sample(1, 2, 3, 4), "all": want} {
		if err := errors.Join(table.Delete(), table.Replace(there)); err != nil {
			t.Fatal(name, err)
		}
		said, generation, err := table.Repair(want)
		if err != nil || (said == "") != (name == "all") {
			t.Errorf("%s: said %q, %v", name, said, err)
		}
		if now, err := table.Generation(); err != nil || now != generation {
			t.Errorf("%s: generation %d and then %d, %v", name, generation, now, err)
		}
		table.equals(t, want)
	}
	// What can't become what is wanted is replaced.
	other := sample(1)
	chain := other.Chains["in"]
	chain.Hook = &Hook{Type: nftables.ChainTypeFilter, At: nftables.ChainHookForward, Priority: 5}
	other.Chains["in"] = chain
	if err := table.Replace(other); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Change(other, want, nil); !errors.Is(err, ErrRebuild) {
		t.Errorf("a chain with another hook: %v", err)
	}
	if said, _, err := table.Repair(want); err != nil || !strings.Contains(said, "another kind") {
		t.Errorf("said %q, %v", said, err)
	}
	table.equals(t, want)
}
