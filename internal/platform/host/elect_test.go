package host

import "testing"

func TestElect(t *testing.T) {
	replicas := func(c ...candidate) []candidate { return c }
	one := candidate{Ordinal: 1, Whole: true, Answers: true, Received: 100}
	two := candidate{Ordinal: 2, Whole: true, Answers: true, Received: 101}
	silent := candidate{Ordinal: 2, Whole: true}
	empty := candidate{Ordinal: 2}
	for _, c := range []struct {
		name string
		in   plight
		want verdict
	}{
		{"drained to the furthest", plight{Files: true, CanDrain: true, Replicas: replicas(one, two)}, verdict{remedyPromote, 2, false}},
		{"the lower of equals", plight{Files: true, CanDrain: true, Replicas: replicas(one, candidate{2, true, true, 100})}, verdict{remedyPromote, 1, false}},
		{"drained though a replica is silent", plight{Files: true, CanDrain: true, Replicas: replicas(one, silent)}, verdict{remedyPromote, 1, false}},
		{"synchronous: the furthest has it all", plight{Files: true, Synchronous: true, Replicas: replicas(one, two)}, verdict{remedyPromote, 2, false}},
		{"synchronous without files", plight{Synchronous: true, Replicas: replicas(one, two)}, verdict{remedyPromote, 2, false}},
		{"synchronous, the other has no data", plight{Synchronous: true, Replicas: replicas(one, empty)}, verdict{remedyPromote, 1, false}},
		{"synchronous, one is silent: the files have it", plight{Files: true, Synchronous: true, Replicas: replicas(one, silent)}, verdict{Remedy: remedyRestart}},
		{"synchronous, one is silent, no files: it may know more", plight{Synchronous: true, Replicas: replicas(one, silent)}, verdict{Remedy: remedyAwait}},
		{"… but not for ever", plight{Synchronous: true, Waited: true, Replicas: replicas(one, silent)}, verdict{remedyPromote, 1, true}},
		{"asynchronous: the files have more than any replica", plight{Files: true, Replicas: replicas(one, two)}, verdict{Remedy: remedyRestart}},
		{"… unless they can't be served", plight{Files: true, Tried: true, Replicas: replicas(one, two)}, verdict{remedyPromote, 2, true}},
		{"asynchronous without files", plight{CanDrain: true, Replicas: replicas(one, two)}, verdict{remedyPromote, 2, true}},
		{"asynchronous without files, one silent", plight{Replicas: replicas(one, silent)}, verdict{Remedy: remedyAwait}},
		{"no replica: restart", plight{Files: true, CanDrain: true, Replicas: replicas(silent, empty)}, verdict{Remedy: remedyRestart}},
		{"no replica, the restart failed: one may come", plight{Files: true, Tried: true, Replicas: replicas(silent)}, verdict{Remedy: remedyAwait}},
		{"nobody else is left", plight{Files: true, Tried: true, Replicas: replicas(empty)}, verdict{Remedy: remedyRestart}},
		{"nothing is left", plight{Replicas: replicas(empty)}, verdict{Remedy: remedyNone}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := elect(c.in); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// Of every plight there is: what was acknowledged isn't risked where it can be
// had, and nobody without the cluster's data is ever promoted.
func TestElectRisksNothing(t *testing.T) {
	const flags = 9
	for bits := range 1 << flags {
		bit := func(n int) bool { return bits&(1<<n) != 0 }
		p := plight{
			Files: bit(0), CanDrain: bit(1), Synchronous: bit(2), Tried: bit(3), Waited: bit(4),
			Replicas: []candidate{
				{Ordinal: 1, Whole: bit(5), Answers: bit(6), Received: 7},
				{Ordinal: 2, Whole: bit(7), Answers: bit(8), Received: 8},
			},
		}
		v := elect(p)
		if v.Remedy == remedyRestart && !p.Files {
			t.Fatalf("%+v: a server without data is started", p)
		}
		if v.Remedy != remedyPromote {
			continue
		}
		heir := p.Replicas[v.Heir-1]
		if !heir.Whole || !heir.Answers {
			t.Fatalf("%+v: node %d is promoted", p, v.Heir)
		}
		other := p.Replicas[2-v.Heir]
		if other.Whole && other.Answers && other.Received > heir.Received {
			t.Fatalf("%+v: node %d is further", p, other.Ordinal)
		}
		known := p.Synchronous && (!other.Whole || other.Answers)
		safe := p.Files && p.CanDrain || known
		if !safe && !v.MayLose {
			t.Fatalf("%+v: nobody is told of what may be lost", p)
		}
		if v.MayLose && (safe || p.Files && !p.Tried) {
			t.Fatalf("%+v: writes are risked without need", p)
		}
	}
}
