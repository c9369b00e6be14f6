package watch

import (
	"time"

	"steward/internal/monitor"
	"steward/internal/store"
)

// samples are results that wait to be packed, by shard.
type samples map[int][]monitor.Sample

// A shard's results are packed when there are enough of them for a row to be
// worth it, or the first has waited long enough for people who want to see it.
const (
	enoughSamples = 256
	oldSample     = 10 * time.Second
	// mostSamples are kept of a shard while the store is away: an hour's of forty
	// services, in 1 MB. Beyond, the oldest go.
	mostSamples = 16384
)

func (s samples) add(one monitor.Sample) {
	shard := one.Service.Shard()
	if len(s[shard]) >= mostSamples {
		s[shard] = append(s[shard][:0], s[shard][mostSamples/8:]...)
	}
	s[shard] = append(s[shard], one)
}

func (s samples) count() int {
	n := 0
	for _, list := range s {
		n += len(list)
	}
	return n
}

// due takes out all of them once one has waited long enough, for one transaction
// to write them, and otherwise those that are enough for a row.
func (s samples) due(now time.Time) samples {
	all, taken := false, samples{}
	for _, list := range s {
		all = all || now.Sub(list[0].Started.Add(list[0].Took)) >= oldSample
	}
	for shard, list := range s {
		if all || len(list) >= enoughSamples {
			taken[shard] = list
			delete(s, shard)
		}
	}
	return taken
}

// back puts back what couldn't be written.
func (s samples) back(taken samples) {
	for shard, list := range taken {
		newer := s[shard]
		s[shard] = list
		for _, one := range newer {
			s.add(one)
		}
	}
}

// packed is what is written of each shard.
func packed(of samples) []store.Block {
	blocks := make([]store.Block, 0, len(of))
	for shard, list := range of {
		ended := list[len(list)-1].Started
		started, bytes := monitor.PackSamples(list)
		blocks = append(blocks, store.Block{Shard: shard, Started: started, Ended: ended, Packed: bytes})
	}
	return blocks
}
