// Package kernel lets customers reach their databases by the kernel's own tables.
package kernel
