package measure

import (
	"math"
	"time"

	"steward/internal/cluster"
)

// Every is how often nodes are read.
const Every = 10 * time.Second

// Slice is how much is written at a time: what a process that is killed hadn't written is lost.
const Slice = 30 * time.Second

// Tier is a part of the history: steps of one length in blocks of one length, kept for so long.
type Tier struct{ Step, Block, Keep time.Duration }

// Points is how many steps a block has.
func (t Tier) Points() int { return int(t.Block / t.Step) }

// Start is when the block begins that a moment is in.
func (t Tier) Start(at time.Time) time.Time { return Floor(at, t.Block) }

// The tiers, each made of the one before once a block of it is over.
var (
	Fine   = Tier{Every, time.Hour, 25 * time.Hour}
	Medium = Tier{5 * time.Minute, 24 * time.Hour, 31 * 24 * time.Hour}
	Coarse = Tier{time.Hour, 10 * 24 * time.Hour, 400 * 24 * time.Hour}
)

// Floor is the last whole multiple of a step since 1970 that isn't after a moment.
func Floor(at time.Time, step time.Duration) time.Time {
	s := int64(step / time.Second)
	unix := at.Unix()
	return time.Unix(unix-((unix%s)+s)%s, 0).UTC()
}

// Summary sums points up.
type Summary struct {
	n             int
	sum, low, top float64
}

// Add counts a point in; gaps don't count.
func (s *Summary) Add(p Point) {
	if !p.Known() {
		return
	}
	if s.n == 0 {
		s.low, s.top = p.Min, p.Max
	}
	s.n++
	s.sum += p.Mean
	s.low, s.top = min(s.low, p.Min), max(s.top, p.Max)
}

// Point is the sum: a gap when nothing was counted.
func (s *Summary) Point() Point {
	if s.n == 0 {
		return Gap()
	}
	return Point{s.sum / float64(s.n), s.low, s.top}
}

// Key names a series.
type Key struct {
	Cluster cluster.ID
	Node    int
	Metric  Metric
}

// Series are points of one metric of one node, a step apart.
type Series struct {
	Key
	Start  time.Time
	Step   time.Duration
	Points []Point
}

// Range is the time that is asked for: whole steps from From, which is a multiple of Step, to before To.
type Range struct {
	From, To time.Time
	Step     time.Duration
}

// Points is how many steps it has.
func (r Range) Points() int { return int(r.To.Sub(r.From) / r.Step) }

// Builder puts series together of what the tiers have.
type Builder struct {
	Range
	sums map[Key][]Summary
}

// NewBuilder makes one for a range.
func NewBuilder(r Range) *Builder { return &Builder{r, map[Key][]Summary{}} }

// Add counts in what of the series begins in [from, to) and in the range. All times are whole seconds.
func (b *Builder) Add(s Series, from, to time.Time) {
	start, step := s.Start.Unix(), int64(s.Step/time.Second)
	first := max(from.Unix(), b.From.Unix(), start)
	end := min(to.Unix(), b.To.Unix(), start+int64(len(s.Points))*step)
	sums := b.sums[s.Key]
	into, origin := int64(b.Step/time.Second), b.From.Unix()
	for i := (first - start + step - 1) / step; start+i*step < end; i++ {
		p := &s.Points[i]
		if !p.Known() {
			continue
		}
		if sums == nil {
			sums = make([]Summary, b.Range.Points())
			b.sums[s.Key] = sums
		}
		sums[(start+i*step-origin)/into].Add(*p)
	}
}

// Series are what was put together.
func (b *Builder) Series() []Series {
	all := make([]Series, 0, len(b.sums))
	for key, sums := range b.sums {
		s := Series{Key: key, Start: b.From, Step: b.Step, Points: make([]Point, len(sums))}
		for i := range sums {
			s.Points[i] = sums[i].Point()
		}
		all = append(all, s)
	}
	return all
}

// Combine is the series of a cluster, of those of its nodes: step by step, of the nodes of which something is known.
func Combine(nodes []Series, across Across) []Point {
	if len(nodes) == 0 {
		return nil
	}
	out := make([]Point, len(nodes[0].Points))
	for i := range out {
		out[i] = combine(nodes, i, across)
	}
	return out
}

func combine(nodes []Series, i int, across Across) Point {
	whole, n := Point{}, 0
	for _, s := range nodes {
		p := s.Points[i]
		if !p.Known() {
			continue
		}
		n++
		if n == 1 {
			whole = p
			continue
		}
		if across == Max {
			whole = Point{math.Max(whole.Mean, p.Mean), math.Max(whole.Min, p.Min), math.Max(whole.Max, p.Max)}
		} else {
			whole = Point{whole.Mean + p.Mean, whole.Min + p.Min, whole.Max + p.Max}
		}
	}
	switch {
	case n == 0:
		return Gap()
	case across == Mean:
		return Point{whole.Mean / float64(n), whole.Min / float64(n), whole.Max / float64(n)}
	}
	return whole
}
