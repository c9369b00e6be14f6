// Package regions is one platform made of several: this host, and others, each of which is a region's. A region that can't
// be reached is degraded: it is tried again, what would change something there is refused at once, and the others notice nothing.
package regions
