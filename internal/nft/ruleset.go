package nft

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// family is that of all tables here: IPv4 and IPv6 in one.
const family = nftables.TableFamilyINet

// Rule is what a rule does, step by step.
type Rule []expr.Any

// Hook is where packets enter a chain. It is nil for chains that are jumped to.
type Hook struct {
	// Type is that of the chain: filter or nat.
	Type nftables.ChainType
	// At is the place in the packet's way.
	At *nftables.ChainHook
	// Priority orders chains of one place.
	Priority int32
	// Drop is what happens to packets that no rule decides on; false lets them pass.
	Drop bool
}

// Chain is a list of rules.
type Chain struct {
	Hook  *Hook
	Rules []Rule
}

// Set describes a set or a map, without its elements.
type Set struct {
	Key nftables.SetDatatype
	// Value is what a map's keys lead to; nil for a set.
	Value *nftables.SetDatatype
	// Interval reports whether elements are ends of ranges.
	Interval bool
	// Dynamic sets are filled by rules, up to Size elements; what is in them is none of a Ruleset's business.
	// Those with Timeout forget elements.
	Dynamic, Timeout bool
	Size             uint32
}

// Key names an element of a set.
type Key struct {
	Set, Key string
	// End reports whether it is the first key after a range.
	End bool
}

// Value is what an element of a map leads to: bytes or a chain.
type Value struct{ Data, Jump string }

// Ruleset is a table's content, or a part of it.
type Ruleset struct {
	Chains   map[string]Chain
	Sets     map[string]Set
	Elements map[Key]Value
}

// NewRuleset is an empty one.
func NewRuleset() Ruleset {
	return Ruleset{Chains: map[string]Chain{}, Sets: map[string]Set{}, Elements: map[Key]Value{}}
}

// Add puts another part in.
func (r Ruleset) Add(part Ruleset) {
	maps.Copy(r.Chains, part.Chains)
	maps.Copy(r.Sets, part.Sets)
	maps.Copy(r.Elements, part.Elements)
}

// Empty reports whether there is nothing in it.
func (r Ruleset) Empty() bool { return len(r.Chains)+len(r.Sets)+len(r.Elements) == 0 }

// difference is what has to be done to make one ruleset out of another.
type difference struct {
	newSets, goneSets         []string
	newChains, goneChains     []string
	changedChains             []string
	newElements, goneElements map[string][]Key
	// rebuild reports whether chains or sets are there with another nature: what
	// the kernel can't change is made anew with all the table.
	rebuild bool
}

func (d difference) empty() bool {
	return !d.rebuild && len(d.newSets)+len(d.goneSets)+len(d.newChains)+len(d.goneChains)+len(d.changedChains)+len(d.newElements)+len(d.goneElements) == 0
}

func (d difference) String() string {
	n := func(m map[string][]Key) (n int) {
		for _, keys := range m {
			n += len(keys)
		}
		return n
	}
	if d.rebuild {
		return "chains or sets of another kind"
	}
	return fmt.Sprintf("missing: %d chains, %d sets, %d elements; strange: %d chains, %d sets, %d elements; changed: %d chains",
		len(d.newChains), len(d.newSets), n(d.newElements), len(d.goneChains), len(d.goneSets), n(d.goneElements), len(d.changedChains))
}

// compare finds what makes want out of have.
func compare(have, want Ruleset) (difference, error) {
	d := difference{newElements: map[string][]Key{}, goneElements: map[string][]Key{}}
	if err := d.compareChains(have, want); err != nil {
		return d, err
	}
	d.compareSets(have, want)
	d.compareElements(have, want)
	d.sort()
	return d, nil
}

func (d *difference) compareChains(have, want Ruleset) error {
	for name, w := range want.Chains {
		h, there := have.Chains[name]
		if !there {
			d.newChains = append(d.newChains, name)
			continue
		}
		if !sameHook(h.Hook, w.Hook) {
			d.rebuild = true
		}
		same, err := sameRules(h.Rules, w.Rules)
		if err != nil {
			return fmt.Errorf("chain %s: %w", name, err)
		}
		if !same {
			d.changedChains = append(d.changedChains, name)
		}
	}
	for name := range have.Chains {
		if _, wanted := want.Chains[name]; !wanted {
			d.goneChains = append(d.goneChains, name)
		}
	}
	return nil
}

func (d *difference) compareSets(have, want Ruleset) {
	for name, w := range want.Sets {
		h, there := have.Sets[name]
		switch {
		case !there:
			d.newSets = append(d.newSets, name)
		case !sameKind(h, w):
			d.rebuild = true
		}
	}
	for name := range have.Sets {
		if _, wanted := want.Sets[name]; !wanted {
			d.goneSets = append(d.goneSets, name)
		}
	}
}

// compareElements is called when it is known which sets go.
func (d *difference) compareElements(have, want Ruleset) {
	for key, value := range want.Elements {
		h, there := have.Elements[key]
		if there && h == value {
			continue
		}
		if there {
			d.goneElements[key.Set] = append(d.goneElements[key.Set], key)
		}
		d.newElements[key.Set] = append(d.newElements[key.Set], key)
	}
	for key := range have.Elements {
		if _, wanted := want.Elements[key]; wanted {
			continue
		}
		if slices.Contains(d.goneSets, key.Set) && have.Sets[key.Set].Value == nil {
			continue // goes with its set; maps may lead to chains, which go before
		}
		d.goneElements[key.Set] = append(d.goneElements[key.Set], key)
	}
}

// sort makes what is sent the same each time.
func (d *difference) sort() {
	for _, names := range [][]string{d.newSets, d.goneSets, d.newChains, d.goneChains, d.changedChains} {
		slices.Sort(names)
	}
	for _, m := range []map[string][]Key{d.newElements, d.goneElements} {
		for _, keys := range m {
			slices.SortFunc(keys, compareKeys)
		}
	}
}

// compareKeys sorts the end of a range before the beginning of the next one.
func compareKeys(a, b Key) int {
	switch {
	case a.Key < b.Key:
		return -1
	case a.Key > b.Key:
		return 1
	case a.End && !b.End:
		return -1
	case b.End && !a.End:
		return 1
	}
	return 0
}

func sameHook(a, b *Hook) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Type == b.Type && *a.At == *b.At && a.Priority == b.Priority && a.Drop == b.Drop
}

// sameKind leaves out types, of which the kernel keeps only what it is told.
func sameKind(a, b Set) bool {
	return a.Interval == b.Interval && a.Dynamic == b.Dynamic && a.Timeout == b.Timeout && (a.Value == nil) == (b.Value == nil)
}

func sameRules(a, b []Rule) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		x, err := a[i].bytes()
		if err != nil {
			return false, err
		}
		y, err := b[i].bytes()
		if err != nil {
			return false, err
		}
		if x != y {
			return false, nil
		}
	}
	return true, nil
}

// bytes is the rule as it is sent, but for numbers that are another's in every transaction.
func (r Rule) bytes() (string, error) {
	var all []byte
	for _, e := range r {
		switch x := e.(type) {
		case *expr.Lookup:
			plain := *x
			plain.SetID = 0
			e = &plain
		case *expr.Dynset:
			plain := *x
			plain.SetID = 0
			e = &plain
		}
		b, err := expr.Marshal(byte(family), e)
		if err != nil {
			return "", fmt.Errorf("rule: %w", err)
		}
		all = append(all, b...)
	}
	return string(all), nil
}
