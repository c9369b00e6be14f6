package mysql

import "time"

// SetCopyLockWait sets how long a copy waits for one lock.
func (d *Driver) SetCopyLockWait(most time.Duration) { d.copyLockWait = most }
