package monitor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Sample is what is kept of a check.
type Sample struct {
	Service ServiceID
	// Started is kept to the hundredth of a second, Took to the millisecond.
	Started time.Time
	Took    time.Duration
	Class   Class
}

const (
	startedUnit = 10 * time.Millisecond
	tookUnit    = time.Millisecond
)

// codes are the classes as they are packed. The order is a stored format: new
// classes go to the end.
var codes = []Class{
	OK, NotResolved, Refused, Reset, TimedOut, TLS, BadStatus, BadRedirect, TextNotFound, Protocol, Blocked, Unreachable, Inconclusive,
}

// PackSamples writes samples in a few bytes each: by service, every time as the
// difference to the one before, with one more byte for what isn't OK. They are
// sorted on the way. start is when the first began.
//
//	version
//	per service: id - previous id, number of samples, then per sample:
//	  (started - previous started) / 10 ms, took / 1 ms * 2 + (1 when not OK), [class]
func PackSamples(samples []Sample) (start time.Time, packed []byte) {
	if len(samples) == 0 {
		return time.Time{}, nil
	}
	slices.SortFunc(samples, func(a, b Sample) int {
		if a.Service != b.Service {
			return int(a.Service - b.Service)
		}
		return a.Started.Compare(b.Started)
	})
	start = slices.MinFunc(samples, func(a, b Sample) int { return a.Started.Compare(b.Started) }).Started.Truncate(startedUnit)
	packed = append(packed, packedVersion)
	var last ServiceID
	for len(samples) > 0 {
		id := samples[0].Service
		n := slices.IndexFunc(samples, func(s Sample) bool { return s.Service != id })
		if n < 0 {
			n = len(samples)
		}
		packed = binary.AppendUvarint(packed, uint64(id-last))
		packed = binary.AppendUvarint(packed, uint64(n))
		packed = packService(packed, start, samples[:n])
		samples, last = samples[n:], id
	}
	return start, packed
}

const packedVersion = 1

func packService(packed []byte, start time.Time, samples []Sample) []byte {
	last := int64(0)
	for _, s := range samples {
		at := int64(s.Started.Sub(start) / startedUnit)
		packed = binary.AppendUvarint(packed, uint64(at-last))
		last = at
		took := uint64(max(s.Took, 0)/tookUnit) << 1
		if s.Class == OK {
			packed = binary.AppendUvarint(packed, took)
			continue
		}
		packed = append(binary.AppendUvarint(packed, took|1), byte(max(slices.Index(codes, s.Class), 0)))
	}
	return packed
}

var errPacked = errors.New("packed samples are damaged")

// UnpackSamples calls each for what PackSamples wrote, by service and time. It
// stops early when each returns false.
func UnpackSamples(start time.Time, packed []byte, each func(Sample) bool) error {
	if len(packed) == 0 {
		return nil
	}
	if packed[0] != packedVersion {
		return fmt.Errorf("packed samples have version %d, this steward knows %d", packed[0], packedVersion)
	}
	r := packedReader{rest: packed[1:]}
	var id ServiceID
	for len(r.rest) > 0 && !r.bad {
		id += ServiceID(r.number())
		at := start
		for n := r.number(); n > 0 && !r.bad; n-- {
			at = at.Add(time.Duration(r.number()) * startedUnit)
			took := r.number()
			s := Sample{Service: id, Started: at, Took: time.Duration(took>>1) * tookUnit, Class: OK}
			if took&1 == 1 {
				s.Class = r.class()
			}
			if !r.bad && !each(s) {
				return nil
			}
		}
	}
	if r.bad {
		return errPacked
	}
	return nil
}

type packedReader struct {
	rest []byte
	bad  bool
}

// mostPacked bounds a number: as hundredths of a second, far more than a century.
const mostPacked = 1 << 39

func (r *packedReader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > mostPacked {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *packedReader) class() Class {
	if len(r.rest) == 0 || int(r.rest[0]) >= len(codes) {
		r.bad = true
		return ""
	}
	c := codes[r.rest[0]]
	r.rest = r.rest[1:]
	return c
}

// Hour sums up the checks of a service that began within one hour. Inconclusive
// ones don't count.
type Hour struct {
	Service  ServiceID
	Hour     time.Time
	Checks   int
	Failures int
	Total    time.Duration
	Longest  time.Duration
}

// Add counts a sample in.
func (h *Hour) Add(s Sample) {
	if s.Class == Inconclusive {
		return
	}
	h.Checks++
	if s.Class != OK {
		h.Failures++
	}
	h.Total += s.Took
	h.Longest = max(h.Longest, s.Took)
}

// Merge counts another sum in.
func (h *Hour) Merge(o Hour) {
	h.Checks += o.Checks
	h.Failures += o.Failures
	h.Total += o.Total
	h.Longest = max(h.Longest, o.Longest)
}

// Uptime is which part of the checks was good, in percent; nil without checks.
func (h Hour) Uptime() *float64 {
	if h.Checks == 0 {
		return nil
	}
	return new(float64(h.Checks-h.Failures) / float64(h.Checks) * 100)
}

// Mean is how long a check took; 0 without checks.
func (h Hour) Mean() time.Duration {
	if h.Checks == 0 {
		return 0
	}
	return h.Total / time.Duration(h.Checks)
}
