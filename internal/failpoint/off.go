//go:build !failpoint

package failpoint

// Enabled tells whether this build can be killed at a failpoint.
const Enabled = false

// Here is a no-op in this build.
func Here(string) {}
