// Command steward serves managed databases and managed monitoring over one JSON
// API, and is its command line.
package main

import (
	"os"

	"steward/internal/cli"
	"steward/internal/heap"
)

func main() {
	heap.Begin()
	os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
