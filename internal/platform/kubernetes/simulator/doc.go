// Package simulator plays CloudNativePG, the kubelet and the load balancer for tests: it makes of clusters' objects Pods with
// real PostgreSQL servers behind them, and says of them what the real operator was seen to say, also where that isn't so.
// Its servers listen on loopback addresses of their own.
package simulator
