package process

import "time"

// lasting is how long a server has to run for its end to be no sequel of those before.
const lasting = 30 * time.Second

// Backoff says how long to wait before a server is started that has ended: not at all when it had run for a while, then
// First, doubling to Longest.
type Backoff struct {
	First, Longest time.Duration
	ends           int
}

// Ended counts an end of the server after it has run for so long, and returns the pause before its next start.
func (b *Backoff) Ended(after time.Duration) time.Duration {
	if after >= lasting {
		b.ends = 0
	}
	b.ends++
	if b.ends == 1 {
		return 0
	}
	const doublings = 20 // of no more than that is a duration
	return min(b.First<<min(b.ends-2, doublings), b.Longest)
}

// Ends is how often in a row the server has ended soon after its start.
func (b *Backoff) Ends() int { return b.ends }

// Reset forgets those ends.
func (b *Backoff) Reset() { b.ends = 0 }
