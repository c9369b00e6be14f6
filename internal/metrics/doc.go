// Package metrics shows Prometheus what steward knows: each type collects when it is
// scraped, and none is on the way of a request.
package metrics
