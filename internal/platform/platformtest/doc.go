// Package platformtest is the suite that every platform.Driver passes: whole
// lives of clusters, seen from outside. What differs between platforms is in a
// Bench.
package platformtest
