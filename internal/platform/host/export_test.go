package host

import "context"

// ScopeOf is for tests that look for processes by their mark.
func ScopeOf(dir string) string { return scopeOf(dir) }

// RemoveGroups takes the folder of all control groups away.
func RemoveGroups(ctx context.Context, d *Driver) error { return d.groups.Close(ctx) }
