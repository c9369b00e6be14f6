package measure

import (
	"encoding/binary"
	"errors"
	"math"
)

// Point is what is known of one step: the mean of what was measured, the lowest and the highest. All are NaN
// when nothing was.
type Point struct{ Mean, Min, Max float64 }

// Gap is a step of which nothing is known.
func Gap() Point { return At(math.NaN()) }

// At is a step with a single value.
func At(v float64) Point { return Point{v, v, v} }

// Known reports whether anything is known of the step.
func (p Point) Known() bool { return !math.IsNaN(p.Mean) }

// A value is kept as a number that grows with it: its binary exponent and the first 11 bits of
// its fraction, so that it is right to 1/4096 and whole numbers up to 4096 are exact. Values from 2^-20 to 2^63 have
// numbers of at most 18 bits, of which the difference to the one before takes three bytes at most, and two as
// long as the value stays within an eighth and eight times itself.
const (
	codeGap  = 0
	codeZero = 1
	codeLow  = 2

	fractionBits = 11
	lowExponent  = -20
	highExponent = 63
	// float64's: 52 bits of fraction, and this is added to the exponent.
	float64Fraction, float64Bias = 52, 1023

	dropped  = float64Fraction - fractionBits
	lowBits  = (float64Bias + lowExponent) << fractionBits
	codeHigh = codeLow + (highExponent-lowExponent)<<fractionBits
)

func encode(v float64) int64 {
	switch {
	case math.IsNaN(v):
		return codeGap
	case v >= math.Ldexp(1, highExponent):
		return codeHigh
	}
	rounded := int64((math.Float64bits(max(v, 0))+1<<(dropped-1))>>dropped) - lowBits
	if rounded < 0 {
		return codeZero
	}
	return rounded + codeLow
}

func decode(code int64) float64 {
	switch code {
	case codeGap:
		return math.NaN()
	case codeZero:
		return 0
	}
	return math.Float64frombits(uint64(code-codeLow+lowBits) << dropped)
}

// The kinds of packed series.
const (
	packedValues = 1 // a value each
	packedSpread = 2 // with the lowest and the highest
)

// Pack writes points in a few bytes each: as the difference to the one before, and runs of
// the same as one. With spread the lowest and the highest are kept beside the mean.
//
//	kind
//	0, length - 1: a run of points that are as the one before
//	difference + 1, zigzag; with spread: mean - lowest, highest - mean
func Pack(points []Point, spread bool) []byte {
	packed := []byte{packedValues}
	if spread {
		packed[0] = packedSpread
	}
	var last [3]int64
	run := uint64(0)
	flush := func() {
		if run > 0 {
			packed = binary.AppendUvarint(append(packed, 0), run-1)
			run = 0
		}
	}
	for _, p := range points {
		now := [3]int64{encode(p.Mean)}
		if spread && now[0] != codeGap {
			now[1], now[2] = max(0, now[0]-encode(p.Min)), max(0, encode(p.Max)-now[0])
		}
		if now == last {
			run++
			continue
		}
		flush()
		packed = binary.AppendUvarint(packed, zigzag(now[0]-last[0])+1)
		if spread {
			packed = binary.AppendUvarint(binary.AppendUvarint(packed, uint64(now[1])), uint64(now[2]))
		}
		last = now
	}
	if last[0] != codeGap {
		flush() // gaps at the end go without saying
	}
	return packed
}

func zigzag(n int64) uint64 { return uint64(n)<<1 ^ uint64(n>>63) }

func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

var errPacked = errors.New("a packed series is damaged")

// Unpack reads what Pack wrote, of at most so many points; those that are missing at its end are gaps.
func Unpack(packed []byte, most int) ([]Point, error) {
	if len(packed) == 0 || packed[0] != packedValues && packed[0] != packedSpread {
		return nil, errPacked
	}
	spread := packed[0] == packedSpread
	r := reader{rest: packed[1:]}
	points := make([]Point, 0, most)
	last, at := [3]int64{}, Gap()
	for len(r.rest) > 0 && !r.bad {
		token := r.number()
		if token == 0 {
			run := r.number()
			if r.bad || run >= uint64(most-len(points)) {
				return nil, errPacked
			}
			for range run + 1 {
				points = append(points, at)
			}
			continue
		}
		last[0] += unzigzag(token - 1)
		if spread {
			last[1], last[2] = int64(r.number()), int64(r.number())
		}
		if r.bad || len(points) == most || !valid(last) {
			return nil, errPacked
		}
		at = Point{decode(last[0]), decode(max(codeZero, last[0]-last[1])), decode(last[0] + last[2])}
		if last[0] == codeGap {
			at = Gap()
		}
		points = append(points, at)
	}
	if r.bad {
		return nil, errPacked
	}
	for len(points) < most {
		points = append(points, Gap())
	}
	return points, nil
}

func valid(codes [3]int64) bool {
	return codes[0] >= codeGap && codes[0] <= codeHigh && codes[1] >= 0 && codes[1] <= codes[0] && codes[2] >= 0 && codes[0]+codes[2] <= codeHigh
}

type reader struct {
	rest []byte
	bad  bool
}

// mostNumber is beyond any number in a packed series.
const mostNumber = 1 << 32

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > mostNumber {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// PackSlice writes a few steps of all metrics of a node, oldest first.
//
//	per metric of which anything is known: its number, the length of its series, the series
func PackSlice(steps []Values) []byte {
	var packed []byte
	points := make([]Point, len(steps))
	for m := Up; m < end; m++ {
		known := false
		for i := range steps {
			points[i] = At(steps[i][m])
			known = known || points[i].Known()
		}
		if !known {
			continue
		}
		series := Pack(points, false)
		packed = binary.AppendUvarint(append(packed, byte(m)), uint64(len(series)))
		packed = append(packed, series...)
	}
	return packed
}

// UnpackSlice calls each for the series in what PackSlice wrote of so many steps. Metrics of a newer steward
// are left out.
func UnpackSlice(packed []byte, steps int, each func(Metric, []Point)) error {
	for len(packed) > 0 {
		m := Metric(packed[0])
		r := reader{rest: packed[1:]}
		length := r.number()
		if r.bad || length > uint64(len(r.rest)) {
			return errPacked
		}
		if m >= Up && m < end {
			points, err := Unpack(r.rest[:length], steps)
			if err != nil {
				return err
			}
			each(m, points)
		}
		packed = r.rest[length:]
	}
	return nil
}
